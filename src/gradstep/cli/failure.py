"""Report that a command cannot go on: a message on standard error, or a JSON document, and an exit code.

The message is broken at words into lines of at most 80 characters, in files and pipes as on a terminal. What goes on is
indented, so that a message is one line that begins at the margin.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import Any, NoReturn

import typer

from gradstep.cli.termination import Terminated
from gradstep.plain import plain

INVALID_INPUT = 2
NOT_CONVERGED = 3
# Of a program that a signal ends: 128 and the signal's number.
_INTERRUPTED = 130
_TERMINATED = 143
#: A command at the end of a message, which is never broken, so that it can be copied.
_COMMAND = re.compile(r"(?<=: )(?:gradstep|pip) .*")


def report(kind: str, message: str, code: int, as_json: bool, **fields: Any) -> None:
    """Print a message on standard error, as lines or as one JSON document with more fields."""
    line = " ".join(message.split())
    document = {"error": {"type": kind, "message": line, "exit_code": code, **fields}}
    typer.echo(json.dumps(plain(document), default=str, allow_nan=False) if as_json else _broken(line), err=True)


def _broken(line: str) -> str:
    """Return a message as lines of a readable length, with a command at its end whole on a line of its own."""
    from gradstep.summary import COLUMNS, wrapped  # only errors need it

    width = min(shutil.get_terminal_size().columns, COLUMNS)
    command = _COMMAND.search(line)
    if len(line) <= width or command is None:
        return "\n".join(wrapped(line, width))
    return "\n".join([*wrapped(line[: command.start()], width), f"  {command.group()}"])


def report_error(error: Exception, code: int, as_json: bool) -> None:
    """Print an error on standard error."""
    names = ("field", "value", "allowed", "reason", "residual")
    fields = {name: getattr(error, name) for name in names if hasattr(error, name)}
    report(type(error).__name__, str(error) if as_json else f"error: {error}", code, as_json, **fields)


def fail(error: Exception, code: int, as_json: bool) -> NoReturn:
    """End with an error.

    Raises `typer.Exit` always.
    """
    report_error(error, code, as_json)
    raise typer.Exit(code)


def interrupted(error: KeyboardInterrupt, rest: str, as_json: bool) -> NoReturn:
    """End after Ctrl-C or SIGTERM, and say what is left and how to go on.

    Raises `typer.Exit` always.
    """
    code = _TERMINATED if isinstance(error, Terminated) else _INTERRUPTED
    report("Interrupted", f"interrupted; {rest}", code, as_json)
    raise typer.Exit(code) from None
