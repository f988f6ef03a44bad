"""A figure of a paper: its settings file, its theory curves, its simulations, and the verdict on their distance.

A settings file says which parameters the paper states and which are ours, fixes sizes and seeds for three presets
(``quick`` for tests, ``standard`` for a report in minutes, ``paper`` for the paper's own sizes), and sets the numeric
criterion that the figure has to meet.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

from gradstep.errors import InvalidInput
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.theory import predict_many

__all__ = [
    "RESULT_VERSION",
    "CurveResult",
    "FigureResult",
    "FigureSettings",
    "Point",
    "judge",
    "load_figures",
    "run_figure",
]

#: Raise it when the simulation of a given problem and seed changes: results on disk of other versions are not used.
RESULT_VERSION = 1

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FigureSettings:
    """What a settings file holds.

    Attributes
    ----------
    name, row, paper, title : str
        Identifier, row of the coverage table, paper and title.
    stated, ours : str
        Which settings the paper states, and which are chosen here.
    axis : mapping
        Parameter on the horizontal axis, its label, and the range of the theory lines.
    base : mapping
        Parameters shared by all curves, in the paper's convention.
    curves : tuple of mapping
        Label, regime, changed parameters and, where a limit of validity applies, the relative allowance.
    guides : tuple of mapping
        Reference lines: label and height.
    presets : mapping
        Sizes, points and seeds by preset name.
    criterion : mapping
        Largest and median ``|z|`` allowed.
    """

    name: str
    row: str
    paper: str
    title: str
    stated: str
    ours: str
    axis: Mapping[str, Any]
    base: Mapping[str, Any]
    curves: tuple[Mapping[str, Any], ...]
    guides: tuple[Mapping[str, Any], ...]
    presets: Mapping[str, Mapping[str, Any]]
    criterion: Mapping[str, float]

    def problem(self, curve: Mapping[str, Any], x: float, size: Mapping[str, Any]) -> Problem:
        """Return the problem of a curve at a place of the horizontal axis, at the sizes of a preset."""
        return Problem.from_dict({**self.base, **size, **curve["parameters"], self.axis["parameter"]: x})


@dataclass(frozen=True)
class Point:
    """Theory and simulation at one place.

    Attributes
    ----------
    x : float
    theory, mean, standard_error : float
        Test error predicted, and measured over the seeds.
    seeds : int
    z : float
        Student's t of the difference, mapped to the standard normal's scale (few seeds have heavy tails).
    """

    x: float
    theory: float
    mean: float
    standard_error: float
    seeds: int
    z: float


@dataclass(frozen=True)
class CurveResult:
    """A theory line, the line of the paper's own limit where there is one, and the simulated points."""

    label: str
    regime: str
    allowance: float
    x: tuple[float, ...]
    theory: tuple[float, ...]
    limit: tuple[float, ...] | None
    points: tuple[Point, ...]


@dataclass(frozen=True)
class FigureResult:
    """A finished figure and the verdict on it.

    Attributes
    ----------
    largest_z, median_z : float
        Over all simulated points.
    passed : bool
        Whether the criterion of the settings file is met.
    """

    settings: FigureSettings
    preset: str
    curves: tuple[CurveResult, ...]
    largest_z: float
    median_z: float
    passed: bool

    @property
    def z_scores(self) -> tuple[float, ...]:
        """Every point's z, curve by curve."""
        return tuple(point.z for curve in self.curves for point in curve.points)

    @property
    def points(self) -> int:
        """Number of simulated points."""
        return len(self.z_scores)


def load_figures(names: Sequence[str] | None = None) -> list[FigureSettings]:
    """Read the settings files that come with the package.

    Parameters
    ----------
    names : sequence of str, optional
        Figures to load (all by default).

    Raises
    ------
    InvalidInput
        On an unknown name.
    """
    found = {settings.name: settings for settings in sorted(_shipped(), key=lambda s: (s.paper, s.name))}
    for name in names or ():
        if name not in found:
            raise InvalidInput("figure", name, ", ".join(found))
    return [found[name] for name in (names or found)]


def _shipped() -> Iterator[FigureSettings]:
    for paper in ("ba2022", "cui2024"):
        for entry in files("gradstep.papers").joinpath(paper, "figures").iterdir():
            if entry.name.endswith(".toml"):
                values = tomllib.loads(entry.read_text(encoding="utf-8"))
                curves = tuple(values.pop("curves"))
                guides = tuple(values.pop("guides", ()))
                yield FigureSettings(
                    name=entry.name.removesuffix(".toml"), paper=paper, curves=curves, guides=guides, **values
                )


def judge(theory: float, values: Sequence[float], allowance: float = 0.0) -> tuple[float, float, float]:
    """Return the mean, its standard error, and how far theory is from it on the scale of a standard normal.

    Parameters
    ----------
    theory : float
        Predicted value.
    values : sequence of float
        At least two measurements.
    allowance : float
        Relative error of the theory that a documented limit of validity explains; only what exceeds it counts.
    """
    sample = np.asarray(values, dtype=np.float64)
    mean = float(sample.mean())
    error = float(sample.std(ddof=1) / math.sqrt(len(sample)))
    beyond = max(abs(mean - theory) - allowance * abs(theory), 0.0)
    t = math.copysign(beyond / error, mean - theory)
    # The tail probability of Student's law, read on the normal scale: 6 seeds must not look like 6 sigma.
    tail = stats.t.logsf(abs(t), len(sample) - 1)
    z = float(-stats.norm.ppf(math.exp(tail))) if tail > -700 else 37.0
    return mean, error, math.copysign(z, t)


