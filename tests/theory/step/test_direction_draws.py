"""Numbers of a damped step that differ between draws: drawn samples, and the plain step as a limit."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.direction_draws import _Jet, class_draws, direction_draws
from gradstep.theory.step.weighted_samples import residual_law

INPUTS, TEACHER, NOISE = gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3]), "sin(1.5*x)+0.3*x**2", 0.3


def samples_of(damping: float, ratio: float) -> DampedSamples:
    link = scalar_function(TEACHER)
    plain = CorrelatedSamples(residual_law(link, 0.1, NOISE**2), ratio, moments(link).linear, Spectrum.of(INPUTS))
    return DampedSamples(plain, damping)


def test_products_and_quotients_have_the_derivatives_of_differences():
    """The function ``a a' b b' / (1 - a a')`` of numbers of two minima, of which the second has the primes."""
    values, slopes = (0.6, 0.3), np.array([[0.2, -0.5], [0.7, 0.1]])
    first, second = (_Jet.product(value, slope) for value, slope in zip(values, slopes, strict=True))
    found = first * second * first.over_one_less()

    def function(change, other):
        a, b = ((value + slope @ change) * (value + slope @ other) for value, slope in zip(values, slopes, strict=True))
        return a * b / (1 - a)

    step = 1e-3 * np.eye(2)
    zero = np.zeros(2)
    assert found.value == pytest.approx(function(zero, zero), rel=1e-12)
    by_first = [(function(e, zero) - function(-e, zero)) / 2e-3 for e in step]
    assert found.first == pytest.approx(by_first, rel=1e-4)
    mixed = [
        [(function(e, o) - function(e, -o) - function(-e, o) + function(-e, -o)) / 4e-6 for o in step] for e in step
    ]
    assert found.mixed == pytest.approx(np.array(mixed), rel=1e-4)


def test_a_large_damping_has_the_covariances_of_the_plain_step():
    # C g is a sum of samples: its part along bt, and the noise off it, whose length is a sum of chi-squares.
    ratio, count = 0.8, 1000.0
    samples = samples_of(1e9, ratio)
    law, known, mu = samples.law, samples.spectrum, samples.linear
    c, teacher = known.eigenvalue, known.teacher
    r, u, square = law.residual, law.projection, law.square
    one, two, three, four = (float(teacher @ c**k) for k in (1, 2, 3, 4))
    values = np.stack([one * r * u, r * u, r**2, r, 2 * mu * two * r * u + ratio * known.moment(2) * r**2])
    values = values - (values @ law.weight)[:, None]
    expected = (law.weight * values) @ values.T
    expected[0, 0] += square * (two - one**2)
    expected[0, 4] += 2 * mu * square * (three - one * two)
    expected[4, 0] = expected[0, 4]
    expected[4, 4] += 4 * mu**2 * square * (four - two**2) + 2 * ratio * square**2 * known.moment(4)
    found = direction_draws(samples, count)
    np.testing.assert_allclose(found.covariance * count, expected, rtol=1e-7)
    np.testing.assert_allclose(found.mean, [mu * one, mu, square, law.mean(r), samples.plain.form(2)], rtol=1e-7)
    assert found.square_slope == pytest.approx(ratio * known.moment(2), rel=1e-7)


def test_classes_add_up_to_the_whole_direction():
    samples, count = samples_of(0.3, 0.8), 1000.0
    one = np.eye(3)
    # What bt has in a class moves |theta|^2 with twice what theta has along it.
    along = 2 * samples.scale * samples.linear * samples.kept
    sums = np.zeros((5, 9))
    sums[0, :3], sums[1, 3], sums[2, 4], sums[3, 5], sums[4, :3], sums[4, 6:] = 1, 1, 1, 1, along, 1
    draws = class_draws(samples, count, one, one, samples.spectrum.share)
    whole = direction_draws(samples, count)
    np.testing.assert_allclose(sums @ draws.covariance @ sums.T, whole.covariance, rtol=1e-12)
    assert draws.square_slope.sum() == pytest.approx(whole.square_slope, rel=1e-12)


def test_a_large_damping_has_the_parts_of_the_plain_gradient_in_each_class():
    # (D9): b_c times a normal number, and the square of the noise off it.
    count, d = 1000.0, 800.0
    samples = samples_of(1e9, d / count)
    law, known = samples.law, samples.spectrum
    c, teacher, share, r = known.eigenvalue, known.teacher, known.share, law.residual
    free = share - 1 / d
    found = class_draws(samples, count, np.eye(3), np.eye(3), free).covariance
    averages = np.stack([r * law.projection, r**2, r])
    averages = averages - (averages @ law.weight)[:, None]
    # What the classes gain with the averages.
    gains = np.zeros((9, 3))
    gains[:3, 0], gains[3:6], gains[6:, 1] = c * teacher, np.eye(3), samples.ratio * free * c**2
    expected = gains @ ((law.weight * averages) @ averages.T) @ gains.T / count
    own = np.diag(1 / teacher) - 1
    expected[:3, :3] += law.square / count * own * np.outer(c * teacher, c * teacher)
    expected[6:, 6:] += np.diag((samples.ratio * law.square * c**2) ** 2 * 2 * free / d)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)


def drawn(damping, d, count, draws, numbers):
    """Return numbers of the direction of drawn steps."""
    random, link, sizes = np.random.default_rng(5), scalar_function(TEACHER), INPUTS.counts(d)
    inverse, teacher = 1 / np.repeat(INPUTS.eigenvalues, sizes), np.zeros(d)
    places = np.cumsum(sizes) - 1
    teacher[places] = np.sqrt(INPUTS.teacher)
    found = []
    for _ in range(draws):
        z = random.standard_normal((count, d))
        u = z @ teacher
        r = np.asarray(link(u)) - 0.1 + NOISE * random.standard_normal(count)
        theta = (1 + damping) * np.linalg.solve(z.T @ z / count + damping * np.diag(inverse), z.T @ r / count)
        found.append(numbers(r, u, theta, teacher, places))
    return np.array(found)


def scores(found, expected):
    """Return the distances of the covariances of what was drawn, in standard errors."""
    off = found - found.mean(axis=0)
    products = off[:, :, None] * off[:, None]
    return (products.mean(axis=0) - expected) / (products.std(axis=0) / math.sqrt(len(found)))


@pytest.mark.parametrize("damping", [1.0, pytest.param(0.1, marks=pytest.mark.statistical)])
def test_drawn_samples(damping):
    def numbers(r, u, theta, teacher, _):
        return theta @ teacher, np.mean(r * u), np.mean(r**2), np.mean(r), theta @ theta

    found = drawn(damping, 100, 150, 800, numbers)
    score = scores(found, direction_draws(samples_of(damping, 100 / 150), 150).covariance)
    # Terms of the order of one over the number of samples are left out.
    assert np.all(np.abs(score) < 4), score


@pytest.mark.parametrize("damping", [1.0, pytest.param(0.1, marks=pytest.mark.statistical)])
def test_drawn_samples_in_each_class(damping):
    def numbers(r, u, theta, teacher, places):
        square = theta**2
        square[places] = 0
        classes = np.add.reduceat(square, np.append(0, places[:-1] + 1))
        return [*(theta * teacher)[places], np.mean(r * u), np.mean(r**2), np.mean(r), *classes]

    found, samples = drawn(damping, 100, 150, 800, numbers), samples_of(damping, 100 / 150)
    free = samples.spectrum.share - 1 / 100
    score = scores(found, class_draws(samples, 150, np.eye(3), np.eye(3), free).covariance)
    assert np.all(np.abs(score) < 4), score
