"""The results of a theory: predictions, with the function that is learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import gaussian_rule
from gradstep.host import as_floats
from gradstep.problem import CONVENTION, Problem
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, in_words, number
from gradstep.theory.caveats import Caveat
from gradstep.theory.references import reference_lines

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

__all__ = ["QUANTITIES", "Curve", "Prediction", "limit_lines", "mean_curve", "mean_of"]

_Solution = TypeVar("_Solution", bound="DataclassInstance")

#: Quantities that a `Prediction` and a simulation's measurement share, by name.
QUANTITIES = (
    "test_error",
    "train_error",
    "train_loss",
    "alignment",
    "spike_strength",
    "bulk_variance",
    "degrees_of_freedom",
)


#: Largest projection that is drawn: beyond it one input in 16,000 falls.
_DRAWN = 4.0


@dataclass(frozen=True, eq=False)
class Curve:
    """The prediction as a function of the input's projection on the spike direction.

    Attributes
    ----------
    kappa : ndarray, shape (nodes,)
        Projection ``<x, v>``, increasing. (With an initial output of order one ``v`` is along the common part of the
        rows after the step; for large steps that is the gradient. In a mean over draws each has a ``v`` of its own.)
    values, slopes : ndarray, shape (nodes,)
        `learned` and `slope` before the turn.
    target : ndarray, shape (nodes,)
        Mean of the teacher given kappa.
    turn : tuple of float
        Overlaps of the direction of kappa with that of the values, and with what of the teacher's is orthogonal to it.
    """

    kappa: NDArray[np.float64]
    values: NDArray[np.float64]
    target: NDArray[np.float64]
    slopes: NDArray[np.float64]
    turn: tuple[float, float] = (1.0, 0.0)

    @property
    def learned(self) -> NDArray[np.float64]:
        """Mean of the trained network's output given kappa, shape (nodes,)."""
        return self._turned[0]

    @property
    def slope(self) -> NDArray[np.float64]:
        """Slope of the output, given kappa, along what of the teacher's direction is orthogonal to the spike."""
        return self._turned[1]

    @cached_property
    def _turned(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # Only when it is asked for: interpolation takes longer to load than a prediction takes.
        return (self.values, self.slopes) if self.turn[1] == 0 else self._seen_along(self.kappa, *self.turn)

    def along_teacher(self, t: ArrayLike, alignment: float) -> NDArray[np.float64]:
        """Return the mean of the trained network's output given the projection on the teacher's direction.

        The projections are `t`, and the overlap of the spike direction with the teacher is `alignment`.
        """
        sine = math.sqrt(max(1 - alignment**2, 0.0))
        found = Curve(self.kappa, self.learned, self.target, self.slope)
        return found._seen_along(np.asarray(as_floats("t", t), dtype=np.float64), alignment, sine)[0]

    def smooth(self, values: NDArray[np.float64], kappa: ArrayLike) -> NDArray[np.float64]:
        """Return values at the nodes as a smooth function at any projections: a cubic spline, constant beyond."""
        from scipy.interpolate import CubicSpline  # takes half of the time that every start takes

        nodes = self.kappa
        return np.asarray(CubicSpline(nodes, values)(np.clip(np.asarray(kappa, dtype=float), nodes[0], nodes[-1])))

    def turned(self, target: NDArray[np.float64], cosine: float, sine: float) -> Curve:
        """Return the curve along another direction in the plane of the spike and the teacher.

        At the same nodes `target`, shape (nodes,), is the mean of the teacher given the projection on that direction.
        The overlaps of that direction with the spike, and with what of the teacher's is orthogonal to the spike, are
        `cosine` and `sine`.
        """
        return Curve(self.kappa, self.learned, target, self.slope, (cosine, sine))

    def _seen_along(
        self, t: NDArray[np.float64], cosine: float, sine: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and slope of the output given the projection on a direction of these overlaps, see `turned`."""
        z, weight = gaussian_rule()
        along = t[..., None]
        # x has the components kappa along the spike and the rest, orthogonal to it, in the plane of the two directions.
        kappa, rest = cosine * along + sine * z, sine * along - cosine * z
        mean, slope = (mean_curve([(1.0, self.kappa, values)], kappa) for values in (self.values, self.slopes))
        output = mean + slope * rest
        return np.asarray(output @ weight), np.asarray(output @ (-z * weight))


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Summarised):
    """Deterministic prediction for one problem: means over draws, where draws differ in the limit too.

    Attributes
    ----------
    problem : Problem
    method : str
        Which equations were solved: ``"uniform equivalent"`` for the real network, ``"spiked random features"`` for the
        model of Cui et al. 2024, or the first with the rows and the bulk that were asked for.
    test_error : float
        ``E (f_hat - f*)^2`` over fresh inputs; label noise not included.
    train_error : float
        Mean square residual on the labels of the ridge fit.
    train_loss : float
        ``train_error + (ridge / n) |b|^2``.
    alignment : float
        Overlap of the spike direction with the teacher.
    spike_strength : float
        Operator norm of the rank-one part of the step, ``(eta / sqrt N) E[sigma'] |g| |a|``.
    bulk_variance : float
        Mean squared norm of a row off the spike direction (one before the step).
    degrees_of_freedom : float
        Trace of the hat matrix of the ridge fit (per input dimension in the proportional limit), less the few
        directions of the features' means, at most one each.
    residual : float
        True residual of the equations at the solution.
    iterations : int
        Newton steps taken (the most, of several solutions).
    curve : Curve
        Learned function along the spike.
    caveats : tuple of Caveat
        Effects that the equations leave out and that may matter here, the largest first. Empty if none is known, and
        for the model of Cui et al. 2024, which is compared with no network of these sizes.
    """

    problem: Problem
    method: str
    test_error: float
    train_error: float
    train_loss: float
    alignment: float
    spike_strength: float
    bulk_variance: float
    degrees_of_freedom: float
    residual: float
    iterations: int
    curve: Curve
    caveats: tuple[Caveat, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the convention spelled out."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("problem", "curve", "caveats")}
        values["curve"] = {name: getattr(self.curve, name).tolist() for name in ("kappa", "learned", "target", "slope")}
        values["caveats"] = [asdict(caveat) for caveat in self.caveats]
        return {"convention": CONVENTION, "problem": self.problem.to_dict(), **values}

    def learned(self, kappa: ArrayLike) -> NDArray[np.float64]:
        """Return the mean of the trained network's output given the projection of the input on the spike direction.

        Parameters
        ----------
        kappa : array_like
            Projections; any, and of any shape.

        Returns
        -------
        ndarray
            A smooth function through the values of `curve`, right to about 1e-5 of its size between them, and constant
            beyond the last of them, where one input in 1e13 falls.

        Raises
        ------
        InvalidInput
            On what is no array of real numbers.
        """
        return self.curve.smooth(self.curve.learned, as_floats("kappa", kappa))

    def plot(self, *, dark: bool = False, ax: Any = None) -> Figure:
        """Draw the learned function along the spike over the mean of the teacher there.

        Parameters
        ----------
        dark : bool, optional
            Light ink for a dark page.
        ax : matplotlib.axes.Axes, optional
            Where to draw, without the small print; by default in a new figure.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from gradstep.drawing import draw
        from gradstep.panels import Line, Panel
        from gradstep.picture import offer

        kappa = np.linspace(-_DRAWN, _DRAWN, 241)
        lines = [
            Line.of(kappa, self.learned(kappa), "network", "initial" if self.problem.eta.coefficient == 0 else "large"),
            Line.of(kappa, self.curve.smooth(self.curve.target, kappa), "teacher", "first kind", "dashed"),
        ]
        label = "projection of the input on the spike, κ"
        found = f"test error {self.test_error:.4g}, alignment {self.alignment:.3f}"
        notes = [str(self.problem), found, *(f"caveat: {caveat}" for caveat in self.caveats)]
        panel = Panel("", label, "mean output", lines=lines)
        return offer(draw([panel], note="\n".join(notes), dark=dark, ax=ax))

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        rows = [[in_words(name), number(getattr(self, name))] for name in QUANTITIES]
        notes = [*limit_lines([self]), *reference_lines([self]), *(f"caveat: {caveat}" for caveat in self.caveats)]
        return Summary(f"Prediction ({self.method})", [str(self.problem)], Table(["quantity", "theory"], rows), notes)


def limit_lines(predictions: Iterable[Prediction]) -> list[str]:
    """Say which number of a table means something else in the proportional limit, if a problem is in it."""
    limits = any(math.isinf(each.problem.d) for each in predictions)
    return ["degrees of freedom are divided by d where it is infinite"] if limits else []


def mean_of(parts: Sequence[tuple[float, _Solution]], means: Iterable[str], largest: Iterable[str]) -> _Solution:
    """Return the middle one of several solutions, with means and largest values of all.

    Each solution comes after its probability. `means` are the names of the fields to average, and `largest` those of
    the fields of which the largest value counts.
    """
    found: dict[str, Any] = {name: sum(share * getattr(part, name) for share, part in parts) for name in means}
    found |= {name: max(getattr(part, name) for _, part in parts) for name in largest}
    return replace(parts[len(parts) // 2][1], **found)


def mean_curve(
    parts: Iterable[tuple[float, NDArray[np.float64], NDArray[np.float64]]], kappa: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean of functions at the common nodes `kappa`, shape (nodes,).

    Each function comes as its probability, its own nodes (increasing), and its values there. Beyond its own nodes it is
    constant.
    """
    from scipy.interpolate import PchipInterpolator  # takes half of the time that every start takes

    mean = np.zeros_like(kappa)
    for share, nodes, values in parts:
        # The slopes are harmonic means. The reciprocal of a tiny one overflows to infinity, and the mean is then zero.
        with np.errstate(over="ignore"):
            curve = PchipInterpolator(nodes, values)
        mean += share * curve(np.clip(kappa, nodes[0], nodes[-1]))
    return mean
