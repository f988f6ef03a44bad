"""Grids of problems: designs, labelled datasets, seeds on demand, files of other programs."""

import itertools
import json
import math
import sys

import numpy as np
import pandas as pd
import pytest
import xarray
from typer.testing import CliRunner

import gradstep as gs
from gradstep.cli import app
from gradstep.problem import Step
from gradstep.sizes import read_size
from gradstep.sweeps import Store, collect, design_of, manifest_of, run, save, status

PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=16, width=20, n_step=60, n=40, eta=gs.Step(1.0, 0.5), ridge=1.0, noise=0.1
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a finished sweep's directory and dataset: cartesian, penalties and zipped axes."""
    folder = tmp_path_factory.mktemp("sweep")
    dataset = gs.sweep(
        PROBLEM,
        {"n": [30, 50], "ridge": [0.1, 1.0, 10.0]},
        zipped=[{"width": [16, 24], "n_step": [40, 80]}],
        seeds=3,
        store=folder,
        workers=1,
    )
    return folder, dataset


def test_every_value_is_that_of_predict_and_simulate(finished):
    _, dataset = finished
    for n, ridge, k in itertools.product([30, 50], [0.1, 1.0, 10.0], [0, 1]):
        point = dataset.sel(n=n, ridge=ridge).isel(width_n_step=k)
        problem = PROBLEM.replace(n=n, ridge=ridge, width=[16, 24][k], n_step=[40, 80][k])
        assert float(point.test_error_theory) == pytest.approx(gs.predict(problem).test_error, rel=1e-9)
        seeds = [int(s) for s in point.seed_number]
        measured = gs.simulate(problem, seeds)
        for name in ("test_error", "train_error", "train_loss", "alignment", "spike_strength", "degrees_of_freedom"):
            np.testing.assert_allclose(point[name], measured[name], rtol=1e-8)
            assert float(point[f"{name}_mean"]) == pytest.approx(float(measured.mean(name)), rel=1e-9)
            assert float(point[f"{name}_standard_error"]) == pytest.approx(
                float(measured.standard_error(name)), rel=1e-6
            )


def test_seeds_are_distinct_within_and_between_points(finished):
    numbers = finished[1].seed_number.values.ravel()
    assert len(set(numbers)) == numbers.size
    paired = design_of(PROBLEM, {"n": [30, 50]}, seeds=4, paired=True)
    assert [paired.seed_number(0, k) for k in range(4)] == [paired.seed_number(1, k) for k in range(4)]
    other = design_of(PROBLEM, {"n": [30, 50]}, seeds=4, first_seed=1)
    assert other.seed_number(0, 0) != design_of(PROBLEM, {"n": [30, 50]}, seeds=4).seed_number(0, 0)


def test_labels_say_what_everything_is(finished):
    _, dataset = finished
    assert dataset.test_error.dims == ("n", "ridge", "width_n_step", "seed")
    assert list(dataset.ridge.values) == [0.1, 1.0, 10.0]
    assert list(dataset.width.values) == [16, 24]
    for array in dataset.data_vars.values():
        assert array.attrs.get("long_name") or array.name == "seeds_done"
    assert "ridge on the sum of squares" in dataset.attrs["convention"]
    assert json.loads(dataset.attrs["design"])["seeds"] == 3
    assert dataset.attrs["numpy_version"] == np.__version__


def test_a_path_of_penalties_is_one_task(finished):
    folder, _ = finished
    # 2 sample sizes x 2 zipped pairs x (3 seeds + 1 prediction), not times the penalties.
    assert len(list(Store(folder).names())) == 16
    assert status(folder) == {
        "points": 12, "seeds": 3, "tasks": 16, "done": 16, "missing": 0, "added": 0, "other": 0, "aside": 0
    }  # fmt: skip


@pytest.mark.parametrize("ending", [".nc", ".csv", ".parquet"])
def test_files_hold_the_dataset(finished, ending, tmp_path):
    _, dataset = finished
    path = tmp_path / f"results{ending}"
    save(dataset, path)
    if ending == ".nc":
        with xarray.open_dataset(path) as back:
            xarray.testing.assert_identical(back.load(), dataset)
        return
    table = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
    assert len(table) == 12
    row = table[(table.n == 30) & (table.ridge == 1.0) & (table.width == 24)]
    expected = dataset.test_error_mean.sel(n=30, ridge=1.0).isel(width_n_step=1)
    assert float(row.test_error_mean.iloc[0]) == pytest.approx(float(expected), rel=1e-12)
    with pytest.raises(gs.InvalidInput, match="out"):
        save(dataset, tmp_path / "results.xls")
    with pytest.raises(gs.InvalidInput, match="out"):
        save(dataset, tmp_path / "no such folder" / f"results{ending}")


