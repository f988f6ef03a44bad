"""The figures: settings, verdicts, and the report."""

import base64
import csv
import dataclasses
import gzip
import io
import math
import re
import tomllib
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from gradstep.drawing import LIGHT
from gradstep.errors import InvalidInput
from gradstep.overlay import Overlay
from gradstep.panels import Panel
from gradstep.papers.charts import Curve, charts
from gradstep.papers.claims import below, in_standard_errors, power_law, total_fall
from gradstep.papers.experiment import Curves
from gradstep.papers.experiments import learning_curves
from gradstep.papers.figure import PAPERS, load_figures, run_figure, run_figures
from gradstep.papers.outcome import Check, Judged, Outcome, Verdict, median_bound
from gradstep.papers.places import Place, Sample, point_seeds
from gradstep.papers.report import _measured, write_report, write_section

HEADLINES = {"fig1": "B1", "fig3a": "B3", "fig3b": "B4", "fig3c": "B5", "fig2_tanh": "C5", "fig2_sin": "C5"}
FIGURES = {figure.name: figure for figure in load_figures()}
#: Figures whose experiment another figure has, which is drawn faster.
ALIKE = (
    "convex_classes",
    "convex_robust",
    "feature_spectrum",
    "fig2_sin",
    "fig3c",
    "fig4_strengths",
    "fig5_width",
    "noise",
    "result32",
    "result33",
    "setting2",
    "staircase",
    "weights_spectrum_m1",
)
#: Those that take the longest, and are made of reused samples, of other optimisers or of tuned parameters, which tests
#: of the simulation and of the tuning hold against equations of their own.
SLOW = ("optimisers", "reused_samples", "tuned_curves")


def tiny(name="fig3b"):
    """Return a figure of learning curves cut down to the smallest useful size."""
    figure = FIGURES[name]
    settings = {**figure.settings, "curves": figure.settings["curves"][:2]}
    return dataclasses.replace(
        figure, settings=settings, presets={"quick": {"d": 40, "points": [1.0, 2.0], "line": 5, "seeds": 3, "seed": 7}}
    )


def test_headline_figures_are_marked():
    assert {name: figure.row for name, figure in FIGURES.items() if figure.headline} == HEADLINES


def test_figures_stand_by_paper_in_whatever_order_they_are_asked_for():
    # So the report of a run names each paper once.
    asked = ["fig2_sin", "fig1", "fig2_tanh", "staircase", "fig1"]
    assert [figure.name for figure in load_figures(asked)] == ["fig1", "staircase", "fig2_sin", "fig2_tanh"]


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_settings_are_complete(name):
    figure = FIGURES[name]
    assert set(figure.presets) == {"quick", "standard", "paper"}
    assert set(figure.criterion) <= {"largest_z", "median_z", "beyond_three"}
    assert figure.criterion["largest_z"] <= 4
    # Without allowances. One figure states a limit and judges the distance from it.
    assert figure.criterion.get("median_z", 0.0) <= 1.5
    assert "median_z" in figure.criterion or name == "universality"
    assert re.fullmatch(r"[BMCU]\d+", figure.row)
    for text in (figure.title, figure.summary, figure.stated, figure.ours):
        assert len(text) > 8
    for preset in ("quick", "standard", "paper"):
        tasks = figure.tasks(preset)
        assert all(0 <= task.seed < 2**32 for task in tasks)
        assert len({(str(task.parameters), task.seed) for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        *(
            pytest.param(name, False, marks=pytest.mark.statistical if name in (*ALIKE, *SLOW) else ())
            for name in sorted(FIGURES)
        ),
        *(pytest.param(name, True, marks=pytest.mark.statistical) for name in sorted(FIGURES)),
    ],
)
def test_quick_preset_meets_its_criterion(name, whole, quick):
    result = quick(name, whole)
    assert result.outcome.panels
    assert result.outcome.comparisons or result.outcome.checks
    assert result.verdict.passed, (result.verdict, result.outcome.comparisons, result.outcome.checks)


def test_seeds_of_points_are_independent_and_fixed():
    preset = {"seed": 5, "seeds": 40}
    a, b = point_seeds("fig", "curve", 1.0, preset), point_seeds("fig", "curve", 2.0, preset)
    assert a == point_seeds("fig", "curve", 1.0, preset)
    assert not set(a) & set(b)
    assert not set(a) & set(point_seeds("fig", "curve", 1.0, {**preset, "seed": 6}))


