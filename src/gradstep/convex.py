r"""Convex functions of one variable, as losses of the readout fit and as penalties on its weights.

A function is known by its value, its derivative and its proximal point

.. math:: \mathrm{prox}(u, v) = \operatorname{argmin}_x\, \phi(x) + \frac{(x-u)^2}{2v}

Conventions
-----------
No factor 1/2 anywhere, as in the rest of the package: the square loss is :math:`(y-f)^2`, the ridge penalty
:math:`a^2`, and the Huber functions equal the square where they are quadratic. Residual losses act on :math:`y-f`,
margin losses on :math:`yf` with labels :math:`y=\pm1`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from gradstep.errors import InvalidInput, NotConverged

__all__ = ["ConvexFunction", "Loss", "Penalty", "PiecewiseQuadratic", "Proximal", "Smooth", "loss", "penalty"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_MAXIMUM_ITERATIONS = 100


class Proximal(NamedTuple):
    r"""The proximal point, and the Moreau envelope :math:`M(u)=\min_x \phi(x)+(x-u)^2/2v` at u.

    Docs, "Convex losses", equation (P2).
    """

    point: Array  #: The minimiser x.
    #: First and second derivative of the envelope, ``(u - x)/v`` and ``(1 - dx/du)/v``.
    slope: Array
    curvature: Array


class ConvexFunction(Protocol):
    """A convex function of one variable, as losses and penalties are."""

    def value(self, x: ArrayLike) -> Array:
        """Return the function elementwise."""

    def derivative(self, x: ArrayLike) -> Array:
        """Return the derivative elementwise; at a jump, that of the left side."""

    def proximal(self, u: Array, v: Array) -> Proximal:
        """Return the proximal point and the envelope's derivatives elementwise."""

    def breakpoints(self, v: Array) -> Array:
        """Return the points u where the envelope's second derivative jumps, on a new last axis."""

    def singular_points(self, v: Array) -> Complex:
        """Return the points u of the upper half-plane where the envelope is singular, on a new last axis.

        The envelope bends near their real parts, over a length as large as their imaginary parts.
        """


@dataclass(frozen=True)
class PiecewiseQuadratic:
    """A convex function with derivative ``slopes[j] + curvatures[j] * x`` on the j-th piece; its minimum is zero.

    Parameters
    ----------
    kinks : tuple of float
        Increasing points where the derivative or its slope jumps.
    slopes, curvatures : tuple of float
        One more than kinks.
    """

    kinks: tuple[float, ...]
    slopes: tuple[float, ...]
    curvatures: tuple[float, ...]

    def _sides(self) -> list[tuple[float, float]]:
        """Derivative on the left and on the right of each kink."""
        slopes, curvatures = self.slopes, self.curvatures
        return [
            (slopes[j] + curvatures[j] * at, slopes[j + 1] + curvatures[j + 1] * at) for j, at in enumerate(self.kinks)
        ]

    def _lowest(self) -> float:
        """Return a point where the function is smallest."""
        ends = (-math.inf, *self.kinks, math.inf)
        for (left, right), slope, curvature in zip(pairwise(ends), self.slopes, self.curvatures, strict=True):
            if curvature > 0 and -slope / curvature <= right:
                return max(left, -slope / curvature)
            if curvature == 0 and slope >= 0 and left > -math.inf:
                return left
        # Nowhere does it rise.
        return self.kinks[-1] if self.kinks else 0.0

    def value(self, x: ArrayLike) -> Array:
        """Return the function elementwise: the integral of the derivative from the minimum, of one sign throughout."""
        x, slopes, curvatures = np.asarray(x, dtype=np.float64), np.asarray(self.slopes), np.asarray(self.curvatures)
        total, lowest = np.zeros_like(x), self._lowest()
        for piece, (left, right) in enumerate(pairwise((-math.inf, *self.kinks, math.inf))):
            for start, end in ((max(left, lowest), max(right, lowest)), (min(right, lowest), min(left, lowest))):
                if start != end:
                    along = np.clip(x, min(start, end), max(start, end)) - start
                    total += ((slopes[piece] + curvatures[piece] * start) + 0.5 * curvatures[piece] * along) * along
        return total

    def derivative(self, x: ArrayLike) -> Array:
        """Return the derivative elementwise; at a jump, that of the left side."""
        x = np.asarray(x, dtype=np.float64)
        piece = np.searchsorted(np.asarray(self.kinks), x)
        return np.asarray(np.asarray(self.slopes)[piece] + np.asarray(self.curvatures)[piece] * x)

    def breakpoints(self, v: Array) -> Array:
        """Return the points u where the envelope's second derivative jumps, on a new last axis."""
        ends = [at + v * side for at, sides in zip(self.kinks, self._sides(), strict=True) for side in sides]
        return np.stack(ends, axis=-1) if ends else np.empty((*np.shape(v), 0))

    def singular_points(self, v: Array) -> Complex:
        """Return no points: each piece is a polynomial."""
        return np.empty((*np.shape(v), 0), dtype=complex)

    def proximal(self, u: Array, v: Array) -> Proximal:
        """Return the proximal point and the envelope's derivatives elementwise, in closed form."""
        gain = 1 / (1 + v * self.curvatures[0])
        point, curvature = (u - v * self.slopes[0]) * gain, self.curvatures[0] * gain + 0 * u
        for j, (at, (left, right)) in enumerate(zip(self.kinks, self._sides(), strict=True)):
            gain = 1 / (1 + v * self.curvatures[j + 1])
            at_kink, beyond = u > at + v * left, u >= at + v * right
            point = np.where(beyond, (u - v * self.slopes[j + 1]) * gain, np.where(at_kink, at, point))
            curvature = np.where(beyond, self.curvatures[j + 1] * gain, np.where(at_kink, 1 / v, curvature))
        return Proximal(point, (u - point) / v, curvature)


