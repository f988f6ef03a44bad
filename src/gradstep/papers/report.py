"""The report of a run: one HTML file that needs nothing else, and each figure as PNG, SVG, PDF and CSV beside it.

The file is sent and kept alone, so that what stands behind a figure, its PDF and its data, is a part of it.
"""

from __future__ import annotations

import base64
import gzip
import io
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas

from gradstep.drawing import DARK, LIGHT, draw
from gradstep.panels import Table
from gradstep.papers import data
from gradstep.papers.figure import PAPERS, FigureResult
from gradstep.papers.outcome import Check
from gradstep.problem import CONVENTION
from gradstep.text_table import in_words
from gradstep.typesetting import to_html, to_plain
from gradstep.versions import versions
from gradstep.whole_file import replace_file

__all__ = ["Section", "write_report", "write_section"]

#: Further metadata of each kind of file, without the time at which it was drawn.
_UNDATED: Mapping[str, Mapping[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


#: The shape of a letter in a drawing, and all else that a page has no use for.
_LETTER = re.compile(r'<path id="(DejaVu[^"]*)"[^>]*/>')
_UNUSED = re.compile(r'(?<=<g) id="[^"]*"|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*</defs>', re.DOTALL)
#: Coordinates, and their digits beyond a hundredth of a point.
_COORDINATES, _DIGITS = re.compile(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)'), re.compile(r"(\.\d\d)\d+")


@dataclass(frozen=True)
class Section:
    """A figure as it stands in the report, and the letters of its drawing: all figures share theirs."""

    result: FigureResult
    html: str
    letters: Mapping[str, str] = field(default_factory=dict)


def write_section(result: FigureResult, out: Path) -> Section:
    """Draw a figure, write its files beside the report into a directory, made if missing, and return its section."""
    drawing, name, outcome = "", result.figure.name, result.outcome
    letters: Mapping[str, str] = {}
    behind: dict[str, bytes] = {}
    if outcome.comparisons:
        behind[f"{name}_comparisons.csv"] = data.compared(outcome.comparisons).encode()
    if outcome.panels:
        out.mkdir(parents=True, exist_ok=True)
        behind[f"{name}.csv"] = data.drawn(outcome.panels).encode()
        inline = draw(outcome.panels)
        inline.patch.set_alpha(0)
        svg, letters = _inline(inline, name)
        drawing = f"<figure>{svg}</figure>"
        # The page says above and below a drawing what its lines and points are; a file that leaves the page carries it.
        caption = to_plain(f"{result.figure.summary}\n{outcome.notes}")
        canvas = draw(outcome.panels, title=result.figure.title, note=caption)
        for kind, undated in _UNDATED.items():
            drawn = io.BytesIO()
            with mpl.rc_context({"svg.hashsalt": name}):
                canvas.savefig(drawn, dpi=160, format=kind, metadata=undated)
            replace_file(out / f"{name}.{kind}", drawn.getbuffer())
            if kind == "pdf":
                behind[f"{name}.pdf"] = drawn.getvalue()
    for file, content in behind.items():
        if file.endswith("csv"):
            out.mkdir(parents=True, exist_ok=True)
            replace_file(out / file, content)
    return Section(result, _section(result, drawing, behind), letters)


_KINDS = {"_comparisons.csv": "Comparisons, CSV", ".csv": "Picture, CSV", ".pdf": "Picture, PDF"}


def _behind(result: FigureResult, files: Mapping[str, bytes]) -> str:
    """Return the command that draws a figure, and its files as a part of the page."""
    links = ""
    for file, content in files.items():
        kind = next(text for end, text in _KINDS.items() if file.endswith(end))
        if file.endswith("csv"):  # a tenth of its size; the page unpacks it, and without scripts it is saved as it is
            file, media, content = f"{file}.gz", "application/gzip", gzip.compress(content, mtime=0)
        else:
            media = "application/pdf"
        address = f"data:{media};base64,{base64.b64encode(content).decode()}"
        links += f'<a download="{escape(file)}" href="{address}">{kind}</a>'
    command = f"gradstep reproduce --preset {result.preset} --figure {result.figure.name}"
    return f'<p class="behind"><code>{escape(command)}</code>{links}</p>'


def _inline(canvas: Canvas, name: str) -> tuple[str, dict[str, str]]:
    """Return a drawing as part of a page, in the page's colours, with identifiers of its own, and apart its letters."""
    buffer = io.StringIO()
    # A fixed salt keeps the identifiers, and with them the file, the same from run to run.
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    letters = {found[1]: found[0] for found in _LETTER.finditer(text)}
    text = _UNUSED.sub("", _UNUSED.sub("", _LETTER.sub("", text)))
    text = _COORDINATES.sub(lambda found: _DIGITS.sub(r"\1", found[0]), text)
    changes = {
        LIGHT.text: "var(--ink)",
        LIGHT.grid: "var(--grid)",
        'id="': f'id="{name}-',
        "url(#": f"url(#{name}-",
        'xlink:href="#': f'href="#{name}-',
        f'"#{name}-DejaVu': '"#DejaVu',
    }
    for before, after in changes.items():
        text = text.replace(before, after)
    return re.sub(r"\s*\n\s*", " ", text).replace("> <", "><"), letters


def _verdict(passed: bool) -> str:
    return f'<td class="{"pass" if passed else "fail"}">{"pass" if passed else "fail"}</td>'


def _number(value: float, form: str = ".2f") -> str:
    return format(value, form) if math.isfinite(value) else "–"


def _coverage(results: Sequence[FigureResult]) -> str:
    rows, paper = "", ""
    for r in results:
        if r.figure.paper != paper:
            paper = r.figure.paper
            rows += f'<tr><th class="paper" colspan="8">{escape(PAPERS[paper])}</th></tr>'
        rows += (
            f'<tr><td>{escape(r.figure.row)}</td><td class="text item">{to_html(r.figure.item)}</td>'
            f'<td class="text"><a href="#{escape(r.figure.name)}">{to_html(r.figure.title)}</a></td>'
            f"<td>{len(r.outcome.comparisons)}</td><td>{_number(r.verdict.largest_z)}</td>"
            f"<td>{_number(r.verdict.median_z)}</td><td>{_checks_passed(r)}</td>{_verdict(r.verdict.passed)}</tr>"
        )
    return (
        '<div class="wide"><table><tr><th>row</th><th class="text">in the paper</th><th class="text">figure</th>'
        "<th>points</th><th>largest |z|</th>"
        f"<th>median |z|</th><th>checks</th><th>verdict</th></tr>{rows}</table></div>"
    )


def _sidebar(results: Sequence[FigureResult]) -> str:
    """Return a list of all figures; one that fails is marked."""
    listed, paper = "", ""
    items = [(r.figure.paper, r.figure.item) for r in results]
    for r in results:
        if r.figure.paper != paper:
            paper = r.figure.paper
            listed += f"<b>{escape(PAPERS[paper])}</b>"
        failed = "" if r.verdict.passed else ' <span class="fail">fails</span>'
        # Several pictures may belong to one figure of a paper: their titles tell them apart.
        alone = items.count((r.figure.paper, r.figure.item)) == 1
        name = to_html(r.figure.item if r.figure.item and alone else r.figure.title)
        listed += (
            f'<a href="#{escape(r.figure.name)}" title="{escape(r.figure.title)}"><span>{escape(r.figure.row)}</span> '
            f"{name}{failed}</a>"
        )
    return listed


def _checks_passed(result: FigureResult) -> str:
    checks = result.outcome.checks
    return f"{sum(c.passed for c in checks)} of {len(checks)}" if checks else "–"


def _place(value: float | str) -> str:
    return to_html(value) if isinstance(value, str) else f"{value:g}"


def _measured(mean: float, error: float) -> str:
    """Return a mean with its standard error, to the error's second digit."""
    if not (1e-5 <= error < 1e4 and math.isfinite(mean)):
        return f"{mean:.6g} ± {error:.2g}"
    last = 1 - math.floor(math.log10(error))
    digits = max(last, 0)
    return f"{round(mean, last):.{digits}f} ± {round(error, last):.{digits}f}"


def _points(result: FigureResult) -> str:
    compared = result.outcome.comparisons
    if not compared:
        return ""
    rows = "".join(
        f'<tr><td class="text">{to_html(c.curve)}</td><td class="text">{to_html(c.quantity)}</td>'
        f"<td>{_place(c.place)}</td>"
        f"<td>{c.theory:.5g}</td><td>{_measured(c.mean, c.standard_error)}</td><td>{c.seeds}</td>"
        f"<td>{f'{100 * c.relative_difference:+.1f} %' if c.theory else '–'}</td>"
        f"<td>{c.z:+.2f}</td>"
        f"<td>{f'{100 * c.allowance:g} %, leaves {abs(c.excess_z):.2f}' if c.allowance else '–'}</td></tr>"
        for c in compared
    )
    reasons = dict.fromkeys(c.reason for c in compared if c.reason)
    why = "".join(f'<p class="note">Allowance: {to_html(reason)}.</p>' for reason in reasons)
    return (
        f'<details><summary>All {len(compared)} comparisons</summary><div class="wide"><table><tr>'
        '<th class="text">curve</th><th class="text">quantity</th><th>at</th><th>theory</th><th>measured</th>'
        f"<th>seeds</th><th>measured over theory</th><th>z</th><th>allowance</th></tr>{rows}</table></div>{why}"
        f"</details>"
    )


def _checks(result: FigureResult) -> str:
    if not result.outcome.checks:
        return ""
    rows = "".join(
        f'<tr><td class="text">{to_html(c.sentence)}</td><td>{_required(c)}</td>{_verdict(c.passed)}</tr>'
        for c in result.outcome.checks
    )
    return f'<table><tr><th class="text">checked</th><th>required</th><th>verdict</th></tr>{rows}</table>'


def _required(check: Check) -> str:
    words = {"≤": "at most", "≥": "at least"}.get(check.relation, check.relation)
    return " ".join([words, _number(check.bound, ".3g"), *([check.unit] if check.unit else [])])


def _table(table: Table) -> str:
    header = "".join(f"<th>{to_html(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{to_html(cell.replace('+-', '±'))}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f'<div class="wide"><table><tr>{header}</tr>{rows}</table></div>'


def _section(result: FigureResult, drawing: str, behind: Mapping[str, bytes]) -> str:
    figure, outcome, verdict = result.figure, result.outcome, result.verdict
    chosen = figure.presets[result.preset]
    bounds = ", ".join(f"{in_words(name)} at most {bound:.3g}" for name, bound in verdict.bounds.items())
    found = (
        f"{_number(verdict.largest_z)} largest, {_number(verdict.median_z)} median (without allowances, one value for "
        f"each of {verdict.samples} independent sets of networks)"
    )
    sizes = ", ".join(f"{name} = {value}" for name, value in chosen.items() if not isinstance(value, list | dict))
    said = {"The paper states": figure.stated, "Ours": figure.ours, "Here": sizes}
    if outcome.comparisons:
        said |= {"Criterion on |z|": bounds, "Found": found}
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{to_html(text)}</dd>" for term, text in said.items())
    item = f'<span class="item">{escape(PAPERS[figure.paper])}, {to_html(figure.item)}</span>' if figure.item else ""
    return (
        f'<section id="{escape(figure.name)}"><h3>{escape(figure.row)}. {to_html(figure.title)}{item}</h3>'
        f"<p>{to_html(figure.summary)}</p>{drawing}{_table(outcome.table) if outcome.table else ''}"
        f"{_behind(result, behind)}"
        f'<p class="note">{to_html(outcome.notes)}</p><dl>{terms}</dl>{_checks(result)}{_points(result)}</section>'
    )


def write_report(sections: Sequence[Section], out: Path, preset: str, seconds: float) -> Path:
    """Write the HTML file of the report into a directory, made if missing, and return its path.

    The sections are in the order of the report, which names the preset and the duration of the run.
    """
    out.mkdir(parents=True, exist_ok=True)
    results = [section.result for section in sections]
    z = np.abs([c.z for result in results for c in result.outcome.comparisons])
    within = ", ".join(f"{100 * np.mean(z <= k):.0f} % within {k}" for k in (1, 2, 3)) if z.size else "none here"
    passed = sum(result.verdict.passed for result in results)
    papers = dict.fromkeys(result.figure.paper for result in results)
    letters = {name: shape for section in sections for name, shape in section.letters.items()}
    body = "".join(
        f"<h2>{escape(PAPERS[paper])}</h2>" + "".join(s.html for s in sections if s.result.figure.paper == paper)
        for paper in papers
    )
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    template = Template(files("gradstep.papers").joinpath("report.html").read_text(encoding="utf-8"))
    text = template.substitute(
        light_text=LIGHT.text,
        light_grid=LIGHT.grid,
        dark_text=DARK.text,
        dark_grid=DARK.grid,
        preset=escape(preset),
        seconds=f"{seconds:.0f}",
        packages=f"{packages}, Python {platform.python_version()}",
        passed=passed,
        figures=len(results),
        comparisons=z.size,
        within=within,
        coverage=_coverage(results),
        sidebar=_sidebar(results),
        convention=to_html(CONVENTION),
        letters=re.sub(r"\s*\n\s*", " ", "".join(letters.values())),
        body=body,
    )
    path = out / "report.html"
    replace_file(path, text.encode("utf-8"))
    return path.resolve()
