"""The places at which a figure measures networks, and the one loop over places and seeds for all figures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.outcome import Judged
from gradstep.sweeps import Result, Task

__all__ = ["Place", "Sample", "Settings", "on_curve", "point_seeds", "sizes_at"]

Array = NDArray[np.float64]
Settings = Mapping[str, Any]
"""Plain values by name, as a settings file has them."""


@dataclass(frozen=True)
class Place:
    """One point of a figure, which shares its networks with other points only if `drawn` says so."""

    #: Function of a module: ``measure(parameters, seed)`` returns plain numbers or lists of them by name.
    measure: Callable[[Settings, int], Mapping[str, Any]]
    parameters: Settings  #: Plain values.
    curve: str  #: Curve that the point belongs to.
    x: Any  #: Place on the horizontal axis.
    #: Label and place that the seeds are drawn for, if these are not `curve` and `x`: places with equal values share
    #: their networks.
    drawn: tuple[str, object] | None = None
    #: The seeds themselves. A computed value, which needs no random draw, has the single seed zero.
    seeds: tuple[int, ...] | None = None

    @property
    def networks(self) -> str:
        """Name of the networks: the same for places that share their seeds."""
        label, place = self.drawn or (self.curve, self.x)
        return f"{label}/{place}"

    def tasks(self, figure: str, preset: Settings) -> list[Task]:
        """Return the tasks of the measurements, one for each seed."""
        label, place = self.drawn or (self.curve, self.x)
        seeds = point_seeds(figure, label, place, preset) if self.seeds is None else self.seeds
        name = f"{self.measure.__module__}:{self.measure.__name__}"
        return [Task(name, self.parameters, seed) for seed in seeds]


@dataclass(frozen=True)
class Sample:
    """The measurements at a place, one for each seed."""

    place: Place
    results: Sequence[Result]

    @property
    def x(self) -> float:
        """Place on the horizontal axis."""
        return float(self.place.x)

    def __getitem__(self, name: str) -> Array:
        """Return a measured quantity, with one row for each seed."""
        return np.array([result[name] for result in self.results])

    def select(self, **names: str) -> Sample:
        """Return a sample with some of the results, by new names."""
        return Sample(self.place, [{new: result[old] for new, old in names.items()} for result in self.results])

    def item(self, k: int) -> Sample:
        """Return the k-th number of every result that is a list."""
        return Sample(
            self.place,
            [{name: v[k] for name, v in result.items() if isinstance(v, list)} for result in self.results],
        )

    def spread(self, along: str) -> list[Sample]:
        """Return a sample for every value of the parameter `along`, from lists with a number for each value."""
        networks = self.place.drawn or (self.place.curve, self.place.x)
        return [
            Sample(replace(self.place, x=x, drawn=networks), self.item(k).results)
            for k, x in enumerate(self.place.parameters[along])
        ]

    def compare(self, theory: float, values: Array | str, **words: Any) -> Judged:
        """Compare a predicted value with what was measured.

        The values are one for each seed, or the name of a result. The words are as in `Judged.at`: curve and place are
        those of the sample unless given here.
        """
        measured = self[values] if isinstance(values, str) else values
        named = {"curve": self.place.curve, "place": self.place.x, "sample": self.place.networks, **words}
        return Judged.at(theory, measured, **named)


def on_curve(samples: Sequence[Sample], curve: str) -> list[Sample]:
    """Return the samples of one curve."""
    return [sample for sample in samples if sample.place.curve == curve]


def sizes_at(d: int, per_d: Settings) -> dict[str, Any]:
    """Return sizes and a penalty that settings have divided by the dimension: sizes are whole numbers."""
    return {name: value * d if name == "ridge" else round(value * d) for name, value in per_d.items()}


def point_seeds(name: str, label: str, place: object, preset: Settings) -> tuple[int, ...]:
    """Return the seeds of one point of a figure: independent from point to point, fixed by the preset's ``seed``.

    `name` is the figure and `label` the curve. `place` is on the horizontal axis, and its text counts. The preset says
    how many seeds there are: ``seeds``.
    """
    # The z-scores of points that share their seeds are correlated, so that their spread would have no meaning.
    words = np.frombuffer(hashlib.sha256(f"{name}/{label}/{place}".encode()).digest(), dtype="<u4")
    sequence = np.random.SeedSequence([int(preset["seed"]), *map(int, words)])
    return tuple(int(v) for v in sequence.generate_state(int(preset["seeds"]), np.uint32))
