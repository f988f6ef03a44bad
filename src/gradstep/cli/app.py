"""The command that serves the page."""

from __future__ import annotations

from importlib.util import find_spec

from gradstep.cli.failure import interrupted
from gradstep.cli.output import print_lines
from gradstep.errors import missing_extra


def run_app(host: str, port: int, workers: int | None, *, browser: bool) -> None:
    """Serve the page until Ctrl-C.

    Raises `InvalidInput` if the extra is not installed, or the address cannot be listened on. Raises `typer.Exit` with
    code 130 on Ctrl-C.
    """
    if any(find_spec(name) is None for name in ("plotly", "starlette", "uvicorn")):
        raise missing_extra("app", "app")
    from gradstep.app.server import serve
    from gradstep.children import check_directory

    check_directory()

    def announce(address: str) -> None:
        print_lines(f"gradstep is at {address} (Ctrl-C ends it)")

    try:
        serve(host=host, port=port, workers=workers, browser=browser, announce=announce)
    except KeyboardInterrupt as error:
        interrupted(error, "the page is no longer served", as_json=False)
