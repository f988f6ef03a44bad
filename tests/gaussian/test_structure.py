"""Properties that are read off a formula, against what is known of the functions."""

import math

import pytest

from gradstep.gaussian import scalar_function, structure


@pytest.mark.parametrize(
    ("formula", "distance", "order"),
    [
        ("x/(1+x**2)", 1.0, 1),
        ("1/(x**2-2*x+5)", 2.0, 1),
        ("1/(1+x**4)", math.sqrt(0.5), 1),
        ("1/(1+(x/10)**20)", 10 * math.sin(math.pi / 20), 1),
        ("(4+x**2)**-3", 2.0, 3),
        ("1/(16+8*x**2+x**4)", 2.0, 2),
        ("sqrt(9+x**2)", 3.0, 1),
        ("log(1+(x-3)**2)", 1.0, 1),
        ("tanh(x)/(1+x**2)", 1.0, 2),
        ("tanh(x)/(4+x**2)", math.pi / 2, 2),
    ],
)
def test_the_strip_ends_at_a_pole_or_branch(formula, distance, order):
    expected = distance / (1 + 0.15 * (order - 1))
    assert structure.strip(scalar_function(formula).expression) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("formula", ["1/(2+sin(x))", "log(2+cos(x))", "exp(-x**4)", "exp(tanh(x))", "tanh(x**2)"])
def test_what_has_no_known_strip_has_none(formula):
    assert structure.strip(scalar_function(formula).expression) == 0.0


def test_a_root_of_high_order_narrows_the_strip_more_than_a_nearer_one():
    found = structure.strip(scalar_function("1/((1+x**2)*(1.3+x**2)**8)").expression)
    # Rounding parts the eight roots.
    assert found == pytest.approx(math.sqrt(1.3) / (1 + 0.15 * 7), rel=0.05)


@pytest.mark.parametrize("formula", ["1/(1+(x-30)**12)", "sqrt(1+(x-1e9)**2)", "1/(1+1e-320*x**2)"])
def test_roots_that_rounding_hides_are_not_known(formula):
    assert structure.strip(scalar_function(formula).expression) == 0.0


def test_a_bump_that_is_half_as_wide_has_half_the_strip():
    wide, narrow, moved = (
        structure.strip(scalar_function(formula).expression)
        for formula in ("exp(-x**2)", "exp(-4*x**2)", "exp(-x**2+2*x+5)")
    )
    assert wide == moved == pytest.approx(2 * narrow, rel=1e-12)
