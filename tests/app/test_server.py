"""The interface behind the page: its numbers are the library's, and what it refuses."""

import asyncio
import dataclasses
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from matplotlib.figure import Figure

import gradstep as gs
import gradstep.app
from gradstep.app.answers import code, curve_part
from gradstep.app.presets import elsewhere, presets
from gradstep.app.server import _explained, _together, serve
from gradstep.app.settings import AXES, DEFAULT, Axis, coefficient_in, penalty_in, problem_of, setting_of
from gradstep.app.training import trained
from gradstep.app.workers import Ended, TooLong, Workers, _Worker
from gradstep.errors import InvalidInput
from gradstep.papers.beyond.experiments.phases import _problem
from gradstep.papers.figure import PAPERS, load_figures

AXIS = {"name": "n", "from": 0.5, "to": 8.0, "count": 5, "scale": "log"}


def request(problem=DEFAULT, **axis):
    return {"problem": problem, "axis": AXIS | axis}


def changed(**fields):
    return {**DEFAULT, **fields}


# --- settings ------------------------------------------------------------------------------------------------------


def test_default_is_a_problem_that_learns_features():
    problem = problem_of(DEFAULT)
    assert gs.predict(problem).test_error < 0.8 * gs.predict(problem.replace(eta=0.0)).test_error


def test_settings_in_the_papers_units_are_the_papers_problems():
    cui = gs.Problem.cui2024(alpha=2, alpha0=3, beta=1.5, eta_tilde=2, lam=0.03, d=101)
    assert problem_of(setting_of(cui, ridge={"per_width": 0.03})).replace(origin="cui2024") == cui
    ba = gs.Problem.ba2022(psi1=3.3, psi2=1.7, eta=1.5, lam=0.01, d=101, centre_teacher=False)
    found = problem_of(setting_of(ba, ridge={"per_n": 0.01}, n_step="n"))
    assert found.replace(origin="ba2022") == ba
    step = {"coefficient": 1.3, "exponent": 0.3, "of": "n"}
    for n in (333, math.inf):
        moniri = gs.Problem.moniri2024(phi=0.4, psi=0.7, alpha=0.3, c=1.3, lam=0.1, n=n, residual="y")
        setting = setting_of(moniri, ridge={"per_n": 0.1}, n_step="n", eta=step)
        found = problem_of(setting)
        assert found.eta.coefficient == pytest.approx(moniri.eta.coefficient, rel=1e-14)
        assert found.replace(eta=moniri.eta, origin="moniri2024", ridge=moniri.ridge) == moniri
        assert penalty_in(setting, found) == pytest.approx(0.1, rel=1e-14)
        assert coefficient_in(setting, found) == pytest.approx(1.3, rel=1e-14)


@pytest.mark.parametrize("name", AXES)
def test_every_axis_moves_its_parameter(name):
    axis = Axis.parse({"name": name, "count": 3})
    problems = [problem_of(axis.apply(DEFAULT, place)) for place in axis.places]
    places = [axis.place(axis.apply(DEFAULT, x), p) for x, p in zip(axis.places, problems, strict=True)]
    assert places == pytest.approx(axis.places, rel=0.01)
    assert len(set(problems)) == 3


@pytest.mark.parametrize(
    ("given", "law"),
    [
        ({"exponent": 0.5, "teacher": "random"}, gs.Inputs.power_law(0.5, d=256)),
        ({"exponent": 0.5, "teacher": "even"}, gs.Inputs.power_law(0.5, 0.0, d=256)),
        ({"strength": 9, "teacher": "random"}, gs.Inputs.spiked([9], d=256)),
        ({"strength": 9, "teacher": "leading"}, gs.Inputs.spiked([9], d=256, teacher=[1])),
        ("power_law(0.3)", gs.Inputs.power_law(0.3)),
        ({"eigenvalues": [3, 1]}, gs.Inputs([3, 1])),
        ({"exponent": 0, "teacher": "even"}, None),
        (None, None),
    ],
)
def test_the_page_s_forms_of_a_spectrum(given, law):
    found = problem_of(changed(inputs=given, damping=0.3))
    assert found.inputs == law
    assert found.damping == 0.3
    # What the page is sent back is the same problem.
    assert problem_of(setting_of(found)).replace(origin=found.origin) == found


def test_a_spectrum_in_the_limit():
    given = {"exponent": 0.5, "teacher": "last"}
    assert problem_of(changed(d="inf", inputs=given)).inputs == gs.Inputs.power_law(0.5, -1.0)
    for refused in (
        {"exponent": 1, "teacher": "even"},
        {"exponent": 0.5, "teacher": "leading"},
        {"strength": 3, "teacher": "even"},
    ):
        with pytest.raises(InvalidInput, match=r"limit|finite dimension"):
            problem_of(changed(d="inf", inputs=refused))


def test_the_answer_has_the_law_of_the_inputs_and_no_bound_for_it(api):
    setting = fast(inputs={"exponent": 0.5, "teacher": "even"}, damping=0.5)
    here = api.post("/api/curves", json=request(setting)).json()["here"]
    law = problem_of(setting).inputs.at_dimension(setting["d"])
    assert here["inputs"]["eigenvalues"] == pytest.approx(law.eigenvalues)
    assert here["inputs"]["effective_dimension"] == pytest.approx(law.effective_dimension)
    assert here["kernel_bound"] is None
    assert here["best_linear"] is None
    assert here["regime"]["verdict"].startswith("The step ")
    assert "bound" not in here["regime"]["title"] + here["regime"]["verdict"] + here["regime"]["text"]
    for damping, of in ((0.5, "features"), ("inf", "weights")):
        asked = {"problem": {**setting, "damping": damping}, "of": of}
        assert api.post("/api/spectrum", json=asked).json()["bands"]


