"""Theory over simulation of the same problems: `compare`, the verb beside `predict` and `simulate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradstep.errors import GradstepError, InvalidInput, missing_extra
from gradstep.overlay import FAR, Overlay
from gradstep.problem import CONVENTION, Problem
from gradstep.simulation import Measurement, simulate_many
from gradstep.simulation.arguments import chosen_seeds, finite_sizes
from gradstep.theory import QUANTITIES, Prediction, predict_each
from gradstep.theory.caveats import caveat_lines

__all__ = ["Comparison", "compare"]


#: What is told of each quantity, and how it is printed.
_COLUMNS = {
    "theory": "12.6g",
    "mean": "12.6g",
    "standard_error": "8.2g",
    "relative_difference": "+10.1%",
    "z": "+6.2f",
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Predictions and measurements of the same problems.

    ``comparison["test_error"]`` is the `gradstep.overlay.Overlay` of a quantity: arrays ``theory``, ``mean``,
    ``standard_error``, ``difference`` and ``z``. They have the shape that was asked for: none for one problem, an axis
    for a list of problems, and a last axis for a list of penalties. The problems, predictions, measurements and
    failures here are in one row, the penalties of the first problem first.

    Parameters
    ----------
    problems : tuple of Problem
        Each with its penalty.
    predictions : tuple of Prediction or None
        None where theory has no prediction.
    measurements : tuple of Measurement
        Of the networks with the same seeds for all problems.
    failures : tuple of str
        Why there is no prediction; empty text where there is one.
    shape : tuple of int
        Of the arrays.
    """

    problems: tuple[Problem, ...]
    predictions: tuple[Prediction | None, ...]
    measurements: tuple[Measurement, ...]
    failures: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the networks."""
        return self.measurements[0].seeds

    @cached_property
    def overlays(self) -> Mapping[str, Overlay]:
        """The overlay of every quantity that theory predicts."""
        return {name: self._overlay(name) for name in QUANTITIES}

    def _overlay(self, quantity: str) -> Overlay:
        theory = [math.nan if p is None else getattr(p, quantity) for p in self.predictions]
        values = np.array([measurement[quantity] for measurement in self.measurements])
        return Overlay.of(np.reshape(theory, self.shape), values.reshape(*self.shape, len(self.seeds)), axis=-1)

    def __getitem__(self, quantity: str) -> Overlay:
        """Return the overlay of a quantity."""
        try:
            return self.overlays[quantity]
        except KeyError:
            raise InvalidInput("quantity", quantity, f"one of {', '.join(self.overlays)}") from None

    @cached_property
    def scores(self) -> Any:
        """Every z: an array with a row for each problem, and a column for each quantity in the order of `overlays`."""
        return np.stack([np.ravel(overlay.z) for overlay in self.overlays.values()], axis=-1)

    @property
    def worst(self) -> tuple[int, str] | None:
        """Number of the problem and name of the quantity with the largest ``|z|``; None where there is no z."""
        size = np.nan_to_num(np.abs(self.scores), nan=-1.0)
        index, column = np.unravel_index(int(size.argmax()), size.shape)
        return (int(index), QUANTITIES[column]) if size[index, column] >= 0 else None

    @property
    def judged(self) -> int:
        """How many z-scores there are."""
        return int(np.isfinite(self.scores).sum())

    @property
    def beyond(self) -> int:
        """How many of them are beyond three (`gradstep.overlay.FAR`): of right ones 0.3 % are."""
        return int((np.abs(self.scores) > FAR).sum())

    @cached_property
    def varied(self) -> tuple[Mapping[str, Any], ...]:
        """What the problems differ in: for each one its values of those fields, as numbers or text."""
        first = self.problems[0]
        names = [
            f.name
            for f in fields(Problem)
            if f.compare and any(getattr(p, f.name) != getattr(first, f.name) for p in self.problems)
        ]
        return tuple({name: _value(problem, name) for name in names} for problem in self.problems)

    @cached_property
    def cells(self) -> tuple[Mapping[str, Mapping[str, float]], ...]:
        """Of each problem every quantity's theory, mean, standard error, relative difference and z, as numbers."""
        columns = {
            name: {key: np.ravel(getattr(overlay, key)).tolist() for key in _COLUMNS}
            for name, overlay in self.overlays.items()
        }
        return tuple(
            {name: {key: values[index] for key, values in own.items()} for name, own in columns.items()}
            for index in range(len(self.problems))
        )

    def caveats(self) -> list[str]:
        """Return what the predictions leave out and may be felt, and what could not be predicted, line by line."""
        failed = [failure for failure in self.failures if failure]
        lines = [f"no prediction at {len(failed)} of {len(self.failures)}, the first: {failed[0]}"] if failed else []
        return lines + caveat_lines([prediction for prediction in self.predictions if prediction is not None])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, fit for JSON but for numbers that are nan."""
        worst = None
        if self.worst is not None:
            index, quantity = self.worst
            worst = {"index": index, "quantity": quantity, "z": self.cells[index][quantity]["z"]}
        cases = zip(self.predictions, self.measurements, self.failures, strict=True)
        return {
            "convention": CONVENTION,
            "versions": dict(self.measurements[0].versions),
            "seeds": list(self.seeds),
            "worst": worst,
            "beyond_three": self.beyond,
            "judged": self.judged,
            "comparisons": [
                {
                    "prediction": None if prediction is None else prediction.to_dict(),
                    "measurement": measurement.to_dict(),
                    "comparison": self.cells[index],
                    **({"failure": failure} if failure else {}),
                }
                for index, (prediction, measurement, failure) in enumerate(cases)
            ],
        }

    def to_frame(self) -> Any:
        """Return a pandas table with a row for each problem and quantity: what the problems differ in, and the overlay.

        Raises
        ------
        InvalidInput
            If pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise missing_extra("to_frame", "sweeps")
        from pandas import DataFrame  # type: ignore[import-untyped]

        rows = [
            {**where, "quantity": name, **cell, "seeds": len(self.seeds)}
            for index, where in enumerate(self.varied)
            for name, cell in self.cells[index].items()
        ]
        return DataFrame(rows)

    def summary(self, place: Callable[[int], Mapping[str, Any]] | None = None) -> str:
        """Return in words what is the largest ``|z|``, and how many are beyond three; empty where there is no z.

        Parameters
        ----------
        place : callable, optional
            Called with the number of a problem, returns what it is known by: by default its part of `varied`.
        """
        if self.worst is None:
            return ""
        index, quantity = self.worst
        where = (self.varied.__getitem__ if place is None else place)(index)
        names = [quantity, *(f"{name} = {_shown(value)}" for name, value in where.items())]
        z = self.cells[index][quantity]["z"]
        return f"worst z: {z:+.2f} ({', '.join(names)}); {self.beyond} of {self.judged} beyond {FAR:g}"

    def __str__(self) -> str:
        count = len(self.problems)
        lines = [
            f"Theory over {len(self.seeds)} networks" + (f", {count} problems" if count > 1 else ""),
            f"{'the first: ' if count > 1 else ''}{self.problems[0]}",
            f"convention  {CONVENTION}",
            f"{'':>20}  {'theory':>12}  {'network':>12}  {'± s.e.':>8}  {'difference':>10}  {'z':>6}",
        ]
        for index, where in enumerate(self.varied):
            if where:
                lines.append(", ".join(f"{name} = {_shown(value)}" for name, value in where.items()))
            lines += [_line(name, cell) for name, cell in self.cells[index].items()]
        return "\n".join([*lines, self.summary(), *self.caveats()])


