"""On Gaussian single-index data the estimator's test error is the one that the theory predicts."""

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