def test_several_steps_of_the_gradient_are_damped_as_the_problem_says():
    problem = problem_of(fast(d=20, damping=0.5, inputs={"strength": 2, "teacher": "random"}))
    training = {"steps": 2, "fresh": True, "optimiser": "gradient"}
    found = trained({"problem": problem.to_dict(), "training": training, "ridge": [1.0]}, 3)
    network = gs.Network(problem, 3).train(2, optimiser="damped", damping=0.5)
    assert found["test_error"] == pytest.approx(network.risk(network.fit([1.0]).readouts).test_error)


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        (changed(inputs={"exponent": -1, "teacher": "even"}), "inputs"),
        (changed(inputs={"exponent": 0.5, "teacher": "where"}), "inputs.teacher"),
        (changed(inputs={"exponent": 0.5}), "inputs"),
        (changed(inputs="power_law(x)"), "inputs"),
        (changed(damping=0), "damping"),
        (changed(d=1), "d"),
        (changed(d=10**9), "d"),
        (changed(d="many"), "d"),
        (changed(width={"per_d": 0}), "width"),
        (changed(n={"per_d": "3"}), "n"),
        (changed(n=[3]), "n"),
        (changed(n_step="m"), "n_step"),
        (changed(ridge={"per_n": -1}), "ridge"),
        (changed(ridge=None), "ridge"),
        (changed(eta={"coefficient": -1}), "eta.coefficient"),
        (changed(eta={"coefficient": 1, "exponent": 2}), "eta.exponent"),
        (changed(eta={"coefficient": "1", "of": "n"}), "eta.coefficient"),
        (changed(eta={"coefficient": 1, "of": "d"}), "eta.of"),
        (changed(noise=-1), "noise"),
        (changed(readout={"1": 0}), "readout weight"),
        (changed(activation="__import__('os').system('true')"), "activation (function)"),
        (changed(teacher="exp(x**2)"), "teacher (function)"),
        (changed(colour="red"), "colour"),
    ],
)
def test_a_bad_value_names_its_field(api, setting, field):
    answer = api.post("/api/curves", json=request(setting))
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field
    with pytest.raises(InvalidInput) as raised:
        problem_of(setting)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("axis", "field"),
    [
        ({"name": "noise"}, "axis.name"),
        ({"from": 0.0}, "axis.from"),
        ({"from": 9.0}, "axis.to"),
        ({"count": 10**6}, "axis.count"),
        ({"scale": "cubic"}, "axis.scale"),
        ({"name": "alpha", "from": 0.1, "to": 2.0}, "axis.to"),
    ],
)
def test_a_bad_axis_names_its_field(api, axis, field):
    answer = api.post("/api/curves", json=request(**axis))
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [64, "inf"])
def test_curves_are_predictions(api, d):
    found = api.post("/api/curves", json=request(changed(d=d), count=7) | {"without_step": True}).json()
    axis = Axis.parse(AXIS | {"count": 7})
    problems = [problem_of(axis.apply(changed(d=d), place)) for place in axis.places]
    expected = gs.predict_many(problems)
    assert found["curve"]["test_error"] == pytest.approx([p.test_error for p in expected], rel=1e-9)
    assert found["curve"]["train_error"] == pytest.approx([p.train_error for p in expected], rel=1e-9)
    assert found["curve"]["x"] == [p.ratio("n") for p in problems]
    assert found["failure"] is None
    unstepped = gs.predict_many(problem.replace(eta=0.0) for problem in problems)
    assert found["curve"]["without_step"] == pytest.approx([p.test_error for p in unstepped], rel=1e-8)
    here = gs.predict(problem_of(changed(d=d)))
    assert found["here"]["test_error"] == pytest.approx(here.test_error, rel=1e-12)
    assert found["here"]["caveats"] == [dataclasses.asdict(caveat) for caveat in here.caveats]
    assert found["here"]["regime"]["key"] == "large"


def test_places_without_an_answer_do_not_hide_the_others(api):
    # In the limit no theory covers exponents strictly between 0 and 1/2.
    axis = {"name": "alpha", "from": 0.0, "to": 0.5, "scale": "linear"}
    found = api.post("/api/curves", json=request(changed(d="inf"), **axis)).json()
    assert [value is None for value in found["curve"]["test_error"]] == [False, True, True, True, False]
    assert found["failure"]["field"] == "eta.exponent"
    nowhere = api.post("/api/curves", json=request(changed(d="inf"), **axis | {"from": 0.1, "to": 0.4}))
    assert (nowhere.status_code, nowhere.json()["error"]["field"]) == (422, "eta.exponent")


