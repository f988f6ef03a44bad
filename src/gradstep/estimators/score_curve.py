r"""Learning curves in the terms of scikit-learn's scores: R^2, and the share of right classes.

`gradstep.learning_curve` is about a ridge fit on features that know nothing of the targets. The features of a fit have
been learned from the same rows, so that its level is too low: it only gives the dependence on the number of rows. The
level is that of M rows with networks of which neither the step nor the readout has used the row, for each penalty:

.. math::
   \text{error}(n,\Lambda)=\text{level}(\Lambda)\,\frac{\text{curve}(n,\Lambda)}{\text{curve}(M,\Lambda)}\,
   \Bigl(1+s\,\Bigl(\frac Mn-\frac M{m}\Bigr)\Bigr).

The last factor is what rows are worth to the step. Its error is of the order of one over the number of its rows. The
step behind the level has m of them, a step on half the rows has more error, and this difference gives s.

The readout has an intercept without a penalty, and a score compares an error with that of the mean. The curves of
`gradstep.learning_curve` have neither. Both come from the way in which it is asked:

- Features are centred and get a column of a large constant, whose coefficient costs next to nothing.
- One more penalty is so large that nothing is fitted. The error there is the second moment of the centred targets, and
  its covariance with all other errors gives the standard error of their ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import positive
from gradstep.errors import InvalidInput
from gradstep.estimators.rows import Sample
from gradstep.learning import LearningCurve, learning_curve
from gradstep.learning.curve import combined, place_of_size
from gradstep.learning.given import checked_sizes
from gradstep.plain import plain
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LeftOut", "Levels", "Score", "ScoreCurve", "score_curve"]

Host = NDArray[np.float64]

#: Shares of the rows there are that make a curve by default.
_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
#: Penalties by default, relative to that of the fit. The error near its minimum is flat on this scale.
_PENALTIES = np.logspace(-4 / 3, 4 / 3, 5)
FEWEST_ROWS = 10
#: The squares of the constant, summed over the smallest number of samples, are at least one over this part times a
#: penalty and the squares of a row: few rows with next to no penalty are fitted by their features otherwise.
_FREE = 0.01
#: Penalty of no fit, over the sum of all squares of features.
_NOTHING_FITTED = 1e6
#: Part of its rows on which the step is taken again, to see what rows are worth to it.
_HALF = 0.5
#: Smallest penalty over the sum of all squares of features.
_LEAST = 4e-12
#: Features and targets whose deviations from their mean are smaller than this, over their size, are constant.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Score:
    """A score with its standard error."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "unknown"
        error = self.standard_error
        digits = min(max(2, -math.floor(math.log10(error))), 6) if error > 0 else 2
        return f"{self.value:.{digits}f} +- {error:.{digits}f}"


