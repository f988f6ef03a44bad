"""Many measurements: what a task is, where its result lies, how tasks are carried out, and grids of problems."""

from gradstep.sweeps.execution import execute
from gradstep.sweeps.executors import Cluster, Executor, InProcess, Processes, WorkerLost
from gradstep.sweeps.store import RESULT_VERSION, Store, StoreError
from gradstep.sweeps.task import Failure, Result, Task, TaskFailed

__all__ = [
    "RESULT_VERSION",
    "Cluster",
    "Executor",
    "Failure",
    "InProcess",
    "Processes",
    "Result",
    "Store",
    "StoreError",
    "Task",
    "TaskFailed",
    "WorkerLost",
    "execute",
]
