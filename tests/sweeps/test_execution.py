"""Tasks: carried out once, stored whole, the same for any number of workers and any kill."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from gradstep.errors import InvalidInput
from gradstep.papers.figure import Figure, load_figures, run_figure
from gradstep.sweeps import InProcess, Store, Task, TaskFailed, execute

MEASURE = "gradstep.papers.experiments.learning_curves:measure"
PROBLEM = {
    "convention": "ba2022",
    "activation": "erf",
    "teacher": "erf",
    "d": 24,
    "psi1": 2,
    "psi2": 1,
    "lam": 0.1,
    "eta": 1.0,
}


def some(count=6):
    """Return small tasks."""
    return [Task(MEASURE, PROBLEM, seed) for seed in range(count)]


def run(tasks, folder, workers=1):
    """Return the results in the order of the tasks."""
    found = dict(execute(tasks, Store(folder), workers=workers))
    return [found[index] for index in range(len(tasks))]


def test_results_come_back_from_disk_without_work(tmp_path, monkeypatch):
    first = run(some(), tmp_path)
    monkeypatch.setattr(Task, "run", lambda self: pytest.fail("carried out again"))
    assert run(some(), tmp_path) == first


def test_number_of_workers_does_not_change_a_bit(tmp_path):
    assert run(some(), tmp_path / "one", 1) == run(some(), tmp_path / "two", 2)


def test_seed_and_settings_both_count(tmp_path):
    a, b = some(2)
    c = Task(MEASURE, {**PROBLEM, "lam": 0.2}, 0)
    results = run([a, b, c], tmp_path)
    assert len({r["test_error"] for r in results}) == 3
    assert len(list(tmp_path.rglob("*.json"))) == 3


@pytest.mark.parametrize("damage", ["", "{", '{"key": 1, "result": {}, "checksum": "no"}', "[]", "null", "\x00\x00"])
def test_a_damaged_file_is_set_aside_and_computed_again(tmp_path, damage):
    first = run(some(), tmp_path)
    Store(tmp_path).path(some()[2]).write_text(damage)
    assert run(some(), tmp_path) == first
    assert len(list(tmp_path.rglob("*.damaged"))) == 1


def test_a_changed_value_is_noticed(tmp_path):
    first = run(some(), tmp_path)
    victim = Store(tmp_path).path(some()[1])
    stored = json.loads(victim.read_text())
    stored["result"]["test_error"] *= 2
    victim.write_text(json.dumps(stored))
    assert run(some(), tmp_path) == first
    assert list(tmp_path.rglob("*.damaged"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the results of a figure that nothing disturbs."""
    (figure,) = load_figures(["fig3a"])
    return run(figure.tasks("quick"), tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("kill", [pytest.param(signal.SIGKILL, marks=pytest.mark.statistical), signal.SIGINT])
def test_a_stopped_run_resumes_and_ends_identical(tmp_path, undisturbed, kill):
    # The command itself, its whole process group stopped as a terminal's Ctrl-C or the kernel would.
    out = tmp_path / "reports"
    command = [
        sys.executable,
        "-m",
        "gradstep",
        "reproduce",
        "--figure",
        "fig3a",
        "--preset",
        "quick",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(
        [*command, "--workers", "2"],
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # Tests that run in the background are deaf to Ctrl-C, and so would be what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while len(list(out.glob("cache/*/*.json"))) < 3 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, kill)
    _, said = process.communicate(timeout=60)
    if kill == signal.SIGINT:
        assert process.returncode == 130
        assert "goes on" in said
        assert "Traceback" not in said
    survivors = {path.name: path.stat().st_mtime_ns for path in out.glob("cache/*/*.json")}
    (figure,) = load_figures(["fig3a"])
    tasks = figure.tasks("quick")
    assert 3 <= len(survivors) < len(tasks)
    resumed = run(tasks, out / "cache")
    assert all((out / "cache" / name[:2] / name).stat().st_mtime_ns == stamp for name, stamp in survivors.items())
    assert resumed == undisturbed


@pytest.mark.parametrize("measure", ["os:system", "gradstep.sweeps.task", "gradstep.sweeps:a b", "gradsteps.x:y"])
def test_a_task_can_call_nothing_but_the_package(measure):
    with pytest.raises(InvalidInput, match="measure"):
        Task(measure, {}, 0).run()


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, 1e20])
def test_bad_number_of_workers_is_named_before_any_work(tmp_path, workers):
    with pytest.raises(InvalidInput, match="workers"):
        execute(some(), Store(tmp_path / "never"), workers=workers)
    assert not (tmp_path / "never").exists()


class Place(InProcess):
    """A place to run that knows whether it is open."""

    open = True

    def close(self):
        self.open = False


def test_a_place_to_run_is_closed_whatever_happens(tmp_path):
    place = Place()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput):
        execute(some(), Store(tmp_path / "file" / "never"), executor=place)
    assert not place.open

    place = Place()
    never_asked = execute(some(), Store(tmp_path / "results"), executor=place)
    assert place.open
    never_asked.close()
    assert not place.open

    place = Place()
    execute(some(), Store(tmp_path / "results"), executor=place)  # forgotten at once
    assert not place.open

    place = Place()
    begun = execute(some(), Store(tmp_path / "results"), executor=place)
    assert next(begun)[0] == 0
    begun.close()
    assert not place.open


def test_a_figure_that_fails_leaves_no_worker_behind(tmp_path, monkeypatch):
    (figure,) = load_figures(["fig3a"])
    wrong = [Task("gradstep.sweeps.task:missing", {}, seed) for seed in range(20)]
    monkeypatch.setattr(Figure, "tasks", lambda self, preset: wrong)
    with pytest.raises(TaskFailed) as held:  # and with it the traceback, as a notebook does
        run_figure(figure, "quick", cache=tmp_path, workers=2)
    assert not multiprocessing.active_children()
    assert "missing" in str(held.value)
