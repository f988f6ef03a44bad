"""Moments of a function and of its derivative under the standard Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.quadrature import expectation, gaussian_density
from gradstep.gaussian.smoothing import hermite_smoothed, smoothed

__all__ = ["Moments", "is_continuous", "moments"]

#: Largest difference of E f' (with the jumps of f) and E z f, over the size of a function.
_STEIN = 1e-6
#: Rounding of a moment, over the size of a function.
_ROUNDING = 1e-14
#: Distance from a kink, relative, at which the two sides of a jump are looked up.
_BESIDE = 1e-7


@dataclass(frozen=True)
class Moments:
    """Moments of f(z) and f'(z), z ~ N(0, 1).

    Attributes
    ----------
    mean : float
        E f.
    linear : float
        E z f, the coefficient of the linear part. Equal to `derivative_mean` if f is continuous; for a function with
        jumps it is larger by the jumps times the density there (``sign``: linear = sqrt(2/pi), derivative_mean = 0).
    quadratic : float
        E f h_2, with h_2(z) = (z^2 - 1)/sqrt 2.
    second_moment : float
        E f^2.
    derivative_mean, derivative_second_moment, derivative_z2, derivative_variance : float
        E f', E f'^2, E f' z^2 and Var f' of the ordinary derivative (jumps contribute nothing), which is what a
        gradient step on the network uses.
    nonlinear_second_moment : float
        E f^2 - mean^2 - linear^2.
    """

    mean: float
    linear: float
    quadratic: float
    second_moment: float
    derivative_mean: float
    derivative_second_moment: float
    derivative_z2: float
    derivative_variance: float
    nonlinear_second_moment: float


def moments(function: ScalarFunction | str | Any) -> Moments:
    """Return the moments of a function under N(0, 1), to about 1e-13 relative to its size; cached.

    Raises `NotConverged` if the function is so steep that averages of its derivative miss where it rises
    (``tanh(1e4*x)``).
    """
    return _moments(scalar_function(function))


def _jumps(function: ScalarFunction) -> NDArray[np.float64]:
    """Return how much a function jumps at each of its kinks."""
    kinks = np.array(function.kinks)
    beside = _BESIDE * np.maximum(np.abs(kinks), 1.0)
    near, far = (np.asarray(function(kinks + k * beside) - function(kinks - k * beside)) for k in (1, 2))
    # Without what the slopes on the two sides add.
    return np.asarray(2 * near - far, dtype=np.float64)


def is_continuous(function: ScalarFunction) -> bool:
    """Return whether a function has no jumps, so that ``E z f = E f'``.

    Closed forms of a gradient step take the one for the other; the step on the network follows the ordinary derivative,
    to which jumps contribute nothing.
    """
    return bool((np.abs(_jumps(function)) <= _STEIN * math.sqrt(moments(function).second_moment)).all())


def _rounded(value: Any, scale: float) -> float:
    """Return a moment, or zero where it is rounding: a spike of 1e-17 would have a direction."""
    return float(value) if abs(float(value)) > _ROUNDING * scale else 0.0


@lru_cache(maxsize=512)
def _moments(function: ScalarFunction) -> Moments:
    value = smoothed(function, 0.0, 1.0)

    def integrands(z: Any) -> Any:
        slope = function.derivative(z)
        return np.stack([slope, slope * slope, slope * z * z])

    first, second, z2 = expectation(integrands, kinks=function.kinks).value
    scale = max(math.sqrt(float(value.second_moment)), abs(float(value.slope)))
    # Stein: the two differ by what the function jumps.
    jumps = float(_jumps(function) @ gaussian_density(np.array(function.kinks)))
    apart = abs(float(first) + jumps - float(value.slope))
    if scale > 0 and not apart <= _STEIN * scale:
        advice = "Use a less steep function, or one with a kink or a jump in its place."
        raise NotConverged(f"the mean derivative of {function.name}", apart / scale, _STEIN, advice)
    spread = expectation(lambda z: (function.derivative(z) - first) ** 2, kinks=function.kinks).value
    return Moments(
        mean=float(value.mean),
        linear=_rounded(value.slope, scale),
        quadratic=float(hermite_smoothed(function, 0.0, 1.0, 2)[2]),
        second_moment=float(value.second_moment),
        derivative_mean=_rounded(first, scale),
        derivative_second_moment=float(second),
        derivative_z2=float(z2),
        derivative_variance=float(spread),
        nonlinear_second_moment=float(value.residual_variance),
    )
