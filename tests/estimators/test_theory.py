"""The estimator's step and penalty are those of the theory, and on Gaussian single-index data so is its test error."""

import math

import numpy as np
import pytest

import gradstep as gs


@pytest.mark.parametrize(
    ("eta", "activation", "link"),
    [
        (gs.Step(2.0, 0.5), "erf", "sin(2*x)"),
        pytest.param(0.0, "tanh", "tanh(2*x)", marks=pytest.mark.statistical),
    ],
)
def test_test_error_is_predicted(eta, activation, link):
    """Eta and the penalty fixed, step and fit on different rows, no offsets: within three standard errors.

    The estimator standardises the targets by the standard deviation it finds, so that its eta is the theory's divided
    by that.
    """
    d, width, n_step, n, noise, repetitions = 60, 90, 400, 300, 0.1, 10
    teacher = gs.scalar_function(link)
    errors, sizes = [], []
    for seed in range(repetitions):
        random = np.random.default_rng(100 + seed)
        X = random.standard_normal((n_step + n, d))
        y = teacher(X[:, 0]) + noise * random.standard_normal(n_step + n)
        model = gs.OneStepRegressor(
            width,
            activation=activation,
            eta=eta,
            ridge=1.0,
            offset=0.0,
            sample_split=n_step / (n_step + n),
            random_state=seed,
        ).fit(X, y)
        fresh = random.standard_normal((6000, d))
        errors.append(np.mean((model.predict(fresh) - teacher(fresh[:, 0])) ** 2))
        sizes.append(y.std())
    step = eta.size(width) if eta else 0.0
    predicted = gs.predict(
        gs.Problem(
            activation=activation,
            teacher=link,
            d=d,
            width=width,
            n_step=n_step,
            n=n,
            eta=step / float(np.mean(sizes)),
            ridge=1.0,
            noise=noise,
        )
    )
    deviation = np.std(errors, ddof=1) / math.sqrt(repetitions)
    assert abs(np.mean(errors) - predicted.test_error) < 3 * deviation


@pytest.mark.parametrize("damping", ["auto", 0.5])
def test_a_fit_is_that_of_the_formulas(damping):
    r"""To rounding, from the first layer as drawn: a step :math:`(\eta/\sqrt N)G`, then ridge regression.

    The step size is a given power of the number of neurons, the penalty stands against the weighted sum of squares of
    the standardised targets, and the intercept is free. A predicted error, as above, is hardly another for a penalty
    that is half as large again.
    """
    width, random = 30, np.random.default_rng(4)
    X, fresh = random.standard_normal((80, 6)) @ random.standard_normal((6, 6)), random.standard_normal((20, 6))
    y, weights = np.sin(2 * X[:, 0]) + 0.1 * random.standard_normal(80), random.uniform(0.5, 3, 80)
    model = gs.OneStepRegressor(
        width, activation="tanh", eta=gs.Step(2.0, 0.5), damping=damping, ridge=0.7, n_steps=1, offset=0, random_state=0
    ).fit(X, y, weights)
    share = weights / weights.sum()
    centre = share @ X
    scale = np.sqrt(share @ (X - centre) ** 2)
    level = share @ y
    spread = np.sqrt(share @ (y - level) ** 2)
    z, target, a = (X - centre) / scale, (y - level) / spread, model.initial_readout_[:, 0]

    u = z @ model.initial_weights_.T
    pulls = (target - np.tanh(u) @ a / width)[:, None] * a / np.cosh(u) ** 2
    gradient = (share[:, None] * pulls).T @ z
    if damping != "auto":
        gradient = gradient * (1 + damping) @ np.linalg.inv(z.T @ (share[:, None] * z) + damping * np.eye(6))
    eta = 2.0 * width**0.5
    after = model.initial_weights_ + eta / np.sqrt(width) * gradient
    features, later = np.tanh(z @ after.T), np.tanh((fresh - centre) / scale @ after.T)
    centred = features - share @ features
    gram = centred.T @ (weights[:, None] * centred) + 0.7 * np.eye(width)
    readout = np.linalg.solve(gram, centred.T @ (weights * target))

    np.testing.assert_allclose(model.weights_, after, atol=1e-11)
    expected = level + spread * (later - share @ features) @ readout
    np.testing.assert_allclose(model.predict(fresh), expected, rtol=1e-9)
    assert model.eta_ == pytest.approx(eta)
    assert model.ridge_ == pytest.approx(0.7)
