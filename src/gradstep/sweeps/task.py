"""One unit of work: a function of the package, its settings, a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gradstep.errors import GradstepError, InvalidInput
from gradstep.threads import one_thread

__all__ = ["Failure", "Result", "Task", "carry_out", "digest"]

Result = Mapping[str, Any]
"""What a task returns: names to numbers, or to (nested) lists of numbers."""


def digest(value: object) -> str:
    """Return the SHA-256 of a plain value's canonical JSON text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Task:
    """One measurement: it depends on these three values and on nothing else.

    Attributes
    ----------
    measure : str
        ``"gradstep.module:function"``; the function is called as ``function(parameters, seed)`` and returns a mapping
        of names to plain numbers or (nested) lists of them.
    parameters : mapping
        Plain values, as JSON has them.
    seed : int
    """

    measure: str
    parameters: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> dict[str, Any]:
        """The plain values that identify the task."""
        return {"measure": self.measure, "parameters": self.parameters, "seed": self.seed}

    def run(self) -> Result:
        """Carry the task out in this process.

        Raises `InvalidInput` if `measure` is not a function of this package.
        """
        module, _, name = self.measure.partition(":")
        # A settings or result file must not be able to call anything else.
        if module.split(".")[0] != "gradstep" or not name.isidentifier():
            raise InvalidInput("measure", self.measure, "'gradstep.module:function'")
        result: Result = getattr(import_module(module), name)(self.parameters, self.seed)
        return result


@dataclass(frozen=True)
class Failure:
    """The failure of a task. Nothing is stored for it, so that the next run tries again.

    Attributes
    ----------
    error : str
        Type of the error.
    message : str
    """

    error: str
    message: str

    def __str__(self) -> str:
        return f"{self.error}: {self.message}"


class TaskFailed(GradstepError, RuntimeError):  # noqa: N818 - reads as what it says
    """A task that a result depends on has failed."""


def carry_out(task: Task) -> Result | Failure:
    """Run a task on one BLAS thread; whatever it raises becomes a value, so that one failure does not end a sweep."""
    try:
        with one_thread():
            return task.run()
    except Exception as error:
        return Failure(type(error).__name__, " ".join(str(error).split()))
