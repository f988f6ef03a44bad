r"""What a fitted network has learned: the directions along which its output varies, and the columns in them.

The average gradient outer product :math:`M=E\,\nabla f\,\nabla f^\top` over rows, in standardised columns, has an
eigenvector for each direction along which the output varies, with the variation as eigenvalue. Its diagonal tells how
much the output varies with each column while the others stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.link import Bins, Link

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Learned", "LearnedLink"]

Host = NDArray[np.float64]

#: Directions below this share of the variation are not kept, and their number at most.
_LEAST, _MOST = 1e-3, 20
#: Share of a direction's squared weights from which it is said to be one column, and what is worth a word at all.
_ONE_COLUMN, _WORTH = 0.9, 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Learned:
    """Directions and columns of a fitted network.

    Parameters
    ----------
    directions : ndarray, shape (r, p)
        Orthonormal, in the p standardised columns of numbers that the network sees; at most twenty, by falling share.
    shares : ndarray, shape (r,)
        Part of the mean squared gradient that lies along each.
    effective : float
        Effective number of directions, the inverse of the sum of all squared shares (not only of those kept); zero for
        a network that is constant.
    variation : ndarray, shape (p,)
        Part of the mean squared gradient along each column; it adds up to one.
    names : tuple of str
        Names of these columns.
    columns : tuple of str
        Names of the columns of the table.
    source : ndarray of int, shape (p,)
        For each column that the network sees, the place of the one of the table that it comes from.
    """

    directions: Host
    shares: Host
    effective: float
    variation: Host
    names: tuple[str, ...]
    columns: tuple[str, ...]
    source: NDArray[np.intp]

    @classmethod
    def of(cls, gradients: Host, names: Sequence[str], columns: Sequence[str], source: NDArray[np.intp]) -> Self:
        """Find what is in gradients, whose outer products shall be added, shape (rows, p)."""
        rows, p = gradients.shape
        total = float(np.sum(gradients**2))
        facts = tuple(names), tuple(columns), source
        if not total > 0 or not np.isfinite(total):
            return cls(np.zeros((0, p)), np.zeros(0), 0.0, np.zeros(p), *facts)
        if rows < p:
            values, vectors = np.linalg.eigh(gradients @ gradients.T / total)
            vectors = gradients.T @ vectors / np.sqrt(total * np.maximum(values, 1e-300))
        else:
            values, vectors = np.linalg.eigh(gradients.T @ gradients / total)
        kept = np.arange(len(values))[::-1][:_MOST]
        kept = kept[values[kept] >= _LEAST]
        directions = vectors[:, kept].T
        largest = directions[np.arange(len(kept)), np.abs(directions).argmax(axis=1)]
        variation = np.sum(gradients**2, axis=0) / total
        return cls(directions * np.sign(largest)[:, None], values[kept], 1 / float(values @ values), variation, *facts)

    @property
    def importances(self) -> Host:
        """Part of the mean squared gradient along each column of the table, one-hot columns and gaps together."""
        sums = np.zeros(len(self.columns))
        np.add.at(sums, self.source, self.variation)
        return sums

    def __repr__(self) -> str:
        if not len(self.shares):
            return "nothing: the network is constant"
        number = round(self.effective)
        lines = [f"{self.headline} ({self.effective:.2f} effective)"]
        for place, share in enumerate(self.shares):
            if share > _WORTH and place < max(number, 1) + 1:
                lines.append(f"direction {place}  {share:6.1%}  {self.described(place)}")
        lines.append("columns      " + ", ".join(f"{name} {part:.1%}" for name, part in self.leading_columns()))
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """How many directions, in words, and the column if there is only one."""
        if not len(self.shares):
            return "no direction"
        number, leading = round(self.effective), self.directions[0] ** 2
        if number > 1:
            return f"about {number} directions"
        column = f", column {self.names[int(leading.argmax())]}" if leading.max() > _ONE_COLUMN else ""
        return f"one direction{column}"

    def described(self, place: int) -> str:
        """Return one of the directions as a sum of its leading columns."""
        direction = self.directions[place]
        order = np.argsort(-np.abs(direction), kind="stable")[:4]
        return " ".join(f"{direction[k]:+.2f} {self.names[k]}" for k in order if direction[k] ** 2 > _WORTH)

    def leading_columns(self, most: int = 6) -> list[tuple[str, float]]:
        """Return the columns of the table with the largest importances, and these."""
        importances = self.importances
        order = np.argsort(-importances, kind="stable")[:most]
        return [(self.columns[k], float(importances[k])) for k in order if importances[k] > _WORTH]

    def plot(self, *, ax: Any = None) -> Figure:
        """Draw the importances of the columns, and the shares of the directions.

        They are drawn in an array `ax` of two of Matplotlib's axes, by default in a new figure.
        """
        from gradstep.estimators.figures import draw_learned
        from gradstep.picture import offer

        return offer(draw_learned(self, ax))


@dataclass(frozen=True, eq=False, repr=False)
class LearnedLink:
    """The targets and the network along one learned direction.

    Parameters
    ----------
    label : str
        The direction in words.
    share : float
        Its share of the mean squared gradient.
    explained : float
        Part of the variance of the targets that a function of this projection alone explains, on the rows that were
        given. On those of the fit it is too large, because the direction was chosen on them.
    link : Link
        That function, of the normal scores of the projections.
    bins : Bins
        Targets and outputs of the network, averaged along the projection, which stands in the place of its normal
        scores. All are standardised.
    target : str
        What the target is, in words.
    """

    label: str
    share: float
    explained: float
    link: Link
    bins: Bins
    target: str

    def __repr__(self) -> str:
        return (
            f"along {self.label} ({self.share:.1%} of the mean squared gradient): a function of this projection alone "
            f"explains {max(self.explained, 0):.1%} of the variance of {self.target} on these rows"
        )

    def plot(self, *, ax: Any = None) -> Figure:
        """Draw the targets and the network along the direction.

        They are drawn in Matplotlib's axes `ax`, by default in a new figure.
        """
        from gradstep.estimators.figures import draw_link
        from gradstep.picture import offer

        return offer(draw_link(self, ax))
