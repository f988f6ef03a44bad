"""`gradstep.compare`: its parts are those of predict and simulate, and all who overlay have the same numbers."""

import dataclasses
import importlib
import json
import math
import pickle

import numpy as np
import pytest

import gradstep as gs
from gradstep import comparison
from gradstep.app.simulation import simulation
from gradstep.errors import InvalidInput, NotConverged
from gradstep.overlay import Overlay
from gradstep.simulation import simulate_many
from gradstep.sweeps import design_of
from gradstep.text_table import in_words
from gradstep.theory import QUANTITIES, predict_each
from gradstep.theory.equivalent import batches

PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=20, width=16, n_step=40, n=30, eta=gs.Step(1.0, 0.5), ridge=0.5, noise=0.1
)


@pytest.fixture
def refusing(monkeypatch):
    """Let the theory refuse problems with 25 samples."""
    honest = batches._solved

    def solved(fits):
        if any(fit.sizes.n == 25 for fit in fits):
            raise NotConverged("the equations", 1.0, 1e-10, "Change them.")
        return honest(fits)

    monkeypatch.setattr(batches, "_solved", solved)


def test_one_problem_is_predicted_and_measured():
    found = gs.compare(PROBLEM, (3, 5, 8))
    predicted, measured = gs.predict(PROBLEM), gs.simulate(PROBLEM, (3, 5, 8))
    assert (found.seeds, found.shape, found.failures) == ((3, 5, 8), (), [])
    assert tuple(found.overlays) == QUANTITIES
    for name, overlay in found.overlays.items():
        assert np.shape(overlay.z) == ()
        assert overlay.theory == getattr(predicted, name)
        assert overlay.mean == pytest.approx(float(measured.mean(name)), rel=1e-9)
        assert overlay.standard_error == pytest.approx(float(measured.standard_error(name)), rel=1e-6)
        assert overlay.z == pytest.approx(float(Overlay.of(overlay.theory, measured[name]).z), rel=1e-6)
        assert overlay.seeds == 3
    with pytest.raises(InvalidInput, match="quantity"):
        found["loss"]
    assert list(found) == list(QUANTITIES)
    assert set(measured) == set(measured.values)
    assert "loss" not in found
    assert "loss" not in measured


def test_problems_and_penalties_make_axes():
    problems = [PROBLEM, PROBLEM.replace(n=50, eta=0.0), PROBLEM.replace(n=50)]
    found = gs.compare(problems, 3, ridge=[0.1, 1.0])
    assert found["test_error"].z.shape == found.shape == (3, 2)
    assert [(p.n, p.ridge) for p in found.problems] == [(n, r) for n in (30, 50, 50) for r in (0.1, 1.0)]
    for index, (problem, prediction) in enumerate(zip(found.problems, found.predictions, strict=True)):
        single = gs.compare(problem, 3)
        assert found.measurements[index].problem == prediction.problem == problem
        for name, cell in single.cells[0].items():
            assert found.cells[index][name] == pytest.approx(cell, rel=1e-6, nan_ok=True), name
    assert found.varied[2] == {"n": 50, "eta": 0.0, "ridge": 0.1}
    assert found.varied[5] == {"n": 50, "eta": 4.0, "ridge": 1.0}
    assert gs.compare(PROBLEM, 2, ridge=1.0).shape == ()
    assert gs.compare(PROBLEM, 2, ridge=[1.0]).shape == (1,)
    assert gs.compare([PROBLEM], 2).shape == (1,)


def test_penalties_share_their_networks(monkeypatch):
    families = importlib.import_module("gradstep.simulation.families")
    honest, calls = families.simulate, []
    monkeypatch.setattr(families, "simulate", lambda *a, **k: calls.append(k["ridge"]) or honest(*a, **k))
    told = []
    problems = [PROBLEM.replace(ridge=0.1), PROBLEM.replace(n=50), PROBLEM.replace(ridge=2.0)]
    found = simulate_many(problems, 2, progress=lambda done, total: told.append((done, total)))
    assert calls == [[0.1, 2.0], [0.5]]
    assert [m.problem for m in found] == problems
    assert [m.ridge for m in found] == [0.1, 0.5, 2.0]
    assert told == sorted(told)
    assert told[-1] == (3, 3)
    assert 0 < told[0][0] < 2


