"""Sizes of a problem: integers that can be drawn, real numbers for equations, ratios in the proportional limit."""

from __future__ import annotations

import math
from typing import Any

import pytest

import gradstep as gs
from gradstep.sizes import apportioned

FINITE: dict[str, Any] = {"d": 100, "width": 150, "n_step": 400, "n": 300, "ridge": 2}
RATIOS = {"width": 1.5, "n_step": 4.0, "n": 3.0, "ridge": 0.02}
LIMIT: dict[str, Any] = {"d": math.inf} | {name: gs.Proportional(ratio) for name, ratio in RATIOS.items()}


def problem(**sizes: Any) -> gs.Problem:
    return gs.Problem(activation="tanh", teacher="sin", eta=gs.Step(1.0, 0.5), **sizes)


def test_sizes_of_a_finite_problem_are_integers() -> None:
    sizes = problem(**FINITE).sizes
    assert sizes == (100, 150, 400, 300, 2.0)
    assert [type(size) for size in sizes] == [int, int, int, int, float]


@pytest.mark.parametrize(("given", "field"), [(LIMIT, "d"), (FINITE | {"n_step": math.inf}, "n_step")])
def test_a_limit_has_no_integers(given: dict[str, Any], field: str) -> None:
    with pytest.raises(gs.InvalidInput, match=rf"^{field}: got inf; allowed: a finite integer: only errors can be"):
        _ = problem(**given).sizes


def test_real_sizes_of_a_finite_problem() -> None:
    sizes = problem(**FINITE).real_sizes(limit=1e12)
    assert sizes == (100.0, 150.0, 400.0, 300.0, 2.0)
    assert {type(size) for size in sizes} == {float}
    assert problem(**FINITE | {"n_step": math.inf}).real_sizes().n_step == math.inf


def test_real_sizes_of_a_limit_are_infinite_or_at_a_dimension_that_stands_for_it() -> None:
    assert set(problem(**LIMIT).real_sizes()) == {math.inf}
    assert problem(**LIMIT).real_sizes(1000) == (1000, 1500, 4000, 3000, 20)
    assert problem(**LIMIT | {"n_step": math.inf}).real_sizes(1000).n_step == math.inf


@pytest.mark.parametrize("given", [FINITE, LIMIT])
def test_ratios(given: dict[str, Any]) -> None:
    found = problem(**given)
    assert found.ratios._asdict() == {"d": 1.0} | RATIOS
    for name in ("width", "n_step", "n", "ridge"):
        assert found.ratio(name) == RATIOS[name]


def test_a_size_that_is_no_integer_may_have_been_meant_as_a_multiple() -> None:
    allowed = "an integer >= 1, or a multiple of d such as '1.5d'"
    for value in (0.5, 1.5):
        with pytest.raises(gs.InvalidInput) as caught:
            problem(**FINITE | {"n": value})
        assert str(caught.value) == f"n: got {value}; allowed: {allowed}"
    with pytest.raises(gs.InvalidInput, match=r"or a multiple of d such as '1.5d', at most 4e\+18$"):
        problem(**FINITE | {"n": 1e19})


def test_a_ratio_that_there_is_not() -> None:
    with pytest.raises(gs.InvalidInput, match=r"name: got 'd'; allowed: 'width', 'n_step', 'n' or 'ridge'"):
        problem(**FINITE).ratio("d")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [FINITE, LIMIT])
def test_the_step_size_follows_the_width(given: dict[str, Any]) -> None:
    assert problem(**given).step_size == math.sqrt(problem(**given).real_sizes().width)


def test_largest_remainders() -> None:
    assert apportioned((0.5, 0.5), 3) == [2, 1]
    assert apportioned((0.1, 0.9), 30) == [3, 27]
    assert apportioned((0.3, 0.3, 0.4), 4) == [1, 1, 2]
    for total in range(1, 40):
        shares = (0.15, 0.35, 0.2, 0.3)
        counts = apportioned(shares, total)
        assert sum(counts) == total
        assert all(abs(count - share * total) < 1 for count, share in zip(counts, shares, strict=True))
