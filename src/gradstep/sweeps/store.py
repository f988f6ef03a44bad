"""Results on disk: one whole, checksummed file per finished task."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradstep.sweeps.task import Result, Task, digest

__all__ = ["RESULT_VERSION", "Store"]

#: Raise it when a task's result changes for the same settings and seed: files of other versions are not used.
RESULT_VERSION = 2


@dataclass(frozen=True)
class Store:
    """A directory of results.

    Attributes
    ----------
    folder : Path
        Made on first write if missing.
    """

    folder: Path

    def path(self, task: Task) -> Path:
        """Where the result of a task lies, finished or not."""
        return self.folder / f"{digest(self._key(task))[:32]}.json"

    def read(self, task: Task) -> Result | None:
        """Return a stored result, or None; a file that is not whole is set aside and counts as missing."""
        path, key = self.path(task), self._key(task)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            result = stored["result"]
            if (
                digest(stored["key"]) == digest(key)
                and stored["checksum"] == digest(result)
                and isinstance(result, dict)
            ):
                return result
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        path.replace(path.with_suffix(".damaged"))
        return None

    def write(self, task: Task, result: Result) -> None:
        """Store a result: the file appears under its name only when it is whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(task)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        content = {"key": self._key(task), "result": result, "checksum": digest(result)}
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(path)

    @staticmethod
    def _key(task: Task) -> dict[str, Any]:
        return {"version": RESULT_VERSION, **task.key}
