"""Scalar functions: activations and teachers with derivative, kinks, parity and width of analyticity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from gradstep.checks import real
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import structure
from gradstep.gaussian.elementary import ELEMENTARY, Parity
from gradstep.gaussian.expression import Apply, Expression, Variable, compile_expression, differentiate, text
from gradstep.gaussian.formula import parse
from gradstep.gaussian.panels import Panels, resolved_panels
from gradstep.host import as_floats

__all__ = ["REGISTERED", "ScalarFunction", "scalar_function"]

_BLOCK = 1 << 15
_DIFFERENCE_STEP = 0.02
#: Of a difference next to a kink: a division by nothing on it.
_LEAST_STEP = 1e-15
#: Between two looks for the kinks of a callable.
_SHIFT = 0.107
#: A function of which the formula does not tell the parity is compared with its mirror image up to this distance.
_FAR = 1e3
#: Reach around the place at which the panels of a function see a kink: some ten times their narrowest.
_LOCATED = 1e-5
# Central difference of order eight: weights of f(x + k h) - f(x - k h), k = 1..4.
_DIFFERENCE_WEIGHTS = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
_PROBE: NDArray[np.float64] = np.concatenate([np.linspace(-36.0, 36.0, 2881), np.linspace(-1.0, 1.0, 401) / math.pi])


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    """A function of one real variable, used as activation or teacher. Made by `scalar_function`.

    Attributes
    ----------
    name : str
        Canonical text: a registered name or a formula. ``scalar_function(f.name) == f`` except for callables.
    kinks : tuple of float
        Sorted points where the function or its first derivative may jump.
    parity : {"odd", "even"} or None
        Parity, where there is one.
    pole_distance : float
        Effective half-width of the strip around the real axis where the function is analytic between its kinks and
        of moderate size (pi/2 for tanh). A trapezoidal rule of step ``2 pi pole_distance / 32`` in x resolves its
        square to rounding. Infinite for (piecewise) polynomials; for other entire functions the growth along the
        imaginary axis sets it (16 for sin, 2 for erf).

    Notes
    -----
    Functions made of text are equal when their canonical names are equal; callables when the objects are.
    """

    name: str
    kinks: tuple[float, ...]
    parity: Parity | None
    pole_distance: float
    value: Callable[[Any], Any] = field(repr=False)
    slope: Callable[[Any], Any] = field(repr=False)
    expression: Expression | None = field(repr=False, default=None)

    def __call__(self, x: Any) -> Any:
        """Return f(x) elementwise.

        Parameters
        ----------
        x : array
            Any array-API array of floats (NumPy, torch, ...); numbers and lists become NumPy float64.

        Returns
        -------
        array
            Same kind, shape and precision as `x`.

        Raises
        ------
        InvalidInput
            On what is no array of real numbers, such as text.
        """
        return self._evaluate(self.value, as_floats("x", x))

    def derivative(self, x: Any) -> Any:
        """Return f'(x) elementwise, like `__call__`.

        At a kink this is the value of one side (0 for relu at 0). A jump contributes nothing: the derivative of
        ``sign`` is 0 everywhere, which is what a gradient step on a network sees.

        Parameters
        ----------
        x : array_like or array
            Array of any shape, of any library that follows the array API.

        Raises
        ------
        InvalidInput
            As `__call__`.
        """
        return self._evaluate(self.slope, as_floats("x", x))

    def _evaluate(self, kernel: Callable[[Any], Any], x: Any) -> Any:
        """Evaluate large NumPy arrays in blocks, so that intermediate results stay in the cache."""
        if self.expression is None or not isinstance(x, np.ndarray) or x.size <= _BLOCK or not x.flags.c_contiguous:
            return kernel(x)
        flat = x.reshape(-1)
        result = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            result[part] = kernel(flat[part])
        return result.reshape(x.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScalarFunction):
            return NotImplemented
        if self.expression is None or other.expression is None:
            return (self.value, self.slope, self.kinks) == (other.value, other.slope, other.kinks)
        return self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name if self.expression is not None else self.kinks)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.expression is not None:
            return scalar_function, (self.name,)
        state = (self.name, self.kinks, self.parity, self.pole_distance, self.value, self.slope)
        return ScalarFunction, state

    @classmethod
    def from_callable(
        cls,
        function: Callable[[Any], Any],
        *,
        derivative: Callable[[Any], Any] | None = None,
        kinks: tuple[float, ...] = (),
        name: str | None = None,
    ) -> ScalarFunction:
        """Wrap a vectorised callable.

        Parameters
        ----------
        function : callable
            Maps an array to an array of the same shape, elementwise.
        derivative : callable, optional
            The derivative. Without one, a central difference of order eight with step 0.02 is used, shortened next to
            a kink: relative error about 1e-12 where the function varies over lengths of order one.
        kinks : tuple of float, optional
            Points where the function or its derivative jumps. Undeclared ones with ``|x| <= 16`` are searched for
            and located to rounding if the function jumps, otherwise within about 1e-6; averages are not limited by
            that.
        name : str, optional
            For display; default the callable's own name.

        Returns
        -------
        ScalarFunction

        Raises
        ------
        InvalidInput
            If the callable does not return finite real values of the right shape, is not elementwise, writes into its
            argument, or is not square-integrable.
        """
        label = name or getattr(function, "__name__", None) or type(function).__name__
        _check_values(function, label)
        _check_elementwise(function, label)
        try:
            declared = tuple(sorted({real("kinks", kink, within=math.isfinite) for kink in kinks}))
        except (TypeError, ValueError):
            raise InvalidInput("kinks", kinks, "a tuple of finite numbers") from None
        found = declared
        # The second look is for what the edges of the first hid.
        for shift in (0.0, _SHIFT):
            panels = _panels(function, found, label, shift)
            found = tuple(sorted({*found, *(_sharpened(function, place) for place in panels.singular)}))
        if panels.singular:
            panels = _panels(function, found, label)
        slope = derivative if derivative is not None else _Difference(function, found)
        if derivative is not None:
            _check_values(derivative, f"derivative of {label}")
            _check_elementwise(derivative, f"derivative of {label}")
        return cls(label, found, _numerical_parity(function), panels.pole_distance, function, slope)


@dataclass(frozen=True)
class _Difference:
    """Derivative of a callable by a central difference of order eight that does not step over a kink."""

    function: Callable[[Any], Any]
    kinks: tuple[float, ...]

    def __call__(self, x: Any) -> Any:
        xp = array_namespace(x)
        step = xp.full_like(x, _DIFFERENCE_STEP)
        for kink in self.kinks:
            step = xp.minimum(step, xp.abs(x - kink) / 4.5)
        # Nearer to a kink fewer and fewer points lose more and more digits; a step over a jump would cost all.
        step = xp.maximum(step, xp.full_like(x, _LEAST_STEP))
        total = xp.zeros_like(x)
        for k, weight in enumerate(_DIFFERENCE_WEIGHTS, start=1):
            total = total + weight * (self.function(x + k * step) - self.function(x - k * step))
        return total / step


def _sharpened(function: Callable[[Any], Any], place: float) -> float:
    """Return the place of a jump, found by bisection to 15 decimals, and that of another kink as it is."""
    low, high = place - _LOCATED, place + _LOCATED
    below, above = (float(function(np.array([x]))[0]) for x in (low, high))
    jump = abs(above - below)
    for _ in range(60):
        middle = (low + high) / 2
        value = float(function(np.array([middle]))[0])
        # Towards the larger of the two differences.
        if abs(value - below) > abs(above - value):
            high, above = middle, value
        else:
            low, below = middle, value
    return round((low + high) / 2, 15) if abs(above - below) > 0.4 * jump > 0 else place


def _check_values(function: Callable[[Any], Any], label: str) -> None:
    """Refuse a function that is not finite on a wide grid or grows too fast for E f^2 to exist."""
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(function(_PROBE.copy()))
        except Exception as error:
            raise InvalidInput("function", label, f"a vectorised function of an array (it raised {error!r})") from None
    if values.shape != _PROBE.shape or values.dtype.kind not in "fiu":
        allowed = "a function that returns an array of real numbers (no booleans) of the shape of its argument"
        raise InvalidInput("function", label, allowed)
    finite = np.isfinite(values)
    if not finite.all():
        where = float(_PROBE[np.flatnonzero(~finite)[np.argmin(np.abs(_PROBE[~finite]))]])
        raise InvalidInput("function", label, f"a function that is finite everywhere (it is not at x = {where:.6g})")
    size = np.abs(values.astype(np.float64))
    with np.errstate(divide="ignore"):
        density = 2.0 * np.log(size) - 0.5 * _PROBE**2
    if np.max(size) > 1e6 and np.max(density[np.abs(_PROBE) >= 35.0]) > np.max(density) - 40.0:
        raise InvalidInput("function", label, "a function with E f(z)^2 finite for z ~ N(0, 1)")


def _check_elementwise(function: Callable[[Any], Any], label: str) -> None:
    """Refuse a function that changes its argument, or whose value at a place depends on what else is in the array."""
    places = _PROBE[::-3].reshape(-1, 2)
    given = places.copy()
    with np.errstate(all="ignore"):
        together = np.asarray(function(_PROBE.copy()), dtype=np.float64)[::-3].reshape(-1, 2)
        try:
            apart = np.asarray(function(given), dtype=np.float64)
            alone = apart.shape == places.shape and np.all(np.abs(apart - together) <= _alike(together))
        except Exception as error:
            raise InvalidInput("function", label, f"an elementwise function (it raised {error!r})") from None
    if not np.array_equal(given, places):
        raise InvalidInput("function", label, "a function that leaves its argument as it is (it writes into it)")
    if not alone:
        allowed = "an elementwise function: its value at a number may depend on nothing else in the array"
        raise InvalidInput("function", label, allowed)


def _alike(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far two evaluations may differ: vectorised code rounds in other ways in arrays of other shapes."""
    size = np.abs(values)
    return np.asarray(1e-6 * size + 1e-9 * np.median(size))


