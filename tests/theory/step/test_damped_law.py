"""The law of the rows after a damped step: without damping that of the plain step, and drawn matrices."""

import math
from dataclasses import replace

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.rational_rule import function_products
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum, Turn
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.weighted_samples import residual_law

INPUTS = gs.Inputs([3, 1, 0.3], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2])
Z = np.array([-0.7 + 0.3j, -3 + 1.5j, 0.8 + 0.5j])


def samples_of(damping: float, ratio: float, teacher: str = "sin(1.5*x)", inputs: gs.Inputs = INPUTS) -> DampedSamples:
    link = scalar_function(teacher)
    plain = CorrelatedSamples(residual_law(link, 0.0, 0.09), ratio, moments(link).linear, Spectrum.of(inputs))
    return DampedSamples(plain, damping)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_large_damping_has_the_law_of_the_plain_step(ratio):
    damped = samples_of(1e7, ratio)
    found, plain = DampedLaw(damped, 0.7), CorrelatedLaw(damped.plain, 0.7)
    frames = damped.frame(damped.alignment), damped.plain.frame(damped.plain.alignment)
    for one, other in zip(found.transform(Z), plain.transform(Z), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    for one, other in zip(found.between(Z, frames[0]), plain.between(Z, frames[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.average(frames[0]), plain.average(frames[1]), rtol=1e-4)
    np.testing.assert_allclose(found.diagonals(Z)[0], plain.diagonals(Z)[0], rtol=1e-5)
    np.testing.assert_allclose(found.diagonals(Z)[1], plain.diagonals(Z)[1], rtol=1e-4)


@pytest.mark.parametrize("stretch", [(0.0, 0.0), (0.5, 0.5), (-0.2, 0.4)])
@pytest.mark.parametrize("damping", [0.1, 1.0])
def test_slopes_are_those_of_the_transforms(damping, stretch):
    samples, h = samples_of(damping, 0.8, "sin(1.5*x) + 0.3"), 1e-5
    law, frame = DampedLaw(samples, 0.7, *stretch), samples.frame(samples.alignment)
    for of in (law.transform, lambda z: law.between(z, frame)):
        np.testing.assert_allclose((of(Z + h)[0] - of(Z - h)[0]) / (2 * h), of(Z)[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("more", [0.0, 1e-8, 1e-5, 1e-3])
@pytest.mark.parametrize("inputs", [INPUTS, gs.Inputs([1.0])])
def test_a_transform_has_its_digits_below_the_law(inputs, more):
    # With readouts that are almost equal, q is by next to nothing above k. The law lies above .05, so that the
    # transform is analytic near zero, and its third derivative is known by Cauchy's formula too.
    law, radius = DampedLaw(samples_of(0.3, 0.3, "max(x, 0)", inputs), 0.02, 0.4, 0.4 * (1 + more)), 0.03
    angle = np.pi * (np.arange(16) + 0.5) / 16
    values, _ = law.transform(radius * np.exp(1j * angle))
    third = 6 / radius**3 * (values * np.exp(-3j * angle)).real.mean()
    height = 3e-4
    found, slope = law.transform(np.array([1j * height]))
    # Im m / y = m' - y^2 m''' / 6, and Re m' = m' - y^2 m''' / 2.
    assert (found.imag / height - slope.real)[0] / height**2 == pytest.approx(third / 3, rel=3e-4)


@pytest.mark.parametrize("inputs", [INPUTS, gs.Inputs([1.0])])
def test_a_large_damping_has_the_law_of_stretched_rows(inputs):
    damped = samples_of(1e7, 0.8, "x + 0.4*(x**2 - 1) + 0.3", inputs)
    for linear in (0.4, -0.3):
        found, plain = DampedLaw(damped, 0.3, linear, 0.5), StretchedLaw(damped.plain, linear, 0.5, 0.3)
        frames = damped.frame(damped.alignment), damped.plain.frame(damped.plain.alignment)
        assert found.mean == pytest.approx(plain.mean, rel=1e-5)
        for one, other in zip(found.transform(Z), plain.transform(Z), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        for one, other in zip(found.between(Z, frames[0]), plain.between(Z, frames[1]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.average(frames[0]), plain.average(frames[1]), rtol=1e-4, atol=1e-5)
        for one, other in zip(found.products(Z), plain.products(Z), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        np.testing.assert_allclose(found.product_means, plain.product_means, rtol=1e-5)


def test_a_stretch_of_almost_nothing_is_none():
    samples = samples_of(0.3, 0.8)
    frame = samples.frame(samples.alignment)
    without, almost = DampedLaw(samples, 0.7), DampedLaw(samples, 0.7, 1e-9, 1e-9)
    np.testing.assert_allclose(almost.transform(Z)[0], without.transform(Z)[0], rtol=1e-8)
    np.testing.assert_allclose(almost.between(Z, frame)[0], without.between(Z, frame)[0], rtol=1e-8)


@pytest.mark.parametrize(
    ("strength", "stretch"), [(1.0, (0.0, 0.0)), (0.1, (0.0, 0.45)), (1.0, (0.0, 0.45)), (1.0, (0.3, 1.6))]
)
def test_means_have_what_is_in_the_tail_of_the_residuals(strength, stretch):
    """Far above the real axis the resolvent is -1/z - A/z^2: a cubic part of the teacher makes large eigenvalues."""
    samples, z = samples_of(0.5, 0.4, "0.8*x + 0.4*hermite2(x) - 0.2*hermite3(x) + 0.3"), 3e5j
    law, frame = DampedLaw(samples, strength, *stretch), samples.frame(samples.alignment)
    found, _ = law.between(np.array([z]), frame)
    expected = -(z**2 * found[0]).real
    # The next term that is real falls like 1/z^2, and rounding grows like z.
    np.testing.assert_allclose(law.average(frame), expected, atol=1e-6 * expected.max())


def drawn_steps(link, damping, count, d, draws, seed):
    """Yield the teacher's whitened direction, the samples, their residuals and the damped metric of steps."""
    sizes, random = INPUTS.counts(d), np.random.default_rng(seed)
    c = np.repeat(INPUTS.eigenvalues, sizes)
    for _ in range(draws):
        direction = random.standard_normal(d)
        for start, stop, part in zip(np.cumsum([0, *sizes]), np.cumsum(sizes), INPUTS.teacher, strict=False):
            direction[start:stop] *= np.sqrt(part) / np.linalg.norm(direction[start:stop])
        x = random.standard_normal((count, d))
        r = np.asarray(link(x @ direction)) + 0.3 * random.standard_normal(count)
        yield direction, x, r, (1 + damping) * np.linalg.inv(x.T @ x / count + np.diag(damping / c))


def drawn_products(x, r, metric, c, square):
    """Return ``P S P`` and ``P B C``."""
    sampled = metric @ ((x.T * (r**2 / square)) @ x / len(x)) @ metric
    return sampled, metric @ ((x.T * r) @ x / len(x)) * c


@pytest.mark.parametrize(
    ("damping", "count", "linear", "root"),
    [
        pytest.param(0.1, 800, 0.0, 0.0, marks=pytest.mark.statistical),
        pytest.param(1.0, 300, 0.0, 0.0, marks=pytest.mark.statistical),
        pytest.param(0.2, 300, 0.0, 0.0, marks=pytest.mark.statistical),
        pytest.param(0.1, 800, 0.4, 0.6, marks=pytest.mark.statistical),
        pytest.param(1.0, 300, -0.5, 0.8, marks=pytest.mark.statistical),
        (0.05, 300, 0.6, 0.6),
    ],
)
def test_drawn_matrices(damping, count, linear, root):
    d, t, draws = 400, 0.4, 8
    teacher = "sin(1.5*x) + 0.8*cos(x)" if root else "sin(1.5*x)"
    samples, link = samples_of(damping, d / count, teacher), scalar_function(teacher)
    law, frame = DampedLaw(samples, t, linear, root), samples.frame(samples.alignment)
    c, found = np.repeat(INPUTS.eigenvalues, INPUTS.counts(d)), []
    for direction, x, r, metric in drawn_steps(link, damping, count, d, draws, seed=3):
        theta = metric @ (x.T @ r) / count
        sampled, product = drawn_products(x, r, metric, c, samples.law.square)
        whole = np.diag(c) + linear * (product + product.T) + root**2 * (product / c) @ product.T + t * sampled
        values, vectors = np.linalg.eigh(whole)
        both = np.stack([direction, theta], axis=1)
        overlap = vectors.T @ both
        row = [theta @ theta, direction @ theta, theta @ (c * theta)]
        row += [np.trace(sampled) / d, np.sum(sampled**2) / d, values.mean(), np.mean(values**2)]
        row += [*(both.T @ whole @ both).ravel()]
        if root:
            row += [direction @ (c * direction), root * direction @ product @ direction]
        for z in Z:
            row += [np.mean(1 / (values - z)), *((overlap.T / (values - z)) @ overlap).ravel()]
            if root:
                inverse = np.linalg.inv(whole - z * np.eye(d))
                products = c[:, None] * inverse, root * product.T @ inverse
                row += [np.trace(each) / d for each in products] + [direction @ each @ direction for each in products]
        found.append(row)
    one, c = np.ones(3), samples.spectrum.eigenvalue
    expected = [samples.quadratic(one), samples.with_teacher(one), samples.quadratic(c)]
    expected += [samples.trace(one), samples.sampled_square, law.mean, law.second_moment]
    both = np.array([[1, samples.with_teacher(one)], [0, samples.off_teacher]])
    transform, between = law.transform(Z)[0], law.between(Z, both)[0]
    expected += [*law.average(both).ravel()]
    expected += [*law.product_means_with_teacher] if root else []
    for k in range(3):
        expected += [transform[k], *between[k].ravel()]
        if root:
            expected += [of[k] for of in (*law.products(Z)[1:], *law.products_with_teacher(Z)[1:])]
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    assert np.all(np.abs(mean - np.array(expected)) < 4 * error + 0.01 * np.abs(mean))
    assert frame.T @ samples.among(0) @ frame == pytest.approx(np.eye(2))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("damping", "count", "linear", "root"),
    [
        pytest.param(0.3, 800, 0.5, 0.5, marks=pytest.mark.statistical),
        pytest.param(1.0, 400, 0.3, 0.6, marks=pytest.mark.statistical),
        (0.1, 400, 0, 0),
    ],
)
def test_vectors_that_the_samples_make_are_those_of_drawn_matrices(damping, count, linear, root):
    d, t, draws = 400, 0.4, 24
    teacher = "sin(1.5*x) + 0.8*cos(x)" if root else "sin(1.5*x)"
    samples, link = samples_of(damping, d / count, teacher), scalar_function(teacher)
    law = DampedLaw(samples, t, linear, root)
    known, known_resolved = law.others(Z, np.eye(2))
    c, plain, resolved = np.repeat(INPUTS.eigenvalues, INPUTS.counts(d)), [], []
    for direction, x, r, metric in drawn_steps(link, damping, count, d, draws, seed=4):
        g, h, cubes = (x.T @ r**power / count for power in (1, 2, 3))
        sampled, product = drawn_products(x, r, metric, c, samples.law.square)
        whole = np.diag(c) + linear * (product + product.T) + root**2 * (product / c) @ product.T + t * sampled
        across = metric @ g - direction * (direction @ metric @ g)
        both = np.stack([direction, across / np.linalg.norm(across)])
        made = [c * g, bool(root) * product @ g, c * h, bool(root) * product @ h]
        made = np.stack([*made, metric @ cubes, metric @ h, metric @ g], axis=1)
        plain.append(both @ made)
        resolved.append([both @ np.linalg.solve(whole - z * np.eye(d), made) for z in Z])
    scale = np.abs(known).max(axis=0)
    for drawn, expected, size in (
        (plain, known, scale),
        (resolved, known_resolved, scale * np.abs(law.transform(Z)[0])[:, None, None]),
    ):
        mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / draws**0.5
        assert np.all(np.abs(mean - expected) <= 4 * error + 0.03 * size)


@pytest.mark.parametrize("stretch", [0.0, 0.3])
def test_theta_is_a_vector_that_the_samples_make(stretch):
    samples = samples_of(0.3, 0.8)
    longer = turned(samples, 1.7, 1.7)
    law, frame = DampedLaw(samples, 0.4, stretch, stretch), samples.frame(samples.alignment)
    plain, resolved = law.others(Z, frame)
    assert plain[:, -1] == pytest.approx([samples.norm, 0.0], abs=1e-7)
    np.testing.assert_allclose(
        resolved[..., -1], samples.norm * law.between(Z, frame)[0][..., 0], rtol=1e-9, atol=1e-11
    )
    # The theta of a draw that is longer everywhere has the same direction.
    for found, expected in zip(
        DampedLaw(longer, 0.4, stretch, stretch).others(Z, frame), (plain, resolved), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_a_large_damping_has_the_vectors_that_the_samples_make():
    samples = samples_of(1e7, 0.8, "sin(1.5*x) + 0.8*cos(x)")
    frame = samples.frame(samples.alignment)
    plain = StretchedLaw(samples.plain, 0.3, 0.6, 0.4).others(Z, samples.plain.frame(samples.plain.alignment))
    for found, expected in zip(DampedLaw(samples, 0.4, 0.3, 0.6).others(Z, frame), plain, strict=True):
        np.testing.assert_allclose(found[..., :5], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[..., 5:], expected[..., [2, 0]], rtol=1e-4, atol=1e-4)


def test_means_at_a_sample_are_those_of_the_vectors():
    # g is the sum of the samples with their residuals: averages over one sample are products with g.
    samples = samples_of(0.3, 0.8)
    assert samples.law.mean(samples.law.residual * samples.along) == pytest.approx(samples.norm**2)


@pytest.mark.parametrize("stretch", [(0.0, 0.0), (-0.3, 0.8)])
@pytest.mark.parametrize(("damping", "ratio"), [(0.01, 2.0), (1.0, 0.3)])
def test_from_everywhere_the_same_solution_is_found(damping, ratio, stretch, monkeypatch):
    samples, random = samples_of(damping, ratio, "x + 0.4*(x**2 - 1) + 0.3"), np.random.default_rng(1)
    expected = DampedLaw(samples, 0.7, *stretch).transform(Z)[0]

    def beginning(law, z):
        # Any matrix with a positive imaginary part.
        rows = 3 if law.root else 2
        real, root = 10 * random.standard_normal((2, len(z), rows, rows))
        return real + real.mT + 1j * (root @ root.mT)

    monkeypatch.setattr(DampedLaw, "_beginning", beginning)
    for _ in range(5):
        np.testing.assert_allclose(DampedLaw(samples, 0.7, *stretch).transform(Z)[0], expected, rtol=1e-10)


def test_as_many_samples_as_directions_with_hardly_any_damping():
    # At the first point steps from the beginning circle around the solution.
    d, damping, strength, z = 500, 1e-4, 0.03, np.geomspace(1, 300, 60)[[17, 30, 40]] * (1 + 0.2j)
    samples, found = samples_of(damping, 1.0, "sin(x)", gs.Inputs([1.0])), []
    expected = np.concatenate([DampedLaw(samples, strength).transform(z[k : k + 1])[0] for k in range(3)])
    for seed in range(8):
        random = np.random.default_rng(seed)
        x = random.standard_normal((d, d))
        r = np.sin(x[:, 0]) + 0.3 * random.standard_normal(d)
        metric = (1 + damping) * np.linalg.inv(x.T @ x / d + damping * np.eye(d))
        sampled, _ = drawn_products(x, r, metric, np.ones(d), samples.law.square)
        found.append((1 / (np.linalg.eigvalsh(np.eye(d) + strength * sampled) - z[:, None])).mean(axis=1))
    for part in (np.real, np.imag):
        mean, error = part(np.mean(found, axis=0)), np.std(part(found), axis=0, ddof=1) / math.sqrt(8)
        assert np.all(np.abs(mean - part(expected)) < 4 * error + 0.01 * np.abs(mean))


@pytest.mark.parametrize(("name", "value"), [("_MAX_STEPS", 1), ("_TOLERANCE", 0.0)])
def test_a_solution_that_is_not_found_is_told(name, value, monkeypatch):
    monkeypatch.setattr(f"gradstep.theory.step.damped_law.{name}", value)
    with pytest.raises(NotConverged, match="the law of the rows after a damped step did not converge"):
        DampedLaw(samples_of(0.3, 0.8), 0.7).transform(Z)


def turned(samples, signal, noise):
    """Return the samples with a theta that has other parts in the classes of directions."""
    return replace(samples, turn=Turn(samples.signal * signal, np.asarray(noise) * np.ones(len(samples.kept))))


@pytest.mark.parametrize("stretch", [0.0, 0.3])
def test_the_theta_of_a_draw_that_is_longer_everywhere_has_the_same_direction(stretch):
    samples = samples_of(0.3, 0.8)
    longer = turned(samples, 1.7, 1.7)
    assert longer.norm == pytest.approx(1.7 * samples.norm, rel=1e-12)
    assert longer.alignment == pytest.approx(samples.alignment, rel=1e-12)
    z, frame = np.array([0.5 + 0.3j, 2 + 1j]), samples.frame(samples.alignment)
    found, expected = (DampedLaw(each, 0.4, stretch, stretch).between(z, frame) for each in (longer, samples))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("damping", [1.0, 1e2, 1e6, 1e8])
def test_a_theta_without_small_directions_keeps_its_digits_there(damping):
    # Directions of small eigenvalues have a large resolvent and next to nothing of theta. Products of functions of a
    # symmetric matrix with each other make a positive matrix. Here its least eigenvalue is from 1e-6 to 7e-6.
    inputs = gs.Inputs([4.0, 1e-3], [0.25, 0.75], [0.9, 0.1])
    samples = turned(samples_of(damping, 0.5, "tanh(2*x)", inputs), np.array([1.02, 0.4]), np.array([0.99, 1.01]))
    z = np.array([-8.6e-6 + 4.3e-6j, -9.6 + 4.8j])
    law, frame = DampedLaw(samples, 0.7, 0.3, 0.4), samples.frame(samples.alignment)[:, :1]
    products = function_products(z[None], *(of[None] for of in law.between(z, frame)))[0, ..., 0, 0]
    scale = 1 / np.sqrt(np.diag(products))
    assert np.linalg.eigvalsh(products * np.outer(scale, scale)).min() > 0


@pytest.mark.parametrize("stretch", [0.0, 0.3])
def test_the_theta_of_a_draw_is_a_vector_of_its_length(stretch):
    # Far away the resolvent is -1/z. The one side knows P from its law with the rows, the other from its derivative.
    samples = turned(samples_of(0.3, 0.8), np.array([1.2, 0.9, 1.1]), [0.8, 1.1, 1.3])
    law, z, h = DampedLaw(samples, 0.4, stretch, stretch), np.array([1e7j]), 1e-5
    np.testing.assert_allclose(-z * law.between(z, np.eye(2))[0][0], np.eye(2), atol=1e-6)
    z = np.array([0.5 + 0.3j])
    slope = (law.between(z + h, np.eye(2))[0] - law.between(z - h, np.eye(2))[0]) / (2 * h)
    np.testing.assert_allclose(law.between(z, np.eye(2))[1], slope, rtol=1e-7)


@pytest.mark.parametrize("root", [0.0, 0.6])
def test_a_large_damping_has_the_vectors_that_the_samples_make_beside_the_gradient_of_a_draw(root):
    samples, signal, noise = samples_of(1e8, 0.8), np.array([1.2, 0.9, 1.1]), np.array([0.8, 1.1, 1.3])
    damped = turned(samples, signal, noise)
    plain = replace(samples.plain, turn=Turn(samples.linear * signal, noise))
    laws = DampedLaw(damped, 0.4, root / 2, root), StretchedLaw(plain, root / 2, root, 0.4)
    if not root:
        laws = laws[0], CorrelatedLaw(plain, 0.4)
    both = (law.others(Z, law.samples.frame(law.samples.alignment)) for law in laws)
    for found, expected in zip(*both, strict=True):
        np.testing.assert_allclose(found[..., :5], expected, rtol=1e-6, atol=1e-6)


def test_a_large_damping_has_the_gradient_of_a_draw():
    samples, signal, noise = samples_of(1e8, 0.8), np.array([1.2, 0.9, 1.1]), np.array([0.8, 1.1, 1.3])
    damped = turned(samples, signal, noise)
    plain = replace(samples.plain, turn=Turn(samples.linear * signal, noise))
    assert (damped.norm, damped.alignment) == pytest.approx((plain.norm, plain.alignment), rel=1e-6)
    z = np.array([0.5 + 0.3j, 2 + 1j])
    laws = (DampedLaw(damped, 0.4), CorrelatedLaw(plain, 0.4))
    found, expected = (law.between(z, law.samples.frame(law.samples.alignment))[0] for law in laws)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
