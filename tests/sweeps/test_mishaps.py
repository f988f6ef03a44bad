"""What a sweep says when something is not as it should be: every time one clear error, or a result that is whole."""

import json
import logging
import math
import os
import shutil
import threading
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

import gradstep as gs
from gradstep.cli import app
from gradstep.cli.sweeping import read_design
from gradstep.errors import InvalidInput
from gradstep.sweeps import (
    Cluster,
    Processes,
    State,
    Store,
    Task,
    check_file,
    collect,
    design_of,
    execute,
    manifest_of,
    measure,
    run,
    save,
    status,
)

PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=16, width=20, n_step=60, n=40, eta=gs.Step(1.0, 0.5), ridge=1.0, noise=0.1
)


def results(folder):
    """Return the content of every result file, by name."""
    return {path.name: path.read_bytes() for path in folder.glob("??/*.json")}


# --- predictions and networks that fail ---------------------------------------------------------------------------


def only_above(threshold, real):
    """Return a theory without solutions below a penalty."""

    def predict_some(problems, **options):
        for problem in problems:
            if problem.ridge < threshold:
                raise gs.NotConverged("the equations", 1.0, 1e-10, "Larger penalties.")
        return real(problems, **options)

    return predict_some


def test_one_bad_penalty_leaves_the_others_their_theory(tmp_path, monkeypatch):
    theory = import_module("gradstep.theory.predict")
    monkeypatch.setattr(theory, "predict_many", only_above(0.5, theory.predict_many))
    design = design_of(PROBLEM, {"n": [30, 50], "ridge": [0.1, 1.0, 10.0]}, seeds=2)
    for _ in range(2):  # computed, and from the store
        state = run(design, tmp_path, workers=1)
        assert state.done == state.total
        assert state.failed == 2
        assert "NotConverged" in state.first_failure
        assert "ridge 0.1" in state.first_failure
    dataset = collect(tmp_path)
    for n in (30, 50):
        for ridge in (1.0, 10.0):
            expected = gs.predict(PROBLEM.replace(n=n, ridge=ridge)).test_error
            assert float(dataset.test_error_theory.sel(n=n, ridge=ridge)) == pytest.approx(expected, rel=1e-9)
            assert str(dataset.theory_failure.sel(n=n, ridge=ridge).values) == ""
        assert math.isnan(float(dataset.test_error_theory.sel(n=n, ridge=0.1)))
        assert math.isnan(float(dataset.theory_residual.sel(n=n, ridge=0.1)))
        assert "did not converge" in str(dataset.theory_failure.sel(n=n, ridge=0.1).values)
    assert np.isfinite(dataset.test_error.values).all()
    save(dataset, tmp_path / "results.nc")
    assert "theory_failure" not in gs.sweep(PROBLEM, {"ridge": [1.0, 10.0]}, seeds=0, workers=1)


def test_a_failing_point_leaves_the_others_their_seeds_on_demand(tmp_path, monkeypatch):
    real = measure.simulate

    def fails_at_thirty(problem, *arguments, **options):
        if problem.n == 30:
            raise MemoryError("too small")
        return real(problem, *arguments, **options)

    monkeypatch.setattr(measure, "simulate", fails_at_thirty)
    with pytest.warns(RuntimeWarning, match="4 results failed"):
        dataset = gs.sweep(PROBLEM, {"n": [30, 50, 300]}, seeds=4, until_se=0.05, workers=1)
    relative = (dataset.test_error_standard_error / dataset.test_error_mean).values
    assert math.isnan(relative[0])
    assert (relative[1:] <= 0.05).all()
    assert dataset.seeds_done.values[0] == 0
    assert dataset.seeds_done.values.max() > 4


# --- directories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", [None, "{", '{"design": {"seeds": "many"}}'])
def test_a_lost_manifest_is_restored_for_its_own_sweep_only(tmp_path, manifest, caplog):
    gs.sweep(PROBLEM, {"n": [30, 50]}, seeds=3, store=tmp_path, workers=1)
    kept = results(tmp_path)
    text = (tmp_path / "sweep.json").read_text()
    if manifest is None:
        (tmp_path / "sweep.json").unlink()
    else:
        (tmp_path / "sweep.json").write_text(manifest)
    for other in ({"n": [30, 60]}, {"n": [30]}):
        with pytest.raises(gs.InvalidInput, match=r"out: .*sweep\.json is (damaged|missing)"):
            gs.sweep(PROBLEM, other, seeds=3, store=tmp_path, workers=1)
    with pytest.raises(gs.InvalidInput, match=r"out: "):
        gs.sweep(PROBLEM, {"n": [30, 50]}, seeds=3, first_seed=1, store=tmp_path, workers=1)
    assert results(tmp_path) == kept
    with caplog.at_level(logging.WARNING, "gradstep"):
        gs.sweep(PROBLEM, {"n": [30, 50]}, seeds=3, store=tmp_path, workers=1)
    assert (tmp_path / "sweep.json").read_text() == text
    assert results(tmp_path) == kept
    assert status(tmp_path)["aside"] == (manifest is not None)
    assert ("set aside" in caplog.text) == (manifest is not None)


