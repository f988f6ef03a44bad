r"""Optimisers of the first layer: what each makes of the gradient of a full batch.

.. math:: w_i\leftarrow w_i+\frac{\eta}{\sqrt N}\,D_i,\qquad
          G_i=\frac1{n_0}\sum_{\mu=1}^{n_0}a_i\bigl(y_\mu-f(x_\mu)\bigr)\sigma'(\langle w_i,x_\mu\rangle)\,x_\mu,

where the direction :math:`D` is :math:`G` for the plain step of a problem. The optimisers whose direction does not
depend on the length of the gradient (sign, Adam, spectral) are scaled so that the rows of :math:`D` are one in root
mean square: a step moves a neuron by :math:`\eta/\sqrt N`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from array_api_compat import array_namespace, device

from gradstep.checks import one_of, real
from gradstep.errors import InvalidInput
from gradstep.simulation.backend import Array

__all__ = ["OPTIMISERS", "Optimiser", "optimiser_of"]


class Optimiser(Protocol):
    """A rule that turns gradients into directions of steps."""

    @property
    def by_coordinate(self) -> bool:
        """Whether the rule depends on the coordinates of the inputs, which a rotation changes."""

    def direction(self, gradient: Array, second_moment: Callable[[], Array], memory: Any) -> tuple[Array, Any]:
        """Return the direction of a step, and what the next step has to remember.

        The gradient ``G``, shape (N, d), is downhill, and `second_moment` returns ``X^T X / n_step`` of the samples of
        this step, shape (d, d). What the step before has returned is `memory`, None at the first step.
        """


@dataclass(frozen=True)
class Plain:
    r"""The gradient itself, :math:`D=G`. Docs, "Several steps", equation (M1)."""

    by_coordinate: ClassVar[bool] = False

    def direction(self, gradient: Array, second_moment: Callable[[], Array], memory: Any) -> tuple[Array, Any]:
        """Return the gradient."""
        return gradient, None


@dataclass(frozen=True)
class Damped:
    r"""A preconditioned gradient, as the estimators take it.

    .. math:: D=(1+\delta)\,G\,(\hat C+\delta)^{-1},\qquad \hat C=X^\top X/n_0.

    Infinite damping is the plain gradient. Docs, "Several steps", equation (M2).

    Parameters
    ----------
    damping : float
        ``delta > 0``.
    """

    damping: float = 1.0
    by_coordinate: ClassVar[bool] = False

    def __post_init__(self) -> None:
        real("damping", self.damping, "a number > 0, or infinity", lambda value: value > 0)

    def direction(self, gradient: Array, second_moment: Callable[[], Array], memory: Any) -> tuple[Array, Any]:
        """Return the gradient times the damped inverse second moment of the inputs."""
        if math.isinf(self.damping):
            return gradient, None
        xp, metric = array_namespace(gradient), second_moment()
        metric = metric + self.damping * xp.eye(metric.shape[0], dtype=metric.dtype, device=device(metric))
        return (1 + self.damping) * xp.linalg.solve(metric, gradient.T).T, None


@dataclass(frozen=True)
class Sign:
    r"""Only the signs, :math:`D=\operatorname{sign}(G)/\sqrt d`. Docs, "Several steps", equation (M3)."""

    by_coordinate: ClassVar[bool] = True

    def direction(self, gradient: Array, second_moment: Callable[[], Array], memory: Any) -> tuple[Array, Any]:
        """Return the signs, in rows of length one."""
        return array_namespace(gradient).sign(gradient) / math.sqrt(gradient.shape[1]), None


@dataclass(frozen=True)
class Adam:
    r"""Adam on full batches, of which the first step is a sign step.

    .. math:: D=\frac1{\sqrt d}\,\frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)}+\epsilon},\qquad
              m\leftarrow\beta_1m+(1-\beta_1)G,\quad v\leftarrow\beta_2v+(1-\beta_2)G^2 .

    Kingma and Ba 2015, Algorithm 1, with a learning rate of ``eta / sqrt(N d)``. Docs, "Several steps", equation (M4).

    Parameters
    ----------
    beta1, beta2 : float
        Decay of the means of the gradient and of its square, in [0, 1).
    epsilon : float
        Added to the root of the second, >= 0.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    by_coordinate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            real(name, getattr(self, name), "a number in [0, 1)", lambda value: 0 <= value < 1)
        real("epsilon", self.epsilon, "a finite number >= 0", lambda value: 0 <= value < math.inf)

    def direction(self, gradient: Array, second_moment: Callable[[], Array], memory: Any) -> tuple[Array, Any]:
        """Return the mean gradient over its root mean square, coordinate by coordinate."""
        time, mean, square = memory or (0, 0.0, 0.0)
        time += 1
        mean = self.beta1 * mean + (1 - self.beta1) * gradient
        square = self.beta2 * square + (1 - self.beta2) * gradient**2
        xp = array_namespace(gradient)
        root = xp.sqrt(square / (1 - self.beta2**time)) + self.epsilon
        root = xp.where(root == 0, xp.ones_like(root), root)  # a gradient of zero moves nothing
        return mean / (1 - self.beta1**time) / root / math.sqrt(gradient.shape[1]), (time, mean, square)


@dataclass(frozen=True)
class Spectral:
    r"""The gradient with all of its singular values made equal, as Muon does it.

    .. math:: D=\sqrt{N/r}\,UV^\top,\qquad G=U S V^\top,

    with the rank r, the number of singular values that are not rounding. Docs, "Several steps", equation (M5).
    """

    by_coordinate: ClassVar[bool] = False

    def direction(self, gradient: Array, second_moment: Callable[[], Array], memory: Any) -> tuple[Array, Any]:
        """Return the orthogonal factor, in rows that are one in root mean square."""
        xp = array_namespace(gradient)
        left, values, right = xp.linalg.svd(gradient, full_matrices=False)
        rounding = max(gradient.shape) * float(xp.finfo(values.dtype).eps) * float(values[0])
        kept = values > rounding
        rank = int(xp.sum(xp.astype(kept, xp.int64)))
        if not rank:
            return gradient, None
        return math.sqrt(gradient.shape[0] / rank) * ((left * xp.astype(kept, left.dtype)) @ right), None


#: The optimisers by their names.
OPTIMISERS: Mapping[str, type[Optimiser]] = MappingProxyType(
    {"gradient": Plain, "damped": Damped, "sign": Sign, "adam": Adam, "spectral": Spectral}
)


def optimiser_of(name: str, options: Mapping[str, Any]) -> Optimiser:
    """Return the one of `OPTIMISERS` with a name; the options are its fields other than the defaults.

    Raises `InvalidInput` on an unknown name or option, and on values out of range.
    """
    one_of("optimiser", name, tuple(OPTIMISERS))
    made: Any = OPTIMISERS[name]
    known = [field.name for field in fields(made)]
    for option, value in options.items():
        if option not in known:
            allowed = f"{', '.join(known)} of the optimiser {name!r}" if known else f"no options of {name!r}"
            raise InvalidInput(option, value, allowed)
    optimiser: Optimiser = made(**options)
    return optimiser