@pytest.mark.parametrize("eta", [{"coefficient": 1.0}, {"coefficient": 1.0, "exponent": 0.5}])
def test_learned_function_is_that_of_the_prediction(api, eta):
    setting = changed(eta=eta)
    found = api.post("/api/learned", json={"problem": setting}).json()
    curve = gs.predict(problem_of(setting)).curve
    assert found["learned"] == pytest.approx(curve.learned.tolist(), rel=1e-12)
    # The papers' limits give no function; the equations for every step size do, and at large d they agree.
    limit = api.post("/api/learned", json={"problem": {**setting, "d": "inf"}}).json()
    large = api.post("/api/learned", json={"problem": {**setting, "d": 1_000_000}}).json()
    inside = np.linspace(-2.5, 2.5, 11)
    assert np.interp(inside, limit["kappa"], limit["learned"]) == pytest.approx(
        np.interp(inside, large["kappa"], large["learned"]), abs=0.01
    )


def test_spectrum_has_mass_one_and_the_outlier_along_the_projection(api):
    found = api.post("/api/spectrum", json={"problem": DEFAULT}).json()
    mass = found["atom"] + sum(np.trapezoid(b["density"], b["singular_value"]) for b in found["bands"])
    assert mass == pytest.approx(1, abs=0.01)
    (outlier,) = found["outliers"]
    assert outlier["label"].startswith("κ (")
    assert outlier["singular_value"] > max(found["bands"][-1]["singular_value"])


def test_spectrum_of_the_weights_is_that_of_the_figure(api):
    for preset in (each for each in presets() if each["shows"] == "weights"):
        (figure,) = load_figures([preset["name"]])
        own = {**figure.settings["base"], **figure.presets["standard"]["sizes"]}
        pairs = list(zip(preset["settings"], figure.settings["histograms"][::-1], strict=True))
        for shown, value in pairs[:1]:
            expected = gs.spectrum(gs.Problem.from_dict({**own, figure.settings["vary"]: value}), of="weights")
            found = api.post("/api/spectrum", json={"problem": shown["problem"], "of": "weights"}).json()
            assert [o["singular_value"] for o in found["outliers"]] == pytest.approx([v for v, _ in expected.outliers])
            for bands in (found["bands"], found["before"]):
                mass = sum(np.trapezoid(b["density"], b["singular_value"]) for b in bands)
                assert mass + found["atom"] == pytest.approx(1, abs=0.01)
    refused = api.post("/api/spectrum", json={"problem": DEFAULT, "of": "gradient"})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "of")


def test_what_the_help_says_of_outliers_without_a_step(api):
    """The mean of a ReLU's features stands out before anything is learned."""
    eta = {"coefficient": 0.0, "exponent": 0.5, "of": "width"}
    shown = api.post("/api/spectrum", json={"problem": changed(activation="relu", eta=eta)}).json()["outliers"]
    assert [outlier["label"].split(" (")[0] for outlier in shown] == ["constant"]
    page = " ".join(api.get("/").text.split())
    assert (
        "their mean (“constant”) or a direction in which inputs vary most, which can stand out without a step" in page
    )


def test_best_ridge_in_the_unit_of_the_setting(api):
    setting = changed(d=64, ridge={"per_n": 0.5})
    found = api.post("/api/best", json={"problem": setting, "over": ["ridge"]}).json()
    tuned = gs.tune(problem_of(setting), over="ridge")
    assert found["values"]["ridge"] * tuned.problem.n == pytest.approx(tuned["ridge"].value, rel=1e-6)
    at_best = problem_of({**setting, "ridge": {"per_n": found["values"]["ridge"]}})
    assert gs.predict(at_best).test_error == pytest.approx(found["test_error"], rel=1e-9)
    assert api.post("/api/best", json={"problem": setting, "over": ["noise"]}).status_code == 422


#: One group of neurons: predicted in a fifth of the time of the Gaussian readout.
fast = partial(changed, readout="constant")
_OF_N = {"coefficient": 1.0, "exponent": 0.3, "of": "n"}
CODES = [
    ("n", fast(d=40)),
    ("n", fast(d="inf", n_step="n", ridge={"per_n": 0.1})),
    ("n", fast(d=40, ridge={"per_n": 0.1}, eta=_OF_N)),
    ("width", fast(d="inf", ridge={"per_width": 0.1})),
    ("n_step", fast(d=40, ridge={"per_n": 0.1})),
    ("eta", fast(d=40, eta=_OF_N, n_step="inf")),
    ("eta", fast(d=40)),
    ("alpha", fast(d=40, readout={"-1": 0.5, "1": 0.5})),
    ("alpha", fast(d=40, eta={**_OF_N, "exponent": 0.0})),
    ("ridge", fast(d="inf", ridge={"per_n": 0.1})),
    ("ridge", fast(d=40)),
    ("ridge", fast(d=40, ridge=3.0)),
]


#: With these every axis has one setting, and every unit, readout and kind of size is in one.
AXES = (0, 3, 4, 5, 7, 9)


