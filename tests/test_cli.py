"""The command line: what it prints, what it refuses, and that the numbers are those of the library."""

from __future__ import annotations

import ast
import builtins
import errno
import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from gradstep.__main__ import main as program
from gradstep.cli import app, output
from gradstep.cli.failure import report
from gradstep.cli.grid import build_grid
from gradstep.comparison import compare
from gradstep.errors import InvalidInput, NotConverged
from gradstep.estimators import OneStepRegressor
from gradstep.gaussian import REGISTERED
from gradstep.papers.figure import load_figures
from gradstep.problem import CONVENTION, Problem, Step
from gradstep.simulation import simulate
from gradstep.sizes import Proportional
from gradstep.text_table import in_words
from gradstep.theory import QUANTITIES, predict, predict_spread
from gradstep.theory.equivalent import batches

SETTINGS = """
[problem]
activation = "erf"
teacher = "erf"
d = 8
width = 8
n_step = 8
n = 8
eta = 1.0
ridge = 1.0
"""
SMALL = ["--d", "20", "--width", "16", "--n-step", "40", "--n", "30"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def message(stderr: str) -> str:
    """Return a message as one line: its first line begins at the margin, the others are indented and fit."""
    first, *others = stderr.rstrip("\n").split("\n")
    assert first[0] != " "
    assert all(line.startswith("  ") and (len(line) <= 80 or " " not in line.strip()) for line in others)
    return " ".join([first, *(line.strip() for line in others)])


def run_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def small_problem(**changes: Any) -> Problem:
    settings: dict[str, Any] = {
        "activation": "tanh",
        "teacher": "sin",
        "d": 20,
        "width": 16,
        "n_step": 40,
        "n": 30,
        "eta": Step(1.0, 0.5),
        "ridge": 20 / 64,
        "noise": 0.1,
    }
    return Problem(**settings | changes)


# --- grids -------------------------------------------------------------------------------------------------------


def test_grid_is_the_cartesian_product_in_order() -> None:
    grid = build_grid({"n": "10,20", "d": "30:50:2", "ridge": "1"})
    assert [axis.name for axis in grid.axes] == ["d", "n"]
    assert [(p.d, p.n) for p in grid.problems] == [(30, 10), (30, 20), (50, 10), (50, 20)]
    assert [(p.d, p.n) for p in grid.problems] == list(grid.points)


def test_multiples_of_the_dimension() -> None:
    finite = build_grid({"d": "64", "width": "0.5d,2d", "n": "1:3:3d", "ridge": "0.25d"})
    assert {(p.width, p.n, p.ridge) for p in finite.problems} == {
        (w, n, 16.0) for w in (32, 128) for n in (64, 128, 192)
    }
    limit = build_grid({"d": "inf", "width": "2d"}).problems[0]
    assert limit.is_limit
    assert limit.width == Proportional(2.0)


def test_logarithmic_axes_are_recognised() -> None:
    assert build_grid({"ridge": "1e-3:1e3:log7"}).axes[0].is_logarithmic
    assert not build_grid({"ridge": "1:100:7"}).axes[0].is_logarithmic
    assert not build_grid({"eta": "0:4:5"}).axes[0].is_logarithmic


# --- predict ------------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_library_to_the_last_digit() -> None:
    document = run_json("predict", *SMALL)
    expected = predict(small_problem())
    (found,) = document["predictions"]
    assert {name: found[name] for name in QUANTITIES} == {name: getattr(expected, name) for name in QUANTITIES}
    assert Problem.from_dict(found["problem"]) == small_problem()
    assert document["convention"] == CONVENTION
    assert set(document["versions"]) == {"gradstep", "numpy", "scipy"}


def test_a_grid_of_predictions_agrees_with_single_ones() -> None:
    document = run_json("predict", *SMALL, "--ridge", "0.1,10", "--activation", "relu", "--n", "25:35:2")
    assert document["axes"] == {"n": [25, 35], "ridge": [0.1, 10.0]}
    assert document["units"] == {}
    multiples = run_json("predict", "--d", "20", "--n", "1d,2d", "--ridge", "1,2d")
    assert multiples["axes"] == {"n": [1.0, 2.0], "ridge": [1.0, "2d"]}
    assert multiples["units"] == {"n": "d"}
    assert len(document["predictions"]) == 4
    for found in document["predictions"]:
        expected = predict(small_problem(activation="relu", **found["coordinates"]))
        assert found["test_error"] == pytest.approx(expected.test_error, rel=1e-9)


def test_the_papers_parameters_and_the_step_as_a_power_of_the_width() -> None:
    pairs = ["--set", "psi1=4", "--set", "psi2=2", "--set", "lam=1e-3", "--set", "eta=0.5,1"]
    document = run_json("predict", "--convention", "ba2022", "--d", "40", *pairs)
    expected = [predict(Problem.ba2022(psi1=4, psi2=2, lam=1e-3, eta=eta, d=40)) for eta in (0.5, 1.0)]
    assert [p["test_error"] for p in document["predictions"]] == pytest.approx([p.test_error for p in expected])
    power = run_json("predict", *SMALL, "--eta", "1.5*N^0.25")["predictions"][0]["problem"]["eta"]
    assert power == {"coefficient": 1.5, "exponent": 0.25}


def test_options_on_the_line_override_the_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        '[problem]\nactivation = "relu"\nd = 20\nwidth = 16\nn = "30,40"\nreadout = {"-1" = 0.5, "1" = 0.5}\n'
    )
    document = run_json("predict", "--settings", str(path), "--activation", "erf", "--n-step", "40")
    problems = [p["problem"] for p in document["predictions"]]
    assert [p["n"] for p in problems] == [30, 40]
    assert {p["activation"] for p in problems} == {"erf"}
    assert problems[0]["readout"] == {"-1.0": 0.5, "1.0": 0.5}
    assert problems == [
        p["problem"] for p in run_json(
            "predict", *SMALL[:6], "--n", "30,40", "--activation", "erf", "--readout", "-1:0.5,1:0.5"
        )["predictions"]
    ]  # fmt: skip


