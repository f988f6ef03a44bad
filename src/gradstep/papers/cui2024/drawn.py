r"""Drawn instances: the spiked random features model (7), the network after a real step, the equivalent features (14).

Inputs, label noise and initial weights come from the same streams as those of :func:`gradstep.simulate`; the teacher's
direction is the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction
from gradstep.papers.cui2024.spiked import conditional_features, equivalent_features
from gradstep.problem import Problem, check_isotropic
from gradstep.simulation import Network
from gradstep.simulation.instance import TEACHER_AXIS, initial_weights
from gradstep.simulation.ridge import RidgePath, fit_rows

__all__ = [
    "DrawnFit",
    "FirstLayer",
    "equivalent_fit",
    "feature_eigenvalues",
    "fit",
    "network_of",
    "sampled_error",
    "spiked_layer",
    "stepped_layer",
]

Array = NDArray[np.float64]

# Streams of the random numbers that the simulation of the network does not use.
_EXTRA = 0x637569
_KERNEL_TOLERANCE = 1e-7


@dataclass(frozen=True)
class FirstLayer:
    """Weights with a spike."""

    weights: Array  #: Shape (p, d).
    #: Part of each neuron's projection on the spike's direction that the spike adds, shape (p,). If there are several
    #: spikes, this is about the first one.
    spike: Array
    direction: Array  #: Unit vector of the (first) spike, shape (d,).


def spiked_layer(
    seed: int,
    width: int,
    d: int,
    *,
    r: ArrayLike,
    c: ArrayLike,
    gamma: ArrayLike,
    orthogonal: bool = False,
) -> FirstLayer:
    """Draw the first layer of a spiked random features model (Definition 3.1).

    Parameters
    ----------
    seed : int
    width, d : int
        :math:`p` and :math:`d`.
    r : array_like
        Spike strength: one value, one value for each neuron, or an array of shape (neurons, spikes).
    c : array_like
        Bulk variance: one value, or one value for each neuron.
    gamma : array_like
        Alignment of each of the orthonormal spikes.
    orthogonal : bool
        Orthonormal rows in place of independent ones (section D.3); needs ``width <= d``.

    Raises
    ------
    InvalidInput
        If there are more orthonormal rows than dimensions.
    """
    bulk = initial_weights(seed, width, d, "sphere")
    if orthogonal:
        if width > d:
            raise InvalidInput("width", width, f"at most d = {d} orthonormal rows")
        q, triangle = np.linalg.qr(bulk.T)
        bulk = (q * np.sign(np.diag(triangle))).T
    strengths = np.asarray(r, dtype=np.float64)
    if strengths.ndim < 2:
        strengths = np.broadcast_to(strengths, (width,))[:, None]
    directions = _directions(np.broadcast_to(np.asarray(gamma, dtype=np.float64), strengths.shape[1:]), d)
    scale = np.sqrt(np.broadcast_to(np.asarray(c, dtype=np.float64), (width,)))
    return FirstLayer(scale[:, None] * bulk + strengths @ directions, strengths[:, 0], directions[0])


def _directions(gamma: Array, d: int) -> Array:
    """Return orthonormal rows whose first coordinates, along the teacher, are the alignments."""
    rest = np.sqrt(max(1 - float(gamma @ gamma), 0.0))
    unit = np.append(gamma, rest)
    # A reflection is symmetric: its first column is `unit`, so the first coordinates of its rows are the alignments.
    mirror = unit - np.eye(unit.size)[0]
    size = float(mirror @ mirror)
    frame = np.eye(unit.size) - (2 * np.outer(mirror, mirror) / size if size > 0 else 0.0)
    rows = np.zeros((gamma.size, d))
    rows[:, : unit.size] = frame[: gamma.size]
    return rows


def stepped_layer(problem: Problem, seed: int) -> FirstLayer:
    """Draw a network and make its plain step on isotropic inputs: the same as in :func:`gradstep.simulate`.

    The spike is the part of the change along the gradient's direction that is proportional to the readout.
    """
    check_isotropic(problem)
    network = Network(problem, seed)
    direction = network.spike.direction
    along = (network.after - network.before) @ direction
    share = (network.readout @ along) / (network.readout @ network.readout)
    return FirstLayer(network.after, network.readout * share, direction)


@dataclass(frozen=True)
class DrawnFit:
    """A ridge fit on drawn features, with its exact test error and the summary statistics (17)."""

    #: Exact test error, mean squared training residual, and the minimum of (4) per sample.
    test_error: float
    train_error: float
    train_loss: float
    #: :math:`m,\theta,\psi,q_1,q_2` of the paper's :math:`a`.
    readout_mean: float
    bulk_overlap: float
    teacher_overlap: float
    bulk_norm: float
    readout_norm: float
    readout: Array  #: :math:`a/\sqrt p`, the readout of the raw features. Shape (p,).

    def numbers(self) -> dict[str, float]:
        """Return the scalars by name."""
        return {name: float(value) for name, value in vars(self).items() if name != "readout"}


def network_of(
    layer: FirstLayer,
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    n: int,
    lam: float,
    seed: int,
    sigma_eps: float = 0.0,
) -> Network:
    r"""Return the network with a drawn first layer, whose readout is trained on fresh samples, (4).

    There are n samples, drawn with the seed of the layer, and label noise of standard deviation ``sigma_eps``. The
    penalty is :math:`\lambda` of (4), with features divided by :math:`\sqrt p`. The network takes no step. Its readouts
    are :math:`a/\sqrt p` of the raw features, and its training loss is the minimum of (4) per sample.
    """
    width, d = layer.weights.shape
    sizes = {"d": d, "width": width, "n_step": n, "n": n}
    problem = Problem(activation=sigma, teacher=sigma_star, eta=0.0, ridge=lam * width, noise=sigma_eps, **sizes)
    return Network(problem, seed, before=layer.weights)


def fit(layer: FirstLayer, sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, **samples: Any) -> DrawnFit:
    """Train the readout of a drawn layer; arguments as for :func:`network_of`.

    The test error is the exact expectation over inputs given the weights.
    """
    network = network_of(layer, sigma, sigma_star, **samples)
    path = network.fit()
    risk = network.risk(path.readouts, along=layer.direction, tolerance=_KERNEL_TOLERANCE)
    return _summarised(layer, path, float(risk.test_error[0]))


def sampled_error(
    layer: FirstLayer,
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    test_samples: int,
    biases: Array,
    **samples: Any,
) -> tuple[float, float]:
    """Return test and training errors with biases (p,) of the neurons; the test error is on so many fresh inputs.

    All other arguments are those of :func:`network_of`.
    """
    network = network_of(layer, sigma, sigma_star, **samples)
    activation, teacher = network.problem.activation, network.problem.link
    inputs, labels = network.fit_data()
    path = fit_rows(activation(inputs @ layer.weights.T + biases), labels, [network.problem.sizes.ridge])
    x = np.random.default_rng([_EXTRA, network.seed]).standard_normal((test_samples, inputs.shape[1]))
    miss = activation(x @ layer.weights.T + biases) @ path.readouts[:, 0] - teacher(x[:, TEACHER_AXIS])
    return float(np.mean(miss**2)), float(path.train_error[0])


def feature_eigenvalues(layer: FirstLayer, sigma: str | ScalarFunction, *, n: int, seed: int) -> Array:
    r"""Eigenvalues of the empirical covariance :math:`\Phi^\top\Phi/n` of the features, as in appendix F.

    Arguments are those of :func:`network_of`; shape (p,), increasing.
    """
    network = network_of(layer, sigma, sigma, n=n, lam=1.0, seed=seed)
    features = network.features(network.fit_data()[0])
    return np.asarray(np.linalg.eigvalsh(features.T @ features / n))


def _summarised(layer: FirstLayer, path: RidgePath, test_error: float) -> DrawnFit:
    readout = np.asarray(path.readouts[:, 0])
    bulk = layer.weights - np.outer(layer.spike, layer.direction)
    pulled = readout @ bulk
    gamma = float(layer.direction[TEACHER_AXIS])
    rest = np.sqrt(max(1 - gamma**2, 0.0))
    along = float(pulled @ layer.direction)
    across = (float(pulled[TEACHER_AXIS]) - gamma * along) / rest if rest > 1e-9 else 0.0
    return DrawnFit(
        test_error=test_error,
        train_error=float(path.train_error[0]),
        train_loss=float(path.train_loss[0]),
        readout_mean=float(readout.sum()),
        bulk_overlap=along,
        teacher_overlap=across,
        bulk_norm=float(pulled @ pulled) - along**2,
        readout_norm=float(readout @ readout),
        readout=readout,
    )


def equivalent_fit(
    seed: int,
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    width: int,
    d: int,
    n: int,
    r: float,
    c: float,
    gamma: float,
    lam: float,
    sigma_eps: float = 0.0,
) -> DrawnFit:
    r"""Ridge regression on the equivalent stochastic features (14), (16).

    Given the weights and the readout, the test error is (25) with the drawn summary statistics: exact. The sizes, the
    penalty and the noise are those of :func:`network_of`. Docs, "Gaussian calculus", equation (G5).
    """
    layer = spiked_layer(seed, width, d, r=0.0, c=c, gamma=gamma)
    x, labels = network_of(layer, sigma, sigma_star, n=n, lam=lam, seed=seed, sigma_eps=sigma_eps).fit_data()
    mean, slope, variance = conditional_features(sigma, x @ layer.direction, r=r, c=c)
    noise = np.random.default_rng([_EXTRA, seed]).standard_normal((n, width))
    features = slope[:, None] * (x @ layer.weights.T)
    features += mean[:, None] + np.sqrt(variance)[:, None] * noise
    drawn = _summarised(layer, fit_rows(features, labels, [lam * width]), np.nan)
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma)
    slope = table.slope / np.sqrt(c)
    learned = table.mean * drawn.readout_mean + table.nodes * slope * drawn.bulk_overlap
    error = (table.teacher_mean - learned) ** 2 + table.teacher_variance
    error += (table.teacher_slope - slope * drawn.teacher_overlap) ** 2
    error += slope**2 * (drawn.bulk_norm - drawn.teacher_overlap**2) + table.variance * drawn.readout_norm
    return DrawnFit(**(vars(drawn) | {"test_error": float(table.weights @ error)}))
