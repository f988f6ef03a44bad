"""The elementary functions a formula may use: values and derivatives on any array-API array, kinks, analyticity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import scipy.special
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

__all__ = ["ALIASES", "ELEMENTARY", "MAXIMUM_DEGREE", "Elementary", "Parity"]

#: What a function does under a change of sign, where that is known.
Parity = Literal["odd", "even"]
Kernel = Callable[[Any], Any]

LEAKY_SLOPE = 0.01
#: Scale and depth of selu (Klambauer et al. 2017): those with which mean zero and variance one stay in every layer.
SELU_SCALE, SELU_DEPTH = 1.0507009873554805, 1.6732632423543772
#: Highest degree of a Hermite polynomial that has a name.
MAXIMUM_DEGREE = 40
_ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class Elementary:
    """One elementary function."""

    name: str  #: How formulas call it.
    #: The function and its ordinary derivative on an array (at a kink: the value from one side, 0 at a jump of a step
    #: function).
    value: Kernel
    derivative: Kernel
    kinks: tuple[float, ...] = ()  #: Points where the function or its first derivative is not continuous.
    parity: Parity | None = None
    #: Effective half-width of the strip around the real axis in which the function (between kinks) is analytic and of
    #: moderate size; a trapezoidal rule of step ``2 pi strip / 32`` resolves its square to rounding. For an entire
    #: function that grows along the imaginary axis this is finite: 16 / t for growth ``exp(t |Im x|)``.
    strip: float = math.inf
    entire: bool = False  #: Whether `strip` stands for such growth rather than for a pole.
    degree: int | None = None  #: Degree if the function is a polynomial.
    piecewise_linear: bool = False  #: Whether the function is linear between its kinks.
    positive: bool = False  #: Whether the argument has to be positive (logarithm, square root).
    #: The value as a function of ``exp(x)`` in place of ``x``, a NumPy array that it may overwrite, with rounding
    #: relative to one: an average over ``m + s z`` then needs no exponential but those of ``m`` and of ``s z``.
    of_exponential: Kernel | None = None

    @property
    def jumps(self) -> bool:
        """Whether the function itself is not continuous at its kinks."""
        return self.name in ("sign", "heaviside")

    @property
    def growth(self) -> float | None:
        """Power of ``|x|`` that bounds the growth; None for exp."""
        return None if self.name == "exp" else float(self.degree or 1)


def _standard(name: str) -> Kernel:
    """Return the kernel for a function that the array-API standard has."""
    ufunc: Kernel = getattr(np, name)

    def kernel(x: Any) -> Any:
        if is_numpy_array(x):
            return ufunc(x)
        return getattr(array_namespace(x), name)(x)

    return kernel


def _special(name: str, fallback: Kernel | None = None) -> Kernel:
    """Return the kernel for a function that only SciPy and torch have; others use `fallback` or NumPy's memory."""
    ufunc: Kernel = getattr(scipy.special, name)

    def kernel(x: Any) -> Any:
        if is_numpy_array(x):
            return ufunc(x)
        if is_torch_array(x):
            import torch

            return getattr(torch.special, name)(x)
        if fallback is not None:
            return fallback(x)
        xp = array_namespace(x)
        return xp.asarray(ufunc(np.asarray(x)), dtype=x.dtype)

    return kernel


_tanh, _exp, _sin, _cos = _standard("tanh"), _standard("exp"), _standard("sin"), _standard("cos")
_log, _sqrt, _abs, _expm1 = _standard("log"), _standard("sqrt"), _standard("abs"), _standard("expm1")
_erf, _ndtr = _special("erf"), _special("ndtr")
_sigmoid = _special("expit", lambda x: 0.5 + 0.5 * _tanh(0.5 * x))


def _as_type(condition: Any, like: Any) -> Any:
    if is_numpy_array(like):
        return condition.astype(like.dtype)
    return array_namespace(like).astype(condition, like.dtype)


def _sign(x: Any) -> Any:
    if is_numpy_array(x):
        return np.sign(x)
    return array_namespace(x).sign(x)


def _zeros_like(x: Any) -> Any:
    return array_namespace(x).zeros_like(x)


def _relu(x: Any) -> Any:
    if is_numpy_array(x):
        return np.maximum(x, 0.0)
    xp = array_namespace(x)
    return xp.maximum(x, xp.zeros_like(x))


def _heaviside(x: Any) -> Any:
    return _as_type(x > 0, x)


def _leaky_relu(x: Any) -> Any:
    scaled = LEAKY_SLOPE * x
    return np.maximum(x, scaled) if is_numpy_array(x) else array_namespace(x).maximum(x, scaled)


def _leaky_relu_derivative(x: Any) -> Any:
    result = _heaviside(x)
    result *= 1.0 - LEAKY_SLOPE
    result += LEAKY_SLOPE
    return result


def _hardtanh(x: Any) -> Any:
    if is_numpy_array(x):
        return np.minimum(np.maximum(x, -1.0), 1.0)
    xp = array_namespace(x)
    one = xp.ones_like(x)
    return xp.minimum(xp.maximum(x, -one), one)


def _elu(depth: float, scale: float) -> tuple[Kernel, Kernel]:
    """Return ``scale x`` above zero and ``scale depth (exp(x) - 1)`` below, and the derivative."""

    def value(x: Any) -> Any:
        return scale * _relu(x) + scale * depth * _expm1(-_relu(-x))

    def derivative(x: Any) -> Any:
        above = _heaviside(x)
        return scale * above + scale * depth * (1.0 - above) * _exp(-_relu(-x))

    return value, derivative


