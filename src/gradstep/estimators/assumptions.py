"""Whether the theory of isotropic Gaussian inputs says anything about a table: where it would not, it is withheld."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from gradstep.estimators.rows import Sample
from gradstep.estimators.step_choice import CLEARLY, standard_error

__all__ = ["broken_by_columns", "broken_by_errors"]

Host = NDArray[np.float64]

#: Mean over columns of the squared correlations with all others, above what chance gives, that are too large.
_CORRELATED = 0.05
#: Mean over columns of the squared correlation of a column with its normal scores, below which columns are not
#: Gaussian: .64 for a fair coin, .82 for exponential numbers, .95 for uniform ones.
_GAUSSIAN = 0.9
#: Share of the measured error by which a theory may miss it, on top of what is clear of its standard error.
_SHARE = 0.2


def broken_by_columns(sample: Sample) -> str:
    """Say which assumption about the inputs fails; empty where none is seen to."""
    z, w = sample.z, sample.weights / sample.weights.sum()
    if (excess := correlation_excess(z, w, sample.copies.squared_shares(w))) > _CORRELATED:
        return (
            "no theory: it is for uncorrelated columns, and the squared correlations of a column here with all others "
            f"add up to {excess:.2g} on average, chance not counted"
        )
    if (gaussian := gaussianity(z, w)) < _GAUSSIAN:
        return (
            "no theory: it is for Gaussian columns, and those here have a squared correlation of "
            f"{gaussian:.2f} on average with Gaussian numbers in the same order"
        )
    return ""


def correlation_excess(z: Host, share: Host, by_chance: float) -> float:
    r"""Return the sum of squared correlations of a column with all others, mean over columns, less that of chance.

    The squared correlation of two independent columns is not zero: `by_chance` is its mean, one over the number of
    different rows (`gradstep.simulation.leave_one_out.Copies.squared_shares`). The columns of z, shape (n, d), are
    standardised. The shares of the n rows add up to one.
    """
    root, columns = np.sqrt(share)[:, None] * z, len(z.T)
    gram = root @ root.T if len(root) < root.shape[1] else root.T @ root
    # The trace of the square is the sum over all pairs of columns, each with itself included.
    own = float(np.sum((root**2).sum(axis=0) ** 2))
    return (float(np.sum(gram**2)) - own) / columns - (columns - 1) * by_chance


def gaussianity(z: Host, share: Host) -> float:
    """Return the squared correlation of a column with Gaussian numbers in the same order, mean over columns that vary.

    It is one for a Gaussian column of many rows. (Shapiro and Francia's statistic; where values are equal, they stand
    beside different Gaussian numbers, so that a column of few values is not Gaussian.) The columns of z, shape (n, d),
    are standardised, and the shares of the rows add up to one. If no column varies, it is one.
    """
    found = []
    for column in z.T:
        values, place = np.unique(column, return_inverse=True)
        mass = np.bincount(place, share)
        variance = float(mass @ (values - mass @ values) ** 2)
        if variance > 0:
            edges = ndtri(np.clip(np.append(0.0, np.cumsum(mass)), 0.0, 1.0))
            # A Gaussian number between two edges has this mean, times the mass between them.
            means = -np.diff(np.exp(-(edges**2) / 2)) / math.sqrt(2 * math.pi)
            found.append(float(values @ means) ** 2 / variance)
    return float(np.mean(found)) if found else 1.0


def broken_by_errors(predicted: float, squares: Host, weights: Host, groups: NDArray[np.intp]) -> str:
    """Say that the theory is not about this network, where its error is not the measured one; empty where it is.

    The prediction is that with the step. Without a step there is nothing to compare: the theory has the penalty that
    was chosen after the step, and a measurement would have one of its own. The squared errors are those of networks
    that have not seen the row; groups are equal for copies of one input.
    """
    measured = float(weights @ squares / weights.sum())
    if abs(predicted - measured) <= CLEARLY * standard_error(squares, weights, groups) + _SHARE * measured:
        return ""
    return (
        f"no theory: that of a plain network on isotropic Gaussian data has the error {predicted:.4f}, far from the "
        f"{measured:.4f} of networks on held-out rows, so that it is not about them"
    )