def test_a_comparison_has_its_z_with_and_without_the_allowance():
    values = [1.0, 1.01, 1.02]
    plain, granted = (Judged.at(1.1, values, curve="a", place=1.0, allowance=a, reason="known") for a in (0.0, 0.05))
    assert plain.z == plain.excess_z == granted.z < granted.excess_z < 0
    assert plain.z == Overlay.of(1.1, values).z
    assert Judged.at(1.1, values, curve="a", place=1.0, allowance=0.1, reason="known").excess_z == 0
    # A network without a value is not left out.
    assert np.isnan(Judged.at(1.0, [1.0, np.nan, 1.1], curve="a", place=1.0).z)


def test_the_verdict_counts_what_it_says():
    values = [1.0, 1.1, 0.9, 1.05]
    good = Judged.at(1.0, values, curve="a", place=1.0)
    bad = Judged.at(3.0, values, curve="a", place=2.0)
    excused = Judged.at(3.0, values, curve="a", place=2.0, allowance=0.7, reason="known")
    criterion = {"largest_z": 3.0, "median_z": 1.0}
    assert Verdict.of(Outcome((), (good,)), criterion).passed
    assert not Verdict.of(Outcome((), (good, bad)), criterion).passed
    # The allowance excuses the largest, never the median.
    assert Verdict.of(Outcome((), (good, good, excused)), criterion).passed
    assert not Verdict.of(Outcome((), (good, excused, excused)), criterion).passed
    assert not Verdict.of(Outcome((), ()), criterion).passed
    assert not Verdict.of(Outcome((), (good,), (Check("x", 2.0, 1.0, False),)), criterion).passed
    assert not Verdict.of(Outcome((), (Judged.at(np.nan, values, curve="a", place=1.0),)), criterion).passed
    with pytest.raises(ValueError, match="reason"):
        Judged.at(1.0, values, curve="a", place=1.0, allowance=0.1)


def scored(z, sample=""):
    """Return a comparison with a given z-score."""
    # With so many networks t is z.
    return Judged(0.0, z, 1.0, 10**9, curve="", place=0.0, sample=sample)


def test_the_median_counts_each_set_of_networks_once():
    shared = [scored(2.5, "one") for _ in range(30)]
    alone = [scored(0.1 * k) for k in range(1, 10)]
    verdict = Verdict.of(Outcome((), (*shared, *alone)), {"largest_z": 4.0, "median_z": 1.2})
    # Ten values: 0.1 ... 0.9, and 2.5 once.
    assert verdict.samples == 10
    assert verdict.median_z == pytest.approx(0.55)
    assert verdict.largest_z == pytest.approx(2.5)
    assert verdict.passed
    # Without the name they are thirty, and condemn the theory.
    lone = Verdict.of(Outcome((), (*(scored(2.5) for _ in range(30)), *alone)), {"median_z": 1.2})
    assert lone.samples == 39
    assert not lone.passed
    # Within a sample the median counts, and not the largest.
    assert Verdict.of(
        Outcome((), (scored(0.2, "a"), scored(-0.4, "a"), scored(3.0, "a"))), {}
    ).median_z == pytest.approx(0.4)


def test_few_samples_have_the_bound_that_chance_gives_them():
    draw = np.random.default_rng(8)
    for count, exceeded in ((1, 1e-3), (3, 1e-3), (7, 1e-3), (21, 1e-3), (4, 2e-3)):
        medians = np.median(np.abs(draw.standard_normal((200_000, count))), axis=1)
        assert np.mean(medians > median_bound(count)) == pytest.approx(exceeded, rel=0.5)
    criterion = {"median_z": 1.2}
    assert Verdict.of(Outcome((), tuple(scored(1.7) for _ in range(6))), criterion).passed
    assert not Verdict.of(Outcome((), tuple(scored(1.9) for _ in range(6))), criterion).passed
    assert not Verdict.of(Outcome((), tuple(scored(1.7) for _ in range(40))), criterion).passed
    assert Verdict.of(Outcome((), tuple(scored(1.19) for _ in range(400))), criterion).bounds == criterion


