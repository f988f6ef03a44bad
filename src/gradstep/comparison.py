"""Theory over simulation of the same problems: `compare`, the verb beside `predict` and `simulate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import flag, function_or_none, one_of
from gradstep.errors import GradstepError, InvalidInput, optional_module
from gradstep.gaussian import MultivariateFunction, ScalarFunction
from gradstep.overlay import FAR, Overlay
from gradstep.plain import plain
from gradstep.problem import CONVENTION, Problem, Readout, differences
from gradstep.simulation import Measurement, simulate_many
from gradstep.simulation.arguments import chosen_seeds, finite_sizes
from gradstep.sources import Sources
from gradstep.summary import ROWS, Summarised, Summary
from gradstep.text_table import Table, in_words, measured, number
from gradstep.theory import QUANTITIES, Prediction, predict_each
from gradstep.theory.caveats import caveat_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "compare"]

#: Relative variation below which a quantity is called the same for all problems: rounding of its computation.
_SAME = 1e-9

#: Columns of the table, for each quantity.
_COLUMNS = ("theory", "mean", "standard_error", "relative_difference", "z")

#: Quantities whose deviation has sources, and the names of these.
_WITH_SOURCES, _PARTS = ("test_error", "train_error"), ("rows", "fit")

Places = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Summarised):
    """Predictions and measurements of the same problems.

    ``comparison["test_error"]`` is the `gradstep.overlay.Overlay` of a quantity: arrays ``theory``, ``mean``,
    ``standard_error``, ``difference`` and ``z``. They have the shape that was asked for: none for one problem, an axis
    for a list of problems, and a last axis for a list of penalties. What is in a tuple here is in one row: all
    penalties of the first problem, then those of the next.

    Parameters
    ----------
    problems : tuple of Problem
        Each with its penalty.
    predictions : tuple of Prediction or GradstepError
        Where theory has no prediction, the error that says why.
    measurements : tuple of Measurement
        Measurements on networks with the same seeds for all problems.
    shape : tuple of int
        Shape of the arrays.
    expected : tuple of Measurement, optional
        Measurements of the same networks with the errors expected of fits, if it was asked where deviations come from.
    """

    problems: tuple[Problem, ...]
    predictions: tuple[Prediction | GradstepError, ...]
    measurements: tuple[Measurement, ...]
    shape: tuple[int, ...]
    expected: tuple[Measurement, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the networks."""
        return self.measurements[0].seeds

    @property
    def failures(self) -> list[GradstepError]:
        """Why there are problems without a prediction."""
        return [each for each in self.predictions if isinstance(each, GradstepError)]

    @cached_property
    def overlays(self) -> Mapping[str, Overlay]:
        """The overlay of every quantity that theory predicts and the networks have."""
        return {name: self._overlay(name) for name in QUANTITIES if name in self.measurements[0].values}

    def _overlay(self, quantity: str) -> Overlay:
        return Overlay.of(self._theory(quantity), self._values(quantity, self.measurements), axis=-1)

    def _theory(self, quantity: str) -> NDArray[np.float64]:
        theory = [getattr(each, quantity) if isinstance(each, Prediction) else math.nan for each in self.predictions]
        return np.reshape(theory, self.shape)

    def _values(self, quantity: str, measurements: Sequence[Measurement]) -> NDArray[np.float64]:
        values = np.array([measurement[quantity] for measurement in measurements])
        return values.reshape(*self.shape, len(self.seeds))

    @cached_property
    def sources(self) -> Mapping[str, Sources]:
        """Where the deviations of the test and the training error come from; empty if it was not asked for.

        ``sources["test_error"].rows`` is the overlay of theory and the errors expected of fits on the first layers that
        were drawn, ``sources["test_error"].fit`` that of these and the fits. Of the networks that have both, their
        differences add up to that of ``comparison["test_error"]``.
        """
        if not self.expected:
            return {}
        return {
            name: Sources.of(
                self._theory(name), self._values(name, self.expected), self._values(name, self.measurements)
            )
            for name in _WITH_SOURCES
        }

    def __getitem__(self, quantity: str) -> Overlay:
        """Return the overlay of a quantity."""
        return self.overlays[one_of("quantity", quantity, tuple(self.overlays))]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the quantities."""
        return iter(self.overlays)

    @cached_property
    def cells(self) -> tuple[Mapping[str, Mapping[str, float]], ...]:
        """Return theory, mean, standard error, relative difference and z of every quantity of each problem."""
        columns = [[np.ravel(getattr(overlay, key)).tolist() for key in _COLUMNS] for overlay in self.overlays.values()]
        rows = (zip(*own, strict=True) for own in columns)
        return tuple(
            {name: dict(zip(_COLUMNS, cell, strict=True)) for name, cell in zip(self.overlays, row, strict=True)}
            for row in zip(*rows, strict=True)
        )

    @cached_property
    def verdict(self) -> Mapping[str, Any]:
        """The ``worst`` z, the number of z ``beyond_three``, and the number of all z, ``judged``.

        The worst z comes with the number of its problem, ``index``, and the name of its ``quantity``; it is None where
        there is no z. Of the z of a right theory 0.3 % are beyond three.
        """
        z = {(index, name): cell["z"] for index, row in enumerate(self.cells) for name, cell in row.items()}
        z = {place: value for place, value in z.items() if not math.isnan(value)}
        index, name = max(z, key=lambda place: abs(z[place]), default=(0, ""))
        return {
            "worst": {"index": index, "quantity": name, "z": z[index, name]} if z else None,
            "beyond_three": sum(abs(value) > FAR for value in z.values()),
            "judged": len(z),
        }

    @cached_property
    def varied(self) -> tuple[Mapping[str, Any], ...]:
        """Return the fields in which the problems differ: for each problem its values of those, as numbers or text."""
        names = differences(self.problems)
        return tuple({name: _value(problem, name) for name in names} for problem in self.problems)

    @property
    def _places(self) -> list[Mapping[str, Any]]:
        """Return `varied` for people: a step size as it was given, with its power of the width."""
        pairs = zip(self.problems, self.varied, strict=True)
        return [{**own, "eta": str(each.eta)} if "eta" in own else own for each, own in pairs]

    def notes(self, places: Places | None = None) -> list[str]:
        """Return lines that say what z is worst, what is without a prediction, and what theory leaves out.

        Parameters
        ----------
        places
            As in `table`.
        """
        lines, worst, failures = [], self.verdict["worst"], self.failures
        if worst is not None:
            place = (self._places if places is None else places)[worst["index"]]
            where = [in_words(worst["quantity"]), *(f"{name} = {_text(value)}" for name, value in place.items())]
            beyond = f"{self.verdict['beyond_three']} of {self.verdict['judged']} beyond {FAR:g}"
            lines.append(f"worst z: {worst['z']:+.2f} ({', '.join(where)}); {beyond}")
        if failures:
            first = f"{type(failures[0]).__name__}: {failures[0]}"
            lines.append(f"no prediction at {len(failures)} of {len(self.predictions)}, the first: {first}")
        if len(self.problems) > 1:
            lines.append("the same seeds at all problems: their z move together, and are not independent")
        return lines + caveat_lines([each for each in self.predictions if isinstance(each, Prediction)])

    def source_table(self, places: Places | None = None) -> Table:
        """Return a row of text for each problem and error: how far networks are off, and by what.

        Parameters
        ----------
        places
            As in `table`.

        Returns
        -------
        Table
            In per cent of the theory: the whole difference ("off by") without a standard error, which `table` has in
            its units, and the two parts with one. Without rows if it was not asked for.
        """
        known = self._places if places is None else places
        rows = []
        for index, where in enumerate(known):
            for name in self.sources:
                of = self._source_columns(name, index)
                off = 100 * self.cells[index][name]["relative_difference"]
                parts = [
                    f"{100 * of[f'{part}_difference']:+.1f} +- {100 * of[f'{part}_error']:.1f} %" for part in _PARTS
                ]
                texts = [f"{off:+.1f} %", *parts]
                rows.append(
                    [*map(_text, where.values()), in_words(name), *("-" if "nan" in text else text for text in texts)]
                )
        return Table([*known[0], "quantity", "off by", "law of the rows", "fit"], rows, index=len(known[0]) + 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, fit for JSON (a value that is not a number becomes None)."""
        cases: list[dict[str, Any]] = []
        for prediction, measurement, row in zip(self.predictions, self.measurements, self.cells, strict=True):
            case: dict[str, Any] = {"prediction": None, "measurement": measurement.to_dict(), "comparison": row}
            if isinstance(prediction, Prediction):
                case["prediction"] = prediction.to_dict()
            else:
                case["failure"] = f"{type(prediction).__name__}: {prediction}"
            if self.sources:
                case["sources"] = {name: self._source_columns(name, len(cases)) for name in self.sources}
            cases.append(case)
        shared = {"convention": CONVENTION, "versions": self.measurements[0].versions, "seeds": self.seeds}
        found: dict[str, Any] = plain({**shared, **self.verdict, "comparisons": cases})
        return found

    def _source_columns(self, quantity: str, index: int) -> dict[str, float]:
        if quantity not in self.sources:
            return {}
        return {key: float(np.ravel(value)[index]) for key, value in self.sources[quantity].columns().items()}

    def to_frame(self) -> Any:
        """Return a pandas table with a row for each problem and quantity: what the problems differ in, and the overlay.

        It has columns for the sources of the deviation if these were asked for.

        Raises
        ------
        InvalidInput
            If pandas is not installed.
        """
        return optional_module("pandas", "to_frame", "sweeps").DataFrame(
            {**where, "quantity": name, **cell, "seeds": len(self.seeds), **self._source_columns(name, index)}
            for index, (where, row) in enumerate(zip(self.varied, self.cells, strict=True))
            for name, cell in row.items()
        )

    def table(self, places: Places | None = None, quantities: Sequence[str] = QUANTITIES) -> Table:
        """Return a row of text for each problem and quantity; the worst z is emphasised.

        Parameters
        ----------
        places : sequence of mapping, optional
            Names and values that identify each problem, with the same names for all; `varied` if not given. A quantity
            that is the same for all problems has one row, for "all".
        quantities : sequence of str, optional
            Those that have rows.
        """
        known = self._places if places is None else places
        quantities = [name for name in quantities if name in self.overlays]
        worst = self.verdict["worst"]
        same = [name for name in quantities if len(self.problems) > 1 and self._is_same(name)]
        keys = [(i, name) for i in range(len(self.problems)) for name in quantities if name not in same]
        keys += [(0, name) for name in same]
        rows, marked = [], []
        for index, name in keys:
            where = ["all", *[""] * (len(known[0]) - 1)] if name in same else list(map(_text, known[index].values()))
            rows.append([*where, in_words(name), *_cell_texts(self.cells[index][name])])
            if worst is not None and name == worst["quantity"] and (name in same or index == worst["index"]):
                marked.append(len(rows) - 1)
        header = [*known[0], "quantity", "theory", "network", "standard error", "off by", "z"]
        return Table(header, rows, frozenset(marked), index=len(known[0]) + 1)

    def _is_same(self, quantity: str) -> bool:
        """Return whether a quantity is the same for all problems, in theory and on the networks."""
        found = self.overlays[quantity]
        return all(
            bool(np.ptp(v) <= _SAME * np.max(np.abs(v))) for v in (found.theory, found.mean, found.standard_error)
        )

    def plot(self, *, dark: bool = False, ax: Any = None) -> Figure:
        """Draw the networks over theory: for each quantity their ratio, with bars of one standard error.

        Parameters
        ----------
        dark : bool, optional
            Light ink for a dark page.
        ax : matplotlib.axes.Axes, optional
            Where to draw, without the small print; by default in a new figure.

        Returns
        -------
        matplotlib.figure.Figure
            Of several problems (or penalties) one beside the other.
        """
        from gradstep.drawing import draw
        from gradstep.panels import Guide, Panel, Points
        from gradstep.picture import offer

        ticks = tuple((float(place), name.replace("_", "\n")) for place, name in enumerate(self.overlays))
        points = []
        for index, (cells, varied) in enumerate(zip(self.cells, self._places, strict=True)):
            values = [
                (cells[name]["mean"], cells[name]["standard_error"], cells[name]["theory"]) for name in self.overlays
            ]
            ratios = [
                (mean / theory, error / abs(theory)) if theory else (math.nan,) * 2 for mean, error, theory in values
            ]
            places = [place + 0.5 * (index + 0.5) / len(self.problems) - 0.25 for place in range(len(ratios))]
            means, errors = zip(*ratios, strict=True)
            label = ", ".join(f"{name} {_text(value)}" for name, value in varied.items())
            points.append(Points(places, means, errors, label, "large"))
        panel = Panel("", "", "network / theory", points=points, guides=[Guide("theory", height=1.0)], x_ticks=ticks)
        omit = differences(self.problems)
        note = f"{self.problems[0].described(omit)}\nmean of {len(self.seeds)} networks, bars of one standard error"
        return offer(draw([panel], note=note, dark=dark, ax=ax))

    def summary(self) -> Summary:
        """Return the summary that is printed; of more than two problems the test error alone."""
        several = len(self.problems) > 1
        about = self.problems[0].described(differences(self.problems))
        title = f"Theory over {len(self.seeds)} networks" + (f" of {len(self.problems)} problems" if several else "")
        shown = QUANTITIES if len(self.problems) <= 2 else QUANTITIES[:1]
        # Two problems show all of their rows: the test error of the second is in the middle of the table.
        rows = max(ROWS, 2 * len(self.overlays)) if len(self.problems) <= 2 else ROWS
        said = [] if several else self.source_table().rows
        notes = ["{}: {} = {} by the law of the rows, {} by the fit".format(*texts) for texts in said]
        return Summary(title, [about], self.table(quantities=shown), [*notes, *self.notes()], rows)


