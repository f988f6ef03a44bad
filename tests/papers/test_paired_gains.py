"""What a step gains on the same networks, and what a paper claims of its learning curves."""

import dataclasses

import numpy as np
import pytest

from gradstep.papers.experiments import learning_curves
from gradstep.papers.experiments.paired_gains import claim_checks, gain_comparisons
from gradstep.papers.figure import load_figures
from gradstep.papers.outcome import Judged

FIGURES = {figure.name: figure for figure in load_figures(["fig1", "fig3a", "fig3b", "fig3c"])}
SPREAD = np.array([-0.02, 0.01, 0.0, 0.015, -0.005])


def curves(levels, shared=0.1):
    """Return comparisons and their samples: `levels` by curve and place, on networks that err together by `shared`."""
    errors, measured = [], {}
    for curve, by_place in levels.items():
        for x, level in by_place.items():
            measured[curve, x] = level + shared * np.array([1.0, -1.0, 0.5, -0.7, 0.2]) + 0.01 * SPREAD * (1 + level)
            errors.append(Judged.at(level, measured[curve, x].tolist(), curve=curve, place=x, sample=str(x)))
    return errors, measured


def settings(levels, **claims):
    return {
        "base": {"teacher": "erf"},
        "curves": [{"label": label, "regime": "small"} for label in levels],
        "paired": {"curve": next(iter(levels))},
        "claims": claims,
    }


def checks(levels, shared=0.1, **claims):
    errors, measured = curves(levels, shared)
    return [check.passed for check in claim_checks(settings(levels, **claims), errors, measured)]


def test_pairing_takes_the_network_out_of_the_gain():
    levels = {"before": {1.0: 0.5}, "after": {1.0: 0.4}}
    errors, measured = curves(levels)
    (gain,) = gain_comparisons(settings(levels), errors, measured)
    assert gain.theory == pytest.approx(0.1)
    assert gain.mean == pytest.approx(0.1, abs=1e-3)
    assert gain.standard_error < 0.01 * errors[0].standard_error
    assert gain.sample == errors[0].sample
    # A theory of the gain that is off by a tenth is condemned, which the errors alone would not do.
    wrong = [dataclasses.replace(c, theory=c.theory - (0.01 if c.curve == "after" else 0.0)) for c in errors]
    assert abs(gain_comparisons(settings(levels), wrong, measured)[0].z) > 3


def test_an_allowance_of_the_error_becomes_one_of_the_gain():
    levels = {"before": {1.0: 0.5}, "after": {1.0: 0.4}}
    errors, measured = curves(levels)
    errors[1] = dataclasses.replace(errors[1], allowance=0.05, reason="known")
    (gain,) = gain_comparisons(settings(levels), errors, measured)
    assert gain.allowance * gain.theory == pytest.approx(0.05 * 0.4)


@pytest.mark.parametrize(
    ("last", "claims", "passed"),
    [
        (0.03, {"below": "after"}, [True]),
        (0.05, {"below": "after"}, [False]),
        (0.05, {"above": ["after"]}, [True]),
        (0.03, {"above": ["after"]}, [False]),
        (0.03, {"below": "after", "rate_from": 4.0}, [True, True]),
        (0.039, {"below": "after", "rate_from": 4.0}, [True, False]),
    ],
)
def test_the_bound_and_the_rate(last, claims, passed):
    """The bound of an erf teacher is 0.0402; from 0.07 at 4, a rate of d/n gives 0.035 at 8."""
    levels = {"before": {4.0: 0.2, 8.0: 0.1}, "after": {4.0: 0.07, 8.0: last}}
    assert checks(levels, shared=0.0, **claims) == passed


def test_order_and_wane():
    levels = {"0": {1.0: 0.5, 2.0: 0.4}, "1": {1.0: 0.4, 2.0: 0.35}, "2": {1.0: 0.3, 2.0: 0.32}}
    assert checks(levels, order=True, wane=True) == [True, True]
    assert checks({**levels, "2": {1.0: 0.45, 2.0: 0.34}}, order=True, wane=True) == [False, False]


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_paired_curves_share_their_networks_and_others_do_not(name):
    figure = FIGURES[name]
    tasks = figure.tasks("standard")
    count = len(figure.settings["curves"])
    seeds = [task.seed for task in tasks]
    shared = len(seeds) // count if "paired" in figure.settings else len(seeds)
    assert len(set(seeds)) == shared


def test_a_wrong_gain_fails_where_the_errors_pass(measured, quick, monkeypatch):
    honest = learning_curves.predict_many

    def shifted(problems, **models):
        problems = list(problems)
        # The error after the step is a twentieth of the initial one too low.
        return [
            dataclasses.replace(p, test_error=p.test_error * (0.95 if q.step_size else 1.0))
            for p, q in zip(honest(problems, **models), problems, strict=True)
        ]

    figure, results = measured("fig3b")
    honest_z = [c.z for c in quick("fig3b").outcome.comparisons if c.quantity == "gain"]
    monkeypatch.setattr(learning_curves, "predict_many", shifted)
    outcome = figure.assemble("quick", results).outcome
    found = {q: max(abs(c.z) for c in outcome.comparisons if c.quantity == q) for q in ("test error", "gain")}
    assert max(map(abs, honest_z)) < 4
    assert found["gain"] > 4 > found["test error"]
