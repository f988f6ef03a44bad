r"""The first layer: its draw, its features, and full gradient steps on it for one or several outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.metric import Metric
from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.problem import Readout
from gradstep.simulation.backend import Array, Backend, to_host
from gradstep.simulation.instance import initial_readout, initial_weights
from gradstep.simulation.rowwise import for_rows

__all__ = ["FirstLayer", "draw"]

Host = NDArray[np.float64]

#: Share of the identity in the law of rows that are drawn again.
_ISOTROPIC = 0.02


@dataclass(frozen=True)
class FirstLayer:
    """Neurons ``sigma(<w_i, z> + offset_i)`` with the readout that the gradient step uses."""

    activation: ScalarFunction
    weights: Host  #: Shape (N, d).
    offsets: Host  #: Drawn at random; they grow with the pre-activations that they are added to. Shape (N,).
    readout: Host  #: ``a_io`` of order one, one column an output. Shape (N, k).

    @property
    def width(self) -> int:
        """Number of neurons."""
        return len(self.offsets)

    def narrowed(self, width: int) -> Self:
        """Return the first neurons only."""
        return self._neurons(slice(width))

    def beyond(self, width: int) -> Self:
        """Return the other neurons."""
        return self._neurons(slice(width, None))

    def _neurons(self, part: slice) -> Self:
        return replace(self, weights=self.weights[part], offsets=self.offsets[part], readout=self.readout[part])

    def moved(self, gradient: Host, eta: float, metric: Metric) -> Self:
        """Return the layer after ``w_i <- w_i + (eta / sqrt N) G_i``, with offsets that keep pace.

        Each offset is multiplied by what the step multiplies the root mean square of ``<w_i, z>`` by. After a large
        step all offsets would otherwise be negligible, and every neuron would bend at the middle of the data.
        """
        weights = self.weights + (eta / np.sqrt(self.width)) * gradient
        before, after = metric.sizes(self.weights), metric.sizes(weights)
        growth = np.divide(after, before, out=np.ones(self.width), where=before > 0)
        return replace(self, weights=weights, offsets=self.offsets * growth)

    def smooth(self) -> Self:
        """Return the layer with the activation tanh."""
        return replace(self, activation=scalar_function("tanh"))

    def redrawn(self, gradients: Host, metric: Metric) -> Self:
        """Return the layer with rows ``w_i M^{1/2}``: ``M`` is ``R^T R`` of trace one with a little of the identity.

        Rows that were drawn from ``N(0, I)`` are then drawn from ``N(0, M)``, up to a factor that keeps the root mean
        square of all pre-activations. The identity keeps a share of every direction, so that none is lost for good.
        The gradients ``R`` have the shape (rows, d), and some of their projections vary.
        """
        rows, d = gradients.shape
        values, vectors = np.linalg.eigh(gradients.T @ gradients if d <= rows else gradients @ gradients.T)
        values = np.maximum(values, 0.0)
        if d > rows:  # the smaller of the two Gram matrices
            kept = values > values[-1] * np.finfo(np.float64).eps * rows
            values = values[kept]
            vectors = gradients.T @ (vectors[:, kept] / np.sqrt(values))
        rest = math.sqrt(_ISOTROPIC / d)
        roots = np.sqrt((1 - _ISOTROPIC) * values / values.sum() + rest**2)
        weights = rest * self.weights + ((self.weights @ vectors) * (roots - rest)) @ vectors.T
        before, after = np.linalg.norm(metric.sizes(self.weights)), np.linalg.norm(metric.sizes(weights))
        return replace(self, weights=weights * (before / after))

    def features(self, backend: Backend, z: Host) -> Array:
        """Return ``sigma(z W^T + offsets)``, shape (rows, N), on the device and in its precision."""
        values = self._preactivations(backend, z)

        def activate(part: slice) -> None:
            values[part, :] = self.activation(values[part, :])

        for_rows(activate, z.shape[0], backend.threads)
        return values

    def slopes(self, z: Host) -> Host:
        """Return the derivatives of the activation, ``sigma'(z W^T + offsets)``, shape (rows, N)."""
        return np.asarray(self.activation.derivative(z @ self.weights.T + self.offsets))

    def gradient(self, backend: Backend, blocks: Iterable[tuple[Host, Host, Host]]) -> Host:
        """Sum the weighted gradient over blocks of inputs (rows, d), targets (rows, k) and weights (rows,).

        It is ``sum_mu weight_mu sum_o a_io (y_mu,o - f_o(x_mu)) sigma'(u_i,mu) x_mu``, shape (N, d), with
        ``f_o = (1/N) sum_i a_io sigma(u_i)``: not yet divided by the sum of the weights.
        """
        total = backend.zeros(self.weights.shape)
        readout = backend.data(self.readout)
        for host_inputs, host_targets, host_weights in blocks:
            u = self._preactivations(backend, host_inputs)
            y, w = backend.data(host_targets), backend.data(host_weights)

            def weigh_slopes(part: slice, u: Array = u, y: Array = y, w: Array = w) -> None:
                residual = y[part, :] - (self.activation(u[part, :]) @ readout) / self.width
                u[part, :] = self.activation.derivative(u[part, :]) * ((residual * w[part][:, None]) @ readout.T)

            for_rows(weigh_slopes, host_inputs.shape[0], backend.threads)
            total += backend.double(u.T @ backend.data(host_inputs))
        return to_host(total)

    def _preactivations(self, backend: Backend, z: Host) -> Array:
        values = backend.data(z) @ backend.data(self.weights).T
        values += backend.data(self.offsets)
        return values


def draw(
    activation: ScalarFunction,
    width: int,
    d: int,
    outputs: int,
    *,
    offset: float,
    law: Readout,
    random: np.random.RandomState,
) -> FirstLayer:
    """Draw the layer: rows ``N(0, I / d)``, offsets ``N(0, offset^2)``, a readout for every output.

    The pre-activations of d standardised inputs have variance one.
    """
    seeds = random.randint(2**31 - 1, size=1 + outputs)
    weights = initial_weights(int(seeds[0]), width, d, "gaussian")
    readout = np.stack([initial_readout(int(seed), width, law) for seed in seeds[1:]], axis=1)
    return FirstLayer(activation, weights, offset * random.standard_normal(width), readout)