def test_what_cannot_be_predicted_is_told(refusing):
    problems = [PROBLEM.replace(n=25), PROBLEM]
    assert [type(each) for each in predict_each(problems)] == [NotConverged, gs.Prediction]
    assert [type(each) for each in predict_each(problems[:1])] == [NotConverged]
    found = gs.compare(problems, 2)
    assert found.failures == [found.predictions[0]]
    assert str(found.failures[0]).startswith("the equations did not converge")
    assert np.isnan(found["test_error"].z[0])
    assert np.isfinite(found["test_error"].mean).all()
    assert found["test_error"].z[1] == gs.compare(PROBLEM, 2)["test_error"].z
    assert found.verdict["judged"] == 7
    assert "no prediction at 1 of 2, the first: NotConverged: the equations" in str(found)
    first, second = json.loads(json.dumps(found.to_dict(), allow_nan=False))["comparisons"]
    assert (first["prediction"], first["failure"]) == (None, f"NotConverged: {found.failures[0]}")
    assert first["comparison"]["test_error"]["z"] is None
    assert second["prediction"]["test_error"] == second["comparison"]["test_error"]["theory"]
    # With nothing to compare, nothing is simulated.
    for nothing in (problems[0], problems[:1]):
        with pytest.raises(NotConverged):
            gs.compare(nothing, 2, progress=lambda *_: pytest.fail("simulated"))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((PROBLEM, 1), "seeds"),
        ((PROBLEM, [7]), "seeds"),
        ((PROBLEM, "ab"), "seeds"),
        (([], 2), "problems"),
        (([PROBLEM, "tanh"], 2), "problem"),
        (([PROBLEM, PROBLEM.replace(n_step=math.inf)], 2), "n_step"),
    ],
)
def test_bad_input_is_refused_before_any_work(arguments, field, monkeypatch):
    monkeypatch.setattr(comparison, "predict_each", lambda *_, **__: pytest.fail("predicted"))
    with pytest.raises(InvalidInput) as caught:
        gs.compare(*arguments)
    assert caught.value.field == field


@pytest.mark.parametrize("ridge", ["abc", [], [[0.1]], 0.0, [1.0, -1.0], math.nan])
def test_bad_penalties_are_refused(ridge):
    with pytest.raises(InvalidInput, match="ridge"):
        gs.compare(PROBLEM, 2, ridge=ridge)


def test_text_holds_every_number():
    found = gs.compare(PROBLEM, 3)
    lines = str(found).splitlines()
    for name, overlay in found.overlays.items():
        (line,) = (line for line in lines if line.startswith(f"{in_words(name)}  "))
        theory, mean, error, *rest = line.removeprefix(in_words(name)).split()
        assert theory == f"{overlay.theory:.6g}"
        assert float(error) == float(f"{overlay.standard_error:.2g}")
        assert float(mean) == pytest.approx(overlay.mean, abs=0.06 * overlay.standard_error)
        assert rest == [f"{100 * overlay.relative_difference:+.1f}", "%", f"{overlay.z:+.2f}"]
    assert any(line.startswith("caveat: small sizes") for line in lines)
    quantity = max(QUANTITIES, key=lambda name: abs(found[name].z))
    beyond = sum(abs(overlay.z) > 3 for overlay in found.overlays.values())
    assert f"worst z: {found[quantity].z:+.2f} ({in_words(quantity)}); {beyond} of 7 beyond 3" in lines
    # Callables cannot be written down, and need not be.
    custom = PROBLEM.replace(teacher=lambda x: np.sin(x))
    several = str(gs.compare([custom, custom.replace(n=50, eta=0.0)], 2)).splitlines()
    assert next(line for line in several if "quantity" in line).split()[:3] == ["n", "eta", "quantity"]
    start = [line.split() for line in several if " test error " in line]
    assert [line[:2] for line in start] == [["30", "N^0.5"], ["50", "0"]]
    assert [line.split()[-1] for line in several if " alignment " in line][1] == "-"
    assert any("the same seeds at all problems" in line for line in several)
    laws = str(gs.compare([PROBLEM, PROBLEM.replace(readout="constant")], 2)).splitlines()
    assert [line.split()[0] for line in laws if " test error " in line] == ["gaussian", "constant"]


def test_what_is_the_same_for_all_problems_has_one_row():
    found = gs.compare([PROBLEM, PROBLEM.replace(n=50)], 3)
    rows = found.table().rows
    assert [row[1] for row in rows if row[0] == "all"] == ["alignment", "spike strength", "bulk variance"]
    assert len(rows) == 2 * 4 + 3
    assert found["alignment"].z[0] == found["alignment"].z[1]
    (marked,) = found.table().emphasised
    worst = found.verdict["worst"]
    assert rows[marked][1] == in_words(worst["quantity"])
    assert rows[marked][-1] == f"{worst['z']:+.2f}"


