"""Closed laws of several steps on fresh samples, against one step, limits, and real networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.theory.step.fresh_steps import fresh_steps
from gradstep.theory.step.statistics import step_statistics

BASE = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=300, n_step=1200, n=10, eta=gs.Step(1.0, 0.5), ridge=1.0,
    noise=0.3, readout="constant",
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "relu", "teacher": "relu"},
        {"activation": "softplus", "teacher": "tanh(x) + 1"},
        {"readout": {-0.7: 1.0}},
    ],
)
def test_the_first_step_is_that_of_one_step(changes: dict[str, Any]) -> None:
    problem = BASE.replace(**changes)
    (a,), one = problem.readout.values, fresh_steps(problem, 1)[0]
    known = step_statistics(problem, 300, 300, 1200, own_output=False)
    assert one.alignment == pytest.approx(known.alignment, rel=1e-10)
    assert one.spike == pytest.approx(known.spike, rel=1e-10)
    stretch = float(known.stretch(a, a * a))
    assert one.bulk_variance == pytest.approx(stretch**2 + known.bulk * a * a, rel=1e-10)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"activation": "relu", "teacher": "relu"}, marks=pytest.mark.statistical),
        pytest.param({"teacher": "H3 + 0.3*x"}, marks=pytest.mark.statistical),
        pytest.param({"readout": {-0.7: 1.0}, "eta": 20.0}, marks=pytest.mark.statistical),
    ],
)
def test_three_steps_of_real_networks(changes: dict[str, Any]) -> None:
    problem = BASE.replace(**changes)
    (a,), theory, measured = problem.readout.values, fresh_steps(problem, 3), []
    for seed in range(8):
        spikes = [gs.Network(problem, seed).train(steps).spike for steps in (2, 3)]
        size = abs(a) * math.sqrt(problem.width)
        measured.append([(abs(own.alignment), own.strength / size, own.bulk_variance) for own in spikes])
    mean, error = np.mean(measured, axis=0), np.std(measured, axis=0, ddof=1) / math.sqrt(8)
    wanted = np.array([(abs(own.alignment), own.spike, own.bulk_variance) for own in theory[1:]])
    # Terms of order 1/d are left out.
    assert (np.abs(wanted - mean) < 4 * error + 2 / problem.d * np.abs(wanted)).all()


def test_a_linear_network_learns_its_teacher_geometrically_with_the_population_gradient() -> None:
    """``u`` moves by ``e (beta* - u)`` with the readout one and no samples' noise."""
    problem = BASE.replace(activation="linear", teacher="linear", n_step=math.inf, eta=gs.Step(0.3, 0.5), noise=0.0)
    for step, own in enumerate(fresh_steps(problem, 5), start=1):
        assert own.alignment == pytest.approx(1.0, abs=1e-7)
        assert own.spike == pytest.approx(1 - 0.7**step, rel=1e-9)
        assert own.bulk_variance == pytest.approx(1.0)


def test_noise_accumulates_in_the_spike_of_a_linear_network() -> None:
    """With a teacher of zero, u is an autoregression of the noise of the samples."""
    problem = BASE.replace(activation="linear", teacher="0*x", eta=gs.Step(0.3, 0.5), noise=1.0)
    square = 0.0
    for own in fresh_steps(problem, 4):
        square = 0.7**2 * square + 0.09 * 300 / 1200 * (1 + square)
        assert own.spike**2 == pytest.approx(square, rel=1e-9)


def test_the_limit_is_that_of_its_ratios() -> None:
    limit = BASE.replace(
        d=math.inf, width=gs.Proportional(1), n_step=gs.Proportional(4), n=gs.Proportional(1), ridge=gs.Proportional(1)
    )
    for own, other in zip(fresh_steps(limit, 3), fresh_steps(BASE, 3), strict=True):
        assert own.spike == pytest.approx(other.spike, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"readout": "gaussian"}, "readout"),
        ({"output_scale": "1/sqrt(N)"}, "output_scale"),
        ({"teacher": "x1*x2"}, "teacher"),
    ],
)
def test_what_has_no_closed_law_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        fresh_steps(BASE.replace(**changes), 2)
    with pytest.raises(InvalidInput, match="steps"):
        fresh_steps(BASE, 0)
    with pytest.raises(InvalidInput, match="steps"):
        fresh_steps(BASE, 10**20)
