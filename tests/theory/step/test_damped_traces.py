"""Traces of the damped metric and of weighted samples: drawn matrices, and the plain step as a limit."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum, words_trace
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.damped_traces import DampedTraces
from gradstep.theory.step.weighted_samples import residual_law

INPUTS = gs.Inputs([3, 1, 0.3], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2])
LINK = scalar_function("sin(1.5*x) + 0.4*(x**2 - 1) + 0.6")


def samples_of(damping: float, ratio: float) -> DampedSamples:
    law = residual_law(LINK, 0.0, 0.09)
    return DampedSamples(CorrelatedSamples(law, ratio, moments(LINK).linear, Spectrum.of(INPUTS)), damping)


def expected_of(samples: DampedSamples) -> list[float]:
    traces, r, u = DampedTraces(samples), samples.law.residual, samples.law.projection
    others = [traces.once, traces.twice, traces.around, traces.with_others, *traces.around_others, traces.thrice]
    words = [
        traces.with_one(r),
        traces.with_one(r**2),
        traces.with_one(r * u),
        traces.with_two(r),
        traces.with_two(r**2),
    ]
    directions = [*traces.projected(r), *traces.projected(r**2)]
    pairs = float(samples.spectrum.share @ samples.pairs)
    return [*others, *words, traces.plain(r, r**2), *traces.linear_square, *directions, pairs]


@pytest.mark.parametrize("ratio", [0.3, 1.5])
def test_a_large_damping_has_the_traces_of_the_plain_step(ratio):
    samples = samples_of(1e6, ratio)
    plain, r, u = samples.plain, samples.law.residual, samples.law.projection
    c2, c3, c4, c5 = (plain.spectrum.moment(power) for power in (2, 3, 4, 5))
    own = [c2, c2, c3, c3, c4, c5, c4]

    def word(*letters_and_powers: object) -> float:
        return words_trace(plain, list(letters_and_powers[::2]), list(letters_and_powers[1::2]))

    words = [word(r, 2, x, 1) for x in (r, r**2, r * u)] + [word(r, 2, r, 1, x, 1) for x in (r, r**2)]
    squares = 2 * word(r, 1, r, 4 - 1) + 2 * word(r, 2, r, 2) + 2 * word(r, 2, r, 2)
    linear = [2 * samples.law.mean(r) * c3, squares]
    teacher, by_squares = plain.spectrum.teacher_moment, plain.squares_to_teacher
    along_h = by_squares * teacher(1) * u + ratio * r**2
    together = plain.crossed_form(3) - plain.linear * by_squares * teacher(1) * teacher(2)
    after_h = plain.mean(r * along_h * plain.along(2)) + plain.mean(r) * together
    directions = [plain.form(2), plain.square(r, 2, 1), plain.crossed_form(2), after_h]
    expected = [*own, *words, word(r, 1, r**2, 1), *linear, *directions, c3]
    np.testing.assert_allclose(expected_of(samples), expected, rtol=2e-5)


@pytest.mark.parametrize(("damping", "count"), [pytest.param(0.3, 600, marks=pytest.mark.statistical), (2.0, 240)])
def test_drawn_matrices(damping, count):
    d, draws = 300, 20
    sizes = INPUTS.counts(d)
    c, found, random = np.repeat(INPUTS.eigenvalues, sizes), [], np.random.default_rng(2)
    for _ in range(draws):
        direction = random.standard_normal(d)
        for start, stop, part in zip(np.cumsum([0, *sizes]), np.cumsum(sizes), INPUTS.teacher, strict=False):
            direction[start:stop] *= np.sqrt(part) / np.linalg.norm(direction[start:stop])
        x = random.standard_normal((count, d))
        u = x @ direction
        r = np.asarray(LINK(u)) + 0.3 * random.standard_normal(count)
        p = (1 + damping) * np.linalg.inv(x.T @ x / count + np.diag(damping / c))
        b, squares, product = ((x.T * weight) @ x / count for weight in (r, r**2, r * u))
        g, h = x.T @ r / count, x.T @ r**2 / count
        # Products of two samples, without those of a sample with itself.
        with_p, with_c, with_both = ((x @ of @ x.T) / d for of in (p @ p, np.diag(c), c[:, None] * p))
        off_p, off_c = (each - np.diag(np.diag(each)) for each in (with_p, with_c))
        per = d / count
        row = [np.trace(with_both) / count, np.trace(with_p) / count, np.trace(x @ (p * c) @ p @ x.T) / count / d]
        row += [np.sum(off_p * off_c) * per / count]
        row += [np.sum(off_p**2) * per / count, np.sum((off_p @ off_c) * off_p) * per**2 / count]
        row += [np.sum(off_p * with_both) * per / count]

        def trace(*factors: np.ndarray) -> float:
            return float(np.trace(np.linalg.multi_dot(factors))) / d

        bc, pc = b * c, p * c
        row += [trace(b, pc, of * c) for of in (b, squares, product)]
        row += [trace(b, p @ p, bc, of * c) for of in (b, squares)]
        step = p @ bc
        row += [trace(bc, squares * c), trace(np.diag(c), step + step.T)]
        row += [np.sum((step + step.T) ** 2) / d + 2 * trace(np.diag(c), step / c, step.T)]
        theta = p @ g
        row += [theta @ (c * g), theta @ p @ bc @ g, theta @ (c * h), theta @ p @ bc @ h]
        even = p @ (x.T @ x / count)
        row += [(np.sum(even * c * even) - np.sum(np.diag(with_p) * np.diag(with_c)) * per * d / count) / d]
        found.append(row)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    # Terms of order 1/d are left out.
    np.testing.assert_array_less(
        np.abs(mean - expected_of(samples_of(damping, d / count))), 4 * error + 0.015 * np.abs(mean)
    )


@pytest.mark.parametrize(("damping", "count"), [pytest.param(0.3, 600, marks=pytest.mark.statistical), (0.1, 300)])
def test_what_a_sample_has_more_than_a_vector_of_which_the_metric_does_not_know(damping, count):
    d, draws, random, found = 300, 8, np.random.default_rng(2), []
    samples = samples_of(damping, d / count)
    c = np.repeat(INPUTS.eigenvalues, INPUTS.counts(d))
    for _ in range(draws):
        z = random.standard_normal((count, d))
        metric = (1 + damping) * np.linalg.inv(z.T @ z / count + np.diag(damping / c))
        # z.CPEC.z of each sample, with the other samples in E, and the same of a vector that is none of them.
        own = ((z * c) @ metric * z).sum(axis=1) * (z**2 * c).sum(axis=1) / count
        whole = ((z * c) @ metric @ (z.T @ (z * c) / count) * z).sum(axis=1)
        once = np.mean(whole - own) / d - np.trace(c[:, None] * metric @ (z.T @ z / count) * c) / d
        # z.CEP^2FC.z with two different ones of the other samples.
        outer, inner = (z * c) @ z.T / count, z @ metric @ metric @ z.T / count
        for each in (outer, inner):
            np.fill_diagonal(each, 0.0)
        among = (outer @ inner * outer).sum() / d
        found.append([once, among - (inner * ((z * c**2) @ z.T)).sum() / count / d * 1.0])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    assert np.all(np.abs(mean - DampedTraces(samples).repelled) < 4 * error + 0.02 * np.abs(mean)), (mean, error)