@pytest.mark.parametrize(
    ("name", "setting"),
    [pytest.param(*case, marks=() if k in AXES else pytest.mark.statistical) for k, case in enumerate(CODES)],
)
def test_code_has_the_numbers_of_the_page(tmp_path, monkeypatch, name, setting):
    axis = {"name": name, "count": 3} | ({"from": 0.1, "to": 1.0, "scale": "log"} if name == "ridge" else {})
    monkeypatch.chdir(tmp_path)
    for several in ([setting], [fast(d=24), setting]):
        asked = {"problems": several, "axis": axis, "active": 0}
        if several != [setting] or (name, setting) != CODES[0]:  # the file is a picture, once
            monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
        names = {}
        exec(compile(code(asked)["code"], "page.py", "exec"), names)
        expected = curve_part({"problem": setting, "axis": axis}, 0, 1)
        for quantity, shown in (("test_error", "test_error"), ("train_error", "noiseless_train_error")):
            found = names["curve"].overlay(quantity, "neither").theory
            own = found if several == [setting] else found[:, 1]
            assert own == pytest.approx(expected[shown], rel=1e-9)
        (panel,) = names["figure"].axes
        assert panel.get_yscale() == "log"
    if (name, setting) == CODES[0]:
        assert (tmp_path / "gradstep_page.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "setting", "noise"),
    [
        ("n", fast(d="inf", n_step="n"), "both"),
        ("ridge", fast(d=24, ridge={"per_n": 0.1}), "neither"),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [
                *(("n", fast(d=24), noise) for noise in ("neither", "both")),
                ("n", fast(d="inf", n_step="n"), "neither"),
                ("ridge", fast(d=24, ridge={"per_n": 0.1}), "both"),
            ]
        ),
    ],
)
def test_code_draws_the_points_of_the_page(tmp_path, monkeypatch, name, setting, noise):
    monkeypatch.chdir(tmp_path)
    span = {"name": name, "from": 1.0, "to": 6.0, "scale": "log"}
    names, asked = {}, {"problems": [setting], "axis": {**span, "count": 60}, "noise": noise}
    exec(compile(code({**asked, "seeds": 3, "places": 2, "d": 20})["code"], "page.py", "exec"), names)
    # Networks of the page's problems at these places, with the seeds that a curve has.
    finite = setting if setting["d"] != "inf" else {**setting, "d": 20}
    axis = Axis.parse({**span, "count": 2})
    problems = [problem_of(axis.apply(finite, place)) for place in axis.places]
    added = setting["noise"] ** 2
    drawn = [container.lines[0].get_ydata() for container in names["figure"].axes[0].containers]
    for column, problem in enumerate(problems):
        found = gs.simulate(problem, 3)
        test, train, freedom = (float(found.mean(q)) for q in ("test_error", "train_error", "degrees_of_freedom"))
        expected = test + added, train
        if noise == "neither":
            expected = test, train - added * (1 - 2 * freedom / problem.n)
        assert [points[column] for points in drawn] == pytest.approx(expected, rel=1e-9)


def test_code_compares_with_what_the_page_compares_with():
    def references(setting, **more):
        written = code({"problems": [setting], "axis": AXIS, **more})["code"]
        return json.loads(written.split("references=")[1].split(",\n")[0])

    assert references(fast()) == ["no step", "kernel lower bound"]
    # The best linear error has a line of its own where it is another number: a teacher with a mean.
    assert references(fast(teacher="relu")) == ["no step", "kernel lower bound", "best linear error"]
    assert references(fast(teacher="x", eta=0.0)) == []
    assert references(fast(inputs={"exponent": 0.3, "teacher": "even"})) == ["no step"]


def test_code_draws_networks_where_theory_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training = {"steps": 2, "fresh": False, "optimiser": "sign"}
    setting = fast(d=20, training=training)
    names = {}
    asked = {"problems": [setting], "axis": AXIS, "places": 2, "seeds": 3, "noise": "both"}
    exec(compile(code(asked)["code"], "page.py", "exec"), names)
    network = gs.Network(names["few"].problems[-1], 2).train(2, fresh=False, optimiser="sign")
    noisy = network.risk(network.fit().readouts).test_error[0] + setting["noise"] ** 2
    assert names["errors"][-1] == pytest.approx(noisy)
    assert len(names["figure"].axes[0].containers) == 2


def test_a_readout_law_has_a_bounded_number_of_values(api):
    law = {str(k + 1): 1.0 for k in range(51)}
    found = api.post("/api/learned", json={"problem": changed(readout=law)})
    assert (found.status_code, found.json()["error"]["field"]) == (422, "readout")


# --- presets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.statistical)])
def test_presets_are_valid_and_of_every_paper(whole):
    found = presets()
    assert {p["paper"] for p in found} == set(PAPERS.values())
    for preset in found:
        axis = Axis.parse({**preset["axis"], "count": 2})
        assert 1 <= len(preset["shown"]) <= 4
        assert sorted(set(preset["shown"])) == preset["shown"]
        assert preset["shown"][-1] == len(preset["settings"]) - 1
        problems = [problem_of(axis.apply(s["problem"], place)) for s in preset["settings"] for place in axis.places]
        # The settings of a preset differ by a number or two: both ends of the first and the last one.
        some = problems if whole else list(dict.fromkeys([problems[0], problems[-1]]))
        assert all(math.isfinite(prediction.test_error) for prediction in gs.predict_many(some)), preset["name"]


def test_every_figure_is_a_preset_or_says_where_it_is_drawn():
    commands = {f"gradstep reproduce --paper {figure.paper} --figure {figure.name}" for figure in load_figures()}
    told = {figure["command"] for figure in elsewhere(presets())}
    assert told < commands
    assert len(told) + len(presets()) == len(commands)
    # The others have a picture: `python -m benchmarks.thumbnails` makes them from a report.
    pictures = {path.stem for path in (Path(gradstep.app.__file__).parent / "static" / "figures").glob("*.webp")}
    assert pictures == {figure["name"] for figure in elsewhere(presets())}
    assert all(figure["reason"] for figure in elsewhere(presets()))


