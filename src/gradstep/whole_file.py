"""Files that appear under their name only when they are whole."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file beside its place, then move it there: a full disk leaves what was there before.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind.
    """
    path = path.resolve()  # through a link, as plain writing would
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
