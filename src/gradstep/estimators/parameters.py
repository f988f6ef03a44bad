"""The parameters of the estimators, checked before any work."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from gradstep.checks import bounded, integer, is_infinite, real, size
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.memory import check_fits
from gradstep.problem import Readout, Step
from gradstep.simulation.backend import Backend, backend

__all__ = ["Settings", "check_memory", "checked_eta", "checked_width", "random_source"]

#: Least and largest number of neurons that is chosen.
_WIDTHS = 512, 2048
#: Products of rows and squared neurons for which the width is chosen, about: their sum takes ten seconds.
_PRODUCTS = 2**37
#: Most gradient steps: each takes about as long as the first.
_MOST_STEPS = 1000


@dataclass(frozen=True)
class Settings:
    """Checked parameters; `eta`, `damping` and `ridge` are None where they are to be chosen.

    If `smooth`, the activation may be replaced by tanh; if `redraw`, rounds may take the place of the step. `split` is
    the share of the rows that only the step sees; zero where step and fit share all rows.
    """

    width: int
    activation: ScalarFunction
    smooth: bool
    eta: float | None
    damping: float | None
    ridge: float | None
    n_steps: int
    redraw: bool
    offset: float
    split: float
    law: Readout
    backend: Backend

    @classmethod
    def of(cls, estimator: Any, rows: int, distinct: int | None = None) -> Self:
        """Check the parameters of an estimator for a fit to so many rows, of which so many are distinct."""
        width = checked_width(estimator.width, rows, distinct)
        smooth, redraw = _is_auto(estimator.activation), _is_auto(estimator.n_steps)
        damping, infinity = estimator.damping, "'auto', a number > 0, or infinity"
        steps = f"'auto' or an integer from 1 to {_MOST_STEPS}"
        return cls(
            width=width,
            activation=_activation("relu" if smooth else estimator.activation),
            smooth=smooth,
            eta=checked_eta(estimator.eta, width),
            damping=math.inf if is_infinite(damping) else _auto_or("damping", damping, infinity),
            ridge=_auto_or("ridge", getattr(estimator, "ridge", "auto"), "'auto' or a number > 0"),
            n_steps=1 if redraw else integer("n_steps", estimator.n_steps, 1, _MOST_STEPS, allowed=steps),
            redraw=redraw,
            offset=bounded("offset", estimator.offset),
            split=_split(estimator.sample_split),
            law=Readout.parse(estimator.readout),
            backend=backend(estimator.device, estimator.dtype),
        )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _auto_or(name: str, value: Any, allowed: str) -> float | None:
    """Return a positive number; None for ``"auto"``."""
    return None if _is_auto(value) else bounded(name, value, allowed, positive=True)


def checked_eta(value: Any, width: int) -> float | None:
    """Return eta; None for ``"auto"``."""
    if isinstance(value, Step):
        return value.size(width)
    return None if _is_auto(value) else bounded("eta", value, "'auto', a number >= 0, or a gradstep.Step")


def checked_width(value: Any, rows: int, distinct: int | None = None) -> int:
    """Return a number of neurons; ``"auto"`` is 512, 1024 or 2048 by the number of distinct rows, by default all."""
    if not _is_auto(value):
        return size("width", value, also=" or 'auto'")
    (width, most), several = _WIDTHS, rows if distinct is None else distinct
    # The power of two next to twice the number of rows, as long as the products allow it.
    while width < most and 2 * width < 2 * several * math.sqrt(2) and rows * (2 * width) ** 2 <= _PRODUCTS:
        width *= 2
    return width


def random_source(value: Any) -> np.random.RandomState:
    """Return the generator that a `random_state` stands for, as scikit-learn does."""
    try:
        source: np.random.RandomState = check_random_state(value)
    except ValueError:
        allowed = "None, an integer in [0, 2**32), or a numpy.random.RandomState"
        raise InvalidInput("random_state", value, allowed) from None
    return source


def _split(value: Any) -> float:
    if isinstance(value, bool | np.bool_):
        return 0.5 if value else 0.0
    return real("sample_split", value, "False, True or a number in (0, 1)", lambda share: 0 < share < 1)


def _activation(value: Any) -> ScalarFunction:
    try:
        function = scalar_function(value)
    except InvalidInput as error:
        raise InvalidInput("activation", error.value, error.allowed, error.reason) from None
    if np.ptp(function(np.linspace(-8, 8, 257))) == 0:
        raise InvalidInput("activation", value, "a function that is not constant")
    return function


def check_memory(width: int, inputs: int, outputs: int, rows: int) -> None:
    """Refuse widths for which the largest arrays of a fit do not fit in memory together.

    `rows` are those of the ridge fit; zero where there is none. Raises `InvalidInput`.
    """
    # The first layer before and after the step with its gradient, and its readout; then features, centred features and
    # their projections where there are fewer rows than neurons, otherwise the scatter matrix with its factors.
    needed = 8.0 * width * (3 * inputs + outputs + 3 * min(rows, width))
    check_fits("width", width, needed, f"{rows} rows, {inputs} inputs" if rows else f"{inputs} inputs")
