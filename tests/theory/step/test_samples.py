"""Averages over the samples of a step against drawn samples, also where the network's own output is in the residual."""

from collections.abc import Callable

import numpy as np
import pytest

from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.samples import StepSamples, step_samples
from gradstep.theory.step.weighted_samples import residual_law

NAMES = ("norm", "form_along", "form_square", "gain", "squares_along", "squares_off", "form_with_squares")
NAMES += ("output_along_random", "output_off_random")


def drawn(teacher, own: float, noise: float, d: int, count: int, seed: int, *, classes: bool = False) -> list[float]:
    """Return the averages of `NAMES`, from samples whose residual holds ``-own * t`` along a direction of its own.

    Labels are the teacher, or classes of which the teacher is the mean.
    """
    random = np.random.default_rng([seed, d])
    x = random.standard_normal((count, d))
    y = teacher(x[:, 0])
    y = np.where(2 * random.random(count) < 1 + y, 1.0, -1.0) if classes else y
    r = y - own * x[:, 1] + noise * random.standard_normal(count)
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
    compare(samples, lambda d, seed: drawn(teacher, own, noise, d, round(ratio * d), seed), d, draws)


@pytest.mark.parametrize("ratio", [0.7, 3.0])
@pytest.mark.parametrize("own", [0.0, 0.8])
@pytest.mark.parametrize("text", ["0.4*tanh(2*x)", "0.9*tanh(3*x - 2)"])
def test_classes_are_not_gaussian_noise(text, own, ratio):
    teacher = scalar_function(text)
    samples = step_samples(teacher, 0.0, own**2, 1 / ratio, -own, classes=True)
    compare(samples, lambda d, seed: drawn(teacher, own, 0.0, d, round(ratio * d), seed, classes=True), 150, 24)


def test_classes_without_noise_are_the_labels_themselves():
    sign = scalar_function("sign(x - 0.3)")
    found, expected = (step_samples(sign, 0.1, 0.04, 0.7, 0.2, classes=classes) for classes in (True, False))
    for name in NAMES:
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)


def compare(samples: StepSamples, averages: Callable[[int, int], list[float]], d: int, draws: int) -> None:
    """Compare the averages of `NAMES` with those of draws of a dimension with a seed."""
    small = [averages(d, k) for k in range(2 * draws)]
    large = [averages(2 * d, k) for k in range(draws)]
    # At two sizes, so that what falls like 1/d is taken out.
    mean = 2 * np.mean(large, axis=0) - np.mean(small, axis=0)
    error = np.hypot(2 * np.std(large, axis=0) / draws**0.5, np.std(small, axis=0) / (2 * draws) ** 0.5)
    z = (mean - [getattr(samples, name) for name in NAMES]) / error
    assert np.abs(z).max() < 4.5, dict(zip(NAMES, z, strict=True))