def every_place(value, place=()):
    """Yield the place of everything in a plain value."""
    yield place
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from every_place(item, (*place, key))


def test_a_manifest_of_wrong_types_is_one_clear_error(tmp_path):
    design = design_of(PROBLEM, {"n": [30]}, zipped=[{"noise": [0.1, 0.2], "readout": ["gaussian", "constant"]}])
    whole = json.dumps({"design": design.to_dict()})
    said = []
    for place in every_place(json.loads(whole)):
        for wrong in (None, -1, "nonsense(", [], [[None]], {"a": 1}):
            document = json.loads(whole)
            if place:
                inner = document
                for key in place[:-1]:
                    inner = inner[key]
                inner[place[-1]] = wrong
            else:
                document = wrong
            (tmp_path / "sweep.json").write_text(json.dumps(document))
            try:
                list(manifest_of(tmp_path).tasks())
            except gs.InvalidInput as error:
                said.append(str(error))
    assert len(said) > 100
    assert all("sweep.json" in line for line in said)


@pytest.mark.parametrize("gone", ["all", "manifest"])
def test_a_directory_deleted_midway_is_one_clear_error(tmp_path, monkeypatch, gone):
    folder = tmp_path / "results"
    monkeypatch.setattr(import_module("gradstep.sweeps.sweep"), "_REPORT_EVERY", 0.0)

    def delete(state):
        if state.done == 3:
            if gone == "all":
                shutil.rmtree(folder)
            else:
                (folder / "sweep.json").unlink()

    with pytest.raises(gs.GradstepError, match="was deleted"):
        run(design_of(PROBLEM, {"n": [30, 50]}, seeds=3), folder, workers=1, report=delete)
    assert folder.exists() == (gone != "all")


def test_leftovers_of_killed_writers_are_removed_after_a_day(tmp_path):
    store = Store(tmp_path)
    dict(
        execute(
            [Task("gradstep.sweeps.measure:device_at_hand", {"device": None, "dtype": "float64"}, 0)], store, workers=1
        )
    )
    (finished,) = tmp_path.glob("??/*.json")
    old = [finished.with_name(f".{finished.name}.0123abcd.tmp"), tmp_path / ".sweep.json.0123abcd.tmp"]
    alive = finished.with_name(f".{finished.name}.4567abcd.tmp")
    others = tmp_path / "notes.tmp"
    for path in (*old, alive, others, finished):
        path.touch()
    for path in (*old, others, finished):
        os.utime(path, (0, 0))
    store.prepare()
    assert not any(path.exists() for path in old)
    assert alive.exists()
    assert others.exists()
    assert finished.exists()


# --- points that are equal, or nearly -------------------------------------------------------------------------------


def test_zipped_points_that_differ_in_the_penalty_alone_have_seeds_of_their_own():
    zipped = design_of(PROBLEM, {}, zipped=[{"ridge": [0.1, 1.0], "noise": [0.1, 0.1]}], seeds=4)
    seeds = {zipped.seed_number(point, index) for point in range(2) for index in range(4)}
    assert len(seeds) == 8
    # A path of penalties is fitted on one network, the one of each penalty alone.
    path = design_of(PROBLEM, {"ridge": [0.1, 1.0]}, seeds=4)
    alone = design_of(PROBLEM.replace(ridge=0.1), {}, seeds=4)
    assert path.seed_number(0, 2) == alone.seed_number(0, 2)


def test_points_that_are_equal_after_rounding_are_counted_as_they_are_run(tmp_path):
    base = {"convention": "ba2022", "activation": "erf", "teacher": "erf", "d": 16, "psi2": 1, "lam": 0.1, "eta": 1.0}
    design = design_of(base, {"psi1": [2.0, 2.001, 3.0]}, seeds=2)
    state = run(design, tmp_path, workers=1)
    found = status(tmp_path)
    assert (found["tasks"], found["done"], found["missing"]) == (state.total, state.done, 0) == (9, 9, 0)
    assert (found["added"], found["other"]) == (0, 0)
    run(design_of(base, {"psi1": [2.0, 2.001, 3.0]}, seeds=4), tmp_path, workers=1)
    (tmp_path / "sweep.json").write_text(json.dumps({"design": design.to_dict()}))
    assert (status(tmp_path)["done"], status(tmp_path)["added"]) == (9, 4)  # two more networks at two problems


