"""The convex fit against scikit-learn, optimality, and the ridge fit of the ordinary simulation."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import ElasticNet, HuberRegressor, Lasso, LogisticRegression, Ridge, SGDClassifier
from sklearn.svm import LinearSVC

import gradstep as gs
from gradstep.convex import loss, penalty
from gradstep.errors import InvalidInput, NotConverged
from gradstep.simulation.convex_fit import fit_convex
from gradstep.simulation.convex_measurement import convex_measurement
from gradstep.simulation.instance import initial_weights

N, WIDTH, RIDGE = 90, 40, 4.0


@pytest.fixture(scope="module")
def features():
    """Features of a network at initialisation, as the simulation makes them."""
    inputs = np.random.default_rng(5).normal(size=(N, 30))
    return np.tanh(inputs @ initial_weights(0, WIDTH, 30, "sphere").T), inputs[:, 0]


@pytest.fixture(scope="module")
def reals(features):
    return np.sin(features[1]) + 0.3 * np.random.default_rng(6).normal(size=N)


@pytest.fixture(scope="module")
def classes(features):
    return np.where(features[1] + 0.5 * np.random.default_rng(7).normal(size=N) > 0, 1.0, -1.0)


def fitted(features, labels, **options):
    return fit_convex(features[0], labels, ridge=RIDGE, tolerance=1e-9, **options)


def test_logistic_regression(features, classes):
    reference = LogisticRegression(C=1 / (2 * RIDGE), fit_intercept=False, tol=1e-10, max_iter=10_000)
    reference.fit(features[0], classes)
    assert_allclose(fitted(features, classes, loss="logistic").readout, reference.coef_[0], atol=1e-6)


@pytest.mark.parametrize("name", ["squared_hinge", "hinge"])
def test_support_vector_machine(features, classes, name):
    reference = LinearSVC(loss=name, C=1 / (2 * RIDGE), fit_intercept=False, tol=1e-9, max_iter=1_000_000)
    reference.fit(features[0], classes)
    assert_allclose(fitted(features, classes, loss=name).readout, reference.coef_[0], atol=1e-5)


def test_smoothed_hinge(features, classes):
    """The modified Huber loss is four times the hinge smoothed over two; its optimiser stops at three digits."""
    reference = SGDClassifier(
        loss="modified_huber",
        alpha=8 * RIDGE / N,
        fit_intercept=False,
        learning_rate="adaptive",
        eta0=0.01,
        tol=1e-9,
        max_iter=20_000,
        random_state=0,
    ).fit(features[0], classes)
    ours = fitted(features, classes, loss="smooth_hinge(2)").readout
    assert_allclose(reference.coef_[0], ours, atol=2e-3)


def test_ridge(features, reals):
    reference = Ridge(alpha=RIDGE, fit_intercept=False).fit(features[0], reals)
    assert_allclose(fitted(features, reals, loss="square").readout, reference.coef_, atol=1e-7)


def test_lasso(features, reals):
    alpha = RIDGE / (2 * N * math.sqrt(WIDTH))
    reference = Lasso(alpha=alpha, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(features[0], reals)
    ours = fitted(features, reals, loss="square", penalty="l1")
    assert_allclose(ours.readout, reference.coef_, atol=1e-6)
    assert 0 < (ours.readout == 0).sum() == (reference.coef_ == 0).sum()


def test_elastic_net(features, reals):
    l1, l2 = 0.4 * RIDGE / (2 * N * math.sqrt(WIDTH)), 0.6 * RIDGE / N
    reference = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), fit_intercept=False, tol=1e-12, max_iter=100_000)
    reference.fit(features[0], reals)
    ours = fitted(features, reals, loss="square", penalty="elastic_net(0.4)")
    assert_allclose(ours.readout, reference.coef_, atol=1e-6)


def test_huber_regression_at_its_own_scale(features, reals):
    """HuberRegressor also fits the scale of the residuals; at its estimate the weights are those of our loss."""
    reference = HuberRegressor(epsilon=1.35, alpha=5.0, fit_intercept=False, tol=1e-10, max_iter=100_000)
    reference.fit(features[0], reals)
    scale = float(reference.scale_)
    ours = fit_convex(features[0], reals, loss=f"huber({1.35 * scale})", ridge=5.0 * scale, tolerance=1e-9)
    # Its own optimiser stops at five digits.
    assert_allclose(ours.readout, reference.coef_, atol=3e-4)


@pytest.mark.parametrize("name", ["absolute", "pseudo_huber(0.3)", "hinge", "smooth_hinge(0.5)", "logistic"])
@pytest.mark.parametrize("price", ["ridge", "elastic_net(0.5)", "pseudo_huber(0.5)"])
def test_no_other_readout_is_better(features, reals, classes, name, price):
    chosen, priced = loss(name), penalty(price)
    labels = classes if chosen.kind == "margin" else reals

    def objective(readout):
        cost = chosen.value(labels, features[0] @ readout).sum()
        return (cost + RIDGE / WIDTH * priced.function.value(math.sqrt(WIDTH) * readout).sum()) / N

    fit = fit_convex(features[0], labels, loss=name, penalty=price, ridge=RIDGE, tolerance=1e-8)
    assert objective(fit.readout) == pytest.approx(fit.train_loss, rel=1e-12)
    rng = np.random.default_rng(0)
    for size in 10.0 ** rng.uniform(-3, 0, 60):
        assert objective(fit.readout + size * rng.normal(size=WIDTH)) > fit.train_loss
    assert fit.train_error <= fit.train_loss <= objective(0 * fit.readout)


def test_square_loss_is_the_ordinary_simulation():
    problem = gs.Problem.cui2024(alpha=1.5, alpha0=2.0, eta_tilde=1.0, lam=0.1, teacher="sin", noise=0.3, d=40)
    measured, expected = convex_measurement(problem, [3, 4], tolerance=1e-9), gs.simulate(problem, [3, 4])
    for quantity in ("test_error", "train_error", "train_loss"):
        assert_allclose(measured[quantity], expected[quantity], rtol=1e-6)
    # The test loss is the same expectation plus the noise, by sampling.
    assert_allclose(measured["test_loss"], expected["test_error"] + 0.09, rtol=0.06)
    assert np.isnan(measured["classification_error"]).all()


def test_the_step_sees_the_classes():
    """With noiseless classes the network is that of a sign teacher."""
    problem = gs.Problem.cui2024(alpha=1.5, alpha0=2.0, eta_tilde=1.0, lam=0.1, teacher="linear", d=40)
    measured = convex_measurement(problem, [1], channel="sign", tolerance=1e-9)
    expected = gs.simulate(problem.replace(teacher="sign"), [1])
    for quantity in ("test_error", "train_error", "train_loss"):
        assert_allclose(measured[quantity], expected[quantity], rtol=1e-5)


def test_a_random_classifier_of_flipped_labels_is_no_better_than_the_flips():
    problem = gs.Problem.cui2024(alpha=2.0, alpha0=4.0, eta_tilde=1.0, lam=0.1, teacher="linear", d=40)
    measured = convex_measurement(problem, range(3), loss="logistic", channel="sign", flip=0.2)
    assert (measured["classification_error"] > 0.2).all()
    assert (measured["train_classification_error"] < measured["classification_error"]).all()


@pytest.mark.parametrize("name", ["square", "huber(0.3)", "squared_hinge", "logistic"])
@pytest.mark.parametrize("mix", [1.0, 0.3])
def test_the_penalty_that_switches_off_all_weights(features, reals, classes, name, mix):
    """No weight is pulled over the kink of the l1 norm, or just the one that is pulled the most."""
    chosen = loss(name)
    labels = classes if chosen.kind == "margin" else reals
    pulls = np.abs(features[0].T @ chosen.slope(labels, np.zeros(N)))
    threshold = math.sqrt(WIDTH) * pulls.max() / mix
    nothing, one = (
        fit_convex(features[0], labels, loss=name, penalty=f"elastic_net({mix})", ridge=factor * threshold)
        for factor in (1.001, 0.99)
    )
    assert not nothing.readout.any()
    assert nothing.train_loss == nothing.train_error == pytest.approx(chosen.value(labels, np.zeros(N)).mean())
    assert np.flatnonzero(one.readout).tolist() == [pulls.argmax()]


@pytest.mark.parametrize("name", ["absolute", "hinge"])
@pytest.mark.parametrize("ridge", [0.3, 4.0, 20.0])
def test_straight_lines_have_their_subgradients(features, reals, classes, name, ridge):
    """As many samples are on the kink of the loss as weights are not zero; what these pull balances the penalty."""
    labels = classes if name == "hinge" else reals
    fit = fit_convex(features[0], labels, loss=name, penalty="l1", ridge=ridge)
    outputs = features[0] @ fit.readout
    argument = 1 - labels * outputs if name == "hinge" else labels - outputs
    on_kink, active = np.abs(argument) < 1e-9, fit.readout != 0
    assert 0 < on_kink.sum() == active.sum() <= WIDTH
    pull = np.where(on_kink, 0.0, loss(name).slope(labels, outputs))
    price = ridge / math.sqrt(WIDTH)
    subgradient = np.linalg.solve(
        features[0][on_kink][:, active].T, -features[0][:, active].T @ pull - price * np.sign(fit.readout[active])
    )
    low, high = (
        (np.minimum(0, -labels), np.maximum(0, -labels)) if name == "hinge" else (-1 + 0 * labels, 1 + 0 * labels)
    )
    assert (subgradient > low[on_kink] - 1e-9).all()
    assert (subgradient < high[on_kink] + 1e-9).all()
    pull[on_kink] = subgradient
    assert np.abs(features[0].T @ pull).max() <= price * (1 + 1e-9)


def test_bad_input_is_refused(features, reals):
    with pytest.raises(InvalidInput, match="labels"):
        fit_convex(features[0], reals, loss="hinge", ridge=1.0)
    with pytest.raises(InvalidInput, match="ridge"):
        fit_convex(features[0], reals, loss="square", ridge=0.0)
    problem = gs.Problem.cui2024(alpha=1.0, alpha0=1.0, eta_tilde=1.0, lam=0.1)
    with pytest.raises(InvalidInput, match="finite"):
        convex_measurement(problem, [0])
    with pytest.raises(InvalidInput, match="loss"):
        convex_measurement(problem.at_dimension(20), [0], loss="hinge")


def test_fits_that_do_not_converge_are_refused(features, reals):
    with pytest.raises(NotConverged, match="convex fit"):
        fit_convex(features[0], reals, loss="absolute", ridge=1e-3, tolerance=1e-12, maximum_iterations=50)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("seeds", {"seeds": [0.5, 0.9]}),
        ("seeds", {"seeds": []}),
        ("seeds", {"seeds": [-1]}),
        ("seeds", {"seeds": np.array(2.5)}),
        ("test_samples", {"test_samples": 0}),
    ],
)
def test_measurements_of_no_network_are_refused(field, changes):
    problem = gs.Problem(activation="tanh", teacher="sin", d=5, width=6, n_step=7, n=8, eta=1.0, ridge=1.0)
    with pytest.raises(InvalidInput) as raised:
        convex_measurement(problem, **({"seeds": [0]} | changes))
    assert raised.value.field == field
    assert convex_measurement(problem, 2, test_samples=10).seeds == (0, 1)


@pytest.mark.parametrize(
    ("features", "labels", "said"),
    [
        (np.empty((0, 3)), np.empty(0), r"features: got .*shape \(0, 3\).*; allowed: .* at least one row"),
        (np.empty((3, 0)), np.ones(3), "features: .*at least one row and one column"),
        (np.ones(3), np.ones(3), "features: .*a table"),
        (np.array([[1.0], [math.nan]]), np.ones(2), "features: got nan; allowed: finite numbers"),
        (np.array([[1.0], [-math.inf]]), np.ones(2), "features: got -inf; allowed: finite numbers"),
        (np.ones((2, 1)), np.array([1.0, math.nan]), "labels: got nan; allowed: finite numbers"),
    ],
)
@pytest.mark.parametrize("name", ["square", "absolute"])
def test_nothing_to_fit_and_what_is_no_number_are_refused(features, labels, said, name):
    with pytest.raises(InvalidInput, match=said):
        fit_convex(features, labels, loss=name, ridge=1.0)


def test_labels_that_do_not_fit_are_refused(features):
    for field, options in (
        ("labels", {"labels": np.ones(3), "ridge": 1.0}),
        ("ridge", {"labels": features[1], "ridge": "a"}),
        ("ridge", {"labels": features[1], "ridge": True}),
    ):
        with pytest.raises(InvalidInput) as raised:
            fit_convex(features[0], loss="square", **options)
        assert raised.value.field == field
