"""Estimates from pools against fits to fresh rows of the same law, judged by z-scores."""

import numpy as np
import pytest

import gradstep as gs

pytestmark = pytest.mark.statistical

ROWS, WIDTH, DIMENSION, POOLS, REFITS = 320, 80, 50, 40, 200


def law(kind, seed=0):
    """Return a function that draws features and targets: a network before or after a step, or heavy tails."""
    random = np.random.default_rng(seed)
    weights = random.standard_normal((WIDTH, DIMENSION)) / DIMENSION**0.5
    if kind != "random features":
        weights[:, 0] += 2 * (random.standard_normal(WIDTH) if kind == "spike" else 1.0)

    def rows(count):
        x = random.standard_normal((count, DIMENSION))
        if kind == "heavy tails":
            x *= np.sqrt(4 / random.chisquare(4, count))[:, None]
        active = np.tanh(x @ weights.T)
        features = active + 0.3 * (x @ weights.T) ** 2 if kind == "aligned spike" else active
        return features, np.sin(1.5 * x[:, 0]) + 0.3 * random.standard_normal(count)

    return rows


def fitted(features, targets, ridge, weights=None):
    scaled = features if weights is None else features * weights[:, None]
    return np.linalg.solve(scaled.T @ features + ridge * np.eye(WIDTH), scaled.T @ targets)


def z_scores(estimates, refits):
    spread = [np.std(values, axis=0, ddof=1) / len(values) ** 0.5 for values in (estimates, refits)]
    return (np.mean(estimates, axis=0) - np.mean(refits, axis=0)) / np.hypot(*spread)


@pytest.mark.parametrize("kind", ["random features", "spike", "aligned spike", "heavy tails"])
@pytest.mark.parametrize("ridge", [0.1, 10.0])
def test_errors_and_their_standard_errors(kind, ridge):
    rows, sizes = law(kind), [32, 80, 160, 320, 640]
    refits = []
    for _ in range(REFITS):
        fits = []
        for n in sizes:
            (features, targets), (fresh, labels) = rows(n), rows(1000)
            readout = fitted(features, targets, ridge)
            fits.append([np.mean((b - a @ readout) ** 2) for a, b in ((fresh, labels), (features, targets))])
        refits.append(fits)
    curves = [gs.learning_curve(*rows(ROWS), n=sizes, ridge=ridge) for _ in range(POOLS)]
    estimates = np.array([np.hstack([curve.test_error, curve.training_error]) for curve in curves])
    # Of ten numbers that share their pools, none beyond four standard errors.
    assert np.abs(z_scores(estimates, np.array(refits))).max() < 4
    told = np.mean([np.hstack([c.test_standard_error, c.training_standard_error]) for c in curves], axis=0)
    ratio = told / estimates.std(axis=0, ddof=1)
    # A standard deviation of forty values is known to 11 % if they are Gaussian.
    assert (ratio > 0.65).all()
    assert (ratio < 1.6).all()


def test_weighted_rows():
    """Weights that depend on the row, and targets that are noisier where they are small."""
    base = law("spike", 1)
    random = np.random.default_rng(2)

    def rows(count):
        features, targets = base(count)
        weights = 0.2 + features[:, 0] ** 2
        return features, targets + random.standard_normal(count) / np.sqrt(weights), weights

    sizes, refits = [80, 160, 480], []
    for _ in range(REFITS):
        fits = []
        for n in sizes:
            (features, targets, weights), (fresh, labels, shares) = rows(n), rows(1000)
            readout = fitted(features, targets, 2.0, weights)
            fits.append([shares @ (labels - fresh @ readout) ** 2, weights @ (targets - features @ readout) ** 2 / n])
        refits.append(fits)
    refits = np.array(refits)
    refits[:, :, 0] /= 1000
    curves, masses = [], []
    for _ in range(POOLS):
        features, targets, weights = rows(ROWS)
        curves.append(gs.learning_curve(features, targets, n=sizes, ridge=2.0, sample_weight=weights))
        masses.append(weights.mean())
    # Refits are compared without their own mean weight: multiply it into the estimates.
    estimates = [np.hstack([c.test_error, c.training_error]) * m for c, m in zip(curves, masses, strict=True)]
    assert np.abs(z_scores(np.array(estimates), refits)).max() < 4


@pytest.mark.parametrize("outputs", [1, 3])
def test_wrong_classes(outputs):
    rows, sizes = law("spike", 3), [40, 80, 160, 320]

    def classes(targets):
        if outputs == 1:
            return np.where(targets > 0, 1.0, -1.0)[:, None]
        return np.eye(3)[np.digitize(targets, [-0.4, 0.4])]

    def wrong(output, truth):
        missed = (output * truth < 0)[:, 0] if outputs == 1 else output.argmax(axis=1) != truth.argmax(axis=1)
        return missed.mean()

    refits = []
    for _ in range(REFITS):
        fits = []
        for n in sizes:
            (features, targets), (fresh, labels) = rows(n), rows(2000)
            fits.append(wrong(fresh @ fitted(features, classes(targets), 3.0), classes(labels)))
        refits.append(fits)
    estimates = []
    for _ in range(POOLS):
        features, targets = rows(ROWS)
        estimates.append(gs.learning_curve(features, classes(targets), n=sizes, ridge=3.0).classification_error[:, 0])
    assert np.abs(z_scores(np.array(estimates), np.array(refits))).max() < 4
