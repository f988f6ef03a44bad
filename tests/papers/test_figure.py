"""The figures: settings, verdicts, results on disk that survive, and the report."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.papers import figure as module
from gradstep.papers.figure import judge, load_figures, run_figure
from gradstep.papers.report import write_report

ROWS = {"fig1": "B1", "fig3a": "B3", "fig3b": "B4", "fig3c": "B5", "fig2_tanh": "C5", "fig2_sin": "C5"}


def tiny(name: str = "fig3b"):
    """Return a figure cut down to the smallest useful size."""
    (settings,) = load_figures([name])
    preset = {"d": 40, "points": [1.0, 2.0], "seeds": 3, "seed": 7}
    return dataclasses.replace(settings, curves=settings.curves[:2], presets={"quick": preset})


def test_first_figures_are_there_with_every_preset_and_a_criterion():
    figures = load_figures()
    assert {f.name: f.row for f in figures} == ROWS
    for settings in figures:
        assert set(settings.presets) == {"quick", "standard", "paper"}
        assert settings.criterion["largest_z"] <= 4
        assert settings.stated
        assert settings.ours


@pytest.mark.parametrize("name", sorted(ROWS))
def test_quick_preset_meets_its_criterion(name, tmp_path):
    (settings,) = load_figures([name])
    result = run_figure(settings, "quick", cache=tmp_path, workers=1)
    assert result.passed, [(c.label, p) for c in result.curves for p in c.points]


def test_z_is_the_standard_normal_equivalent_of_students_t():
    rng = np.random.default_rng(3)
    z = [judge(1.0, 1.0 + rng.standard_normal(4))[2] for _ in range(4000)]
    # With four seeds the plain ratio has a standard deviation of 1.7 and 3.9 % beyond 4.
    assert np.std(z) == pytest.approx(1.0, abs=0.05)
    assert np.mean(np.abs(z) > 3) < 0.006
    mean, error, score = judge(2.0, [1.0, 3.0, 2.0, 2.4])
    assert mean == pytest.approx(2.1)
    assert error == pytest.approx(np.std([1.0, 3.0, 2.0, 2.4], ddof=1) / 2)
    assert 0 < score < 1
    assert judge(1e9, [1.0, 1.1, 1.2])[2] < -4
    assert abs(judge(1.1, [1.0, 1.01, 1.02], allowance=0.1)[2]) < abs(judge(1.1, [1.0, 1.01, 1.02])[2])


def test_a_shifted_theory_fails(tmp_path, monkeypatch):
    (settings,) = load_figures(["fig3a"])
    honest = module.predict_many

    def shifted(problems):
        return [dataclasses.replace(p, test_error=1.3 * p.test_error) for p in honest(problems)]

    monkeypatch.setattr(module, "predict_many", shifted)
    assert not run_figure(settings, "quick", cache=tmp_path, workers=1).passed


def test_second_run_simulates_nothing(tmp_path, monkeypatch):
    first = run_figure(tiny(), "quick", cache=tmp_path, workers=1)
    monkeypatch.setattr(module, "simulate", lambda *a, **k: pytest.fail("simulated again"))
    again = run_figure(tiny(), "quick", cache=tmp_path, workers=1)
    assert again.z_scores == first.z_scores


def test_number_of_workers_does_not_change_a_bit(tmp_path):
    one = run_figure(tiny(), "quick", cache=tmp_path / "one", workers=1)
    two = run_figure(tiny(), "quick", cache=tmp_path / "two", workers=2)
    assert one.z_scores == two.z_scores


@pytest.mark.parametrize("damage", ["", "{", '{"key": 1, "values": [1], "checksum": "no"}', "[]"])
def test_a_damaged_file_is_set_aside_and_computed_again(tmp_path, damage):
    first = run_figure(tiny(), "quick", cache=tmp_path, workers=1)
    victim = sorted(tmp_path.glob("*.json"))[0]
    victim.write_text(damage)
    again = run_figure(tiny(), "quick", cache=tmp_path, workers=1)
    assert again.z_scores == first.z_scores
    assert len(list(tmp_path.glob("*.damaged"))) == 1


def test_a_changed_value_is_noticed(tmp_path):
    run_figure(tiny(), "quick", cache=tmp_path, workers=1)
    victim = sorted(tmp_path.glob("*.json"))[0]
    stored = json.loads(victim.read_text())
    stored["values"][0] *= 2
    victim.write_text(json.dumps(stored))
    run_figure(tiny(), "quick", cache=tmp_path, workers=1)
    assert list(tmp_path.glob("*.damaged"))


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_run_resumes_and_ends_identical(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from gradstep.papers.figure import load_figures, run_figure\n"
        "if __name__ == '__main__':\n"
        "    run_figure(load_figures(['fig3a'])[0], 'quick', cache=Path(sys.argv[1]), workers=2)\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    cache = tmp_path / "cache"
    process = subprocess.Popen([sys.executable, str(script), str(cache)], start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(cache.glob("*.json")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    survivors = {path.name: path.stat().st_mtime_ns for path in cache.glob("*.json")}
    assert survivors
    (settings,) = load_figures(["fig3a"])
    resumed = run_figure(settings, "quick", cache=cache, workers=1)
    assert all((cache / name).stat().st_mtime_ns == stamp for name, stamp in survivors.items())
    undisturbed = run_figure(settings, "quick", cache=tmp_path / "fresh", workers=1)
    assert resumed.z_scores == undisturbed.z_scores


def test_report_is_one_file_that_needs_nothing_else(tmp_path):
    result = run_figure(tiny(), "quick", cache=tmp_path / "cache", workers=1)
    path = write_report([result], tmp_path / "out", "quick", 1.0)
    text = path.read_text(encoding="utf-8")
    body = text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    body = body.replace("http://purl.org/dc/elements/1.1/", "").replace("http://creativecommons.org/ns#", "")
    body = body.replace("http://www.w3.org/1999/02/22-rdf-syntax-ns#", "").replace("http://purl.org/dc/dcmitype/", "")
    assert "http" not in body
    assert "<script" not in body
    assert "<link" not in body
    assert text.count("<svg") == 2
    assert f"{result.largest_z:.2f}" in text
    for kind in ("png", "svg", "pdf"):
        assert (path.parent / f"fig3b.{kind}").stat().st_size > 5000


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda tmp: load_figures(["fig99"]), "figure"),
        (lambda tmp: run_figure(tiny(), "huge", cache=tmp), "preset"),
        (lambda tmp: run_figure(tiny(), "quick", cache=tmp, workers=0), "workers"),
    ],
)
def test_bad_input_is_named(call, field, tmp_path: Path):
    with pytest.raises(InvalidInput, match=field):
        call(tmp_path)
