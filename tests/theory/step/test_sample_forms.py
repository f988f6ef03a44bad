"""Products of the samples of a draw: their covariances and resolvents against drawn samples, and identities."""

import math

import numpy as np
import pytest

from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.sample_forms import sample_forms
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.weighted_samples import Residual

D, COUNT, NOISE = 80, 60, 0.4
ONE = np.ones(1)
#: Rows have the covariance ``(1 + K B)^2 + T S``.
K, T = 0.2, 0.3
Z = np.array([-0.3 + 0.2j, 0.6 + 0.8j, -2.0 + 1.0j])


def fixed_law():
    """Return the law of one draw of projections and residuals, at which all other parts of the samples differ."""
    random = np.random.default_rng(2)
    u = random.standard_normal(COUNT)
    r = u - 0.8 + 0.3 * (u**2 - 1) + NOISE * random.standard_normal(COUNT)
    return Residual(u, r, np.full(COUNT, 1 / COUNT))


LAW = fixed_law()
RATIO = D / COUNT
FORMS = sample_forms(LAW, RATIO, 2 / D)


def step_samples(forms=None):
    linear = LAW.mean(LAW.residual * LAW.projection)
    return StepSamples(LAW, RATIO, linear, 0 * LAW.residual, NOISE**2, forms=forms)


def stretched(forms=None, k=K, strength=T):
    samples = CorrelatedSamples(LAW, RATIO, step_samples().linear, Spectrum(ONE, ONE, ONE))
    return StretchedLaw(samples, k, k, strength, forms=forms)


def known_of(x):
    """Return the products of samples of one draw that are known."""
    r, u = LAW.residual, LAW.projection
    b = (x.T * r) @ x / COUNT
    g, by_u = (x.T @ values / COUNT for values in (r, r * u))
    return [g @ g, by_u @ g, by_u @ by_u, g @ b @ g, by_u @ b @ g, by_u @ b @ by_u]


def products_of(x):
    """Return products of samples of one draw: those that are known, then others, and resolvents of the rows."""
    r, u = LAW.residual, LAW.projection
    b, s = (x.T * r) @ x / COUNT, (x.T * r**2) @ x / COUNT
    g, by_u, h = (x.T @ values / COUNT for values in (r, r * u, r**2))
    others = [h @ g, h @ b @ g, g @ s @ g, g @ b @ b @ g, by_u @ b @ b @ by_u, by_u @ b @ b @ g]
    whole = np.column_stack([u, x])
    b, s = ((whole.T * w) @ whole / COUNT for w in (r, r**2 / LAW.square))
    matrix = np.eye(len(b)) + 2 * K * b + K**2 * b @ b + T * s
    vectors = np.stack([np.eye(len(b))[0], np.concatenate([[0.0], g])], axis=1)
    resolved = [(vectors.T @ np.linalg.solve(matrix - z * np.eye(len(b)), vectors))[np.triu_indices(2)] for z in Z]
    return np.concatenate([known_of(x), others, np.real(resolved).ravel(), np.imag(resolved).ravel()])


def changes_of(forms):
    """Return the changes of these products along a direction, to first order."""
    r, u = LAW.residual, LAW.projection
    known = [forms.between(r, r), forms.between(r * u, r), forms.between(r * u, r * u)]
    known += [forms.sampled(r, r, r), forms.sampled(r * u, r, r), forms.sampled(r * u, r, r * u)]
    others = [forms.between(r**2, r), forms.sampled(r**2, r, r), forms.sampled(r, r**2, r)]
    others += [forms.sampled_twice(r, r), forms.sampled_twice(r * u, r * u), forms.sampled_twice(r * u, r)]
    up, down = (resolvents(stretched(each))[0] for each in (forms, opposite(forms)))
    resolved = ((up - down) / 2)[:, *np.triu_indices(2)]
    return np.concatenate([known, others, resolved.real.ravel(), resolved.imag.ravel()])


def opposite(forms):
    return type(forms)(forms.law, forms.ratio, forms.functions, -forms.plain, -forms.by_residual)


