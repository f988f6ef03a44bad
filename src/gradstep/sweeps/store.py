"""Results on disk: one whole, checksummed file per finished task."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradstep.errors import GradstepError, InvalidInput
from gradstep.reading import read_json
from gradstep.sweeps.task import Result, Task, digest
from gradstep.whole_file import replace_file

__all__ = ["RESULT_VERSION", "Store", "StoreError", "set_aside", "write_whole"]

#: Raise it when a task's result changes for the same settings and seed: files of other versions are not used.
RESULT_VERSION = 38

#: Temporary files this old, in seconds, are of writers that were killed: a live one needs its own for milliseconds.
_STALE = 24 * 3600.0
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")

_log = logging.getLogger("gradstep")


class StoreError(GradstepError, OSError):
    """Results cannot be written any more; what is finished is whole on disk."""


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears under its name only when it is whole.

    Raises `StoreError` if it cannot be written (full disk, permissions).
    """
    content = text.encode("utf-8")
    try:
        try:
            replace_file(path, content)
        except FileNotFoundError:
            # Its shelf may be new. What holds the shelves was there before any work: if it is gone, so are results.
            path.parent.mkdir(exist_ok=True)
            replace_file(path, content)
    except FileNotFoundError as error:
        raise StoreError(f"cannot write {path}: its directory was deleted; run the same command again") from error
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; what is finished is kept") from error


def set_aside(path: Path, reason: str) -> None:
    """Give a file that is not whole another name, and say so.

    Raises `StoreError` if it cannot be renamed.
    """
    aside = path.with_suffix(f".{secrets.token_hex(4)}.damaged")
    try:
        path.replace(aside)
    except FileNotFoundError:
        return  # another driver was faster
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be set aside: {error.strerror}") from error
    _log.warning("set aside %s: %s", aside, reason)


@dataclass(frozen=True)
class Store:
    """A directory of results.

    Attributes
    ----------
    folder : Path
    """

    folder: Path

    def prepare(self) -> None:
        """Make the directory, see that it can be written, and clear away what writers killed a day ago have left.

        Raises `InvalidInput` if it cannot.
        """
        probe = self.folder / f".probe.{secrets.token_hex(4)}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.write_text("probe", encoding="utf-8")
            now = probe.stat().st_mtime  # by the clock of the file system, which other machines may share
            probe.unlink()
        except OSError as error:
            allowed = f"a directory that can be written ({error.strerror})"
            raise InvalidInput("out", str(self.folder), allowed) from None
        with suppress(OSError):  # another driver may be at it
            for entry in itertools.chain(os.scandir(self.folder), self._entries()):
                if _TEMPORARY.fullmatch(entry.name) and now - entry.stat().st_mtime > _STALE:
                    os.unlink(entry.path)

    def path(self, task: Task) -> Path:
        """Return the path of a task's result, whether it is finished or not."""
        name = digest(self._key(task))[:32]
        # Many small directories: some file systems are slow with a hundred thousand names in one.
        return Path(self.folder, name[:2], f"{name}.json")

    def names(self) -> Iterator[str]:
        """Yield the file names of all results, whole or not."""
        for entry in self._entries():
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                yield entry.name

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        for shelf in os.scandir(self.folder):
            if len(shelf.name) == 2 and shelf.is_dir():
                yield from os.scandir(shelf.path)

    def read(self, task: Task) -> Result | None:
        """Return a stored result, or None; a file that is not whole is set aside and counts as missing.

        Raises `StoreError` if the file is there and the system does not let it be read.
        """
        path, key = self.path(task), self._key(task)
        try:
            stored = read_json(path)
            result: Result = stored["result"]
            whole = isinstance(result, dict) and stored["checksum"] == digest(result)
            # Equal as JSON: a tuple is a list there. The plain comparison is cheap and almost always enough.
            if whole and (stored["key"] == key or digest(stored["key"]) == digest(key)):
                return result
            reason = "its checksum or its settings do not fit"
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            reason = f"it cannot be read ({type(error).__name__})"
        except OSError as error:
            # Not the file's fault: too many open files, a stale network handle.
            raise StoreError(f"cannot read {path}: {error.strerror}") from error
        set_aside(path, f"{reason}; the sweep computes it again")
        return None

    def write(self, task: Task, result: Result) -> None:
        """Store a result.

        Raises `StoreError` if it cannot be written.
        """
        content = {"key": self._key(task), "result": result, "checksum": digest(result)}
        write_whole(self.path(task), json.dumps(content))

    @staticmethod
    def _key(task: Task) -> dict[str, Any]:
        return {"version": RESULT_VERSION, **task.key}
