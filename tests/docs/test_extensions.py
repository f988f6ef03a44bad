"""The extensions of the docs: numbers and pictures from runs and results files, and an entry for every public name."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

pictures = pytest.importorskip("pictures")
pytest.importorskip("sphinx")
complete = pytest.importorskip("complete")
results = pytest.importorskip("results")
run = pytest.importorskip("run")

ROWS = [
    {"step": "1", "theory": 0.21044, "measured": {"mean": 0.2108, "error": 0.0006}, "passed": True, "note": None},
    {"step": "2 | 3", "theory": 0.1, "measured": {"mean": 0.2, "error": 0.1}, "passed": False, "note": 3},
]


def test_a_table_fills_its_columns_from_each_row() -> None:
    lines = ["step: {step}", "", "network: {measured[mean]:.3f} ± {measured[error]:.1g}", "ok: {passed}", "ok: {note}"]
    columns = results.columns_of(lines)
    assert results.table(ROWS, columns).splitlines() == [
        "| step | network | ok | ok |",
        "| --- | --- | --- | --- |",
        "| 1 | 0.211 ± 0.0006 | yes | – |",
        r"| 2 \| 3 | 0.200 ± 0.1 | no | 3 |",
    ]


def test_parts_of_a_file_are_found_by_path() -> None:
    assert results.find("[tables][1]", {"tables": [0, ROWS]}) == ROWS
    assert results.find("rows", {"rows": ROWS}) == ROWS
    assert results.fill("{0[0][step]}", ROWS) == "1"
    with pytest.raises(KeyError):
        results.fill("{step} {missing}", ROWS[0])


@pytest.mark.parametrize(("where", "steps"), [("passed", ["1"]), ("step=2 | 3", ["2 | 3"])])
def test_rows_are_kept_by_a_key(where: str, steps: list[str]) -> None:
    assert [row["step"] for row in ROWS if results.kept(row, where)] == steps


def test_settings_are_described_in_words() -> None:
    assert results.described({"d": 512, "load_before": 1.33251953125, "gpu": None}) == "d 512, load before 1.333, gpu –"


def test_code_of_a_page_prints_and_has_a_value() -> None:
    names: dict[str, object] = {}
    assert run.execute("a = 2\nprint(a)\na + 1", names, "page.md") == ("2\n", 3)
    assert names["a"] == 2
    with pytest.raises(UserWarning, match="beware"):
        run.execute("import warnings\nwarnings.warn('beware')", names, "page.md")


def test_a_picture_is_saved_in_light_and_in_dark_ink(tmp_path: Path) -> None:
    with mpl.rc_context():
        pictures.set_style()
        figure, axes = plt.subplots()
        axes.plot([0, 1], [0, 1], color="C0", label="theory")
        axes.set(xlabel="n/d", ylabel="test error")
        axes.legend()
        assert pictures.drawn(None) == [figure]
        assert pictures.described(figure) == "test error against n/d: theory"
        light, dark = (path.read_text("utf-8") for path in pictures.save(figure, tmp_path / "a.svg"))
        plt.close(figure)
    hue = pictures.STYLE["axes.prop_cycle"].by_key()["color"][0]
    ink, night = pictures.LIGHT.text, pictures.DARK.text
    assert ink in light
    assert night in dark
    assert hue in light
    assert hue in dark
    # Only a shape that is neither text nor axis may keep the light page's ink.
    assert not re.findall(rf"(?:fill|stroke): {ink}", dark)


def test_public_names_without_an_entry_are_found() -> None:
    assert {"gradstep.sweeps.State", "gradstep.sweeps.RESULT_VERSION"} < set(complete.missing("gradstep.sweeps", ()))
    # An entry where a name is defined is one, for constants too, which do not say where that is.
    entries = ["gradstep.sweeps.progress.State", "gradstep.sweeps.store.RESULT_VERSION"]
    assert not {"gradstep.sweeps.State", "gradstep.sweeps.RESULT_VERSION"} & set(
        complete.missing("gradstep.sweeps", entries)
    )


def test_one_panel_fits_a_phone_and_two_scroll() -> None:
    assert pictures.frame(plt.figure(figsize=(7, 3.4))) == "picture"
    assert pictures.frame(plt.figure(figsize=(9.6, 3.9))) == "picture wide"
