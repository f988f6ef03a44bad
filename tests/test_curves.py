"""`gradstep.curve`: its numbers are those of predict and simulate, and its figures show them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gradstep as gs
from gradstep.curves import Curve
from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.grid import Axis
from gradstep.theory import QUANTITIES

PROBLEM = gs.Problem(
    activation="tanh",
    teacher="sin",
    d=20,
    width=16,
    n_step=40,
    n=30,
    eta="N^0.5",
    ridge=0.5,
    noise=0.1,
    readout="constant",
)


@pytest.fixture(scope="module")
def measured() -> Curve:
    return gs.curve(PROBLEM, over={"n": "1d:3d:3", "eta": [0, "N^0.5"]}, seeds=(3, 5, 8))


def points_of(axes):
    return [container.lines[0].get_xydata() for container in axes.containers]


def test_numbers_are_those_of_predict_and_simulate(measured):
    assert [axis.head for axis in measured.axes] == ["n/d", "eta/N^0.5"]
    for i, n in enumerate((20, 40, 60)):
        for j, eta in enumerate((0.0, gs.Step(1.0, 0.5))):
            problem = PROBLEM.replace(n=n, eta=eta)
            assert measured.problems[2 * i + j] == problem
            network = gs.simulate(problem, (3, 5, 8))
            for name in ("test_error", "degrees_of_freedom"):
                assert measured[name].theory[i, j] == pytest.approx(getattr(gs.predict(problem), name), rel=1e-9)
                assert measured[name].mean[i, j] == pytest.approx(float(network.mean(name)), rel=1e-9)
                error = float(network.standard_error(name))
                assert measured[name].standard_error[i, j] == pytest.approx(error, rel=1e-6)
    with pytest.raises(InvalidInput, match="quantity"):
        measured["tset_error"]
    assert "test_error" in measured
    assert "tset_error" not in measured


def test_the_line_passes_through_the_theory_at_the_places_and_is_dense(measured):
    dense = measured.dense
    assert dense.axes[1] == measured.axes[1]
    x, own = dense.axes[0].numbers, measured.axes[0].numbers
    assert len(x) > 40
    assert list(x) == sorted(x)
    for place, theory in zip(own, measured["test_error"].theory, strict=True):
        np.testing.assert_allclose(dense["test_error"].theory[x.index(place)], theory, rtol=1e-9)


def test_the_line_is_drawn_at_the_sizes_that_problems_have():
    """Sizes are whole: drawn at multiples of d that are not, the line had waves of half a sample."""
    line = gs.curve(PROBLEM, over={"n": "0.5d:4d:4"}).dense
    np.testing.assert_allclose(line.axes[0].numbers, [p.n / p.d for p in line.problems], rtol=1e-12)
    slopes = np.diff(line["test_error"].theory) / np.diff(line.axes[0].numbers)
    assert np.max(np.abs(np.diff(slopes))) < 0.02
    ridges = gs.curve(PROBLEM, over={"ridge": "0.01d:0.09d:4"}).dense
    assert len(ridges.problems) > 90  # penalties need not be whole


def test_callables_have_their_names_in_the_table_and_are_read_once(monkeypatch):
    read = []
    original = gs.gaussian.ScalarFunction.from_callable.__func__
    monkeypatch.setattr(
        gs.gaussian.ScalarFunction, "from_callable", classmethod(lambda cls, f: read.append(f) or original(cls, f))
    )
    found = gs.curve(PROBLEM, over={"activation": [np.tanh, np.arctan], "n": "1d:4d:4"})
    assert read == [np.tanh, np.arctan]
    assert found.axes[0].texts == ["tanh", "arctan"]
    with pytest.raises(InvalidInput, match="activation"):
        gs.curve(PROBLEM, over={"activation": [np.sort]})


def test_values_come_from_arrays_of_other_libraries():
    xarray = pytest.importorskip("xarray")
    assert gs.curve(PROBLEM, over={"eta": xarray.DataArray([0.0, 1.0])}).axes[0].values == (0.0, 1.0)


def test_an_infinite_value_does_not_make_the_others_coarse():
    found = gs.curve(PROBLEM, over={"damping": [0.01, 0.1, 1, 10, np.inf]})
    dense = found.dense.axes[0]
    assert dense.is_logarithmic
    assert len(dense.numbers) > 20
    assert dense.numbers[-1] == np.inf
    assert dense.values[-2] == 10
    panel = found.plot("test_error").axes[0]
    assert panel.get_xscale() == "log"
    assert panel.get_xlim()[1] < 100


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_an_infinite_value_is_drawn_at_the_right_edge(scale):
    """Theory is a dash there and the networks a point, above a tick of its own; the line ends at the finite values."""
    found = gs.curve(PROBLEM, over={"damping": [0.01, 0.1, 1, 10, np.inf]}, seeds=[3, 5])
    panel = found.plot("test_error", references="no step", x_scale=scale).axes[0]
    ticks = panel.get_xticks()
    assert panel.get_xticklabels()[-1].get_text() == r"$\infty$"
    assert max(ticks[:-1]) <= 10 < ticks[-1] < panel.get_xlim()[1]
    for line in panel.lines[:2]:
        x, y = line.get_data()
        (gap,) = np.flatnonzero(np.isnan(x))
        assert x[gap - 1] == 10
        assert x[-2] < ticks[-1] < x[-1]
        assert y[-1] == y[-2]
    assert panel.lines[0].get_ydata()[-1] == pytest.approx(found["test_error"].theory[-1], rel=1e-12)
    (points,) = points_of(panel)
    np.testing.assert_allclose(points[-1], [ticks[-1], found["test_error"].mean[-1]], rtol=1e-12)
    alone = gs.curve(PROBLEM, over={"damping": [np.inf]}).plot("test_error").axes[0]
    assert [label.get_text() for label in alone.get_xticklabels()] == [r"$\infty$"]


def test_a_map_says_that_it_ends_before_infinity(recwarn, monkeypatch):
    monkeypatch.setattr("gradstep.curves._MAP", 10)
    found = gs.curve(PROBLEM, over={"damping": [*np.logspace(-2, 1, 9), np.inf], "n": "10:80:10"})
    assert "not in the map: damping = inf" in found.plot("test_error").get_supxlabel()
    assert not recwarn.list


@pytest.mark.parametrize(("name", "place"), [("n", 40), ("eta", 0.0)])
def test_the_theory_of_a_single_place_is_in_sight(name, place):
    (line,) = gs.curve(PROBLEM, over={name: [place]}).plot("test_error").axes[0].lines
    (left, right), (low, high) = line.get_data()
    assert left < place < right
    assert low == high == gs.predict(PROBLEM.replace(**{name: place})).test_error


def test_the_figure_shows_the_numbers(measured):
    panel, *_ = measured.plot("test_error", references=("kernel lower bound", "label noise")).axes
    assert panel.get_xlabel() == "samples of the fit, $n/d$"
    for j, points in enumerate(points_of(panel)):
        np.testing.assert_allclose(points, np.c_[[1, 2, 3], measured["test_error"].mean[:, j]])
    heights = {float(line.get_ydata()[0]) for line in panel.lines if len(set(line.get_ydata())) == 1}
    assert {PROBLEM.noise**2, moments(PROBLEM.teacher).nonlinear_second_moment} <= heights
    words = {text.get_text() for text in panel.texts}
    assert {"no step", r"$\eta$ = $\sqrt{N}$", "kernel lower bound", "label noise"} == words
    with pytest.raises(InvalidInput, match=r"reference: .*did you mean kernel lower bound"):
        measured.plot(references="kernel bound")
    with pytest.raises(InvalidInput, match=r"reference: .*did you mean label noise"):
        measured.plot(references="noise")  # a word of the name, though "no step" has more of its letters in order


def test_without_the_step_is_another_curve():
    found = gs.curve(PROBLEM, over={"n": [20, 40]})
    panel = found.plot("test_error", references="no step").axes[0]
    without = next(line for line in panel.lines if line.get_color() != panel.lines[0].get_color())
    assert without.get_ydata()[-1] == pytest.approx(gs.predict(PROBLEM.replace(n=40, eta=0)).test_error, rel=1e-9)
    assert {text.get_text() for text in panel.texts} == {"no step", "after the step"}


def test_quantities_that_do_not_vary_have_no_panel_and_are_told_once():
    found = gs.curve(PROBLEM, over={"n": [20, 40]})
    assert len(found.plot().axes) == 2
    assert "alignment" not in found.varying
    lines = str(found).splitlines()
    assert sum("alignment" in line for line in lines) == 1
    assert len(gs.curve(PROBLEM, over={"n_step": [20, 40]}).plot().axes) == 3


def test_problems_are_curves_with_labels():
    listed = gs.curve([PROBLEM, PROBLEM.replace(activation="relu", ridge=2)], over={"n": [20, 40]})
    assert listed.axes[1].values == ("tanh, Λ = 0.5", "relu, Λ = 2")
    assert listed.problems[-1] == PROBLEM.replace(activation="relu", ridge=2, n=40)
    steps = gs.curve([PROBLEM, PROBLEM.replace(eta=0)], over={"n": [20, 40]})
    assert {text.get_text() for text in steps.plot("test_error").axes[0].texts} == {r"$\eta$ = $\sqrt{N}$", "no step"}
    named = gs.curve({"one": PROBLEM, "two": PROBLEM.replace(ridge=2)}, over={"n": [20, 40]})
    assert {text.get_text() for text in named.plot("test_error").axes[0].texts} == {"one", "two"}
    assert named["test_error"].theory[1, 1] == pytest.approx(gs.predict(PROBLEM.replace(ridge=2, n=40)).test_error)


def test_a_multiple_of_the_dimension_beside_a_number_is_no_number():
    """As a number it would stand for two samples beside thirty."""
    found = gs.curve(PROBLEM, over={"n": [30, "2d"], "ridge": "1d,2d"})
    assert found.to_xarray()["n"].values.tolist() == ["30", "2d"]
    assert found.to_xarray()["ridge"].values.tolist() == [1.0, 2.0]
    assert found.to_xarray()["ridge"].attrs == {"unit": "d"}
    assert set(found.to_frame()["n"]) == {30, "2d"}
    assert found.grid.coordinates(2) == {"n": "2d", "ridge": 1.0}


def test_values_that_are_no_numbers_are_written_as_they_may_be_given():
    found = gs.curve(
        PROBLEM, over={"inputs": [None, "power_law(0.3, classes=4)"], "readout": ["gaussian", {-1: 1, "2": 3}]}
    )
    assert found.grid.cells[1] == ("isotropic", "-1:0.25,2:0.75")
    again = gs.curve(PROBLEM, over={"inputs": ["isotropic"], "readout": ["-1:0.25,2:0.75"]})
    assert again["test_error"].theory.item() == found["test_error"].theory[0, 1]


def test_a_field_that_is_no_field_is_named():
    with pytest.raises(
        InvalidInput, match=r"nosie: not a known name \(did you mean noise\?\); allowed: one of the fields"
    ):
        gs.curve(PROBLEM, over={"nosie": [0, 1]})
    with pytest.raises(InvalidInput, match=r"references: got True.*kernel lower bound"):
        gs.curve(PROBLEM, over={"n": [20, 40]}).plot(references=True)


def test_values_without_a_scale_are_places_side_by_side():
    found = gs.curve(PROBLEM, over={"eta": [0, 1, "N^0.5"]})
    assert found.dense is None
    figure = found.plot("test_error")
    assert "dashes: theory" in figure.texts[-1].get_text()
    assert "dashes" not in gs.curve(PROBLEM, over={"eta": [0, 1]}).plot("test_error").texts[-1].get_text()
    panel = figure.axes[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["no step", r"$\eta$ = 1", r"$\eta$ = $\sqrt{N}$"]


def test_two_parameters_with_many_numbers_are_a_map(monkeypatch):
    monkeypatch.setattr("gradstep.curves._MAP", 10)
    found = gs.curve(PROBLEM, over={"n": "1d:3d:9", "ridge": "1e-1:1e2:log9"})
    panel, bar = found.plot().axes
    assert panel.get_xscale() == "log" or panel.get_yscale() == "log"
    assert panel.get_title(loc="left") == "test error"
    assert min(found.dense.grid.shape) >= 10
    assert bar.get_ylim()[0] <= np.nanmin(found["test_error"].theory)
    with pytest.raises(InvalidInput, match=r"references: .* none with a map"):
        found.plot(references="no step")
    assert len(gs.curve(PROBLEM, over={"n": "1d:3d:9", "ridge": [0.1, 1.0]}).plot("test_error").axes) == 1
    monkeypatch.setattr("gradstep.curve_figure._MOST", 12)
    with pytest.raises(InvalidInput, match="at most 12 curves"):
        gs.curve(PROBLEM, over={"n": [20, 40], "teacher": ["sin", "erf"], "ridge": "1:8:8", "noise": "0:1:4"}).plot()


def test_more_curves_than_have_labels_have_a_scale_of_colours():
    over = {"n": [20, 40, 80, 160], "ridge": [0.1, 1.0, 10.0], "noise": [0.0, 0.3, 1.0]}
    panel, bar = gs.curve(PROBLEM, over=over).plot("test_error").axes
    labels = [tick.get_text() for tick in bar.get_yticklabels()]
    assert (len(labels), labels[0]) == (9, r"$\Lambda$ = 0.1, $\sigma_{\epsilon}$ = 0")
    assert len(panel.texts) == 0
    assert len({line.get_color() for line in panel.lines}) == 9


def test_a_function_makes_problems_of_what_varies_together():
    found = gs.curve(lambda n: PROBLEM.replace(n=n, n_step=n), over={"n": "1d:4d:4"})
    assert [p.n_step for p in found.problems] == [p.n for p in found.problems]
    assert [p.n for p in found.dense.problems] == sorted(p.n_step for p in found.dense.problems)
    two = gs.curve({"tied": lambda n: PROBLEM.replace(n=n, n_step=n), "apart": PROBLEM}, over={"n": "1d:4d:4"})
    assert two["test_error"].theory[:, 0] == pytest.approx(found["test_error"].theory)
    with pytest.raises(InvalidInput, match="problem"):
        gs.curve(lambda n: n, over={"n": [20, 40]})
    for over in ({"width": [20, 40]}, {"n": [20, 40], "eta": [0, 1]}):
        with pytest.raises(InvalidInput, match=r"^over: got .*; allowed: the arguments of the function: n \("):
            gs.curve(lambda n: PROBLEM.replace(n=n), over=over)


def test_in_the_limit_degrees_of_freedom_are_said_to_be_per_dimension():
    limit = gs.Problem(activation="tanh", teacher="sin", d="inf", width="1.5d", n_step="4d", n="3d", eta=1, ridge="1d")
    line = "degrees of freedom are divided by d where it is infinite"
    assert line in gs.curve(limit, over={"d": [40, "inf"]}).notes()
    assert line in str(gs.predict(limit))
    assert not [note for note in gs.curve(limit, over={"d": [40, 60]}).notes() if "divided" in note]
    assert "divided" not in str(gs.predict(limit.at_dimension(40)))


def test_tables_and_datasets_hold_every_number(measured):
    table, data = measured.to_frame(), measured.to_xarray()
    assert len(table) == 6 * len(QUANTITIES)
    row = table[(table["n/d"] == 2) & (table["eta/N^0.5"] == "N^0.5") & (table.quantity == "train_error")].iloc[0]
    assert (row["theory"], row["z"]) == (measured["train_error"].theory[1, 1], measured["train_error"].z[1, 1])
    np.testing.assert_array_equal(data["test_error_mean"], measured["test_error"].mean)
    assert data["test_error_theory"].dims == ("n", "eta")
    assert data["n"].attrs == {"unit": "d"}
    assert not any("/" in name for name in data.variables)  # netCDF has no such names
    assert set(gs.curve(PROBLEM, over={"n": [20, 40]}).to_xarray().data_vars) == {f"{q}_theory" for q in QUANTITIES}


def test_what_is_printed_fits_on_a_screen(measured):
    for found in (measured, gs.curve(PROBLEM, over={"n": "20:60:30", "ridge": [0.1, 1, 10]})):
        lines = str(found).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 80
        assert repr(found) == str(found)
        assert "<table" in found._repr_html_()


def test_a_curve_travels(measured):
    again = pickle.loads(pickle.dumps(measured))
    np.testing.assert_array_equal(again["test_error"].z, measured["test_error"].z)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"over": {}}, "over"),
        ({"over": [1]}, "over"),
        ({"over": {"nn": [1]}}, "nn"),
        ({"over": {"n": "1d:x:3"}}, "n"),
        ({"over": {"n": []}}, "n"),
        ({"over": {"n": [20, 0]}}, "n"),
        ({"over": {"n": [20]}, "seeds": 1}, "seeds"),
        ({"over": {"n": [20]}, "progress": 3}, "progress"),
        ({"over": {"n": "1:400:400", "ridge": "1:400:400"}}, "ranges"),
        ({"problem": [], "over": {"n": [20]}}, "problem"),
        ({"problem": [PROBLEM, PROBLEM], "over": {"n": [20]}}, "problem"),
        ({"problem": "tanh", "over": {"n": [20]}}, "problem"),
    ],
)
def test_bad_input_is_refused_before_any_work(arguments, field, monkeypatch):
    monkeypatch.setattr("gradstep.curves.predict_each", lambda *_: pytest.fail("predicted"))
    with pytest.raises(InvalidInput) as caught:
        gs.curve(**{"problem": PROBLEM, **arguments})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("name", "given", "head", "numbers", "label"),
    [
        ("n", [30, 40], "n", (30, 40), "samples of the fit, n"),
        ("n", "1d,2d", "n/d", (1, 2), "samples of the fit, n/d"),
        ("eta", "0:2:3*N^0.5", "eta/N^0.5", (0, 1, 2), "step size, η/√N"),
        ("eta", "0,2N^0.25", "eta/N^0.25", (0, 2), "step size, η/N^0.25"),
        ("eta", "0,1,N^0.5", "eta", None, "step size, η"),
        ("eta", "N^0:0.5:3", "eta", (0, 0.25, 0.5), "exponent of the step size, η = N^α"),
        ("activation", "relu,tanh", "activation", None, "activation"),
    ],
)
def test_an_axis_says_its_unit(name, given, head, numbers, label):
    axis = Axis.of(name, given)
    assert (axis.head, axis.numbers, axis.label) == (head, numbers, label)
    if numbers is not None:
        assert [Axis(name, (*axis.values, axis.at(place))).numbers[-1] for place in numbers] == list(numbers)


def test_references_stand_only_beside_what_they_bound():
    found = gs.curve(PROBLEM, over={"n": [20, 40, 80]})
    names = ["no step", "kernel lower bound", "label noise"]
    test, train = found.plot(["test_error", "train_error"], references=names).axes
    assert "kernel lower bound" in [text.get_text() for text in test.texts]
    assert "kernel lower bound" not in [text.get_text() for text in train.texts]
    # The curve without the step is that of the panel's own quantity.
    bare = gs.curve(PROBLEM.replace(eta=0), over={"n": [20, 40, 80]})["train_error"].theory
    ends = [line.get_ydata()[-1] for line in train.lines if len(line.get_ydata()) > 2]
    assert min(abs(np.array(ends) / bare[-1] - 1)) < 1e-6


NOISY = PROBLEM.replace(noise=0.5)


def test_label_noise_is_in_both_errors_or_in_neither():
    found = gs.curve(NOISY, over={"n": [30, 60]}, seeds=range(40))
    for name, noise in (("test_error", "neither"), ("train_error", "both"), ("alignment", "both")):
        for value in ("theory", "mean", "standard_error"):
            own, plain = getattr(found.overlay(name, noise), value), getattr(found[name], value)
            np.testing.assert_allclose(own, plain, rtol=1e-12)
    both, plain = found.overlay("test_error", "both"), found["test_error"]
    np.testing.assert_allclose(both.theory, plain.theory + 0.25)
    np.testing.assert_allclose(both.mean, plain.mean + 0.25)
    # Without the noise the training error is that of the networks on the teacher itself.
    neither = found.overlay("train_error", "neither")
    assert neither.theory.shape == neither.mean.shape == (2,)
    gaps = []
    for seed in range(40):
        network = gs.Network(found.problems[1], seed=seed)
        inputs, _ = network.fit_data()
        output = network.features(inputs) @ network.fit().readouts[:, 0]
        gaps.append(np.mean((np.sin(inputs[:, 0]) - output) ** 2))
    assert abs(np.mean(gaps) - neither.mean[1]) < 4 * np.std(gaps, ddof=1) / np.sqrt(40)
    assert abs(np.mean(gaps) - found["train_error"].mean[1]) > 0.05
    with pytest.raises(InvalidInput, match="label_noise: got 'none'"):
        found.overlay("test_error", "none")


@pytest.mark.parametrize("noise", ["both", "neither"])
def test_two_errors_in_one_panel(noise):
    found = gs.curve(NOISY, over={"n": "1d:3d:3"}, seeds=4)
    names, references = ["test_error", "train_error"], ["no step", "kernel lower bound"]
    figure = found.plot(names, references=references, label_noise=noise, together=True, x_scale="log", y_scale="log")
    (panel,) = figure.axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert panel.get_ylabel() == "test error (solid), train error (dotted)"
    for points, name in zip(points_of(panel), names, strict=True):
        np.testing.assert_allclose(points[:, 1], found.overlay(name, noise).mean)
    test, train, without = [line for line in panel.lines if len(line.get_xdata()) > 20]
    for line, name in ((test, "test_error"), (train, "train_error")):
        np.testing.assert_allclose(line.get_ydata(), found.dense.overlay(name, noise).theory)
    assert test.get_color() == train.get_color() != without.get_color()
    assert test.get_linestyle() == "-" != train.get_linestyle()
    added = 0.25 if noise == "both" else 0
    bare = gs.predict(NOISY.replace(n=60, eta=0)).test_error
    assert without.get_ydata()[-1] == pytest.approx(bare + added, rel=1e-9)
    heights = {float(line.get_ydata()[0]) for line in panel.lines if len(set(line.get_ydata())) == 1}
    assert moments(PROBLEM.teacher).nonlinear_second_moment + added in heights
    assert f"label noise in {noise}" in figure.get_supxlabel()


def test_a_training_error_that_vanishes_does_not_stretch_a_shared_axis():
    found = gs.curve(PROBLEM.replace(width=200, ridge=1e-9, noise=0.0), over={"n": [20, 40, 80]})
    least = found["test_error"].theory.min()
    low = found.plot(["test_error", "train_error"], together=True, y_scale="log").axes[0].get_ylim()[0]
    assert found["train_error"].theory.min() < 1e-6 * least
    assert low > least / 100


def test_without_the_step_has_one_name_and_colour_for_all_curves():
    found = gs.curve({"A": PROBLEM, "B": PROBLEM.replace(width=40)}, over={"n": [20, 40, 80]})
    panel = found.plot("test_error", references="no step").axes[0]
    ends = [gs.predict(each.replace(n=80, eta=0)).test_error for each in found.problems[-2:]]
    without = [line for line in panel.lines if min(abs(line.get_ydata()[-1] / np.array(ends) - 1)) < 1e-9]
    assert len(without) == 2
    assert len({line.get_color() for line in without}) == 1
    assert sorted(text.get_text() for text in panel.texts) == ["A", "B", "no step"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"label_noise": "some"}, "label_noise"),
        ({"together": 1}, "together"),
        ({"together": True, "quantities": ["test_error", "train_error", "alignment"]}, "together"),
        ({"x_scale": "logarithmic"}, "x_scale"),
    ],
)
def test_looks_that_a_figure_cannot_have(measured, options, field):
    with pytest.raises(InvalidInput) as caught:
        measured.plot(**options)
    assert caught.value.field == field