def test_more_seeds_only_add_to_those_there_are(tmp_path):
    few = gs.sweep(PROBLEM, {"n": [30]}, seeds=2, store=tmp_path, workers=1)
    files = set(Store(tmp_path).names())
    many = gs.sweep(PROBLEM, {"n": [30]}, seeds=4, store=tmp_path, workers=1)
    assert set(Store(tmp_path).names()) > files
    np.testing.assert_array_equal(many.test_error[0, :2], few.test_error[0])
    # Fewer seeds again: nothing is lost.
    again = gs.sweep(PROBLEM, {"n": [30]}, seeds=2, store=tmp_path, workers=1)
    assert again.sizes["seed"] == 4


def test_another_sweep_in_the_same_directory_is_refused(tmp_path):
    gs.sweep(PROBLEM, {"n": [30]}, seeds=2, store=tmp_path, workers=1)
    with pytest.raises(gs.InvalidInput, match="out"):
        gs.sweep(PROBLEM, {"n": [40]}, seeds=2, store=tmp_path, workers=1)


def test_seeds_on_demand_reach_the_target_where_it_is_missed(tmp_path):
    dataset = gs.sweep(PROBLEM, {"n": [30, 300]}, seeds=4, until_se=0.06, store=tmp_path, workers=1)
    relative = (dataset.test_error_standard_error / dataset.test_error_mean).values
    assert (relative <= 0.06).all()
    done = dataset.seeds_done.values
    assert done.min() >= 4
    assert done.max() > 4
    # The same seeds, whatever the workers and however often it is run.
    again = gs.sweep(PROBLEM, {"n": [30, 300]}, seeds=4, until_se=0.06, store=tmp_path, workers=1)
    xarray.testing.assert_identical(again, dataset)
    two = gs.sweep(PROBLEM, {"n": [30, 300]}, seeds=4, until_se=0.06, workers=2)
    xarray.testing.assert_identical(two, dataset)


def test_seeds_on_demand_stop_at_the_bound():
    dataset = gs.sweep(PROBLEM, {"n": [30]}, seeds=2, until_se=1e-6, max_seeds=5, workers=1, theory=False)
    assert list(dataset.seeds_done.values) == [5]
    assert "test_error_theory" not in dataset


def test_theory_alone_reaches_the_proportional_limit():
    base = {"convention": "ba2022", "activation": "erf", "teacher": "erf", "d": "inf", "psi2": 2, "lam": 1e-3}
    dataset = gs.sweep(base, {"psi1": [2.0, 4.0], "eta": [0.0, 1.0]}, seeds=0, workers=1)
    problem = gs.Problem.ba2022(activation="erf", teacher="erf", d=math.inf, psi1=4.0, psi2=2, lam=1e-3, eta=1.0)
    assert float(dataset.test_error_theory.sel(psi1=4.0, eta=1.0)) == pytest.approx(gs.predict(problem).test_error)
    assert "test_error" not in dataset


def test_names_and_steps_are_labels():
    over = {"activation": ["tanh", "relu"], "eta": [gs.Step(1.0, 0.5), gs.Step(2.0)]}
    dataset = gs.sweep(PROBLEM, over, seeds=0, workers=1)
    assert list(dataset.activation.values) == ["tanh", "relu"]
    assert list(dataset.eta.values) == ["1.0*N**0.5", "2.0"]


