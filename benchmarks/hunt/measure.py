"""Networks of the search: what is measured, what is measured next, and the theory beside it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.hunt.settings import DIMENSION, Setting
from threadpoolctl import threadpool_limits

from gradstep import Problem, predict_many, simulate
from gradstep.errors import GradstepError
from gradstep.gaussian import moments
from gradstep.sweeps.store import Store, write_whole
from gradstep.sweeps.task import Failure, Task, carry_out

__all__ = ["ERRORS", "LEAST", "STEP", "Search", "network", "size_of_errors", "theory_of"]

#: What a setting is judged by, at each of its penalties; and what is told of its step.
ERRORS = ("test_error", "train_error")
STEP = ("alignment", "spike_strength", "bulk_variance")

#: Networks of a first look; each further one doubles their number.
FIRST = 4

#: Seconds of one processor that a network may take at the design's dimension, and in cubes of it at a larger one.
LONGEST = 15.0

#: Errors below this share of the labels' power count as this share.
LEAST = 0.01

Array = np.ndarray


def simulation(setting: Setting, seed: int, d: int) -> Task:
    """Return what names one network in the store."""
    parameters = {"problem": Problem.from_dict(setting.problem(d)).to_dict(), "ridge": setting.penalties(d)}
    return Task("benchmarks.hunt.measure:network", parameters, seed)


def network(task: Task) -> dict[str, Any]:
    """Measure one network; one that takes too long has a `failure` in place of its values.

    Where the population's kernel has no closed form it can take minutes, of kinked activations after a large step. So
    -sigma is measured as sigma with the readout -a, which is the same network and has a closed form more often.
    """
    settings = dict(task.parameters["problem"])
    if settings["activation"].startswith("-(") and settings["activation"].endswith(")"):
        settings["activation"] = settings["activation"][2:-1]
        law = Problem.from_dict(settings).readout
        settings["readout"] = {-v: w for v, w in zip(law.values, law.weights, strict=True)} or "gaussian"
    problem = Problem.from_dict(settings)

    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST * max(1.0, (settings["d"] / DIMENSION) ** 3))
    try:
        with threadpool_limits(1):
            measured = simulate(problem, [task.seed], ridge=task.parameters["ridge"], kernel_tolerance=1e-4)
    except (TimeoutError, GradstepError) as error:
        return {"failure": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    # One value for each penalty, or one for all of them.
    return {name: np.atleast_1d(measured[name][0]).tolist() for name in (*ERRORS, *STEP)}


@lru_cache(maxsize=4096)
def _predicted(problem: str, penalties: tuple[float, ...]) -> dict[str, Any]:
    found = carry_out(
        Task("gradstep.sweeps.measure:predicted", {"problem": json.loads(problem), "ridge": penalties}, 0)
    )
    if isinstance(found, Failure):
        return {"failure": str(found)}
    values = {name: [float(v) for v in found[name]] for name in (*ERRORS, *STEP)}
    failures = [text for text in found.get("failure", ()) if text]
    if failures:
        return {**values, "failure": failures[0]}
    settings = json.loads(problem)
    predictions = predict_many([Problem.from_dict({**settings, "ridge": ridge}) for ridge in penalties])
    return {**values, "caveats": [[caveat.name for caveat in p.caveats] for p in predictions]}


def theory_of(problem: dict[str, Any], penalties: Sequence[float]) -> dict[str, Any]:
    """Return what theory says at each penalty, with the names of its caveats, and under `failure` what it refuses."""
    return _predicted(json.dumps(problem), tuple(penalties))


def size_of_errors(problem: dict[str, Any], mean: Array) -> Array:
    """Return what a deviation is a share of, shape (errors, penalties): the error, or a hundredth of the labels' power.

    Fits that all but interpolate have training errors of 1e-10, of which no share says anything.
    """
    read = Problem.from_dict(problem)
    return np.asarray(np.maximum(mean, LEAST * (moments(read.teacher).second_moment + read.noise**2)))


class Search:
    """A folder of measured networks, and of the settings that the local search has come to.

    Parameters
    ----------
    folder : Path
        One file for each network, whole or not there: what ends a run at any moment loses the network it was at.
    workers : int
        Processes. What is measured does not depend on it.
    minutes : float
        After this time no further network is begun.
    """

    def __init__(self, folder: Path, workers: int = 1, minutes: float = np.inf) -> None:
        self.store, self.workers, self.end = Store(folder), workers, time.monotonic() + 60 * minutes
        self.store.prepare()
        self._path = folder / "found.json"
        self._draws: dict[tuple[str, int], list[dict[str, Any]]] = {}

    # --- settings of the local search --------------------------------------------------------------------------------

    def found(self) -> list[Setting]:
        """Return the settings that the local search has measured."""
        if not self._path.exists():
            return []
        return [
            Setting(**{**entry, "point": tuple(entry["point"])})
            for entry in json.loads(self._path.read_text(encoding="utf-8"))
        ]

    def keep(self, setting: Setting) -> None:
        """Add one to them."""
        write_whole(self._path, json.dumps([asdict(s) for s in [*self.found(), setting]]))

    # --- networks ----------------------------------------------------------------------------------------------------

    def draws(self, setting: Setting, d: int = DIMENSION) -> list[dict[str, Any]]:
        """Return the networks measured so far, in the order of their seeds."""
        known = self._draws.setdefault((setting.name, d), [])
        while (result := self.store.read(simulation(setting, setting.first_seed + len(known), d))) is not None:
            if "failure" in result:
                break
            known.append(dict(result))
        return known

    def values(self, setting: Setting, name: str, d: int = DIMENSION) -> Array:
        """Return a measured quantity, shape (networks, penalties)."""
        return np.array([[float(v) for v in draw[name]] for draw in self.draws(setting, d)])

    def means(self, setting: Setting, d: int = DIMENSION) -> tuple[Array, Array]:
        """Return means of the errors and their standard errors, shape (errors, penalties)."""
        each = np.array([self.values(setting, name, d) for name in ERRORS])
        return each.mean(axis=1), each.std(axis=1, ddof=1) / each.shape[1] ** 0.5

    def error(self, setting: Setting, d: int = DIMENSION) -> Array:
        """Return relative standard errors, shape (errors, penalties)."""
        mean, error = self.means(setting, d)
        return np.asarray(error / size_of_errors(setting.problem(d), mean))

    def off(self, setting: Setting, d: int = DIMENSION) -> Array:
        """Return relative deviations of theory, shape (errors, penalties); nan where theory refuses."""
        theory, mean = theory_of(setting.problem(d), setting.penalties(d)), self.means(setting, d)[0]
        if any(name not in theory for name in ERRORS):
            return np.full(mean.shape, np.nan)
        predicted = np.array([theory[name] for name in ERRORS])
        return np.asarray((predicted - mean) / size_of_errors(setting.problem(d), mean))

    def doubt(self, setting: Setting, d: int = DIMENSION) -> float:
        """Return the largest deviation that is sure: less two standard errors; of one penalty and error."""
        sure = np.abs(self.off(setting, d)) - 2 * self.error(setting, d)
        return float(np.nanmax(sure, initial=-1.0))

    def simulate(self, wanted: Iterable[tuple[Setting, int, int]]) -> None:
        """Measure: (setting, d, networks) in this order, until the time is over; a failure ends its setting."""

        def tasks() -> Iterator[Task]:
            for setting, d, networks in wanted:
                for seed in range(setting.first_seed + len(self.draws(setting, d)), setting.first_seed + networks):
                    task = simulation(setting, seed, d)
                    if not self.over and self.store.read(task) is None:
                        yield task
                    if "failure" in (self.store.read(task) or {}):
                        break

        if self.workers == 1:
            for task in tasks():
                self.store.write(task, network(task))
            return
        with ProcessPoolExecutor(self.workers, mp_context=get_context("spawn")) as pool:
            running: dict[Future[dict[str, Any]], Task] = {}
            for task in tasks():
                running[pool.submit(network, task)] = task
                if len(running) == 2 * self.workers:
                    self._finish(running, wait(running, return_when=FIRST_COMPLETED).done)
            self._finish(running, set(running))

    def _finish(self, running: dict[Future[dict[str, Any]], Task], done: set[Future[dict[str, Any]]]) -> None:
        for future in done:
            self.store.write(running.pop(future), future.result())

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.end

    def measured(self, settings: Sequence[Setting], d: int = DIMENSION) -> list[Setting]:
        """Return the settings with enough networks for a standard error."""
        return [s for s in settings if len(self.draws(s, d)) >= FIRST]

    def measure(self, settings: Sequence[Setting], most: int, precision: float, d: int = DIMENSION) -> None:
        """Measure until every standard error is small or the number of networks is `most`.

        The number is doubled from one look to the next, and each look begins with the largest deviations: when the time
        is over, what is left uncertain is what agreed. Far more precision than the deviation asks for is not wanted.
        """
        networks = min(FIRST, most)
        self.simulate((setting, d, networks) for setting in settings)
        while networks < most and not self.over:
            networks = min(2 * networks, most)
            rough = [s for s in self.measured(settings, d) if self._is_rough(s, precision, d)]
            rough.sort(key=lambda s: -self.doubt(s, d))
            print(f"{len(rough)} of {len(settings)} settings: up to {networks} networks at d = {d}", flush=True)
            self.simulate((setting, d, networks) for setting in rough)

    def _is_rough(self, setting: Setting, precision: float, d: int) -> bool:
        error, off = self.error(setting, d), np.nan_to_num(np.abs(self.off(setting, d)))
        return bool(np.any(error > np.maximum(precision, off / 8)))