def resolvents(law):
    """Return the resolvent between the teacher and ``X_perp^T r / n_step`` and its derivative."""
    return law.between(Z, np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]))


def test_products_of_drawn_samples_have_these_covariances():
    random, draws = np.random.default_rng(4), 400
    drawn = np.array([products_of(random.standard_normal((COUNT, D - 1))) for _ in range(draws)])
    slopes = np.array([changes_of(forms) for forms in FORMS])
    expected = slopes[:, :6].T @ slopes
    deviation = drawn.std(axis=0)
    drawn = (drawn - drawn.mean(axis=0)) / deviation
    pairs = drawn[:, :6, None] * drawn[:, None]
    found, error = pairs.mean(axis=0), pairs.std(axis=0) / math.sqrt(draws)
    expected /= np.outer(deviation[:6], deviation)
    assert np.all(np.abs(found - expected) < 4 * error), (np.abs(found - expected) / error).max()
    # Most of the other products follow those that are known.
    explained = (slopes**2).sum(axis=0) / deviation**2
    assert np.all(explained[6:12] > 0.75), explained


AVERAGES = ("norm", "form_along", "form_square", "squares_along", "squares_off", "form_with_squares")


def averages_of(x):
    """Return the products that are known of one draw, and the averages over its samples that a step asks for."""
    r, u = LAW.residual, LAW.projection
    whole = np.column_stack([u, x])
    b, h, matrix = whole.T @ r / COUNT, whole.T @ r**2 / COUNT, (whole.T * r) @ whole / COUNT
    norm = np.linalg.norm(b)
    v = b / norm
    found = [norm, v @ matrix @ v, v @ matrix @ matrix @ v, h @ v, h @ h - (h @ v) ** 2, h @ matrix @ v]
    return np.array([*known_of(x), *found])


def test_averages_of_the_step_follow_the_products_of_a_draw():
    random, draws = np.random.default_rng(6), 400
    drawn = np.array([averages_of(random.standard_normal((COUNT, D - 1))) for _ in range(draws)])
    pairs = [[step_samples(each) for each in (forms, opposite(forms))] for forms in FORMS]
    slopes = [[(getattr(up, name) - getattr(down, name)) / 2 for name in AVERAGES] for up, down in pairs]
    known = np.array([changes_of(forms)[:6] for forms in FORMS])
    deviation = drawn.std(axis=0)
    drawn = (drawn - drawn.mean(axis=0)) / deviation
    pairs = drawn[:, :6, None] * drawn[:, None, 6:]
    found, error = pairs.mean(axis=0), pairs.std(axis=0) / math.sqrt(draws)
    expected = known.T @ np.array(slopes) / np.outer(deviation[:6], deviation[6:])
    assert np.all(np.abs(found - expected) < 4 * error), (np.abs(found - expected) / error).max(axis=0)


