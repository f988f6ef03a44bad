"""Legs of a deviation: what is measured of a first layer, and what is told of both legs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.hunt import legs
from benchmarks.hunt.settings import PENALTIES

import gradstep as gs
from gradstep.sweeps.task import Task

PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=24, width=36, n_step=72, n=72, eta="sqrt(N)", ridge=1.0, noise=0.3
)


def row(**changes: Any) -> dict[str, Any]:
    """Return a row of the search's table that plain fits of today have measured."""
    seeds, penalties = range(40), [factor * PROBLEM.ridge for factor in PENALTIES]  # type: ignore[operator]
    measured = gs.simulate(PROBLEM, seeds, ridge=penalties)
    values = {name: np.asarray(measured[name]) for name in legs.ERRORS}
    means = {name: each.mean(axis=0).tolist() for name, each in values.items()}
    errors = {name: (each.std(axis=0, ddof=1) / 40**0.5).tolist() for name, each in values.items()}
    of_step = {name: [0.0] for name in ("alignment", "spike_strength", "bulk_variance")}
    told = {"mean": {**means, **of_step}, "error": {**errors, **of_step}, "problem": PROBLEM.to_dict()}
    told |= {"name": "0", "d": 24, "levels": [], "member": 0, "point": [], "first_seed": 0, "networks": 40}
    return {**told, **changes}


@pytest.mark.statistical
def test_expected_errors_of_drawn_layers_meet_plain_fits() -> None:
    measured = row()
    parameters = {"problem": measured["problem"], "ridge": list(PENALTIES)}
    layers = [legs.layer(Task("benchmarks.hunt.legs:layer", parameters, seed)) for seed in range(8)]
    told = legs.legs_of(measured, legs.sample_of(layers))
    assert np.abs(np.divide(told["fit"], told["fit_error"])).max() < 3.5
    # The two legs add up to the deviation, and a third of the network's error on either side is seen as what it is.
    shifted = {name: [1.5 * x for x in measured["mean"][name]] for name in measured["mean"]}
    moved = legs.legs_of({**measured, "mean": shifted}, legs.sample_of(layers))
    assert np.all(np.divide(moved["fit"], moved["fit_error"]) < -4)
    worst = {"of": "test_error", "penalty": 1.0, "percent": -33.0, "percent_error": 1.0, "z": -20.0}
    summary = legs.summary([{**moved, "is_off": True, "worst": worst}])
    assert (summary["off"], summary["off_by_rows"], summary["off_by_fit"], summary["fit_suspect"]) == (1, 0, 1, ["0"])


def test_expected_errors_are_read_again(tmp_path: Path) -> None:
    """A table of legs holds all that its legs are made of."""
    random = np.random.default_rng(0)
    known = legs.Sample.of(random.uniform(0.5, 1, (4, len(legs.ERRORS), len(PENALTIES))))
    measured = row()
    told = legs.legs_of(measured, known)
    path = tmp_path / "legs.json"
    path.write_text(json.dumps({"rows": [told, {**told, "name": "unknown"}]}))
    [(same, read)] = legs._known(path, [measured])
    assert same is measured
    again = legs.legs_of(measured, read)
    assert {**again, "expected_error": None} == {**told, "expected_error": None}
    np.testing.assert_allclose(again["expected_error"], told["expected_error"], rtol=1e-12)


def test_a_layer_without_an_answer_says_why() -> None:
    parameters = {"problem": PROBLEM.to_dict(), "ridge": [-1.0]}
    assert "ridge" in legs.layer(Task("benchmarks.hunt.legs:layer", parameters, 0))["failure"]
