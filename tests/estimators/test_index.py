"""Gradients of a network, and what halves imply."""

import math

import numpy as np
import pytest

from gradstep.estimators.index import agreement, implied_alignment
from gradstep.estimators.layer import draw
from gradstep.estimators.moves import average_gradients
from gradstep.estimators.rows import HOST, Sample
from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.leave_one_out import copies_of


def test_average_gradients_are_those_of_the_outputs():
    """Against differences of the outputs themselves."""
    random = np.random.RandomState(0)
    layer = draw(scalar_function("tanh"), 7, 4, 2, offset=1.0, law=Readout.parse("gaussian"), random=random)
    z, coefficients, weights = random.standard_normal((5, 4)), random.standard_normal((7, 2)), np.arange(1.0, 6.0)
    every, y = np.ones(5, dtype=bool), np.zeros((5, 2))
    sample = Sample(z, y, weights, copies_of(np.arange(5, dtype=np.uint64), y, weights), every, every)
    found = average_gradients(layer, coefficients, sample)

    def outputs(rows):
        return layer.features(HOST, rows) @ coefficients

    step = 1e-5 * np.eye(4)
    slopes = np.stack([(outputs(z + e) - outputs(z - e)) / 2e-5 for e in step], axis=2)  # rows, outputs, inputs
    expected = np.einsum("r,rki,rkj->ij", weights / weights.sum(), slopes, slopes)
    np.testing.assert_allclose(found.T @ found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("error", "share"), [(0.1, 1.0), (0.5, 0.75), (2.0, 0.5)])
def test_alignment_of_independent_errors(error, share):
    """Directions ``v + e`` with an error of variance ``error / share`` on a share of the rows."""
    halves = 1 / (1 + 2 * error)
    assert implied_alignment(halves, share) == pytest.approx(1 / math.sqrt(1 + error / share))
    assert implied_alignment(halves) == pytest.approx(math.sqrt(2 * halves / (1 + halves)))


@pytest.mark.parametrize("known", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("inputs", [3, 12])
def test_agreement_of_directions_that_are_right_with_some_probability(inputs, known):
    """Otherwise they are uniform: then the outer product of a direction is ``q v v^T + (1 - q) I / d`` on average."""
    random = np.random.default_rng(0)
    directions = random.standard_normal((2, 20_000, inputs))
    directions[random.random((2, 20_000)) < known] = np.eye(inputs)[0]
    one, other = directions / np.linalg.norm(directions, axis=2, keepdims=True)
    correlations = np.sum(one * other, axis=1)
    deviation = np.std(correlations**2) / math.sqrt(20_000) / (1 - 1 / inputs)
    assert agreement(correlations, np.ones(inputs)) ** 2 == pytest.approx(known**2, abs=3 * deviation + 1e-12)


def test_agreement_by_chance_in_a_spectrum():
    """Random directions whose projections vary more along some inputs than along others."""
    random, variances = np.random.default_rng(1), np.array([4.0, 2.0, 1.0, 1.0, 0.5, 0.5, 0.1])
    one, other = np.sqrt(variances) * random.standard_normal((2, 4000, 7))
    correlations = np.sum(one * other, axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert agreement(correlations, np.ones(7)) > 0.25  # more than that of as many equal ones
    assert agreement(correlations, variances) < 0.1
    assert agreement(np.array([1.0]), np.array([2.0])) == 1
    assert agreement(np.array([0.0]), np.zeros(3)) == 0
