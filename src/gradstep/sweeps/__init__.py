"""Many simulations: what a task is, where its result lies, and how tasks are carried out."""

from gradstep.sweeps.execution import execute
from gradstep.sweeps.store import RESULT_VERSION, Store
from gradstep.sweeps.task import Result, Task

__all__ = ["RESULT_VERSION", "Result", "Store", "Task", "execute"]
