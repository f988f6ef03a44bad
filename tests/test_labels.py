"""Laws of the labels."""

import pickle

import numpy as np
import pytest
from scipy.stats import norm

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.labels import labels_of

PROBLEM = gs.Problem.cui2024(alpha=1.0, alpha0=1.0, eta_tilde=1.0, lam=0.1, teacher="sin", noise=0.4)


@pytest.mark.parametrize(
    ("channel", "noise", "flip"), [("sign", 0.4, 0.0), ("sign", 0.0, 0.1), ("sign", 0.4, 0.2), ("logistic", 0.0, 0.05)]
)
@pytest.mark.parametrize("teacher", ["sin", np.sin])
def test_mean_of_classes(channel, noise, flip, teacher):
    problem = PROBLEM.replace(noise=noise, teacher=teacher)
    u = np.linspace(-2.5, 2.5, 11)
    value = np.sin(u)
    if channel == "logistic":
        chance = 1 / (1 + np.exp(-value))
    else:
        chance = norm.cdf(value / noise) if noise else (1 + np.sign(value)) / 2
    chance = (1 - flip) * chance + flip * (1 - chance)
    labels = labels_of(problem, channel, flip)
    np.testing.assert_allclose(labels.mean(u), 2 * chance - 1, atol=1e-13)
    assert labels.binary
    assert labels.noise**2 == pytest.approx(1 - float(moments(labels.mean).second_moment), abs=1e-12)


def test_noisy_signs_of_a_sign_are_flipped_signs():
    """A step of two values plus noise has the other sign with one probability, whatever the input."""
    noisy = labels_of(PROBLEM.replace(teacher="1.4*sign(x - 0.2)", noise=0.9), "sign")
    flipped = labels_of(PROBLEM.replace(teacher="sign(x - 0.2)", noise=0.0), "sign", norm.cdf(-1.4 / 0.9))
    u = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(noisy.mean(u), flipped.mean(u), atol=1e-14)
    # A multiple of the sign, so that averages have closed forms.
    assert noisy.mean.name.endswith("*sign(x - 0.2)")


def test_drawn_classes_have_that_mean():
    labels = labels_of(PROBLEM, "sign", 0.1)
    rng = np.random.default_rng(0)
    u = np.repeat([-1.0, 0.2, 2.0], 40_000)
    y = labels.draw(u, rng.normal(size=u.size)).reshape(3, -1)
    assert set(np.unique(y)) == {-1.0, 1.0}
    z = (y.mean(axis=1) - labels.mean(u[::40_000])) / y.std(axis=1) * np.sqrt(40_000)
    assert np.abs(z).max() < 4


def test_real_labels_are_the_teacher_with_noise():
    labels = labels_of(PROBLEM)
    u, e = np.linspace(-1, 1, 5), np.linspace(2, -2, 5)
    np.testing.assert_allclose(labels.draw(u, e), np.sin(u) + 0.4 * e)
    assert not labels.binary


def test_noiseless_classes_have_no_noise():
    assert labels_of(PROBLEM.replace(noise=0.0), "sign").noise == pytest.approx(0.0, abs=1e-7)


def test_labels_travel_between_processes():
    labels = labels_of(PROBLEM.replace(teacher=np.sin), "sign", 0.1)
    copy = pickle.loads(pickle.dumps(labels))
    np.testing.assert_array_equal(copy.mean(np.arange(3.0)), labels.mean(np.arange(3.0)))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("poisson",), "channel"),
        (("sign", 0.5), "flip"),
        (("sign", -0.1), "flip"),
        (("real", 0.1), "flip"),
        (("logistic",), "noise"),
    ],
)
def test_bad_channels_are_refused(arguments, field):
    with pytest.raises(InvalidInput, match=field):
        labels_of(PROBLEM, *arguments)
