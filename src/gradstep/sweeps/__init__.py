"""Many measurements: what a task is, where its result lies, how tasks are carried out, and grids of problems."""

from gradstep.sweeps.collect import Status, check_file, collect, save, status
from gradstep.sweeps.design import Axis, Design, design_of
from gradstep.sweeps.execution import execute
from gradstep.sweeps.executors import Cluster, Executor, InProcess, Processes, WorkerLost
from gradstep.sweeps.manifest import manifest_of
from gradstep.sweeps.progress import State
from gradstep.sweeps.store import RESULT_VERSION, Store, StoreError
from gradstep.sweeps.sweep import run, sweep
from gradstep.sweeps.task import Failure, Result, Task, TaskFailed

__all__ = [
    "RESULT_VERSION",
    "Axis",
    "Cluster",
    "Design",
    "Executor",
    "Failure",
    "InProcess",
    "Processes",
    "Result",
    "State",
    "Status",
    "Store",
    "StoreError",
    "Task",
    "TaskFailed",
    "WorkerLost",
    "check_file",
    "collect",
    "design_of",
    "execute",
    "manifest_of",
    "run",
    "save",
    "status",
    "sweep",
]
