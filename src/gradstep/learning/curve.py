"""The result: errors for every number of samples and every penalty, with what is known about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from gradstep.checks import is_whole, one_of, plain_number, real
from gradstep.errors import InvalidInput, optional_module
from gradstep.plain import plain
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LearningCurve", "combined", "place_of_size"]

_CONVENTION = "sum over rows of (y - phi.b)^2 + ridge |b|^2, no intercept; errors are means over rows of (y - phi.b)^2"
_WITHOUT_NOISE = ", that of the test without the variance of the label noise"

Host = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve(Summarised):
    """Expected errors of ridge regression for A numbers of samples and B penalties, as `learning_curve` returns them.

    All arrays are read-only. Errors are nan where there is no estimate, which a caveat explains.

    Parameters
    ----------
    n : ndarray of int, shape (A,)
        Numbers of training rows.
    ridge : ndarray, shape (B,)
        Penalties.
    test_error : ndarray, shape (A, B)
        Expected squared error on a new row with its noise, sum over outputs. Less `noise_variance` where that is known.
    test_standard_error : ndarray, shape (A, B)
        Standard error of that estimate: how much it would differ from pool to pool.
    test_covariance : ndarray, shape (A, B, A, B)
        Covariance of the estimates of the test error: all of them rest on the same rows.
    training_error : ndarray, shape (A, B)
        Expected squared error on the rows of the fit.
    training_standard_error : ndarray, shape (A, B)
        Of that estimate.
    classification_error : ndarray, shape (A, B), or None
        Expected share of wrong classes, by the sign of one output or the largest of several; for targets that are plus
        and minus one, or one-hot rows. It is nan for more samples than the pool has rows.
    classification_standard_error : ndarray, shape (A, B), or None
        What the choice of the rows on which the fits are tested contributes to its standard error.
    rows, features, outputs : int
        Size of the pool.
    caveats : tuple of str
        What to know before relying on the numbers.
    noise_variance : float
        Variance of the label noise that `test_error` leaves out. It is zero for rows whose noise is not known.
    test_freedom, training_freedom : ndarray, shape (A, B), or None
        Degrees of freedom of the standard errors: how well they are known. None where they are known well.
    """

    n: NDArray[np.int64]
    ridge: Host
    test_error: Host
    test_standard_error: Host
    test_covariance: Host
    training_error: Host
    training_standard_error: Host
    classification_error: Host | None
    classification_standard_error: Host | None
    rows: int
    features: int
    outputs: int
    caveats: tuple[str, ...] = ()
    noise_variance: float = 0.0
    test_freedom: Host | None = None
    training_freedom: Host | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def convention(self) -> str:
        """The fit and the errors in one line."""
        return _CONVENTION + (_WITHOUT_NOISE if self.noise_variance else "")

    @property
    def best(self) -> NDArray[np.intp]:
        """Place of the penalty with the least test error at each n, shape (A,); zero where there is no estimate."""
        return np.asarray(np.argmin(np.where(np.isnan(self.test_error), math.inf, self.test_error), axis=1))

    @property
    def best_ridge(self) -> Host:
        """Penalty with the least test error at each n, shape (A,); nan where there is no estimate."""
        known = ~np.isnan(self.best_test_error)
        return np.where(known, self.ridge[self.best], math.nan)

    @property
    def best_test_error(self) -> Host:
        """Least test error at each n, shape (A,)."""
        return np.asarray(self.test_error[np.arange(len(self.n)), self.best])

    def interval(self, level: float = 0.95, of: str = "test") -> tuple[Host, Host]:
        """Return the ends of a confidence interval of the test or the training error, each of shape (A, B).

        Errors are positive, and vary by factors rather than by amounts: the interval is symmetric in the logarithm. It
        is as wide as Student's law with the degrees of freedom of the standard error wants it: few rows with errors far
        above the others make a standard error uncertain.

        Parameters
        ----------
        level : float
            Probability that it holds the true error, between 0 and 1.
        of : {"test", "training"}
            Which error.

        Returns
        -------
        low, high : ndarray, shape (A, B)

        Raises
        ------
        InvalidInput
            If the level is not between 0 and 1, or the error is another.
        """
        share = real("level", level, "a number between 0 and 1", lambda value: 0 < value < 1)
        one_of("of", of, ("test", "training"))
        error, deviation = getattr(self, f"{of}_error"), getattr(self, f"{of}_standard_error")
        freedom = getattr(self, f"{of}_freedom")
        width = ndtri((1 + share) / 2) if freedom is None else stdtrit(freedom, (1 + share) / 2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            factor = np.exp(width * deviation / error)
            return error / factor, error * factor

    def change(self, before: int, after: int) -> tuple[float, float]:
        """Return by how much the test error changes from one number of samples to another, with a standard error.

        Each is taken at its best penalty. Both rest on the same rows, so that their difference is known better than
        either of them.

        Parameters
        ----------
        before, after : int
            Two of the numbers of samples in `n`.

        Returns
        -------
        difference : float
            Negative where more samples help.
        standard_error : float

        Raises
        ------
        InvalidInput
            If a number is not one of those in `n`.
        """
        first, last = place_of_size(self, "before", before), place_of_size(self, "after", after)
        return combined(self, [((first, int(self.best[first])), -1.0), ((last, int(self.best[last])), 1.0)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, fit for JSON (a value that is not a number becomes None)."""
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        found: dict[str, Any] = plain({**shown, "convention": self.convention})
        return found

    def to_frame(self) -> Any:
        """Return a pandas table with a row for each pair of n and ridge.

        Raises
        ------
        InvalidInput
            If pandas is not installed.
        """
        shape = self.test_error.shape
        low, high = self.interval()
        columns = {
            "n": np.broadcast_to(self.n[:, None], shape),
            "ridge": np.broadcast_to(self.ridge, shape),
            "test_error": self.test_error,
            "test_standard_error": self.test_standard_error,
            "test_low": low,
            "test_high": high,
            "training_error": self.training_error,
            "training_standard_error": self.training_standard_error,
            "classification_error": self.classification_error,
            "classification_standard_error": self.classification_standard_error,
        }
        return optional_module("pandas", "to_frame", "sweeps").DataFrame(
            {name: np.ravel(values) for name, values in columns.items() if values is not None}
        )

    def plot(self, *, ax: Any = None) -> Figure:
        """Draw the test and training error against the number of samples and, if there are several, the penalty.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of them, optional
            Where to draw: two with several penalties, otherwise one. By default in a new figure.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from gradstep.learning.figure import draw_learning_curve
        from gradstep.picture import offer

        return offer(draw_learning_curve(self, ax))

    def table(self) -> Table:
        """Return a row of text for each n, at its best penalty."""
        header = ["n", "best ridge", "test error", "standard error", "training error"]
        classes = self.classification_error is not None
        rows = []
        for i, j in enumerate(self.best):
            numbers = [self.best_ridge[i], self.test_error[i, j]]
            row = [str(self.n[i]), *(number(float(value), 4) for value in numbers)]
            row += [number(float(self.test_standard_error[i, j]), 2), number(float(self.training_error[i, j]), 4)]
            if self.classification_error is not None:
                row.append(number(float(self.classification_error[i, j]), 3))
            rows.append(row)
        return Table([*header, "wrong classes"] if classes else header, rows)

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        outputs = "one output" if self.outputs == 1 else f"{self.outputs} outputs"
        penalties = "one penalty" if len(self.ridge) == 1 else f"{len(self.ridge)} penalties"
        size = f"{self.rows} rows of {self.features} features"
        title = f"Learning curve of ridge regression from {size}, {outputs}, {penalties}"
        return Summary(title, [f"convention: {self.convention}"], self.table(), [*self._more_rows(), *self.caveats])

    def _more_rows(self) -> list[str]:
        """Say what the largest number of samples brings, where the curve reaches beyond the pool."""
        largest, before = int(self.n.max()), self.n[self.n <= self.rows]
        if largest <= self.rows or not len(before):
            return []
        reference = int(before.max())
        difference, error = self.change(reference, largest)
        if math.isnan(difference):
            return []
        return [f"from n = {reference} to {largest}: the test error changes by {difference:+.3g} +- {error:.2g}"]


def place_of_size(curve: LearningCurve, field: str, n: int) -> int:
    """Return the place of a number of samples among those of a curve; `field` is its name in the error."""
    known, number = curve.n.tolist(), plain_number(n)
    if not is_whole(number) or number not in known:
        raise InvalidInput(field, n, f"one of the numbers of rows of the curve, {known}")
    return int(known.index(number))


def combined(curve: LearningCurve, factors: Sequence[tuple[tuple[int, int], float]]) -> tuple[float, float]:
    """Return a sum of test errors, each at a place in the table and times a factor, with its standard error."""
    value = sum(factor * float(curve.test_error[place]) for place, factor in factors)
    pairs = product(factors, repeat=2)
    variance = sum(x * y * float(curve.test_covariance[(*a, *b)]) for (a, x), (b, y) in pairs)
    return value, math.sqrt(max(variance, 0.0))
