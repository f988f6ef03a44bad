"""Probabilities and intervals, from rows left out of the fit."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.estimators import readout
from gradstep.estimators.learned import Learned


def test_intervals_hold_what_they_promise():
    """Twenty tables with noise of two kinds: the mean coverage has a standard error over tables."""
    held, below = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        X = random.standard_normal((1200, 6))
        noise = random.standard_normal(1200) if seed % 2 else random.exponential(1.0, 1200)
        y = np.tanh(2 * X[:, 0]) + 0.5 * noise
        # The last were not drawn again along gradients of kernel fits, which takes the longest.
        model = gs.OneStepRegressor(64, n_steps="auto" if seed < 8 else 1, random_state=0).fit(X[:200], y[:200])
        low, high = model.predict_interval(X[200:], 0.8).T
        held.append(np.mean((y[200:] >= low) & (y[200:] <= high)))
        below.append(np.mean(y[200:] < low))
    # The rows that are not held are as many below as above, also where the noise is exponential.
    for found, expected in ((held, 0.8), (below, 0.1)):
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        assert abs(np.mean(found) - expected) < max(3 * error, 0.02)


def test_intervals_of_several_outputs_and_of_few_rows():
    random = np.random.default_rng(0)
    X, Y = random.standard_normal((30, 3)), random.standard_normal((30, 2))
    model = gs.OneStepRegressor(8, random_state=0).fit(X, Y)
    ends = model.predict_interval(X[:4], 0.5)
    assert ends.shape == (4, 2, 2)
    assert (ends[..., 0] < ends[..., 1]).all()
    assert np.isinf(model.predict_interval(X[:4], 0.99)).all()
    with pytest.raises(InvalidInput, match="coverage"):
        model.predict_interval(X, 1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_calibrated(classes):
    """The log loss is close to that of the true probabilities."""
    random = np.random.default_rng(1)
    X = random.standard_normal((3000, 5))
    logits = np.column_stack([2 * X[:, 0], -X[:, 1], X[:, 1] - X[:, 0]])[:, :classes]
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array(["a", "b", "c"])[(random.random((3000, 1)) > truth.cumsum(axis=1)).sum(axis=1)]
    model = gs.OneStepClassifier(64, random_state=0).fit(X[:600], y[:600])
    found = model.predict_proba(X[600:])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X[600:]))
    assert log_loss(y[600:], found) < 1.08 * log_loss(y[600:], truth[600:])


def test_class_weight_is_a_weight_of_rows():
    random = np.random.default_rng(2)
    X = random.standard_normal((200, 4))
    y = np.where(X[:, 0] + random.standard_normal(200) > 1, "rare", "usual")
    factors = {"rare": 3.0, "usual": 1.0}
    by_class = gs.OneStepClassifier(32, class_weight=factors, random_state=0).fit(X, y)
    by_row = gs.OneStepClassifier(32, random_state=0).fit(X, y, [factors[label] for label in y])
    np.testing.assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    # What is said of a table counts its rows as the fit did, by its factors also on rows of other frequencies.
    for table in (slice(None), slice(120)):
        Z, z, weights = X[table], y[table], [factors[label] for label in y[table]]
        said, known = by_class.diagnose(Z, z), by_row.diagnose(Z, z, weights)
        assert vars(said.accuracy) == vars(known.accuracy)
        assert (said.gain, said.network) == (known.gain, known.network)
        np.testing.assert_array_equal(
            by_class.learning_curve(Z, z, [60]).r2, by_row.learning_curve(Z, z, [60], sample_weight=weights).r2
        )
    plain, balanced = (
        gs.OneStepClassifier(32, class_weight=kind, n_steps=1, random_state=0).fit(X, y) for kind in (None, "balanced")
    )
    assert np.mean(balanced.predict(X) == "rare") > np.mean(plain.predict(X) == "rare")
    weights = np.where(y == "rare", *(len(y) / 2 / np.sum(y == name) for name in ("rare", "usual")))
    by_row = gs.OneStepClassifier(32, n_steps=1, random_state=0).fit(X, y, weights)
    assert balanced.diagnose(X[:120], y[:120]).gain == by_row.diagnose(X[:120], y[:120], weights[:120]).gain


def test_balanced_classes_have_equal_weight_with_weights_of_rows():
    random = np.random.default_rng(3)
    X = random.standard_normal((120, 4))
    y = np.where(X[:, 0] + random.standard_normal(120) > 0.5, "rare", "usual")
    weight = np.where(y == "rare", 1, random.integers(1, 5, 120))
    options = {"width": 32, "class_weight": "balanced", "random_state": 0}
    weighted = gs.OneStepClassifier(**options).fit(X, y, weight)
    again = np.repeat(np.arange(120), weight)
    repeated = gs.OneStepClassifier(**options).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_rows_with_equal_inputs_are_observations_of_their_own():
    """A table of three columns of zeros and ones has eight different inputs, however many rows it has."""
    random = np.random.default_rng(7)
    X = random.integers(0, 2, (3000, 3)).astype(float)
    y = X.sum(axis=1) + random.standard_normal(3000)
    ends = gs.OneStepRegressor(32, random_state=0).fit(X[:1000], y[:1000]).predict_interval(X[1000:])
    held = np.mean((ends[:, 0] <= y[1000:]) & (y[1000:] <= ends[:, 1]))
    assert held == pytest.approx(0.9, abs=3 * (0.09 / 1000 + 0.09 / 2000) ** 0.5)
    truth = 1 / (1 + np.exp(-6 * (X[:, 0] + X[:, 1] - X[:, 2] - 0.5)))
    labels = random.random(3000) < truth
    found = gs.OneStepClassifier(32, random_state=0).fit(X[:1000], labels[:1000]).predict_proba(X[1000:])
    assert log_loss(labels[1000:], found) < 1.12 * log_loss(labels[1000:], truth[1000:])


def test_a_weight_is_a_repetition_in_probabilities_and_intervals():
    random = np.random.default_rng(8)
    X, weights = random.standard_normal((80, 3)), random.integers(0, 3, 80)
    X[40:] = X[:40]  # equal inputs with other targets, too
    y, fresh = X[:, 0] + random.standard_normal(80), random.standard_normal((20, 3))
    again = np.repeat(np.arange(80), weights)
    pairs = [(gs.OneStepRegressor, y, "predict_interval"), (gs.OneStepClassifier, y > 0, "predict_proba")]
    for kind, targets, method in pairs:
        weighted = kind(32, random_state=0).fit(X, targets, weights)
        repeated = kind(32, random_state=0).fit(X[again], targets[again])
        np.testing.assert_allclose(*(getattr(fit, method)(fresh) for fit in (weighted, repeated)), rtol=1e-5)
    # Shares of one are no less than rows that are all different.
    X, y, model = X[:40], y[:40] > 0, gs.OneStepClassifier(32, random_state=0)
    shares = model.fit(X, y, np.full(40, 1 / 40)).predict_proba(fresh)
    np.testing.assert_allclose(shares, model.fit(X, y).predict_proba(fresh), rtol=1e-5)


def test_intervals_do_not_depend_on_whether_left_out_outputs_are_held(monkeypatch):
    """Those of many targets would take much memory at all penalties, and are found again at the best one."""
    random = np.random.default_rng(6)
    X = random.standard_normal((150, 5))
    y = np.tanh(2 * X[:, :2]) + 0.3 * random.standard_normal((150, 2))
    found = []
    for most in (2, 1):
        monkeypatch.setattr(readout, "_FEW_OUTPUTS", most)
        found.append(gs.OneStepRegressor(32, random_state=0).fit(X, y).predict_interval(X))
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.parametrize("rows", [3, 60])
def test_learned_directions_are_those_of_the_gradients(rows):
    random = np.random.default_rng(3)
    gradients = random.standard_normal((rows, 5)) * [3.0, 1.0, 1.0, 0.1, 0.1]
    learned = Learned.of(gradients, "abcde", "pq", np.array([0, 0, 1, 1, 1]))
    values, vectors = np.linalg.eigh(gradients.T @ gradients / np.sum(gradients**2))
    assert learned.effective == pytest.approx(1 / np.sum(values**2))
    np.testing.assert_allclose(learned.shares[0], values[-1])
    np.testing.assert_allclose(np.abs(learned.directions[0] @ vectors[:, -1]), 1)
    np.testing.assert_allclose(learned.importances.sum(), 1)
    assert "direction 0" in repr(learned)
    learned.plot()
    nothing = Learned.of(np.zeros((3, 5)), "abcde", "pq", np.array([0, 0, 1, 1, 1]))
    assert repr(nothing) == "nothing: the network is constant"


def test_the_link_along_a_direction():
    random = np.random.default_rng(4)
    X = random.standard_normal((400, 6))
    y = np.abs(X[:, 2]) + 0.1 * random.standard_normal(400)
    model = gs.OneStepRegressor(128, random_state=0).fit(X, y)
    assert model.learned_.headline == "one direction, column x2"
    assert 0.5 < model.feature_importances_[2] <= 1
    link = model.link(X, y)
    assert link.label.startswith("+")
    assert repr(link).startswith(f"along {link.label} (")
    assert f"explains {link.explained:.1%} of" in repr(link)
    assert link.explained > 0.9
    assert link.bins.target[0] > link.bins.target[len(link.bins.target) // 2] + 1
    # A notebook shows what has a picture of its own, though pyplot was never imported.
    for drawn in (link.plot(), model.learned_.plot()):
        assert drawn._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InvalidInput, match="direction"):
        model.link(X, y, 25)


def test_the_link_of_several_outputs_is_that_of_one_of_them():
    random = np.random.default_rng(5)
    X = random.standard_normal((500, 4))
    y = np.stack([0.1 * X[:, 1] + random.standard_normal(500), np.tanh(2 * X[:, 0])], axis=1)
    model = gs.OneStepRegressor(128, random_state=0).fit(X, y)
    # The second target is what the network knows, and the mean of both would show half of it.
    link = model.link(X, y)
    assert link.target == "target 1"
    assert link.explained == model.link(X, y, output=1).explained > 0.9
    assert model.link(X, y, output=0).explained < 0.1
    with pytest.raises(InvalidInput, match="output"):
        model.link(X, y, output=2)

    # Codes of all classes add up to a constant, so that the mean over classes would show nothing.
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    classifier = gs.OneStepClassifier(128, random_state=0).fit(X, labels)
    link = classifier.link(X, labels)
    assert link.explained > 0.8
    assert link.target in {"class low (+1, others -1)", "class high (+1, others -1)"}
    two = gs.OneStepClassifier(128, random_state=0).fit(X, X[:, 0] > 0)
    link = two.link(X, X[:, 0] > 0)
    assert link.target == "class True (+1, other -1)"
    assert link.plot().axes[0].get_ylabel() == "class True (+1, other -1), standardised"
    rising = np.corrcoef(link.bins.kappa, link.bins.target)[0, 1] * two.directions_[0, 0]
    assert rising > 0