def test_multiples_of_the_dimension_are_sizes_where_it_is_one():
    """With an axis of dimensions, and where two of them round to one size, they are text."""
    d = PROBLEM.d
    dataset = gs.sweep(PROBLEM, {"n": "1d:2d:3", "ridge": "d/64,2"}, seeds=0, workers=1)
    assert dataset.n.values.tolist() == [d, 1.5 * d, 2 * d]
    assert dataset.n.dtype.kind == "i"
    assert dataset.ridge.values.tolist() == [d / 64, 2]
    expected = gs.predict(PROBLEM.replace(n="1.5d", ridge=2)).test_error
    assert dataset.test_error_theory.sel(n=24, ridge=2).item() == pytest.approx(expected, rel=1e-9)
    assert gs.sweep(PROBLEM, {"n": ["1d", 40, "d/2"]}, seeds=0, workers=1).n.values.tolist() == [d, 40, d // 2]
    text = gs.sweep(PROBLEM, {"n": "1d,2d", "d": [d, 2 * d]}, seeds=0, workers=1)
    assert text.n.values.tolist() == ["1.0d", "2.0d"]
    same = gs.sweep(PROBLEM, {"n": "1d,1.01d"}, seeds=0, workers=1)
    assert same.n.values.tolist() == ["1.0d", "1.01d"]
    assert gs.sweep(PROBLEM, {"inputs": [None, "power_law(0.5, d=10)"]}, seeds=0, workers=1).inputs[0] == "isotropic"


def test_a_theory_that_fails_does_not_end_the_sweep(tmp_path):
    # No theory where the initial output grows with the width: its simulations are there all the same.
    problem = PROBLEM.replace(output_scale="1/sqrt(N)", activation="relu")
    design = design_of(problem, {"readout": ["gaussian", "constant"]}, seeds=2)
    state = run(design, tmp_path, workers=1)
    assert state.failed == 1
    assert state.first_failure.startswith("InvalidInput: output_scale: got ")
    assert state.first_failure.endswith("readout constant, output scale 1/sqrt(N))")
    dataset = collect(tmp_path)
    assert np.isfinite(dataset.test_error.values).all()
    assert np.isnan(dataset.test_error_theory.values).tolist() == [False, True]


def test_what_single_precision_costs_is_said(tmp_path):
    states = []
    dataset = gs.sweep(PROBLEM, {"n": [30]}, seeds=1, dtype="float32", store=tmp_path, workers=1, report=states.append)
    double = gs.simulate(PROBLEM.replace(n=30), [int(dataset.seed_number[0, 0])])
    expected = abs(float(dataset.test_error[0, 0]) / float(double["test_error"][0]) - 1)
    assert 0 < expected < 1e-3
    assert states[-1].precision_cost == pytest.approx(expected, rel=1e-6)
    assert json.loads(dataset.attrs["float32_relative_error"])["test_error"] == pytest.approx(expected, rel=1e-6)


def test_what_no_seed_defines_is_nan_and_not_zero():
    # Without a step there is no direction, hence no alignment.
    dataset = gs.sweep(PROBLEM.replace(eta=0.0), {"n": [30]}, seeds=2, workers=1)
    for name in ("alignment_mean", "alignment_standard_error", "alignment_z"):
        assert np.isnan(dataset[name].values).all()
    assert np.isfinite(dataset.test_error_z.values).all()


def test_seeds_keep_their_places_where_some_are_missing(tmp_path):
    design = design_of(PROBLEM, {"n": [30, 50]}, seeds=3, paired=True)
    run(design, tmp_path, workers=1)
    whole = collect(tmp_path)
    Store(tmp_path).path(design.simulation_task(1, 0)).unlink()
    rest = collect(tmp_path)
    assert np.isnan(rest.test_error[1, 0])
    np.testing.assert_array_equal(rest.test_error[1, 1:], whole.test_error[1, 1:])
    np.testing.assert_array_equal(rest.seeds_done, [3, 2])


def test_a_function_that_cannot_be_written_down_is_refused():
    custom = gs.ScalarFunction.from_callable(lambda x: 2 * x + 0.3 * x**2, name="tanh")
    for problem, over in (
        (PROBLEM, {"activation": [custom]}),
        ({**PROBLEM.to_dict(), "activation": custom}, {"n": [30]}),
    ):
        with pytest.raises(gs.InvalidInput, match="a registered name or a formula"):
            gs.sweep(problem, over, seeds=0, workers=1)


def test_readout_values_and_ratios_resume_in_their_own_directory(tmp_path):
    for _ in range(2):
        base = {**PROBLEM.to_dict(), "readout": {-1: 0.5, 1: 0.5}}
        gs.sweep(base, {"n": [30, 50]}, seeds=1, store=tmp_path, workers=1)
    limit = {
        "convention": "canonical",
        "activation": "erf",
        "teacher": "erf",
        "d": math.inf,
        "n_step": gs.Proportional(2.0),
    }
    limit |= {"width": gs.Proportional(1.0), "ridge": gs.Proportional(0.1), "eta": 1.0}
    dataset = gs.sweep(limit, {"n": [gs.Proportional(1.0), gs.Proportional(2.0)]}, seeds=0, workers=1)
    assert np.isfinite(dataset.test_error_theory.values).all()


def test_failed_tasks_are_said():
    with pytest.warns(RuntimeWarning, match="failed"):
        gs.sweep(
            PROBLEM.replace(output_scale="1/sqrt(N)", activation="relu", readout="constant"),
            {"n": [30]},
            seeds=0,
            workers=1,
        )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"over": {"n": []}}, "n"),
        ({"over": {"n": 5}}, "n"),
        ({"over": {"n": [30, 30]}}, "n"),
        ({"over": {"n": [30, -1]}}, "n"),
        ({"over": {"N": [30]}}, "N"),
        ({"over": {"n": [30]}, "zipped": [{"n": [1, 2], "width": [3, 4]}]}, "over"),
        ({"over": {}, "zipped": [{"n": [1, 2], "width": [3]}]}, "zipped"),
        ({"over": {"n": [30]}, "seeds": -1}, "seeds"),
        ({"over": {"n": [30]}, "seeds": 0, "theory": False}, "seeds"),
        ({"over": {"n": [30]}, "dtype": "float16"}, "dtype"),
        ({"over": {"activation": ["tanh", "__import__('os')"]}}, "activation"),
        ({"over": {"n": range(40, 1540), "width": range(40, 1040)}}, "over"),
        ({"over": {"n_step": [math.inf]}}, "n_step"),
        ({"over": {"n": [30]}, "until_se": 0}, "until_se"),
        ({"over": {"n": [30]}, "until_se": 0.1, "seeds": 1}, "seeds"),
        ({"over": {"n": [30]}, "until_se": 0.1, "max_seeds": 2}, "max_seeds"),
        ({"over": {"n": [30]}, "cluster": "nowhere"}, "cluster"),
    ],
)
def test_bad_input_is_named_before_any_work(change, field, tmp_path):
    with pytest.raises(gs.InvalidInput, match=field):
        gs.sweep(PROBLEM, store=tmp_path, **change)
    assert not list(tmp_path.glob("??/*.json"))