@dataclass(frozen=True, eq=False, repr=False)
class ScoreCurve(Summarised):
    r"""What a model would score with other numbers of rows, A of them, and other penalties, B of them.

    :math:`R^2=1-\text{error}/\text{variance of the targets}`, the mean over outputs, as ``score`` of a regressor
    has it. Standard errors are about another table of the same size from the same population.

    Parameters
    ----------
    curve : LearningCurve
        Squared errors of all outputs. Its last penalty is so large that nothing is fitted.
    variance : float or None
        Sum over outputs of the variance of the targets; None where the last penalty of `curve` measures it.
    classes : bool
        Whether the model is a classifier, with an accuracy.
    squares : ndarray, shape (M,)
        Squared error of each row, sum over outputs, by a fit to all others with the penalty that is best for these.
    weights : ndarray, shape (M,)
    chosen : float
        Penalty of the model.
    """

    curve: LearningCurve
    variance: float | None
    classes: bool
    squares: Host
    weights: Host
    chosen: float

    @property
    def n(self) -> NDArray[np.int64]:
        """Numbers of rows, shape (A,); with rows set aside for the step, those of the readout."""
        return self.curve.n

    @property
    def ridge(self) -> Host:
        """Penalties, shape (B,)."""
        return self.curve.ridge[:-1]

    @property
    def rows(self) -> int:
        """Rows on which the curve rests."""
        return self.curve.rows

    @property
    def r2(self) -> Host:
        """R^2 of new rows, shape (A, B), of the codes +1 and -1 for a classifier; nan where there is no estimate."""
        return 1 - self.curve.test_error[:, :-1] / self._reference

    @property
    def r2_standard_error(self) -> Host:
        """Its standard error, shape (A, B)."""
        places = np.ndindex(self.r2.shape)
        return np.reshape([self._combined([(place, -1.0)]).standard_error for place in places], self.r2.shape)

    @property
    def accuracy(self) -> Host | None:
        """Share of right classes, shape (A, B); nan for more rows than there are. None for a regressor."""
        wrong = self.curve.classification_error
        return None if wrong is None else 1 - wrong[:, :-1]

    @property
    def best(self) -> NDArray[np.intp]:
        """Place of the penalty with the highest R^2 at each n, shape (A,); zero where there is no estimate."""
        return np.asarray(np.argmax(np.where(np.isnan(self.r2), -np.inf, self.r2), axis=1))

    @property
    def best_ridge(self) -> Host:
        """That penalty, shape (A,); nan where there is no estimate."""
        known = ~np.isnan(self.r2[np.arange(len(self.n)), self.best])
        return np.where(known, self.ridge[self.best], math.nan)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences about what to know before relying on the numbers."""
        edges = (self.ridge.min(), self.ridge.max()) if len(self.ridge) > 1 else ()
        ends = [int(n) for n, best in zip(self.n, self.best_ridge, strict=True) if best in edges]
        notes = [note for note in self.curve.caveats if not note.startswith("More than")]
        if ends:
            notes.append(f"At n = {', '.join(map(str, ends))} the best penalty is the last one tried, or beyond.")
        return tuple(notes)

    def at(self, n: int) -> Score:
        """Return R^2 with one of the numbers of rows in `n`, at the best penalty for it.

        Raises `InvalidInput` if the curve does not have this number.
        """
        place = self._place("n", n)
        return Score(float(self.r2[place]), self._combined([(place, -1.0)]).standard_error)

    def change(self, before: int, after: int) -> Score:
        """Return by how much R^2 changes from one of the numbers of rows in `n` to another, each at its best penalty.

        Both rest on the same rows, so that their difference is known better than either of them. Raises `InvalidInput`
        if the curve does not have one of them.
        """
        return self._combined([(self._place("before", before), 1.0), (self._place("after", after), -1.0)])

    @property
    def twice(self) -> Score:
        """R^2 with twice the rows there are.

        Raises `InvalidInput` if the curve does not have this number.
        """
        return self.at(2 * self.rows)

    def gain(self, over: ScoreCurve) -> Score:
        """Return by how much R^2 is higher than that of another model of the same table, with the rows there are.

        Both are left-out errors of the same rows, each at its best penalty; the standard error is that of their
        difference, row by row. Raises `InvalidInput` if `over` is about other rows.
        """
        if not isinstance(over, ScoreCurve):
            raise InvalidInput("over", over, "the curve of another model, as its `learning_curve` returns it")
        if len(over.squares) != len(self.squares) or not np.array_equal(over.weights, self.weights):
            raise InvalidInput("over", f"{len(over.squares)} rows", f"the curve of the same {len(self.squares)} rows")
        share = self.weights / self.weights.sum()
        difference = (over.squares - self.squares) / self._reference
        mean = float(share @ difference)
        return Score(mean, float(np.linalg.norm(share * (difference - mean))))

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, fit for JSON (a value that is not a number becomes None)."""
        names = ("n", "ridge", "rows", "r2", "r2_standard_error", "accuracy", "best_ridge", "chosen", "caveats")
        shown = {name: getattr(self, name) for name in names}
        found: dict[str, Any] = plain(shown)
        return found

    def to_frame(self) -> Any:
        """Return a pandas table with a row for each pair of n and ridge.

        Raises `InvalidInput` if pandas is not installed.
        """
        frame = self.curve.to_frame()
        frame = frame[frame["ridge"] < self.curve.ridge[-1]].reset_index(drop=True)
        frame.insert(2, "r2", self.r2.ravel())
        frame.insert(3, "r2_standard_error", self.r2_standard_error.ravel())
        return frame

    def plot(self, *, ax: Any = None) -> Figure:
        """Draw R^2 against the number of rows and, if there are several, the penalty.

        They are drawn in Matplotlib's axes `ax`, an array of two for several penalties, by default in a new figure.
        """
        from gradstep.estimators.figures import draw_scores
        from gradstep.picture import offer

        return offer(draw_scores({"": self}, ax))

    def table(self) -> Table:
        """Return a row of text for each n, at its best penalty."""
        rows = []
        for place, (n, best) in enumerate(zip(self.n, self.best, strict=True)):
            row = [str(n), number(float(self.best_ridge[place]), 3), str(self.at(int(n)))]
            if self.accuracy is not None:
                found = float(self.accuracy[place, best])
                row.append(number(found, 3) if math.isfinite(found) else "-")
            rows.append(row)
        header = ["n", "best ridge", "R^2 of new rows"]
        return Table([*header, "accuracy"] if self.accuracy is not None else header, rows)

    def more_rows(self) -> str:
        """Say in one sentence what more rows would bring; empty for a curve that ends with those there are."""
        largest, known = int(self.n.max()), self.n[self.n <= self.rows]
        if largest <= self.rows or not len(known):
            return ""
        now, later = int(known.max()), self.at(largest)
        many = f"twice the {self.rows} rows" if largest == 2 * self.rows else f"{largest} rows"
        of = " of the codes" if self.classes else ""
        if not math.isfinite(later.value):
            return f"with {many}: R^2{of} unknown, this table does not tell"
        change = self.change(now, largest)
        return (
            f"with {many}: R^2{of} {later}, from {self.at(now)} with {now}; the change is {change}, "
            f"best ridge {number(float(self.best_ridge[self.n == largest][0]), 3)}"
        )

    def summary(self) -> Summary:
        """Return the scores at the best penalties, and what more rows would bring."""
        about = ["R^2 is that of the codes +1 and -1 of the classes"] if self.classes else []
        sentence = self.more_rows()
        title = f"Learning curve from {self.rows} rows of {self.curve.features - 1} features"
        return Summary(title, about, self.table(), [*([sentence] if sentence else []), *self.caveats])

    @property
    def _reference(self) -> float:
        return float(self.curve.test_error[0, -1]) if self.variance is None else self.variance

    def _place(self, field: str, n: int) -> tuple[int, int]:
        place = place_of_size(self.curve, field, n)
        return place, int(self.best[place])

    def _combined(self, factors: list[tuple[tuple[int, int], float]]) -> Score:
        """Return a sum of errors times factors, over the variance of the targets, with its standard error."""
        reference = self._reference
        value = combined(self.curve, factors)[0] / reference
        slopes = [(place, factor / reference) for place, factor in factors]
        if self.variance is None:
            slopes.append(((0, len(self.ridge)), -value / reference))
        error = combined(self.curve, slopes)[1]
        return Score(value, error if math.isfinite(error) else math.nan)


