"""Curves and maps: theory along one or two parameters, and the real network at some places on them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import flag, is_real, one_of, plain_number
from gradstep.errors import GradstepError, InvalidInput, optional_module
from gradstep.grid import Axis, Grid
from gradstep.label_noise import LABEL_NOISE, with_label_noise
from gradstep.overlay import Overlay
from gradstep.problem import CONVENTION, Problem, check_field, check_problem, differences
from gradstep.progress import Report
from gradstep.progress import progress as show_progress
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, in_words, measured, number
from gradstep.theory import QUANTITIES, Prediction, predict_each
from gradstep.theory.caveats import caveat_lines
from gradstep.theory.prediction import limit_lines
from gradstep.theory.references import reference_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradstep.comparison import Comparison
    from gradstep.panels import Scale

__all__ = ["Curve", "curve"]

#: Problems predicted between two reports of progress.
_BATCH = 64
#: Places of a map along each of its axes.
_MAP = 41
#: Theory that differs by less, relative, does not vary.
_SAME = 1e-9

#: A problem, or a function of the values along the axes that returns one.
_Given = Problem | Callable[..., Problem]


@dataclass(frozen=True, eq=False, repr=False)
class Curve(Summarised):
    """Theory at every combination of the values of some parameters, and measurements of the network there.

    ``curve["test_error"]`` is the `gradstep.overlay.Overlay` of a quantity: arrays ``theory``, ``mean``,
    ``standard_error`` and ``z`` with one dimension for each axis. Without networks all but the theory are nan.

    Attributes
    ----------
    grid : Grid
        The axes and the problems.
    predictions : tuple of Prediction or GradstepError
        One for each problem, the last axis fastest; where theory has no prediction, the error that says why.
    comparison : Comparison or None
        Theory over the networks at the same problems.
    dense : Curve or None
        Theory at many more places, for the lines of a figure.
    """

    grid: Grid
    predictions: tuple[Prediction | GradstepError, ...]
    comparison: Comparison | None = None
    dense: Curve | None = field(default=None)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The parameters that vary, with their values."""
        return self.grid.axes

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems, the last axis fastest."""
        return self.grid.problems

    def __getitem__(self, quantity: str) -> Overlay:
        """Return the overlay of a quantity."""
        one_of("quantity", quantity, QUANTITIES)
        if self.comparison is not None:
            return self.comparison[quantity]
        nan = np.full(self.grid.shape, math.nan)
        return Overlay(self._theory(quantity), nan, nan, np.zeros(self.grid.shape, dtype=int))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the quantities."""
        return iter(QUANTITIES)

    def overlay(self, quantity: str, label_noise: str | None = None) -> Overlay:
        """Return the overlay of a quantity, with label noise in both errors or in neither.

        Parameters
        ----------
        quantity : str
        label_noise : {"both", "neither"}, optional
            If not given, as `Prediction` and `Measurement` have it: the test error has none, and the training error is
            on noisy labels.

        Raises
        ------
        InvalidInput
            On an unknown quantity or word.
        """
        plain = self[quantity]
        if label_noise is None:
            return plain
        one_of("label_noise", label_noise, LABEL_NOISE)
        theory = np.reshape(
            [
                with_label_noise(quantity, each.problem, partial(getattr, each), label_noise)
                if isinstance(each, Prediction)
                else math.nan
                for each in self.predictions
            ],
            self.grid.shape,
        )
        if self.comparison is None:
            return replace(plain, theory=theory)
        pairs = zip(self.problems, self.comparison.measurements, strict=True)
        measured = np.array([with_label_noise(quantity, p, each.__getitem__, label_noise) for p, each in pairs])
        return Overlay.of(theory, measured.reshape(*self.grid.shape, -1), axis=-1)

    def _theory(self, quantity: str) -> NDArray[np.float64]:
        values = [getattr(each, quantity) if isinstance(each, Prediction) else math.nan for each in self.predictions]
        return np.reshape(values, self.grid.shape)

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """Names of the quantities that differ between the problems in theory."""
        return tuple(name for name in QUANTITIES if not _is_constant(self._theory(name)))

    def varies(self, quantity: str) -> bool:
        """Return whether a quantity varies along the horizontal axis of a figure.

        Parameters
        ----------
        quantity : str
        """
        along = np.moveaxis(self._theory(one_of("quantity", quantity, QUANTITIES)), self.grid.across, -1)
        return not all(_is_constant(each) for each in along.reshape(-1, along.shape[-1]))

    @property
    def shared(self) -> str:
        """Values that all problems have in common, in one line."""
        omit = set(differences(self.problems)) if len(self.problems) > 1 else set()
        return self.problems[0].described(omit)

    def plot(
        self,
        quantities: str | Sequence[str] | None = None,
        *,
        references: str | Sequence[str] = (),
        label_noise: str | None = None,
        together: bool = False,
        x_scale: Scale | None = None,
        y_scale: Scale | None = None,
        dark: bool = False,
        ax: Any = None,
    ) -> Figure:
        """Draw theory as lines and the networks as points with bars of one standard error, or a map with contours.

        Parameters
        ----------
        quantities : str or sequence of str, optional
            One panel each; the test error, the training error and the alignment, as far as they vary, if not given.
        references : str or sequence of str, optional
            Lines to compare with: ``"no step"``, ``"kernel lower bound"``, ``"best linear error"``, ``"label noise"``.
        label_noise : {"both", "neither"}, optional
            Which errors have the label noise, as in `overlay`.
        together : bool, optional
            Whether two quantities share a panel: the second has dotted lines and hollow points.
        x_scale, y_scale : {"linear", "log"}, optional
            Scales of the axes, chosen by the range of what is drawn if not given. On a logarithmic axis that two
            quantities share, the second is not drawn where it is less than a fortieth of the first one's least.
        dark : bool, optional
            Light ink for a dark page.
        ax : matplotlib.axes.Axes or array of them, optional
            Where to draw each panel, without the small print; by default in a new figure.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InvalidInput
            On an unknown quantity, reference or scale, on more curves than a figure can show, and if a map is asked for
            what only curves have, or more than two quantities for one panel.
        """
        from gradstep.curve_figure import Look, draw_curve
        from gradstep.picture import offer

        look = Look(label_noise, together, x_scale, y_scale)
        return offer(draw_curve(self, quantities, references, look, dark=dark, ax=ax))

    def to_frame(self) -> Any:
        """Return a pandas table with a row for each problem and quantity.

        Raises
        ------
        InvalidInput
            If pandas is not installed.
        """
        columns = ("theory", "mean", "standard_error", "relative_difference", "z", "seeds")
        values = {(name, key): np.ravel(getattr(self[name], key)) for name in QUANTITIES for key in columns}
        return optional_module("pandas", "to_frame", "sweeps").DataFrame(
            {**self._place(index), "quantity": name, **{key: values[name, key][index] for key in columns}}
            for index in range(len(self.problems))
            for name in QUANTITIES
        )

    def _place(self, index: int) -> dict[str, Any]:
        values = self.grid.points[index]
        return {axis.head: axis.plain(value) for axis, value in zip(self.axes, values, strict=True)}

    def to_xarray(self) -> Any:
        """Return a labelled dataset: of each quantity ``q`` the variables ``q_theory``, ``q_mean``, ...

        The dimensions have the names of the parameters, and the coordinates their unit, ``"d"`` of a multiple of ``d``.

        Raises
        ------
        InvalidInput
            If xarray is not installed.
        """
        xarray = optional_module("xarray", "to_xarray", "sweeps")
        names = [axis.name for axis in self.axes]
        keys = ("theory",) if self.comparison is None else ("theory", "mean", "standard_error", "z")
        variables = {f"{q}_{key}": (names, np.asarray(getattr(self[q], key))) for q in QUANTITIES for key in keys}
        places = {
            axis.name: (axis.name, list(map(axis.plain, axis.values)), {"unit": axis.unit} if axis.unit == "d" else {})
            for axis in self.axes
        }
        return xarray.Dataset(variables, places, {"convention": CONVENTION, "problem": self.shared})

    def table(self, quantities: Sequence[str] = QUANTITIES) -> Table:
        """Return a row of text for each problem: theory and network of the test error, or without networks theory.

        Parameters
        ----------
        quantities : sequence of str, optional
            Quantities of theory that have a column without networks, as far as they vary.
        """
        head = self.grid.heads
        if self.comparison is None:
            shown = [name for name in quantities if name in self.varying] or ["test_error"]
            columns = [np.ravel(self._theory(name)) for name in shown]
            rows = [
                [*cells, *(number(float(column[index])) for column in columns)]
                for index, cells in enumerate(self.grid.cells)
            ]
            return Table([*head, *shown], rows, index=len(head))
        rows = []
        for cells, found in zip(self.grid.cells, self.comparison.cells, strict=True):
            cell = found["test_error"]
            numbers = [number(cell["theory"]), *measured(cell["mean"], cell["standard_error"])]
            z = "-" if math.isnan(cell["z"]) else f"{cell['z']:+.2f}"
            rows.append([*cells, *numbers, z])
        return Table([*head, "test error", "network", "standard error", "z"], rows, index=len(head))

    def notes(self) -> list[str]:
        """Return lines that say what does not vary, how far the networks are, and what the theory leaves out."""
        known = [each for each in self.predictions if isinstance(each, Prediction)]
        constant = [name for name in QUANTITIES if name not in self.varying]
        lines = []
        if self.comparison is None and constant and self.axes:
            same = ", ".join(f"{in_words(name)} {number(getattr(known[0], name))}" for name in constant)
            lines = [f"the same at all: {same}"]
        if self.comparison is not None:
            return lines + self.comparison.notes(self.grid.places())
        failures = [each for each in self.predictions if isinstance(each, GradstepError)]
        lines += [f"no prediction at {len(failures)}, the first: {failure}" for failure in failures[:1]]
        return [*lines, *limit_lines(known), *reference_lines(known), *caveat_lines(known)]

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        kind = "Map" if self.grid.is_map else "Curve"
        over = " and ".join(axis.head for axis in self.axes)
        count = 0 if self.comparison is None else len(self.comparison.seeds)
        networks = f", theory over {count} networks each" if count else ", theory"
        problems = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        title = f"{kind} over {over}: {problems}{networks}"
        return Summary(title, [self.shared], self.table(("test_error", "train_error", "alignment")), self.notes())


