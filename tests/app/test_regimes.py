"""The words of the page say what the numbers say."""

import math
import re

import numpy as np
import pytest

import gradstep as gs
from gradstep.app.answers import here
from gradstep.app.settings import DEFAULT, problem_of
from gradstep.gaussian import hermite_coefficients

ROOT = {"coefficient": 2.0, "exponent": 0.5}


def words(**changes):
    """Return the regime of the page's first setting, changed."""
    setting = {**DEFAULT, **changes}
    return here({"problem": setting, "axis": {"name": "n"}})["regime"]


def test_colours():
    """As the step grows; few samples, and infinitely many."""
    steps = [0, 1, {"coefficient": 1, "exponent": 0.3}, ROOT]
    assert [words(eta=eta)["key"] for eta in steps] == ["initial", "small", "between", "large"]
    assert words(n_step={"per_d": 1})["key"] == "few"
    assert words(n_step="inf")["key"] == "infinite"
    assert [words(eta=eta, d="inf")["key"] for eta in (0, 1, ROOT)] == ["initial", "small", "large"]


def test_the_first_setting():
    found = words()
    assert found["title"] == "Large step: features are learned"
    assert "31 % below the kernel bound" in found["verdict"]
    assert "mostly the teacher's (alignment 0.93)" in found["text"]


@pytest.mark.parametrize("d", [256, "inf"])
@pytest.mark.parametrize("teacher", ["H2", "H3"])
def test_a_teacher_that_the_step_does_not_see(teacher, d):
    found = words(teacher=teacher, d=d)
    everything = " ".join(found.values())
    assert found["title"] == "Large step: hardly any change"
    assert "is not the teacher's (alignment 0.00" in found["text"]
    assert "no linear part" in found["text"]
    assert "learned" not in everything
    assert "within reach" not in everything


@pytest.mark.parametrize("d", [256, "inf"])
def test_a_linear_activation_learns_nothing_nonlinear(d):
    found = words(activation="x", d=d)
    assert "features are learned" not in found["title"]
    assert "the network, whatever its weights" in found["text"]
    assert found["text"].count("linear") == 1
    assert "nonlinear" not in " ".join(found.values())


def test_noise_in_which_little_is_learned():
    found = words(noise=1.8)
    assert found["title"] == "Large step: a lower error, above the kernel bound"
    assert "15.7 times the kernel bound" in found["verdict"]
    assert "raises the test error" in words(noise=5.0)["verdict"]


def test_a_step_that_is_large_in_name_only():
    """Of order sqrt(N), but a thousandth of it: nothing happens at this size."""
    found = words(eta={"coefficient": 0.001, "exponent": 0.5})
    assert found["key"] == "small"
    assert found["title"] == "Small step: hardly any change"


def test_no_common_direction():
    """The slope of an even activation has mean zero."""
    assert "no direction that they have in common" in words(activation="cos")["text"]
    moved = words(activation="H2", teacher="H2", n_step=256)["text"]
    assert re.search(r"by \d(\.\d)? times their length, but in no direction", moved)
    # Of the population, H2 has no gradient; the network's own output leaves a small one.
    assert (
        "by 0.037 of its length, along a direction that all have in common" in words(teacher="H2", n_step="inf")["text"]
    )


def test_linear_and_constant_teachers():
    assert words(teacher="x")["title"] == "Large step: a better fit of a linear teacher"
    assert "The teacher is linear" in words(teacher="x")["verdict"]
    assert "The teacher is constant" in words(teacher="3")["verdict"]


def test_powers_are_promised_as_the_width_grows():
    assert "N^0.3, powers of the projection on it, up to degree 2" in words(eta={**ROOT, "exponent": 0.3})["text"]
    assert "move without bound" in words(eta={**ROOT, "exponent": 0.9})["text"]
    assert "stays above the kernel bound" in words(eta=1)["text"]


def second_moment(teacher):
    """Return the mean square of a function of a standard normal variable, by summation on a fine grid."""
    x = np.linspace(-9, 9, 20001)
    return np.sum(gs.scalar_function(teacher)(x) ** 2 * np.exp(-(x**2) / 2)) * (x[1] - x[0]) / math.sqrt(2 * math.pi)


def settings(count):
    """Yield random settings."""
    random = np.random.default_rng(7)
    for _ in range(count):
        yield {
            "activation": str(random.choice(["tanh", "relu", "x", "erf", "tanh(x)+0.3*x**2"])),
            "teacher": str(random.choice(["sin", "H2", "x", "H3+0.2*x", "relu"])),
            "d": int(random.integers(50, 400)),
            "width": {"per_d": float(random.uniform(0.5, 3))},
            "n_step": {"per_d": float(random.choice([0.5, 1, 4, 20]))},
            "n": {"per_d": float(random.uniform(0.5, 6))},
            "eta": {"coefficient": float(random.choice([0.01, 0.5, 2, 5])), "exponent": float(random.choice([0, 0.5]))},
            "noise": float(random.choice([0.1, 0.5, 2])),
            "readout": str(random.choice(["constant", "gaussian"])),
        }


@pytest.mark.parametrize("setting", list(settings(24)))
def test_words_follow_from_numbers(setting):
    problem = problem_of({**DEFAULT, **setting})
    error, before = gs.predict(problem).test_error, gs.predict(problem.replace(eta=0.0)).test_error
    linear = hermite_coefficients(problem.teacher, 1)
    bound = second_moment(problem.teacher) - float(linear @ linear)
    found = words(**setting)
    title, verdict, text = found["title"], found["verdict"], found["text"]
    assert ("raises" in verdict) == (error > 1.02 * before)
    assert ("lowers" in verdict) == (error < 0.98 * before)
    assert ("hardly any change" in title) == (abs(error / before - 1) <= 0.02)
    assert ("below the kernel bound" in verdict) == (error < 0.98 * bound)
    if "features are learned" in title:
        assert error < min(0.98 * bound, 0.98 * before)
        assert setting["activation"] != "x"
        assert "not the teacher's" not in text
    if setting["activation"] == "x" or setting["teacher"] == "x":
        assert "features are learned" not in title
    if setting["teacher"] == "H2":
        assert "mostly the teacher's" not in text
        assert "partly the teacher's" not in text


@pytest.mark.parametrize("setting", list(settings(6)))
def test_mirrored_inputs_have_the_same_words(setting):
    """The network of ``sigma(-x)`` sees the teacher ``f(-x)`` as that of ``sigma`` sees ``f``."""
    forms = {"tanh": "tanh(-x)", "relu": "max(-x,0)", "x": "-x", "erf": "erf(-x)", "sin": "sin(-x)", "H2": "H2"}
    forms |= {"tanh(x)+0.3*x**2": "tanh(-x)+0.3*x**2", "H3+0.2*x": "-H3-0.2*x"}
    assert words(**setting) == words(
        **{**setting, **{name: forms[setting[name]] for name in ("activation", "teacher")}}
    )


def test_very_large_steps_and_gradients_that_vanish():
    found = words(eta={"coefficient": 30.0, "exponent": 1.0})["text"]
    assert re.match(r"The step moves a neuron, by \d{2,3}0 times its length, along", found)
    # The slope of a sign is zero almost everywhere.
    for d in (256, "inf"):
        assert words(activation="sign", d=d)["text"].endswith("almost everywhere: the neurons stay where they were.")
    # A small step of an even activation is not none.
    assert "no direction" in words(activation="cos", eta=1e-6)["text"]