def test_a_place_of_the_phase_diagram_is_that_of_the_figure():
    (preset,) = (preset for preset in presets() if preset["name"] == "phase_diagram")
    (figure,) = load_figures(["phase_diagram"])
    chart, d = figure.settings["maps"][0], figure.presets["standard"]["d"]
    (x, y) = figure.presets["standard"]["points"][0][-1]
    for shown, candidate in zip(preset["settings"], chart["candidates"], strict=True):
        expected = _problem(chart, candidate, x, y, d).replace(ridge=0.3 * d)
        found = problem_of(Axis("ridge", (0.3,)).apply(shown["problem"], 0.3))
        assert found.replace(origin=expected.origin) == expected


def test_a_fixed_kernel_and_the_penalties_of_theorem_7():
    by_name = {preset["name"]: preset for preset in presets()}
    figures = {figure.name: figure for figure in load_figures(["proposition1", "theorem7"])}
    for n in (0.75, 6.0):
        settings, added = by_name["proposition1"]["settings"], figures["proposition1"].settings
        problems = [problem_of(Axis("n", (n,)).apply(s["problem"], n)) for s in settings]
        assert [p.ridge / p.width for p in problems] == pytest.approx([added["ridge"], added["trained"]["ridge"]])
        assert [p.n_step for p in problems] == [p.n for p in problems]
    theorem = figures["theorem7"].at("standard")
    for curve, shown in zip(theorem.curves, by_name["theorem7"]["settings"], strict=True):
        expected = theorem.problem(curve, 8.0, theorem.preset["d"])
        assert problem_of(shown["problem"]).replace(origin=expected.origin) == expected


def test_presets_of_learning_curves_are_the_figures_curves():
    by_name = {preset["name"]: preset for preset in presets()}
    figures = [figure for figure in load_figures() if figure.experiment == "learning_curves"]
    assert len(figures) == 6
    for figure in figures:
        settings, x = figure.settings, 1.7
        axis = Axis(by_name[figure.name]["axis"]["name"], (x,))
        curves = {curve["label"]: curve for curve in settings["curves"]}
        for shown in by_name[figure.name]["settings"]:
            given = {
                **settings["base"],
                **curves[shown["label"]]["parameters"],
                "d": figure.presets["standard"]["d"],
                settings["axis"]["parameter"]: x,
            }
            expected = gs.Problem.from_dict(given)
            found = problem_of(axis.apply(shown["problem"], x)).replace(origin=expected.origin)
            assert found.ridge == pytest.approx(expected.ridge, rel=1e-12)
            assert found.replace(ridge=expected.ridge) == expected


# --- simulation ----------------------------------------------------------------------------------------------------


def simulate(api, document):
    with api.stream("POST", "/api/simulate", json=document) as answer:
        assert answer.status_code == 200, answer.read()
        return [json.loads(line) for line in answer.iter_lines()]


def test_simulation_tells_of_every_network_and_is_kept(api):
    document = request(changed(d=24), count=2) | {"seeds": 3}
    start, *middle, end = simulate(api, document)
    assert (start["kind"], end["kind"]) == ("start", "end")
    assert [m["done"] for m in middle] == list(range(1, 7))
    assert start["theory"] == pytest.approx(
        api.post("/api/curves", json=request(changed(d=24), count=2)).json()["curve"]["test_error"], rel=1e-9
    )
    assert max(abs(z) for z in end["z"]) < 5
    last = {m["place"]: m for m in middle}
    assert all(m["seeds"] == 3 and m["test_error"]["standard_error"] > 0 for m in last.values())
    # The same again, with more seeds: the first networks are the same ones.
    _, *again, _ = simulate(api, document | {"seeds": 4})
    assert [m["test_error"] for m in again[:6]] == [m["test_error"] for m in middle]


@pytest.mark.parametrize("training", [{"steps": 2, "fresh": False}, {"optimiser": "spectral"}])
def test_where_theory_ends_the_network_is_drawn(api, training):
    setting = changed(d=24)
    axis = {"name": "ridge", "from": 0.1, "to": 1.0, "count": 2}
    document = {"problem": {**setting, "training": training}, "axis": axis, "seeds": 2}
    start, *middle, end = simulate(api, document)
    plain, *_ = simulate(api, {**document, "problem": setting})
    assert start == plain  # the theory beside the points is that of one plain step, and does not judge them
    assert end["z"] == [None, None]
    asked = {key: value for key, value in training.items() if key != "steps"}
    problem, errors = problem_of(setting), []
    plain_problem = {k: v for k, v in problem.to_dict().items() if k != "ridge"}
    design = gs.sweeps.design_of(plain_problem, {"ridge": [2.4, 24.0]}, seeds=2, theory=False)
    for k in range(2):
        network = gs.Network(problem, design.seed_number(0, k)).train(training.get("steps", 1), **asked)
        errors.append(network.risk(network.fit([2.4, 24.0]).readouts).test_error)
    assert [m["test_error"]["mean"] for m in middle[2:]] == pytest.approx(np.mean(errors, axis=0), rel=1e-9)


@pytest.mark.parametrize(
    ("training", "field"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 21}, "steps"),
        ({"optimiser": "lion"}, "optimiser"),
        ({"rate": 1}, "training"),
    ],
)
def test_a_bad_training_names_its_field(api, training, field):
    answer = api.post("/api/simulate", json=request(changed(d=24, training=training)) | {"seeds": 2})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