@pytest.mark.parametrize(("value", "most", "least"), [(1.0, True, False), (2.0, True, True), (np.nan, False, False)])
def test_checks_have_two_sides_and_nan_passes_neither(value, most, least):
    assert Check.at_most("x", value, 2.0).passed is most
    assert Check.at_least("x", value, 2.0).passed is least


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_results_come_back_to_their_places_and_shared_networks_have_one_name(name):
    """Comparisons on networks of one name count once, and others do not: it has to be true of the seeds."""
    figure = FIGURES[name]
    tasks = figure.tasks("quick")
    samples = figure.samples("quick", [{"key": task.key} for task in tasks])
    assert sum(len(sample.results) for sample in samples) == len(tasks)
    drawn: dict[str, set[int]] = {}
    for sample in samples:
        own = sample.place.tasks(name, figure.presets["quick"])
        assert [result["key"] for result in sample.results] == [task.key for task in own]
        seeds = {task.seed for task in own} - {0}
        assert drawn.setdefault(sample.place.networks, seeds) == seeds
    for seeds in drawn.values():
        assert sum(bool(seeds & other) for other in drawn.values()) <= 1


def test_the_example_of_the_docs_is_an_experiment():
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(from gradstep.*?)```", page, re.DOTALL)
    (settings,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    names = {"__name__": "page"}
    exec(code, names)
    settings = tomllib.loads(settings)
    preset = {**settings.pop("presets")["quick"], "seeds": 5, "seed": 1}
    experiment = names["Errors"]("errors", settings, preset)
    samples = [
        Sample(place, [place.measure(place.parameters, 5 * k + s) for s in range(5)])
        for k, place in enumerate(experiment.places())
    ]
    outcome = experiment.outcome(samples)
    labels = ("alpha0 = 1", "alpha0 = 4")
    assert [(c.curve, c.place) for c in outcome.comparisons] == [(label, x) for label in labels for x in (0.8, 2.0)]
    assert max(abs(c.z) for c in outcome.comparisons) < 4
    (panel,) = outcome.panels
    assert [len(line.x) for line in panel.lines] == [42, 42]  # the grid, and the places measured
    for line, points in zip(panel.lines, panel.points, strict=True):
        own = [c for c in outcome.comparisons if c.curve == line.label]
        assert [line.y[line.x.index(x)] for x in points.x] == [c.theory for c in own]


def line_and_scatter(parameters, seed):
    """Return ``slope`` times the place or places, with an error that the seed sets."""
    return {"height": (parameters["slope"] * np.asarray(parameters["x"]) + 0.01 * (seed - 2)).tolist()}


class Heights(Curves):
    """Straight lines."""

    measure = staticmethod(line_and_scatter)
    names: ClassVar = {"height": "height h"}

    def theory(self, curve, x):
        return {"height": self.parameters(curve)["slope"] * x}


@pytest.mark.parametrize("together", [False, True])
def test_settings_say_what_is_drawn_and_compared(together):
    settings = {
        "axis": {"parameter": "x", "label": "place x", "from": 0.0, "to": 4.0, "count": 5, "together": together},
        "base": {"slope": 2.0},
        "curves": [
            {"label": "a", "regime": "few", "panel": "left", "up_to": 2.0},
            {"label": "b", "regime": "few", "panel": "right", "parameters": {"slope": 3.0}, "line": False},
            {"label": "c", "regime": "few", "panel": "right", "theory_only": True},
        ],
        "allowance": {"relative": 0.1, "reason": "known", "up_to": 1.0},
        "table": ["curve", "x", "quantity", "theory", "measured", "z"],
    }
    experiment = Heights("heights", settings, {"d": 7, "points": [1.0, 2.5], "seeds": 5, "seed": 0})
    places = list(experiment.places())
    assert [place.parameters["x"] for place in places] == ([[1.0], [1.0, 2.5]] if together else [1.0, 1.0, 2.5])
    assert all(place.parameters["d"] == 7 for place in places)
    samples = [Sample(place, [line_and_scatter(place.parameters, seed) for seed in range(5)]) for place in places]
    outcome = experiment.outcome(samples)
    assert [(c.curve, c.place, c.theory, c.allowance) for c in outcome.comparisons] == [
        ("a", 1.0, 2.0, 0.1), ("b", 1.0, 3.0, 0.1), ("b", 2.5, 7.5, 0.0),
    ]  # fmt: skip
    assert {c.quantity for c in outcome.comparisons} == {"height h"}
    assert max(abs(c.z) for c in outcome.comparisons) < 1
    left, right = outcome.panels
    assert [panel.title for panel in (left, right)] == ["left", "right"]
    assert [line.label for line in left.lines] == ["a"]
    assert [line.label for line in right.lines] == ["c"]
    assert [list(points.x) for points in (*left.points, *right.points)] == [[1.0], [1.0, 2.5]]
    assert [row[:3] for row in outcome.table.rows] == [
        [c, x, "height h"] for c, x in (("a", "1"), ("b", "1"), ("b", "2.5"))
    ]


def test_what_does_not_vary_is_drawn_and_not_compared():
    def drawn(*values, expected=1.0):
        place = Place(tiny, {}, "curve", 2.0)
        samples = [Sample(place, [{"share": value} for value in values])]
        curve = Curve("curve", "few", lambda x: {"share": np.full_like(x, expected)}, samples)
        return charts([curve], [1.0, 3.0], {"share": Panel("", "x", "share")})

    assert not drawn(1.0, 1.0, 1.0).comparisons
    assert not drawn(0.0, 0.0, 0.0, expected=0.0).comparisons
    assert list(drawn(1.0, 1.0, 1.0).panels[0].lines[0].x) == [1.0, 2.0, 3.0]
    assert drawn(0.9, 0.9, 0.9).comparisons[0].z < -4
    assert len(drawn(1.0, 1.0, 0.9).comparisons) == 1


def test_claims():
    x = np.array([1.0, 2.0, 4.0])
    exponent, fitted = power_law(x, 3 * x**-1.5)
    assert exponent == pytest.approx(-1.5)
    np.testing.assert_allclose(fitted, 3 * x**-1.5)
    assert in_standard_errors([1.0, 2.0, 3.0]) == pytest.approx(2 * np.sqrt(3))
    upper = [Judged.at(0.0, [3.0, 5.0], curve="", place=k) for k in range(2)]  # 4 with a standard error of 1
    lower = [Judged.at(0.0, [1.0, 3.0], curve="", place=0), Judged.at(0.0, [2.0, 6.0], curve="", place=1)]
    assert below(5.0, upper) == pytest.approx(1.0)
    assert below(5.0, lower) == pytest.approx(3.0)
    assert total_fall(upper, lower) == pytest.approx(2 / np.sqrt(1 + 1 + 1 + 4))


def test_headlines_are_measured_at_the_interpolation_peak():
    peaks = {"fig1": "psi2", "fig3a": "psi2", "fig3c": "psi2", "fig2_sin": "beta", "fig2_tanh": "beta"}
    for name, width in peaks.items():
        peak = FIGURES[name].settings["base"][width]
        assert all(peak in preset["points"] for preset in FIGURES[name].presets.values())


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_theory_is_dense(name):
    """A line through few places looks like a failure."""
    figure = FIGURES[name]
    assert figure.settings.get("axis", {}).get("count", 40) >= 40
    for preset in figure.presets.values():
        assert all(preset.get(places, 15) >= 15 for places in ("grid", "line", "lines"))


def test_a_shifted_theory_fails(measured, monkeypatch):
    figure, results = measured("fig3a")
    honest = learning_curves.predict_many

    def shifted(problems, **models):
        return [dataclasses.replace(p, test_error=1.3 * p.test_error) for p in honest(problems, **models)]

    monkeypatch.setattr(learning_curves, "predict_many", shifted)
    assert not figure.assemble("quick", results).verdict.passed


def test_figures_come_in_their_order_and_an_error_in_one_ends_the_run(tmp_path):
    figures = [dataclasses.replace(tiny(), name=name) for name in ("b", "a")]
    seen = []
    names = list(
        run_figures(
            figures,
            "quick",
            lambda result: result.figure.name,
            cache=tmp_path,
            workers=1,
            progress=lambda done, total, name: seen.append((done, total)),
        )
    )
    assert names == ["b", "a"]
    assert seen == [(done, seen[-1][1]) for done in range(1, seen[-1][1] + 1)]
    with pytest.raises(ZeroDivisionError):
        list(run_figures(figures, "quick", lambda result: 1 / 0, cache=tmp_path, workers=1))


def unpacked(data):
    return gzip.decompress(base64.b64decode(data)).decode()


def test_report_is_one_file_that_needs_nothing_else(tmp_path):
    result = run_figure(tiny(), "quick", cache=tmp_path / "cache", workers=1)
    path = write_report([write_section(result, tmp_path / "out")], tmp_path / "out", "quick", 1.0)
    text = path.read_text(encoding="utf-8")
    body = text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    body = body.replace("http://purl.org/dc/elements/1.1/", "").replace("http://creativecommons.org/ns#", "")
    body = body.replace("http://www.w3.org/1999/02/22-rdf-syntax-ns#", "").replace("http://purl.org/dc/dcmitype/", "")
    assert "http" not in body
    assert "<script src" not in body
    assert "<link" not in body
    assert text.count("<svg") == 2  # the figure, and the letters of all figures
    assert (
        set(re.findall(r'href="#(DejaVu[^"]*)"', text)) == set(re.findall(r'<path id="(DejaVu[^"]*)"', text)) != set()
    )
    assert LIGHT.text in text.split("prefers-color-scheme: dark")[0]
    assert LIGHT.text not in text[text.index("<svg") :]
    assert f"{result.verdict.largest_z:.2f}" in text
    assert text.index("<table>") < text.index(f"<h2>{PAPERS['ba2022']}")
    for kind in ("png", "svg", "pdf"):
        assert (path.parent / f"fig3b.{kind}").stat().st_size > 5000
    # What is behind the figure is a part of the file: its command, its data and its PDF.
    assert "gradstep reproduce --preset quick --figure fig3b" in text
    behind = dict(re.findall(r'download="([^"]+)" href="data:[a-z/]+;base64,([^"]+)"', text))
    assert base64.b64decode(behind["fig3b.pdf"]) == (path.parent / "fig3b.pdf").read_bytes()
    rows = list(csv.DictReader(io.StringIO(unpacked(behind["fig3b.csv.gz"]))))
    points = [row for row in rows if row["kind"] == "points" and row["panel"] == "1"]
    means = [mean for drawn in result.outcome.panels[0].points for mean in drawn.mean]
    assert [float(row["y"]) for row in points] == pytest.approx(means, rel=1e-5)
    found = list(csv.DictReader(io.StringIO(unpacked(behind["fig3b_comparisons.csv.gz"]))))
    assert [float(row["z"]) for row in found] == pytest.approx([c.z for c in result.outcome.comparisons], rel=1e-5)
    assert "Figure 3b" in text


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (
            Check.at_least("erf: the last risk lies {} standard errors below the bound", 37.04, 2),
            "lies 37 standard errors",
        ),
        (Check.at_most("the residual is {}", 1.25e-12, 1e-10), "the residual is 1.25e-12"),
        (Check.at_most("{} standard errors", math.nan, 1), "– standard errors"),
    ],
)
def test_checks_are_sentences(check, sentence):
    assert sentence in check.sentence


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda tmp: load_figures(["fig99"]), "figure"),
        (lambda tmp: run_figure(tiny(), "huge", cache=tmp), "preset"),
        (lambda tmp: run_figures([tiny()], "quick", str, cache=tmp, workers=0), "workers"),
    ],
)
def test_bad_input_is_named(call, field, tmp_path):
    with pytest.raises(InvalidInput, match=field):
        call(tmp_path)


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (0.0812345, 0.00123, "0.0812 ± 0.0012"), (12345.6, 78.9, "12346 ± 79"), (1.5, 0.0, "1.5 ± 0"),
        (12345.678, 150.0, "12350 ± 150"), (1.23456e9, 3.4e4, "1.23456e+09 ± 3.4e+04"), (2.0, 1e-9, "2 ± 1e-09"),
        (float("nan"), 1.0, "nan ± 1"),
    ],
)  # fmt: skip
def test_a_mean_is_written_to_its_error(mean, error, text):
    assert _measured(mean, error) == text
