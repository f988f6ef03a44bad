"""What the figures of Cui et al. 2024 are made of: the best penalty, drawn spectra, and judgements that can fail."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import scalar_function
from gradstep.papers import cui2024
from gradstep.papers.cui2024.drawn import feature_eigenvalues, spiked_layer
from gradstep.papers.cui2024.experiments import drawn_curves, vocabulary
from gradstep.papers.cui2024.experiments.measured import extrapolate
from gradstep.papers.figure import Figure, load_figures
from gradstep.papers.outcome import Judged
from gradstep.simulation.instance import fit_sample

LAMBDA = np.geomspace(1e-6, 1e8, 2001)


def at(sigma: str, sigma_star: str, r: float, lam: np.ndarray, **fit: float) -> np.ndarray:
    """Errors over the penalty, by way of a bias of zero."""
    spike = {"r": r, "c": fit.pop("c", 1.0), "gamma": fit.pop("gamma", 1.0)}
    return cui2024.biased_statistics(sigma, sigma_star, **spike, b=0.0, lam=lam, **fit).test_error


@pytest.mark.parametrize(
    ("sigma", "sigma_star", "r", "fit"),
    [
        ("erf", "sin", 1.0, {"alpha": 12.0, "beta": 4.0}),
        ("erf", "sin", 2.8, {"alpha": 20.0, "beta": 4.0}),
        ("tanh", "tanh", 0.7, {"alpha": 2.0, "beta": 0.8, "c": 1.3, "gamma": 0.8, "sigma_eps": 0.3}),
        ("relu", "softplus", 1.2, {"alpha": 5.0, "beta": 2.0}),
    ],
)
def test_best_penalty_is_the_lowest_of_all(sigma: str, sigma_star: str, r: float, fit: dict[str, float]) -> None:
    found = cui2024.best_penalty(sigma, sigma_star, r=r, **fit)
    errors = at(sigma, sigma_star, r, LAMBDA, **fit)
    assert found.test_error <= errors.min() * (1 + 1e-9)
    assert found.lam == pytest.approx(LAMBDA[np.argmin(errors)], rel=0.05)
    spike = {name: fit[name] for name in ("c", "gamma") if name in fit}
    assert float(cui2024.lower_bound(sigma, sigma_star, r=r, **spike)) < found.test_error
    assert found.test_error < float(cui2024.upper_bound(sigma, sigma_star, r=r, **spike))


def test_infinite_penalty_where_nothing_else_helps() -> None:
    """A target that is a multiple of mu_0: the upper bound vanishes, and any finite penalty only adds noise."""
    # E erf(r kappa + z) = erf(r kappa / sqrt 3).
    found = cui2024.best_penalty("erf", "erf", r=np.sqrt(3), alpha=2.0, sigma_eps=0.5)
    assert found.lam == np.inf
    assert found.test_error == float(cui2024.upper_bound("erf", "erf", r=np.sqrt(3)))


def test_eigenvalues_are_those_of_the_whole_sample() -> None:
    layer, sigma = spiked_layer(3, 30, 20, r=1.0, c=1.2, gamma=0.9), scalar_function("tanh")
    inputs = np.concatenate([x for x, _ in fit_sample(3, 70, 20).blocks()])
    singular = np.linalg.svd(np.tanh(inputs @ layer.weights.T), compute_uv=False)
    np.testing.assert_allclose(feature_eigenvalues(layer, sigma, n=70, seed=3), singular[::-1] ** 2 / 70, rtol=1e-10)


def test_extrapolation_cancels_terms_of_order_one_over_d() -> None:
    found = extrapolate(lambda d: {"number": 1 + 3 / d, "array": np.array([2.0, 5 - 7 / d])}, 40)
    assert found["number"] == pytest.approx(1.0)
    np.testing.assert_allclose(found["array"], [2.0, 5.0])


def figure(name: str) -> Figure:
    (found,) = load_figures([name])
    return found


def test_vocabularies_make_steps_of_the_same_strength() -> None:
    """What Result 3.1 says of the mean square of the spikes and of the bulk's growth does not see the vocabulary."""
    own = figure("fig6_vocabulary")
    sizes = []
    for curve in own.settings["curves"]:
        groups = vocabulary.groups_of(own.at("quick").parameters(curve))
        sizes.append([groups.fractions @ groups.strengths[:, 0] ** 2, groups.fractions @ groups.variances])
    assert len(sizes) == 3
    np.testing.assert_allclose(sizes, [sizes[0]] * 3, rtol=1e-12)


def test_a_wrong_order_of_the_widths_is_seen() -> None:
    own = figure("fig5_width")
    curves = own.settings["curves"]
    means = dict(zip([curve["label"] for curve in curves], (0.3, 0.2, 0.1), strict=True))

    def judged(order: list[dict[str, object]]) -> list[bool]:
        changed = dataclasses.replace(own, settings={**own.settings, "curves": order})
        drawn = [
            Judged.at(m, [m, m + 0.01, m - 0.01], curve=f"{label}, spiked features", place=1.0)
            for label, m in means.items()
        ]
        return [check.passed for check in drawn_curves.falling(changed.at("quick"), drawn)]

    assert judged(list(curves)) == [True, True, True]
    assert judged(list(curves)[::-1]) == [False, False, False]


def test_lines_over_networks_are_the_networks_and_those_over_drawn_models_the_papers() -> None:
    own = figure("fig5_width")
    results = [{"test_error": 0.1 + k % 5 / 100} for k in range(len(own.tasks("quick")))]
    outcome = own.assemble("quick", results).outcome
    base = own.settings["base"]
    for panel, model in zip(outcome.panels, ("srf", "network"), strict=True):
        for line, curve in zip(panel.lines, own.settings["curves"], strict=True):
            beta = curve["parameters"]["beta"]
            step = {"eta_tilde": base["eta_per_d"] / beta, "alpha0": base["alpha0"], "lam": base["lam"], "beta": beta}
            if model == "srf":
                expected = cui2024.summary_statistics("tanh", "tanh", alpha=line.x, **step).test_error
                np.testing.assert_allclose(line.y, expected, rtol=1e-9)
            else:
                # Terms of order 1/d are left at a finite size.
                problems = [gs.Problem.cui2024(alpha=x, d=10**7, **step) for x in line.x[::13]]
                expected = [p.test_error for p in gs.predict_many(problems)]
                np.testing.assert_allclose(line.y[::13], expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["fig2_tanh", "fig2_sin"])
def test_dashes_are_the_papers_model(name: str) -> None:
    own = figure(name)
    base = own.settings["base"]
    shared = {"eta_tilde": base["eta_tilde"], "lam": base["lam"], "beta": base["beta"]}
    results = [{"test_error": 0.1 + k % 5 / 100} for k in range(len(own.tasks("quick")))]
    lines = own.assemble("quick", results).outcome.panels[0].lines
    dashed = [line for line in lines if line.style == "dashed"]
    shown = [float(curve["parameters"]["alpha0"]) for curve in own.settings["curves"] if curve.get("limit")]
    assert len(dashed) == len(shown) >= 3
    for line, alpha0 in zip(dashed, shown, strict=True):
        expected = cui2024.summary_statistics("tanh", base["teacher"], alpha=line.x, alpha0=alpha0, **shared).test_error
        np.testing.assert_allclose(line.y, expected, rtol=1e-6)