def _value(problem: Problem, name: str) -> float | str:
    value = problem.step_size if name == "eta" else getattr(problem, name)
    if isinstance(value, Readout):
        value = value.to_plain()
    elif isinstance(value, ScalarFunction | MultivariateFunction):
        value = value.name
    return value if isinstance(value, int | float) else str(value)


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _cell_texts(cell: Mapping[str, float]) -> list[str]:
    percent, z = f"{100 * cell['relative_difference']:+.1f} %", f"{cell['z']:+.2f}"
    numbers = [number(cell["theory"]), *measured(cell["mean"], cell["standard_error"])]
    return [*numbers, *("-" if "nan" in text else text for text in (percent, z))]


def compare(
    problems: Problem | Iterable[Problem],
    seeds: int | Sequence[int] = 16,
    *,
    ridge: float | Sequence[float] | None = None,
    fit: str = "drawn",
    rows: ArrayLike | None = None,
    replacement: bool = False,
    sources: bool = False,
    device: str | None = None,
    dtype: str = "float64",
    kernel_tolerance: float = 1e-9,
    progress: Callable[[float, int], None] | None = None,
) -> Comparison:
    """Predict problems, measure the network itself, and lay one over the other.

    Parameters
    ----------
    problems : Problem or iterable of Problem
        All sizes finite. Problems that differ in the penalty alone share their networks and cost one simulation.
    seeds : int or sequence of int
        How many networks (at least 2), or their seeds; the same for all problems, whose measurements are paired.
    ridge : float or sequence of float, optional
        Penalties to use instead of each problem's own; a whole sequence costs one factorisation.
    fit, rows, replacement
        As in `gradstep.simulate`. With ``fit="expected"`` the networks' errors have no noise of the fit. With `rows` of
        a table theory is that of Gaussian inputs of the problems' law.
    sources : bool
        Whether to find where deviations come from: from the law of the rows after the step, or from the equivalence of
        the fit. This measures the networks again, with the errors expected of fits. See `Comparison.sources`. Of rows
        of a table no expected errors are known, so that `sources` is refused with `rows`.
    device, dtype, kernel_tolerance
        As in `gradstep.simulate`.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of problems measured; of one at work its share counts. With
        `sources` each problem counts twice.

    Returns
    -------
    Comparison
        To print, to index by quantity, or to turn into a table.

    Raises
    ------
    InvalidInput
        On fewer than two seeds, infinite sizes and options out of range, before any work.
    InvalidInput, NotConverged
        Where nothing has a prediction, before anything is simulated. Where only some have none, the others are compared
        and an error stands in place of a prediction.
    """
    listed, shape = _cases(problems, ridge)
    chosen = chosen_seeds(seeds)
    if len(chosen) < 2:
        raise InvalidInput("seeds", seeds, "at least 2: one seed has no standard error")
    one_of("fit", fit, ("drawn", "expected"))
    if flag("sources", sources) and fit != "drawn":
        raise InvalidInput("sources", sources, "False with fit='expected', which is one of the two that are compared")
    if sources and rows is not None:
        raise InvalidInput("sources", sources, "False with rows of a table, of which no expected errors are known")
    function_or_none("progress", progress, "a function of two numbers: what is done, and all there is")
    found = predict_each(listed, some=True)
    options = {
        "rows": rows,
        "replacement": replacement,
        "device": device,
        "dtype": dtype,
        "kernel_tolerance": kernel_tolerance,
    }
    passes = 2 if sources else 1

    def measure(kind: str, passes_before: int) -> tuple[Measurement, ...]:
        def advance(done: float, total: int) -> None:
            if progress is not None:
                progress(passes_before * total + done, passes * total)

        return tuple(simulate_many(listed, chosen, fit=kind, progress=advance, **options))

    drawn = measure(fit, 0)
    return Comparison(tuple(listed), tuple(found), drawn, shape, measure("expected", 1) if sources else ())


def _cases(
    problems: Problem | Iterable[Problem], ridge: float | Sequence[float] | None
) -> tuple[list[Problem], tuple[int, ...]]:
    """Return every problem with every penalty, and the shape of these."""
    listed = list(problems) if isinstance(problems, Iterable) else [problems]
    shape: tuple[int, ...] = (len(listed),) if isinstance(problems, Iterable) else ()
    for problem in listed:
        finite_sizes(problem)
    if not listed:
        raise InvalidInput("problems", listed, "at least one gradstep.Problem")
    penalties = np.asarray(math.nan if ridge is None else ridge, dtype=object)
    if penalties.ndim > 1 or not penalties.size:
        raise InvalidInput("ridge", ridge, "a finite number > 0, or a non-empty sequence of them")
    if ridge is not None:
        listed = [problem.replace(ridge=penalty) for problem in listed for penalty in np.ravel(penalties).tolist()]
    return listed, shape + penalties.shape