def run_figure(
    settings: FigureSettings,
    preset: str,
    *,
    cache: Path,
    workers: int | None = None,
    progress: Progress | None = None,
) -> FigureResult:
    """Compute a figure: theory lines, and simulations that resume from `cache`.

    Parameters
    ----------
    settings : FigureSettings
    preset : {"quick", "standard", "paper"}
    cache : Path
        Directory with one file per finished simulation.
    workers : int, optional
        Processes (default: one per core). Results do not depend on it.
    progress : callable, optional
        Called with (finished, total) simulations.

    Raises
    ------
    InvalidInput
        On an unknown preset or a bad number of workers.
    """
    if preset not in settings.presets:
        raise InvalidInput("preset", preset, ", ".join(settings.presets))
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InvalidInput("workers", workers, "an integer >= 1")
    chosen = settings.presets[preset]
    places, seeds = list(map(float, chosen["points"])), tuple(range(chosen["seed"], chosen["seed"] + chosen["seeds"]))
    size = {"d": chosen["d"]}
    jobs = {
        (index, x): settings.problem(curve, x, size)
        for index, curve in enumerate(settings.curves)
        if not curve.get("theory_only", False)
        for x in places
    }
    measured = dict(zip(jobs, _simulate_all(list(jobs.values()), seeds, cache, workers, progress), strict=True))
    at_points = dict(zip(jobs, predict_many(jobs.values()), strict=True))
    lines = [_line(settings, curve, size) for curve in settings.curves]
    curves = []
    for index, (curve, (x, theory, limit)) in enumerate(zip(settings.curves, lines, strict=True)):
        allowance = float(curve.get("allowance", 0.0))
        points = []
        for key in jobs:
            if key[0] == index:
                mean, error, z = judge(at_points[key].test_error, measured[key], allowance)
                points.append(Point(key[1], at_points[key].test_error, mean, error, len(seeds), z))
        curves.append(CurveResult(curve["label"], curve["regime"], allowance, x, theory, limit, tuple(points)))
    scores = np.abs([point.z for curve in curves for point in curve.points])
    largest, median = float(np.max(scores)), float(np.median(scores))
    passed = largest <= settings.criterion["largest_z"] and median <= settings.criterion["median_z"]
    return FigureResult(settings, preset, tuple(curves), largest, median, passed)


def _line(
    settings: FigureSettings, curve: Mapping[str, Any], size: Mapping[str, Any]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...] | None]:
    axis = settings.axis
    space = np.geomspace if axis.get("scale") == "log" else np.linspace
    x = [float(v) for v in space(axis["from"], axis["to"], axis["count"])]
    theory = predict_many([settings.problem(curve, v, size) for v in x])
    limit = None
    if curve.get("limit", False):
        limit = tuple(p.test_error for p in predict_many([settings.problem(curve, v, {"d": "inf"}) for v in x]))
    return tuple(x), tuple(p.test_error for p in theory), limit


# --- simulations on disk ---


def _key(problem: Problem, seeds: Sequence[int]) -> dict[str, Any]:
    return {"version": RESULT_VERSION, "problem": problem.to_dict(), "seeds": list(seeds)}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _read(path: Path, key: object) -> list[float] | None:
    """Return the values in a result file, or set the file aside and return None if it is not whole."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["key"] == key and stored["checksum"] == _digest(stored["values"]):
            return [float(v) for v in stored["values"]]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    path.replace(path.with_suffix(".damaged"))
    return None


def _write(path: Path, key: object, values: list[float]) -> None:
    # A file appears under its name only when it is whole: a killed process leaves a temporary file at most.
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"key": key, "values": values, "checksum": _digest(values)}), encoding="utf-8")
    temporary.replace(path)


def _task(problem: Problem, seeds: tuple[int, ...], path: Path) -> list[float]:
    with threadpool_limits(1):
        values = [float(v) for v in simulate(problem, seeds=seeds)["test_error"]]
    _write(path, _key(problem, seeds), values)
    return values


def _simulate_all(
    problems: Sequence[Problem], seeds: tuple[int, ...], cache: Path, workers: int | None, progress: Progress | None
) -> list[list[float]]:
    cache.mkdir(parents=True, exist_ok=True)
    paths = [cache / f"{_digest(_key(problem, seeds))[:32]}.json" for problem in problems]
    results = [_read(path, _key(problem, seeds)) for path, problem in zip(paths, problems, strict=True)]
    missing = [index for index, values in enumerate(results) if values is None]
    report = progress or (lambda done, total: None)
    report(len(problems) - len(missing), len(problems))
    if not missing:
        return [values for values in results if values is not None]
    count = min(workers or os.cpu_count() or 1, len(missing))
    if count == 1:
        for done, index in enumerate(missing, len(problems) - len(missing) + 1):
            results[index] = _task(problems[index], seeds, paths[index])
            report(done, len(problems))
        return [values for values in results if values is not None]
    # Spawned, not forked: a fork inherits BLAS threads in an unusable state.
    # Ctrl-C reaches the whole process group: workers finish and write what they are at, the parent stops the rest.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    context = get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=signal.signal, initargs=ignore) as pool:
        pending: dict[Future[list[float]], int] = {
            pool.submit(_task, problems[index], seeds, paths[index]): index for index in missing
        }
        done = len(problems) - len(missing)
        try:
            while pending:
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    results[pending.pop(future)] = future.result()
                    done += 1
                    report(done, len(problems))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [values for values in results if values is not None]
