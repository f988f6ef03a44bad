r"""Laws of the labels given the teacher: real values, or classes.

Labels depend on an input through :math:`u=\langle x,\beta^*\rangle`. For classes, :math:`y=\pm1` with
:math:`P(y=1|u)=(1+p(u))/2`, and :math:`p(u)=E[y|u]` plays the part of the teacher: the gradient step and the test error
see nothing else of the labels than :math:`p` and their variance :math:`1-p^2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import erf, ndtr

from gradstep.checks import one_of, real
from gradstep.errors import InvalidInput
from gradstep.gaussian import MultivariateFunction, ScalarFunction, function_of, moments
from gradstep.problem import Problem, check_problem, link_of

__all__ = ["Channel", "Labels", "labels_of"]

#: How labels come from the teacher: its value, its sign, or a sign with logistic probability.
Channel = Literal["real", "sign", "logistic"]


@dataclass(frozen=True)
class Labels:
    """The law of the labels given the teacher's input."""

    channel: Channel  #: ``f*(u) + noise``; the sign of that; or class 1 with probability ``1/(1 + exp(-f*(u)))``.
    mean: ScalarFunction | MultivariateFunction  #: ``E[y | u]``.
    noise: float  #: Root mean square of ``y - E[y | u]``.

    @property
    def link(self) -> ScalarFunction:
        """`mean` as a function of one direction; raises `InvalidInput` for several."""
        return link_of(self.mean)

    @property
    def binary(self) -> bool:
        """Whether the labels are classes."""
        return self.channel != "real"

    def draw(self, u: Any, normals: Any) -> Any:
        """Return labels.

        The teacher's input `u`, shape (rows,) or (rows, k), is of any array library if the labels are real, of NumPy if
        they are classes. The independent standard normals and the labels have shape (rows,).
        """
        mean = self.mean(u)
        return np.where(2 * ndtr(normals) < 1 + mean, 1.0, -1.0) if self.binary else mean + self.noise * normals

    def deviation(self, mean: Any) -> Any:
        """Return the root mean square of the noise given ``E[y | u]``, of the same shape; arrays of NumPy."""
        return np.sqrt(np.maximum(1 - mean**2, 0.0)) if self.binary else np.full_like(mean, self.noise)


def labels_of(problem: Problem, channel: Channel = "real", flip: float = 0.0) -> Labels:
    """Return the law of the labels of a problem.

    The problem gives the teacher ``f*`` and the noise. Channels are those of `Labels`; ``"logistic"`` has no noise of
    its own. A class is replaced by the other one with the probability `flip`, in [0, 1/2). Raises `InvalidInput` on an
    unknown channel, a flip out of range or with real labels, or noise with the logistic channel.
    """
    check_problem(problem)
    one_of("channel", channel, ("real", "sign", "logistic"))
    flip = real("flip", flip, "a number in [0, 1/2)", lambda value: 0 <= value < 0.5)
    if channel == "real":
        if flip:
            raise InvalidInput("flip", flip, "0 with channel='real'")
        return Labels("real", problem.teacher, problem.noise)
    if channel == "logistic" and problem.noise:
        raise InvalidInput("noise", problem.noise, "0 with channel='logistic'")
    mean = _class_mean(problem.teacher, channel, problem.noise, 1 - 2 * flip)
    square = mean.second_moment if isinstance(mean, MultivariateFunction) else float(moments(mean).second_moment)
    return Labels(channel, mean, math.sqrt(max(1 - square, 0.0)))


def _class_mean(
    teacher: ScalarFunction | MultivariateFunction, channel: Channel, noise: float, contrast: float
) -> ScalarFunction | MultivariateFunction:
    """Return ``E[y | u]`` as a formula where the teacher is one."""
    if isinstance(teacher, ScalarFunction) and teacher.expression is None:
        return ScalarFunction.from_callable(_ClassMean(teacher, channel, noise, contrast), kinks=teacher.kinks)
    if channel == "logistic":
        text = f"tanh(0.5*({teacher.name}))"
    else:
        text = f"erf({1 / (math.sqrt(2) * noise)!r}*({teacher.name}))" if noise else f"sign({teacher.name})"
    return function_of(text if contrast == 1 else f"{contrast!r}*{text}")


@dataclass(frozen=True)
class _ClassMean:
    """``E[y | u]`` for a teacher that is a callable."""

    teacher: ScalarFunction
    channel: Channel
    noise: float
    contrast: float

    def __call__(self, u: Any) -> Any:
        value = np.asarray(self.teacher(u))
        if self.channel == "logistic":
            return self.contrast * np.tanh(0.5 * value)
        return self.contrast * (erf(value / (math.sqrt(2) * self.noise)) if self.noise else np.sign(value))
