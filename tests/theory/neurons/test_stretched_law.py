"""The law of rows that the step stretches: its limits, drawn matrices, derivatives."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.neurons import stretched_law
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.weighted_samples import WeightedSamples, directions_frame, residual_law

Z = np.array([-0.05, -0.5, -3.0]) * (1 - 0.5j)
ONE = np.ones(1)
LEVELS = gs.Inputs([3, 1, 0.3], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2])
NOISE, OFFSET = 0.3, 0.4
#: What the network's own output adds to B in each of the levels, or nothing.
ADDED = [np.array([-0.9, 0.4, 0.7]), pytest.param(None, marks=pytest.mark.statistical)]


def law_of(
    teacher: str, spectrum: Spectrum, ratio: float, stretch: float, strength: float, added: np.ndarray | None = None
) -> StretchedLaw:
    link = scalar_function(teacher)
    residual = residual_law(link, OFFSET, NOISE**2)
    samples = CorrelatedSamples(residual, ratio, moments(link).linear, spectrum, by_output=added)
    return StretchedLaw(samples, stretch, stretch, strength)


def drawn_samples(link, samples, d, count, draws, seed):
    """Yield the spike and the teacher's rest, the eigenvalues of C, B, S and Z^T r^p / n, of whitened samples."""
    known = samples.spectrum
    edges = np.round(np.cumsum(known.share) * d).astype(int)
    c, added = (np.repeat(each, np.diff(edges, prepend=0)) for each in (known.eigenvalue, samples.added))
    direction = np.zeros(d)
    direction[edges - 1] = np.sqrt(known.teacher)
    random = np.random.default_rng(seed)
    for _ in range(draws):
        x = random.standard_normal((count, d))
        r = np.asarray(link(x @ direction)) - OFFSET + NOISE * random.standard_normal(count)
        v = c * (x.T @ r)
        v /= np.linalg.norm(v)
        rest = direction - (v @ direction) * v
        squares = (x.T * (r**2 / samples.law.square)) @ x / count
        powers = x.T @ np.stack([r, r**2, r**3], axis=1) / count
        b = (x.T * r) @ x / count + np.diag(added)
        yield np.stack([v, rest / np.linalg.norm(rest)], axis=1), c, b, squares, powers


def eigen(matrix, vectors):
    """Return eigenvalues, and the components of vectors along the eigenvectors."""
    values, basis = np.linalg.eigh(matrix)
    return values, basis.T @ vectors


def agree(drawn, known):
    """Assert that means over draws are those of the limit: beside chance, up to terms of relative order 1/d."""
    mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / len(drawn) ** 0.5
    assert np.all(np.abs(mean - known) < 4 * error + 0.005 * np.abs(mean))


