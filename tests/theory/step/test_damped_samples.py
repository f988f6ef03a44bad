"""Samples of a damped step: how much the square of the gradient varies between draws of them."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.weighted_samples import Residual, residual_law

ONE = np.ones(1)
INPUTS = gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3])


def samples(teacher: str, noise: float, ratio: float, damping: float) -> DampedSamples:
    link = scalar_function(teacher)
    law = residual_law(link, 0.0, noise**2)
    return DampedSamples(CorrelatedSamples(law, ratio, moments(link).linear, Spectrum(ONE, ONE, ONE)), damping)


def test_a_linear_teacher_without_noise_is_found_by_every_draw_of_a_hardly_damped_step():
    assert samples("x", 0.0, 0.2, 1e-6).relative_variance_of_square == pytest.approx(0.0, abs=1e-9)


def test_of_a_large_damping_it_is_that_of_the_plain_step():
    damped = samples("sin(1.5*x)", 0.3, 0.2, 1e7)
    assert damped.relative_variance_of_square == pytest.approx(damped.plain.relative_variance_of_square, rel=1e-5)


@pytest.mark.parametrize("damping", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(("teacher", "noise"), [("x", 0.5), ("x + 0.3*(x**3 - 3*x)", 0.0)])
def test_drawn_regressions(teacher, noise, damping):
    """Of a thousand samples a direction, what is of a higher order is below the standard error."""
    d, count, draws = 2, 2000, 1000
    random, link = np.random.default_rng(1), scalar_function(teacher)
    squares = []
    for _ in range(draws):
        z = random.standard_normal((count, d))
        r = np.asarray(link(z[:, 0])) + noise * random.standard_normal(count)
        theta = np.linalg.solve(z.T @ z / count + damping * np.eye(d), (1 + damping) * (z.T @ r) / count)
        squares.append(theta @ theta)
    apart = count * (np.array(squares) / np.mean(squares) - 1) ** 2
    error = apart.std(ddof=1) / draws**0.5
    found = samples(teacher, noise, d / count, damping).relative_variance_of_square
    assert abs(found - apart.mean()) < 3.5 * error < 0.3 * found


@pytest.mark.parametrize("teacher", ["sin(1.5*x)", "x + 0.4*(x**2 - 1)", "sign"])
def test_rules_have_the_moments_of_the_residual(teacher):
    link = scalar_function(teacher)
    one = np.ones(1)
    plain = CorrelatedSamples(residual_law(link, 0.2, 0.09), 0.5, moments(link).linear, Spectrum(one, one, one))
    samples = DampedSamples(plain, 0.3)
    law = samples.law
    for rules, residual in ((samples.rules, law.residual), (samples.unsigned_rules, np.abs(law.residual))):
        few, whole = rules
        # Two nodes of a cell have its first four moments, from the zeroth.
        expected = [law.mean(residual**power) for power in range(5)]
        assert few.weighted.sum(axis=0)[:4] == pytest.approx(expected[:4], rel=1e-10)
        assert whole.weighted.sum(axis=0) == pytest.approx(expected, rel=1e-10)
        assert whole.gathered(law.weight[None]).sum() == pytest.approx(1.0, rel=1e-12)
        assert len(few.powers[0]) < 50


@pytest.mark.parametrize("ratio", [0.5, 2.0])
@pytest.mark.parametrize("damping", [0.1, 1.0])
def test_drawn_metrics(damping, ratio):
    """Traces of the metric with samples weighted by their squared residuals, which are the same in all draws."""
    d, count, draws, random = 200, round(200 / ratio), 12, np.random.default_rng(3)
    u, r = random.standard_normal(count), 0.2 + random.standard_normal(count)
    law = Residual(u, r, np.full(count, 1 / count))
    spectrum = Spectrum.of(INPUTS)
    samples = DampedSamples(CorrelatedSamples(law, ratio, law.mean(u * r), spectrum), damping)
    c = np.repeat(INPUTS.eigenvalues, INPUTS.counts(d))
    ends, found = np.cumsum([0, *INPUTS.counts(d)[:-1]]), []
    for _ in range(draws):
        z = random.standard_normal((count, d))
        metric = (1 + damping) * np.linalg.inv(z.T @ z / count + np.diag(damping / c))
        matrix = metric @ ((z.T * (r**2 / law.square)) @ z / count) @ metric
        classes = np.add.reduceat(np.diag(matrix), ends) / INPUTS.counts(d)
        found.append([np.trace(matrix) / d, *classes, np.trace(matrix @ matrix) / d])
    expected = [samples.bulk_trace, *samples.sampled, samples.sampled_square]
    off = np.mean(found, axis=0) / expected - 1
    error = np.std(found, axis=0) / np.mean(found, axis=0) / np.sqrt(draws - 1)
    # Terms of the order 1/d are left out.
    assert np.all(np.abs(off) < 3 * error + 2 / d), (off, error)