@dataclass(frozen=True)
class Smooth:
    """A convex function with two derivatives.

    Parameters
    ----------
    function, first, second : callable
        The function and its derivatives, vectorised, of the point and of `parameters`. Functions of a module make a
        value that can be pickled and compared.
    steepest : tuple of float
        Bounds of the first derivative; they bracket the proximal point.
    singular : callable
        Points u of the upper half-plane at which ``1 + v second(x)`` is zero, with ``u = x + v first(x)``: of v and of
        `parameters`, on a new last axis.
    parameters : tuple of float
    """

    function: Callable[..., Array]
    first: Callable[..., Array]
    second: Callable[..., Array]
    steepest: tuple[float, float]
    singular: Callable[..., Complex]
    parameters: tuple[float, ...] = ()

    def value(self, x: ArrayLike) -> Array:
        """Return the function elementwise."""
        return np.asarray(self.function(np.asarray(x, dtype=np.float64), *self.parameters))

    def derivative(self, x: ArrayLike) -> Array:
        """Return the first derivative elementwise."""
        return np.asarray(self.first(np.asarray(x, dtype=np.float64), *self.parameters))

    def breakpoints(self, v: Array) -> Array:
        """Return no points."""
        return np.empty((*np.shape(v), 0))

    def singular_points(self, v: Array) -> Complex:
        """Return the points u of the upper half-plane where the envelope is singular, on a new last axis."""
        return np.asarray(self.singular(np.asarray(v, dtype=np.float64), *self.parameters))

    def proximal(self, u: Array, v: Array) -> Proximal:
        """Return the proximal point by Newton's method, kept inside a bracket that it narrows.

        Raises `NotConverged` if a point cannot be found within rounding.
        """

        def first(x: Array) -> Array:
            return self.first(x, *self.parameters)

        def second(x: Array) -> Array:
            return self.second(x, *self.parameters)

        u, v = np.broadcast_arrays(u, v)
        found = np.empty(u.size)
        # Those that are left: their places, arguments and brackets.
        place, arguments, steps = np.arange(u.size), u.ravel(), v.ravel()
        low, high = arguments - steps * self.steepest[1], arguments - steps * self.steepest[0]
        point = np.clip(arguments - steps * first(arguments) / (1 + steps * second(arguments)), low, high)
        last = high - low
        for _ in range(_MAXIMUM_ITERATIONS):
            gap = point + steps * first(point) - arguments
            size = 1 + np.abs(arguments) + steps
            found[place] = point
            left = np.abs(gap) > 4e-15 * size
            if not left.any():
                break
            place = place[left]
            arguments, steps, point, gap, low, high, last = (
                values[left] for values in (arguments, steps, point, gap, low, high, last)
            )
            low, high = np.where(gap < 0, point, low), np.where(gap > 0, point, high)
            move = -gap / (1 + steps * second(point))
            # Newton steps that do not shrink would creep along an exponential tail.
            good = (point + move >= low) & (point + move <= high) & (np.abs(move) <= 0.5 * last)
            move = np.where(good, move, 0.5 * (low + high) - point)
            point, last = point + move, np.abs(move)
        else:
            worst = float(np.max(np.abs(gap) / size[left]))
            if not worst <= 1e-13:
                raise NotConverged("the proximal point", worst, 1e-13, "Use arguments of moderate size.")
        solved = np.asarray(found.reshape(u.shape))
        curvature = second(solved)
        return Proximal(solved, first(solved), curvature / (1 + v * curvature))


