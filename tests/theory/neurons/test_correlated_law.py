"""The law of a row's covariance on correlated inputs: isotropic inputs as a limit, drawn matrices, derivatives."""

from dataclasses import replace

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum, Turn
from gradstep.theory.step.weighted_samples import WeightedSamples, directions_frame, residual_law

Z = np.array([-0.05, -0.5, -3.0]) * (1 - 0.5j)
ONE = np.ones(1)


def law_of(teacher: str, spectrum: Spectrum, ratio: float, strength: float, noise: float = 0.3) -> CorrelatedLaw:
    link = scalar_function(teacher)
    samples = CorrelatedSamples(residual_law(link, 0.0, noise**2), ratio, moments(link).linear, spectrum)
    return CorrelatedLaw(samples, strength)


def test_equal_eigenvalues_have_the_law_of_the_weighted_samples():
    t, ratio = 0.6, 0.7
    law = law_of("sin(x) + 0.2*x**2", Spectrum(ONE, ONE, ONE), ratio, t)
    residuals, alignment = law.samples.law, law.samples.alignment
    known = WeightedSamples(residuals, residuals.residual**2 / residuals.square, ratio)
    m = known.transform((Z - 1) / t)
    slope, frame = known.transform_slope(m), directions_frame(alignment)
    resolvent, turn = known.resolvent((Z - 1) / t, m, slope, frame)
    vectors = law.samples.frame(alignment)
    found, change = law.between(Z, vectors)
    np.testing.assert_allclose(law.transform(Z)[0], m / t, rtol=1e-11)
    np.testing.assert_allclose(found, resolvent / t, rtol=1e-10)
    np.testing.assert_allclose(change, turn / t**2, rtol=1e-9)
    np.testing.assert_allclose(law.average(vectors), np.eye(2) + t * known.mean(frame), rtol=1e-11)


@pytest.mark.parametrize("strength", [0.0, 1.5])
def test_derivatives_and_the_average_are_those_of_the_resolvent(strength):
    law = law_of("x + 0.5*x**2", Spectrum.of(gs.Inputs([4, 1], [0.3, 0.7], [0.7, 0.3])), 0.8, strength)
    frame, h = law.samples.frame(law.samples.alignment), 1e-5
    for index in (0, 1):
        slopes = (law.transform(Z)[1], law.between(Z, frame)[1])
        of = (law.transform, lambda z: law.between(z, frame))[index]
        np.testing.assert_allclose((of(Z + h)[0] - of(Z - h)[0]) / (2 * h), slopes[index], rtol=1e-7, atol=1e-9)
    far = np.array([1e5j])
    resolvent = law.between(far, frame)[0][0]
    np.testing.assert_allclose(-(far**2) * (resolvent + np.eye(2) / far), law.average(frame), rtol=1e-3, atol=1e-3)


def test_drawn_matrices():
    d, count, t, draws = 500, 400, 0.7, 8
    inputs, link = gs.Inputs([3, 1, 0.3], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2]), scalar_function("sin(x)")
    law = law_of("sin(x)", Spectrum.of(inputs), d / count, t)
    frame = law.samples.frame(law.samples.alignment)
    expected = np.concatenate([law.transform(Z)[0][:, None], law.between(Z, frame)[0].reshape(3, 4)], axis=1)
    sizes = inputs.counts(d)
    c = np.repeat(inputs.eigenvalues, sizes)
    teacher = np.zeros(d)
    teacher[np.cumsum(sizes) - 1] = np.sqrt(inputs.teacher)
    expected = np.concatenate([expected, law.others(Z, frame).resolved[..., 0::2].reshape(3, 6)], axis=1)
    random, found = np.random.default_rng(3), []
    for _ in range(draws):
        x = random.standard_normal((count, d))
        r = np.asarray(link(x @ teacher)) + 0.3 * random.standard_normal(count)
        v = c * (x.T @ r)
        v /= np.linalg.norm(v)
        rest = teacher - (v @ teacher) * v
        rest /= np.linalg.norm(rest)
        squares = (x.T * (r**2 / law.samples.law.square)) @ x / count
        values, vectors = np.linalg.eigh(np.diag(c) + t * c[:, None] * squares * c)
        overlap = vectors.T @ np.stack([v, rest], axis=1)
        resolvents = [(overlap.T / (values - z)) @ overlap for z in Z]
        made = vectors.T @ (c[:, None] * (x.T @ np.stack([r, r**2, r**3], axis=1)) / count)
        others = [(overlap.T / (values - z)) @ made for z in Z]
        found.append(
            [
                [np.mean(1 / (values - z)), *m.ravel(), *other.ravel()]
                for z, m, other in zip(Z, resolvents, others, strict=True)
            ]
        )
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    assert np.all(np.abs(mean - expected) < 4 * error + 0.005 * np.abs(mean))


