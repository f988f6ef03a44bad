"""Running a design: fixed seeds, or seeds on demand until every point is known well enough."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from gradstep.checks import MOST_SEEDS, function_or_none, integer, real
from gradstep.errors import InvalidInput
from gradstep.problem import Problem
from gradstep.sweeps.collect import check_collectable, collect
from gradstep.sweeps.design import DEVICE_AT_HAND, PREDICTED, SIMULATED, Design, design_of
from gradstep.sweeps.execution import here, results_of
from gradstep.sweeps.executors import Cluster, Executor
from gradstep.sweeps.manifest import MANIFEST, claim
from gradstep.sweeps.progress import Running, State
from gradstep.sweeps.store import Store, StoreError
from gradstep.sweeps.task import Failure, Result, Task, TaskFailed

if TYPE_CHECKING:
    import xarray

__all__ = ["run", "sweep"]

#: How often, in seconds, the caller hears of the progress.
_REPORT_EVERY = 0.5

Report = Callable[[State], None]


def run(
    design: Design,
    folder: Path,
    *,
    workers: int | None = None,
    executor: Callable[[], Executor] | None = None,
    shard: tuple[int, int] = (0, 1),
    until_se: float | None = None,
    max_seeds: int = 10_000,
    report: Report | None = None,
) -> State:
    """Carry a design out, from whatever is finished in a directory.

    Parameters
    ----------
    design : Design
    folder : Path
        Results, one file a task.
    workers
        As for `sweep`.
    executor : callable, optional
        Makes another place to run than processes on this machine.
    shard : (int, int)
        (i, N) with 0 <= i < N: carry out every N-th task only.
    until_se, max_seeds, report
        As for `sweep`; the last report is the state that is returned.

    Raises
    ------
    InvalidInput
        On bad options, a device that is not there, a directory that cannot be written or holds another sweep; before
        any work.
    StoreError, WorkerLost
        If results cannot be written or workers cannot be reached any more; what is finished is kept.
    """
    _check_options(design, shard, until_se, max_seeds)
    function_or_none("report", report, "a function of a gradstep.sweeps.State")
    with closing(executor() if executor is not None else here(workers)) as place:
        if design.device is not None and design.seeds:
            _check_device(design.device, design.dtype, place)
        store = Store(folder)
        store.prepare()
        claim(folder, design)
        followed = _Run(design, store, place, report, total=len(range(shard[0], design.task_count, shard[1])))
        followed.carry_out(design.tasks(shard))
        if until_se is not None:
            followed.add_seeds(until_se, max_seeds)
    return followed.end()


class _Run:
    """A design that is being computed: the results of every point so far, and the function that reports them."""

    def __init__(self, design: Design, store: Store, place: Executor, report: Report | None, *, total: int) -> None:
        self._design, self._store, self._place, self._report = design, store, place, report
        self._running = Running(design.points, design.penalties)
        self._state = State(0, total, 0, "", math.nan)
        self._failing: set[int] = set()
        self._reported = -math.inf

    def carry_out(self, tasks: Iterator[tuple[int, Task]]) -> None:
        """Carry out tasks, each given with its point."""
        in_flight: dict[int, tuple[int, Task]] = {}

        def listed() -> Iterator[Task]:
            for index, (point, task) in enumerate(tasks):
                in_flight[index] = (point, task)
                yield task

        for index, result in results_of(listed(), self._store, self._place):
            self._take(*in_flight.pop(index), result)
            if self._report is not None and monotonic() - self._reported >= _REPORT_EVERY:
                self._reported = monotonic()
                self._report(replace(self._state, worst_z=self._running.worst_z()))

    def _take(self, point: int, task: Task, result: Result | Failure) -> None:
        state = replace(self._state, done=self._state.done + 1)
        if isinstance(result, Failure):
            state = _with_failure(state, f"{result} ({_problem(task)})")
            if task.measure == SIMULATED:
                self._failing.add(point)
        elif task.measure == PREDICTED:
            self._running.predict(point, result)
            for ridge, reason in zip(task.parameters["ridge"], result.get("failure", ()), strict=False):
                if reason:
                    said = f"{reason} (ridge {ridge:g} of {_problem(task, omit=('ridge',))})"
                    state = _with_failure(state, said)
        elif task.measure == SIMULATED:
            self._running.add(point, result)
        else:
            state = replace(state, precision_cost=float(result["test_error"]))
        self._state = state

    def add_seeds(self, target: float, most: int) -> None:
        """Add seeds, round by round, to the points whose relative standard error is above a target.

        Points with a network that failed are left out: more of them would fail too.
        """
        seeds = np.full(self._design.points, self._design.seeds)
        while True:
            error = self._running.relative_error()
            error[list(self._failing)] = np.nan
            wanted = _wanted(error, seeds, target, most)
            short = np.flatnonzero(wanted > seeds)
            if not short.size:
                return
            self._state = replace(self._state, total=self._state.total + int((wanted - seeds)[short].sum()))
            worst_first = short[np.argsort(-error[short], kind="stable")]
            self.carry_out(
                (point, self._design.simulation_task(point, index))
                for point in map(int, worst_first)
                for index in range(seeds[point], wanted[point])
            )
            seeds = wanted

    def end(self) -> State:
        """Report and return the last state."""
        if not (self._store.folder / MANIFEST).is_file():
            raise StoreError(f"{self._store.folder} was deleted or emptied meanwhile; run the same command again")
        state = replace(self._state, worst_z=self._running.worst_z())
        if self._report is not None:
            self._report(state)
        return state


def _problem(task: Task, omit: Collection[str] = ()) -> str:
    """Return the problem of a task in words."""
    return Problem.from_dict(task.parameters["problem"]).described(omit)


def _with_failure(state: State, said: str) -> State:
    return replace(state, failed=state.failed + 1, first_failure=state.first_failure or said)


def _check_device(device: str, dtype: str, place: Executor) -> None:
    """See that a device is there, where the work will be done: the driver need not have one."""
    place.submit(0, Task(DEVICE_AT_HAND, {"device": device, "dtype": dtype}, 0))
    ((_, found),) = place.finished()
    if isinstance(found, Failure):
        raise TaskFailed(f"the device cannot be looked for: {found}")
    if found["allowed"]:
        raise InvalidInput("device", device, found["allowed"])


def _wanted(error: Any, seeds: Any, target: float, most: int) -> Any:
    """Return the seeds each point needs: errors fall like one over the square root; a round at most doubles them."""
    with np.errstate(invalid="ignore", over="ignore"):
        needed = np.ceil(seeds * np.minimum(error / target, 10.0) ** 2)
    grown = np.minimum(np.maximum(needed, seeds + 1), 2 * seeds)
    return np.where(error > target, np.minimum(grown, np.maximum(most, seeds)), seeds).astype(int)


def _check_options(design: Design, shard: tuple[int, int], until_se: float | None, max_seeds: int) -> None:
    mine, shards = shard
    if not (0 <= mine < shards):
        raise InvalidInput("shard", f"{mine}/{shards}", "i/N with 0 <= i < N")
    if until_se is None:
        return
    real("until_se", until_se, "a relative standard error in (0, 1)", lambda value: 0 < value < 1)
    if shards > 1:
        raise InvalidInput("until_se", until_se, "no shard: it needs the results of all; run it after the shards")
    if design.seeds < 2:
        raise InvalidInput("seeds", design.seeds, "at least 2 where more are added on demand")
    integer(
        "max_seeds",
        max_seeds,
        design.seeds,
        MOST_SEEDS,
        allowed=f"an integer from seeds ({design.seeds}) to {MOST_SEEDS}",
    )


def sweep(
    problem: Problem | Mapping[str, Any],
    over: Mapping[str, Sequence[Any] | str],
    *,
    zipped: Sequence[Mapping[str, Sequence[Any] | str]] = (),
    seeds: int = 16,
    first_seed: int = 0,
    paired: bool = False,
    theory: bool = True,
    device: str | None = None,
    dtype: str = "float64",
    store: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    until_se: float | None = None,
    max_seeds: int = 10_000,
    report: Report | None = None,
) -> xarray.Dataset:
    """Predict and simulate a grid of problems, side by side.

    Parameters
    ----------
    problem : Problem or mapping
        The parameters that all points share; a mapping is read by `Problem.from_dict`, in any paper's convention.
    over : mapping
        Parameter to its values, a list or text such as ``"0.5d:4d:8"`` as in `gradstep.curve`: every combination is a
        point. An axis of penalties costs one factorisation a network.
    zipped : sequence of mapping
        Each one an axis along which several parameters vary together: lists of the same length.
    seeds : int
        Networks simulated at each point; 0 for theory only.
    first_seed : int
        Root of all the seeds.
    paired : bool
        Use the same seeds at all points instead of independent ones.
    theory : bool
        Whether to predict.
    device, dtype
        As in `gradstep.simulate`.
    store : path, optional
        Directory of results; a run that was interrupted goes on from it. Without one nothing is kept.
    workers : int, optional
        Processes on this machine (default: one per core). Results do not depend on it.
    cluster : str, optional
        Address of a Dask scheduler, or ``"local"``, in place of processes.
    until_se : float, optional
        Add seeds where the relative standard error of the test error is larger than this, the worst points first.
    max_seeds : int
        Bound on the seeds of a point when they are added.
    report : callable, optional
        Called with a `gradstep.sweeps.State` about twice a second.

    Returns
    -------
    xarray.Dataset
        As `gradstep.sweeps.collect`.

    Raises
    ------
    InvalidInput
        On anything that cannot be run, before any work.
    """
    design = design_of(
        problem,
        over,
        zipped=zipped,
        seeds=seeds,
        first_seed=first_seed,
        paired=paired,
        theory=theory,
        device=device,
        dtype=dtype,
    )
    check_collectable()
    if store is not None and not isinstance(store, str | os.PathLike):
        raise InvalidInput("store", store, "the path of a directory")
    place = (lambda: Cluster(cluster, workers)) if cluster is not None else None
    folder = nullcontext(os.fspath(store)) if store is not None else tempfile.TemporaryDirectory(prefix="gradstep-")
    with folder as name:
        state = run(
            design,
            Path(name),
            workers=workers,
            executor=place,
            until_se=until_se,
            max_seeds=max_seeds,
            report=report,
        )
        if state.failed:
            message = f"{state.failed} results failed, and are nan in the dataset; the first: {state.first_failure}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return collect(Path(name))
