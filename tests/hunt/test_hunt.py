"""The search for deviations: its design covers what it says, what is measured is kept, the table follows from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.hunt.climb import climb
from benchmarks.hunt.covering import covering_array, uncovered
from benchmarks.hunt.measure import ERRORS, STEP, Search, network, simulation
from benchmarks.hunt.sample import Sample
from benchmarks.hunt.settings import FACTORS, PENALTIES, SEEDS, Setting, design, neighbours
from benchmarks.hunt.table import (
    _falls,
    _sizes,
    explanation,
    is_off,
    measured_row,
    measured_rows,
    read,
    with_theory,
    write,
)

import gradstep as gs
from gradstep.theory.step.own_output import output_constants

LEVELS = [len(levels) for levels in FACTORS.values()]
#: Once, and not while tests are collected.
the_design = cache(design)
#: Small enough to be simulated in milliseconds.
D = 20


def chosen(**levels: str) -> Setting:
    """Return the first setting of the design with these levels."""
    wanted = {name.replace("_", " "): level for name, level in levels.items()}
    return next(s for s in the_design() if wanted.items() <= s.levels.items())


def all_to(precision: float) -> Callable[[Setting], np.ndarray]:
    """Return that all standard errors are wanted this small."""
    return lambda setting: np.full((len(ERRORS), len(PENALTIES)), precision)


def row_of(setting: Setting) -> tuple[int, ...]:
    return tuple(levels.index(setting.levels[name]) for name, levels in FACTORS.items())


@pytest.mark.parametrize(("levels", "strength"), [([3, 4, 2, 3], 2), ([2, 3, 2, 4, 2], 3), ([2, 2], 2)])
def test_a_covering_array_has_every_combination(levels: list[int], strength: int) -> None:
    rows = covering_array(levels, 100, strength=strength)
    needed = next(n for n in range(101) if not uncovered(rows[:n], levels, strength))
    most = np.prod(sorted(levels)[-strength:])
    assert most <= needed <= 2 * most
    assert all(0 <= value < count for row in rows for value, count in zip(row, levels, strict=True))
    # From there on all of them once more.
    assert not uncovered(rows[needed:], levels, strength)


def test_a_missing_combination_is_found() -> None:
    rows = [row for row in np.ndindex(2, 2, 2) if row != (1, 0, 1)]
    assert uncovered(rows, [2, 2, 2], 3) == {((0, 1), (1, 0), (2, 1))}
    assert not uncovered(rows, [2, 2, 2], 2)


@pytest.mark.statistical
def test_the_design_covers_all_triples_twice() -> None:
    assert len(the_design()) >= 400
    assert len({s.name for s in the_design()}) == len({s.first_seed for s in the_design()}) == len(the_design())
    rows = [row_of(s) for s in the_design()]
    once = next(n for n in range(150, len(the_design())) if not uncovered(rows[:n], LEVELS))
    assert not uncovered(rows[once:], LEVELS)
    assert design(10) == the_design()[:10]


def test_continuous_values_fill_their_ranges() -> None:
    points = np.array([s.point for s in the_design()])
    counts = np.array([np.histogram(column, bins=8, range=(0, 1))[0] for column in points.T])
    assert np.all(np.abs(counts - len(the_design()) / 8) < 4)


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.statistical) for k in (1, 2, 3))])
def test_every_setting_is_a_problem_that_theory_knows(first: int) -> None:
    for setting in the_design()[first::4]:
        problem = gs.Problem.from_dict(setting.problem())
        assert gs.Problem.from_dict(problem.to_dict()) == problem
        output_constants(problem)
        larger = gs.Problem.from_dict(setting.problem(4 * 200))
        for name in ("width", "n", "n_step", "ridge"):
            assert larger.ratio(name) == pytest.approx(problem.ratio(name))
        assert max(problem.ratio(name) for name in ("width", "n", "n_step")) <= 5


def test_the_sign_of_the_activation_is_that_of_its_derivative() -> None:
    one = chosen(activation="odd", sign_of_the_activation="+")
    other = replace(one, levels={**one.levels, "sign of the activation": "-"})
    slopes = [gs.Problem.from_dict(s.problem()).activation.derivative(0.1) for s in (one, other)]
    assert slopes[0] == -slopes[1] > 0


def test_neighbours_differ_in_one_thing() -> None:
    setting = chosen(step="1/2")
    for other in neighbours(setting, "5.1"):
        assert other.name == "5.1"
        moved = sum(a != b for a, b in zip(other.point, setting.point, strict=True))
        changed = sum(other.levels[name] != setting.levels[name] for name in FACTORS)
        assert moved + changed + (other.member != setting.member) == 1
        assert all(0 <= value <= 1 for value in other.point)
        gs.Problem.from_dict(other.problem())


@pytest.mark.parametrize("readout", [pytest.param("constant", marks=pytest.mark.statistical), "mixed letters"])
def test_a_network_is_that_of_its_problem(readout: str) -> None:
    """-sigma is measured as sigma with the readout -a."""
    levels = {**chosen(activation="odd", step="1/2").levels, "readout": readout, "sign of the activation": "-"}
    setting = replace(chosen(activation="odd"), levels={**levels, "output scale": "1/N"}, member=2)
    assert setting.problem()["activation"] == "-(sin(x))"
    problem = gs.Problem.from_dict(setting.problem(D))
    found = [network(simulation(setting, seed, D)) for seed in range(24)]
    expected = gs.simulate(problem, seeds=range(24), ridge=setting.penalties(D))
    for name in ERRORS:
        values = np.array([v[name] for v in found])
        if readout == "constant":  # the same draws
            np.testing.assert_allclose(values, expected[name], rtol=1e-3)
            continue
        scatter = np.hypot(values.std(axis=0), expected[name].std(axis=0)) / 24**0.5
        assert np.all(np.abs(values.mean(axis=0) - expected.mean(name)) < 4 * scatter)


def test_fresh_inputs_measure_the_exact_error(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = chosen(activation="odd", step="1/2", output_scale="1/N")
    exact = [network(simulation(setting, seed, D)) for seed in range(16)]
    monkeypatch.setattr("benchmarks.hunt.measure.EXACT", D - 1)
    sampled = [network(simulation(setting, seed, D)) for seed in range(16)]
    for name in ("train_error", *STEP):
        np.testing.assert_allclose([v[name] for v in sampled], [v[name] for v in exact], rtol=1e-4)
    ratio = np.array([v["test_error"] for v in sampled]) / np.array([v["test_error"] for v in exact])
    assert np.all(ratio.std(axis=0) > 0.01)  # other inputs
    assert np.all(np.abs(ratio.mean(axis=0) - 1) < 4 * ratio.std(axis=0) / 16**0.5)


def test_what_is_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = chosen(activation="odd", step="1/2", output_scale="1/N")
    first = Search(tmp_path)
    first.measure([setting], most=6, wanted=all_to(1e-9), d=D)
    values = np.array([draw["test_error"] for draw in first.draws(setting, D)])
    assert values.shape == (6, len(PENALTIES))
    # Another run reads them and draws no network again.
    monkeypatch.setattr("benchmarks.hunt.measure.network", lambda *_: pytest.fail("drawn again"))
    again = Search(tmp_path)
    again.measure([setting], most=6, wanted=all_to(1e-9), d=D)
    assert again.draws(setting, D) == first.draws(setting, D)
    mean, error = again.means(setting, D)
    np.testing.assert_allclose(mean[0], values.mean(axis=0))
    np.testing.assert_allclose(error[0], values.std(axis=0, ddof=1) / 6**0.5)


def test_a_pooled_sample_is_the_sample_of_all() -> None:
    values = np.random.default_rng(5).lognormal(3.0, 2.0, size=(40, 3))
    whole, parts = Sample.of(values), Sample.of(values[:7])
    np.testing.assert_allclose(whole.error, values.std(axis=0, ddof=1) / 40**0.5, rtol=1e-14)
    for first, last in ((7, 8), (8, 30), (30, 40)):
        # By way of a table, where a sample is its count, its mean and its standard error.
        kept = Sample.from_error(parts.count, parts.mean, parts.error)
        parts = kept.pooled(Sample.of(values[first:last]))
    assert parts.count == 40
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(parts.error, whole.error, rtol=1e-13)
    assert np.all(np.isnan(Sample.of(values[:1]).error))


@pytest.mark.parametrize("folder", ["lost", "kept"])
def test_a_search_goes_on_from_a_table(tmp_path: Path, folder: str) -> None:
    """By a table of five networks and three more the same is told as by eight networks of one folder."""
    setting = chosen(activation="odd", step="1/2", output_scale="1/N")
    table = tmp_path / "table.json"
    whole, first = Search(tmp_path / "whole"), Search(tmp_path / "first")
    whole.simulate([(setting, D, 8)])
    first.simulate([(setting, D, 5)])
    write(table, [measured_row(first, setting, D)], [])
    if folder == "kept":  # and ahead of the table
        first.simulate([(setting, D, 6)])
    later = Search(tmp_path / ("first" if folder == "kept" else "later"), rows=measured_rows(table))
    assert later.count(setting, D) == (6 if folder == "kept" else 5)
    later.simulate([(setting, D, 8)])
    assert later.draws(setting, D) == whole.draws(setting, D)[5:]
    expected, found = measured_row(whole, setting, D), measured_row(later, setting, D)
    assert found["networks"] == expected["networks"] == 8
    for name in (*ERRORS, *STEP):
        np.testing.assert_allclose(found["mean"][name], expected["mean"][name], rtol=1e-12)
        np.testing.assert_allclose(found["error"][name], expected["error"][name], rtol=1e-12)


def test_rows_of_other_networks_are_not_gone_on_from(tmp_path: Path) -> None:
    setting = chosen(activation="odd", step="1/2", output_scale="1/N")
    search, table = Search(tmp_path), tmp_path / "table.json"
    assert measured_rows(table) == []
    search.simulate([(setting, D, 4)])
    row = measured_row(search, setting, D)
    write(table, [row], [])
    assert Search(tmp_path / "a", rows=measured_rows(table)).count(setting, D) == 4
    changed = {**row, "problem": {**row["problem"], "ridge": 1.0}}
    assert Search(tmp_path / "b", rows=[changed]).count(setting, D) == 0
    content = read(table)
    content["settings"]["networks"] -= 1
    table.write_text(json.dumps(content))
    assert measured_rows(table) == []


def test_settings_of_the_local_search_are_read_from_a_table(tmp_path: Path) -> None:
    moved = neighbours(chosen(activation="odd", step="1/2", output_scale="1/N"), "7.3")[0]
    row = {"d": 200, "levels": list(moved.levels.values()), "member": moved.member, "point": list(moved.point)}
    rows = json.loads(json.dumps([{**row, "name": "7.3"}, {**row, "name": "7"}, {**row, "name": "7.3", "d": 400}]))
    assert Search(tmp_path, rows=rows).found() == [moved]


def test_no_setting_is_measured_on_seeds_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def measured(task: object, _: object) -> dict[str, list[float]]:
        seeds.append(task.seed)  # type: ignore[attr-defined]
        return {name: [1.0 + len(seeds) % 2] * 3 for name in (*ERRORS, *STEP)}

    monkeypatch.setattr("benchmarks.hunt.measure.network", measured)
    setting = the_design()[3]
    Search(tmp_path).measure([setting], most=10**6, wanted=all_to(1e-9), d=D)
    assert seeds == list(range(setting.first_seed, setting.first_seed + SEEDS))
    assert the_design()[4].first_seed == seeds[-1] + 1


def test_no_more_networks_than_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of n values is 1/(2 sqrt(n - 1)) of a mean of one: .1 needs 26, and looks of 4, 8, 16 and up to 30."""

    def measured(task: object, _: object) -> dict[str, list[float]]:
        return {name: [0.5 + task.seed % 2] * 3 for name in (*ERRORS, *STEP)}  # type: ignore[attr-defined]

    monkeypatch.setattr("benchmarks.hunt.measure.network", measured)
    search, setting = Search(tmp_path), the_design()[3]
    search.measure([setting], most=64, wanted=all_to(0.1), d=D)
    assert 26 <= search.count(setting, D) <= 30


