r"""Coordinates in which inputs are drawn: eigenvectors of their covariance, and the teacher's place among them.

With :math:`x=C^{1/2}z` and standard normal z everything a network computes is that of the whitened weights
:math:`C^{1/2}w_i` on z. Coordinates are the eigenvectors of C, class by class. Inside a class no direction is special,
so that the teacher's part of it lies along the class's first coordinate (of several teacher directions, the l-th along
the l-th).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import MultivariateFunction, ScalarFunction
from gradstep.problem import Problem

__all__ = ["InputLaw"]

Host = NDArray[np.float64]


@dataclass(frozen=True)
class InputLaw:
    """Standard deviations of the coordinates of the inputs, and the teacher's directions in whitened coordinates."""

    roots: Host | None = None  #: Roots of the covariance's eigenvalues; None for isotropic inputs. Shape (d,).
    #: Orthonormal directions of the teacher in whitened coordinates; None for the first coordinates. Shape (k, d).
    axes: Host | None = None

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the law of a problem with finite sizes.

        Raises `InvalidInput` if the teacher has more directions than a class in which it lies.
        """
        if problem.inputs is None:
            return cls()
        d, several = problem.sizes.d, _directions(problem.teacher)
        law = problem.inputs.at_dimension(d)
        counts = np.array(law.counts(d))
        seen, first = np.array(law.teacher) > 0, np.cumsum(counts) - counts
        if several > counts[seen].min():
            allowed = f"a teacher of at most {counts[seen].min()} directions, the size of the smallest class it lies in"
            raise InvalidInput("teacher", problem.teacher.name, allowed)
        axes = np.zeros((several, d))
        for place in range(several):
            axes[place, first[seen] + place] = np.sqrt(np.array(law.teacher)[seen])
        return cls(np.sqrt(np.repeat(law.eigenvalues, counts)), axes)

    def times_root(self, rows: Any) -> Any:
        """Return rows (..., d) times ``C^(1/2)``: inputs of standard normals, and whitened weights of weights."""
        return rows if self.roots is None else rows * _like(self.roots, rows)

    def directions(self, teacher: ScalarFunction | MultivariateFunction, d: int) -> Host:
        """Return the teacher's directions in whitened coordinates, orthonormal rows (k, d)."""
        return np.eye(_directions(teacher), d) if self.axes is None else self.axes

    def teacher_weights(self, teacher: ScalarFunction | MultivariateFunction, d: int) -> Host:
        """Return ``beta*`` of each direction of the teacher, of which the projections have variance one, (k, d)."""
        axes = self.directions(teacher, d)
        # Directions without variance have no part of the teacher.
        return axes if self.roots is None else axes / np.where(self.roots > 0, self.roots, 1.0)

    def teacher_input(self, teacher: ScalarFunction | MultivariateFunction, x: Any) -> Any:
        """Return what a teacher sees of inputs (rows, d): standard normals, (rows,), or (rows, k) for k directions."""
        if self.axes is None:
            seen = x[:, : _directions(teacher)]
        else:
            seen = x @ _like(self.teacher_weights(teacher, x.shape[1]), x).T
        return seen[:, 0] if isinstance(teacher, ScalarFunction) else seen


def _directions(teacher: ScalarFunction | MultivariateFunction) -> int:
    return teacher.inputs if isinstance(teacher, MultivariateFunction) else 1


def _like(values: Host, other: Any) -> Any:
    """Return values as an array of the library, the precision and the device of another."""
    return array_namespace(other).asarray(values, dtype=other.dtype, device=device(other))