def test_plain_output_states_problem_convention_and_numbers() -> None:
    result = run("predict", *SMALL)
    assert result.exit_code == 0
    assert "gradstep convention" in result.stdout
    assert "activation tanh, teacher sin; d = 20, width = 16" in result.stdout
    assert f"{predict(small_problem()).test_error:.6g}" in result.stdout
    assert f"{predict(small_problem(eta=0)).test_error:.6g}" in result.stdout
    assert "\x1b" not in result.stdout
    assert not set("│┃─━") & set(result.stdout)
    columns = [line for line in result.stdout.splitlines() if line.startswith(("quantity", *map(in_words, QUANTITIES)))]
    assert len(columns) == 1 + len(QUANTITIES)
    assert len({len(line) for line in columns}) == 1


def test_a_range_prints_one_line_each() -> None:
    lines = run("predict", *SMALL, "--n", "20:40:3").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["n"])
    assert [line.split()[0] for line in lines[start + 1 : start + 4]] == ["20", "30", "40"]


def test_the_step_that_is_not_taken_has_one_column() -> None:
    result = run("predict", *SMALL, "--eta", "0")
    assert "no step" in result.stdout
    assert "after the step" not in result.stdout


@pytest.mark.parametrize("samples", ["30", "20:40:2"])
def test_the_spread_over_draws_is_that_of_the_library(samples: str) -> None:
    found = [p["spread"] for p in run_json("predict", *SMALL, "--n", samples, "--spread")["predictions"]]
    sizes = [30] if samples == "30" else [20, 40]
    expected = [predict_spread(small_problem(n=n)) for n in sizes]
    for one, other in zip(found, expected, strict=True):
        # Solved together, sums are in another order.
        assert one["test_error"] == pytest.approx(other.test_error, rel=1e-9)
        assert one["train_error"] == pytest.approx(other.train_error, rel=1e-9)
    shown = run("predict", *SMALL, "--n", samples, "--spread").stdout
    for spread in expected:
        assert f" {spread.test_error:.3g}" in shown


# --- simulate and compare -----------------------------------------------------------------------------------------


def test_simulation_is_that_of_the_library_seed_by_seed() -> None:
    document = run_json("simulate", *SMALL, "--seeds", "3,5", "--ridge", "0.5,2")
    for found, ridge in zip(document["measurements"], (0.5, 2.0), strict=True):
        expected = simulate(small_problem(ridge=ridge), (3, 5))
        assert found["seeds"] == [3, 5]
        assert found["ridge"] == ridge
        for name, value in expected.values.items():
            if name != "test_error_bound":
                assert found["values"][name] == pytest.approx(value.tolist(), rel=1e-9), name
        assert found["mean"]["test_error"] == pytest.approx(float(expected.mean("test_error")), rel=1e-9)
    plain = run("simulate", *SMALL, "--seeds", "2")
    assert plain.exit_code == 0
    assert "1/1 problems simulated" in plain.stderr


def test_correlated_inputs_and_a_damped_step_are_options() -> None:
    document = run_json("simulate", *SMALL, "--seeds", "3", "--inputs", "power_law(0.5, d=20)", "--damping", "0.5,inf")
    for found, damping in zip(document["measurements"], (0.5, float("inf")), strict=True):
        expected = simulate(small_problem(inputs="power_law(0.5, d=20)", damping=damping), 3)
        assert found["mean"]["test_error"] == pytest.approx(float(expected.mean("test_error")), rel=1e-9)


def test_comparison_is_that_of_the_library() -> None:
    document = run_json("compare", *SMALL, "--seeds", "4", "--n", "25,35")
    expected = compare([small_problem(n=n) for n in (25, 35)], 4)
    for index, n in enumerate((25, 35)):
        found = document["comparisons"][index]
        assert found["coordinates"] == {"n": n}
        assert found["prediction"]["test_error"] == pytest.approx(expected.predictions[index].test_error, rel=1e-9)
        for name, cell in expected.cells[index].items():
            assert found["comparison"][name] == pytest.approx(cell, rel=1e-6), name
    worst, beyond = document["worst"], expected.verdict["beyond_three"]
    assert abs(worst["z"]) == pytest.approx(abs(expected.verdict["worst"]["z"]), rel=1e-6)  # alignments tie
    assert (document["judged"], document["beyond_three"]) == (14, beyond)
    plain = run("compare", *SMALL, "--seeds", "4", "--n", "25,35").stdout
    assert f"({in_words(worst['quantity'])}, n = {(25, 35)[worst['index']]}); {beyond} of 14 beyond 3" in plain
    single = compare(small_problem(), 4)["test_error"]
    row = next(line for line in run("compare", *SMALL, "--seeds", "4").stdout.splitlines() if "test error " in line)
    assert row.split()[-3:] == [f"{100 * single.relative_difference:+.1f}", "%", f"{single.z:+.2f}"]


def test_compare_says_where_deviations_come_from() -> None:
    arguments = ("compare", *SMALL, "--seeds", "2", "--n", "70", "--sources")
    document, text = run_json(*arguments), run(*arguments).stdout
    expected = compare([small_problem(n=70)], 2, sources=True)
    for index, case in enumerate(document["comparisons"]):
        found = expected.sources["test_error"].fit.z[index]
        assert case["sources"]["test_error"]["fit_z"] == pytest.approx(found, rel=1e-6)
    table = text.split("where deviations come from")[1]
    for row in expected.source_table().rows:
        assert row[-1].split()[0] in table


def test_what_does_not_vary_is_right_or_clearly_wrong() -> None:
    comparison = run_json("compare", *SMALL, "--seeds", "3", "--eta", "0", "--initial-weights", "sphere")[
        "comparisons"
    ][0]["comparison"]
    assert comparison["spike_strength"] == {
        "theory": 0,
        "mean": 0,
        "standard_error": 0,
        "relative_difference": None,
        "z": 0,
    }
    assert comparison["alignment"]["z"] is None
    assert comparison["test_error"]["z"] is not None


def test_what_cannot_be_predicted_leaves_the_rest_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = batches._solved

    def failing(fits: Any) -> Any:
        if any(fit.sizes.n == 25 for fit in fits):
            raise NotConverged("the equations", 1.0, 1e-10, "Change them.")
        return honest(fits)

    monkeypatch.setattr(batches, "_solved", failing)
    result = run("compare", *SMALL, "--seeds", "2", "--n", "25,35")
    assert result.exit_code == 3
    words = " ".join(result.stdout.split())
    assert "no prediction at 1 of 2, the first: NotConverged: the equations did not converge" in words
    assert f"{predict(small_problem(n=35)).test_error:.6g}" in result.stdout
    result = run("compare", *SMALL, "--seeds", "2", "--n", "25,35", "--json")
    assert result.exit_code == 3
    first, second = json.loads(result.stdout)["comparisons"]
    assert (first["prediction"], first["failure"][:12]) == (None, "NotConverged")
    assert first["comparison"]["test_error"]["mean"] > 0
    assert first["comparison"]["test_error"]["z"] is None
    assert "failure" not in second
    # Of one problem alone there is nothing to show.
    alone = run("compare", *SMALL, "--seeds", "2", "--n", "25")
    assert (alone.exit_code, alone.stdout) == (3, "")


