"""Where a deviation of theory comes from: the law of the rows after the step, or the equivalence of the fit on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from gradstep.overlay import Overlay, mean_and_error

__all__ = ["Sources"]


@dataclass(frozen=True, eq=False)
class Sources:
    """The two parts of the difference between networks and theory.

    Between them lie the errors expected of ridge fits on the first layers that were drawn, which take nothing from the
    theory of the rows.

    Parameters
    ----------
    rows : Overlay
        Theory and the expected errors on the drawn layers. They differ by what the laws of the rows after the step, and
        of their features, leave out.
    fit : Overlay
        The expected errors, in the place of theory, and the errors of the fits that were drawn, on the same layers.
        They differ by what the equivalence of the fit leaves out, on either side. Its standard error is that of the
        mean of the differences.
    """

    rows: Overlay
    fit: Overlay

    @classmethod
    def of(cls, theory: ArrayLike, expected: ArrayLike, drawn: ArrayLike, axis: int = -1) -> Self:
        """Split the difference between networks and theory.

        Theory is nan where there is none. Expected and measured values are of the same networks, one for each along the
        axis.
        """
        expected, drawn = np.asarray(expected, dtype=np.float64), np.asarray(drawn, dtype=np.float64)
        # Both parts add up to the whole difference only if they are about the same networks.
        expected, drawn = (np.where(np.isnan(expected + drawn), np.nan, values) for values in (expected, drawn))
        _, error, seeds = mean_and_error(drawn - expected, axis)
        before, after = (mean_and_error(values, axis)[0] for values in (expected, drawn))
        return cls(Overlay.of(theory, expected, axis), Overlay(before, after, error, seeds))

    def columns(self) -> dict[str, Any]:
        """Return the difference of each part as a share of the theory, its standard error and its z.

        The columns are ``rows_difference``, ``rows_error``, ``rows_z``, ``fit_difference``, ``fit_error`` and
        ``fit_z``, each of the shape of the theory. Differences and errors are nan where the theory is zero.
        """
        size = np.abs(np.asarray(self.rows.theory, dtype=np.float64))
        size = np.where(size > 0, size, np.nan)
        return {
            f"{name}_{key}": value
            for name, part in (("rows", self.rows), ("fit", self.fit))
            for key, value in (
                ("difference", (part.difference / size)[()]),
                ("error", (part.standard_error / size)[()]),
                ("z", part.z),
            )
        }
