"""Which examples hypothesis tries: the same in every run, unless the command line asks for ``random``.

No test leaves figures open in pyplot to the next. What collection makes stays until the end, so that the garbage
collector need not look through it again and again. Parallel processes begin to collect at different files: in a fresh
clone the process that meets a file or a package first compiles it, and the others read what it has written.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes to draw or to run says how busy the machine is.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **PATIENT)
settings.register_profile("random", derandomize=False, print_blob=True, **PATIENT)
settings.load_profile("repeatable")

gc.disable()

#: All files of tests in the order in which they run, and whether several processes collect all of them.
FILES = sorted(Path(__file__).parent.rglob("test_*.py"), key=lambda path: path.parts)
TOGETHER = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    config, worker = session.config, os.environ.get("PYTEST_XDIST_WORKER")
    # Files that are named are collected even where the command line leaves them out.
    left_out = config.getoption("ignore") or config.getoption("ignore_glob")
    if worker and not left_out and config.args == config.getini("testpaths"):
        first = len(FILES) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        config.args = list(map(str, FILES[first:] + FILES[:first]))
        config.stash[TOGETHER] = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The order must be that of the other processes again.
    if TOGETHER in config.stash:
        place = {path: k for k, path in enumerate(FILES)}
        items.sort(key=lambda item: place[item.path])


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
