"""The page in real Chromium: from a slider's move to the redrawn curve of 60 points, and what it costs the server.

``run()`` returns rows ``{"name", "measured", "baseline", "baseline_name", "ratio", "target", "better", "unit"}``.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
from typing import Any

import psutil
from benchmarks.bench_theory import row

Row = dict[str, Any]

_GOAL = 0.15
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
#: Moves a slider, waits until the curve is drawn and painted, and returns the milliseconds each move took.
_MOVES = """async ([id, positions]) => {
  const slider = document.getElementById(id), times = [];
  for (const position of positions) {
    const start = performance.now();
    const drawn = new Promise((done) => document.addEventListener("gradstep:drawn",
      () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))), { once: true }));
    slider.value = position;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    times.push(await drawn);
    await new Promise((rest) => setTimeout(rest, 100));
  }
  return times;
}"""
#: The horizontal axis and the slider that moves; the goal is for the page as it opens.
_CASES = [
    ("n", "ridge", True),
    ("n", "c", True),
    ("width", "ridge", False),
    ("n_step", "ridge", False),
    ("eta", "ridge", False),
    ("alpha", "ridge", False),
    ("ridge", "width", False),
]


def _processor_time(server: psutil.Process) -> float:
    return sum(sum(p.cpu_times()[:2]) for p in (server, *server.children(recursive=True)))


def run(*, moves: int = 25) -> list[Row]:
    """Start the server and a browser, and move sliders; no rows where there is no Chromium."""
    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser_path is None:
        print("no Chromium: the page is not timed", file=sys.stderr)
        return []
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "gradstep", "app", "--no-browser", "--port", "0"]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as playwright:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found is not None
        server = psutil.Process(process.pid)
        browser = playwright.chromium.launch(executable_path=browser_path, args=_ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        for axis, slider, is_goal in _CASES:
            page.goto(f"{found[0]}#axis={axis}")
            page.reload()
            page.wait_for_selector("#hint-c:not([hidden])")  # the last of what takes seconds
            page.wait_for_selector("#spectrum.js-plotly-plot", state="attached")
            before = _processor_time(server)
            times = page.evaluate(_MOVES, [slider, [95 + k for k in range(moves)]])
            spent = (_processor_time(server) - before) / moves
            median = statistics.median(times) / 1e3
            name = f"page: {slider} moved, curve of 60 points over {axis} redrawn, median of {moves}"
            rows.append(row(name, median, _GOAL, "goal", target=1.0 if is_goal else None))
            cost = f"page: server's processor time of such a move, {slider} over {axis}"
            rows.append(row(cost, spent, median, "the move", target=None))
        browser.close()
        process.terminate()
    return rows


if __name__ == "__main__":
    for line in run():
        print(f"{1e3 * line['measured']:8.0f} ms  {line['name']}")
