"""Closed forms against refitting, blocks against the whole, weights against repetition."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

from gradstep.simulation.leave_one_out import Copies, copies_of, leave_one_out, left_out, left_out_directly
from gradstep.simulation.ridge import factorise


def problem(n, width, outputs=2, seed=0):
    random = np.random.default_rng(seed)
    features = random.standard_normal((n, width)) + 1.0
    return features, random.standard_normal((n, outputs)), random.uniform(0.5, 2.0, n)


def passes(features, block_rows=1000):
    def blocks():
        for start in range(0, len(features), block_rows):
            part = np.arange(start, min(start + block_rows, len(features)))
            yield features[part].copy(), part

    return blocks


def refitted(features, y, weights, penalty, rows_out):
    """Return the prediction at rows left out together, by an independent implementation."""
    kept = np.setdiff1d(np.arange(len(y)), rows_out)
    model = SklearnRidge(alpha=penalty, solver="cholesky").fit(features[kept], y[kept], weights[kept])
    return model.predict(features[rows_out])


@pytest.mark.parametrize(("n", "width"), [(12, 30), (30, 12), (12, 12)], ids=["Gram", "scatter", "square"])
def test_errors_are_those_of_refitting(n, width):
    features, y, weights = problem(n, width)
    ridge = factorise(passes(features), n, width, y, weights)
    penalties = np.array([0.1, 3.0, 100.0])
    scores = leave_one_out(ridge, passes(features), y, weights, Copies(weights, y, np.arange(n)), penalties)
    for row, penalty in enumerate(penalties):
        brute = [np.mean((y[i] - refitted(features, y, weights, penalty, [i])[0]) ** 2) for i in range(n)]
        np.testing.assert_allclose(scores.squares[row], brute, rtol=1e-7)
    coefficients, intercept = ridge.fitted(3.0)
    model = SklearnRidge(alpha=3.0, solver="cholesky").fit(features, y, weights)
    np.testing.assert_allclose(coefficients.T, model.coef_, atol=1e-9)
    np.testing.assert_allclose(intercept, model.intercept_, atol=1e-9)


@pytest.mark.parametrize("width", [40, 6], ids=["Gram", "scatter"])
def test_copies_are_left_out_together(width):
    features, y, weights = problem(20, width)
    features[10:15] = features[:5]  # other targets at the same inputs
    hashes = np.concatenate([np.arange(10), np.arange(5), np.arange(15, 20)]).astype(np.uint64)
    ridge = factorise(passes(features), 20, width, y, weights)
    scores = leave_one_out(ridge, passes(features), y, weights, copies_of(hashes, y, weights), np.array([0.7]))
    for i in range(20):
        together = np.flatnonzero(hashes == hashes[i])
        brute = refitted(features, y, weights, 0.7, together)[list(together).index(i)]
        assert scores.squares[0, i] == pytest.approx(np.mean((y[i] - brute) ** 2), rel=1e-7)


def test_blocks_are_the_whole():
    features, y, weights = problem(50, 12)
    whole = factorise(passes(features), 50, 12, y, weights)
    blocks = factorise(passes(features, 7), 50, 12, y, weights)
    np.testing.assert_allclose(blocks.fitted(0.5)[0], whole.fitted(0.5)[0], atol=1e-12)


def test_trace_of_the_hat_matrix():
    features, y, weights = problem(30, 12)
    ridge = factorise(passes(features), 30, 12, y, weights)
    centred = np.sqrt(weights)[:, None] * (features - weights @ features / weights.sum())
    hat = centred @ np.linalg.solve(centred.T @ centred + 2.0 * np.eye(12), centred.T)
    assert ridge.degrees_of_freedom(2.0)[0] == pytest.approx(np.trace(hat))


@pytest.mark.parametrize("width", [30, 8], ids=["Gram", "scatter"])
def test_any_array_library(width):
    """Only the array standard is used: a stricter namespace gives the same numbers."""
    strict = pytest.importorskip("array_api_strict")
    features, y, weights = problem(20, width)

    def blocks():
        for block, index in passes(features, 8)():
            yield strict.asarray(block), index

    ours = factorise(blocks, 20, width, y, weights)
    expected = factorise(passes(features), 20, width, y, weights)
    np.testing.assert_allclose(ours.fitted(0.5)[0], expected.fitted(0.5)[0], atol=1e-10)
    copies = Copies(weights, y, np.arange(20))
    np.testing.assert_allclose(
        leave_one_out(ours, blocks, y, weights, copies, np.array([0.5])).squares,
        leave_one_out(expected, passes(features), y, weights, copies, np.array([0.5])).squares,
        rtol=1e-9,
    )


@pytest.mark.parametrize("width", [40, 6], ids=["Gram", "scatter"])
def test_factors_of_single_penalties_give_what_refits_and_eigenvectors_give(width):
    features, y, weights = problem(20, width)
    features[10:15] = features[:5]
    hashes = np.concatenate([np.arange(10), np.arange(5), np.arange(15, 20)]).astype(np.uint64)
    copies, scored = copies_of(hashes, y, weights), np.arange(20) % 3 == 0
    penalties = np.array([1e-4, 0.7, 1e9])
    found = left_out_directly(features, copies, scored, penalties)
    ((_, expected),) = left_out(
        factorise(passes(features), 20, width, y, weights),
        lambda: iter([(features[scored], np.flatnonzero(scored))]),
        copies,
        penalties,
    )
    # Eigenvectors have nine digits left of the smallest penalty, factors more.
    np.testing.assert_allclose(found, expected, atol=1e-8)
    for place, i in enumerate(np.flatnonzero(scored)):
        together = np.flatnonzero(hashes == hashes[i])
        for column, penalty in enumerate(penalties[:2]):
            brute = refitted(features, y, weights, penalty, together)[list(together).index(i)]
            np.testing.assert_allclose(found[place, :, column], brute, rtol=1e-8)


def test_eigenvectors_are_left_for_many_penalties_and_for_those_that_rounding_hides():
    features, y, weights = problem(20, 6)
    given = features, Copies(weights, y, np.arange(20)), np.ones(20, dtype=bool)
    assert left_out_directly(*given, np.logspace(-3, 3, 31)) is None
    assert left_out_directly(*given, np.array([1e-9])) is None
    assert left_out_directly(features * np.nan, *given[1:], np.array([1.0])) is None


def test_copies_of_a_row_are_one_row_with_all_of_their_shares():
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    copies = copies_of(np.array([7, 5, 7, 9], dtype=np.uint64), np.zeros((4, 1)), shares)
    assert copies.squared_shares(shares) == pytest.approx(0.4**2 + 0.2**2 + 0.4**2)
