"""One random instance: weights, readout and samples, as functions of the seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.problem import InitialWeights, Readout
from gradstep.simulation.streams import Drawing, Purpose, generator, normal_blocks
from gradstep.sizes import apportioned

TEACHER_AXIS = 0
"""The teacher's direction is the first coordinate axis of isotropic inputs, which rotations leave as they are."""


def initial_weights(seed: int, width: int, d: int, law: InitialWeights) -> NDArray[np.float64]:
    """Draw the first layer, shape (width, d), see `weight_blocks`."""
    return np.concatenate(list(weight_blocks(seed, width, d, law)))


def weight_blocks(
    seed: int, width: int, d: int, law: InitialWeights, *, drawing: Drawing | None = None
) -> Iterator[NDArray[np.float64]]:
    """Draw the first layer, some neurons at a time.

    Rows, each a neuron, are ``N(0, I_d / d)``, or with the law ``"sphere"`` the same rows divided by their norms. They
    come in blocks of shape (rows, d), and `drawing` is the way in which they are drawn.
    """
    for normals in normal_blocks(seed, Purpose.WEIGHTS, width, d, drawing=drawing):
        normals /= np.linalg.norm(normals, axis=1, keepdims=True) if law == "sphere" else math.sqrt(d)
        yield normals


def initial_readout(seed: int, width: int, law: Readout) -> NDArray[np.float64]:
    """Draw the readout weights at initialisation.

    A Gaussian law gives independent standard normals. The values of a vocabulary are given to the neurons in exact
    proportions, as nearly as whole neurons allow (largest remainders, ties to the smaller value), in random order: the
    proportions of the groups are a parameter of the problem, not a random quantity of it.

    The values ``a_i`` are of order one. Raises `InvalidInput` if no neuron gets a value other than zero.
    """
    if law.kind == "gaussian":
        return np.concatenate([block[:, 0] for block in normal_blocks(seed, Purpose.READOUT, width, 1)])
    values = np.repeat(np.asarray(law.values, dtype=float), apportioned(law.weights, width))
    if not values.any():
        reason = f"all of whose {width} neurons get the value 0"
        raise InvalidInput("readout", str(law), "a network so wide that at least one neuron gets a rare value", reason)
    return generator(seed, Purpose.READOUT).permutation(values)


def random_basis(seed: int, d: int) -> NDArray[np.float64]:
    """Draw an orthogonal matrix (d, d) from the Haar measure: coordinates in which no direction is special."""
    normals = np.concatenate(list(normal_blocks(seed, Purpose.BASIS, d, d)))
    basis, triangle = np.linalg.qr(normals)
    return np.asarray(basis * np.sign(np.diagonal(triangle)))


@dataclass(frozen=True)
class Sample:
    """Fresh standard normals and label noise, which are drawn again, block by block, each time they are used."""

    seed: int  #: Seed of the instance.
    #: Streams of the inputs and of the noise; `noise` is None for a sample without labels.
    inputs: Purpose
    noise: Purpose | None
    #: Sample size and input dimension.
    rows: int
    d: int
    turn: int = 0  #: Which of the samples of this purpose.

    def blocks(self, drawing: Drawing | None = None) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield (rows, d) inputs, whitened, with their (rows,) standard normal noise."""
        inputs = normal_blocks(self.seed, self.inputs, self.rows, self.d, self.turn, drawing=drawing)
        if self.noise is None:
            for x in inputs:
                yield x, np.zeros(x.shape[0])
            return
        noise = normal_blocks(self.seed, self.noise, self.rows, 1, self.turn)
        for x, e in zip(inputs, noise, strict=True):
            yield x, e[:, 0]


def step_sample(seed: int, rows: int, d: int, turn: int = 0) -> Sample:
    """Return the sample of the gradient step, or of the step after as many others as `turn` says."""
    return Sample(seed, Purpose.STEP_INPUTS, Purpose.STEP_NOISE, rows, d, turn)


def fit_sample(seed: int, rows: int, d: int) -> Sample:
    """Return the fresh sample of the ridge fit."""
    return Sample(seed, Purpose.FIT_INPUTS, Purpose.FIT_NOISE, rows, d)


def check_sample(seed: int, rows: int, d: int) -> Sample:
    """Return the fresh sample on which the population risk is checked."""
    return Sample(seed, Purpose.TEST_INPUTS, None, rows, d)


def pool_sample(seed: int, rows: int, d: int, turn: int = 0) -> Sample:
    """Return one of the fresh samples from which the expected errors of fits are computed."""
    return Sample(seed, Purpose.POOL_INPUTS, None, rows, d, turn)
