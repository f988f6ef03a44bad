"""The report of a run: one HTML file that needs nothing else, and each figure as PNG, SVG and PDF beside it."""

from __future__ import annotations

import io
import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl
import numpy as np

from gradstep.papers.drawing import draw
from gradstep.papers.figure import FigureResult
from gradstep.problem import CONVENTION

__all__ = ["write_report"]

_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfd; --ink: #22252b; --soft: #5d6370; --rule: #d8dbe2; --card: #fff;
  --good: #1d7f4f; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --page: #15181e; --ink: #e4e6ec; --soft: #9aa1af; --rule: #343a46;
  --card: #1c2028; --good: #5cc98f; --bad: #ff7b6e; } }
body { background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 60rem; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { margin-top: 3rem; font-size: 1.25rem; }
h3 { font-size: 1.05rem; margin-top: 2rem; }
p.note { color: var(--soft); font-size: .9rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
.pass { color: var(--good); font-weight: 600; } .fail { color: var(--bad); font-weight: 600; }
figure { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; margin: 1rem 0; padding: .8rem; }
figure svg { width: 100%; height: auto; } .dark { display: none; }
@media (prefers-color-scheme: dark) { .dark { display: block; } .light { display: none; } }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--soft); }
"""

_PAPERS = {"ba2022": "Ba et al. 2022", "cui2024": "Cui et al. 2024"}


def _svg(result: FigureResult, dark: bool) -> str:
    buffer = io.StringIO()
    # A fixed salt keeps the identifiers, and with them the file, the same from run to run.
    salt = f"{result.settings.name}-{'dark' if dark else 'light'}"
    with mpl.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        draw(result, dark=dark).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    # Inline: without the XML prologue, and with identifiers that the other drawing does not use.
    return (
        text[text.index("<svg") :]
        .replace('id="', f'id="{salt}-')
        .replace("url(#", f"url(#{salt}-")
        .replace('xlink:href="#', f'href="#{salt}-')
    )


def _verdict(passed: bool) -> str:
    return f'<td class="{"pass" if passed else "fail"}">{"pass" if passed else "fail"}</td>'


def _coverage(results: Sequence[FigureResult]) -> str:
    rows = "".join(
        f'<tr><td>{escape(r.settings.row)}</td><td class="text"><a href="#{escape(r.settings.name)}">'
        f"{escape(r.settings.title)}</a></td><td>{r.points}</td><td>{r.largest_z:.2f}</td><td>{r.median_z:.2f}</td>"
        f"{_verdict(r.passed)}</tr>"
        for r in results
    )
    return (
        '<table><tr><th>row</th><th class="text">figure</th><th>points</th><th>largest |z|</th><th>median |z|</th>'
        f"<th>verdict</th></tr>{rows}</table>"
    )


def _points(result: FigureResult) -> str:
    rows = "".join(
        f'<tr><td class="text">{escape(curve.label)}</td><td>{p.x:g}</td><td>{p.theory:.5f}</td>'
        f"<td>{p.mean:.5f} ± {p.standard_error:.5f}</td><td>{p.seeds}</td>"
        f"<td>{100 * (p.theory / p.mean - 1):+.1f} %</td><td>{p.z:+.2f}</td>"
        f"<td>{f'{100 * curve.allowance:g} %' if curve.allowance else '–'}</td></tr>"
        for curve in result.curves
        for p in curve.points
    )
    return (
        f'<details><summary>All {result.points} points</summary><table><tr><th class="text">curve</th>'
        f"<th>{escape(result.settings.axis['parameter'])}</th><th>theory</th><th>network</th><th>seeds</th>"
        f"<th>difference</th><th>z</th><th>allowance</th></tr>{rows}</table></details>"
    )


def _section(result: FigureResult) -> str:
    settings = result.settings
    chosen = settings.presets[result.preset]
    seeds = f"{chosen['seed']} to {chosen['seed'] + chosen['seeds'] - 1}"
    criterion = (
        f"largest |z| at most {settings.criterion['largest_z']:g}, median at most {settings.criterion['median_z']:g}"
    )
    return (
        f'<h3 id="{escape(settings.name)}">{escape(settings.row)}. {escape(settings.title)}</h3>'
        f'<figure><div class="light">{_svg(result, False)}</div><div class="dark">{_svg(result, True)}</div></figure>'
        f'<p class="note">The paper states: {escape(settings.stated)}. Ours: {escape(settings.ours)}. '
        f"Here d = {chosen['d']}, seeds {seeds}. Criterion: {criterion}; found {result.largest_z:.2f} and "
        f"{result.median_z:.2f}.</p>{_points(result)}"
    )


def write_report(results: Sequence[FigureResult], out: Path, preset: str, seconds: float) -> Path:
    """Write the report and the figures' files.

    Parameters
    ----------
    results : sequence of FigureResult
    out : Path
        Directory, made if missing.
    preset : str
        Named in the report.
    seconds : float
        Duration of the run, named in the report.

    Returns
    -------
    Path
        The HTML file.
    """
    out.mkdir(parents=True, exist_ok=True)
    for result in results:
        figure = draw(result)
        figure.patch.set_alpha(1)
        for kind in ("png", "svg", "pdf"):
            figure.savefig(out / f"{result.settings.name}.{kind}", dpi=160)
    z = np.array([score for result in results for score in result.z_scores])
    within = ", ".join(f"{100 * np.mean(np.abs(z) <= k):.0f} % within {k}" for k in (1, 2, 3))
    papers = dict.fromkeys(result.settings.paper for result in results)
    sections = "".join(
        f"<h2>{_PAPERS[paper]}</h2>" + "".join(_section(r) for r in results if r.settings.paper == paper)
        for paper in papers
    )
    versions = ", ".join(f"{name} {version(name)}" for name in ("gradstep", "numpy", "scipy"))
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gradstep: theory over simulation</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>Theory over simulation of the real network</h1>"
        f'<p class="note">Preset {escape(preset)}, {seconds:.0f} s, {versions}, '
        f"Python {platform.python_version()}.</p>"
        f"<p>Every point is the exact population risk of real two-layer networks after one real gradient step, with "
        f"its standard error over the seeds; every line is computed, none is fitted. z is the distance in standard "
        f"errors (Student's law for the seeds at hand, read on the normal scale): {within}.</p>"
        f'{_coverage(results)}<p class="note">Convention: {escape(CONVENTION)}. An allowance is a relative error of '
        f"the theory that a documented limit of validity explains (few step samples per dimension at a large step); "
        f"only what exceeds it counts.</p>{sections}</body></html>"
    )
    path = out / "report.html"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path.resolve()