def test_precise_settings_get_no_more_networks(tmp_path: Path) -> None:
    setting = chosen(activation="odd", step="1/2", output_scale="1/N")
    search = Search(tmp_path)
    search.measure([setting], most=64, wanted=all_to(10.0), d=D)
    assert len(search.draws(setting, D)) == 4


def test_a_failure_ends_its_setting_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = chosen(activation="odd", step="none")
    tried: list[int] = []

    def fails(task: object, _: object) -> dict[str, str]:
        tried.append(1)
        return {"failure": "TimeoutError"}

    monkeypatch.setattr("benchmarks.hunt.measure.network", fails)
    for _ in range(2):
        search = Search(tmp_path)
        search.measure([setting], most=8, wanted=all_to(0.01), d=D)
        assert search.measured([setting], D) == []
    assert len(tried) == 1


def test_the_local_search_goes_where_deviations_are_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a theory that is off by the noise: the search must find more noise."""
    start = chosen(activation="odd", step="none")
    start = replace(start, point=(*start.point[:5], 0.1, start.point[6]))

    def measured(task: object, _: object) -> dict[str, list[float]]:
        return {"test_error": [1.0] * 3, "train_error": [1.0] * 3}

    monkeypatch.setattr("benchmarks.hunt.measure.network", measured)
    monkeypatch.setattr(Search, "doubt", lambda self, setting, d=0: setting.point[5])
    search = Search(tmp_path)
    search.simulate([(start, 200, 4)])
    climb(search, [start], starts=1, tries=60)
    found = search.found()
    assert [s.name for s in found] == [f"{start.name}.{k}" for k in range(1, 61)]
    assert {s.first_seed for s in found} == {start.first_seed}
    assert max(s.point[5] for s in found) > 0.25
    # A second run tries nothing anew.
    climb(Search(tmp_path), [start], starts=1, tries=60)
    assert Search(tmp_path).found() == found


def test_the_table(tmp_path: Path) -> None:
    setting = chosen(activation="odd", step="1/2", output_scale="1/N")
    search = Search(tmp_path)
    search.measure([setting], most=8, wanted=all_to(1e-9), d=D)
    row = measured_row(search, setting, D)
    theory = gs.predict_many([gs.Problem.from_dict({**row["problem"], "ridge": r}) for r in setting.penalties(D)])
    exact = {
        **row,
        "mean": {**row["mean"], **{name: [getattr(p, name) for p in theory] for name in ERRORS}},
    }
    assert not is_off(with_theory(exact))
    wrong = {
        **exact,
        "mean": {**exact["mean"], "train_error": [1.5 * theory[0].train_error, *exact["mean"]["train_error"][1:]]},
    }
    sure = {**wrong, "error": {**wrong["error"], "train_error": [0.01 * theory[0].train_error] * 3}}
    told = with_theory(sure)
    assert is_off(told)
    assert told["worst"]["of"] == "train_error"
    assert told["worst"]["penalty"] == PENALTIES[0]
    assert told["worst"]["percent"] == pytest.approx(-100 / 3, abs=0.01)
    assert told["worst"]["z"] < -5
    # Half as far off at twice the size.
    half = {**sure, "d": 2 * D, "mean": {**exact["mean"], "train_error": [1.2 * theory[0].train_error] * 3}}
    table = tmp_path / "table.json"
    summary = write(table, [sure], [half])
    assert (summary["off"], summary["measured_again"], summary["fallen"], summary["open"]) == (1, 1, 1, 0)
    assert sum(summary["kinds"].values()) == 1
    for share, precise in ((0.009, 1), (0.011, 0)):
        error = {**exact["error"], "test_error": [0.0, 0.0, share * theory[2].test_error]}
        assert write(tmp_path / "another.json", [{**exact, "error": error}], [])["precise"] == precise
    # Predicted again: what was measured stays what it was, to the last digit.
    before = read(table)
    assert before["rows"][0]["mean"] == sure["mean"]
    write(table, before["rows"], before["larger"])
    assert read(table) == before == json.loads(table.read_text())


@pytest.mark.parametrize(
    ("percent", "error", "falls"),
    [
        ((9.0, 6.4, 4.5), 0.5, True),
        ((-9.0, -6.4, -4.5), 0.5, True),
        ((-9.0, -9.1, -8.9), 0.5, False),
        ((9.0, 13.0, 17.0), 0.5, False),
        ((9.0, 6.4, 4.5), 2.5, None),
        ((2.5, 2.2, 1.4), 0.5, True),  # no longer off
        ((2.5, 2.2, 1.8), 0.5, None),
    ],
)
def test_a_deviation_falls_or_stays_or_its_errors_leave_it_open(
    percent: tuple[float, ...], error: float, falls: bool | None
) -> None:
    assert _falls(sizes_of(percent, [1 + p / 100 for p in percent], error)) is falls


def sizes_of(percent: Sequence[float], ratio: Sequence[float], error: float) -> list[dict[str, float]]:
    values = zip((200, 400, 800, 1600), percent, ratio, strict=False)
    errors = {"percent_error": error, "ratio_error": error / 100}
    return [{"d": d, "percent": p, "ratio": r, **errors} for d, p, r in values]


def test_a_prediction_that_is_far_too_small_falls_by_its_ratio() -> None:
    """A thirtieth, a fifteenth, an eighth and a quarter are 97 to 75 per cent too small: nearly a constant."""
    ratio = [1 / 32, 1 / 16, 1 / 8, 1 / 4]
    assert _falls(sizes_of([100 * (r - 1) for r in ratio], ratio, 15.0)) is True
    assert _falls(sizes_of([-97.0] * 4, [1 / 32] * 4, 15.0)) is False
    assert _falls(sizes_of([-100.0] * 4, [0.0] * 4, 15.0)) is None


def test_ratios_far_below_one_keep_their_digits() -> None:
    problem = chosen(activation="odd", step="1/2").problem(200)
    values = {"theory": {"test_error": [3e-6]}, "mean": {"test_error": [2.0]}, "error": {"test_error": [4e-5]}}
    row = {"name": "1", "d": 200, "networks": 4, "problem": problem, **values}
    (size,) = _sizes({**row, "worst": {"of": "test_error", "penalty": PENALTIES[0]}}, [])
    assert size["ratio"] == pytest.approx(1.5e-6)
    assert size["ratio_error"] == pytest.approx(2e-5)


def test_an_error_below_a_hundredth_may_grow_while_its_deviation_falls() -> None:
    """Its share of a hundredth of the labels' power stays, and the predicted comes near the measured error."""
    assert _falls(sizes_of([-6.0] * 4, [0.3, 0.5, 0.7, 0.85], 0.5)) is True
    assert _falls(sizes_of([-6.0] * 4, [0.3] * 4, 0.5)) is False