class LeftOut(NamedTuple):
    """Errors of rows left out: squares, the sum over outputs, and one where another class wins; shape (M, penalties).

    The latter is without meaning for numbers.
    """

    squares: Host
    wrong: Host


class Levels(NamedTuple):
    """Errors with a step on a `share` of its rows, near one, and on half of them (None without a step)."""

    share: float
    most: LeftOut
    half: LeftOut | None


def score_curve(
    pool: Sample,
    levels: Callable[[Host], Levels],
    chosen: float,
    *,
    classes: bool,
    n: ArrayLike | None = None,
    ridge: ArrayLike | None = None,
    middle: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScoreCurve:
    """Estimate the curve of a model whose penalty is `chosen`.

    Numbers of rows, penalties, progress and errors raised are those of its `learning_curve`.

    The pool has the rows of the readout with the features of the fit; their targets are standardised numbers, or codes
    of classes. ``levels(penalties)`` returns errors of rows that are left out. Penalties are by default around
    `middle`, which is by default the model's own.
    """
    rows, weights = len(pool.y), pool.weights
    if rows < FEWEST_ROWS:
        raise InvalidInput("X", f"{rows} rows", f"at least {FEWEST_ROWS} rows for a learning curve")
    share = weights / weights.sum()
    mean = share @ pool.y
    if not float((share @ (pool.y - mean) ** 2).sum()) > _ROUNDING**2 * float((share @ pool.y**2).sum()):
        raise InvalidInput("y", "targets that do not vary", "targets with something to learn")
    sizes = np.unique(np.round(np.array(_SHARES) * rows)) if n is None else checked_sizes(n, rows)
    features, mass = pool.z - share @ pool.z, float(weights.mean())
    if not float((share @ features**2).sum()) > _ROUNDING**2 * float((share @ pool.z**2).sum()):
        raise InvalidInput("X", "inputs that do not vary", "inputs from which something can be learned")
    penalties = np.unique(positive("ridge", (middle or chosen) * _PENALTIES if ridge is None else ridge))
    squares = float((weights @ features**2).sum())
    constant = math.sqrt((penalties.max() + squares / rows) / (_FREE * sizes.min() * mass))
    total = squares + rows * mass * constant**2
    if ridge is None:
        penalties = np.unique(np.maximum(penalties, _LEAST * total * float(sizes.max()) / rows))
    penalties = np.append(penalties, _NOTHING_FITTED * total)
    codes = classes and pool.y.shape[1] > 1
    targets = (pool.y + 1) / 2 if codes else pool.y if classes else pool.y - mean
    curve = learning_curve(
        np.column_stack([features, np.full(rows, constant)]),
        targets,
        n=np.append(sizes, rows),
        ridge=penalties,
        sample_weight=None if (weights == 1).all() else weights,
        progress=progress,
    )
    found = levels(penalties)
    unit = 0.25 if codes else 1.0  # of squares of zeros and ones, in those of +1 and -1
    errors = unit * found.most.squares
    # That of the population: of M rows the squares about their own mean are M - 1 variances, and copies are one row.
    unbiased = 1 / (1 - pool.copies.squared_shares(share))
    variance = unbiased * float((share @ (targets - share @ targets) ** 2).sum())
    best = errors[:, int(np.argmin(share @ errors[:, :-1]))]
    told = _told(_levelled(curve, found, share, unit, unbiased), variance)
    return ScoreCurve(told, variance if classes else None, classes, best, weights, chosen)


def _told(curve: LearningCurve, variance: float) -> LearningCurve:
    """Return the curve without the errors that are known worse than the one of predicting the mean, the `variance`."""
    refused = curve.test_standard_error > variance
    refused[:, -1] = False
    if not refused.any():
        return curve
    either = refused[:, :, None, None] | refused
    wrong = curve.classification_error
    left = (~np.isnan(curve.test_error) & ~refused)[:, :-1].any(axis=1)
    pairs = "pairs of n and ridge have" if refused.sum() > 1 else "pair of n and ridge has"
    note = f"{refused.sum()} {pairs} no estimate: its standard error would be above the error of predicting the mean."
    if lost := curve.n[refused.any(axis=1) & ~left].tolist():
        known = ", ".join(map(str, curve.n[left].tolist()))
        note += f" At n = {', '.join(map(str, lost))} no ridge has one; "
        note += f"there is one at n = {known}." if known else "that takes a table of more rows."
    return replace(
        curve,
        test_error=np.where(refused, math.nan, curve.test_error),
        test_standard_error=np.where(refused, math.nan, curve.test_standard_error),
        test_covariance=np.where(either, math.nan, curve.test_covariance),
        classification_error=None if wrong is None else np.where(refused, math.nan, wrong),
        caveats=(*curve.caveats, note),
    )


def _levelled(curve: LearningCurve, levels: Levels, share: Host, unit: float, unbiased: float) -> LearningCurve:
    """Return the curve of the whole model, from that of the fit's features, of which the last size is that of the pool.

    The shares of the rows, shape (M,), add up to one; `unit` is that of the squares in `levels`. The variance of the
    population is that of the rows times `unbiased`.
    """
    squares = unit * levels.most.squares
    level = share @ squares
    level[-1] = unbiased * curve.test_error[-1, -1]  # no fit at all, not even of the mean: the variance
    ratio = level / curve.test_error[-1]
    place = int(np.argmin(level[:-1]))
    more = curve.rows / curve.n[:, None] - 1 / levels.share
    slope = uncertain = wrong_slope = 0.0
    if levels.half is not None:
        span = 1 / _HALF - 1 / levels.share
        difference = (unit * levels.half.squares - squares)[:, place] / (span * level[place])
        slope = max(float(share @ difference), 0.0)
        uncertain = float(np.linalg.norm(share * (difference - share @ difference)))
        wrong_slope = max(float(share @ (levels.half.wrong - levels.most.wrong)[:, place]) / span, 0.0)
    # Linear, or the exponential that begins like it and stays positive.
    growth = np.where(more > 0, 1 + slope * more, np.exp(slope * np.minimum(more, 0.0)))
    # Without a fit the step makes no difference.
    growth = np.column_stack([np.tile(growth, len(level) - 1), np.ones(len(growth))])
    # A poor step costs no more than all that can be explained.
    known = curve.test_error * ratio
    growth = np.minimum(growth, np.maximum(level[-1] / known, 1.0))
    error = known * growth
    step = error * more * uncertain
    step[:, -1] = 0.0
    factor = ratio * growth
    covariance = curve.test_covariance * factor[:, :, None, None] * factor + step[:, :, None, None] * step
    deviation = np.sqrt(np.einsum("abab->ab", covariance))
    wrong = curve.classification_error
    if wrong is not None:
        wrong = np.maximum(share @ levels.most.wrong + wrong - wrong[-1] + wrong_slope * more, 0.0)[:-1]
    return replace(
        curve,
        n=curve.n[:-1],
        test_error=error[:-1],
        test_standard_error=deviation[:-1],
        test_covariance=covariance[:-1, :, :-1],
        training_error=curve.training_error[:-1],
        training_standard_error=curve.training_standard_error[:-1],
        classification_error=wrong,
        classification_standard_error=_all_but_the_last(curve.classification_standard_error),
        test_freedom=_all_but_the_last(curve.test_freedom),
        training_freedom=_all_but_the_last(curve.training_freedom),
    )


def _all_but_the_last(values: Host | None) -> Host | None:
    return None if values is None else values[:-1]
