"""A figure of a paper: its settings file, its tasks, its outcome and the verdict.

A settings file says which parameters the paper states and which are ours, fixes sizes and seeds for three presets
(``quick`` for tests, ``standard`` for a report in minutes, ``paper`` for the paper's own sizes), names the experiment
that the figure shows, and sets the numeric criterion that the figure has to meet.

An experiment is a class (`gradstep.papers.experiment.Experiment`) that says where the figure measures, what theory
predicts there, and what is claimed besides. Seeds, tasks and verdict are the same for all.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from gradstep.errors import InvalidInput
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Outcome, Verdict
from gradstep.papers.places import Sample
from gradstep.sweeps import Failure, Result, Store, Task, TaskFailed, execute

__all__ = [
    "PAPERS",
    "PRESETS",
    "Figure",
    "FigureResult",
    "load_figures",
    "run_figure",
    "run_figures",
]

#: Paper by key, in the order of a report.
PAPERS = {
    "ba2022": "Ba et al. 2022",
    "moniri2024": "Moniri et al. 2024",
    "cui2024": "Cui et al. 2024",
    "beyond": "Beyond the papers",
}
#: Sizes and numbers of runs of a figure, from the smallest on.
PRESETS = ("quick", "standard", "paper")

Progress = Callable[[int, int, str], None]
Finished = TypeVar("Finished")


@dataclass(frozen=True)
class Figure:
    """A figure as its settings file describes it.

    Attributes
    ----------
    name, paper, row, title, summary : str
        Identifier, paper, row of the coverage table, title, and what to look at.
    stated, ours : str
        Which settings the paper states, and which are chosen here.
    experiment : str
        Name of its module.
    headline : bool
        Whether the figure belongs to the short report.
    settings : mapping
        What the experiment needs: every other key of the file. ``notes`` stand under the figure, with the preset's
        sizes in the places of ``{d}`` and the like (``{half}`` is half of d).
    presets : mapping
        Sizes, points and seeds by preset name.
    criterion : mapping
        Bounds on ``largest_z``, ``median_z`` and ``beyond_three`` (see `gradstep.papers.outcome.Verdict`).
    """

    name: str
    paper: str
    row: str
    title: str
    summary: str
    stated: str
    ours: str
    experiment: str
    headline: bool
    settings: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Any]]
    criterion: Mapping[str, float]

    def at(self, preset: str) -> Experiment:
        """Return the experiment at a preset: the paper's own, or one that papers share.

        Raises
        ------
        InvalidInput
            On an unknown preset.
        """
        if preset not in self.presets:
            raise InvalidInput("preset", preset, ", ".join(self.presets))
        own = f"gradstep.papers.{self.paper}.experiments"
        has_own = find_spec(own) is not None and find_spec(f"{own}.{self.experiment}") is not None
        module = import_module(f"{own if has_own else 'gradstep.papers.experiments'}.{self.experiment}")
        name = "".join(word.capitalize() for word in self.experiment.split("_"))
        experiment: Experiment = getattr(module, name)(self.name, self.settings, self.presets[preset])
        return experiment

    def tasks(self, preset: str) -> list[Task]:
        """Return the measurements that a preset asks for."""
        experiment = self.at(preset)
        return [task for place in experiment.places() for task in place.tasks(self.name, experiment.preset)]

    def samples(self, preset: str, results: Sequence[Result]) -> list[Sample]:
        """Return the results of a preset's tasks, place by place."""
        rest, experiment = iter(results), self.at(preset)
        return [
            Sample(place, [next(rest) for _ in place.tasks(self.name, experiment.preset)])
            for place in experiment.places()
        ]

    def assemble(self, preset: str, results: Sequence[Result]) -> FigureResult:
        """Put theory beside the results of a preset's tasks, and judge."""
        experiment = self.at(preset)
        outcome = experiment.outcome(self.samples(preset, results))
        if not outcome.notes:
            sizes = {"half": experiment.preset["d"] // 2} if "d" in experiment.preset else {}
            outcome = replace(outcome, notes=experiment.notes.format(**experiment.preset, **sizes))
        return FigureResult(self, preset, outcome, Verdict.of(outcome, self.criterion))


@dataclass(frozen=True)
class FigureResult:
    """A finished figure and the verdict on it."""

    figure: Figure
    preset: str
    outcome: Outcome
    verdict: Verdict


def load_figures(names: Sequence[str] | None = None) -> list[Figure]:
    """Read the settings files that come with the package, ordered by paper, row and name.

    Parameters
    ----------
    names : sequence of str, optional
        Figures to load (all by default).

    Raises
    ------
    InvalidInput
        On an unknown name.
    """
    papers = list(PAPERS)
    found = {
        figure.name: figure
        for figure in sorted(_shipped(), key=lambda f: (papers.index(f.paper), int(f.row[1:]), f.name))
    }
    for name in names or ():
        if name not in found:
            raise InvalidInput("figure", name, ", ".join(found))
    return [found[name] for name in (names or found)]


def _shipped() -> Iterator[Figure]:
    for paper in PAPERS:
        folder = files("gradstep.papers").joinpath(paper, "figures")
        if not folder.is_dir():
            continue
        for entry in folder.iterdir():
            if entry.name.endswith(".toml"):
                values = tomllib.loads(entry.read_text(encoding="utf-8"))
                own = {
                    key: values.pop(key)
                    for key in ("row", "title", "summary", "stated", "ours", "experiment", "presets", "criterion")
                }
                headline = values.pop("headline", False)
                name = entry.name.removesuffix(".toml")
                yield Figure(name=name, paper=paper, headline=headline, settings=values, **own)


def run_figure(
    figure: Figure,
    preset: str,
    *,
    cache: Path,
    workers: int | None = None,
    progress: Progress | None = None,
) -> FigureResult:
    """Compute one figure; as `run_figures`."""
    return next(run_figures([figure], preset, lambda result: result, cache=cache, workers=workers, progress=progress))


def run_figures(
    figures: Sequence[Figure],
    preset: str,
    finish: Callable[[FigureResult], Finished],
    *,
    cache: Path,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Finished]:
    """Yield figures in their order; measurements resume from `cache`.

    Parameters
    ----------
    figures : sequence of Figure
    preset : {"quick", "standard", "paper"}
    finish : callable
        What to make of a finished figure. Called in a thread of its own, as is the theory, while the workers measure
        on for the next figures.
    cache : Path
        Directory with one file per finished measurement.
    workers : int, optional
        Processes (default: one per core). Results do not depend on it.
    progress : callable, optional
        Called with (finished, total, name of the figure at work); measurements and figures count.

    Raises
    ------
    InvalidInput
        On an unknown preset or a bad number of workers.
    """
    return _Run(figures, preset, finish, Store(cache), workers, progress).follow()


class _Run(Generic[Finished]):
    """Figures that are measured together: each is finished in a thread once nothing of it is left to measure."""

    def __init__(
        self,
        figures: Sequence[Figure],
        preset: str,
        finish: Callable[[FigureResult], Finished],
        store: Store,
        workers: int | None,
        progress: Progress | None,
    ) -> None:
        self._figures, self._preset, self._finish = figures, preset, finish
        self._progress = progress
        listed = [figure.tasks(preset) for figure in figures]
        #: The figure of each task, and the place of its first one among all.
        self._owners = [owner for owner, tasks in enumerate(listed) for _ in tasks]
        self._starts = np.cumsum([0, *map(len, listed)])
        self._results: list[list[Result | None]] = [[None] * len(tasks) for tasks in listed]
        self._left = [len(tasks) for tasks in listed]
        self._running = execute([task for tasks in listed for task in tasks], store, workers=workers)

    def follow(self) -> Iterator[Finished]:
        """Yield the figures in their order, once all of them are measured."""
        thread = ThreadPoolExecutor(1)
        try:
            futures: dict[int, Future[Finished]] = {}
            # The workers end with an error now, and not when its traceback is forgotten.
            with closing(self._running):
                for owner in self._completed():
                    futures[owner] = thread.submit(self._finished, owner)
                    for future in futures.values():
                        if future.done():
                            future.result()  # an error ends the run now, not after all that is left to measure
            for owner in range(len(self._figures)):
                yield futures[owner].result()
                self._tell(len(self._owners) + owner + 1, owner)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def _completed(self) -> Iterator[int]:
        """Measure, and name every figure of which nothing is left to measure."""
        yield from (owner for owner, count in enumerate(self._left) if count == 0)
        for done, (index, result) in enumerate(self._running, 1):
            owner = self._owners[index]
            if isinstance(result, Failure):
                raise TaskFailed(f"{self._figures[owner].name}: {result}")
            self._results[owner][index - int(self._starts[owner])] = result
            self._left[owner] -= 1
            self._tell(done, owner)
            if self._left[owner] == 0:
                yield owner

    def _finished(self, owner: int) -> Finished:
        """Return what is made of a figure; its measurements are let go."""
        measured, self._results[owner] = self._results[owner], []
        figure = self._figures[owner]
        return self._finish(figure.assemble(self._preset, [result for result in measured if result is not None]))

    def _tell(self, done: int, owner: int) -> None:
        if self._progress is not None:
            self._progress(done, len(self._owners) + len(self._figures), self._figures[owner].name)