def test_simulation_is_that_of_the_library(api):
    setting = changed(d=24)
    document = {"problem": setting, "axis": {"name": "ridge", "from": 0.1, "to": 1.0, "count": 2}, "seeds": 2}
    start, *middle, _ = simulate(api, document)
    # An axis of penalties shares its networks.
    assert [m["place"] for m in middle] == [0, 1, 0, 1]
    design = gs.sweeps.design_of(
        {k: v for k, v in problem_of(setting).to_dict().items() if k != "ridge"},
        {"ridge": [x * 24 for x in start["x"]]},
        seeds=2,
        theory=False,
    )
    measured = gs.simulate(
        problem_of(setting), [design.seed_number(0, k) for k in range(2)], ridge=[x * 24 for x in start["x"]]
    )
    assert [m["test_error"]["mean"] for m in middle[2:]] == pytest.approx(measured["test_error"].mean(axis=0), rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"seeds": 1}, "seeds"),
        ({"seeds": 10**6}, "seeds"),
        ({"problem": changed(n_step="inf")}, "n_step"),
        ({"problem": changed(d=100_000)}, "d"),
        ({"problem": changed(d="inf"), "d": "inf"}, "d"),
        ({"axis": AXIS | {"count": 41}}, "axis.count"),
    ],
)
def test_simulations_that_cannot_be_are_refused_before_any_work(api, changes, field):
    answer = api.post("/api/simulate", json=request() | changes)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


LONG = {
    "problem": changed(d=400, width={"per_d": 2}),
    "axis": {"name": "n", "from": 1, "to": 4, "count": 20},
    "seeds": 100,
}


def test_simulations_are_bounded_and_end_with_their_reader(server, api):
    server.wait_until_idle()
    with ExitStack() as open_streams:
        for _ in range(2):
            client = open_streams.enter_context(httpx.Client(base_url=server.address, timeout=60))
            lines = open_streams.enter_context(client.stream("POST", "/api/simulate", json=LONG)).iter_lines()
            open_streams.enter_context(closing(lines))  # a generator that is forgotten closes its stream
            next(lines)
        assert api.post("/api/simulate", json=LONG).status_code == 429
        # The event loop and the theory are free meanwhile.
        assert api.post("/api/curves", json=request()).status_code == 200
        with pytest.raises(AssertionError, match="goes on"):
            server.wait_until_idle(0)
    server.wait_until_idle()


@pytest.mark.skipif(os.name == "nt", reason="needs a signal that stops a process")
def test_an_abandoned_curve_does_not_hold_up_the_next(server, api):
    body = json.dumps({"problem": changed(activation="cos", output_scale="1/sqrt(N)"), "axis": {"name": "eta"}})
    head = "POST /api/curves HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    assert api.post("/api/curves", json=request()).status_code == 200
    server.wait_until_idle()
    before, busy = server.used(), []
    try:
        with socket.create_connection(("127.0.0.1", api.base_url.port)) as asking:
            asking.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            # Once they are at it, both processes that compute curves stop: no answer will ever come from them.
            while len(busy := [pid for pid, used in server.used().items() if used > before[pid] + 0.1]) < 2:
                time.sleep(0.02)
            for pid in busy:
                psutil.Process(pid).suspend()
        assert api.post("/api/curves", json=request()).status_code == 200
    finally:  # the server goes on for other tests, whatever comes of this one
        for pid in busy:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).resume()


async def _called(workers, *, work):
    """Ask for work, and return the task once a process has been called for it."""
    worker, calling = workers._all[0], asyncio.Event()
    loop, call = asyncio.get_running_loop(), worker.call

    def called(*arguments):
        loop.call_soon_threadsafe(calling.set)
        return call(*arguments)

    worker.call = called
    task = asyncio.ensure_future(workers.ask(*work))
    await calling.wait()
    worker.call = call
    return task


@pytest.mark.skipif(os.name == "nt", reason="needs a signal that stops a process")
def test_who_waits_no_more_leaves_a_process_that_answers(monkeypatch):
    work = ("answers:code", {"problems": [DEFAULT], "axis": AXIS})

    async def run():
        workers = Workers(1)
        try:
            first = await workers.ask(*work)
            process = workers._all[0]._process
            # One that would have answered in time is kept.
            (await _called(workers, work=work)).cancel()
            assert await workers.ask(*work) == first
            assert workers._all[0]._process is process
            # One that would not is replaced, and so is one whose time is over.
            monkeypatch.setattr("gradstep.app.workers._GRACE", 0.2)
            for limit in (20.0, 0.2):
                workers._limit = limit
                process = workers._all[0]._process
                psutil.Process(process.pid).suspend()
                task = await _called(workers, work=work)
                if limit == 20.0:
                    task.cancel()
                else:
                    with pytest.raises(TooLong):
                        await task
                workers._limit = 20.0
                assert await workers.ask(*work) == first
                assert workers._all[0]._process is not process
                assert not process.is_alive()
        finally:
            workers.close()

    with ThreadPoolExecutor(1) as thread:  # the browser's tests leave a loop running in this one
        thread.submit(lambda: asyncio.run(asyncio.wait_for(run(), 100))).result()


def test_a_process_that_has_answered_is_free_for_the_next_request():
    async def run():
        workers = Workers(1, waiting=0)
        try:
            for _ in range(3):  # at once, before the process is among those that are free
                assert await workers.ask("answers:code", {"problems": [DEFAULT], "axis": AXIS})
        finally:
            workers.close()

    with ThreadPoolExecutor(1) as thread:  # the browser's tests leave a loop running in this one
        thread.submit(lambda: asyncio.run(asyncio.wait_for(run(), 100))).result()


