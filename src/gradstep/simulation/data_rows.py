"""Inputs that are rows of a table in place of Gaussian ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import finite
from gradstep.errors import InvalidInput
from gradstep.gaussian import MultivariateFunction
from gradstep.problem import Problem
from gradstep.simulation.input_law import InputLaw
from gradstep.simulation.streams import BLOCK_ROWS, Purpose, generator, normal_blocks

__all__ = ["ChosenRows", "DataRows"]

Host = NDArray[np.float64]

#: Roots of eigenvalues below this part of the largest are zero: rounding, or fewer rows than inputs.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class ChosenRows:
    """Rows of a table with label noise: what `gradstep.simulation.instance.Sample` is for normals."""

    table: Host
    place: NDArray[np.intp]
    seed: int
    noise: Purpose | None
    turn: int = 0

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.place)

    @property
    def d(self) -> int:
        """Input dimension."""
        return int(self.table.shape[1])

    def blocks(self) -> Iterator[tuple[Host, Host]]:
        """Yield (rows, d) inputs, whitened, with their (rows,) standard normal noise."""
        parts = (self.place[start : start + BLOCK_ROWS] for start in range(0, self.rows, BLOCK_ROWS))
        if self.noise is None:
            yield from ((self.table[part], np.zeros(len(part))) for part in parts)
            return
        noise = normal_blocks(self.seed, self.noise, self.rows, 1, self.turn)
        yield from ((self.table[part], e[:, 0]) for part, e in zip(parts, noise, strict=True))


@dataclass(frozen=True, eq=False)
class DataRows:
    """A table that samples are drawn from.

    Its columns are centred and scaled together to a covariance C of trace d. Coordinates are the eigenvectors of C, as
    for Gaussian inputs.
    """

    #: Rows in these coordinates, each of variance one; zero along directions in which the table does not vary.
    #: Shape (M, d).
    whitened: Host
    roots: Host  #: Roots of the eigenvalues of C, in decreasing order. Shape (d,).
    #: Whether samples are drawn with replacement, and errors are means over the whole table. Otherwise no row is in two
    #: samples, and errors are means over the rows that are in none.
    replacement: bool

    @classmethod
    def of(cls, rows: ArrayLike, replacement: bool = False) -> Self:
        """Centre, scale and turn a table (M, d).

        Raises `InvalidInput` on another shape, numbers that are not finite, and a table that does not vary.
        """
        table = finite("rows", rows)
        if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2:
            raise InvalidInput("rows", f"shape {table.shape}", "shape (M, d) with M, d >= 2")
        (count, d), centred = table.shape, table - table.mean(axis=0)
        scale = float(np.abs(centred).max())
        if scale == 0:
            raise InvalidInput("rows", "equal rows", "rows that differ")
        left, singular, _ = np.linalg.svd(centred / scale, full_matrices=False)
        varies = singular > _ROUNDING * singular[0]
        whitened, roots = np.zeros((count, d)), np.zeros(d)
        whitened[:, : len(singular)] = math.sqrt(count) * left * varies
        roots[: len(singular)] = singular * varies * math.sqrt(d / float((singular[varies] ** 2).sum()))
        return cls(whitened, roots, replacement)

    def law(self, problem: Problem, seed: int) -> InputLaw:
        """Return the coordinates' deviations, with a teacher drawn at random in each class of the problem's inputs.

        Its direction in a class is that of a random vector of the class's eigenvectors, weighted by their roots: of
        isotropic inputs the whole space is one class. The classes have the eigenvectors in decreasing order. Raises
        `InvalidInput` if a class with a part of the teacher does not vary in as many directions as the teacher has.
        """
        d = len(self.roots)
        several = problem.teacher.inputs if isinstance(problem.teacher, MultivariateFunction) else 1
        law = None if problem.inputs is None else problem.inputs.at_dimension(d)
        counts, shares = ((d,), (1.0,)) if law is None else (law.counts(d), law.teacher)
        normals = np.concatenate(list(normal_blocks(seed, Purpose.TEACHER, d, several))) * self.roots[:, None]
        axes = np.zeros((several, d))
        for part, share in zip(np.split(np.arange(d), np.cumsum(counts)[:-1]), shares, strict=True):
            if share > 0:
                if np.count_nonzero(self.roots[part]) < several:
                    allowed = f"rows that vary in {several} directions of each class that the teacher lies in"
                    raise InvalidInput("rows", f"{len(self.whitened)} of {d} inputs", allowed)
                axes[:, part] = math.sqrt(share) * np.linalg.qr(normals[part])[0].T
        return InputLaw(self.roots, axes)

    def check(self, n_step: int, n: int, d: int) -> None:
        """Refuse sizes for which there are not enough rows."""
        if len(self.roots) != d:
            raise InvalidInput("rows", f"{len(self.roots)} columns", f"d = {d} columns")
        if not self.replacement and n_step + n + 2 > len(self.whitened):
            allowed = f"at least {n_step + n + 2}: those of the step, those of the fit and two to test on"
            raise InvalidInput("rows", f"{len(self.whitened)} rows", allowed)

    def step_sample(self, seed: int, rows: int, turn: int = 0) -> ChosenRows:
        """Return the sample of a step."""
        if not self.replacement:
            if turn:
                raise InvalidInput("fresh", True, "False, or rows drawn with replacement, for more than one step")
            return ChosenRows(self.whitened, self._order(seed)[::-1][:rows], seed, Purpose.STEP_NOISE)
        return self._drawn(seed, rows, Purpose.STEP_INPUTS, Purpose.STEP_NOISE, turn)

    def fit_sample(self, seed: int, rows: int) -> ChosenRows:
        """Return the sample of the fit."""
        if not self.replacement:
            return ChosenRows(self.whitened, self._order(seed)[:rows], seed, Purpose.FIT_NOISE)
        return self._drawn(seed, rows, Purpose.FIT_INPUTS, Purpose.FIT_NOISE, 0)

    def check_sample(self, seed: int, n_step: int, n: int, rows: int | None = None) -> ChosenRows:
        """Return rows on which errors are measured, all of them if not told how many."""
        count = len(self.whitened)
        order = np.arange(count) if self.replacement else self._order(seed)[n : count - n_step]
        if rows is not None and rows > len(order):
            raise InvalidInput("rows", rows, f"at most {len(order)}, as many as are in no other sample")
        return ChosenRows(self.whitened, order[:rows], seed, None)

    def _order(self, seed: int) -> NDArray[np.intp]:
        return generator(seed, Purpose.ROWS).permutation(len(self.whitened))

    def _drawn(self, seed: int, rows: int, purpose: Purpose, noise: Purpose, turn: int) -> ChosenRows:
        place = generator(seed, purpose, 0, turn).integers(len(self.whitened), size=rows)
        return ChosenRows(self.whitened, place, seed, noise, turn)