def test_without_squares_the_rows_have_the_resolvents_of_the_samples_at_two_points():
    # ((1 + k B)^2 - z)^-1 in partial fractions.
    root = np.sqrt(Z + 0j)
    first, last = (root - 1) / K, (-root - 1) / K
    frame = np.eye(2)
    for forms in FORMS:
        samples, rows = step_samples(forms).by_residual, stretched(forms, strength=0.0)

        def resolved(points, samples=samples):
            upper = np.where(points.imag > 0, points, points.conj())
            m = samples.transform(upper)
            found, slope = samples.resolvent(upper, m, samples.transform_slope(m), frame)
            sign = (points.imag > 0)[:, None, None]
            return np.where(sign, found, found.conj()), np.where(sign, slope, slope.conj())

        (one, d_one), (two, d_two) = resolved(first), resolved(last)
        scale = (1 / (2 * root * K))[:, None, None]
        rows_frame = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1 / math.sqrt(forms.square)]])
        found, slope = rows.between(Z, rows_frame)
        np.testing.assert_allclose(scale * (one - two), found, rtol=1e-9, atol=1e-12)
        by_point = scale * (d_one + d_two) / (2 * root * K)[:, None, None]
        expected = by_point - scale * (one - two) / (2 * Z)[:, None, None]
        np.testing.assert_allclose(expected, slope, rtol=1e-8, atol=1e-11)
        same, also_same, by_samples = rows.products_between(Z, rows_frame)
        np.testing.assert_allclose(same, found, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(also_same, found, rtol=1e-12, atol=1e-15)
        first_share, last_share = ((root + sign)[:, None, None] for sign in (-1, 1))
        np.testing.assert_allclose(scale * (first_share * one + last_share * two), by_samples, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("forms", FORMS)
def test_far_from_the_spectrum_the_resolvents_are_the_averages(forms):
    frame, far = np.array([[1.0, 0.3], [0.0, 0.0], [0.5, 1.0]]), np.array([1e4j, 2e4j])
    law = stretched(forms)
    # (A - z)^-1 = -(1 + A/z + ...)/z, at two points.
    terms = -far[:, None, None] * law.between(far, frame)[0]
    first = (terms[0] - terms[1]) / (1 / far[0] - 1 / far[1])
    plain = frame.T @ np.diag([1.0, 1.0, forms.square]) @ frame
    np.testing.assert_allclose(terms[1].real, plain, rtol=1e-5)
    np.testing.assert_allclose(first.real, law.average(frame), rtol=1e-4, atol=1e-6)
    others = law.others(far, frame)
    terms = -far[:, None, None] * others.resolved
    np.testing.assert_allclose(terms[1].real, others.plain, rtol=1e-4, atol=1e-7)
    samples, axes = step_samples(forms).by_residual, np.eye(2)
    m = samples.transform(far)
    terms = -far[:, None, None] * samples.resolvent(far, m, samples.transform_slope(m), axes)[0]
    first = (terms[0] - terms[1]) / (1 / far[0] - 1 / far[1])
    np.testing.assert_allclose(first.real, samples.mean(axes), rtol=1e-4, atol=1e-6)
    plain, resolved = samples.with_powers(far, m, axes)
    np.testing.assert_allclose((-far[:, None, None] * resolved)[1].real, plain, rtol=1e-4, atol=1e-7)


def test_derivatives_are_those_of_the_resolvents():
    for forms in FORMS[::2]:
        law, step = stretched(forms), 1e-5
        frame = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
        points = Z
        _, slope = law.between(points, frame)
        up, down = (law.between(points + sign * step, frame)[0] for sign in (1, -1))
        np.testing.assert_allclose((up - down) / (2 * step), slope, rtol=1e-6, atol=1e-9)


def test_forms_of_the_step_are_those_along_its_gradient():
    # The laws of the rows: with the forms of all draws' products, at a frame of the gradient itself.
    for forms in FORMS:
        samples = step_samples(forms)
        v = np.array([samples.linear, math.sqrt(forms.square)]) / samples.norm
        frame = np.array([[v[0]], [0.0], [v[1] / math.sqrt(forms.square)]])
        one = stretched(forms, k=1.0, strength=0.0)
        two = stretched(forms, k=1.0, strength=1.0)
        whole = 1 + 2 * samples.form_along + samples.form_square
        assert float(one.average(frame)[0, 0]) == pytest.approx(whole, rel=1e-10)
        assert float(two.average(frame)[0, 0]) == pytest.approx(whole + samples.gain, rel=1e-10)


def test_functions_of_a_sample_that_are_the_same_count_once():
    # Of a residual that is linear in u, r u and r^2 are one function.
    u = np.linspace(-2, 2, 21)
    law = Residual(u, 0.7 * u, np.full(21, 1 / 21))
    found = sample_forms(law, 0.5, 0.01)
    assert not found[0].functions[2].any()
    assert all(math.isfinite(forms.sampled_twice(law.residual, law.residual)) for forms in found)
    first = [forms.square / forms.mean_square - 1 for forms in found]
    assert first[0] == pytest.approx(0.1)
    np.testing.assert_allclose(first[1:], 0, atol=1e-12)
