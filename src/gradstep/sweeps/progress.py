"""Progress of a sweep: how much is done, and how far theory is from the networks so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.overlay import Overlay

__all__ = ["Running", "State"]


@dataclass(frozen=True)
class State:
    """A moment of a sweep.

    Attributes
    ----------
    done, total : int
        Tasks finished (from the store or now), and all of them.
    failed : int
        Tasks that raised (they are tried again by the next run), and penalties of a path without a prediction.
    first_failure : str
        Message of the first failure.
    worst_z : float
        Largest ``|z|`` of the test error over the points with at least four seeds; nan before.
    precision_cost : float
        With float32: relative error of the test error that it costs, measured at one network; nan in double precision.
    """

    done: int
    total: int
    failed: int
    first_failure: str
    worst_z: float
    precision_cost: float = math.nan


@dataclass
class Running:
    """Means and spreads of the test error so far (Welford), one row a point and one column a penalty."""

    points: int
    penalties: int
    count: NDArray[np.int64] = field(init=False)
    mean: NDArray[np.float64] = field(init=False)
    square: NDArray[np.float64] = field(init=False)
    theory: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.points, self.penalties)
        self.count = np.zeros(self.points, dtype=np.int64)
        self.mean, self.square = np.zeros(shape), np.zeros(shape)
        self.theory = np.full(shape, np.nan)

    def add(self, point: int, result: Mapping[str, Any]) -> None:
        """Take in one network."""
        values = np.array(result["test_error"], dtype=np.float64)
        self.count[point] += 1
        difference = values - self.mean[point]
        self.mean[point] += difference / self.count[point]
        self.square[point] += difference * (values - self.mean[point])

    def predict(self, point: int, result: Mapping[str, Any]) -> None:
        """Take in the theory of a point."""
        self.theory[point] = np.array(result["test_error"], dtype=np.float64)

    def standard_error(self) -> NDArray[np.float64]:
        """Return the standard error of each mean; infinite with fewer than two seeds."""
        count = self.count[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(self.square / np.maximum(count - 1, 1) / count)
        return np.where(count < 2, np.inf, error)

    def relative_error(self) -> NDArray[np.float64]:
        """Return the largest relative standard error of each point."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((self.standard_error() / np.abs(self.mean)).max(axis=1))

    def worst_z(self) -> float:
        """Return the largest ``|z|`` over the points with at least four seeds."""
        known = self.count >= 4
        if not known.any():
            return float("nan")
        error = self.standard_error()[known]
        z = np.abs(Overlay(self.theory[known], self.mean[known], error, self.count[known, None]).z)
        return float(np.nanmax(z)) if np.isfinite(z).any() else float("nan")