def test_few_networks_are_not_sure_of_their_own_scatter() -> None:
    problem = {**the_design()[0].problem(), "noise": 0.0}

    def row(d: int, networks: int, mean: float, error: float) -> dict[str, Any]:
        values = {"theory": 1.1, "mean": mean, "error": error}
        lists = {key: {name: [value] * len(PENALTIES) for name in ERRORS} for key, value in values.items()}
        return {"name": "0", "d": d, "networks": networks, "problem": {**problem, "d": d}, **lists}

    worst = {"of": "test_error", "penalty": 1.0, "percent": 10.0, "percent_error": 1.0}
    # A network of the first size scatters by ten per cent, of sixteen times the size by a fourth of that.
    for error, expected in ((0.001, 1.25), (0.05, 5.0)):
        sizes = _sizes({**row(100, 100, 1.0, 0.01), "worst": worst}, [row(1600, 4, 1.0, error)])
        assert [s["percent_error"] for s in sizes] == [1.0, expected]
        assert [100 * s["ratio_error"] for s in sizes] == pytest.approx([1.0, expected])


@pytest.mark.parametrize(
    ("falls", "coefficient", "word"),
    [
        (True, 0.0, "falls"),
        (True, 1.0, "falls"),
        (False, 0.0, "no step"),
        (None, 0.0, "no step"),
        (False, 1.0, "not smaller"),
        (None, 1.0, "within the errors"),
    ],
)
def test_every_deviation_has_an_explanation(falls: bool | None, coefficient: float, word: str) -> None:
    assert word in explanation({"falls": falls, "problem": {"eta": {"coefficient": coefficient, "exponent": 0.5}}})


def test_the_committed_table_calibrates_the_caveats() -> None:
    """Test errors that are far off carry a caveat, those that are right mostly do not."""
    table = read(Path(__file__).parents[2] / "benchmarks" / "results" / "hunt.json")
    summary = table["summary"]
    assert summary["design"] >= 400
    assert summary["far"] > 100
    assert summary["far_told"] >= 90
    assert summary["right"] > 100
    assert summary["right_told"] <= 10
    # What the table says of its first rows is what the theory says today.
    for row in table["rows"][:4]:
        again = with_theory(row)
        assert again["caveats"] == row["caveats"]
        np.testing.assert_allclose(again["theory"]["test_error"], row["theory"]["test_error"], rtol=1e-4)
