"""Errors say what to change, whatever was raised below."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import LinAlgError

import gradstep as gs
from gradstep.errors import within_range


@pytest.mark.parametrize(
    "raised", [LinAlgError("Singular matrix"), OverflowError(34, "out of range"), ZeroDivisionError()]
)
def test_numbers_out_of_range_are_one_error_of_this_package(raised: Exception) -> None:
    with pytest.raises(gs.NotConverged, match=r"the work did not converge.*double precision"), within_range("the work"):
        raise raised


@pytest.mark.parametrize("raised", [gs.InvalidInput("d", 0, "an integer >= 2"), KeyError("d"), MemoryError()])
def test_other_errors_stay_what_they_are(raised: Exception) -> None:
    with pytest.raises(type(raised)) as caught, within_range("the work"):
        raise raised
    assert caught.value is raised


def test_a_prediction_beyond_double_precision_says_so() -> None:
    problem = gs.Problem(
        activation="1e29*tanh(x)", teacher="sin", d=100, width=150, n_step=400, n=300, eta=1e30, ridge=1.0
    )
    with pytest.raises(gs.NotConverged, match="use less extreme settings"):
        gs.predict(problem)


def test_a_value_of_several_lines_is_told_in_one() -> None:
    told = str(gs.InvalidInput("X", np.zeros((3, 3)), "numbers, finite"))
    assert told.startswith("X: got array([[0., 0., 0.], [0.,")
    assert "\n" not in told


def test_numbers_of_numpy_are_told_as_plain_ones() -> None:
    given = [np.float64(0.5), np.int32(3), np.str_("relu")]
    assert str(gs.InvalidInput("eta", given, "a number")) == "eta: got [0.5, 3, 'relu']; allowed: a number"


def test_a_misspelt_word_has_a_guess() -> None:
    assert gs.InvalidInput("activation", "tahn", "relu, tanh or sigmoid").guess == "tanh"
    assert gs.InvalidInput("activation", "RELU", "elu, relu, tanh or sigmoid").guess == "relu"
    assert gs.InvalidInput("activation", "zzz", "relu, tanh or sigmoid").guess == ""
    assert gs.InvalidInput("ridge", -1.0, "a number > 0").guess == ""
    # The words of a description and of its examples are no choices.
    assert gs.InvalidInput("settings", "nofile", "a readable TOML file (No such file or directory)").guess == ""
    assert gs.InvalidInput("eta", "nan*N^0.5", "a number, or with a power of N: 0,1,2*N^0.5 or sqrt(N)").guess == ""
    assert gs.InvalidInput("eta", "d^0.5", "a coefficient times a power of N: 'N^0.25', '2*sqrt(N)'").guess == ""
    assert gs.InvalidInput("inputs", "powerlaw(0.5)", "'power_law(0.5)', or a mapping").guess == "power_law(0.5)"