def test_worst_and_beyond_count_what_they_say():
    found = gs.compare([PROBLEM, PROBLEM.replace(n=50)], 4)
    wrong = dataclasses.replace(found.predictions[1], train_error=10.0)
    found = dataclasses.replace(found, predictions=(found.predictions[0], wrong))
    z = found["train_error"].z[1]
    assert found.verdict["worst"] == {"index": 1, "quantity": "train_error", "z": z}
    assert (
        found.verdict["beyond_three"]
        == sum(abs(cell["z"]) > 3 for i in (0, 1) for cell in found.cells[i].values())
        >= 1
    )
    assert not found["train_error"].agrees[1]


def test_a_table_has_a_row_for_each_problem_and_quantity():
    found = gs.compare([PROBLEM, PROBLEM.replace(n=50)], 3)
    table = found.to_frame()
    assert len(table) == 2 * len(QUANTITIES)
    row = table[(table.n == 50) & (table.quantity == "train_error")].iloc[0]
    overlay = found["train_error"]
    for name in ("theory", "mean", "standard_error", "relative_difference", "z"):
        assert row[name] == getattr(overlay, name)[1], name
    assert row.seeds == 3


def test_values_travel():
    found = gs.compare(PROBLEM, 2)
    assert found.overlays["test_error"].z == pickle.loads(pickle.dumps(found))["test_error"].z
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.shape = (1,)


def test_sweeps_have_the_same_numbers():
    design = design_of(PROBLEM, {"n": [30, 50], "ridge": [0.1, 1.0]}, seeds=4, paired=True)
    dataset = gs.sweep(PROBLEM, {"n": [30, 50], "ridge": [0.1, 1.0]}, seeds=4, paired=True, workers=1)
    seeds = [design.seed_number(0, k) for k in range(4)]
    found = gs.compare([PROBLEM, PROBLEM.replace(n=50)], seeds, ridge=[0.1, 1.0])
    for name, overlay in found.overlays.items():
        for own, theirs in (("theory", "theory"), ("mean", "mean"), ("standard_error", "standard_error"), ("z", "z")):
            sweep = np.broadcast_to(dataset[f"{name}_{theirs}"].values, (2, 2))
            np.testing.assert_allclose(sweep, getattr(overlay, own), rtol=1e-6, atol=1e-9, err_msg=f"{name} {own}")


def test_the_page_has_the_same_numbers(tmp_path):
    setting = {**PROBLEM.to_dict(), "width": 16, "n": {"per_d": 1.5}, "ridge": {"per_d": 0.025}}
    setting = {key: value for key, value in setting.items() if key not in ("convention", "origin")}
    request = {"problem": setting, "axis": {"name": "ridge", "from": 0.1, "to": 1.0, "count": 2}, "seeds": 3}
    start, *places, end = simulation(request, str(tmp_path), 1)
    problems = [PROBLEM.replace(ridge=20 * x) for x in start["x"]]
    seeds = page_seeds(problems)
    overlay = gs.compare(problems, seeds)["test_error"]
    np.testing.assert_allclose(start["theory"], overlay.theory)
    last = {message["place"]: message["test_error"] for message in places}
    np.testing.assert_allclose([last[k]["mean"] for k in (0, 1)], overlay.mean, rtol=1e-9)
    np.testing.assert_allclose([last[k]["standard_error"] for k in (0, 1)], overlay.standard_error, rtol=1e-6)
    np.testing.assert_allclose(end["z"], overlay.z, rtol=1e-6)


def test_the_page_simulates_where_theory_has_no_answer(tmp_path, refusing):
    setting = {key: value for key, value in PROBLEM.to_dict().items() if key not in ("convention", "origin")}
    request = {"problem": setting, "axis": {"name": "n", "from": 1.25, "to": 1.5, "count": 2}, "seeds": 2}
    start, *places, end = simulation(request, str(tmp_path), 1)
    assert start["theory"] == [None, gs.predict(PROBLEM).test_error]
    assert {message["place"] for message in places} == {0, 1}
    assert end["z"][0] is None
    assert end["z"][1] is not None


def page_seeds(problems):
    """Return the seeds that the page takes for an axis of penalties."""
    shared = {key: value for key, value in problems[0].to_dict().items() if key != "ridge"}
    design = design_of(shared, {"ridge": [problem.ridge for problem in problems]}, seeds=3, theory=False)
    return [design.seed_number(0, k) for k in range(3)]
