"""The interface under a fuzzer: whatever is sent, the answer is one that the description names, and never a 500."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.parametrize("examples", [4, pytest.param(30, marks=pytest.mark.statistical)])
def test_no_request_breaks_the_server(server, api, tmp_path, examples):
    assert api.get("/openapi.json").status_code == 200  # it does not wait for the first answer as long as this
    # What takes seconds by nature is fuzzed by hand, with the same command: a simulation, a spectrum, an optimum.
    excluded = [f"--exclude-path=/api/{name}" for name in ("simulate", "spectrum", "best")]
    command = [
        Path(sys.executable).with_name("schemathesis"),
        "run",
        f"{server.address}openapi.json",
        *excluded,
        f"--checks={CHECKS}",
        "--phases=examples,fuzzing",
        f"--max-examples={examples}",
        "--seed=1",
        "--no-shrink",
        "--request-timeout=100",
        "--suppress-health-check=all",
        "--generation-database=none",
        "--warnings=off",
        "--no-color",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout
