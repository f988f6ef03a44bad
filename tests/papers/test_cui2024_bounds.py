"""Bounds on the test error after one large step: attained, approached, never crossed."""

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.papers.cui2024.bounds import best_linear, best_step, lower_bound, upper_bound
from gradstep.papers.cui2024.errors import solve
from gradstep.papers.cui2024.spiked import equivalent_features, equivalent_srf


def spike_of(activation: str, teacher: str, **step: float) -> dict[str, np.ndarray]:
    return dict(zip(("r", "c", "gamma"), equivalent_srf(activation, teacher, **step), strict=True))


def test_bounds_bracket_the_best_penalty(case: tuple[str, str, float, float, float]) -> None:
    activation, teacher, step_size, step_ratio, noise = case
    spike = spike_of(activation, teacher, eta_tilde=step_size, alpha0=step_ratio, sigma_eps=noise)
    result = solve(
        equivalent_features(activation, teacher, **spike),
        alpha=np.array([0.05, 0.5, 2.0, 50.0])[:, None],
        beta=1.5,
        lam=np.geomspace(1e-8, 1e8, 60),
        sigma_eps=noise,
    )
    best = result.test_error.min(axis=1)
    assert (best <= upper_bound(activation, teacher, **spike) + 1e-7).all()
    assert (best >= lower_bound(activation, teacher, **spike)).all()


def test_infinite_penalty_reaches_the_upper_bound(common_case: tuple[str, str, float, float, float]) -> None:
    activation, teacher, step_size, step_ratio, noise = common_case
    spike = spike_of(activation, teacher, eta_tilde=step_size, alpha0=step_ratio, sigma_eps=noise)
    table = equivalent_features(activation, teacher, **spike)
    result = solve(table, alpha=2, beta=0.7, lam=1e10, sigma_eps=noise)
    bound = upper_bound(activation, teacher, **spike)
    assert float(result.test_error) == pytest.approx(float(bound), abs=1e-8)
    overlap = (table.weights * table.mean * table.teacher_mean).sum() / (table.weights * table.mean**2).sum()
    assert float(result.readout_mean) == pytest.approx(overlap, rel=1e-7)


def test_lower_bound_is_approached_by_many_samples_and_neurons() -> None:
    spike = spike_of("tanh", "sin", eta_tilde=3, alpha0=20)
    table, bound = equivalent_features("tanh", "sin", **spike), lower_bound("tanh", "sin", **spike)
    gaps = [
        float(solve(table, alpha=size**2, beta=size, lam=1e-6 / size).test_error - bound)
        for size in (10.0, 100.0, 1000.0)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.02 * gaps[0]


@pytest.mark.parametrize(
    ("activation", "teacher"), [("tanh", "sin"), ("tanh", "relu"), ("tanh", "H2"), ("relu", "sin")]
)
def test_folded_tables_give_the_same(activation: str, teacher: str) -> None:
    spike = spike_of(activation, teacher, eta_tilde=[0.0, 2.0], alpha0=3.0, sigma_eps=0.1)
    whole, folded = (equivalent_features(activation, teacher, **spike, folded=folded) for folded in (False, True))
    assert (folded.nodes.min() > 0) == (teacher == "sin" and activation == "tanh")
    ratios = {"alpha": [[0.4], [3.0]], "beta": 1.2, "lam": 1e-3, "sigma_eps": 0.1}
    errors = [solve(table, **ratios).test_error for table in (folded, whole)]
    np.testing.assert_allclose(*errors, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("activation", "teacher"), [("tanh", "sin"), ("tanh", "relu"), ("tanh", "H2"), ("relu", "sin"), ("linear", "sin")]
)
def test_bounds_are_distances_to_a_span(activation: str, teacher: str) -> None:
    """Least squares over the whole line of kappa, with the slope along the teacher's rest as one more unknown."""
    spike = spike_of(activation, teacher, eta_tilde=[0.0, 2.0], alpha0=3.0, sigma_eps=0.1)
    table = equivalent_features(activation, teacher, **spike)
    for k in range(2):
        root = np.sqrt(table.weights[k])
        tilt, zero = table.nodes[k] * table.slope[k], np.zeros_like(root)
        # Functions of kappa, then what multiplies zeta, which is orthogonal to them.
        target = np.concatenate([root * table.teacher_mean[k], root * table.teacher_slope[k]])
        pairs = (table.mean[k], zero), (tilt, zero), (zero, table.slope[k])
        span = np.stack([np.concatenate([root * first, root * second]) for first, second in pairs])
        own = {name: value[k] for name, value in spike.items()}
        for bound, basis in ((upper_bound, span[:1]), (lower_bound, span)):
            coefficients = np.linalg.lstsq(basis.T, target, rcond=1e-10)[0]
            expected = ((target - coefficients @ basis) ** 2).sum() + table.weights[k] @ table.teacher_variance[k]
            assert float(bound(activation, teacher, **own)) == pytest.approx(expected, rel=1e-12, abs=1e-14)


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


def test_best_linear() -> None:
    assert best_linear("sign") == pytest.approx(1 - 2 / np.pi, rel=1e-9)
    assert best_linear("linear") == pytest.approx(0, abs=1e-9)


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(InvalidInput, match="bound"):
        best_step("tanh", "tanh", bound="middle")
    for strength in (0.0, 0.01, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidInput, match="largest_strength"):
            best_step("tanh", "tanh", largest_strength=strength)
    with pytest.raises(InvalidInput, match="linear part"):
        best_step("tanh", "cos")