# --- what the server refuses ---------------------------------------------------------------------------------------


def test_only_this_machine_s_names_and_this_server_s_page(api):
    assert api.get("/", headers={"host": "example.org"}).status_code == 400
    assert api.get("/", headers={"host": "127.0.0.1.example.org"}).status_code == 400
    assert api.get("/", headers={"host": "localhost:1"}).status_code == 200
    assert api.post("/api/curves", json=request(), headers={"origin": "http://example.org"}).status_code == 403
    assert api.post("/api/curves", json=request(), headers={"origin": "null"}).status_code == 403
    text = api.post("/api/curves", content=json.dumps(request()), headers={"content-type": "text/plain"})
    assert text.status_code == 415  # what another page could send without being allowed to


def test_listens_on_the_loopback_only(server):
    addresses = {
        connection.laddr.ip
        for connection in psutil.Process(server.process.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"problem": NaN}', 400),
        (b'{"problem": {"d": 1e400}}', 400),
        (b"[" * 20000, 400),
        (b"\xff", 400),
        (b'{"problem": {"d": ' + b"9" * 5000 + b"}}", 400),
        (b'{"x": "' + b"x" * 40000 + b'"}', 413),
        (b"{}", 422),
        (json.dumps(request(changed(noise=12345))).replace("12345", "1e999").encode(), 400),
        (b'{"problem": {"activation": "\\ud800"}, "axis": {"name": "n"}}', 422),
    ],
)
def test_bad_bodies_are_refused(api, body, status):
    answer = api.post("/api/curves", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("curves", "problem, axis, without_step"),
        ("learned", "problem"),
        ("spectrum", "problem, of"),
        ("best", "problem, over"),
        ("code", "problems, axis, active, noise, seeds, places, d"),
        ("simulate", "problem, axis, seeds, d"),
    ],
)
def test_a_field_that_is_not_asked_for_is_refused(api, name, fields):
    whole = {"problem": DEFAULT, "problems": [DEFAULT], "axis": AXIS, "over": ["ridge"]}
    body = {field: value for field, value in whole.items() if field in fields.split(", ")}
    answer = api.post(f"/api/{name}", json={**body, "networks": 2})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["field"], error["value"]) == ("networks", "2")
    assert error["allowed"] == f"one of the fields {fields}"
    if "axis" in fields:
        answer = api.post(f"/api/{name}", json={**body, "axis": {**AXIS, "seeds": 2}})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "axis.seeds")


@pytest.mark.parametrize("name", ["curves", "learned", "code"])
def test_numbers_out_of_range_are_answered(api, name):
    setting = changed(d=24, teacher="1e160*x", noise=1e40)
    asked = {"problems": [setting]} if name == "code" else {"problem": setting}
    if name != "learned":
        asked["axis"] = {**AXIS, "count": 3}
    body = json.dumps(asked)
    answer = api.post(f"/api/{name}", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 422)
    assert json.loads(answer.content, parse_constant=pytest.fail)


def test_a_body_of_unknown_length_is_bounded_too(api):
    pieces = (b" " * 1000 for _ in range(100))
    answer = api.post("/api/curves", content=pieces, headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_the_page_may_load_from_this_server_only(api):
    policy = api.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert api.get("/api/../../etc/passwd").status_code == 404
    assert api.get("/static/..%2f..%2fserver.py").status_code == 404


def test_parts_of_an_answer_are_sent_at_once(monkeypatch):
    """A small part waits otherwise until the client acknowledges the part before, 40 ms."""
    found = []

    async def run(listening):
        accepted = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listening)
        async with server:
            with socket.create_connection(listening.getsockname()):
                writer = await accepted
                found.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                writer.close()
                await writer.wait_closed()

    monkeypatch.setattr("gradstep.app.server.create_app", lambda **_: None)
    monkeypatch.setattr("uvicorn.Server.run", lambda _, sockets: asyncio.run(run(sockets[0])))
    with ThreadPoolExecutor(1) as thread:  # the browser's tests leave a loop running in this one
        thread.submit(serve, browser=False).result()
    assert found == [1]


def test_an_address_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "gradstep", "app", "--no-browser", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"port: got '127.0.0.1:{port}'" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("presses", [pytest.param(1, marks=pytest.mark.statistical), 3])
def test_ctrl_c_says_what_has_ended(presses):
    command = [sys.executable, "-m", "gradstep", "app", "--no-browser", "--port", "0", "--workers", "1"]
    hearing = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background are deaf to Ctrl-C
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hearing
    ) as serving:
        assert "gradstep is at http" in serving.stdout.readline()
        for _ in range(presses):
            os.killpg(serving.pid, signal.SIGINT)
            time.sleep(0.02)
        _, said = serving.communicate(timeout=30)
    assert (serving.returncode, said) == (130, "interrupted; the page is no longer served\n")


