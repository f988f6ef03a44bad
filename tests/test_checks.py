"""Checks return what was given as what it is used as, and name field, value and range where they refuse it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradstep.checks import (
    LARGEST_NUMBER,
    bounded,
    finite,
    flag,
    integer,
    is_infinite,
    is_real,
    is_whole,
    nonnegative,
    one_of,
    plain_number,
    positive,
    real,
    size,
)
from gradstep.errors import InvalidInput


@pytest.mark.parametrize("value", [1, 16, np.int8(3), np.uint64(16), 2.0, np.float32(2), Fraction(2), np.array(2.0)])
def test_whole_numbers_of_any_library_become_integers_of_python(value: Any) -> None:
    found = integer("refine", value, 1, 16)
    assert type(found) is int
    assert found == value
    assert is_whole(plain_number(value))


@pytest.mark.parametrize("value", [np.array(16.0), np.array(16), np.array(16.0, dtype=np.float32)])
def test_arrays_without_dimensions_are_numbers(value: Any) -> None:
    assert plain_number(value) == 16
    assert isinstance(plain_number(value), int | float)
    assert real("eta", value) == 16.0
    assert size("n", value) == 16
    for other in (np.array([16.0]), np.array(True), np.array("16"), np.ma.masked):
        with pytest.raises(InvalidInput, match="eta"):
            real("eta", other)


@pytest.mark.parametrize(
    "value", [0, 17, 10**400, True, np.True_, 2.5, Fraction(1, 2), "2", None, math.nan, math.inf, [2]]
)
def test_what_is_no_integer_in_range_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^refine: got .*; allowed: an integer from 1 to 16$"):
        integer("refine", value, 1, 16)


def test_an_integer_without_an_upper_end() -> None:
    assert integer("order", 10**400, 0) == 10**400
    with pytest.raises(InvalidInput, match=r"order: got -1; allowed: an integer >= 0"):
        integer("order", -1, 0)


def test_what_is_allowed_can_be_said_in_other_words() -> None:
    with pytest.raises(InvalidInput, match="allowed: as many as there are"):
        integer("seeds", 0, 1, allowed="as many as there are")


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (1, "an integer >= 2"),
        (2.5, "an integer >= 2"),
        (10**19, "an integer >= 2, at most 4e[+]18"),
        (10**400, "an integer >= 2, at most 4e[+]18"),
        (math.inf, "an integer >= 2"),
        (math.nan, "an integer >= 2"),
        (True, "an integer >= 2"),
        ("2", "an integer >= 2"),
    ],
)
def test_sizes_fit_in_64_bits(value: Any, allowed: str) -> None:
    with pytest.raises(InvalidInput, match=f"d: got .*; allowed: {allowed}$"):
        size("d", value, 2)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), Fraction(1, 2), -math.inf])
def test_real_numbers_become_floats(value: Any) -> None:
    found = real("x", value)
    assert type(found) is float
    assert found == value
    assert is_real(value)


@pytest.mark.parametrize("value", [True, np.False_, math.nan, np.float64("nan"), "1", None, 1j, 10**400, np.ones(1)])
def test_what_is_no_real_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^x: got .*; allowed: a finite real number$"):
        real("x", value)


def test_a_range_of_real_numbers() -> None:
    allowed = "a number in [0, 1/2)"
    assert real("flip", 0, allowed, lambda value: 0 <= value < 0.5) == 0
    with pytest.raises(InvalidInput) as caught:
        real("flip", 0.5, allowed, lambda value: 0 <= value < 0.5)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("flip", 0.5, allowed)


@pytest.mark.parametrize(
    ("value", "strictly", "allowed"),
    [
        (0, True, "a finite number > 0"),
        (-1, True, "a finite number > 0"),
        (-1, False, "a finite number >= 0"),
        (math.nan, False, "a finite number >= 0"),
        (math.inf, True, "a finite number > 0, at most 1e[+]30"),
        (2e30, False, "a finite number >= 0, at most 1e[+]30"),
    ],
)
def test_numbers_that_overflow_later_are_refused(value: float, strictly: bool, allowed: str) -> None:
    with pytest.raises(InvalidInput, match=f"eta: got .*; allowed: {allowed}$"):
        bounded("eta", value, positive=strictly)


def test_the_ends_of_bounded_numbers() -> None:
    assert bounded("eta", 0) == 0
    assert bounded("eta", LARGEST_NUMBER, positive=True) == LARGEST_NUMBER


def test_infinity_is_a_number() -> None:
    assert is_infinite(math.inf)
    assert is_infinite(np.float32("inf"))
    assert not any(map(is_infinite, (-math.inf, math.nan, "inf", None, 1)))


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_truth_values_of_numpy_are_some(value: Any) -> None:
    assert flag("paired", value) is bool(value)


@pytest.mark.parametrize("value", [0, 1, "yes", None, 1.0])
def test_what_is_no_truth_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"paired: got .*; allowed: True or False"):
        flag("paired", value)


def test_one_of_a_few_words() -> None:
    assert one_of("channel", "sign", ("real", "sign", "logistic")) == "sign"


@pytest.mark.parametrize("value", ["", "signs", None, ["sign"], {}])
def test_other_words_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"channel: got .*; allowed: 'real', 'sign' or 'logistic'"):
        one_of("channel", value, ("real", "sign", "logistic"))


def test_a_single_word() -> None:
    with pytest.raises(InvalidInput, match=r"allowed: 'y'$"):
        one_of("residual", "x", ("y",))


@pytest.mark.parametrize(
    ("check", "good", "bad", "allowed"),
    [
        (positive, [1, 2.5], [1, 0], "finite and > 0"),
        (nonnegative, [0, 1], [-1, 1], "finite and >= 0"),
        (finite, [-1, 0], [math.inf], "finite"),
    ],
)
def test_arrays(check: Any, good: list[float], bad: list[float], allowed: str) -> None:
    found = check("x", good)
    assert found.dtype == np.float64
    assert found.tolist() == good
    assert check("x", good[0]).shape == ()
    for value, words in (
        (bad, allowed),
        ([math.nan], allowed),
        ([], f"at least one number, {allowed}"),
        ("a", f"numbers, {allowed}"),
        ([1, [2]], f"numbers, {allowed}"),
        ([10**400], f"numbers, {allowed}"),
        (np.array([1j]), f"numbers, {allowed}"),
    ):
        with pytest.raises(InvalidInput) as caught:
            check("x", value)
        assert (caught.value.field, caught.value.allowed) == ("x", words)


@pytest.mark.parametrize("check", [positive, nonnegative])
@pytest.mark.parametrize("value", [True, [True, True], "1", ["1", "2"], np.array(["1"])])
def test_truth_values_and_text_are_no_numbers(check: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"x: got .*; allowed: numbers, "):
        check("x", value)


def test_truth_values_may_be_data() -> None:
    assert finite("y", [True, False]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("check", [positive, nonnegative, finite])
@pytest.mark.parametrize("value", [np.array([5], "M8[D]"), np.array([5], "m8[s]"), np.ma.masked_greater([1.0, 2.0], 1)])
def test_dates_and_masked_values_are_no_numbers(check: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"x: got .*; allowed: numbers, "):
        check("x", value)
