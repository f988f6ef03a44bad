"""The rows of a fit: a whole table on its way, and some of its rows held in memory with ridge fits to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from array_api_compat import numpy as numpy_namespace
from numpy.typing import NDArray

from gradstep.estimators.parameters import Settings
from gradstep.estimators.table import Table
from gradstep.simulation.backend import Backend
from gradstep.simulation.leave_one_out import Copies, Mistaken, Scores, copies_of, leave_one_out
from gradstep.simulation.ridge import IndexedBlocks, Ridge, factorise

__all__ = ["CHOICE_ROWS", "FOLDS", "HOST", "Sample", "Training"]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

HOST = Backend(numpy_namespace, None, "float64")
"""For tables in memory that are too small to be worth starting threads for."""

FOLDS = 3
"""Parts of the rows: each is left out of the steps and of the ridge fit by which its own errors are measured."""

CHOICE_ROWS = 4096
"""Largest number of rows on which networks are compared."""


@dataclass(frozen=True)
class Sample:
    """Rows held in memory, on which networks are compared."""

    z: Host  #: Standardised inputs, or features. Shape (n, d).
    y: Host  #: Shape (n, k).
    weights: Host  #: Shape (n,).
    #: Its groups have numbers in the order of the rows' hashes, which is random: parts of the rows are made by them.
    copies: Copies
    #: Rows of the step and of the ridge fit: all of them, or disjoint. Shape (n,).
    step_rows: Rows
    fit_rows: Rows
    kernel_fits: dict[tuple[bytes, int], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Kernel fits to some of its rows that may be asked for again. Samples made of this one begin without any."""

    @property
    def shared(self) -> bool:
        """Whether the step and the ridge fit have rows in common."""
        return bool((self.step_rows & self.fit_rows).any())

    def parts(self, count: int) -> list[Rows]:
        """Divide the rows into so many parts; copies of a row are in one part."""
        return [self.copies.group % count == number for number in range(count)]

    def folds(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield rows for a step, and those rows of the fit that it has not seen: every row of the fit once."""
        if not self.shared:
            yield self.step_rows, self.fit_rows
            return
        for fold in self.parts(FOLDS):
            if (self.fit_rows & fold).any():
                yield self.step_rows & ~fold, self.fit_rows & fold

    def of(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """Return some of the rows; the copies of each are still those among all rows."""
        copies = Copies(self.copies.weight[rows], self.copies.mean[rows], self.copies.group[rows])
        sides = self.step_rows[rows], self.fit_rows[rows]
        z, y, weights = self.z[rows], self.y[rows], self.weights[rows]
        return replace(self, z=z, y=y, weights=weights, copies=copies, step_rows=sides[0], fit_rows=sides[1])

    def ridge(self) -> Ridge:
        """Factorise the ridge fit of y on z."""
        rows, width = self.z.shape
        return factorise(self._blocks(np.ones(rows, dtype=bool)), rows, width, self.y, self.weights)

    def scores(self, ridge: Ridge, rows: Rows, penalties: Host, mistaken: Mistaken | None = None) -> Scores:
        """Return leave-one-out errors of some of the rows in such a fit."""
        return leave_one_out(ridge, self._blocks(rows), self.y, self.weights, self.copies, penalties, mistaken)

    def _blocks(self, rows: Rows) -> IndexedBlocks:
        return lambda: iter([(self.z[rows], np.flatnonzero(rows))])


@dataclass(frozen=True)
class Training:
    """A table on its way into a fit."""

    settings: Settings
    table: Table
    #: The targets have this centre subtracted and are divided by this scale, which is zero for constant targets.
    #: Shape (k,).
    centre: Host
    scale: Host
    hashes: NDArray[np.uint64]  #: Hashes of the inputs, from which folds and subsamples are made. Shape (n,).
    #: Rows of the step and of the ridge fit, shape (n,).
    step_rows: Rows
    fit_rows: Rows
    unit: float  #: Unit of the table's weights: the weights that are given may be multiples of any number.

    def sample(self, count: int | None = None) -> Sample:
        """Gather about `count` of the distinct rows, by default `CHOICE_ROWS`.

        Where rows of step and fit are split, half of them are of each kind, or more of one if the other has too few.
        """
        count = CHOICE_ROWS if count is None else count
        split = self.settings.split > 0
        step, fit = self.step_rows, self.fit_rows
        if split:
            most = [max(count // 2, count - len(np.unique(self.hashes[other]))) for other in (fit, step)]
            rows = (step & self.among_first(step, most[0])) | (fit & self.among_first(fit, most[1]))
        else:
            rows = step & self.among_first(step, count)
        z, index = self.table.gathered(rows)
        y, weights = self.table.targets[index], self.table.weights[index]
        return Sample(z, y, weights, copies_of(self.hashes[index], y, weights), step[index], fit[index])

    def among_first(self, rows: Rows, count: int) -> Rows:
        """Mark about `count` of the distinct rows, at random but always the same ones."""
        keys = self.hashes * np.uint64(0x9E3779B97F4A7C15)  # not the order in which rows were split
        distinct = np.unique(keys[rows])
        return np.asarray(keys <= distinct[min(count, len(distinct)) - 1])