@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_without_a_stretch_it_is_the_law_of_the_squares(strength):
    law = law_of("sin(x)+0.3*x**2", Spectrum.of(LEVELS), 1.2, 0.0, strength)
    known, frame = CorrelatedLaw(law.samples, strength), law.samples.frame(law.samples.alignment)
    for found, expected in zip(law.transform(Z), known.transform(Z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)
    for found, expected in zip(law.between(Z, frame), known.between(Z, frame), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(law.average(frame), known.average(frame), rtol=1e-13)
    assert law.mean == pytest.approx(known.mean, rel=1e-14)


@pytest.mark.parametrize("stretch", [-1.3, 0.4])
def test_the_stretch_alone_is_the_square_of_the_linear_part(stretch):
    # 1/((1 + k B)^2 - z) is half the difference of two resolvents of B over the root of z.
    law = law_of("sin(x)+0.3*x**2", Spectrum(ONE, ONE, ONE), 1.2, stretch, 0.0)
    alignment, root = law.samples.alignment, np.sqrt(Z.astype(complex))
    known = WeightedSamples(law.samples.law, law.samples.law.residual, law.samples.ratio)
    frame, vectors = directions_frame(alignment), law.samples.frame(alignment)
    resolvents, transforms = [], []
    for point in ((root - 1) / stretch, (-root - 1) / stretch):
        above = np.where(point.imag > 0, point, point.conj())
        m = known.transform(above)
        r = known.resolvent(above, m, known.transform_slope(m), frame)[0]
        transforms.append(np.where(point.imag > 0, m, m.conj()))
        resolvents.append(np.where(point.imag[:, None, None] > 0, r, r.conj()))
    whole = 2 * stretch * root
    np.testing.assert_allclose(law.transform(Z)[0], (transforms[0] - transforms[1]) / whole, rtol=1e-10)
    expected = (resolvents[0] - resolvents[1]) / whole[:, None, None]
    np.testing.assert_allclose(law.between(Z, vectors)[0], expected, rtol=1e-9)


@pytest.mark.parametrize("strength", [0.0, 1.5])
@pytest.mark.parametrize(
    ("spectrum", "added"),
    [(LEVELS, None), (LEVELS, np.array([-0.9, 0.4, 0.7])), (gs.Inputs([2, 0], [0.5, 0.5], [1, 0]), None)],
)
def test_derivatives_and_the_average_are_those_of_the_resolvent(strength, spectrum, added):
    law = law_of("x + 0.5*x**2", Spectrum.of(spectrum), 0.8, 0.6, strength, added)
    frame, h = law.samples.frame(law.samples.alignment), 1e-5
    for of in (law.transform, lambda z: law.between(z, frame)):
        np.testing.assert_allclose((of(Z + h)[0] - of(Z - h)[0]) / (2 * h), of(Z)[1], rtol=1e-6, atol=1e-9)
    # -z^2 (1/(A - z) + 1/z) is A + A^2/z + ..., of which the second term is imaginary on the imaginary axis.
    far = np.array([1e5j])
    found = -(far**2) * (law.between(far, frame)[0][0] + np.eye(2) / far)
    np.testing.assert_allclose(found.real, law.average(frame), rtol=1e-5, atol=1e-5)
    assert (-(far**2) * (law.transform(far)[0] + 1 / far)).real == pytest.approx(law.mean, rel=1e-6)
    # The products likewise: C / z and q CBC / z, in the mean and between vectors.
    plain, by_c, by_samples = (-far * each[0] for each in law.products_between(far, frame))
    np.testing.assert_allclose(plain.real, np.eye(2), atol=1e-4)
    for found, expected in zip((by_c, by_samples), law.product_averages(frame), strict=True):
        np.testing.assert_allclose(found.real, expected, atol=1e-3)
    means = np.array(law.products(far))[1:, 0] * -far
    np.testing.assert_allclose(means.real, law.product_means, atol=1e-3)


@pytest.mark.parametrize("added", ADDED)
def test_drawn_matrices(added):
    d, count, k, t, draws = 300, 240, -0.5, 0.6, 60
    teacher = "sin(x)+0.2*(x**2-1)"
    link, law = scalar_function(teacher), law_of(teacher, Spectrum.of(LEVELS), d / count, k, t, added)
    frame = law.samples.frame(law.samples.alignment)
    expected = np.concatenate([law.transform(Z)[0][:, None], law.between(Z, frame)[0].reshape(3, 4)], axis=1)
    found, whole = [], []
    for vectors, c, b, s, _ in drawn_samples(link, law.samples, d, count, draws, seed=3):
        linear = np.eye(d) + k * c[:, None] * b
        values, overlap = eigen((linear * c) @ linear.T + t * c[:, None] * s * c, vectors)
        resolvents = [(overlap.T / (values - z)) @ overlap for z in Z]
        found.append([[np.mean(1 / (values - z)), *m.ravel()] for z, m in zip(Z, resolvents, strict=True)])
        whole.append([values.mean(), *((overlap.T * values) @ overlap).ravel()])
    agree(found, expected)
    agree(whole, np.array([law.mean, *law.average(frame).ravel()]))
    # Without the stretch they are far apart.
    mean, error = np.mean(found, axis=0)[:, 0], np.std(found, axis=0, ddof=1)[:, 0] / draws**0.5
    assert np.all(np.abs(mean - CorrelatedLaw(law.samples, t).transform(Z)[0]) > 10 * error + 0.005 * np.abs(mean))


@pytest.mark.parametrize(
    ("inputs", "added"),
    [
        (LEVELS, ADDED[0]),
        pytest.param(LEVELS, None, marks=pytest.mark.statistical),
        pytest.param(gs.Inputs([1.0 + 1e-9, 1.0 - 1e-9]), None, marks=pytest.mark.statistical),
    ],
)
def test_the_mean_over_readouts_and_its_products_are_those_of_drawn_matrices(inputs, added):
    # Readouts of -1 and 2: their mean is .5 and their mean square 2.5.
    d, count, k, t, draws, first, second = 240, 180, 0.4, 0.5, 100, 0.5, 2.5
    teacher = "sin(x)+0.3*(x**2-1)"
    link, root = scalar_function(teacher), k * second**0.5
    samples = law_of(teacher, Spectrum.of(inputs), d / count, 0.0, 0.0, added).samples
    law = StretchedLaw(samples, first * k, root, second * t)
    frame = samples.frame(samples.alignment)
    known = np.concatenate(
        [
            np.stack(law.products(Z), axis=1),
            np.stack(law.products_between(Z, frame), axis=1).reshape(3, -1),
        ],
        axis=1,
    )
    found, whole = [], []
    for vectors, c, b, s, _ in drawn_samples(link, samples, d, count, draws, seed=4):
        by_samples = c[:, None] * b * c
        matrix = np.diag(c) + 2 * first * k * by_samples + root**2 * (by_samples / c) @ by_samples
        values, basis = np.linalg.eigh(matrix + second * t * c[:, None] * s * c)
        others = np.eye(d), np.diag(c), root * by_samples
        overlap = basis.T @ vectors
        row = []
        for z in Z:
            inverse = 1 / (values - z)
            diagonals = [np.einsum("ij,ij->j", basis, other @ basis) for other in others]
            between = [vectors.T @ other @ basis @ (inverse[:, None] * overlap) for other in others]
            row.append([*(np.mean(each * inverse) for each in diagonals), *np.ravel(between)])
        found.append(row)
        averages = (vectors.T @ other @ vectors for other in others[1:])
        means = values.mean(), c.mean(), np.trace(root * by_samples) / d
        whole.append([*means, *((overlap.T * values) @ overlap).ravel(), *np.ravel([*averages])])
    agree(found, known)
    averages = np.ravel(law.product_averages(frame))
    agree(whole, np.array([law.mean, *law.product_means, *law.average(frame).ravel(), *averages]))


@pytest.mark.parametrize(
    ("inputs", "added"),
    [
        (LEVELS, ADDED[0]),
        pytest.param(LEVELS, None, marks=pytest.mark.statistical),
        pytest.param(gs.Inputs([1.0 + 1e-9, 1.0 - 1e-9]), None, marks=pytest.mark.statistical),
    ],
)
def test_vectors_that_the_samples_make_are_those_of_drawn_matrices(inputs, added):
    d, count, k, t, draws = 240, 240, -0.5, 0.6, 80
    teacher = "sin(x)+0.2*(x**2-1)"
    link, law = scalar_function(teacher), law_of(teacher, Spectrum.of(inputs), d / count, k, t, added)
    frame = law.samples.frame(law.samples.alignment)
    known, found, plain = law.others(Z, frame), [], []
    for vectors, c, b, s, powers in drawn_samples(link, law.samples, d, count, draws, seed=5):
        linear = np.eye(d) + k * c[:, None] * b
        values, basis = np.linalg.eigh((linear * c) @ linear.T + t * c[:, None] * s * c)
        g, h, cubes = (c * each for each in powers.T)
        made = np.stack([g, c * (b @ g), h, c * (b @ h), cubes], axis=1)
        overlap, components = basis.T @ vectors, basis.T @ made
        found.append([np.ravel((overlap.T / (values - z)) @ components) for z in Z])
        plain.append(np.ravel(vectors.T @ made))
    # Of the largest of each kind: a third power of the residual has few samples.
    scale = np.tile(np.abs(known.plain).max(axis=0), 2)
    for drawn, expected in ((found, known.resolved.reshape(len(Z), -1)), (plain, known.plain.ravel())):
        mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / draws**0.5
        size = scale if drawn is plain else scale * np.abs(law.transform(Z)[0])[:, None]
        assert np.all(np.abs(mean - expected) < 4 * error + 0.02 * size)


@pytest.mark.parametrize("law", [law_of("sin(x)+0.3*x**2", Spectrum.of(LEVELS), 0.8, 0.4, 0.7, ADDED[0]), None])
def test_vectors_that_the_samples_make_far_away_and_along_the_spike(law):
    law = law or CorrelatedLaw(law_of("sin(x)", Spectrum.of(LEVELS), 0.8, 0.0, 0.0).samples, 0.9)
    frame, far = law.samples.frame(law.samples.alignment), 1e6 * np.exp(0.5j * np.ones(1))
    # Far away a resolvent is -1/z, and the first vector is the spike.
    known = law.others(far, frame)
    np.testing.assert_allclose(-(far * known.resolved[0]), known.plain, rtol=1e-4, atol=1e-4)
    known, between = law.others(Z, frame), law.between(Z, frame)[0]
    assert known.plain[0, 0] == pytest.approx(law.samples.norm, rel=1e-9)
    np.testing.assert_allclose(known.resolved[..., 0], law.samples.norm * between[..., 0], rtol=1e-9, atol=1e-12)


def test_the_resolvent_among_the_products_is_the_same():
    samples = law_of("sin(x)+0.3*x**2", Spectrum.of(LEVELS), 0.8, 0.0, 0.0).samples
    law, frame = StretchedLaw(samples, 0.2, 0.7, 0.7), samples.frame(samples.alignment)
    np.testing.assert_allclose(law.products_between(Z, frame)[0], law.between(Z, frame)[0], rtol=1e-12)
    np.testing.assert_allclose(law.products(Z)[0], law.transform(Z)[0], rtol=1e-14)


def test_a_direction_of_the_initial_output():
    # The residual holds an output along a direction of its own, orthogonal to the teacher.
    d, count, draws, own, (k, q, t) = 400, 300, 24, 0.8, (0.3, 0.6, 0.5)
    link = scalar_function("sin(x)+0.3*(x**2-1)")
    variance = NOISE**2 + own**2
    law = residual_law(link, OFFSET, variance)
    noise = law.residual - (np.asarray(link(law.projection)) - OFFSET)
    samples = StepSamples(law, d / count, moments(link).linear, noise, variance, -own)
    alike = CorrelatedSamples(law, d / count, samples.linear, Spectrum(ONE, ONE, ONE))
    rows = StretchedLaw(alike, k, q, t, samples.output, samples.output_variance)
    axes = directions_frame(samples.linear / samples.norm, samples.own / samples.norm)
    frame = np.concatenate([axes[:2], 0 * axes[:2], axes[2:] / (d / count * law.square) ** 0.5])
    known = np.stack(rows.products_between(Z, frame), axis=1).reshape(3, -1)
    random, found, whole = np.random.default_rng(5), [], []
    for _ in range(draws):
        x = random.standard_normal((count, d))
        r = np.asarray(link(x[:, 0])) - OFFSET - own * x[:, 1] + NOISE * random.standard_normal(count)
        g = x.T @ r
        rest = g - g[0] * np.eye(d)[0] - g[1] * np.eye(d)[1]
        vectors = np.stack([np.eye(d)[0], np.eye(d)[1], rest / np.linalg.norm(rest)], axis=1) @ axes
        b, s = (x.T * r) @ x / count, (x.T * (r**2 / law.square)) @ x / count
        matrix = np.eye(d) + 2 * k * b + q**2 * b @ b + t * s
        values, basis = np.linalg.eigh(matrix)
        overlap = basis.T @ vectors
        sides = vectors, vectors, q * b @ vectors
        found.append([np.ravel([(side.T @ basis / (values - z)) @ overlap for side in sides]) for z in Z])
        whole.append(vectors.T @ matrix @ vectors)
    agree(found, known)
    agree(whole, rows.average(frame))


def test_short_rows_near_zero_are_found():
    """The equations of a stretch that leaves hardly anything of some rows, where C has next to nothing, too."""
    inputs = {
        least: gs.Inputs([2.95, 0.6, 0.35, least], [0.3, 0.12, 0.15, 0.43], [0.9, 0.06, 0.04, 0])
        for least in (0, 1e-12)
    }
    z = -(10.0 ** np.linspace(-8, -1, 36)) * (1 - 0.5j)
    none, some = (
        law_of("2*tanh(2*x)", Spectrum.of(each), 0.86, 0.64, 0.0).at(z).inverse[:, :3, 0, 0] for each in inputs.values()
    )
    assert np.all(none.imag > 0)
    assert np.all(np.abs(some / none - 1).max(axis=1) < 100 * 1e-12 / np.abs(z))


def test_a_fixed_point_that_is_not_found_is_an_error(monkeypatch):
    monkeypatch.setattr(stretched_law, "_MAX_STEPS", 1)
    with pytest.raises(NotConverged, match="law of the rows"):
        law_of("x", Spectrum.of(LEVELS), 1.2, 0.5, 0.7).at(Z)
