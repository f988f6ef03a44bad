"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Write a file beside its place, then move it there: a full disk leaves what was there before.

    What stands there and is no plain file, such as a pipe or a device, is written to and stays what it is. Raises
    `OSError` if it cannot be written; nothing is left behind, nor by Ctrl-C or SIGTERM.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    # Several may write the same file at once.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
