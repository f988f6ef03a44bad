"""Bounds on the test error after one large step: attained, approached, never crossed."""

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.theory.bounds import best_linear_error, best_step, lower_bound, upper_bound
from gradstep.theory.large_step import solve
from gradstep.theory.spiked_features import conditional_moments, spike


def test_bounds_bracket_the_best_penalty(case: tuple[str, str, float, float, float]) -> None:
    activation, teacher, step_size, step_ratio, noise = case
    model = spike(activation, teacher, step_size=step_size, step_sample_ratio=step_ratio, noise=noise)
    table = conditional_moments(activation, teacher, model)
    result = solve(
        table,
        model,
        sample_ratio=np.array([0.05, 0.5, 2.0, 50.0])[:, None],
        width_ratio=1.5,
        penalty=np.geomspace(1e-8, 1e8, 60),
        noise=noise,
    )
    best = result.test_error.min(axis=1)
    assert (best <= upper_bound(table) + 1e-7).all()
    assert (best >= lower_bound(table)).all()


def test_infinite_penalty_reaches_the_upper_bound(common_case: tuple[str, str, float, float, float]) -> None:
    activation, teacher, step_size, step_ratio, noise = common_case
    model = spike(activation, teacher, step_size=step_size, step_sample_ratio=step_ratio, noise=noise)
    table = conditional_moments(activation, teacher, model)
    result = solve(table, model, sample_ratio=2, width_ratio=0.7, penalty=1e10, noise=noise)
    assert float(result.test_error) == pytest.approx(float(upper_bound(table)), abs=1e-8)
    overlap = (table.weights * table.mean * table.teacher_mean).sum() / (table.weights * table.mean**2).sum()
    assert float(result.readout_mean) == pytest.approx(overlap, rel=1e-7)


def test_lower_bound_is_approached_by_many_samples_and_neurons() -> None:
    model = spike("tanh", "sin", step_size=3, step_sample_ratio=20)
    table = conditional_moments("tanh", "sin", model)
    gaps = [
        float(
            solve(table, model, sample_ratio=size**2, width_ratio=size, penalty=1e-6 / size).test_error
            - lower_bound(table)
        )
        for size in (10.0, 100.0, 1000.0)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.02 * gaps[0]


@pytest.mark.parametrize(
    ("activation", "teacher"), [("tanh", "sin"), ("tanh", "relu"), ("tanh", "H2"), ("relu", "sin")]
)
def test_folded_tables_give_the_same(activation: str, teacher: str) -> None:
    model = spike(activation, teacher, step_size=[0.0, 2.0], step_sample_ratio=3.0, noise=0.1)
    tables = [conditional_moments(activation, teacher, model, folded=folded) for folded in (False, True)]
    assert (tables[1].nodes.min() > 0) == (teacher == "sin" and activation == "tanh")
    ratios = {"sample_ratio": [[0.4], [3.0]], "width_ratio": 1.2, "penalty": 1e-3, "noise": 0.1}
    for function in (upper_bound, lower_bound, lambda table: solve(table, model, **ratios).test_error):
        np.testing.assert_allclose(function(tables[1]), function(tables[0]), rtol=1e-12, atol=1e-14)


def test_best_step_of_matching_erf_is_perfect() -> None:
    best = best_step("erf", "erf", bound="upper")
    assert best.strength == pytest.approx(np.sqrt(3), rel=1e-6)
    assert best.step_size == pytest.approx(3 * np.sqrt(3) * np.pi / 4, rel=1e-6)
    assert abs(best.error) < 1e-12
    assert best_step("tanh", "sin", bound="lower").error <= best_step("tanh", "sin", bound="upper").error


def test_best_step_without_a_minimum_says_so() -> None:
    best = best_step("erf", "sign", bound="upper", largest_strength=15.0)
    assert best.step_size == np.inf
    assert best.strength == 15.0


def test_best_linear_error() -> None:
    assert best_linear_error("sign") == pytest.approx(1 - 2 / np.pi, rel=1e-9)
    assert best_linear_error("linear") == pytest.approx(0, abs=1e-9)


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(InvalidInput, match="bound"):
        best_step("tanh", "tanh", bound="middle")
    for strength in (0.0, 0.01, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidInput, match="largest_strength"):
            best_step("tanh", "tanh", largest_strength=strength)
    with pytest.raises(InvalidInput, match="linear part"):
        best_step("tanh", "cos")