@dataclass(frozen=True)
class Loss:
    """A loss of the readout fit.

    Parameters
    ----------
    name : str
        Canonical text; ``loss(name)`` gives the same loss for the built-in ones.
    kind : {"residual", "margin"}
        Whether the function acts on ``y - f`` or on ``y f`` (labels -1 and 1).
    function : ConvexFunction
    """

    name: str
    kind: Literal["residual", "margin"]
    function: ConvexFunction

    def value(self, labels: ArrayLike, outputs: ArrayLike) -> Array:
        """Return the loss elementwise."""
        return self.function.value(self._argument(labels, outputs))

    def slope(self, labels: ArrayLike, outputs: ArrayLike) -> Array:
        """Return the derivative in the output elementwise."""
        slope = self.function.derivative(self._argument(labels, outputs))
        return np.asarray(-slope if self.kind == "residual" else np.asarray(labels) * slope)

    def proximal_output(self, labels: Array, outputs: Array, v: Array) -> Array:
        """Return ``argmin_f loss(y, f) + (f - output)**2 / (2 v)`` elementwise."""
        point = self.function.proximal(self._argument(labels, outputs), v).point
        return labels - point if self.kind == "residual" else labels * point

    def _argument(self, labels: ArrayLike, outputs: ArrayLike) -> Array:
        labels, outputs = np.asarray(labels), np.asarray(outputs)
        return np.asarray(labels - outputs if self.kind == "residual" else labels * outputs)


@dataclass(frozen=True)
class Penalty:
    r"""A penalty :math:`\lambda\sum_i r(a_i)` on the readout of features divided by :math:`\sqrt N`.

    In terms of the weights :math:`b=a/\sqrt N` of the raw features and of the problem's ``ridge``
    :math:`\Lambda=\lambda N` this is :math:`(\Lambda/N)\sum_i r(\sqrt N b_i)`: :math:`\Lambda|b|^2` for the ridge
    penalty, :math:`(\Lambda/\sqrt N)|b|_1` for the l1 penalty.

    Parameters
    ----------
    name : str
        Canonical text; ``penalty(name)`` gives the same penalty for the built-in ones.
    function : ConvexFunction
        :math:`r`, even and smallest at zero.
    """

    name: str
    function: ConvexFunction


def _huber(delta: float) -> PiecewiseQuadratic:
    return PiecewiseQuadratic((-delta, delta), (-2 * delta, 0.0, 2 * delta), (0.0, 2.0, 0.0))


def _root(x: Array, delta: float) -> Array:
    return np.hypot(1.0, x / delta)


def _pseudo_huber_value(x: Array, delta: float) -> Array:
    # x^2 / (root + 1) is delta^2 (root - 1) without cancellation.
    return 2 * x**2 / (1 + _root(x, delta))


def _pseudo_huber_first(x: Array, delta: float) -> Array:
    return 2 * x / _root(x, delta)


def _pseudo_huber_second(x: Array, delta: float) -> Array:
    return 2 / _root(x, delta) ** 3


def _pseudo_huber_singular(v: Array, delta: float) -> Complex:
    # There root^3 is -2 v, and x is delta sqrt(root^2 - 1). Without a step this is the singular point of the loss.
    square = (2 * v) ** (2 / 3) * np.exp(2j * np.pi / 3)
    x = 1j * delta * np.sqrt(1 - square)
    u = x * (1 + (2 * v) ** (2 / 3) * np.exp(-1j * np.pi / 3))
    return np.stack([u, -u.conj()], axis=-1)


def _pseudo_huber(delta: float) -> Smooth:
    functions = _pseudo_huber_value, _pseudo_huber_first, _pseudo_huber_second
    bounds = -2 * delta, 2 * delta
    return Smooth(*functions, steepest=bounds, singular=_pseudo_huber_singular, parameters=(delta,))


def _logistic_value(x: Array) -> Array:
    return np.logaddexp(0.0, -x)


def _logistic_first(x: Array) -> Array:
    return -np.asarray(expit(-x))


def _logistic_second(x: Array) -> Array:
    return np.asarray(expit(x) * expit(-x))


def _logistic_singular(v: Array) -> Complex:
    # There x is +-s + i pi with sinh(s / 2)^2 = v / 4, and exp(x) is a negative number.
    s = 2 * np.arcsinh(np.sqrt(v) / 2)
    return np.stack([s - np.expm1(-s), -s - np.expm1(s)], axis=-1) + 1j * math.pi


_LOGISTIC = Smooth(
    _logistic_value, _logistic_first, _logistic_second, steepest=(-1.0, 0.0), singular=_logistic_singular
)


