"""The spiked random features model: against drawn gradient steps, and its quadrature against itself refined."""

from typing import Any

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import scalar_function
from gradstep.gaussian.moments import moments
from gradstep.papers.cui2024.errors import solve
from gradstep.papers.cui2024.spiked import (
    PANEL_TOLERANCE,
    ConditionalMoments,
    Spike,
    conditional_features,
    equivalent_features,
    equivalent_srf,
)


def features_of(sigma: str, sigma_star: str, model: Spike, **options: Any) -> ConditionalMoments:
    r, c, gamma = model
    return equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, **options)


def model_of(strength: float, variance: float, alignment: float) -> Spike:
    return Spike(np.asarray(strength), np.asarray(variance), np.asarray(alignment))


def test_spike_of_a_population_gradient() -> None:
    student, teacher = moments(scalar_function("tanh")), moments(scalar_function("sin"))
    model = equivalent_srf("tanh", "sin", eta_tilde=2, alpha0=np.inf, sigma_eps=0.5)
    assert float(model.strength) == pytest.approx(2 * float(student.linear * teacher.linear))
    assert float(model.bulk_variance) == 1
    assert float(model.alignment) == 1


@pytest.mark.parametrize(
    ("activation", "teacher"),
    [
        pytest.param("tanh", "sin", marks=pytest.mark.statistical),
        ("relu", "relu"),
        pytest.param("relu", "tanh", marks=pytest.mark.statistical),
        pytest.param("softplus", "sin", marks=pytest.mark.statistical),
    ],
)
def test_spike_of_drawn_gradient_steps(activation: str, teacher: str) -> None:
    """Real gradient steps from a constant readout: projections on the gradient's direction and row norms."""
    d, width, ratio, eta, noise = 500, 400, 3.0, 1.5, 0.3
    student, target = scalar_function(activation), scalar_function(teacher)
    model = equivalent_srf(student, target, eta_tilde=eta, alpha0=ratio, sigma_eps=noise)
    generator = np.random.default_rng(5)
    measured = []
    for _ in range(16):
        weights = generator.standard_normal((width, d))
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        inputs = generator.standard_normal((round(ratio * d), d))
        labels = target(inputs[:, 0]) + noise * generator.standard_normal(len(inputs))
        projections = inputs @ weights.T
        residual = labels - student(projections).mean(axis=1)
        stepped = weights + eta * (student.derivative(projections) * residual[:, None]).T @ inputs / len(inputs)
        direction = residual @ inputs
        direction /= np.linalg.norm(direction)
        along = stepped @ direction
        rest = (stepped**2).sum(axis=1).mean() - (along**2).mean()
        measured.append([along.mean(), rest, direction[0]])
    rows = np.array(measured)
    sign = np.sign(moments(student).linear)
    expected = np.array([sign * model.strength, model.bulk_variance, sign * model.alignment])
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    # The limit is reached up to corrections of order 1/d.
    assert (np.abs(rows.mean(axis=0) - expected) <= 4 * error + 4 * np.abs(expected) / d).all()


@pytest.mark.parametrize("penalty", [1e-10, 1e-4, 1.0])
@pytest.mark.parametrize(
    ("activation", "teacher", "strength", "alignment"),
    [("tanh", "relu", 0.8, 0.9), ("tanh", "sign", 20.0, 0.9999), ("erf", "sin", 3.0, 1.0), ("relu", "relu", 2.0, 0.99)],
)
def test_quadrature_is_fine_enough(
    activation: str, teacher: str, strength: float, alignment: float, penalty: float
) -> None:
    model = model_of(strength, 1.2, alignment)
    errors = [
        solve(
            features_of(activation, teacher, model, tolerance=tolerance),
            alpha=[0.3, 1.0, 1.1, 4.0],
            beta=1.0,
            lam=penalty,
            sigma_eps=0.1,
        ).test_error
        for tolerance in (PANEL_TOLERANCE, 1e-3 * PANEL_TOLERANCE)
    ]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-8)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_features_at_a_projection_are_averages_over_the_rest_of_the_input(activation: str) -> None:
    """Coefficients (15) by Monte Carlo, and by the tables of the quadrature at its own nodes."""
    r, c = 1.3, 0.8
    rest = np.random.default_rng(5).standard_normal(400_000)
    for kappa in (-1.5, 0.0, 0.7):
        values = scalar_function(activation)(r * kappa + np.sqrt(c) * rest)
        expected = values.mean(), (rest * values).mean() / np.sqrt(c), values.var() - (rest * values).mean() ** 2
        np.testing.assert_allclose(conditional_features(activation, kappa, r=r, c=c), expected, atol=0.02)
    table = features_of(activation, "sin", model_of(r, c, 0.9))
    found = conditional_features(activation, table.nodes, r=r, c=c)
    used = table.weights > 0
    for one, other in zip(found, (table.mean, table.slope / np.sqrt(c), table.variance), strict=True):
        np.testing.assert_allclose(one[used], other[used], rtol=1e-12, atol=1e-14)


def test_unusable_alignment_is_named() -> None:
    with pytest.raises(InvalidInput, match="gamma"):
        features_of("tanh", "tanh", model_of(1.0, 1.0, 1.5))
