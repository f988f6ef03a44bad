"""What laws of the rows' covariance share: the equations at given points are solved once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowLaw"]

Complex = NDArray[np.complexfloating[Any, Any]]
Points = TypeVar("Points")


class RowLaw(ABC, Generic[Points]):
    """A law that is known through its resolvent at points off the real axis."""

    @property
    @abstractmethod
    def stretched(self) -> bool:
        """Whether the samples of the step stretch the rows: the law has their products then."""

    @cached_property
    def _solved(self) -> dict[bytes, Points]:
        """Solutions at points that were asked for before."""
        return {}

    def at(self, z: Complex) -> Points:
        """Return the solution at points in the upper half-plane, shape (points,).

        Raises `NotConverged` if the fixed point is not found.
        """
        key = z.tobytes()
        if key not in self._solved:
            self._solved[key] = self._solve(z)
        return self._solved[key]

    def keep(self, z: Complex, solution: Points) -> None:
        """Keep a solution at points that was found before."""
        self._solved[z.tobytes()] = solution

    def forget(self, z: Complex) -> None:
        """Keep the solution at points no longer."""
        self._solved.pop(z.tobytes(), None)

    @abstractmethod
    def _solve(self, z: Complex) -> Points:
        """Solve the equations of the law."""
