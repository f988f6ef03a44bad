"""Functions of the readout at initialisation, a basis for what the neurons' side of a singular vector looks like."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian.hermite import hermite_values
from gradstep.problem import Readout

__all__ = ["readout_polynomials"]


def readout_polynomials(law: Readout, values: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """Return the polynomials up to a degree that are orthonormal under the readout's law, shape (degrees, k).

    They are evaluated at `values`, shape (k,). Of a Gaussian law they are Hermite polynomials. Of a vocabulary the
    values are its own, and there are at most as many polynomials as values.
    """
    if law.kind == "gaussian":
        return np.asarray(hermite_values(values, degree))
    support = np.asarray(law.values)
    count = min(degree + 1, len(support))
    root = np.sqrt(np.asarray(law.weights))[:, None]
    basis, triangle = np.linalg.qr(root * support[:, None] ** np.arange(count))
    at_support = basis / root * np.sign(np.diag(triangle))
    nearest = np.argmin(np.abs(values[:, None] - support), axis=1)
    return np.asarray(at_support[nearest].T)