def _line(name: str, cell: Mapping[str, float]) -> str:
    """Return the line of a quantity of a problem; a dash stands for what there is none of."""
    line = f"{name:>20}"
    for key, form in _COLUMNS.items():
        text = format(cell[key], form)
        line += "  " + ("-".rjust(len(text)) if "nan" in text else text)
    return line


def _value(problem: Problem, name: str) -> Any:
    value = problem.step_size if name == "eta" else getattr(problem, name)
    return value if isinstance(value, int | float) else getattr(value, "name", str(value))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def compare(
    problems: Problem | Iterable[Problem],
    seeds: int | Sequence[int] = 16,
    *,
    ridge: float | Sequence[float] | None = None,
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
    device, dtype, kernel_tolerance
        As in `gradstep.simulate`.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of problems measured; of one at work its share counts.

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
        and `Comparison.failures` says why.
    """
    several = not isinstance(problems, Problem)
    if several and not isinstance(problems, Iterable):
        raise InvalidInput("problem", problems, "a gradstep.Problem, or several")
    listed = list(problems) if isinstance(problems, Iterable) else [problems]
    for problem in listed:
        finite_sizes(problem)
    if not listed:
        raise InvalidInput("problems", listed, "at least one gradstep.Problem")
    shape: tuple[int, ...] = (len(listed),) if several else ()
    if ridge is not None:
        penalties = np.asarray(ridge)
        if penalties.ndim > 1 or not penalties.size:
            raise InvalidInput("ridge", ridge, "a finite number > 0, or a non-empty sequence of them")
        shape += penalties.shape
        listed = [problem.replace(ridge=penalty) for problem in listed for penalty in np.ravel(penalties).tolist()]
    chosen = chosen_seeds(seeds)
    if len(chosen) < 2:
        raise InvalidInput("seeds", seeds, "at least 2: one seed has no standard error")
    found = predict_each(listed)
    errors = [each for each in found if isinstance(each, GradstepError)]
    if len(errors) == len(found):
        raise errors[0]
    options = {"device": device, "dtype": dtype, "kernel_tolerance": kernel_tolerance}
    return Comparison(
        problems=tuple(listed),
        predictions=tuple(each if isinstance(each, Prediction) else None for each in found),
        measurements=tuple(simulate_many(listed, chosen, progress=progress, **options)),
        failures=tuple(f"{type(e).__name__}: {e}" if isinstance(e, GradstepError) else "" for e in found),
        shape=shape,
    )
