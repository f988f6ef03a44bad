"""Read properties off an expression: its degree, its parity, its kinks, and where it is analytic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyroots, polyval
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian.elementary import ELEMENTARY, Elementary, Parity
from gradstep.gaussian.expression import (
    Apply,
    Constant,
    Expression,
    Power,
    Product,
    Sum,
    Variable,
    compile_expression,
    refuse,
    text,
)

__all__ = ["Waves", "affine", "degree", "growth", "is_piecewise_linear", "kinks", "parity", "strip", "waves"]

MAXIMUM_KINKS = 256
#: How much nearer a pole seems for each order above the first: the error of a trapezoidal rule has powers of the number
#: of steps before its exponential, which cost that many more steps up to order ten.
_HIGHER_ORDER = 0.15
#: Roots that are nearer to each other than this share of their distance from the real axis count as one.
_ONE_ROOT = 0.1
#: Rounding of a polynomial, over the sum of the sizes of its terms.
_ROUNDING = 1e-13
#: The strip of ``exp(-x^2)``, narrow enough for powers of ``x`` beside it: with this one averages of
#: ``(x^3 - 3 x) exp(-x^2 / 2)`` are right to 3e-12, with that of the error function to 2e-9.
_STRIP_OF_BUMP = 1.2
#: Powers above this one are not multiplied out.
_HIGHEST_POWER = 24


def degree(expression: Expression) -> int | None:
    """Return the degree of a polynomial, None for anything else."""
    found = _order(expression, "degree")
    return None if found is None else int(found)


def growth(expression: Expression) -> float | None:
    """Return a p such that the expression certainly grows no faster than ``|x|^p``, None if there may be none."""
    return _order(expression, "growth")


def _order(expression: Expression, kind: Literal["degree", "growth"]) -> float | None:
    """Return the degree or the growth of an expression, None where it has none: a field of elementary functions."""
    match expression:
        case Constant():
            return 0.0
        case Variable():
            return 1.0
        case Sum(parts) | Product(parts):
            orders = [_order(part, kind) for part in parts]
            known = [order for order in orders if order is not None]
            if len(known) < len(orders):
                return None
            return max(known) if isinstance(expression, Sum) else sum(known)
        case Power(base, exponent):
            inner = _order(base, kind)
            allowed = exponent >= 0 if kind == "growth" else exponent > 0 and exponent.is_integer()
            return inner * exponent if inner is not None and allowed else None
        case Apply(name, argument):
            inner, outer = _order(argument, kind), getattr(ELEMENTARY[name], kind)
            return None if inner is None or outer is None else inner * outer


def affine(expression: Expression) -> tuple[float, float] | None:
    """Return (slope, intercept) of an expression that is affine in x, None for anything else."""
    found = degree(expression)
    if found is None or found > 1:
        return None
    zero, one = compile_expression(expression)(np.array([0.0, 1.0]))
    return float(one - zero), float(zero)


class Waves(NamedTuple):
    """The function ``slope x + intercept + sum_j a_j sin(f_j x + p_j)``, with `sines` the ``(a_j, f_j, p_j)``."""

    slope: float
    intercept: float
    sines: tuple[tuple[float, float, float], ...]


def waves(expression: Expression) -> Waves | None:
    """Return a sum of an affine function, sines and cosines of affine functions; None for anything else."""
    line = affine(expression)
    if line is not None:
        return Waves(*line, ())
    match expression:
        case Apply("sin" | "cos" as name, argument):
            inner = affine(argument)
            quarter = math.pi / 2 if name == "cos" else 0.0
            return None if inner is None else Waves(0.0, 0.0, ((1.0, inner[0], inner[1] + quarter),))
        case Product((Constant(factor), other)):
            one = waves(other)
            if one is None:
                return None
            sines = tuple((factor * a, f, p) for a, f, p in one.sines)
            return Waves(factor * one.slope, factor * one.intercept, sines)
        case Sum(terms):
            several = [waves(term) for term in terms]
            found = [one for one in several if one is not None]
            if len(found) < len(several):
                return None
            sines = tuple(sine for one in found for sine in one.sines)
            return Waves(math.fsum(one.slope for one in found), math.fsum(one.intercept for one in found), sines)
        case _:
            return None


def is_piecewise_linear(expression: Expression) -> bool:
    """Return whether the expression is certainly linear between its kinks."""
    match expression:
        case Constant() | Variable():
            return True
        case Sum(terms):
            return all(map(is_piecewise_linear, terms))
        case Product((Constant(), factor)):
            return is_piecewise_linear(factor)
        case Apply(name, argument):
            outer = ELEMENTARY[name]
            # A sign is constant between its changes, whatever it is of.
            return outer.jumps or (outer.piecewise_linear and is_piecewise_linear(argument))
        case _:
            return False


def strip(expression: Expression) -> float:
    """Return the effective half-width of the strip of analyticity (see `Elementary`), 0 where it is not known."""
    pole, order, growth = _strip(expression)
    pole = _with_order(pole, order)
    if pole == 0.0 or growth == 0.0:
        return pole
    return 1.0 / (growth + 1.0 / pole)


def _with_order(pole: float, order: float) -> float:
    """Return how far a pole seems to be from the real axis."""
    return pole / (1.0 + _HIGHER_ORDER * max(order - 1.0, 0.0))


def _strip(expression: Expression) -> tuple[float, float, float]:
    """Return distance and order of the nearest pole, and the rate of growth (1 / strip) along the imaginary axis."""
    match expression:
        case Constant() | Variable():
            return math.inf, 0.0, 0.0
        case Sum(terms):
            poles, orders, rates = zip(*map(_strip, terms), strict=True)
            return min(poles), max(orders), max(rates)
        case Product(factors):
            poles, orders, rates = zip(*map(_strip, factors), strict=True)
            return min(poles), sum(orders), sum(rates)
        case Power(base, exponent):
            if not (exponent > 0 and exponent.is_integer()):
                return *_nearest_root(base, exponent), 0.0
            pole, order, rate = _strip(base)
            return pole, exponent * order, exponent * rate
        case Apply("exp", argument) if (narrowing := _narrowing(argument)) > 0:
            return math.inf, 0.0, math.sqrt(narrowing) / _STRIP_OF_BUMP
        case Apply("log" | "sqrt", argument) if affine(argument) is None:
            return *_nearest_root(argument), 0.0
        case Apply(name, argument):
            elementary = ELEMENTARY[name]
            if elementary.degree is not None or elementary.piecewise_linear:
                pole, order, rate = _strip(argument)
                degree = elementary.degree or 1
                return pole, degree * order, degree * rate
            line = affine(argument)
            if line is None or elementary.positive:
                return 0.0, 0.0, 0.0
            width = elementary.strip / abs(line[0]) if line[0] else math.inf
            return (math.inf, 0.0, 1.0 / width) if elementary.entire else (width, 1.0, 0.0)


def _polynomial(expression: Expression) -> Polynomial | None:
    """Return a polynomial in ``x`` with its coefficients, None for anything else and for named polynomials."""
    match expression:
        case Constant(value):
            return Polynomial([value])
        case Variable():
            return Polynomial([0.0, 1.0])
        case Sum(parts) | Product(parts):
            known = [found for found in map(_polynomial, parts) if found is not None]
            if len(known) < len(parts):
                return None
            return sum(known[1:], known[0]) if isinstance(expression, Sum) else math.prod(known[1:], start=known[0])
        case Power(base, exponent) if exponent > 0 and exponent.is_integer() and exponent <= _HIGHEST_POWER:
            inner = _polynomial(base)
            return None if inner is None else inner ** int(exponent)
        case _:
            return None


def _nearest_root(expression: Expression, exponent: float = 1.0) -> tuple[float, float]:
    """Return how far from the real axis the root of a polynomial is that narrows the strip most, and its order.

    At a root, powers and the logarithm of the polynomial are not analytic. The order is the multiplicity of the root,
    times the size of the exponent. Both numbers are zero if the expression is no polynomial, and if rounding of the
    coefficients hides where the roots are.
    """
    found = _polynomial(expression)
    if found is None:
        return 0.0, 0.0
    coefficients = found.trim().coef
    with np.errstate(all="ignore"):
        if not np.isfinite(coefficients / coefficients[-1]).all():
            return 0.0, 0.0
        roots = polyroots(coefficients)
        if not len(roots):
            return math.inf, 0.0
        distance, apart = np.abs(roots.imag), np.abs(roots[:, None] - roots)
        near = _ONE_ROOT * distance[:, None]
        # From the distance at which another root would count as a second one, the polynomial must be larger than its
        # rounding. Otherwise the root may as well be elsewhere.
        there = np.abs(coefficients[-1]) * np.prod(np.maximum(apart, near), axis=1)
        rounding = _ROUNDING * polyval(np.abs(roots), np.abs(coefficients)) + np.abs(polyval(roots, coefficients))
        if not np.all(there > rounding):
            return 0.0, 0.0
    # Rounding of the coefficients splits a multiple root into several.
    orders = abs(exponent) * np.sum(apart < near, axis=1)
    worst = int(np.argmin([_with_order(*each) for each in zip(distance, orders, strict=True)]))
    return float(distance[worst]), float(orders[worst])


def _narrowing(expression: Expression) -> float:
    """Return ``a`` of an exponent ``-a x^2 + b x + c`` with ``a > 0``: its exponential is a bump. Else return zero."""
    found = _polynomial(expression)
    return max(-float(found.coef[2]), 0.0) if found is not None and found.trim().degree() == 2 else 0.0


def parity(expression: Expression) -> Parity | None:
    """Return the parity that follows from the structure alone."""
    match expression:
        case Constant():
            return "even"
        case Variable():
            return "odd"
        case Sum(terms):
            found = {parity(term) for term in terms}
            return found.pop() if len(found) == 1 else None
        case Product(factors):
            parities = [parity(factor) for factor in factors]
            if None in parities:
                return None
            return "odd" if parities.count("odd") % 2 else "even"
        case Power(base, exponent):
            inner = parity(base)
            if inner == "odd" and exponent.is_integer():
                return "odd" if exponent % 2 else "even"
            return "even" if inner == "even" else None
        case Apply(name, argument):
            inner, outer = parity(argument), ELEMENTARY[name].parity
            return "even" if inner == "even" else outer if inner == "odd" else None


# Dense near the origin, wide enough for every pre-activation that a large step produces; symmetric, holds 0 exactly.
_PROBE: NDArray[np.float64] = 0.05 * np.sinh(np.linspace(0.0, np.arcsinh(300.0 / 0.05), 15001))
_PROBE = np.concatenate([-_PROBE[:0:-1], _PROBE])


def _zeros(function: Callable[[Any], Any], tangent: bool) -> list[float]:
    """Return the sign changes (and, if asked, the touching points) of a continuous or piecewise function."""
    values = np.asarray(function(_PROBE))
    found = list(_PROBE[1:-1][(values[1:-1] == 0) & (values[:-2] * values[2:] < 0)])
    change = np.flatnonzero(np.isfinite(values[:-1]) & np.isfinite(values[1:]) & (values[:-1] * values[1:] < 0))
    if change.size:
        left, right = _PROBE[change].copy(), _PROBE[change + 1].copy()
        sign = np.sign(values[change])
        for _ in range(100):
            middle = 0.5 * (left + right)
            same = np.sign(function(middle)) == sign
            left, right = np.where(same, middle, left), np.where(same, right, middle)
        found.extend(0.5 * (left + right))
    if tangent:
        size = np.abs(values)
        # Not where it vanishes on an interval, whose ends are kinks of its own, nor where it overflows.
        apart = (size[:-2] > 0) & (size[2:] > 0) & np.isfinite(size[1:-1])
        dip = 1 + np.flatnonzero((size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:]) & apart)
        ratio = 0.5 * (math.sqrt(5.0) - 1.0)
        left, right = _PROBE[dip - 1].copy(), _PROBE[dip + 1].copy()
        for _ in range(80):
            a, b = right - ratio * (right - left), left + ratio * (right - left)
            lower = np.abs(function(a)) < np.abs(function(b))
            left, right = np.where(lower, left, a), np.where(lower, b, right)
        centre = 0.5 * (left + right)
        near = np.minimum(np.abs(np.asarray(function(centre))), size[dip])
        found.extend(centre[near <= 1e-12 * np.maximum(size[dip - 1] + size[dip + 1], 1e-3)])
    return found


def _merge(points: list[float]) -> list[float]:
    merged: list[float] = []
    for point in sorted(points):
        if not merged or point - merged[-1] > 1e-12 * max(1.0, abs(point)):
            merged.append(float(point) + 0.0)
    return merged


def kinks(expression: Expression) -> tuple[float, ...]:
    """Return the points, ``|x| <= 300``, where the expression or its first derivative may be discontinuous.

    Raises `InvalidInput` if a denominator vanishes, a logarithm or square root leaves its domain, or there are too many
    kinks.
    """
    with np.errstate(all="ignore"):
        found = _merge(_kinks(expression))
    if len(found) > MAXIMUM_KINKS:
        raise InvalidInput("function", text(expression), f"at most {MAXIMUM_KINKS} kinks in |x| <= 300")
    return tuple(found)


def _kinks(expression: Expression) -> list[float]:
    match expression:
        case Constant() | Variable():
            return []
        case Sum(parts) | Product(parts):
            return [kink for part in parts for kink in _kinks(part)]
        case Power(base, exponent):
            inner = _kinks(base)
            if exponent > 0 and exponent.is_integer():
                return inner
            function = compile_expression(base)
            zeros = _zeros(function, tangent=True)
            everywhere = zeros or list(_PROBE[np.asarray(function(_PROBE)) == 0])
            if exponent < 1 and everywhere:
                what = "division by zero" if exponent < 0 else "an infinite derivative"
                raise refuse(text(expression), f"{what} at x = {round(everywhere[0], 6):g}")
            return inner + zeros
        case Apply(name, argument):
            return _kinks(argument) + _level_crossings(ELEMENTARY[name], argument)


@dataclass(frozen=True)
class _Shifted:
    """A function minus a constant."""

    function: Callable[[Any], Any]
    level: float

    def __call__(self, x: Any) -> Any:
        return self.function(x) - self.level


def _level_crossings(elementary: Elementary, argument: Expression) -> list[float]:
    line = affine(argument)
    inner = compile_expression(argument)
    if elementary.positive:
        values = np.asarray(inner(_PROBE))
        zeros = _zeros(inner, tangent=True)
        if zeros or np.any(values <= 0):
            where = round(zeros[0] if zeros else float(_PROBE[np.argmin(values)]), 6)
            raise refuse(f"{elementary.name}({text(argument)})", f"the argument is not positive at x = {where:g}")
    found: list[float] = []
    for kink in elementary.kinks:
        if line is not None:
            found.extend([(kink - line[1]) / line[0]] if line[0] else [])
        else:
            # A jump shows where its level is touched, too: by one point that has a value of its own.
            found.extend(_zeros(_Shifted(inner, kink), tangent=elementary.jumps))
    return found