def _is_constant(values: NDArray[np.float64]) -> bool:
    known = values[np.isfinite(values)]
    return bool(known.size == 0 or np.ptp(known) <= _SAME * np.abs(known).max())


@dataclass(frozen=True)
class _Replaced:
    """The problem of a list with some fields replaced, or what a function returns; it can be pickled as these can."""

    problems: Mapping[str, _Given]

    def __call__(self, values: Mapping[str, Any]) -> Problem:
        changes = dict(values)
        base = self.problems[changes.pop("problem", "")]
        if isinstance(base, Problem):
            return base.replace(**changes)
        made = base(**changes)
        check_problem(made)
        return made


def curve(
    problem: _Given | Iterable[Problem] | Mapping[str, _Given],
    over: Mapping[str, Any],
    seeds: int | Sequence[int] = 0,
    *,
    device: str | None = None,
    dtype: str = "float64",
    progress: bool = True,
) -> Curve:
    """Predict along one or two parameters, and measure the network itself at the same places if asked to.

    Parameters
    ----------
    problem : Problem, iterable of Problem, or mapping of str to Problem
        Several problems make several curves; the keys of a mapping are their labels. Where several fields vary
        together, a function of the values in place of a problem: ``lambda n: problem.replace(n=n, n_step=n)``.
    over : mapping
        Name of a field of `Problem` (or of an argument of that function) to its values: a list, or text as on the
        command line: ``{"n": "0.5d:4d:12"}``, ``{"ridge": "1e-3:1e3:log13"}``, ``{"eta": [0, 1, "N^0.5"]}``. With two
        of them every combination is a problem.
    seeds : int or sequence of int, optional
        How many networks to measure at each place (at least 2), or their seeds, the same at all places; none if 0.
    device, dtype
        As in `gradstep.simulate`.
    progress : bool, optional
        Whether to show a bar on a terminal or in a notebook.

    Returns
    -------
    Curve
        To print, to plot, to index by quantity, or to turn into a table or a dataset.

    Raises
    ------
    InvalidInput
        On unknown fields and values out of range, before any work.
    NotConverged
        Where nothing has a prediction. Where only some have none, an error stands in place of a prediction.

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem(
    ...     activation="tanh", teacher="sin", d=64, width="1.5d", n_step="4d", n="3d", eta="N^0.5", ridge="d/64"
    ... )
    >>> found = gs.curve(problem, over={"n": "1d:4d:4", "eta": [0, "N^0.5"]})
    >>> found["test_error"].theory.shape
    (4, 2)
    """
    from gradstep.comparison import compare  # here: predictions alone need no simulation

    problems = _labelled(problem)
    flag("progress", progress)
    if not isinstance(over, Mapping) or not over:
        raise InvalidInput("over", over, "a mapping of a field to its values, such as {'n': '0.5d:4d:12'}")
    for each in filter(callable, problems.values()):
        _check_arguments(each, over)
    if not any(map(callable, problems.values())):
        for name, given in over.items():
            check_field(name, given)
    axes = [Axis.of(name, given) for name, given in over.items()]
    if len(problems) > 1:
        axes.append(Axis("problem", tuple(problems)))
    grid = Grid(tuple(axes), _Replaced(problems if len(problems) > 1 else {"": next(iter(problems.values()))}))
    _ = grid.problems  # all are checked before any work
    if is_real(given := plain_number(seeds)) and given == 0:
        with _bar(progress, "problems predicted") as report:
            return with_lines(Curve(grid, tuple(_predicted(grid, report, some=True))), report)
    with _bar(progress, "problems simulated") as report:
        compared = compare(
            grid.problems, seeds, device=device, dtype=dtype, progress=lambda done, total: report(done, total, "")
        )
    with _bar(progress, "problems predicted") as report:
        return with_lines(Curve(grid, compared.predictions, replace(compared, shape=grid.shape)), report)


