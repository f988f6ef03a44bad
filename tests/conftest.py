"""Which examples hypothesis tries: the same in every run, unless the command line asks for ``random``."""

from typing import Any

from hypothesis import HealthCheck, settings

# How long an example takes to draw or to run says how busy the machine is.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **PATIENT)
settings.register_profile("random", derandomize=False, print_blob=True, **PATIENT)
settings.load_profile("repeatable")