def test_results_of_another_version_are_counted_apart(tmp_path, monkeypatch):
    gs.sweep(PROBLEM, {"n": [30]}, seeds=2, store=tmp_path, workers=1)
    monkeypatch.setattr("gradstep.sweeps.store.RESULT_VERSION", -1)
    found = status(tmp_path)
    assert (found["done"], found["missing"], found["added"], found["other"]) == (0, 3, 0, 3)


def test_large_grids_keep_few_points_at_hand(monkeypatch):
    def tasks():
        design = design_of(PROBLEM, {"n": list(range(30, 50))}, seeds=2)
        return [task.key for _, task in design.tasks()], len(design._known)

    listed, at_hand = tasks()
    assert at_hand == 20
    monkeypatch.setattr("gradstep.sweeps.design._AT_HAND", 3)
    assert tasks()[0] == listed
    assert tasks()[1] <= 3


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_large_and_mostly_empty_table_of_seeds_is_left_out_and_said(tmp_path, monkeypatch, caplog):
    design = design_of(PROBLEM, {"n": [30, 50, 60, 70, 80]}, seeds=2)
    run(design, tmp_path, workers=1)
    store = Store(tmp_path)
    for _ in execute((design.simulation_task(0, index) for index in range(2, 40)), store, workers=1):
        pass
    whole = collect(tmp_path)
    assert whole.sizes["seed"] == 40
    module = import_module("gradstep.sweeps.collect")
    monkeypatch.setattr(module, "_LARGE_TABLE", 0)
    monkeypatch.setattr(module, "_FILL", 2)
    bounded = collect(tmp_path)
    assert "left out every seed's value: up to 40 seeds at 5 points" in caplog.text
    assert "seed" not in bounded.sizes
    statistics = whole.drop_dims("seed")
    assert bounded.identical(statistics)
    assert collect(tmp_path, every_seed=False).identical(statistics)
    assert list(bounded.seeds_done.values) == [40, 2, 2, 2, 2]


def test_a_file_in_a_folder_that_is_missing_is_named_before_any_work(tmp_path, monkeypatch):
    path = tmp_path / "missing" / "results.nc"
    with pytest.raises(gs.InvalidInput, match="a directory that exists"):
        check_file(path)
    monkeypatch.setattr("gradstep.sweeps.collect", lambda *a, **k: pytest.fail("collected first"))
    refused = CliRunner().invoke(app, ["collect", str(tmp_path), "--out", str(path)])
    assert refused.exit_code == 2
    assert "a directory that exists" in " ".join(refused.stderr.split())
    (tmp_path / "a folder.nc").mkdir()
    with pytest.raises(gs.InvalidInput, match="out: ") as error:
        save(gs.sweep(PROBLEM, {}, seeds=0, workers=1), tmp_path / "a folder.nc")
    assert "None" not in str(error.value)


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "device", "said"), [(1, "cuda:77", "device: got 'cuda:77'"), (2, "gpu", "'cpu', 'cuda' or")]
)
def test_a_device_that_is_not_there_is_named_before_any_work(tmp_path, workers, device, said):
    with pytest.raises(gs.InvalidInput, match=said):
        gs.sweep(PROBLEM, {"n": [30]}, seeds=2, device=device, store=tmp_path / "never", workers=workers)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("workers", [0, True, 1.5, "two"])
def test_a_bad_number_of_workers_of_a_cluster_is_named(workers):
    with pytest.raises(gs.InvalidInput, match="workers"):
        Cluster("local", workers)


def test_what_single_precision_costs_is_one_task_of_one_shard(tmp_path):
    design = design_of(PROBLEM, {"n": [30, 50]}, seeds=2, dtype="float32")
    states = [run(design, tmp_path, workers=1, shard=(i, 3)) for i in range(3)]
    assert sum(state.total for state in states) == design.task_count == 2 * (2 + 1) + 1
    assert sum(not math.isnan(state.precision_cost) for state in states) == 1
    found = status(tmp_path)
    assert (found["tasks"], found["done"], found["added"], found["other"]) == (7, 7, 0, 0)
    assert len(results(tmp_path)) == 7
    assert "float32_relative_error" in collect(tmp_path).attrs
    assert not math.isnan(run(design, tmp_path, workers=1).precision_cost)


