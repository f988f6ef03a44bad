"""The diagnosis against data whose answers are known."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

import gradstep as gs
from gradstep.estimators.link import binned, fit_link, normal_scores
from gradstep.gaussian import hermite_coefficients


@pytest.fixture(scope="module")
def known():
    """Return a single-index problem, its fit in the conventions of the theory, and its diagnosis."""
    random = np.random.default_rng(0)
    X = random.standard_normal((800, 20))
    y = np.tanh(2 * X[:, 0]) + 0.1 * random.standard_normal(800)
    theory = {"activation": "tanh", "offset": 0.0, "damping": math.inf, "sample_split": True}
    model = gs.OneStepRegressor(width=100, **theory, random_state=0).fit(X, y)
    return X, y, model, model.diagnose(X, y)


def test_direction(known):
    """The step on all rows has the alignment that the two halves imply; here the truth is known."""
    X, y, _, diagnosis = known
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    gradient = z.T @ (y - y.mean())
    truth = gradient[0] / np.linalg.norm(gradient)
    assert diagnosis.alignment == pytest.approx(
        math.sqrt(2 * diagnosis.halves / (1 + diagnosis.halves))
    )  # Spearman-Brown
    assert diagnosis.alignment == pytest.approx(truth, abs=0.02)
    assert diagnosis.spectrum.outliers == 1


def test_gain_and_theory(known):
    X, y, model, diagnosis = known
    random = np.random.default_rng(1)
    fresh = random.standard_normal((4000, 20))
    measured = np.mean((model.predict(fresh) - np.tanh(2 * fresh[:, 0])) ** 2) / y.var()
    assert diagnosis.gain > 5 * diagnosis.gain_error > 0
    assert diagnosis.theory.after.test_error == pytest.approx(measured, abs=0.02)
    before, after = diagnosis.theory.unexplained
    assert before - after == pytest.approx(diagnosis.gain, abs=0.06)
    # The projection blurs the link; the correction for it moves the noise towards the true one.
    assert 0.1 / y.std() - 0.02 < diagnosis.theory.noise < diagnosis.link.noise
    assert diagnosis.theory_note == ""
    assert len(X) == diagnosis.rows


def test_pure_noise_has_no_gain():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((200, 8)), random.standard_normal(200)
    diagnosis = gs.OneStepRegressor(width=32, random_state=0).fit(X, y).diagnose(X, y)
    assert diagnosis.gain <= 2 * max(diagnosis.gain_error, 1e-12)
    assert diagnosis.single_index < 0.1
    assert "pays" not in str(diagnosis).split("larger step")[1]


def test_text_and_figure(known):
    diagnosis = known[-1]
    text = str(diagnosis)
    for word in ("gain", "direction", "spectrum", "theory", "larger step", "more width"):
        assert word in text
    figure = diagnosis.plot()
    assert isinstance(figure, Figure)
    assert [len(axes.lines) > 0 for axes in figure.axes] == [True, True, True]


def test_classes_and_names():
    random = np.random.default_rng(0)
    X = random.standard_normal((300, 12))
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = gs.OneStepClassifier(width=48, random_state=0).fit(X, labels)
    diagnosis = model.diagnose(X, labels)
    assert diagnosis.single_index > 0.3
    assert "without offsets" in diagnosis.theory_note
    with pytest.raises(ValueError, match="not in the fit"):
        model.diagnose(X, np.where(labels == "a", "d", labels))


def test_awkward_tables():
    for X, y in ((np.ones((12, 2)), np.arange(12.0)), (np.eye(12), np.ones(12)), (np.eye(6), np.arange(6.0))):
        diagnosis = gs.OneStepRegressor(width=8, random_state=0).fit(X, y).diagnose(X, y)
        assert np.isfinite(diagnosis.gain)
        assert diagnosis.theory is None
        assert "no theory" in str(diagnosis)
        diagnosis.plot()


def test_link_of_known_function():
    random = np.random.default_rng(0)
    kappa = random.standard_normal(4000)
    link = fit_link(kappa, np.tanh(2 * kappa) + 0.2 * random.standard_normal(4000), np.ones(4000))
    assert link.noise == pytest.approx(0.2, abs=0.01)
    np.testing.assert_allclose(link.curve(np.array([-1.0, 0.5])), np.tanh([-2.0, 1.0]), atol=0.05)
    np.testing.assert_allclose(link.coefficients[:6], hermite_coefficients("tanh(2*x)", 5), atol=0.03)


def test_link_is_corrected_for_a_noisy_projection():
    """What is seen along a projection of alignment 0.9 gives back the function of the index itself."""
    random = np.random.default_rng(0)
    index, other = random.standard_normal((2, 20000))
    kappa = 0.9 * index + math.sqrt(1 - 0.81) * other
    y = index + 0.5 * (index**2 - 1) + 0.3 * random.standard_normal(20000)
    formula, noise = fit_link(kappa, y, np.ones(20000)).seen_through(0.9)
    grown = hermite_coefficients(formula, 2)
    np.testing.assert_allclose(grown[1:], [1.0, 0.5 * math.sqrt(2)], atol=0.05)
    assert noise == pytest.approx(0.3, abs=0.1)


def test_normal_scores():
    values = np.array([5.0, -1.0, 3.0, 3.0])
    scores = normal_scores(values, np.ones(4))
    assert scores[2] == scores[3] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(normal_scores(np.repeat(values, 2), np.ones(8)), np.repeat(scores, 2))
    np.testing.assert_allclose(normal_scores(values, np.full(4, 7.0)), scores)


def test_bins_keep_equal_projections_together():
    kappa = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])
    bins = binned(kappa, kappa**2, -kappa, np.ones(100))
    np.testing.assert_allclose(bins.kappa, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(bins.target, [0.0, 1.0, 4.0])
    np.testing.assert_allclose(bins.learned, [0.0, -1.0, -2.0])
    np.testing.assert_allclose(bins.weight, [50, 30, 20])
