"""Which examples hypothesis tries: the same in every run, unless the command line asks for ``random``.

No test leaves figures open in pyplot to the next. What collection makes stays until the end, so that the garbage
collector need not look through it again and again.
"""

import gc
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes to draw or to run says how busy the machine is.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **PATIENT)
settings.register_profile("random", derandomize=False, print_blob=True, **PATIENT)
settings.load_profile("repeatable")

gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
