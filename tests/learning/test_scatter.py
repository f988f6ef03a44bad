"""Scatter that few rows make: the definition, and errors that are far off where there is much of it."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import pool_of
from gradstep.learning.scatter import scatter_by_few


def drawn(random, count, levels, gaussian=20):
    """Features with a category of so many levels, and targets."""
    category = random.integers(0, levels, count)
    features = np.column_stack([random.standard_normal((count, gaussian)), np.eye(levels)[category]])
    effects = np.random.default_rng(99).standard_normal(gaussian + levels)
    return features, features @ effects / 3 + 0.5 * random.standard_normal(count)


@pytest.mark.parametrize("levels", [2, 12, 25])
@pytest.mark.parametrize("weighted", [False, True])
def test_share_is_that_of_its_definition(levels, weighted):
    """Of two outputs and rows of different sample weights, too."""
    features, targets = drawn(np.random.default_rng(levels), 50, levels, gaussian=4)
    outputs = np.column_stack([targets, features[:, 0] ** 2]) if weighted else targets[:, None]
    weights = np.random.default_rng(1).uniform(0.3, 2.0, 50) if weighted else None
    errors = row_errors(weighted_fit(pool_of(features, outputs, weights), 25, 1e-3))
    fit, psi = errors.fit, errors.fit.resolvent.whitened
    terms = (fit.weights * (psi @ psi.T)) ** 2
    np.fill_diagonal(terms, 0.0)
    number = terms.sum(axis=1) ** 2 / np.square(terms).sum(axis=1)
    own = np.square(errors.residuals).sum(axis=1)
    expected = ((number < 10) * (errors.squares - own)).sum() / errors.squares.sum()
    assert scatter_by_few(errors) == pytest.approx(expected, rel=1e-5, abs=1e-9)
    if levels == 25:
        assert expected > 0.3


def test_errors_that_hang_on_few_rows_have_a_caveat():
    """A hundred levels of four rows each: half of the pool has too few of some, which the equations do not know."""
    refits = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        (features, targets), (test, labels) = drawn(random, 200, 100), drawn(random, 1000, 100)
        readout = np.linalg.solve(features.T @ features + 1e-3 * np.eye(120), features.T @ targets)
        refits.append(np.square(labels - test @ readout).mean())
    features, targets = drawn(np.random.default_rng(100), 400, 100)
    curve = gs.learning_curve(features, targets, n=[200], ridge=[1e-3, 100.0])
    assert curve.test_error[0, 0] > 1.3 * np.mean(refits)
    (caveat,) = [note for note in curve.caveats if "hardly ten rows share" in note]
    assert "ridge = 0.001" in caveat
    assert not gs.learning_curve(features, targets, n=[200], ridge=100.0).caveats


def test_features_that_all_rows_share_have_no_caveat():
    random = np.random.default_rng(0)
    inputs = random.standard_normal((400, 10))
    features = np.tanh(inputs @ random.standard_normal((10, 300)) / 10**0.5)
    curve = gs.learning_curve(features, inputs[:, 0], n=[100, 200, 300], ridge=[1e-2, 1.0])
    assert not curve.caveats


def test_the_few_rows_that_make_an_error_are_among_those_that_are_counted():
    """Two rows of six hundred share a feature. At half of the pool their scatter is more than all other errors."""
    random = np.random.default_rng(3)
    features, targets = random.standard_normal((600, 20)), random.standard_normal(600)
    features[:, 0] = np.arange(600) < 2
    errors = row_errors(weighted_fit(pool_of(features, targets[:, None]), 300, 1e-6))
    scatter = errors.squares - np.square(errors.residuals).sum(axis=1)
    assert scatter[:2].sum() > 0.3 * errors.squares.sum()
    assert scatter_by_few(errors) == pytest.approx(scatter[:2].sum() / errors.squares.sum(), rel=1e-2)
