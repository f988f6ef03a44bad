"""What goes wrong on real machines: kill -9, lost workers and schedulers, full disks, two drivers at once."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress

import psutil
import pytest
from typer.testing import CliRunner

from gradstep.cli import app
from gradstep.sweeps import Failure, Processes, Store, Task, execute, status

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")

SETTINGS = """
[problem]
activation = "erf"
teacher = "erf"
d = 96
width = 96
n_step = 192
ridge = 0.1
eta = { coefficient = 1.0, exponent = 0.5 }
[over]
n = "80:440:10"
[run]
seeds = 8
"""
TASKS = 10 * (8 + 1)


def program(*arguments):
    """Return the command line of the real program."""
    return [sys.executable, "-m", "gradstep", *map(str, arguments)]


def start(*arguments):
    """Start the real program, its standard error to be read."""
    return subprocess.Popen(
        program(*arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background are deaf to Ctrl-C, and so would be what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_here(*arguments):
    """Run the program in this process, to its end, and return what it prints: saves a start."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def line(message):
    """Return a message that is broken into lines as one line."""
    first, *others = message.splitlines()
    assert all(other.startswith("  ") for other in others)
    return " ".join([first, *(other.strip() for other in others)])


def results(folder):
    """Return the content of every result file, by name."""
    return {path.name: path.read_bytes() for path in folder.glob("??/*.json")}


def wait_for(condition, seconds=120):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Return a settings file."""
    path = tmp_path_factory.mktemp("settings") / "settings.toml"
    path.write_text(SETTINGS)
    return path


@pytest.fixture(scope="module")
def undisturbed(settings, tmp_path_factory):
    """Return the result files of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run_here("sweep", settings, "--out", folder, "--workers", 1)
    found = results(folder)
    assert len(found) == TASKS
    return found


def finish(settings, folder, undisturbed):
    """Run to the end and see that the results are those of the undisturbed run, to the last bit."""
    assert f"{TASKS}/{TASKS} tasks" in run_here("sweep", settings, "--out", folder, "--workers", 1)
    assert results(folder) == undisturbed


def killed_at_random(settings, folder, undisturbed, counts):
    """Kill the driver -9 after so many more results, again and again, then finish; workers must not outlive it."""
    seen = 0
    for count in counts:
        driver = start("sweep", settings, "--out", folder, "--workers", 2)
        held = len(results(folder))
        deadline = time.monotonic() + 60
        while len(results(folder)) < held + count and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        workers = workers_of(driver.pid)
        seen += len(workers)
        driver.kill()  # the driver alone: its workers hear nothing
        driver.communicate()
        wait_for(lambda workers=workers: not any(map(alive, workers)), 20)
    assert seen  # that none outlives its driver was not said of none
    for path in folder.glob("??/*.json"):
        assert undisturbed[path.name] == path.read_bytes()
    finish(settings, folder, undisturbed)


def workers_of(pid):
    """Return the worker processes that a process started."""
    found = []
    with suppress(psutil.NoSuchProcess):  # ended while it was looked at
        for child in psutil.Process(pid).children():
            # One that has just ended hides none of the others.
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child)
    return found


def alive(process):
    """Return whether a process runs (a zombie does not)."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_driver_killed_at_random_moments_loses_nothing(settings, undisturbed, tmp_path):
    chance = random.Random(5)
    killed_at_random(settings, tmp_path, undisturbed, [chance.randint(1, 20)])


@pytest.mark.statistical
def test_a_driver_killed_at_twenty_random_moments_loses_nothing(settings, undisturbed, tmp_path):
    chance = random.Random(6)
    killed_at_random(settings, tmp_path, undisturbed, [chance.randint(1, 3) for _ in range(20)])


def ended_by(number, settings, folder, *options):
    """Return a driver that was ended by a signal to it and its workers, and its standard error."""
    driver = start("sweep", settings, "--out", folder, "--workers", 2, *options)
    wait_for(lambda: len(results(folder)) >= 5)
    workers = workers_of(driver.pid)
    os.killpg(driver.pid, number)
    _, said = driver.communicate(timeout=60)  # which is no measure of speed: it tells ending from hanging
    assert "Traceback" not in said
    assert "leaked" not in said
    assert not list(folder.rglob("*.tmp"))
    wait_for(lambda: not any(map(alive, workers)), 20)
    return driver, said


@pytest.mark.parametrize(("number", "code", "options"), [(signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["--json"])])
def test_a_signal_ends_at_once_and_says_how_to_go_on(settings, undisturbed, tmp_path, number, code, options):
    driver, said = ended_by(number, settings, tmp_path, *options)
    assert driver.returncode == code
    if options:
        error = json.loads(said.splitlines()[-1])["error"]
        assert error["exit_code"] == code
        message = error["message"]
    else:
        message = line(said[said.index("interrupted; ") :])  # after progress
    assert message.startswith("interrupted; ")
    assert "go on with: gradstep sweep" in message
    finish(settings, tmp_path, undisturbed)


def test_a_lost_worker_is_replaced_and_nothing_is_lost(settings, undisturbed, tmp_path):
    driver = start("sweep", settings, "--out", tmp_path, "--workers", 2)
    wait_for(lambda: len(results(tmp_path)) >= 5)
    victims = workers_of(driver.pid)
    assert len(victims) == 2
    victims[0].kill()
    driver.communicate(timeout=120)
    assert driver.returncode == 0
    assert results(tmp_path) == undisturbed


def test_a_task_that_kills_its_worker_again_and_again_is_given_up(tmp_path):
    poison = Task("gradstep.children:_end_with_parent", {}, 0)  # called with arguments it does not take
    results_found = dict(execute([poison], Store(tmp_path), executor=Processes(1)))
    assert isinstance(results_found[0], Failure)
    assert not list(Store(tmp_path).names())
    pool = Processes(1)
    pool._started = True  # has been of use before
    pool.submit(0, Task("gradstep.sweeps.task:digest", {"x": 1}, 0))
    for _ in range(4):
        wait_for(lambda: workers_of(os.getpid()), 30)
        for worker in workers_of(os.getpid()):
            worker.suspend()  # so that it cannot finish first
            worker.kill()
        given_up = pool._begin_again()
    assert [index for index, _ in given_up] == [0]
    assert "again and again" in given_up[0][1].message
    pool.close()


def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import gradstep as gs\n"
        "p = gs.Problem(activation='erf', teacher='erf', d=8, width=8, n_step=9, n=9, eta=1.0, ridge=1.0)\n"
        "gs.sweep(p, {'n': [9]}, seeds=0, workers=2)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "worker processes end before they begin" in done.stderr


@pytest.mark.statistical
def test_two_shards_side_by_side_share_the_work(settings, undisturbed, tmp_path):
    shards = [start("sweep", settings, "--out", tmp_path, "--workers", 1, "--shard", f"{i}/2") for i in range(2)]
    assert [shard.wait(timeout=120) for shard in shards] == [0, 0]
    assert f"{TASKS // 2}/{TASKS // 2}" in shards[0].stderr.read()
    shards[1].stderr.close()
    shards[0].stderr.close()
    assert results(tmp_path) == undisturbed


def test_two_drivers_by_mistake_leave_one_intact_dataset(settings, undisturbed, tmp_path):
    drivers = [start("sweep", settings, "--out", tmp_path, "--workers", 1) for _ in range(2)]
    for driver in drivers:
        driver.communicate(timeout=120)
        assert driver.returncode == 0
    assert results(tmp_path) == undisturbed
    assert status(tmp_path)["added"] == 0


@contextmanager
def mounted(folder, options):
    """Mount a small file system of its own."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system takes privileges")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_the_rest_is_intact(settings, undisturbed, tmp_path):
    with mounted(tmp_path / "small", "size=256k") as folder:
        driver = start("sweep", settings, "--out", folder, "--workers", 1)
        _, said = driver.communicate(timeout=120)
        assert driver.returncode == 3
        assert "No space left" in " ".join(said.split())
        assert "Traceback" not in said
        kept = results(folder)
        assert 0 < len(kept) < TASKS
        assert all(undisturbed[name] == content for name, content in kept.items())
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        finish(settings, folder, undisturbed)


