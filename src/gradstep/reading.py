"""Text from files that others have written: devices without an end and nested text without a bottom are refused.

Settings may come through a pipe, for which reading waits until its writer has written.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["parsed_toml", "read_json", "read_toml"]

#: Bytes of settings that are read: a device such as /dev/zero has no end.
_MOST_BYTES = 2**24
_NESTED = "it is nested too deeply"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, which may be a pipe.

    Raises
    ------
    OSError
        If it cannot be opened or read.
    ValueError
        If it is no TOML, or more than 16 MiB.
    """
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    return parsed_toml(content.decode("utf-8"))


def parsed_toml(text: str) -> dict[str, Any]:
    """Return the tables of TOML text.

    Raises
    ------
    ValueError
        If it is no TOML.
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

    Raises
    ------
    OSError
        If it cannot be opened or read.
    ValueError
        If it is no plain file, or no JSON.
    """
    # Without this flag, which Windows lacks and has no named pipes to need, opening a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is no plain file")
    with open(descriptor, encoding="utf-8") as file:
        try:
            return json.load(file)
        except RecursionError:
            raise ValueError(_NESTED) from None