def _panels(function: Callable[[Any], Any], kinks: tuple[float, ...], label: str, shift: float = 0.0) -> Panels:
    try:
        return resolved_panels(function, kinks, 16.0, shift)
    except NotConverged:
        raise InvalidInput(
            "function", label, "a function that varies slowly enough to be resolved on |x| <= 16"
        ) from None


def _numerical_parity(function: Callable[[Any], Any]) -> Parity | None:
    # A function that is clipped far out has no parity: rows after a strong step reach there.
    x = np.sort(np.concatenate([np.linspace(0.003, 12.0, 1009), np.geomspace(1e-3, _FAR, 401)]))
    with np.errstate(all="ignore"):
        right, left = np.asarray(function(x)), np.asarray(function(-x))
    # It may leave the range of numbers on one side before the other.
    within = np.isfinite(right) & np.isfinite(left)
    x, right, left = x[within], right[within], left[within]
    size = np.abs(right) + np.abs(left)
    tolerance = 1e-14 * size + 1e-15 * np.max(size[x <= 1])
    if np.all(np.abs(right - left) <= tolerance):
        return "even"
    if np.all(np.abs(right + left) <= tolerance):
        return "odd"
    return None


def _from_expression(expression: Expression) -> ScalarFunction:
    match expression:
        case Variable():
            name = "linear"
        case Apply(elementary, Variable()):
            name = elementary
        case _:
            name = text(expression)
    kinks = structure.kinks(expression)
    value = compile_expression(expression)
    slope = compile_expression(differentiate(expression))
    _check_values(value, name)
    _check_values(slope, f"derivative of {name}")
    parity = structure.parity(expression) or _numerical_parity(value)
    strip = structure.strip(expression)
    if not strip:
        strip = _panels(value, kinks, name).pole_distance
    return ScalarFunction(name, kinks, parity, strip, value, slope, expression)


