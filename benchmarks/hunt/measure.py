"""Networks of the search: what is measured, what is measured next, and the theory beside it."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.hunt.sample import Sample
from benchmarks.hunt.settings import DIMENSION, FACTORS, FACTORS_WITH_INPUTS, SEEDS, Setting, is_found
from threadpoolctl import threadpool_limits

from gradstep import Network, Problem, predict_many, simulate
from gradstep.errors import GradstepError
from gradstep.gaussian import moments
from gradstep.sweeps.store import Store, write_whole
from gradstep.sweeps.task import Failure, Task, carry_out

__all__ = ["ERRORS", "LEAST", "STEP", "VERSION", "Search", "network", "size_of_errors", "theory_of"]

#: What a setting is judged by, at each of its penalties; and what is told of its step.
ERRORS = ("test_error", "train_error")
STEP = ("alignment", "spike_strength", "bulk_variance")

#: Raise it when `gradstep.simulate` draws other networks for the same seeds: rows of another version are measured anew.
VERSION = 1

#: Networks of a first look; each further one doubles their number.
FIRST = 4

#: Seconds of one processor that a network may take at the design's dimension, and in cubes of it at a larger one.
LONGEST = 15.0

#: Beyond this dimension test errors are averages over fresh inputs, four for each dimension: most of the time would go
#: into the exact expectation.
EXACT = 2 * DIMENSION

#: Errors below this share of the labels' power count as this share.
LEAST = 0.01

Array = np.ndarray


def simulation(setting: Setting, seed: int, d: int) -> Task:
    """Return what names one network in the store."""
    parameters = {"problem": Problem.from_dict(setting.problem(d)).to_dict(), "ridge": setting.penalties(d)}
    return Task("benchmarks.hunt.measure:network", parameters, seed)


def network(task: Task, device: str | None = None) -> dict[str, Any]:
    """Measure one network, on a card if one is named; one that takes too long has a `failure` in place of its values.

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
            return _measured(problem, task.seed, task.parameters["ridge"], device)
    except (TimeoutError, GradstepError) as error:
        return {"failure": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _measured(problem: Problem, seed: int, penalties: Sequence[float], device: str | None) -> dict[str, list[float]]:
    """Return errors, one for each penalty, and what the step did, one value for all penalties."""
    d = int(problem.sizes.d)
    if d <= EXACT:
        measured = simulate(problem, [seed], ridge=penalties, kernel_tolerance=1e-4, device=device)
        return {name: np.atleast_1d(measured[name][0]).tolist() for name in (*ERRORS, *STEP)}
    drawn = Network(problem, seed, dtype="float32", device=device)
    fit, spike = drawn.fit(penalties), drawn.spike
    errors = {"test_error": drawn.sampled_risk(fit.readouts, 4 * d)[0], "train_error": fit.train_error}
    step = {"alignment": spike.alignment, "spike_strength": spike.strength, "bulk_variance": spike.bulk_variance}
    return {name: np.atleast_1d(value).tolist() for name, value in {**errors, **step}.items()}


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
    """Measured networks, and the settings that the local search has come to: those of a table and those of a folder.

    A table holds the mean, the standard error and the number of networks of each setting. They were drawn with the
    first of its seeds, and the networks in the folder go on from there. So a search can continue from a table whose
    folder is lost, and what it tells is the same as if all networks were in the folder.

    Parameters
    ----------
    folder : Path
        One file for each network, whole or not there: what ends a run at any moment loses the network it was at.
    workers : int
        Processes. What is measured does not depend on it.
    minutes : float
        After this time no further network is begun.
    rows : sequence of mapping
        Rows of a table, of any dimension.
    device : str, optional
        A card that draws the networks, such as ``"cuda"``. They are the same up to rounding.
    """

    def __init__(
        self,
        folder: Path,
        workers: int = 1,
        minutes: float = np.inf,
        rows: Sequence[Mapping[str, Any]] = (),
        device: str | None = None,
    ) -> None:
        self.store, self.workers, self.end = Store(folder), workers, time.monotonic() + 60 * minutes
        self.device = device
        self.store.prepare()
        self._path = folder / "found.json"
        self._draws: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._rows = {(str(row["name"]), int(row["d"])): row for row in rows}

    # --- settings of the local search --------------------------------------------------------------------------------

    def found(self) -> list[Setting]:
        """Return the settings that the local search has measured, those of the table first."""
        found = {name: _setting(row) for (name, d), row in self._rows.items() if is_found(name) and d == DIMENSION}
        if self._path.exists():
            for entry in json.loads(self._path.read_text(encoding="utf-8")):
                found.setdefault(entry["name"], Setting(**{**entry, "point": tuple(entry["point"])}))
        return list(found.values())

    def keep(self, setting: Setting) -> None:
        """Add one to them."""
        write_whole(self._path, json.dumps([asdict(s) for s in [*self.found(), setting]]))

    # --- networks ----------------------------------------------------------------------------------------------------

    def _row(self, setting: Setting, d: int) -> Mapping[str, Any] | None:
        """Return the row of a table that was measured of this very problem with its first seeds."""
        row = self._rows.get((setting.name, d))
        same = row is not None and row["problem"] == setting.problem(d) and row["first_seed"] == setting.first_seed
        return row if same else None

    def _next_seed(self, setting: Setting, d: int) -> int:
        """Return the first seed that the table has not measured."""
        row = self._row(setting, d)
        return setting.first_seed + (0 if row is None else int(row["networks"]))

    def draws(self, setting: Setting, d: int = DIMENSION) -> list[dict[str, Any]]:
        """Return the networks of the folder that the table does not have, in the order of their seeds."""
        known = self._draws.setdefault((setting.name, d), [])
        first = self._next_seed(setting, d)
        while (result := self.store.read(simulation(setting, first + len(known), d))) is not None:
            if "failure" in result:
                break
            known.append(dict(result))
        return known

    def count(self, setting: Setting, d: int = DIMENSION) -> int:
        """Return how many networks of a setting have been measured."""
        return self._next_seed(setting, d) - setting.first_seed + len(self.draws(setting, d))

    def sample(self, setting: Setting, name: str, d: int = DIMENSION) -> Sample:
        """Return what was measured of a quantity: its mean and scatter over all networks, one for each penalty.

        Raises
        ------
        LookupError
            If no network has been measured.
        """
        draws, row = self.draws(setting, d), self._row(setting, d)
        parts = [] if row is None else [Sample.from_error(row["networks"], row["mean"][name], row["error"][name])]
        if draws:
            values = np.array([[float(v) for v in draw[name]] for draw in draws])
            # The step is the same for all penalties.
            parts.append(Sample.of(values if name in ERRORS else values[:, :1]))
        if not parts:
            raise LookupError(f"no network of setting {setting.name} has been measured at d = {d}")
        return parts[0] if len(parts) == 1 else parts[0].pooled(parts[1])

    def means(self, setting: Setting, d: int = DIMENSION) -> tuple[Array, Array]:
        """Return means of the errors and their standard errors, shape (errors, penalties)."""
        samples = [self.sample(setting, name, d) for name in ERRORS]
        return np.array([s.mean for s in samples]), np.array([s.error for s in samples])

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
                for seed in range(setting.first_seed + self.count(setting, d), setting.first_seed + networks):
                    task = simulation(setting, seed, d)
                    if not self.over and self.store.read(task) is None:
                        yield task
                    if "failure" in (self.store.read(task) or {}):
                        break

        if self.workers == 1:
            for task in tasks():
                self.store.write(task, network(task, self.device))
            return
        with ProcessPoolExecutor(self.workers, mp_context=get_context("spawn")) as pool:
            running: dict[Future[dict[str, Any]], Task] = {}
            for task in tasks():
                running[pool.submit(network, task, self.device)] = task
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
        return [s for s in settings if self.count(s, d) >= FIRST]

    def measure(
        self, settings: Sequence[Setting], most: int, wanted: Callable[[Setting], Array], d: int = DIMENSION
    ) -> None:
        """Measure until every standard error is as small as is wanted, or the number of networks is `most`.

        The number is at most doubled from one look to the next, and each look begins with the largest deviations: when
        the time is over, what is left uncertain is what agreed.

        Parameters
        ----------
        settings : sequence of Setting
        most : int
            Networks of a setting. A setting has no more than `SEEDS` seeds of its own.
        wanted : callable
            Relative standard errors that are wanted of a setting, shape (errors, penalties); infinite where any will
            do.
        d : int
        """
        most = min(most, SEEDS)
        self.simulate((setting, d, min(FIRST, most)) for setting in settings)
        while not self.over:
            ready = self.measured(settings, d)
            goals = {s.name: self._goal(s, most, wanted(s), d) for s in ready}
            rough = [s for s in ready if goals[s.name] > self.count(s, d)]
            rough.sort(key=lambda s: -self.doubt(s, d))
            before = sum(self.count(s, d) for s in rough)
            print(f"{len(rough)} of {len(settings)} settings need more networks at d = {d}", flush=True)
            self.simulate((setting, d, goals[setting.name]) for setting in rough)
            # None is left, or those that are left have failed.
            if sum(self.count(s, d) for s in rough) == before:
                return

    def _goal(self, setting: Setting, most: int, wanted: Array, d: int) -> int:
        """Return how many networks to have at the next look: what seems to be needed, at most twice as many."""
        count = self.count(setting, d)
        excess = float(np.max(self.error(setting, d) / wanted))
        return count if excess <= 1 else min(2 * count, math.ceil(1.05 * count * excess**2), most)


def _setting(row: Mapping[str, Any]) -> Setting:
    factors = FACTORS if len(row["levels"]) == len(FACTORS) else FACTORS_WITH_INPUTS
    levels = dict(zip(factors, row["levels"], strict=True))
    return Setting(str(row["name"]), levels, int(row["member"]), tuple(row["point"]))
