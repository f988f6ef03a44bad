"""One server for all tests of a process, as the command line starts it, and one browser."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import httpx
import psutil
import pytest

#: Where Debian and others install it.
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Server:
    """The real program, its address and what it says."""

    def __init__(self, port=0, workers=2):
        arguments = ["app", "--no-browser", "--port", str(port), "--workers", str(workers)]
        command = [sys.executable, "-m", "gradstep", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found, line + self.process.stderr.read()
        self.address = found[0]
        self.errors = []
        self._reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def sleeps(self):
        """Return whether all of the server's processes wait for something."""
        serving = psutil.Process(self.process.pid)
        for process in [serving, *serving.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() == psutil.STATUS_RUNNING:
                    return False
        return True

    def used(self):
        """Return the processor time that each of the server's processes has used."""
        times = {}
        for process in [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times[process.pid] = sum(process.cpu_times()[:2])
        return times

    def wait_until_idle(self, seconds=60):
        """Wait until none of the server's processes computes any more."""
        deadline = time.monotonic() + seconds
        while True:
            before, waits = self.used(), True
            for _ in range(5):  # one that computes may get little time, but does not sleep
                time.sleep(0.05)
                waits = waits and self.sleeps()
            after = self.used()
            if waits and sum(after.values()) - sum(before.get(pid, 0.0) for pid in after) < 0.025:
                return
            assert time.monotonic() < deadline, "the server goes on computing"

    def memory(self):
        """Return the bytes that each of the server's processes holds."""
        held = {}
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                held[process.pid] = process.memory_info().rss
        return held

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        self._reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def start_server():
    """Return what starts a server of this test's own."""
    started = []

    def start(port=0, workers=2):
        started.append(Server(port, workers))
        return started[-1]

    yield start
    for running in started:
        running.close()


@pytest.fixture(scope="session")
def server():
    """Start the server; at the end see that it has said nothing, and keeps little of what it was asked for."""
    running = Server()
    yield running
    held = running.memory()
    running.close()
    assert max(held.values()) < 300 * 2**20
    # The last is what a fuzzer gets for what is no HTTP.
    assert [line for line in running.errors if "Invalid HTTP request" not in line] == []


@pytest.fixture(scope="session")
def api(server):
    """Return a client of the server."""
    with httpx.Client(base_url=server.address, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def default(api):
    """Return the setting that the page starts with."""
    return api.get("/api/start").json()["default"]


@pytest.fixture(scope="session")
def browser():
    """Start Chromium; without one the tests are skipped, unless GRADSTEP_NEEDS_CHROMIUM says that this is an error."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = f"no browser: none of {', '.join(NAMES)} is installed"
        if os.environ.get("GRADSTEP_NEEDS_CHROMIUM"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()
