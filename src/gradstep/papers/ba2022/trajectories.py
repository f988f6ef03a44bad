r"""Figure 2: a two-layer ReLU network trained whole, in the mean-field and in the tangent-kernel parameterisation.

Both are :math:`f(x)=\frac{s}{N}\sum_i\sqrt N a_i\,\sigma(\langle w_i,x\rangle)` with :math:`\sqrt N a_i\sim N(0,1)`:
output scale :math:`s=1` is (1.1), the mean-field one, and :math:`s=\sqrt N` omits its prefactor :math:`1/\sqrt N`. With
a learning rate :math:`N\eta/s^2` for every parameter, both functions start to learn at the same speed, with the same
tangent kernel; what differs is how far the parameters have to go for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import one_of
from gradstep.errors import NotConverged
from gradstep.gaussian.functions import ScalarFunction

__all__ = ["Training", "stable_rate", "train"]

Array = NDArray[np.float64]

Parameterisation = Literal["mean-field", "NTK"]

DIVERGED = 1e6
"""Training stops when the loss has grown by this factor."""

SNAPSHOT_GROWTH = 1.2
"""Factor between the numbers of steps at which the weights are recorded."""


@dataclass(frozen=True)
class Training:
    """Weights and losses along the path of gradient descent."""

    #: First layer along the directions asked for, at the first of them before training, at the last after it.
    #: Shape (T, N, k).
    weights: Array
    losses: Array  #: Training loss, half the mean squared residual, at the same times. Shape (T,).
    steps: NDArray[np.int64]  #: Numbers of steps taken, shape (T,).
    #: The whole first layer before and after, shape (N, d).
    initial: Array
    final: Array
    readout: Array  #: Readout of order one after training, shape (N,).


def stable_rate(inputs: Array, weights: Array, activation: ScalarFunction) -> float:
    """Return a learning rate below the stability limit of gradient descent at initialisation.

    One over the largest eigenvalue of the tangent kernel divided by the number of samples, the readout replaced by its
    law: about half of what is stable.
    """
    n, N = len(inputs), len(weights)
    preactivations = inputs @ weights.T
    slopes = activation.derivative(preactivations)
    values = activation(preactivations)
    kernel = (inputs @ inputs.T) * (slopes @ slopes.T) + values @ values.T
    return n * N / float(np.linalg.eigvalsh(kernel)[-1])


def train(
    inputs: Array,
    labels: Array,
    weights: Array,
    readout: Array,
    activation: ScalarFunction,
    *,
    parameterisation: Parameterisation,
    rate: float,
    directions: Sequence[Array] = (),
    loss_bound: float = 1e-3,
    maximum_steps: int = 200_000,
) -> Training:
    """Train both layers by gradient descent on all samples until the training loss is below a bound.

    There are inputs (n, d) and labels (n,). The weights (N, d) and the readout of order one (N,) are those at
    initialisation. The output scale of the parameterisation is one, or the square root of N for ``"NTK"``. The rate is
    that of the function: the parameters move by ``N rate / scale**2`` times their gradients. The loss is half the mean
    squared residual. Weights are recorded along some directions (d,). Raises `InvalidInput` on an unknown
    parameterisation. Raises `NotConverged` if the loss is not below the bound after `maximum_steps`, or diverges.
    """
    n, N = len(inputs), len(weights)
    scales = {"mean-field": 1.0, "NTK": math.sqrt(N)}
    scale = scales[one_of("parameterisation", parameterisation, tuple(scales))]
    first, second = weights.copy(), readout.copy()
    basis = np.stack(directions, axis=1) if directions else np.zeros((weights.shape[1], 0))
    recorded, losses, steps = [], [], []
    due = 0
    for step in range(maximum_steps + 1):
        preactivations = inputs @ first.T
        values = activation(preactivations)
        residual = labels - scale / N * (values @ second)
        loss = float(residual @ residual) / (2 * n)
        finished = not loss >= loss_bound
        if finished or step == due:
            recorded.append(first @ basis)
            losses.append(loss)
            steps.append(step)
            due = max(step + 1, math.ceil(SNAPSHOT_GROWTH * step))
        if finished or not loss < DIVERGED * losses[0]:
            break
        # The gradient of the loss is -scale / (N n) times these sums; the rate multiplies it by N rate / scale**2.
        move = rate / (scale * n)
        slopes = activation.derivative(preactivations)
        slopes *= residual[:, None]
        change = (slopes.T @ inputs) * second[:, None]
        second += move * (values.T @ residual)
        first += move * change
    if not loss < loss_bound:
        raise NotConverged("Gradient descent", loss, loss_bound, "Use a smaller rate, or more steps.")
    return Training(np.stack(recorded), np.array(losses), np.array(steps), weights, first, second)
