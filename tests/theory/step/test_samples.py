"""Averages over the samples of a step against drawn samples, also where the network's own output is in the residual."""

import numpy as np
import pytest

from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.weighted_samples import residual_law

NAMES = ("norm", "form_along", "form_square", "gain", "squares_along", "squares_off", "form_with_squares")
NAMES += ("output_along_random", "output_off_random")


def drawn(teacher, own: float, noise: float, d: int, count: int, seed: int) -> list[float]:
    """Return the averages of `NAMES`, from samples whose residual holds ``-own * t`` along a direction of its own."""
    random = np.random.default_rng([seed, d])
    x = random.standard_normal((count, d))
    r = teacher(x[:, 0]) - own * x[:, 1] + noise * random.standard_normal(count)
    g, h = x.T @ r / count, x.T @ r**2 / count
    v = g / np.linalg.norm(g)
    along = x @ v
    form = x.T @ (r * along) / count
    gain = np.mean(r**2 * along**2) / np.mean(r**2)
    # Of the matrix times the output's direction: along the gradient's random rest, and across all three.
    turned, rest = x.T @ (r * x[:, 1]) / count, np.concatenate([[0.0, 0.0], g[2:]]) / np.linalg.norm(g[2:])
    across = np.linalg.norm(turned[2:] - (turned @ rest) * rest[2:])
    found = [np.linalg.norm(g), v @ form, form @ form, gain, h @ v, h @ h - (h @ v) ** 2, h @ form]
    return [*found, turned @ rest, across]


@pytest.mark.parametrize("ratio", [0.7, 3.0])
@pytest.mark.parametrize("own", [0.0, 0.8])
@pytest.mark.parametrize("text", ["x - 0.7", "0.6*x + 0.3*H2 + 0.5", "tanh(x) + 0.4*(x**2 - 1)"])
def test_averages_are_those_of_drawn_samples(text, own, ratio):
    teacher, noise, d, draws = scalar_function(text), 0.5, 150, 24
    variance = noise**2 + own**2
    law = residual_law(teacher, 0.0, variance)
    from_noise = law.residual - teacher(law.projection)
    samples = StepSamples(law, 1 / ratio, moments(teacher).linear, from_noise, variance, -own)
    small = [drawn(teacher, own, noise, d, round(ratio * d), k) for k in range(2 * draws)]
    large = [drawn(teacher, own, noise, 2 * d, round(ratio * 2 * d), k) for k in range(draws)]
    # At two sizes, so that what falls like 1/d is taken out.
    mean = 2 * np.mean(large, axis=0) - np.mean(small, axis=0)
    error = np.hypot(2 * np.std(large, axis=0) / draws**0.5, np.std(small, axis=0) / (2 * draws) ** 0.5)
    z = (mean - [getattr(samples, name) for name in NAMES]) / error
    assert np.abs(z).max() < 4.5, dict(zip(NAMES, z, strict=True))
