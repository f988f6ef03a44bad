"""Cost of sweeps: overhead of a task, two workers against one, a hundred thousand finished tasks, memory of the driver.

``run()`` returns rows ``{"name", "measured", "baseline", "baseline_name", "ratio", "target", "better", "unit"}``.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_theory import row

import gradstep as gs
from gradstep.sweeps import Design, Processes, Store, Task, collect, design_of, execute, run, status
from gradstep.sweeps.manifest import claim
from gradstep.theory.prediction import QUANTITIES

Row = dict[str, Any]

_SMALL = gs.Problem(activation="erf", teacher="erf", d=20, width=20, n_step=20, n=20, eta=1.0, ridge=0.1)
_CANNED = {name: [0.5] for name in (*QUANTITIES, "residual")}


class _Immediate:
    """An executor whose tasks cost nothing: what is left is the driver."""

    slots = 4

    def __init__(self) -> None:
        self._waiting: list[int] = []

    def submit(self, index: int, task: Task) -> None:
        self._waiting.append(index)

    def finished(self) -> list[tuple[int, Any]]:
        waiting, self._waiting = self._waiting, []
        return [(index, _CANNED) for index in waiting]

    def close(self) -> None:
        pass


def _design(points: int, seeds: int) -> Design:
    return design_of(_SMALL, {"n": list(range(20, 20 + points))}, seeds=seeds)


def finished_tasks(points: int, seeds: int) -> list[Row]:
    """Time a sweep whose tasks cost nothing, then its resume, its status and its collection."""
    design = _design(points, seeds)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls = {
            "first run: overhead of the driver": lambda: run(design, folder, executor=_Immediate),
            "resume with nothing to do": lambda: run(design, folder, executor=_Immediate),
            "status": lambda: status(folder),
            "collect": lambda: collect(folder),
        }
        for label, call in calls.items():
            start = time.perf_counter()
            call()
            seconds = time.perf_counter() - start
            if label.startswith("first"):
                rows.append(row(f"{label}, per task", seconds / design.task_count, 5e-3, "goal"))
            else:
                scaled = seconds * 100_000 / design.task_count
                rows.append(row(f"{label}, 100,000 tasks ({design.task_count} timed)", scaled, 60.0, "goal"))
    return rows


def two_workers(tasks: int) -> list[Row]:
    """Time tasks of half a second on one worker process and on two; workers are warm."""
    problem = _SMALL.replace(d=400, width=800, n_step=1600, n=1600)
    seconds = {}
    with tempfile.TemporaryDirectory() as name:
        for workers in (1, 2):
            design = design_of(problem, {}, seeds=tasks + workers, theory=False, first_seed=workers)
            listed = [task for _, task in design.tasks()]
            results = execute(listed, Store(Path(name)), executor=Processes(workers))
            for _ in range(workers):
                next(results)  # each worker has imported its libraries
            start = time.perf_counter()
            for _ in results:
                pass
            seconds[workers] = time.perf_counter() - start
    efficiency = seconds[1] / (2 * seconds[2])
    label = f"efficiency of 2 workers on {tasks} tasks of {seconds[1] / tasks:.2f} s"
    return [row(label, efficiency, 0.9, "goal", better="higher", unit="")]


def memory(points: int, seeds: tuple[int, int]) -> list[Row]:
    """Compare the driver's peak memory for few and for many tasks at the same points."""
    peaks = []
    for count in seeds:
        code = f"from benchmarks.bench_sweeps import peak; print(peak({points}, {count}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout))
    label = f"driver's peak memory, {points * (seeds[1] + 1)} tasks against {points * (seeds[0] + 1)}"
    return [row(label, peaks[1], peaks[0], "the fewer tasks", target=1.1, unit="MB")]


def peak(points: int, seeds: int) -> float:
    """Run tasks that cost nothing and return this process's peak memory in MB."""
    with tempfile.TemporaryDirectory() as name:
        claim(Path(name), _design(points, seeds))
        run(_design(points, seeds), Path(name), executor=_Immediate)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_all(*, quick: bool = False) -> list[Row]:
    """Measure everything: about two minutes, a few seconds if `quick`."""
    if quick:
        return [*finished_tasks(50, 19), *memory(20, (4, 40))]
    return [*finished_tasks(2000, 49), *two_workers(20), *memory(100, (9, 499))]