@lru_cache(maxsize=512)
def _from_text(source: str) -> ScalarFunction:
    function = _from_expression(parse(source))
    # The canonical text may be longer than what was given, and has to be readable itself.
    if function.name != source:
        parse(function.name)
    return function


def scalar_function(spec: str | Callable[[Any], Any] | ScalarFunction) -> ScalarFunction:
    """Return the function described by a name, a formula or a callable.

    Parameters
    ----------
    spec : str, callable or ScalarFunction
        A registered name (see `REGISTERED`), a formula in ``x`` such as ``"tanh(x) + 0.3*x**2"`` or ``"H2 + 0.5*H3"``
        (a function's name alone stands for that function of x; ``Hk``, ``Hek`` and ``hermitek`` are the
        probabilists' Hermite polynomials with leading coefficient one), or a vectorised callable
        (see `ScalarFunction.from_callable`). Formulas are parsed, never executed.

    Returns
    -------
    ScalarFunction

    Raises
    ------
    InvalidInput
        On anything else, naming the offending token; on functions that are not finite everywhere or not
        square-integrable under the standard Gaussian.
    """
    if isinstance(spec, ScalarFunction):
        return spec
    if isinstance(spec, str):
        return _from_text(spec)
    if callable(spec):
        return ScalarFunction.from_callable(spec)
    raise InvalidInput("function", spec, "a registered name, a formula in x, or a callable")


#: The functions known by name that are defined on the whole line; Hermite polynomials up to degree 10.
REGISTERED: Mapping[str, ScalarFunction] = MappingProxyType(
    {
        name: scalar_function(name)
        for name in (
            "linear",
            *(n for n, entry in ELEMENTARY.items() if not entry.positive and (entry.degree or 0) <= 10),
        )
    }
)
