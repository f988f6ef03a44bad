"""The expression tree behind formulas: construction with simplification, canonical text, derivative, evaluation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gradstep.errors import InvalidInput
from gradstep.gaussian.elementary import ELEMENTARY, MAXIMUM_DEGREE

__all__ = [
    "VARIABLE",
    "Apply",
    "Constant",
    "Expression",
    "Power",
    "Product",
    "Sum",
    "Variable",
    "add",
    "apply",
    "compile_expression",
    "differentiate",
    "multiply",
    "power",
    "refuse",
    "size",
    "text",
    "variables",
]

_ALLOWED = (
    "a formula in x made of numbers, pi, e, + - * / ** (or ^) with a constant exponent, max, min and the functions "
    + ", ".join(name for name in ELEMENTARY if not name.startswith("hermite"))
    + f", linear, hermite1 .. hermite{MAXIMUM_DEGREE} (also H1, He1)"
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    """The argument x, or one of several, x1, x2, ..., whose places are counted from one."""

    place: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of at least two terms; a constant comes last."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Product of at least two factors; a constant comes first."""

    factors: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """A base to a constant exponent other than 0 and 1."""

    base: Expression
    exponent: float


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementary function (or its derivative) of an expression."""

    name: str
    argument: Expression
    derivative: bool = False


#: A parsed formula.
Expression = Constant | Variable | Sum | Product | Power | Apply
#: A number whose exponential, and that of its opposite, is a finite number.
_LARGEST_EXPONENT = 700.0
#: In ``exp(k u) sigmoid(-u)**m`` the powers ``k = 1, 2, ...`` up to this one are looked for, and ``k = m``.
_MOST_SIGMOIDS = 12
#: The variable x of every formula.
VARIABLE = Variable()


def add(*terms: Expression) -> Expression:
    """Return the sum, flattened, with constants gathered."""
    flat: list[Expression] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Sum) else (term,))
    constant = math.fsum(term.value for term in flat if isinstance(term, Constant))
    rest: list[Expression] = [term for term in flat if not isinstance(term, Constant)]
    if constant or not rest:
        rest.append(Constant(constant))
    return rest[0] if len(rest) == 1 else Sum(tuple(rest))


def multiply(*factors: Expression) -> Expression:
    """Return the product, flattened, with constants gathered and with one exponential of the sum of all exponents."""
    flat: list[Expression] = []
    for factor in factors:
        flat.extend(factor.factors if isinstance(factor, Product) else (factor,))
    exponents = [exponent for factor in flat if (exponent := _exponent(factor))]
    if len(exponents) > 1:
        # One of several may overflow where another is zero.
        flat = [factor for factor in flat if not _exponent(factor)]
        flat.append(apply("exp", add(*exponents)))
    if exponents:
        flat = _without_overflow(flat)
    constant = 1.0
    for factor in flat:
        if isinstance(factor, Constant):
            constant *= factor.value
    rest: list[Expression] = [factor for factor in flat if not isinstance(factor, Constant)]
    if constant == 0.0 or not rest:
        return Constant(constant)
    if constant != 1.0:
        rest.insert(0, Constant(constant))
    return rest[0] if len(rest) == 1 else Product(tuple(rest))


def power(base: Expression, exponent: float) -> Expression:
    """Return the power, simplified for the exponents 0 and 1 and for constants."""
    if exponent == 0.0:
        return Constant(1.0)
    if exponent == 1.0:
        return base
    if isinstance(base, Constant):
        value = base.value**exponent
        if isinstance(value, complex):
            raise ValueError("complex")
        return Constant(value)
    if isinstance(base, Power) and base.exponent.is_integer() and exponent.is_integer():
        return power(base.base, base.exponent * exponent)
    if inner := _exponent(base):
        return apply("exp", multiply(Constant(exponent), inner))
    match base:
        # Unless the power of the number alone is rounded to nothing.
        case Product((Constant(scale), Apply("exp", inner, False))) if scale > 0 and scale**exponent > 0:
            return multiply(Constant(scale**exponent), apply("exp", multiply(Constant(exponent), inner)))
        case _:
            pass
    if exponent < 0 and (found := _logistic(base)):
        factor, argument = found
        return multiply(
            Constant(factor**exponent), power(apply("sigmoid", multiply(Constant(-1.0), argument)), -exponent)
        )
    return Power(base, exponent)


def _exponent(expression: Expression) -> Expression | None:
    """Return ``u`` of an expression ``exp(u)``, None for anything else."""
    return expression.argument if isinstance(expression, Apply) and expression.name == "exp" else None


def _without_overflow(factors: list[Expression]) -> list[Expression]:
    """Return the factors of a product with ``exp(u) sigmoid(-u)`` replaced by ``sigmoid(u)``, which is the same.

    The exponential may overflow where the other factor is zero. The two arguments may differ by a constant, and with
    ``exp(k u)`` a power k of the other factor is replaced.
    """
    # There is one exponential at most, since `multiply` has made one of several.
    exponential = next((factor for factor in factors if _exponent(factor)), None)
    if exponential is None or (exponent := _exponent(exponential)) is None:
        return factors
    for other in factors:
        base, times = (other.base, other.exponent) if isinstance(other, Power) else (other, 1.0)
        if not (isinstance(base, Apply) and base.name == "sigmoid" and not base.derivative and times >= 1):
            continue
        opposite = _scaled(base.argument, -1.0)
        shape, shift = _without_constant(opposite)
        for k in (times, *map(float, range(1, min(math.floor(times), _MOST_SIGMOIDS) + 1))):
            own_shape, own_shift = _without_constant(_scaled(exponent, 1 / k))
            if shape == own_shape and k * abs(own_shift - shift) < _LARGEST_EXPONENT:
                rest = [factor for factor in factors if factor is not exponential and factor is not other]
                scale = Constant(math.exp(k * (own_shift - shift)))
                return [*rest, scale, power(apply("sigmoid", opposite), k), power(base, times - k)]
    return factors


def _scaled(expression: Expression, factor: float) -> Expression:
    """Return an expression times a number, term by term."""
    terms = expression.terms if isinstance(expression, Sum) else (expression,)
    return add(*(multiply(Constant(factor), term) for term in terms))


def _without_constant(expression: Expression) -> tuple[Expression, float]:
    """Return an expression without the constant of its sum, and the constant."""
    if isinstance(expression, Sum) and isinstance(constant := expression.terms[-1], Constant):
        return add(*expression.terms[:-1]), constant.value
    return expression, 0.0


def _logistic(expression: Expression) -> tuple[float, Expression] | None:
    """Return ``c`` and ``u`` of an expression ``c (1 + exp(u))`` with a positive constant, None for anything else.

    Its logarithm and its powers are those of softplus and sigmoid, which do not overflow where the exponential does.
    """
    match expression:
        case Sum((Apply("exp", argument, False), Constant(c))) if c > 0:
            return c, add(argument, Constant(-math.log(c)))
        case Sum((Product((Constant(k), Apply("exp", argument, False))), Constant(c))) if c > 0 and k > 0:
            return c, add(argument, Constant(math.log(k / c)))
        case _:
            return None


def apply(name: str, argument: Expression, derivative: bool = False) -> Expression:
    """Return an elementary function of an expression."""
    derivative = derivative and name != "exp"  # whose derivative is itself
    if isinstance(argument, Constant):
        kernel = ELEMENTARY[name].derivative if derivative else ELEMENTARY[name].value
        with np.errstate(all="ignore"):
            return Constant(float(kernel(np.asarray(argument.value))))
    if name == "hermite1" and not derivative:
        return argument
    if name == "log" and not derivative and (found := _logistic(argument)):
        factor, exponent = found
        return add(apply("softplus", exponent), Constant(math.log(factor)))
    if ELEMENTARY[name].parity == "odd" and not derivative:
        match argument:
            # Two values, and zero between: a multiple of the sign, whose averages have closed forms.
            case Product((Constant() as size, Apply("sign", _, False) as sign)):
                return multiply(apply(name, size), sign)
            case Apply("sign", _, False) if name != "sign":
                return multiply(apply(name, Constant(1.0)), argument)
            case _:
                pass
    return Apply(name, argument, derivative)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def text(expression: Expression) -> str:
    """Return the canonical text of an expression; parsing it gives the same expression back."""
    match expression:
        case Constant(value):
            return _number(value)
        case Variable(place):
            return f"x{place}" if place else "x"
        case Apply(name, argument):
            return f"{name}({text(argument)})"
        case Power(base, exponent):
            inner = text(base)
            return f"{inner if isinstance(base, Variable | Apply) else f'({inner})'}**{_number(exponent)}"
        case Product(factors):
            pieces = [f"({text(factor)})" if isinstance(factor, Sum) else text(factor) for factor in factors]
            return f"-{'*'.join(pieces[1:])}" if pieces[0] == "-1" else "*".join(pieces)
        case Sum(terms):
            result = text(terms[0])
            for term in terms[1:]:
                piece = text(term)
                result += f" - {piece[1:]}" if piece.startswith("-") else f" + {piece}"
            return result


def differentiate(expression: Expression) -> Expression:
    """Return the derivative of an expression without derivative nodes, as an expression."""
    match expression:
        case Constant():
            return Constant(0.0)
        case Variable():
            return Constant(1.0)
        case Sum(terms):
            return add(*(differentiate(term) for term in terms))
        case Product(factors):
            # Equal factors have equal terms: a product of a hundred of them would otherwise have ten thousand factors.
            powers = Counter(factors)
            return add(
                *(
                    multiply(
                        Constant(float(count)),
                        differentiate(factor),
                        power(factor, count - 1.0),
                        *(power(other, float(times)) for other, times in powers.items() if other != factor),
                    )
                    for factor, count in powers.items()
                    if not isinstance(factor, Constant)
                )
            )
        case Power(base, exponent):
            return multiply(Constant(exponent), power(base, exponent - 1.0), differentiate(base))
        case Apply(name, argument):
            return multiply(apply(name, argument, derivative=True), differentiate(argument))


def size(expression: Expression) -> int:
    """Return the number of nodes of an expression: how long an evaluation takes."""
    match expression:
        case Constant() | Variable():
            return 1
        case Apply(argument=inner) | Power(base=inner):
            return 1 + size(inner)
        case Product(parts) | Sum(parts):
            return 1 + sum(size(part) for part in parts)


def variables(expression: Expression) -> frozenset[int]:
    """Return the places of the variables of an expression."""
    match expression:
        case Constant():
            return frozenset()
        case Variable(place):
            return frozenset({place})
        case Apply(argument=inner) | Power(base=inner):
            return variables(inner)
        case Product(parts) | Sum(parts):
            return frozenset().union(*map(variables, parts))


def _integer_power(exponent: int) -> Callable[[Any], Any]:
    def raised(x: Any) -> Any:
        result, square, remaining = None, x, exponent
        while True:
            if remaining & 1:
                result = square if result is None else result * square
            remaining >>= 1
            if not remaining:
                return result
            square = square * square

    return raised


def compile_expression(expression: Expression) -> Callable[[Any], Any]:
    """Return a function that evaluates the expression on an array-API array; several variables are on its last axis."""
    if isinstance(expression, Constant):
        value = expression.value
        return lambda x: array_namespace(x).full_like(x, value)
    return _compile(expression)


def _compile(expression: Expression) -> Callable[[Any], Any]:
    match expression:
        case Constant(value):
            return lambda x: value
        case Variable(place):
            return (lambda x: x[..., place - 1]) if place else (lambda x: x)
        case Apply(name, argument, derivative):
            elementary = ELEMENTARY[name]
            kernel = elementary.derivative if derivative else elementary.value
            if argument == VARIABLE:
                return kernel
            inner = _compile(argument)
            return lambda x: kernel(inner(x))
        case Power(base, exponent):
            inner = _compile(base)
            if exponent.is_integer():
                raised = _integer_power(abs(int(exponent)))
                return (lambda x: raised(inner(x))) if exponent > 0 else (lambda x: 1.0 / raised(inner(x)))
            return lambda x: inner(x) ** exponent
        case Product(factors):
            parts = [_compile(power(factor, float(count))) for factor, count in Counter(factors).items()]
            return _fold(parts, lambda a, b: a * b)
        case Sum(terms):
            return _fold([_compile(term) for term in terms], lambda a, b: a + b)


def _fold(parts: list[Callable[[Any], Any]], combine: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def evaluate(x: Any) -> Any:
        result = parts[0](x)
        for part in parts[1:]:
            result = combine(result, part(x))
        return result

    return evaluate


def refuse(token: object, reason: str) -> InvalidInput:
    """Return the error for a part of a formula, with what formulas may hold."""
    return InvalidInput("function", token, _ALLOWED, reason)