def _check_arguments(function: Callable[..., object], over: Mapping[str, Any]) -> None:
    """Refuse names that a function does not take, or that it lacks."""
    try:
        expected = inspect.signature(function)
    except (TypeError, ValueError):  # one that does not say
        return
    try:
        expected.bind(**over)
    except TypeError as error:
        names = ", ".join(map(str, expected.parameters.values())) or "none"
        raise InvalidInput("over", list(over), f"the arguments of the function: {names} ({error})") from None


def with_lines(found: Curve, report: Report | None = None) -> Curve:
    """Return a curve with the theory between its places, for the lines and contours of a figure.

    The report is called with the number of problems predicted, that of all, and a note.
    """
    x = found.axes[found.grid.across]
    if x.numbers is None or len(x.values) == 1:
        return found
    grid = found.grid.dense({axis.name: _MAP for axis in found.axes} if found.grid.is_map else {x.name: None})
    if grid.shape == found.grid.shape:
        return found
    predicted = tuple(_predicted(grid, report or (lambda *_: None)))
    return replace(found, dense=Curve(grid, predicted))


def _predicted(grid: Grid, report: Report, *, some: bool = False) -> list[Prediction | GradstepError]:
    """Return predictions, or the errors in place of them, batch by batch."""
    found: list[Prediction | GradstepError] = []
    for start in range(0, len(grid.problems), _BATCH):
        found += predict_each(grid.problems[start : start + _BATCH])
        report(len(found), len(grid.problems), "")
    if some and not any(isinstance(each, Prediction) for each in found):
        raise next(each for each in found if isinstance(each, GradstepError))
    return found


def _bar(wanted: bool, unit: str) -> AbstractContextManager[Report]:
    """Return a bar where one is wanted."""
    return show_progress(unit, lines=False) if wanted else nullcontext(lambda *_: None)


def _labelled(problem: _Given | Iterable[Problem] | Mapping[str, _Given]) -> dict[str, _Given]:
    """Return problems by their labels: of a list, what they differ in."""
    listed: dict[str, _Given]
    if isinstance(problem, Mapping):
        listed = {str(label): each for label, each in problem.items()}
    elif isinstance(problem, Iterable) and not isinstance(problem, str):
        several = list(problem)
        for each in several:
            check_problem(each)
        differ = differences(several)
        labels = [", ".join(Axis(name, ()).legend(getattr(each, name)) for name in differ) for each in several]
        listed = dict(zip(labels, several, strict=True))
        if len(listed) != len(several):
            allowed = "problems that differ, or a mapping of labels to problems if their functions share a name"
            raise InvalidInput("problem", f"{len(several)} problems", allowed)
    else:
        listed = {"": problem}
    for given in listed.values():
        if not callable(given):
            check_problem(given)
    if not listed:
        raise InvalidInput("problem", problem, "at least one gradstep.Problem")
    return listed