def test_a_missing_library_is_named_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(gs.InvalidInput, match=r'run: pip install "gradstep\[sweeps\]"'):
        gs.sweep(PROBLEM, over={"n": [30]}, seeds=2, store=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_directory_without_a_sweep_is_named(tmp_path):
    for look in (collect, status, manifest_of):
        with pytest.raises(gs.InvalidInput, match="folder"):
            look(tmp_path)


def test_collect_says_how_much_it_found_and_what_was_damaged(tmp_path):
    folder, path = tmp_path / "results", tmp_path / "results.csv"
    # Points that are equal after rounding share their files: a damaged one is one file, missing from both.
    base = {"convention": "ba2022", "activation": "erf", "teacher": "erf", "d": 16, "psi2": 1, "lam": 0.1, "eta": 1.0}
    run(design_of(base, {"psi1": [2.0, 2.001, 3.0]}, seeds=2), folder, workers=1)
    assert collect(folder).attrs["tasks_done"] == collect(folder).attrs["tasks"] == 9
    design = manifest_of(folder)
    Store(folder).path(design.simulation_task(0, 1)).write_text("{")
    Store(folder).path(design.simulation_task(2, 0)).unlink()
    assert status(folder)["done"] == 8  # by names
    shown = CliRunner().invoke(app, ["collect", str(folder), "--out", str(path)])
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[1:] == [
        "6/9 tasks (1 damaged and set aside); the other 3 are nan until the sweep has computed them",
        str(path),
    ]
    again = CliRunner().invoke(app, ["collect", str(folder), "--out", str(path), "--json"])
    counts = json.loads(again.stdout)
    assert {name: counts[name] for name in ("tasks", "done", "missing", "damaged")} == {
        "tasks": 9, "done": 6, "missing": 3, "damaged": 0
    }  # fmt: skip
    run(design, folder, workers=1)
    whole = CliRunner().invoke(app, ["collect", str(folder), "--out", str(path)])
    assert whole.stdout.splitlines()[1:] == ["9/9 tasks", str(path)]


def test_axes_may_be_text_as_for_curves():
    """Ranges, multiples of the dimension, powers of the width and names are read as `gradstep.curve` reads them."""
    problem = gs.Problem(
        d=20, width=30, n_step=60, n=40, ridge=1.0, eta=1.0, activation="relu", teacher="x", readout="constant"
    )
    over = {"eta": "0.5:4:3, N^0.5", "n": "0.5d:2d:4"}
    design = design_of(problem, over, seeds=0)
    curve = gs.curve(problem, over)
    read = [tuple(Step.parse(value[0]) for value in design.axes[0].values)]
    read.append(tuple(read_size("n", value[0]) for value in design.axes[1].values))
    assert read == [tuple(map(Step.parse, curve.axes[0].values)), curve.axes[1].values]
    assert design_of(problem, {"activation": "relu,tanh"}, seeds=0).axes[0].values == (("relu",), ("tanh",))
    together = design_of(problem, {}, zipped=[{"width": "20:40:3", "n": [10, 20, 30]}], seeds=0)
    assert together.axes[0].values == ((20, 10), (30, 20), (40, 30))
    with pytest.raises(gs.InvalidInput, match="etta: not a known name"):
        gs.sweep(problem, {"etta": "relu,tanh"}, seeds=0)
    with pytest.raises(gs.InvalidInput, match="n: got '1:2'; allowed: "):
        gs.sweep(problem, {"n": "1:2"}, seeds=0)