# --- figures ------------------------------------------------------------------------------------------------------

SIGNATURES = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("learned.png", ["predict", *SMALL]),
        ("curves.pdf", ["predict", *SMALL, "--n", "20:40:3", "--ridge", "0.1,1"]),
        ("path.svg", ["predict", *SMALL, "--ridge", "1e-3:1e3:log5"]),
        ("overlay.svg", ["compare", *SMALL, "--seeds", "2", "--n", "20,40"]),
        ("ratios.PNG", ["compare", *SMALL, "--seeds", "2"]),
    ],
)
def test_figures(name: str, arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("an older figure")
    result = run(*arguments, "--plot", str(path))
    assert result.exit_code == 0, result.stderr
    assert f"figure: {path}" in result.stdout
    content = path.read_bytes()
    assert content.startswith(SIGNATURES[path.suffix[1:].lower()])
    if path.suffix == ".svg":
        ElementTree.fromstring(content)


def test_a_full_disk_leaves_an_older_figure_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure.png"
    path.write_text("an older figure")

    class Full(io.FileIO):
        def write(self, content: Any) -> int:
            super().write(bytes(content)[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    opened = io.open
    for module in (builtins, io):
        monkeypatch.setattr(
            module,
            "open",
            lambda file, mode="r", *rest, **options: (
                Full(file, mode) if "w" in mode else opened(file, mode, *rest, **options)
            ),
        )
    result = run("predict", *SMALL, "--plot", str(path))
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: plot: got ")
    assert "No space left" in message(result.stderr)
    assert path.read_text() == "an older figure"
    assert [entry.name for entry in tmp_path.iterdir()] == ["figure.png"]
    assert "test error" in result.stdout
    assert "figure:" not in result.stdout


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize(
    "command",
    [("predict",), ("predict", "--n", "20,30"), ("compare", "--seeds", "2"), ("spectrum", "--seeds", "0"), ("learn",)],
    ids=" ".join,
)
def test_results_are_printed_though_their_figure_cannot_be_written(
    command: tuple[str, ...], json_: bool, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have taken hours."""

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gradstep.cli.plots.replace_file", full)
    own = [str(people), "--target", "speed", "--width", "8", "--n", "90"] if command == ("learn",) else SMALL
    result = run(*command, *own, "--plot", str(people.with_name("figure.png")), *(["--json"] if json_ else []))
    assert result.exit_code == 2
    assert "No space left" in result.stderr
    assert json.loads(result.stdout)["command"] == command[0] if json_ else len(result.stdout.splitlines()) > 4
    assert "figure:" not in result.stdout


# --- refusals -----------------------------------------------------------------------------------------------------

BAD = [
    (["predict", "--d", "nan"], "d"),
    (["predict", "--d", "0"], "d"),
    (["predict", "--width", "-3"], "width"),
    (["predict", "--n", "2.5"], "n"),
    (["predict", "--n", "10:20"], "n"),
    (["predict", "--n", "-1d"], "n"),
    (["predict", "--d", "1e300"], "d"),
    (["predict", "--d", "1e400"], "d"),
    (["predict", "--n-step", "100,1e400"], "n_step"),
    (["predict", "--activation", "1e154*x"], "activation"),
    (["predict", "--teacher", "1e300*tanh(x)"], "teacher"),
    (["predict", "--settings", "/dev/zero"], "settings"),
    (["predict", "--d", "inf", "--n", "100"], "n"),
    (["predict", "--ridge", "0"], "ridge"),
    (["predict", "--noise", "-1"], "noise"),
    (["predict", "--eta", "N^2"], "eta"),
    (["predict", "--eta", "import os"], "eta"),
    (["predict", "--damping", "1e31"], "damping"),
    (["citation", "--eta", "2"], "name"),
    (["citation", "fig3a", "--eta", "2"], "name"),
    (["predict", "--activation", "nosuch"], "activation (function)"),
    (["predict", "--teacher", "x.__class__"], "teacher (function)"),
    (["predict", "--activation", "1/x"], "activation (function)"),
    (["predict", "--readout", "1:x"], "readout"),
    (["predict", "--readout", "uniform"], "readout"),
    (["predict", "--initial-weights", "cube"], "initial_weights"),
    (["predict", "--output-scale", "2"], "output_scale"),
    (["predict", "--convention", "nobody2020"], "convention"),
    (["predict", "--convention", "ba2022", "--set", "psi1=4"], "psi2"),
    (["predict", "--convention", "ba2022", "--set", "nonsense=4"], "nonsense"),
    (["predict", "--set", "psi1"], "set"),
    (["predict", "--set", "n=3", "--n", "4"], "set"),
    (["predict", "--settings", "/no/such/file.toml"], "settings"),
    (["predict", "--plot", "figure.gif"], "plot"),
    (["predict", "--plot", "/no/such/folder/figure.png"], "plot"),
    (["predict", "--n", "1:9:9", "--ridge", "1:2:9", "--noise", "1:2:9", "--plot", "figure.png"], "plot"),
    (["predict", "--n", "1:1000:1000", "--ridge", "1:2:1000"], "ranges"),
    (["simulate", "--seeds", "0"], "seeds"),
    (["simulate", "--d", "inf"], "d"),
    (["simulate", "--n-step", "inf"], "n_step"),
    (["simulate", "--d", "1e6", "--width", "1e6", "--n", "9", "--n-step", "9"], "width"),
    (["simulate", "--n", "1e12", "--width", "1e5"], "n"),
    (["simulate", "--device", "abacus"], "device"),
    (["simulate", "--dtype", "float16"], "dtype"),
    (["compare", "--seeds", "1"], "seeds"),
    (["reproduce", "--preset", "grand"], "preset"),
]


@pytest.mark.parametrize(
    ("arguments", "field"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input_is_one_message_and_exit_code_two(arguments: list[str], field: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    line = message(result.stderr)
    assert line.startswith((f"error: {field}: got ", f"error: {field}: missing; ", f"error: {field}: not a known name"))
    assert "; allowed: " in line


@pytest.mark.parametrize(
    ("command", "convention", "settings", "size"),
    [
        ("predict", "moniri2024", ["phi=0.5", "psi=0.8", "alpha=0.25", "lam=0.01"], "n"),
        ("tune", "moniri2024", ["phi=0.5", "psi=0.8", "alpha=0.25", "lam=0.01"], "n"),
        ("compare", "moniri2024", ["phi=0.5", "psi=0.8", "alpha=0", "lam=0.01"], "n"),
        ("predict", "ba2022", ["psi1=4", "psi2=2", "lam=1e-3", "eta=N^0.25"], "d"),
    ],
)
def test_a_paper_s_problem_without_a_size_is_told_which_to_give(
    command: str, convention: str, settings: list[str], size: str
) -> None:
    given = [word for pair in settings for word in ("--set", pair)]
    result = run(command, "--convention", convention, *given)
    assert result.exit_code == 2
    assert f"give a finite --{size} ({convention} without it is the limit)" in message(result.stderr)
    if command == "predict":
        assert run(command, "--convention", convention, *given, f"--{size}", "100").exit_code == 0
        assert "give a finite" not in run("predict", "--d", "inf", "--eta", "N^0.25").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("d = 1e400", "1e400 is too large"),
        ("d = " + "9" * 5000, "valid TOML"),
    ],
)
def test_settings_that_no_reader_takes_are_one_clear_message(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    for result in (run("predict", "--settings", str(path)), run("sweep", str(path), "--out", str(tmp_path / "never"))):
        assert result.exit_code == 2
        assert message(result.stderr).startswith("error: settings: got ")
        assert said in message(result.stderr)
    with pytest.raises(InvalidInput, match=said):
        Problem.from_toml(path)


@pytest.mark.skipif(os.name == "nt", reason="directories in use cannot be deleted there")
def test_a_deleted_working_directory_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, settings = tmp_path / "gone", tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = run("sweep", str(settings), "--out", str(tmp_path / "results"))
    said = "error: working directory: got 'deleted'; allowed: a directory that exists"
    assert message(result.stderr).startswith(said)
    result = run("predict", *SMALL, "--plot", "figure.png")
    assert result.stderr == "error: plot: got 'figure.png'; allowed: a file in a directory that exists\n"
    assert run("predict", *SMALL).exit_code == 0


@pytest.mark.parametrize("extra", ["app", "torch", "cluster", "estimators,sweeps"])
def test_a_missing_part_is_told_how_to_install(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    command, missing = {
        "app": (["app"], "uvicorn"),
        "torch": (["simulate", *SMALL, "--device", "cpu"], "torch"),
        "cluster": (["sweep", str(settings), "--out", str(tmp_path / "never"), "--cluster", "local"], "distributed"),
        "estimators,sweeps": (["learn", "table.csv", "--target", "y"], "pandas"),
    }[extra]
    monkeypatch.setitem(sys.modules, missing, None)
    result = run(*command)
    assert result.exit_code == 2
    said = f'a part of gradstep that is not installed; run: pip install "gradstep[{extra}]"'
    assert message(result.stderr).endswith(said)


@pytest.mark.parametrize("eta", ["-1", "N^2", "-2*N^0.5", "1e31"])
def test_a_step_size_out_of_range_is_told_the_range(eta: str) -> None:
    told = message(run("predict", "--eta", eta).stderr)
    assert told.startswith(f"error: eta: got '{eta}'; allowed: ")
    assert "from 0 to 1e+30" in told
    assert "from N^0 to N^1" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "SETTINGS", "--out", ""],
        ["sweep", "", "--out", "results"],
        ["reproduce", "--figure", "fig3a", "--preset", "quick", "--out", ""],
        ["collect", "results", "--out", ""],
        ["status", ""],
        ["predict", "--plot", ""],
        ["predict", "--settings", ""],
    ],
)
def test_an_empty_path_is_not_the_current_directory(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of the shell that is not set leaves an empty text, and nothing may be written next to the settings."""
    (tmp_path / "settings.toml").write_text("[problem]\nd = 8\n[run]\nseeds = 0\n")
    monkeypatch.chdir(tmp_path)
    result = run(*["settings.toml" if each == "SETTINGS" else each for each in arguments], "--json")
    assert result.exit_code == 2
    error = json.loads(result.stderr.splitlines()[-1])["error"]
    option = arguments[arguments.index("") - 1]
    assert "an empty text is no path" in error["message"]
    assert (option if option.startswith("--") else "Invalid value for") in error["message"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.toml"]


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_errors_are_broken_at_words_and_commands_are_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    width = min(columns, 80)
    for text, last in [("words " * 50, None), ("words " * 30 + "run: gradstep sweep a b", "  gradstep sweep a b")]:
        report("InvalidInput", text, 2, as_json=False)
        lines = capsys.readouterr().err.splitlines()
        assert " ".join(" ".join(lines).split()) == text.strip()
        assert width - 10 < max(map(len, lines)) <= width
        assert last in (None, lines[-1])
    report("InvalidInput", "short; run: gradstep sweep", 2, as_json=False)
    assert capsys.readouterr().err == "short; run: gradstep sweep\n"


def test_a_multiple_of_the_dimension_that_cannot_be_read_is_shown_as_it_was_given() -> None:
    line = message(run("predict", "--width", "1,0x3d").stderr)
    assert line.startswith("error: width: got '1,0x3d'; allowed: ")
    assert line.endswith("each may be a positive multiple of d: 1.5d,2d or 1d:4d:7")


@pytest.mark.parametrize("text", [b"n = ", b"\xff\xfe", b"problem = 3", b"depth = 3"])
def test_bad_settings_files(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(text)
    result = run("predict", "--settings", str(path))
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: ")


def test_a_directory_is_no_figure(tmp_path: Path) -> None:
    folder = tmp_path / "folder.png"
    folder.mkdir()
    assert run("predict", "--plot", str(folder)).exit_code == 2


def test_errors_as_json() -> None:
    result = run("predict", "--n", "0", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    error = json.loads(result.stderr)["error"]
    assert (error["type"], error["field"], error["value"], error["exit_code"]) == ("InvalidInput", "n", 0, 2)


@pytest.mark.parametrize("arguments", [["predict", "--noise", "inf"], ["sweep", "SETTINGS", "--until-se", "nan"]])
def test_errors_are_strict_json_whatever_was_given(arguments: list[str], tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(
        '[problem]\nactivation = "erf"\nteacher = "erf"\nd = 8\nwidth = 8\nn_step = 9\nn = 9\neta = 1.0\nridge = 1.0\n'
    )
    if arguments[0] == "sweep":
        arguments = ["sweep", str(settings), "--out", str(tmp_path / "never"), *arguments[2:]]
    result = run(*arguments, "--json")
    assert result.exit_code == 2

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    error = json.loads(result.stderr, parse_constant=refuse)["error"]
    assert error["value"] is None
    assert f"got {arguments[-1]}" in error["message"]


@pytest.mark.parametrize("option", [["--depth", "3"], ["stray"]])
def test_unknown_options_are_refused(option: list[str]) -> None:
    result = run("predict", *option)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    as_json = run("predict", *option, "--json")
    assert as_json.exit_code == 2
    assert option[0] in json.loads(as_json.stderr)["error"]["message"]


def test_a_misspelt_parameter_is_told_whatever_its_value(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[problem]\nactivaton = "tanh"\n')
    for result in (
        run("predict", "--settings", str(path)),
        run("predict", "--set", "activaton=tanh"),
        run("sweep", str(path), "--out", str(tmp_path / "results")),
    ):
        assert result.exit_code == 2
        told = message(result.stderr)
        assert told.startswith("error: activaton: not a known name (did you mean activation?); allowed: one of the")


def test_minus_infinity_is_no_dimension() -> None:
    result = run("predict", "--d", "-inf")
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: d: got -inf")


def test_settings_of_a_sweep_are_not_those_of_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text('[problem]\nd = 100\n\n[over]\nn = "100:400:4"\n')
    result = run("predict", "--settings", str(path))
    assert result.exit_code == 2
    assert "gradstep sweep" in result.stderr


def test_failure_to_converge_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(problems: object) -> None:
        raise NotConverged("the equations", 1e-3, 1e-10, "Use a larger penalty.")

    monkeypatch.setattr("gradstep.theory.predict_many", fail)
    result = run("predict", *SMALL)
    assert result.exit_code == 3
    said = "error: the equations did not converge: residual 1.00e-03 above 1e-10. Use a larger penalty."
    assert message(result.stderr) == said
    assert json.loads(run("predict", *SMALL, "--json").stderr)["error"]["residual"] == 1e-3


def test_numbers_out_of_range_are_no_traceback() -> None:
    result = run("predict", *SMALL, "--noise", "1e200")
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: ")


def test_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(problems: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradstep.theory.predict_many", interrupt)
    result = run("predict", *SMALL)
    assert result.exit_code == 130
    assert result.stderr == "interrupted; nothing was written\n"
    as_json = json.loads(run("predict", *SMALL, "--json").stderr)["error"]
    assert as_json == {"type": "Interrupted", "message": "interrupted; nothing was written", "exit_code": 130}


# --- reproduce ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_figures(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stand-ins for the figures of two papers, of which one can be told to fail or to be interrupted."""
    state = SimpleNamespace(passed=True, interrupted=False, asked=[])
    known = [
        SimpleNamespace(name="first", paper="ba2022", row="B1", headline=True),
        SimpleNamespace(name="second", paper="cui2024", row="C5", headline=True),
        SimpleNamespace(name="third", paper="cui2024", row="C6", headline=False),
    ]

    def load_figures(names: list[str] | None = None) -> list[SimpleNamespace]:
        for name in names or []:
            if name not in {f.name for f in known}:
                raise InvalidInput("figure", name, "first, second, third")
        return [f for f in known if not names or f.name in names]

    def run_figures(
        figures: list[Any], preset: str, finish: Any, *, cache: Path, workers: int | None, progress: Any
    ) -> Iterator[SimpleNamespace]:
        assert cache.is_dir()
        if state.interrupted:
            raise KeyboardInterrupt
        for figure in figures:
            progress(1, 1, figure.name)
            state.asked.append((figure.name, preset, workers))
            verdict = SimpleNamespace(passed=state.passed, largest_z=3.5, median_z=0.5)
            checks = [SimpleNamespace(passed=True), SimpleNamespace(passed=False)]
            outcome = SimpleNamespace(comparisons=[1, 2, 3], checks=checks)
            yield finish(SimpleNamespace(figure=figure, verdict=verdict, outcome=outcome))

    def write_section(result: Any, out: Path) -> SimpleNamespace:
        return SimpleNamespace(result=result)

    def write_report(sections: list[Any], out: Path, preset: str, seconds: float) -> Path:
        return out / "report.html"

    stand_in = SimpleNamespace(
        load_figures=load_figures,
        run_figures=run_figures,
        PRESETS=("quick", "standard", "paper"),
        PAPERS={"ba2022": "Ba", "moniri2024": "Moniri", "cui2024": "Cui"},
    )
    monkeypatch.setitem(sys.modules, "gradstep.papers.figure", stand_in)
    report = SimpleNamespace(write_report=write_report, write_section=write_section)
    monkeypatch.setitem(sys.modules, "gradstep.papers.report", report)
    return state


def test_reproduce_ends_with_the_path_of_the_report(two_figures: SimpleNamespace, tmp_path: Path) -> None:
    result = run("reproduce", "--preset", "quick", "--out", str(tmp_path), "--workers", "2")
    assert result.exit_code == 0, result.stderr
    assert sorted(two_figures.asked) == [("first", "quick", 2), ("second", "quick", 2)]
    lines = result.stdout.splitlines()
    assert lines[-1] == str(tmp_path / "report.html")
    row = next(line for line in lines if "second" in line)
    assert row.split() == ["C5", "second", "cui2024", "3", "3.5", "0.5", "1/2", "passed"]
    assert lines.index(row) > next(i for i, line in enumerate(lines) if "first" in line)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (["--figure", "second"], ["second"]),
        (["--figure", "third"], ["third"]),
        (["--paper", "cui2024"], ["second", "third"]),
        (["--paper", "cui2024", "--figure", "third"], ["third"]),
        (["--all"], ["first", "second", "third"]),
    ],
)
def test_reproduce_some_figures(
    choice: list[str], names: list[str], two_figures: SimpleNamespace, tmp_path: Path
) -> None:
    document = run_json("reproduce", "--out", str(tmp_path), *choice)
    assert sorted(two_figures.asked) == [(name, "standard", None) for name in names]
    assert [figure["name"] for figure in document["figures"]] == names
    assert document["report"] == str(tmp_path / "report.html")


def test_reproduce_lists_the_figures_and_runs_none(tmp_path: Path) -> None:
    known = load_figures()
    every = run_json("reproduce", "--list", "--out", str(tmp_path / "nothing"))
    assert [(f["row"], f["name"], f["headline"]) for f in every["figures"]] == [
        (f.row, f.name, f.headline) for f in known
    ]
    one = run_json("reproduce", "--list", "--paper", "beyond")
    assert [f["name"] for f in one["figures"]] == [f.name for f in known if f.paper == "beyond"]
    plain = run("reproduce", "--list", "--figure", "fig3a").stdout.splitlines()
    assert plain[1].split()[:4] == ["B3", "fig3a", "ba2022", "yes"]
    assert len(plain) == 2
    assert not (tmp_path / "nothing").exists()
    assert run("reproduce", "--list", "--paper", "third").exit_code == 2


def test_reproduce_fails_with_its_figures(two_figures: SimpleNamespace, tmp_path: Path) -> None:
    two_figures.passed = False
    result = run("reproduce", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "FAILED" in result.stdout


def test_reproduce_interrupted_says_how_to_go_on(two_figures: SimpleNamespace, tmp_path: Path) -> None:
    two_figures.interrupted = True
    result = run("reproduce", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert "goes on from what is finished" in message(result.stderr)
    as_json = json.loads(run("reproduce", "--out", str(tmp_path), "--json").stderr)["error"]
    assert "goes on from what is finished" in as_json["message"]
    assert as_json["exit_code"] == 130


@pytest.mark.usefixtures("two_figures")
def test_reproduce_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    wrong = [["--figure", "fourth"], ["--paper", "third"], ["--preset", "huge"], ["--out", str(occupied)]]
    wrong += [
        ["--figure", "first", "--paper", "cui2024"],
        ["--all", "--figure", "first"],
        ["--all", "--paper", "cui2024"],
    ]
    for arguments in wrong:
        result = run("reproduce", "--out", str(tmp_path), *arguments)
        assert result.exit_code == 2, arguments
        assert message(result.stderr).startswith(f"error: {arguments[0][2:]}: got ")


# --- the rest -----------------------------------------------------------------------------------------------------


def test_functions_lists_every_registered_name() -> None:
    assert set(run_json("functions")["functions"]) == set(REGISTERED)
    assert run_json("functions")["functions"]["relu"]["kinks"] == [0.0]
    plain = run("functions")
    assert all(any(line.startswith(name + " ") for line in plain.stdout.splitlines()) for name in REGISTERED)


@pytest.mark.parametrize("command", ["predict", "simulate", "compare", "reproduce", "functions"])
def test_help_teaches(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    if command in ("predict", "simulate", "compare"):
        text = " ".join(result.stdout.split())
        assert "Examples" in text
        assert "Convention: f(x)" in text
        assert "Network and data" in text


def test_ctrl_c_while_the_command_line_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradstep.cli.main", pressed)
    with pytest.raises(SystemExit) as ended:
        program()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted; nothing was written\n"


def test_as_a_program(tmp_path: Path) -> None:
    def program(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; from gradstep.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    good = program("predict", *SMALL, "--json")
    assert good.returncode == 0
    assert good.stderr == ""
    expected = predict(small_problem()).test_error
    assert json.loads(good.stdout)["predictions"][0]["test_error"] == pytest.approx(expected, rel=1e-9)
    bad = program("predict", "--d", "nan")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: d: got 'nan'; allowed: ")
    assert program("--version").stdout.startswith("gradstep ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("arguments", "to", "said"),
    [
        pytest.param(arguments, *lost, marks=pytest.mark.statistical if (place + other) % 2 else ())
        for place, arguments in enumerate(["functions", "functions --json", "--version", "--help"])
        for other, lost in enumerate([("> /dev/full", "No space left"), (">&-", "closed")])
    ],
)
def test_standard_output_that_takes_nothing_is_one_clear_message(arguments: str, to: str, said: str) -> None:
    command = f"'{sys.executable}' -m gradstep {arguments} {to}"
    lost = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert lost.returncode == 2
    line = message(lost.stderr)
    told = json.loads(line)["error"]["message"] if "--json" in arguments else line.removeprefix("error: ")
    assert told.startswith("standard output: got ")
    assert said in told


def test_a_reader_that_has_gone_is_no_error_to_speak_of() -> None:
    code = (
        "import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 1)\n"
        "from gradstep.cli import main; sys.argv = ['gradstep', 'functions']; main()"
    )
    lost = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert (lost.returncode, lost.stderr) == (1, "")


def test_help_loads_no_drawing_library() -> None:
    code = (
        "import sys; sys.argv = ['gradstep', '--help']\n"
        "from gradstep.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('matplotlib' in sys.modules, 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "False False"


def test_a_prediction_loads_nothing_that_it_does_not_need() -> None:
    code = (
        "import sys, scipy.linalg; sys.argv = ['gradstep', 'predict', '--d', '64']\n"
        "before = set(sys.modules)\n"  # older versions of SciPy load scipy.sparse beside scipy.linalg
        "from gradstep.cli import main\n"
        "loaded = lambda: print([name for name in sys.modules if name.count('.') < 2 and name not in before])\n"
        "try: main()\n"
        "except SystemExit: loaded()\n"
        "import gradstep.app.answers; loaded()"  # in which the processes of the page's server begin
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    predicts, answers = (set(ast.literal_eval(line)) for line in result.stdout.splitlines()[-2:])
    assert "gradstep.theory" in predicts
    assert not predicts & {"scipy.optimize", "scipy.sparse", "matplotlib", "sklearn", "xarray", "gradstep.simulation"}
    assert not answers & {"scipy.optimize", "scipy.sparse", "matplotlib", "sklearn", "xarray"}


# --- tables, and two dialects of one file --------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_table_is_whole_on_a_terminal_of_any_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"quantity_{k}" for k in range(8)]
    rows = [["100", *(f"{0.123456 * k:.6g}" for k in range(7))]]
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", _Terminal())
    output.print_table(output.Table(names, rows))
    shown = sys.stdout.getvalue()
    assert "…" not in shown
    assert all(cell in shown for cell in (*(name.replace("_", " ") for name in names if columns > 80), *rows[0]))
    assert columns == 200 or max(map(len, shown.splitlines())) <= columns
    assert ("┃" in shown or "│" in shown) == (columns == 200)


def test_lists_in_a_settings_file_are_ranges(tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    path.write_text("[problem]\nn = [20, 30]\neta = [0.0, 1.0]\nd = 16\nwidth = 24\nn_step = 32\n")
    results = run_json("predict", "--settings", str(path))["predictions"]
    assert [(r["problem"]["n"], r["problem"]["eta"]["coefficient"]) for r in results] == [
        (20, 0.0), (20, 1.0), (30, 0.0), (30, 1.0)
    ]  # fmt: skip


def test_a_terminal_without_greek_letters_shows_the_list() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "gradstep", "reproduce", "--list"]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"fig1" in done.stdout


@pytest.mark.parametrize(
    "eta",
    [
        '"N^0.5,2N^0.5"',
        '["N^0.5", "2*sqrt(N)"]',
        "[{coefficient = 1, exponent = 0.5}, {coefficient = 2, exponent = 0.5}]",
    ],
)
def test_a_list_in_a_settings_file_holds_steps_in_any_form(eta: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(f"[problem]\nd = 16\neta = {eta}\n")
    steps = [r["problem"]["eta"] for r in run_json("predict", "--settings", str(path))["predictions"]]
    assert steps == [{"coefficient": c, "exponent": 0.5} for c in (1.0, 2.0)]


def test_sizes_of_a_sweep_may_be_multiples_of_its_dimension(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    text = (
        '[problem]\nactivation = "erf"\nteacher = "erf"\nd = 8\neta = 1.0\n'
        'width = "1.5d"\nn_step = "2d"\nridge = "0.1d"\n'
    )
    path.write_text(text + "[over]\nn = [9, 16]\n[run]\nseeds = 0\n")
    alone = ("--workers", "1")
    assert run("sweep", str(path), "--out", str(tmp_path / "out"), *alone).exit_code == 0
    problem = json.loads((tmp_path / "out" / "sweep.json").read_text())["design"]["base"]
    assert [problem[name] for name in ("width", "n_step", "ridge")] == [{"per_d": r} for r in (1.5, 2.0, 0.1)]
    path.write_text(text + "n = 9\n[over]\nd = [8, 16]\n")
    assert run("sweep", str(path), "--out", str(tmp_path / "other"), *alone).exit_code == 0
    collected = run_json("collect", str(tmp_path / "other"), "--out", str(tmp_path / "other.csv"))
    assert (collected["sizes"], collected["missing"]) == ({"d": 2}, 0)


def test_what_is_too_much_is_named() -> None:
    result = run("simulate", "--d", "10000", "--width", "10000", "--n-step", "1000000000000", "--n", "100")
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: n_step: got 1000000000000")
    assert run("tune", "--bounds", "ridge").stderr.startswith("error: bounds: got 'ridge'")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("command", ["predict", pytest.param("sweep", marks=pytest.mark.statistical)])
def test_settings_that_nobody_writes_are_not_waited_for(command: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    where = [str(pipe), "--out", str(tmp_path / "out")] if command == "sweep" else ["--settings", str(pipe)]
    program = [sys.executable, "-m", "gradstep", command, *where]
    found = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert "no plain file" in message(found.stderr)
    assert "Traceback" not in found.stderr


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs names of descriptors")
@pytest.mark.parametrize("way", [pytest.param("/dev/stdin", marks=pytest.mark.statistical), "/dev/fd/{}"])
def test_settings_come_through_an_open_pipe(way: str) -> None:
    settings = (
        b'activation = "tanh"\nteacher = "sin"\nd = 50\nwidth = 60\nn_step = 70\nn = 80\neta = 1.0\nridge = 1.0\n'
    )
    reader, writer = os.pipe()
    os.write(writer, settings)
    os.close(writer)
    arguments = ("predict", "--json", "--settings", way.format(reader))
    found: Result | subprocess.CompletedProcess[str]
    if way == "/dev/stdin":
        program = [sys.executable, "-m", "gradstep", *arguments]
        found = subprocess.run(program, stdin=reader, capture_output=True, text=True, timeout=60, check=True)
    else:
        found = run(*arguments)
        assert found.exit_code == 0, found.stderr
    os.close(reader)
    assert json.loads(found.stdout)["predictions"][0]["problem"]["width"] == 60


# --- people's tables ----------------------------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Write a table of people with columns of every kind."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.standard_normal((90, 3)), columns=["height", "weight", "age"])
    table["speed"] = np.tanh(2 * table["height"]) + 0.3 * random.standard_normal(90)
    table["kind"] = np.where(table["speed"] > 0, "fast", "slow")
    table["town"] = "here"
    table["income"] = table["age"].where(table["age"] > -1)
    table["rent"] = [f"{1000 * k:,}" for k in range(90)]
    table.to_csv(tmp_path / "people.csv", index=False)
    table.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.csv"


LEFT_OUT = ["--drop", "town", "--drop", "income", "--drop", "rent"]


def test_the_curves_of_a_table_are_those_of_the_estimators(people: Path) -> None:
    figure = people.with_name("picture.svg")
    options = [*LEFT_OUT, "--drop", "kind", "--width", "16", "--n", "45,90,180"]
    document = run_json("learn", str(people.with_suffix(".parquet")), "--target", "speed", *options)
    table = pd.read_csv(people)
    X, y = table[["height", "weight", "age"]], table["speed"]
    model = OneStepRegressor(width=16, random_state=0).fit(X, y)
    curve = model.learning_curve(X, y, n=[45, 90, 180])
    assert list(document["models"]) == ["one step", "random features", "plain ridge"]
    np.testing.assert_allclose(document["models"]["one step"]["r2"], curve.r2, rtol=1e-9)
    assert (document["rows"], document["inputs"], document["classes"]) == (90, 3, False)
    result = run("learn", str(people), "--target", "speed", *options, "--out", str(figure))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"{people}: speed from 3 inputs, 90 rows, 16 neurons"
    assert document["verdict"] in " ".join(result.stdout.split())
    assert "with twice the 90 rows: R^2" in document["verdict"]
    ElementTree.parse(figure)


def test_a_caveat_of_several_models_is_told_once(people: Path) -> None:
    twice = pd.concat([table := pd.read_csv(people)[["height", "speed"]], table])
    twice.to_csv(people, index=False)
    result = run("learn", str(people), "--target", "speed", "--width", "8", "--n", "90")
    said = " ".join(result.stdout.split())
    assert "speed from 1 input, 180 rows, 8 neurons" in said
    assert said.count("have the same features as an earlier row") == 1
    assert "one step, random features, plain ridge: 90 of the 180 rows have the same features" in said


def test_inputs_that_may_have_been_meant_otherwise_are_told(people: Path) -> None:
    """All of them are taken, but text that hardly repeats is one rare category, and a number of the row is no input."""
    table = pd.read_csv(people)[["height", "speed", "rent", "town"]]
    table["name"] = [f"person {k}" for k in range(90)]
    table["size"] = [*map(str, range(88)), "n/a?", "none"]
    table.to_csv(people)
    result = run("learn", str(people), "--target", "speed", "--width", "8", "--n", "90")
    said = " ".join(result.stdout.split())
    assert "'Unnamed: 0' has no name in the table: if it numbers the rows, add --drop 'Unnamed: 0'." in said
    assert "'rent' is text that hardly repeats (numbers written as text): 90 of 90 rows are one rare category." in said
    assert "'name' is text that hardly repeats (such as 'person 0'): 90 of 90 rows" in said
    assert "'size' is text that hardly repeats (numbers, but for 2 rows such as 'n/a?'): 90 of 90 rows" in said
    assert "'town'" not in said
    assert "'height'" not in said
    document = run_json("learn", str(people), "--target", "speed", "--width", "8", "--n", "90")
    assert [note.split("'")[1] for note in document["notes"]] == ["Unnamed: 0", "rent", "name", "size"]


def test_text_is_taken_for_classes(people: Path) -> None:
    options = ["--target", "kind", *LEFT_OUT, "--drop", "speed", "--width", "8", "--n", "90,180"]
    document = run_json("learn", str(people), *options)
    assert document["classes"]
    (known, *_), beyond = document["models"]["one step"]["accuracy"]
    assert 0.5 < known <= 1
    assert set(beyond) == {None}
    assert "right" in run("learn", str(people), *options).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "income"], "table: got \"missing values in 'income'\""),
        (["--target", "pace"], "target: got 'pace'; allowed: one of the columns 'height', 'weight'"),
        (["--target", "speed", "--drop", "size"], "drop: got 'size'; allowed: one of the columns"),
        (["--target", "speed", "--drop", "speed"], "drop: got 'speed'; allowed: columns other than the target"),
        (["--target", "speed", "--drop", "kind", *LEFT_OUT, "--n", "181"], "n: got '181'; allowed: whole numbers from"),
        (["--target", "speed", "--drop", "kind", *LEFT_OUT, "--n", "1d"], "n: got '1d'; allowed: numbers of rows"),
        (["--target", "speed", "--drop", "kind", *LEFT_OUT, "--n", "many"], "n: got 'many'; allowed: a number"),
        (["--target", "speed", "--plot", "picture.txt"], "plot: got 'picture.txt'"),
        (["--target", "town", "--drop", "kind", "--drop", "income"], "table: got 'OneStepClassifier needs samples of"),
        (["--target", "rent"], "target: got \"'rent' with 90 different values in 90 rows\"; allowed: numbers, or"),
        (["--target", "speed", "--classes"], "target: got \"'speed' with 90 different values in 90 rows\""),
    ],
)
def test_a_table_that_cannot_be_used_is_one_message_that_names_the_column(
    options: list[str], said: str, people: Path
) -> None:
    result = run("learn", str(people), *options)
    assert result.exit_code == 2, result.output
    told = result.stderr[result.stderr.rindex("error: ") :]  # after progress
    assert message(told).startswith(f"error: {said}")
    assert "Traceback" not in result.stderr


def test_decimals_of_a_database_are_a_target_of_numbers(people: Path) -> None:
    table = pd.read_csv(people)[["height", "speed"]].round(1)
    documents = []
    for kind in (float, lambda number: Decimal(str(number))):
        table.assign(speed=table["speed"].map(kind)).to_parquet(people.with_suffix(".parquet"))
        options = ["--target", "speed", "--width", "8", "--n", "90"]
        documents.append(run_json("learn", str(people.with_suffix(".parquet")), *options))
    assert not documents[1]["classes"]
    assert documents[1]["models"] == documents[0]["models"]


@pytest.mark.parametrize(("value", "said"), [([1, 2], "lists or records"), (pd.Timestamp(0), "dates or durations")])
def test_a_target_of_neither_numbers_nor_classes_is_told(value: Any, said: str, people: Path) -> None:
    pd.read_csv(people).assign(speed=[value] * 90).to_parquet(people.with_suffix(".parquet"))
    result = run("learn", str(people.with_suffix(".parquet")), "--target", "speed")
    assert result.exit_code == 2
    assert message(result.stderr).startswith(f"error: target: got \"Column 'speed' holds {said}")


@pytest.mark.parametrize(
    ("name", "content", "allowed"),
    [
        ("none.csv", None, "a file that exists"),
        ("none.parquet", None, "a file that exists"),
        ("empty.csv", b"", "a table that can be read"),
        ("bad.parquet", b"no table", "a table that can be read"),
        ("table.xlsx", b"", "a file whose name ends in .csv or .parquet"),
        ("semicolons.csv", b"x;y\n1;2\n", "columns between commas, not semicolons"),
        ("twice.csv", b"x,y,y\n1,2,3\n", "columns with different names"),
        ("short.csv", b"x,y\n1,2\n", "at least 10 rows for a learning curve"),
        ("infinite.csv", b"x,y\n" + 12 * b"1,2\n" + b"inf,3\n", "finite numbers: remove these rows"),
    ],
)
def test_a_file_that_is_no_table_is_told(name: str, content: bytes | None, allowed: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = run("learn", str(tmp_path / name), "--target", "y")
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: table: got ")
    assert f"; allowed: {allowed}" in message(result.stderr)


@pytest.mark.parametrize("command", [("spectrum",), ("tune", "--over", "ridge")])
def test_a_list_where_one_value_is_asked_for_is_told_with_its_unit(command: tuple[str, ...]) -> None:
    result = run(*command, "--d", "64", "--ridge", "1d,2d")
    assert result.exit_code == 2
    assert message(result.stderr).startswith("error: ridge/d: got ['1', '2']; allowed: one value")
