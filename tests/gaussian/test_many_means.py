"""Averages at many means of a scale, from few, against closed forms and against each one by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.gaussian import scalar_function, smoothed
from gradstep.gaussian.many_means import at_many_means


def exponential(mean, scale):
    """Return E exp(m + s z) and E exp(2 (m + s z))."""
    return np.stack([np.exp(mean + scale**2 / 2), np.exp(2 * mean + 2 * scale**2)])


def kinked(mean, scale):
    """Return the averages of a function of two kinks and a jump, whose closed forms are tested beside smoothing."""
    found = smoothed(scalar_function("relu(x-0.3)-2*relu(x)+0.5*sign(x+1)"), mean, scale)
    return np.stack([found.mean, found.slope, found.second_moment, found.residual_variance])


@pytest.mark.parametrize("averages", [exponential, kinked])
@given(st.integers(0, 2**16), st.lists(st.floats(0.02, 3), min_size=1, max_size=4, unique=True), st.floats(0.1, 20))
@settings(max_examples=25, deadline=None)
def test_panels_have_the_digits_of_closed_forms(averages, seed, scales, reach):
    random = np.random.default_rng(seed)
    scale = random.choice(np.array([*scales, 0.0]), 1500)
    mean = reach * scale * random.standard_normal(1500)
    expected, found = averages(mean, scale), at_many_means(averages, mean, scale)
    size = np.maximum(np.abs(averages(mean + 4 * scale, scale)), np.abs(averages(mean - 4 * scale, scale)))
    np.testing.assert_array_less(
        np.abs(found - expected), 3e-14 * np.maximum(size, np.abs(expected).max(axis=1)[:, None])
    )


def test_few_points_stand_for_many_means():
    asked = []

    def averages(mean, scale):
        asked.append(len(mean))
        return exponential(mean, scale)

    scale = np.repeat([0.5, 1.0, 2.0], [3000, 3000, 20])
    mean = np.random.default_rng(0).uniform(-3, 3, len(scale))
    found = at_many_means(averages, mean, scale)
    assert asked[0] < 400
    # Those of a scale that few have are taken one by one.
    np.testing.assert_array_equal(found[:, 6000:], exponential(mean, scale)[:, 6000:])
    # With fewer means than points nothing is gained.
    np.testing.assert_array_equal(at_many_means(averages, mean[:70], scale[:70]), exponential(mean[:70], scale[:70]))
    assert asked[1] == 70


@pytest.mark.parametrize("formula", ["log(1+exp(x))", "tanh(2*x)+0.5*cos(x)", "relu(x)+0.5*tanh(2*x)", "gelu(x)"])
def test_a_table_is_that_of_its_entries(formula):
    function, random = scalar_function(formula), np.random.default_rng(1)
    mean, scale = random.normal(0, 2, 1200), np.repeat([[0.3], [1.4]], 1200, axis=1)
    table = smoothed(function, mean, scale)
    for index in random.integers(0, 1200, 20):
        alone = smoothed(function, mean[index], scale[:, index])
        # In units of the function, or of its square. The rules that both take need not be the same.
        square = table.second_moment.max(axis=1)
        for one, of_all, unit in zip(alone, table, (np.sqrt(square), np.sqrt(square), square, square), strict=True):
            np.testing.assert_array_less(np.abs(of_all[:, index] - one), 1e-12 * unit)