@pytest.fixture(scope="module")
def predicted(settings, tmp_path_factory):
    """Return the folder of a sweep without networks."""
    folder = tmp_path_factory.mktemp("predicted")
    run_here("sweep", settings, "--out", folder, "--seeds", 0, "--workers", 1)
    return folder


@pytest.mark.parametrize(("ending", "size"), [(".nc", "12k"), (".csv", "4k"), (".parquet", "4k")])
def test_a_full_disk_leaves_an_older_dataset_alone(predicted, tmp_path, ending, size):
    with mounted(tmp_path / "small", f"size={size}") as folder:
        path = folder / f"results{ending}"
        path.write_text("older")
        refused = CliRunner().invoke(app, ["collect", str(predicted), "--out", str(path)])
        assert refused.exit_code == 2
        assert line(refused.stderr).startswith("error: out: got ")
        assert "No space left" in line(refused.stderr)
        assert [entry.name for entry in folder.iterdir()] == [path.name]
        assert path.read_text() == "older"


def test_a_read_only_folder_is_named_before_any_work(settings, tmp_path):
    with mounted(tmp_path / "fixed", "ro") as folder:
        refused = CliRunner().invoke(app, ["sweep", str(settings), "--out", str(folder)])
        assert refused.exit_code == 2
        assert line(refused.stderr).startswith("error: out: got ")
        assert "Read-only" in line(refused.stderr)


@pytest.fixture
def dask(tmp_path):
    """Start a real scheduler and two workers, each a process of its own; yield address and processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    scheduler = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], **quiet)
    wait_for(lambda: reachable(port), 60)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    workers = [subprocess.Popen([*command, *options], **quiet) for _ in range(2)]
    yield address, scheduler, workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def reachable(port):
    """Return whether something listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_cluster_that_loses_a_worker_and_then_its_scheduler(settings, undisturbed, dask, tmp_path):
    address, scheduler, workers = dask
    folder = tmp_path / "results"
    driver = start("sweep", settings, "--out", folder, "--cluster", address)
    wait_for(lambda: len(results(folder)) >= 5)
    workers[0].kill()
    held = len(results(folder))
    wait_for(lambda: len(results(folder)) >= min(held + 10, TASKS))
    scheduler.kill()
    _, said = driver.communicate(timeout=60)
    if driver.returncode:  # unless it was finished first
        assert driver.returncode == 3
        assert "run the same command again" in " ".join(said.split())
        assert "Traceback" not in said
    assert all(undisturbed[name] == content for name, content in results(folder).items())
    finish(settings, folder, undisturbed)


def test_ctrl_c_while_a_worker_starts_is_neither_lost_nor_heard_by_the_worker(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    pool = Processes(1)
    spawn = ProcessPoolExecutor._spawn_process

    def spawn_and_interrupt(self):
        spawn(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ProcessPoolExecutor, "_spawn_process", spawn_and_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.submit(0, Task("gradstep.sweeps.task:digest", {"x": 1}, 0))
        (worker,) = workers_of(os.getpid())
        worker.send_signal(signal.SIGINT)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == blocked_before
        time.sleep(0.5)
        assert worker.is_running()
        assert worker.status() != psutil.STATUS_ZOMBIE
    finally:
        signal.signal(signal.SIGINT, before)
        pool.close()
