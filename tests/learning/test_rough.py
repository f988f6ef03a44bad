"""The diagonal resolvent at many pairs: what it tells at its nodes and between them, and how far it may be off."""

import numpy as np
import pytest

from gradstep.learning.equations import diagonal_fits, row_errors, weighted_fit
from gradstep.learning.pairs import solved
from gradstep.learning.pool import pool_of
from gradstep.learning.rough import rough_errors
from gradstep.learning.standard_error import influence_on_test_error


def drawn(kind, count=200, width=40, seed=0):
    random = np.random.default_rng(seed)
    weights = random.standard_normal((width, 30)) / 30**0.5
    inputs = random.standard_normal((count, 30))
    if kind == "after a step":
        weights[:, 0] += 2 * random.standard_normal(width)
    features = np.maximum(inputs @ weights.T, 0.0) if kind == "with a threshold" else np.tanh(inputs @ weights.T)
    return features, (np.sin(2 * inputs[:, 0]) + 0.3 * random.standard_normal(count))[:, None]


KINDS = ["random features", "after a step", "with a threshold"]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_the_diagonal_at_every_pair(kind):
    features, targets = drawn(kind)
    pool = pool_of(features, targets)
    ridges = np.logspace(-3, 1, 8) * np.square(features).sum() / 40
    pairs = [(float(n), float(ridge)) for n in np.linspace(20, 200, 8).round() for ridge in ridges]
    rough = rough_errors(pool, pairs)
    assert len(rough.weights) < len(pairs)
    samples, penalties = np.array(pairs).T
    every = row_errors(diagonal_fits(pool, samples, penalties))
    deviations = influence_on_test_error(every).std(axis=0)
    relative = deviations / every.test_error / 200**0.5
    assert np.abs(np.log(rough.errors[0] / every.test_error) / relative).max() < 0.1
    np.testing.assert_allclose(rough.deviations[0], deviations, rtol=0.15)
    np.testing.assert_allclose(rough.influences[0].std(axis=1), deviations, rtol=0.15)
    for place, weights in rough.weights.items():
        np.testing.assert_allclose(weights, every.fit.weights[:, place], rtol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_the_factors_to_the_whole_resolvent(kind):
    features, targets = drawn(kind, seed=1)
    pool = pool_of(features, targets)
    ridges = np.logspace(-2, 1, 4) * np.square(features).sum() / 40
    pairs = [(float(n), float(ridge)) for n in (40, 70, 120, 200) for ridge in ridges]
    rough, cells = rough_errors(pool, pairs), solved(pool, pairs, classes=False)
    exact = np.array([[cells[pair].test, cells[pair].training] for pair in pairs]).T
    # At n = M the errors are exact, elsewhere the interpolation of the diagonal's own adds its tolerance.
    off, allowed = np.abs(np.log(rough.errors / exact)), rough.bounds[0] + 2 * rough.tolerances[:, :2].T
    assert (off <= allowed).all()
    np.testing.assert_allclose(rough.errors[:, rough.whole], exact[:, rough.whole], rtol=1e-8)
    assert (rough.bounds[0, rough.whole] == 0).all()


def test_the_own_term_of_a_row_in_sums_of_what_varies_from_row_to_row():
    """Values without structure: the sum over other rows is near that of the whole resolvent only with the own term."""
    features, _ = drawn("random features", 300)
    targets = np.random.default_rng(5).standard_normal((300, 1))
    pool = pool_of(features, targets)
    ridge = 0.01 * np.square(features).sum() / 40
    whole = weighted_fit(pool, 200.0, ridge)
    rough = diagonal_fits(pool, np.array([200.0]), np.array([ridge]))
    values = np.square(targets[:, 0])
    exact = whole.spread(values)
    found = rough.spread(values[:, None])[:, 0]
    plain = (rough.coupled((rough.weights * rough.remainder) * values[:, None]) / (rough.weights * rough.remainder))[
        :, 0
    ]
    assert np.std(found - exact) < 0.5 * np.std(plain - exact)
    assert found.mean() == pytest.approx(exact.mean(), rel=0.02)


def test_zero_targets_tell_nothing():
    features, _ = drawn("random features", 60)
    assert rough_errors(pool_of(features, np.zeros((60, 1))), [(10.0, 1.0), (60.0, 2.0)]) is None
