"""Rational Gauss rules: exact where they must be, and as fine as a law asks."""

import numpy as np
import pytest

from gradstep.errors import NotConverged
from gradstep.theory.neurons.rational_rule import LawAtPoints, Others, rational_rule, sparse_rule
from gradstep.theory.together import result_of

POLES = np.array([-1.0 + 0.5j, -4.0 + 2.0j, 1.0 + 2.0j, 0.5 + 1.0j])


def test_rule_is_exact_for_its_functions():
    rng = np.random.default_rng(3)
    values, overlap = rng.normal(size=60), rng.normal(size=(60, 2))
    overlap = np.linalg.qr(overlap)[0]

    def integral(f):
        return np.einsum("...j,ja,jb->...ab", f(values), overlap, overlap)

    transform, slope = (integral(lambda x, k=k: 1 / (x - POLES[:, None]) ** k) for k in (1, 2))
    nodes, weights = rational_rule(POLES, transform, slope, integral(lambda x: x))
    np.testing.assert_allclose(weights.T @ weights, np.eye(2), atol=1e-12)
    for f in (
        lambda x: x,
        lambda x: x / abs(x - POLES[0]) ** 2,
        lambda x: (1 / ((x - POLES[1]) * (x - POLES[2].conj()))).real,
        lambda x: (x / (x - POLES[3]) ** 2).imag,
    ):
        np.testing.assert_allclose(np.einsum("j,ja,jb->ab", f(nodes), weights, weights), integral(f), atol=1e-9)


def test_components_of_other_vectors_are_those_in_the_span():
    """A function of the matrix times a vector is known if few poles have it; what is orthogonal to all is left out."""
    rng = np.random.default_rng(4)
    values, vectors = rng.normal(size=60), np.linalg.qr(rng.normal(size=(60, 2)))[0]
    inside = vectors[:, 0] / np.abs(values - POLES[0]) ** 2 - vectors[:, 1] / np.abs(values - POLES[2]) ** 2
    across = rng.normal(size=60)
    resolvents = 1 / (values - POLES[:, None])
    span = np.concatenate([vectors.T, *((r * vectors.T) for r in resolvents)])
    for part in (span.real, span.imag):
        across -= np.linalg.lstsq(part.T, across, rcond=None)[0] @ part
    both = np.concatenate([span.real, span.imag[2:]])
    across -= np.linalg.lstsq(both.T, across, rcond=None)[0] @ both
    others = np.stack([inside, inside + across], axis=1)

    def between(left, right, power=1):
        return np.einsum("pj,ja,jb->pab", resolvents**power, left, right)

    known = Others(vectors.T @ others, between(vectors, others))
    mean = np.einsum("j,ja,jb->ab", values, vectors, vectors)
    transform, slope = between(vectors, vectors), between(vectors, vectors, 2)
    nodes, overlap = result_of(sparse_rule(LawAtPoints(POLES, transform, slope, mean, np.ones(4), 1e-30), known))
    for column in (2, 3):
        assert overlap[:, column] @ overlap[:, column] == pytest.approx(inside @ inside, rel=1e-8)
        found = np.einsum("pj,ja,j->pa", 1 / (nodes - POLES[:, None]), overlap[:, :2], overlap[:, column])
        np.testing.assert_allclose(found, known.resolved[..., 0], atol=1e-9)


def marchenko_pastur(z, ratio):
    """Return the Stieltjes transform of X^T X / n in `ratio` n dimensions, by the branch in the upper half-plane."""
    b = 1 - ratio - z
    root = np.sqrt(b**2 - 4 * ratio * z + 0j)
    m = (b + np.stack([root, -root])) / (2 * ratio * z)
    return np.where(m[0].imag > 0, m[0], m[1])


def scalar(values):
    return np.asarray(values)[..., None, None]


@pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0])
def test_few_nodes_know_the_law_of_marchenko_and_pastur(ratio):
    points = -(10.0 ** np.linspace(-2, 2, 11)) * (1 - 0.5j)
    step = 1e-6 * np.abs(points)
    transform, above, below = (marchenko_pastur(points + shift, ratio) for shift in (0, step, -step))
    slope = (above - below) / (2 * step)
    nodes, overlap = result_of(
        sparse_rule(LawAtPoints(points, scalar(transform), scalar(slope), np.ones((1, 1)), np.ones(11), 1e-5))
    )
    # At points that it was not told, down to the edge of the law.
    told = np.array([-0.05, -0.7, -3.0, -40.0]) + 0j
    found = (overlap[:, 0] ** 2 / (nodes - told[:, None])).sum(axis=1)
    np.testing.assert_allclose(found, marchenko_pastur(told + 1e-12j, ratio), rtol=1e-5)
    assert len(nodes) <= 9
    assert np.all(nodes > -1e-9)


def atoms(spread, count=3000):
    """Return a law of many atoms with heavy tails, and its resolvent between two vectors."""
    rng = np.random.default_rng(5)
    values = np.exp(spread * rng.standard_normal(count)) * rng.choice([-1.0, 1.0], count)
    overlap = np.linalg.qr(rng.standard_normal((count, 2)) * np.abs(values[:, None]) ** 0.3)[0]

    def integral(f):
        return np.einsum("...j,ja,jb->...ab", f(values), overlap, overlap)

    return integral


@pytest.mark.parametrize(("spread", "enough"), [(0.2, 24), (1.0, 42), (2.0, 64)])
def test_nodes_are_as_many_as_the_law_is_broad(spread, enough):
    integral = atoms(spread)
    points = -0.5 + 1j * 10.0 ** np.linspace(-0.5, 3, 36)

    def rule(tolerance):
        transform, slope = (integral(lambda x, k=k: 1 / (x - points[:, None]) ** k) for k in (1, 2))
        mean, importance = integral(lambda x: x), np.ones(len(points))
        return result_of(sparse_rule(LawAtPoints(points, transform, slope, mean, importance, tolerance)))

    def error(rule):
        nodes, overlap = rule
        heights = np.array([0.5, 2.0, 7.0, 50.0])[:, None]
        known = np.einsum("pj,ja,jb->pab", 1 / ((nodes + 0.5) ** 2 + heights**2), overlap, overlap)
        exact = integral(lambda x: 1 / ((x + 0.5) ** 2 + heights**2))
        return np.abs(known - exact).max(axis=(1, 2)) / np.abs(exact).max(axis=(1, 2))

    rough, fine = rule(1e-3), rule(1e-6)
    # Neither was told the law at these heights.
    assert error(rough).max() < 1e-3
    assert error(fine).max() < 1e-6
    assert len(rough[0]) < len(fine[0]) <= enough


def test_what_rounding_leaves_unknown_is_an_error():
    points = np.array([-1.0 + 0.5j, -1.0 + 0.1j])
    # Not the transform of any law.
    transform = scalar(np.array([0.3 + 0.4j, 5.0 + 0.001j]))
    slope = scalar(np.array([1.0, 2.0j]))
    with pytest.raises(NotConverged, match="rule"):
        result_of(sparse_rule(LawAtPoints(points, transform, slope, np.ones((1, 1)), np.ones(2), 1e-5)))


def test_rounding_of_a_law_does_not_count_far_below_it():
    """Far below all of a law its resolvent is real but for 1e-8 of it, and known to nine digits all the same."""
    values = np.linspace(0.4, 1.8, 200)
    points = -(10.0 ** np.linspace(-8, 3, 36)) * (1 - 0.5j)
    exact = np.mean(1 / (values - points[:, None]), axis=1)
    slope = scalar(np.mean(1 / (values - points[:, None]) ** 2, axis=1))
    law = LawAtPoints(
        points, scalar((1 + 3e-10) * exact), slope, values.mean() * np.ones((1, 1)), 1 - points.real, 1e-8
    )
    nodes, overlap = result_of(sparse_rule(law))
    np.testing.assert_allclose((1 / (nodes - points[:, None])) @ overlap[:, 0] ** 2, exact, rtol=1e-8)
