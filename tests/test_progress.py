"""Progress of long work in a notebook: one bar at a time, which moves with the work and leaves nothing."""

import builtins
import sys
from types import SimpleNamespace

import pytest

import gradstep as gs
from gradstep.progress import progress


class ZMQInteractiveShell:
    """The shell of a kernel, by whose name Rich knows a notebook."""


@pytest.fixture
def kernel(monkeypatch):
    """Return what a notebook shows, in order: pairs of the place and what stands there."""
    shown, places = [], []

    def display(what, display_id):
        assert display_id
        places.append(len(places))
        place = places[-1]

        def update(new, raw=False):
            shown.append((place, new if raw else new.tasks[0].completed))

        update(what)
        return SimpleNamespace(update=update)

    clock = iter(range(10**6))
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("gradstep.progress.monotonic", lambda: next(clock))
    return shown


EMPTY = {"text/plain": ""}


def test_a_bar_moves_with_the_work_and_leaves_nothing(kernel):
    with progress("problems") as report:
        report(0.25, 4, "")
        report(1.5, 4, "")
    assert kernel == [(0, 0.25), (0, 1.5), (0, EMPTY)]


def test_nothing_is_left_by_work_that_fails(kernel):
    def fail():
        with progress("problems") as report:
            report(1, 4, "")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert kernel == [(0, 1), (0, EMPTY)]


def test_short_work_shows_no_bar(kernel, monkeypatch):
    monkeypatch.setattr("gradstep.progress.monotonic", lambda: 0.0)
    with progress("problems") as report:
        report(4, 4, "")
    assert kernel == []


def test_a_curve_shows_one_bar_after_the_other(kernel):
    problem = gs.Problem(activation="tanh", teacher="sin", d=10, width=12, n_step=40, n=30, eta=1, ridge=1)
    gs.curve(problem, over={"n": [20, 30]}, seeds=2)
    places = [place for place, _ in kernel]
    assert places == sorted(places)
    assert [what for _, what in kernel].count(EMPTY) == len(set(places)) == 2