HEAD = (
    '[problem]\nactivation = "erf"\nteacher = "erf"\nd = 24\nwidth = 24\nn_step = 48\nn = 30\nridge = 0.1\neta = 1.0\n'
)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('zipped = ["n"]\n' + HEAD, "zipped"),
        ("zipped = [1]\n" + HEAD, "zipped"),
        (HEAD + "[[zipped]]\n", "zipped"),
        (HEAD + "[zipped]\nn = [20, 30]\nwidth = [20, 30]\n", "settings"),
        (HEAD + "[[zipped]]\nn = 5\nwidth = [1]\n", "n"),
        (HEAD + "[[zipped]]\nn = [20, 30]\nwidth = [1]\n", "zipped"),
        (HEAD + "[over]\nn = [2026-11-21]\n", "n"),
        (HEAD + "[over]\nn = 2026-11-21\n", "n"),
        (HEAD + "[over]\nridge = [12:30:00]\n", "ridge"),
        (HEAD + "[over]\nn = [[20, 30]]\n", "n"),
        (HEAD + "[over]\nn = [true]\n", "n"),
        (HEAD + "[over]\nn = [nan]\n", "n"),
        (HEAD + "[over]\nwidth = [48, 48.0]\n", "width"),
        (HEAD + "[over]\neta = [{ coefficient = 1 }, { coefficient = 1.0 }]\n", "eta"),
        (HEAD + "[over]\nridge = [-inf]\n", "ridge"),
        (HEAD + "[over]\nn = { a = 1 }\n", "n"),
        (HEAD + '[over]\nn = ""\n', "n"),
        (HEAD + "[over]\nactivation = [1]\n", "activation"),
        (HEAD + '[over]\neta = ["fast"]\n', "eta"),
        (HEAD + "[over]\nreadout = [{ a = 1 }]\n", "readout"),
        (HEAD + "[over]\nN = [20]\n", "N"),
        (HEAD + '[over]\nconvention = ["ba2022"]\n', "over"),
        (HEAD.replace("24", "2026-11-21"), "d"),
        (HEAD.replace('"erf"', "[1]"), "activation"),
        (HEAD + '[run]\nseeds = "8"\n', "seeds"),
        (HEAD + "[run]\nseeds = 2026-11-21\n", "seeds"),
        (HEAD + "[run]\nfirst_seed = [1]\n", "first_seed"),
        (HEAD + '[run]\npaired = "yes"\n', "paired"),
        (HEAD + "[run]\ndevice = 5\n", "device"),
        (HEAD + "[run]\ndtype = [1]\n", "dtype"),
        (HEAD + "[run]\nworkers = 2\n", "run"),
        ("problem = 3\n", "settings"),
        ("[problems]\n", "settings"),
        ("[problem\n", "settings"),
    ],
)
def test_a_settings_file_that_cannot_be_meant_is_one_clear_message(text, field, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    refused = CliRunner().invoke(app, ["sweep", str(path), "--out", str(tmp_path / "never")])
    assert refused.exit_code == 2, refused
    first, *others = refused.stderr.splitlines()
    assert first.startswith(f"error: {field}")
    assert all(line.startswith("  ") for line in others)
    assert not (tmp_path / "never").exists()


def test_the_same_on_the_command_line_as_one_json_document(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('zipped = ["n"]\n' + HEAD)
    refused = CliRunner().invoke(app, ["sweep", str(path), "--out", str(tmp_path / "never"), "--json"])
    assert refused.exit_code == 2
    assert json.loads(refused.stderr)["error"]["field"] == "zipped"


def test_results_that_failed_are_an_error_in_json_too(tmp_path, monkeypatch):
    path = tmp_path / "settings.toml"
    path.write_text(HEAD)
    failed = State(done=17, total=17, failed=2, first_failure="NotConverged: no", worst_z=math.nan)
    monkeypatch.setattr("gradstep.sweeps.run", lambda *arguments, **options: failed)
    said = CliRunner().invoke(app, ["sweep", str(path), "--out", str(tmp_path), "--json"])
    assert said.exit_code == 3
    assert json.loads(said.stdout)["failed"] == 2
    error = json.loads(said.stderr)["error"]
    assert (error["type"], error["exit_code"]) == ("TaskFailed", 3)
    assert error["message"] == "2 results failed; the first: NotConverged: no"


def test_values_that_vary_take_the_place_of_the_problem_s(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(HEAD + "[over]\nn = [20, 40]\n[[zipped]]\nridge = [0.5]\nwidth = [16]\n")
    design = read_design(path, {"seeds": 0})
    assert [(p.n, p.ridge, p.width) for k in range(design.points) for p in design.problems(k)] == [
        (20, 0.5, 16), (40, 0.5, 16)
    ]  # fmt: skip


def test_a_step_size_may_be_text_wherever_it_is(tmp_path):
    path = tmp_path / "settings.toml"
    numbers = "".join(line for line in HEAD.splitlines(True) if not line.startswith("eta"))
    path.write_text(numbers + 'eta = "2*N^0.5"\n')
    design = read_design(path, {"seeds": 0})
    assert design.problems(0)[0].eta == gs.Step(2.0, 0.5)
    path.write_text(numbers + 'eta = "N^0:0.5:3"\n')
    with pytest.raises(InvalidInput, match="eta"):
        read_design(path, {"seeds": 0})


def test_the_help_names_the_tables_of_a_settings_file():
    shown = CliRunner().invoke(app, ["sweep", "--help"], env={"COLUMNS": "120"}).stdout
    for table in ("[problem]", "[over]", "[[zipped]]", "[run]"):
        assert shown.count(table) >= 2
    assert "in [problem] too: it varies all the same" in " ".join(shown.split())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("what", ["a named pipe", "nested brackets"])
def test_a_result_that_no_reader_takes_is_set_aside_and_computed_again(what, tmp_path, caplog):
    design = design_of(PROBLEM, {"n": [30]}, seeds=1)
    run(design, tmp_path, workers=1)
    whole = results(tmp_path)
    path = sorted(tmp_path.glob("??/*.json"))[0]
    path.unlink()
    if what == "a named pipe":
        os.mkfifo(path)
    else:
        path.write_text("[" * 100_000)
    with caplog.at_level(logging.WARNING, "gradstep"):
        assert run(design, tmp_path, workers=1).failed == 0
    assert "set aside" in caplog.text
    assert results(tmp_path) == whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_manifest_that_no_reader_takes_is_one_clear_error(tmp_path):
    (tmp_path / "nested").mkdir()
    (tmp_path / "nested" / "sweep.json").write_text("[" * 100_000)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "sweep.json")
    for folder, said in (("nested", "nested too deeply"), ("pipe", "no plain file")):
        for look in (status, collect):
            with pytest.raises(InvalidInput, match=said):
                look(tmp_path / folder)


@pytest.mark.parametrize("address", ["http://x", "foo bar", "tcp://", "tls://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_one_clear_line(address, tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(InvalidInput, match="the address of a running scheduler"):
        Cluster(address)


def test_a_cluster_gives_the_loggers_of_its_library_their_levels_back(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("gradstep.sweeps.executors._CONNECT", 0.5)
    logger = logging.getLogger("distributed.comm")
    before = logger.level
    try:
        logger.setLevel(logging.WARNING)
        with pytest.raises(gs.InvalidInput, match="cluster"):
            Cluster("tcp://127.0.0.1:1")
        assert logger.level == logging.WARNING
    finally:
        logger.setLevel(before)


def test_a_cluster_started_here_ends_with_a_client_that_cannot_connect(monkeypatch):
    distributed = pytest.importorskip("distributed")
    started = []

    class Started(distributed.LocalCluster):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            started.append(self)

    def refuse(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr(distributed, "LocalCluster", Started)
    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(gs.InvalidInput, match="no route"):
        Cluster("local", 1)
    assert started[0].status.name == "closed"


def test_as_many_workers_as_cores_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert Processes().slots == 3 * Processes(1).slots


def test_a_cluster_without_workers_is_told_once_and_waited_for(monkeypatch, caplog):
    """Workers of a batch system come when there is room: until then nothing happens, and the user should know why."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("gradstep.sweeps.executors._HEARTBEAT", 0.1)
    arguments = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=0, threads_per_worker=1, **arguments) as empty:
        place = Cluster(empty.scheduler_address)
        place.submit(7, Task("gradstep.sweeps.measure:device_at_hand", {"device": "cpu", "dtype": "float64"}, 0))
        timer = threading.Timer(0.6, lambda: empty.scale(1))
        timer.start()
        ((index, found),) = place.finished()
        timer.join()
        place.close()
    assert (index, set(found)) == (7, {"allowed"})
    assert [record.message for record in caplog.records if record.name.startswith("gradstep")] == [
        "the cluster has no workers; the sweep waits for one"
    ]


def test_two_clusters_on_one_machine_do_not_complain_of_each_other(recwarn):
    pytest.importorskip("distributed")
    places = [Cluster("local", 1) for _ in range(2)]
    for place in places:
        place.close()
    assert [str(each.message) for each in recwarn.list if "8787" in str(each.message)] == []
