"""A figure of a paper: its settings file, its tasks, its outcome and its verdict.

A settings file says which parameters the paper states and which are ours, fixes sizes and seeds for three presets
(``quick`` for tests, ``standard`` for a report in minutes, ``paper`` for the paper's own sizes), names the experiment
that the figure shows, and sets the numeric criterion that the figure has to meet.

An experiment is a class (`gradstep.papers.experiment.Experiment`) that says where the figure measures, what theory
predicts there, and which further claims are checked. Seeds, tasks and verdict are the same for all.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

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
    """A figure as its settings file describes it."""

    #: Identifier, paper, row of the coverage table, title, and a summary of what the figure shows.
    name: str
    paper: str
    row: str
    title: str
    summary: str
    #: The settings that the paper states, and those that are chosen here.
    stated: str
    ours: str
    experiment: str  #: Name of its module.
    item: str  #: The paper's own name for it, such as its figure's number; empty if the paper has none.
    headline: bool  #: Whether the figure belongs to the short report.
    #: All other keys of the file, which the experiment reads. ``notes`` stand under the figure, with the preset's sizes
    #: in the places of ``{d}`` and the like (``{half}`` is half of d).
    settings: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Any]]  #: Sizes, points and seeds by preset name.
    #: Bounds on ``largest_z``, ``median_z`` and ``beyond_three`` (see `gradstep.papers.outcome.Verdict`).
    criterion: Mapping[str, float]

    def at(self, preset: str) -> Experiment:
        """Return the experiment at a preset: the paper's own, or one that papers share.

        Raises `InvalidInput` on an unknown preset.
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
        """Compare theory with the results of a preset's tasks, and judge the comparison."""
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

    The names are in any order, by default all. Raises `InvalidInput` on an unknown name.
    """
    papers = list(PAPERS)
    found = {
        figure.name: figure
        for figure in sorted(_shipped(), key=lambda f: (papers.index(f.paper), int(f.row[1:]), f.name))
    }
    for name in names or ():
        if name not in found:
            raise InvalidInput("figure", name, ", ".join(found))
    # Settings are dictionaries, which a caller may change.
    return [deepcopy(figure) for name, figure in found.items() if not names or name in names]


@lru_cache(maxsize=1)
def _shipped() -> list[Figure]:
    named = ("row", "title", "summary", "stated", "ours", "experiment", "presets", "criterion")
    found = []
    for paper in PAPERS:
        folder = files("gradstep.papers").joinpath(paper, "figures")
        for entry in (entry for entry in folder.iterdir() if entry.name.endswith(".toml")):
            values = tomllib.loads(entry.read_text(encoding="utf-8"))
            own = {key: values.pop(key) for key in named}
            own |= {"item": values.pop("item", ""), "headline": values.pop("headline", False)}
            found.append(Figure(name=entry.name.removesuffix(".toml"), paper=paper, settings=values, **own))
    return found


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
    """Yield figures in their order; measurements resume from `cache`, a directory with one file per finished one.

    Each finished figure is handed to `finish`, and what this returns is yielded. It runs in a separate thread, like the
    theory, while the workers measure for the next figures. Workers are processes (default: one per core), and results
    do not depend on them. `progress` is called with (finished, total, name of the figure at work); measurements and
    figures count. Raises `InvalidInput` on an unknown preset or a bad number of workers.
    """
    listed = [figure.tasks(preset) for figure in figures]
    running = execute([task for tasks in listed for task in tasks], Store(cache), workers=workers)
    return _follow(figures, preset, finish, listed, running, progress or (lambda *_: None))


def _follow(
    figures: Sequence[Figure],
    preset: str,
    finish: Callable[[FigureResult], Finished],
    listed: Sequence[Sequence[Task]],
    running: Generator[tuple[int, Result | Failure]],
    progress: Progress,
) -> Iterator[Finished]:
    """Finish each figure in a thread once nothing of it is left to measure; yield them when all are measured."""
    places = [(owner, k) for owner, tasks in enumerate(listed) for k in range(len(tasks))]
    measured: list[dict[int, Result]] = [{} for _ in figures]
    total = len(places) + len(figures)
    thread, futures = ThreadPoolExecutor(1), dict[int, Future[Finished]]()

    def finished(owner: int) -> Finished:
        """Return what is made of a figure; its measurements are let go."""
        results, measured[owner] = measured[owner], {}
        return finish(figures[owner].assemble(preset, [results[k] for k in range(len(results))]))

    def hand_on(owner: int) -> None:
        futures[owner] = thread.submit(finished, owner)
        for future in futures.values():
            if future.done():
                future.result()  # an error ends the run now, not after all that is left to measure

    try:
        # The workers must end now when there is an error, and not only when its traceback is deleted.
        with closing(running):
            for owner, tasks in enumerate(listed):
                if not tasks:
                    hand_on(owner)
            for done, (index, result) in enumerate(running, 1):
                owner, k = places[index]
                if isinstance(result, Failure):
                    raise TaskFailed(f"{figures[owner].name}: {result}")
                measured[owner][k] = result
                progress(done, total, figures[owner].name)
                if len(measured[owner]) == len(listed[owner]):
                    hand_on(owner)
        for owner, figure in enumerate(figures):
            yield futures[owner].result()
            progress(len(places) + owner + 1, total, figure.name)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