def used_by_children(pid):
    """Return the processor time that the children of a process have used."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process(pid).children(recursive=True))


@contextmanager
def set_to_work(serving, address):
    """Wait until what the body asks for is being computed, and all that was sent has been read."""
    before, change, runs = 0.0, 1.0, True
    while change > 0.01 or before < 0.3 or runs:  # its processes start
        time.sleep(0.1)
        now = used_by_children(serving.pid)
        before, change = now, now - before
        children = psutil.Process(serving.pid).children(recursive=True)
        runs = any(child.status() == psutil.STATUS_RUNNING for child in children)  # maybe on a busy machine
    yield
    while used_by_children(serving.pid) < before + 0.1:
        time.sleep(0.02)
    assert httpx.get(address).status_code == 200


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(
            "best",
            {"problem": changed(d=1000, activation="relu"), "over": ["ridge", "eta"]},
            marks=pytest.mark.statistical,  # computed by the processes that compute curves
        ),
        ("simulate", request(changed(d=400)) | {"seeds": 100}),
        pytest.param(
            "curves",
            {"problem": changed(activation="cos"), "axis": {"name": "n", "count": 200}},
            marks=pytest.mark.statistical,  # where questions wait, too: see the next test
        ),
        (None, None),
    ],
    ids=["best", "simulate", "curves", "half a body"],
)
def test_ctrl_c_ends_what_is_under_way(path, body):
    command = [sys.executable, "-m", "gradstep", "app", "--no-browser", "--port", "0", "--workers", "1"]
    hearing = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hearing
    ) as serving:
        address = re.search(r"http://[^/]*:(\d+)/", serving.stdout.readline())
        with socket.create_connection(("127.0.0.1", int(address[1]))) as asking:
            sent = json.dumps(body).encode() if path else b"{"
            head = f"POST /api/{path or 'best'} HTTP/1.1\r\nhost: {address[0][7:-1]}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {max(len(sent), 5)}\r\n\r\n"
            with set_to_work(serving, address[0]) if path else nullcontext():
                asking.sendall(head.encode() + sent)
            assert httpx.get(address[0]).status_code == 200
            os.killpg(serving.pid, signal.SIGINT)
            _, said = serving.communicate(timeout=60)
    assert serving.returncode == 130
    # What is being sent here is given a second.
    waited = "ERROR:    Cancel 1 running task(s), timeout graceful shutdown exceeded\n"
    assert said == ("" if path else waited) + "interrupted; the page is no longer served\n"


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_refuses_what_waits():
    command = [sys.executable, "-m", "gradstep", "app", "--no-browser", "--port", "0", "--workers", "1"]
    hearing = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hearing
    ) as serving:
        address = re.search(r"http://\S+/", serving.stdout.readline())[0]
        bodies = [{"problem": changed(d=1000 + k, activation="relu"), "over": ["ridge", "eta"]} for k in range(3)]
        with ThreadPoolExecutor(3) as threads:
            with set_to_work(serving, address):
                asked = [threads.submit(httpx.post, f"{address}api/best", json=body, timeout=60) for body in bodies]
            while len([c for c in psutil.Process(serving.pid).net_connections() if c.status == "ESTABLISHED"]) < 3:
                time.sleep(0.02)
            time.sleep(0.3)  # from a connection to its request
            os.killpg(serving.pid, signal.SIGINT)
            answers = [found.result() for found in asked]
        _, said = serving.communicate(timeout=60)
    assert [answer.status_code for answer in answers] == [503] * 3
    assert {answer.json()["error"]["message"] for answer in answers} == {"The server has ended."}
    assert (serving.returncode, said) == (130, "interrupted; the page is no longer served\n")


def test_a_process_that_is_stopped_while_it_starts_is_ended():
    for delay in (0.0, 0.002, 0.004, 0.008, 0.02):
        worker = _Worker(0, family=True)
        with ThreadPoolExecutor(1) as threads:
            ready = threads.submit(worker.ready)
            time.sleep(delay)
            worker.stop()
            with pytest.raises(Ended):
                ready.result(30)
        worker.end()
        with pytest.raises(Ended):
            worker.start()


def test_an_answer_that_takes_too_long_may_be_the_machine_s_doing():
    refused = _explained(TooLong())
    assert refused.status == 503
    assert refused.body["error"]["slow"] is True
    assert "when the machine has less to do" in str(refused)


def test_parts_of_an_answer_that_fails_are_not_begun():
    begun = []

    async def fails():
        raise ValueError("no")

    async def waits():
        await asyncio.sleep(0.2)
        begun.append(True)

    async def run():
        with pytest.raises(ValueError, match="no"):
            await _together(fails(), waits())
        await asyncio.sleep(0.4)

    with ThreadPoolExecutor(1) as thread:  # the browser's tests leave a loop running in this one
        thread.submit(lambda: asyncio.run(run())).result()
    assert not begun


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "0", "0.0", "0x0", "::0"])
def test_all_addresses_at_once_are_refused(host):
    with pytest.raises(InvalidInput) as raised:
        serve(host=host, browser=False)
    assert raised.value.field == "host"


@pytest.mark.parametrize("port", [70000, -1, "80", True, None])
def test_ports_are_numbers_of_ports(port):
    with pytest.raises(InvalidInput, match=r"port: .*65535"):
        serve(port=port, browser=False)


@pytest.mark.parametrize("workers", [0, -1, 1e20, "2", True])
def test_a_bad_number_of_workers_is_named_before_anything_is_listened_on(workers):
    with pytest.raises(InvalidInput, match="workers"):
        serve(workers=workers, browser=False)


def test_an_address_of_another_machine_is_named():
    with pytest.raises(InvalidInput) as raised:
        serve(host="192.0.2.1", browser=False)  # reserved for documentation
    assert raised.value.field == "host"