def test_parts_in_the_classes_are_shares():
    law = law_of("sin(x)", Spectrum.of(gs.Inputs([3, 1, 0.3])), 0.8, 0.7)
    values = np.linspace(0.3, 8, 60)
    points = values * (1 + 1e-3j)
    # Inside of the spectrum.
    inside = law.transform(points)[0].imag > 0.1
    assert np.count_nonzero(inside) > 20
    part, sampled = law.diagonals(points)
    np.testing.assert_allclose(part.sum(axis=1), 1)
    assert part.min() >= 0
    assert sampled.min() >= 0
    # What C and the samples have along an eigenvector is its eigenvalue.
    along = part @ law.samples.spectrum.eigenvalue + 0.7 * sampled
    np.testing.assert_allclose(along[inside], values[inside], rtol=0.01)


@pytest.mark.parametrize("law", [lambda s: CorrelatedLaw(s, 1.3), lambda s: StretchedLaw(s, -0.2, -0.25, 0.8)])
def test_a_turn_that_all_classes_share_scales_the_vectors(law):
    spectrum, link = Spectrum.of(gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3])), scalar_function("x+x**2")
    plain = CorrelatedSamples(residual_law(link, 0.0, 0.09), 0.7, moments(link).linear, spectrum)
    turned, frame = replace(plain, turn=Turn(np.full(3, 2.0), np.full(3, 1.3))), np.diag([1, 2.0, 1.3])
    one, other = law(plain), law(turned)
    for found, expected in zip(other.between(Z, np.eye(3)), one.between(Z, frame), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_allclose(other.average(np.eye(3)), one.average(frame), atol=1e-12)
    for found, expected in zip(other.others(Z, np.eye(3)), one.others(Z, frame), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("stretch", [0.0, -0.3])
def test_drawn_matrices_along_a_turned_gradient(stretch):
    d, count, t, draws = 300, 240, 0.7, 30
    inputs, link = gs.Inputs([3, 1, 0.3], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2]), scalar_function("sin(x)+0.3*x**2")
    turn = Turn(np.array([1.4, 0.2, -0.5]), np.array([0.6, 1.3, 1.1]))
    law = law_of("sin(x)+0.3*x**2", Spectrum.of(inputs), d / count, t).samples
    law = replace(law, turn=turn)
    rows = StretchedLaw(law, stretch, stretch, t) if stretch else CorrelatedLaw(law, t)
    upper, z = np.triu_indices(3), Z[1:]
    # Of an odd activation rows have nothing along the vectors in places 1 and 3.
    places, others = slice(None, None, 1 if stretch else 2), rows.others(z, np.eye(3))
    expected = np.array([*rows.between(z, np.eye(3))[0], rows.average(np.eye(3))])[:, *upper].ravel()
    expected_others = np.array([others.plain, *others.resolved])[..., places]
    sizes = inputs.counts(d)
    c, signal, noise = (np.repeat(each, sizes) for each in (inputs.eigenvalues, *turn))
    teacher = np.zeros(d)
    teacher[np.cumsum(sizes) - 1] = np.sqrt(inputs.teacher)
    random, found, found_others = np.random.default_rng(4), [], []
    for _ in range(draws):
        x = random.standard_normal((count, d))
        u = x @ teacher
        r = np.asarray(link(u)) + 0.3 * random.standard_normal(count)
        rest = (x - np.outer(u, teacher)).T @ r / count
        vectors = np.stack([teacher, c * signal * teacher, c * noise * rest], axis=1)
        made = np.diag(c) + t * c[:, None] * ((x.T * (r**2 / law.law.square)) @ x / count) * c
        # L C L^T with L = 1 + k C B.
        by_samples = c[:, None] * ((x.T * r) @ x / count)
        left = np.eye(d) + stretch * by_samples
        made += (left * c) @ left.T - np.diag(c)
        g, h, cubes = (c * (x.T @ r**power / count) for power in (1, 2, 3))
        by_power = np.stack([g, by_samples @ g, h, by_samples @ h, cubes], axis=1)[:, places]
        resolved = [np.linalg.solve(made - point * np.eye(d), vectors).T for point in z]
        between = [each @ vectors for each in resolved]
        found.append(np.array([*between, vectors.T @ made @ vectors])[:, *upper].ravel())
        found_others.append([each @ by_power for each in (vectors.T, *resolved)])
    found, found_others = np.array(found), np.array(found_others)
    # Of the largest of each kind: a third power of the residual has few samples.
    allowed = 0.01 * np.abs(expected_others).max(axis=1, keepdims=True)
    for part in (np.real, np.imag):
        mean, error = part(found_others).mean(axis=0), part(found_others).std(axis=0, ddof=1) / np.sqrt(draws)
        assert np.all(np.abs(mean - part(expected_others)) < 4 * error + allowed)
    for part in (np.real, np.imag):
        mean, error = part(found).mean(axis=0), part(found).std(axis=0, ddof=1) / np.sqrt(draws)
        off = np.abs(mean - part(expected))
        # Terms of order 1/d are left out.
        assert np.all(off < 4 * error + 0.01 * np.abs(expected)), np.stack([off / error, off / np.abs(expected)])