def _elastic_net(mix: float) -> PiecewiseQuadratic:
    if mix > 1:
        raise InvalidInput("penalty", f"elastic_net({mix:g})", "elastic_net(share of l1, in (0, 1])")
    return PiecewiseQuadratic((0.0,), (-mix, mix), (2 * (1 - mix),) * 2)


_SQUARE = PiecewiseQuadratic((), (0.0,), (2.0,))

_Maker = Callable[[float], ConvexFunction]
_LOSSES: Mapping[str, tuple[Literal["residual", "margin"], ConvexFunction | _Maker]] = {
    "square": ("residual", _SQUARE),
    "absolute": ("residual", PiecewiseQuadratic((0.0,), (-1.0, 1.0), (0.0, 0.0))),
    "huber": ("residual", _huber),
    "pseudo_huber": ("residual", _pseudo_huber),
    "logistic": ("margin", _LOGISTIC),
    "hinge": ("margin", PiecewiseQuadratic((1.0,), (-1.0, 0.0), (0.0, 0.0))),
    "squared_hinge": ("margin", PiecewiseQuadratic((1.0,), (-2.0, 0.0), (2.0, 0.0))),
    # A parabola over a length h joins the two straight pieces.
    "smooth_hinge": ("margin", lambda h: PiecewiseQuadratic((1 - h, 1.0), (-1.0, -1 / h, 0.0), (0.0, 1 / h, 0.0))),
}
_PENALTIES: Mapping[str, ConvexFunction | _Maker] = {
    "ridge": _SQUARE,
    "l1": _elastic_net(1.0),
    "elastic_net": _elastic_net,
    "huber": _huber,
    "pseudo_huber": _pseudo_huber,
}


def _listed(entries: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in entries)


def _split(field: str, text: object, allowed: str) -> tuple[str, float | None]:
    """Split ``name`` or ``name(parameter)``."""
    found = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([-+.\deE]+)\s*\))?\s*", text) if isinstance(text, str) else None
    try:
        parameter = float(found[2]) if found and found[2] else None
    except ValueError:
        found = None
    if not found:
        raise InvalidInput(field, text, allowed)
    return found[1], parameter


def _function(field: str, text: str, name: str, parameter: float | None, entry: object) -> tuple[str, ConvexFunction]:
    """Return the canonical text and the function of a registered entry; `text` is what was asked for."""
    if not callable(entry):
        if parameter is not None:
            raise InvalidInput(field, text, f"{name!r}, which has no parameter")
        return name, entry  # type: ignore[return-value]
    number = 1.0 if parameter is None else parameter
    if not 1e-6 <= number <= 1e6:
        raise InvalidInput(field, text, f"{name!r} with a parameter in [1e-6, 1e6]")
    return f"{name}({number!r})", entry(number)


def loss(spec: str | Loss) -> Loss:
    """Return a loss by name.

    Parameters
    ----------
    spec : str or Loss
        ``"square"``, ``"absolute"``, ``"huber(delta)"``, ``"pseudo_huber(delta)"`` on the residual; ``"logistic"``,
        ``"hinge"``, ``"squared_hinge"``, ``"smooth_hinge(h)"`` on the margin. Parameters default to 1. Any other
        convex loss as a `Loss`.

    Returns
    -------
    Loss

    Raises
    ------
    InvalidInput
        On anything else.

    Examples
    --------
    >>> float(loss("huber(0.5)").value(2.0, 0.0))
    1.75
    """
    if isinstance(spec, Loss):
        return spec
    name, parameter = _split("loss", spec, _listed(_LOSSES))
    if name not in _LOSSES:
        raise InvalidInput("loss", spec, _listed(_LOSSES))
    kind, entry = _LOSSES[name]
    canonical, function = _function("loss", spec, name, parameter, entry)
    return Loss(canonical, kind, function)


def penalty(spec: str | Penalty) -> Penalty:
    """Return a penalty by name.

    Parameters
    ----------
    spec : str or Penalty
        ``"ridge"`` (the square), ``"l1"``, ``"elastic_net(mix)"`` (``mix |a| + (1 - mix) a^2``), ``"huber(delta)"``,
        ``"pseudo_huber(delta)"``; parameters default to 1. Any other even convex function as a `Penalty`.

    Returns
    -------
    Penalty

    Raises
    ------
    InvalidInput
        On anything else.
    """
    if isinstance(spec, Penalty):
        return spec
    name, parameter = _split("penalty", spec, _listed(_PENALTIES))
    if name not in _PENALTIES:
        raise InvalidInput("penalty", spec, _listed(_PENALTIES))
    return Penalty(*_function("penalty", spec, name, parameter, _PENALTIES[name]))
