"""The formula language: a safe parser into a small expression tree, with symbolic derivative, kinks and analyticity.

Python's ``ast`` supplies the syntax tree and nothing else: every node is checked against a whitelist and translated;
no part of the text is ever executed.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian.elementary import ALIASES, ELEMENTARY, MAXIMUM_DEGREE, Elementary, Parity

__all__ = [
    "VARIABLE",
    "Apply",
    "Constant",
    "Expression",
    "Power",
    "Product",
    "Sum",
    "Variable",
    "affine",
    "compile_expression",
    "degree",
    "differentiate",
    "is_piecewise_linear",
    "kinks",
    "parity",
    "parse",
    "strip",
    "text",
]

MAXIMUM_LENGTH = 1000
MAXIMUM_NODES = 400
MAXIMUM_DEPTH = 40
MAXIMUM_KINKS = 256
_ALLOWED = (
    "a formula in x made of numbers, pi, e, + - * / ** with a constant exponent, max, min and the functions "
    + ", ".join(name for name in ELEMENTARY if not name.startswith("hermite"))
    + f", linear, hermite1 .. hermite{MAXIMUM_DEGREE} (also H1, He1)"
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    """The argument x."""


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


Expression = Constant | Variable | Sum | Product | Power | Apply
VARIABLE = Variable()


def add(*terms: Expression) -> Expression:
    """Return the sum, flattened, with constants gathered."""
    flat: list[Expression] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Sum) else (term,))
    constant = math.fsum(term.value for term in flat if isinstance(term, Constant))
    rest = [term for term in flat if not isinstance(term, Constant)]
    if constant or not rest:
        rest.append(Constant(constant))
    return rest[0] if len(rest) == 1 else Sum(tuple(rest))


def multiply(*factors: Expression) -> Expression:
    """Return the product, flattened, with constants gathered."""
    flat: list[Expression] = []
    for factor in factors:
        flat.extend(factor.factors if isinstance(factor, Product) else (factor,))
    constant = 1.0
    for factor in flat:
        if isinstance(factor, Constant):
            constant *= factor.value
    rest = [factor for factor in flat if not isinstance(factor, Constant)]
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
    return Power(base, exponent)


def apply(name: str, argument: Expression, derivative: bool = False) -> Expression:
    """Return an elementary function of an expression."""
    if isinstance(argument, Constant):
        kernel = ELEMENTARY[name].derivative if derivative else ELEMENTARY[name].value
        with np.errstate(all="ignore"):
            return Constant(float(kernel(np.asarray(argument.value))))
    if name == "hermite1" and not derivative:
        return argument
    return Apply(name, argument, derivative)


# --------------------------------------------------------------------------------------------------------------------
# Parsing


def _refuse(token: object, why: str) -> InvalidInput:
    return InvalidInput("function", token, f"{why}; {_ALLOWED}")


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes = 0

    def token(self, node: ast.AST) -> str:
        try:
            segment = ast.get_source_segment(self.source, node)
        except (ValueError, IndexError):
            segment = None
        return segment if segment else type(node).__name__

    def translate(self, node: ast.expr, depth: int = 0) -> Expression:
        self.nodes += 1
        if depth > MAXIMUM_DEPTH or self.nodes > MAXIMUM_NODES:
            raise _refuse(self.token(node)[:40], "formula too deep or too long")
        try:
            result = self._translate(node, depth)
        except (OverflowError, ZeroDivisionError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise _refuse(self.token(node), "a finite real value") from None
        if isinstance(result, Constant) and not math.isfinite(result.value):
            raise _refuse(self.token(node), "a finite real value")
        return result

    def _translate(self, node: ast.expr, depth: int) -> Expression:
        match node:
            case ast.Constant(value=bool() | str() | bytes() | complex() | None):
                raise _refuse(self.token(node), "only real numbers as literals")
            case ast.Constant(value=int() | float() as value):
                return Constant(float(value))
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return multiply(Constant(-1.0), self.translate(operand, depth + 1))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.translate(operand, depth + 1)
            case ast.BinOp():
                return self._binary(node, depth)
            case ast.Call():
                return self._call(node, depth)
            case _:
                raise _refuse(self.token(node), "not part of the formula language")

    def _name(self, node: ast.expr, name: str) -> Expression:
        if name == "x":
            return VARIABLE
        if name in ("pi", "e"):
            return Constant(math.pi if name == "pi" else math.e)
        name = ALIASES.get(name, name)
        if name == "linear":
            return VARIABLE
        if name in ELEMENTARY:
            return apply(name, VARIABLE)
        raise _refuse(self.token(node), "unknown name")

    def _binary(self, node: ast.BinOp, depth: int) -> Expression:
        left = self.translate(node.left, depth + 1)
        right = self.translate(node.right, depth + 1)
        match node.op:
            case ast.Add():
                return add(left, right)
            case ast.Sub():
                return add(left, multiply(Constant(-1.0), right))
            case ast.Mult():
                return multiply(left, right)
            case ast.Div():
                return multiply(left, power(right, -1.0))
            case ast.Pow():
                if not isinstance(right, Constant):
                    raise _refuse(self.token(node), "a constant exponent")
                if not isinstance(left, Constant) and abs(right.value) > MAXIMUM_DEGREE:
                    raise _refuse(self.token(node), f"an exponent between -{MAXIMUM_DEGREE} and {MAXIMUM_DEGREE}")
                return power(left, right.value)
            case _:
                raise _refuse(self.token(node), "operators + - * / ** (a power is written **)")

    def _call(self, node: ast.Call, depth: int) -> Expression:
        if not isinstance(node.func, ast.Name):
            raise _refuse(self.token(node.func), "only named functions can be called")
        name = ALIASES.get(node.func.id, node.func.id)
        if name not in ELEMENTARY and name not in ("linear", "max", "min"):
            raise _refuse(node.func.id, "unknown function")
        count = 2 if name in ("max", "min") else 1
        if node.keywords or len(node.args) != count:
            raise _refuse(self.token(node), f"{count} argument(s) for {name}")
        arguments = [self.translate(argument, depth + 1) for argument in node.args]
        if name == "linear":
            return arguments[0]
        if name == "max":
            return add(arguments[0], apply("relu", add(arguments[1], multiply(Constant(-1.0), arguments[0]))))
        if name == "min":
            difference = add(arguments[0], multiply(Constant(-1.0), arguments[1]))
            return add(arguments[0], multiply(Constant(-1.0), apply("relu", difference)))
        return apply(name, arguments[0])


def parse(source: str) -> Expression:
    """Translate a formula into an expression tree; nothing is executed.

    Parameters
    ----------
    source : str
        For instance ``"tanh(x) + 0.3*x**2"``. A function's name alone stands for that function of x.

    Returns
    -------
    Expression

    Raises
    ------
    InvalidInput
        On anything outside the language, naming the offending token.
    """
    stripped = source.strip()
    if not stripped or len(stripped) > MAXIMUM_LENGTH:
        raise _refuse(stripped[:40], f"between 1 and {MAXIMUM_LENGTH} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(stripped, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        token = getattr(error, "text", None) or stripped
        raise _refuse(token.strip()[:80], f"not a formula ({getattr(error, 'msg', type(error).__name__)})") from None
    return _Parser(stripped).translate(tree.body)


# --------------------------------------------------------------------------------------------------------------------
# Printing


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def text(expression: Expression) -> str:
    """Return the canonical text of an expression; parsing it gives the same expression back."""
    match expression:
        case Constant(value):
            return _number(value)
        case Variable():
            return "x"
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


# --------------------------------------------------------------------------------------------------------------------
# Calculus and structure


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
            return add(
                *(
                    multiply(*factors[:i], differentiate(factor), *factors[i + 1 :])
                    for i, factor in enumerate(factors)
                    if not isinstance(factor, Constant)
                )
            )
        case Power(base, exponent):
            return multiply(Constant(exponent), power(base, exponent - 1.0), differentiate(base))
        case Apply(name, argument):
            return multiply(apply(name, argument, derivative=True), differentiate(argument))


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
    """Return a function that evaluates the expression on an array-API array."""
    if isinstance(expression, Constant):
        value = expression.value
        return lambda x: array_namespace(x).full_like(x, value)
    return _compile(expression)


def _compile(expression: Expression) -> Callable[[Any], Any]:
    match expression:
        case Constant(value):
            return lambda x: value
        case Variable():
            return lambda x: x
        case Apply(name, argument, derivative):
            elementary = ELEMENTARY[name]
            kernel = elementary.derivative if derivative else elementary.value
            if isinstance(argument, Variable):
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
            return _fold([_compile(factor) for factor in factors], lambda a, b: a * b)
        case Sum(terms):
            return _fold([_compile(term) for term in terms], lambda a, b: a + b)


def _fold(parts: list[Callable[[Any], Any]], combine: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def evaluate(x: Any) -> Any:
        result = parts[0](x)
        for part in parts[1:]:
            result = combine(result, part(x))
        return result

    return evaluate


def degree(expression: Expression) -> int | None:
    """Return the degree of a polynomial, None for anything else."""
    match expression:
        case Constant():
            return 0
        case Variable():
            return 1
        case Sum(terms):
            degrees = [degree(term) for term in terms]
            return None if None in degrees else max(d for d in degrees if d is not None)
        case Product(factors):
            degrees = [degree(factor) for factor in factors]
            return None if None in degrees else sum(d for d in degrees if d is not None)
        case Power(base, exponent):
            inner = degree(base)
            return inner * int(exponent) if inner is not None and exponent > 0 and exponent.is_integer() else None
        case Apply(name, argument):
            inner, outer = degree(argument), ELEMENTARY[name].degree
            return None if inner is None or outer is None else inner * outer


def affine(expression: Expression) -> tuple[float, float] | None:
    """Return (slope, intercept) of an expression that is affine in x, None for anything else."""
    found = degree(expression)
    if found is None or found > 1:
        return None
    zero, one = compile_expression(expression)(np.array([0.0, 1.0]))
    return float(one - zero), float(zero)


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
            return ELEMENTARY[name].piecewise_linear and is_piecewise_linear(argument)
        case _:
            return False


def strip(expression: Expression) -> float:
    """Return the effective half-width of the strip of analyticity (see `Elementary`), 0 where it is not known."""
    match expression:
        case Constant() | Variable():
            return math.inf
        case Sum(terms):
            return min(map(strip, terms))
        case Product(factors):
            return min(map(strip, factors))
        case Power(base, exponent):
            return strip(base) if exponent > 0 and exponent.is_integer() else 0.0
        case Apply(name, argument):
            width = ELEMENTARY[name].strip
            if ELEMENTARY[name].positive:
                return 0.0
            if math.isinf(width):
                return strip(argument)
            line = affine(argument)
            return 0.0 if line is None else width / abs(line[0]) if line[0] else math.inf


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
        dip = 1 + np.flatnonzero((size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:]))
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
    """Return the points, |x| <= 300, where the expression or its first derivative may be discontinuous.

    Raises
    ------
    InvalidInput
        If a denominator vanishes, a logarithm or square root leaves its domain, or there are too many kinks.
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
            zeros = _zeros(compile_expression(base), tangent=True)
            if exponent < 1 and zeros:
                what = "no division by zero" if exponent < 0 else "a derivative that stays finite"
                raise _refuse(text(expression), f"{what} (here at x = {zeros[0]:.6g})")
            return inner + zeros
        case Apply(name, argument):
            return _kinks(argument) + _level_crossings(ELEMENTARY[name], argument)


def _level_crossings(elementary: Elementary, argument: Expression) -> list[float]:
    line = affine(argument)
    inner = compile_expression(argument)
    if elementary.positive:
        values = np.asarray(inner(_PROBE))
        zeros = _zeros(inner, tangent=True)
        if zeros or np.any(values <= 0):
            where = zeros[0] if zeros else float(_PROBE[np.argmin(values)])
            raise _refuse(f"{elementary.name}({text(argument)})", f"a positive argument (here at x = {where:.6g})")
    found: list[float] = []
    for kink in elementary.kinks:
        if line is not None:
            found.extend([(kink - line[1]) / line[0]] if line[0] else [])
        else:
            found.extend(_zeros(lambda x, level=kink: inner(x) - level, tangent=False))
    return found
