"""Text from files that others have written: devices without an end and nested text without a bottom are refused.

Settings may come through a pipe that is open already: the standard input, or what a shell puts in place of a command.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

#: Bytes of settings that are read: a device such as /dev/zero has no end.
_MOST_BYTES = 2**24
_NESTED = "it is nested too deeply"
#: Names of descriptors that this process was given.
_DESCRIPTOR = re.compile(r"(?P<stdin>/dev/stdin)|/(?:dev|proc/self)/fd/(?P<number>\d{1,9})")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, or of what comes through a descriptor such as ``/dev/stdin``.

    Raises `OSError` if it cannot be opened or read. Raises `ValueError` if it is no plain file and no open descriptor,
    no TOML, or more than 16 MiB.
    """
    with open(_opened(path, inherited=True), "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    return parsed_toml(content.decode("utf-8"))


def _opened(path: Path, *, inherited: bool = False) -> int:
    """Return a descriptor of a plain file, or of one of this process's own that is inherited (such as /dev/stdin).

    Opening a named pipe would wait for its writer, and a device may have no end.
    """
    if inherited and (match := _DESCRIPTOR.fullmatch(os.fspath(path))):
        return os.dup(0 if match["stdin"] else int(match["number"]))
    # Without this flag, which Windows lacks and has no named pipes to need, opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is no plain file")
    return descriptor


def parsed_toml(text: str) -> dict[str, Any]:
    """Return the tables of TOML text.

    Raises `ValueError` if it is no TOML.
    """
    try:
        return tomllib.loads(text, parse_float=_number)
    except RecursionError:
        raise ValueError(_NESTED) from None


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number) and "inf" not in text:
        raise ValueError(f"{text} is too large; infinity is written inf")
    return number


def read_json(path: Path) -> Any:
    """Return the value in a JSON file. Nothing but a plain file is read: a named pipe would be waited for.

    Raises `OSError` if it cannot be opened or read. Raises `ValueError` if it is no plain file, or no JSON.
    """
    with open(_opened(path), encoding="utf-8") as file:
        try:
            return json.load(file)
        except RecursionError:
            raise ValueError(_NESTED) from None