def _softplus(x: Any) -> Any:
    if is_numpy_array(x):
        # Twice as fast as logaddexp.
        return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    xp = array_namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def _bell(x: Any, height: float, narrower: float) -> Any:
    """Return the derivative of a sigmoid, with all digits where it is small: one less the square of a tanh has none."""
    exponential = _abs(x)
    exponential *= -narrower
    exponential = _exp(exponential)
    above = exponential + 1.0
    above *= above
    exponential *= height
    exponential /= above
    return exponential


def _tanh_of_exponential(exponential: Any) -> Any:
    np.square(exponential, out=exponential)
    exponential += 1.0
    np.divide(-2.0, exponential, out=exponential)
    exponential += 1.0
    return exponential


def _sigmoid_of_exponential(exponential: Any) -> Any:
    exponential += 1.0
    np.divide(-1.0, exponential, out=exponential)
    exponential += 1.0
    return exponential


def _silu_derivative(x: Any) -> Any:
    value = _sigmoid(x)
    return value * (1.0 + x * (1.0 - value))


def _mish_derivative(x: Any) -> Any:
    saturated = _tanh(_softplus(x))
    return saturated + x * (1.0 - saturated * saturated) * _sigmoid(x)


def _density(x: Any) -> Any:
    return _exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi))


def hermite_polynomial(degree: int) -> Kernel:
    """Return the probabilists' Hermite polynomial ``He_degree`` (leading coefficient one) as a kernel."""

    def kernel(x: Any) -> Any:
        if degree == 0:
            return array_namespace(x).ones_like(x)
        previous, current = None, x
        for k in range(1, degree):
            following = x * current - (1.0 if previous is None else k * previous)
            previous, current = current, following
        return current

    return kernel


def _hermite(degree: int) -> Elementary:
    lower = hermite_polynomial(degree - 1)
    return Elementary(
        f"hermite{degree}",
        hermite_polynomial(degree),
        lambda x: degree * lower(x),
        parity="odd" if degree % 2 else "even",
        degree=degree,
    )


def _table() -> dict[str, Elementary]:
    entries = [
        Elementary("relu", _relu, _heaviside, kinks=(0.0,), piecewise_linear=True),
        Elementary("leaky_relu", _leaky_relu, _leaky_relu_derivative, kinks=(0.0,), piecewise_linear=True),
        Elementary("abs", _abs, _sign, kinks=(0.0,), parity="even", piecewise_linear=True),
        Elementary("sign", _sign, _zeros_like, kinks=(0.0,), parity="odd", piecewise_linear=True),
        Elementary("heaviside", _heaviside, _zeros_like, kinks=(0.0,), piecewise_linear=True),
        Elementary(
            "hardtanh",
            _hardtanh,
            lambda x: _as_type(_abs(x) < 1, x),
            kinks=(-1.0, 1.0),
            parity="odd",
            piecewise_linear=True,
        ),
        Elementary("elu", *_elu(1.0, 1.0), kinks=(0.0,)),
        Elementary("selu", *_elu(SELU_DEPTH, SELU_SCALE), kinks=(0.0,)),
        Elementary(
            "tanh",
            _tanh,
            lambda x: _bell(x, 4.0, 2.0),
            parity="odd",
            strip=math.pi / 2,
            of_exponential=_tanh_of_exponential,
        ),
        Elementary(
            "sigmoid", _sigmoid, lambda x: _bell(x, 1.0, 1.0), strip=math.pi, of_exponential=_sigmoid_of_exponential
        ),
        Elementary("softplus", _softplus, _sigmoid, strip=math.pi),
        # Its poles are where exp(x) is one of -1 + i and -1 - i.
        Elementary("mish", lambda x: x * _tanh(_softplus(x)), _mish_derivative, strip=0.75 * math.pi),
        Elementary("silu", lambda x: x * _sigmoid(x), _silu_derivative, strip=math.pi),
        Elementary(
            "erf", _erf, lambda x: _exp(-x * x) * (2.0 / math.sqrt(math.pi)), parity="odd", strip=2.0, entire=True
        ),
        Elementary(
            "erf_scaled",
            lambda x: _erf(x * _ROOT_HALF),
            lambda x: 2.0 * _density(x),
            parity="odd",
            strip=2.8,
            entire=True,
        ),
        Elementary("gelu", lambda x: x * _ndtr(x), lambda x: _ndtr(x) + x * _density(x), strip=2.8, entire=True),
        Elementary("sin", _sin, _cos, parity="odd", strip=2.8, entire=True),
        Elementary("cos", _cos, lambda x: -_sin(x), parity="even", strip=2.8, entire=True),
        Elementary("exp", _exp, _exp, entire=True),
        Elementary("log", _log, lambda x: 1.0 / x, positive=True),
        Elementary("sqrt", _sqrt, lambda x: 0.5 / _sqrt(x), positive=True),
        *(_hermite(degree) for degree in range(1, MAXIMUM_DEGREE + 1)),
    ]
    return {entry.name: entry for entry in entries}


#: The elementary functions by name.
ELEMENTARY: Mapping[str, Elementary] = MappingProxyType(_table())

#: Other names, and what they stand for.
ALIASES: Mapping[str, str] = MappingProxyType(
    {f"{prefix}{degree}": f"hermite{degree}" for degree in range(1, MAXIMUM_DEGREE + 1) for prefix in ("H", "He")}
    | {"identity": "linear", "swish": "silu", "logistic": "sigmoid", "step": "heaviside"}
)
