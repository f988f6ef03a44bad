"""Every `plot()` returns a picture that pyplot knows where it is in use, and that a notebook shows once."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.picture import Picture, offer

SOURCE = Path(__file__).parents[1] / "src" / "gradstep"
PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=20, width=30, n_step=80, n=60, eta="2*N^0.5", ridge=0.5, readout="constant"
)
RESULTS = (
    "Comparison",
    "Curve",
    "Diagnosis",
    "Learned",
    "LearnedLink",
    "LearningCurve",
    "Prediction",
    "ScoreCurve",
    "SpectrumOverlay",
)


@pytest.fixture(scope="module")
def results():
    random = np.random.default_rng(3)
    X = random.standard_normal((120, 4))
    y = np.sin(X[:, 0]) + 0.1 * random.standard_normal(120)
    model = gs.OneStepRegressor(32, random_state=0).fit(X, y)
    found = [
        gs.predict(PROBLEM),
        gs.compare(PROBLEM, 2),
        gs.curve(PROBLEM, over={"n": [40, 60, 80]}),
        gs.spectrum(PROBLEM),
        gs.learning_curve(X, y, n=[20, 40], ridge=[0.1, 1.0]),
        model.learned_,
        model.link(X, y),
        model.diagnose(X, y),
        model.learning_curve(X, y),
    ]
    return {type(each).__name__: each for each in found}


def test_every_result_that_draws_itself_is_tried_here(results):
    classes = {
        node.name
        for path in SOURCE.rglob("*.py")
        if "def plot(" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any(getattr(part, "name", "") == "plot" for part in node.body)
    }
    assert classes == set(results) == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_a_plot_is_the_current_figure_of_pyplot(results, name, tmp_path):
    older = plt.figure()
    drawn = results[name].plot()
    assert plt.gcf() is drawn
    assert plt.get_fignums() == [older.number, older.number + 1]
    plt.savefig(tmp_path / "current.png")
    saved = plt.imread(tmp_path / "current.png")
    assert saved.shape[:2] == drawn.canvas.get_width_height()[::-1]
    assert np.ptp(saved[..., :3]) > 0.5
    plt.close(drawn)
    assert plt.gcf() is older


@pytest.mark.parametrize("name", RESULTS)
def test_a_plot_in_axes_that_are_given_is_the_usual_one(results, name):
    usual = results[name].plot()
    panels = [axes for axes in usual.axes if axes.get_xlabel() or axes.get_ylabel()]
    figure, given = plt.subplots(1, len(panels))
    opened = plt.get_fignums()
    axes = given if len(panels) > 1 else [given]
    assert results[name].plot(ax=given) is figure
    assert plt.get_fignums() == opened
    for drawn, expected in zip(axes, panels, strict=True):
        assert len(drawn.get_children()) == len(expected.get_children())
        assert (drawn.get_xlabel(), drawn.get_ylabel()) == (expected.get_xlabel(), expected.get_ylabel())
        for line, other in zip(drawn.lines, expected.lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())
    for wrong in ([*axes, axes[0]], "axes", figure, [None] * len(panels)):
        with pytest.raises(InvalidInput, match=f"^ax: got .*; allowed: {len(panels)} of Matplotlib's axes"):
            results[name].plot(ax=wrong)


def test_a_part_of_a_figure_has_axes_too(results):
    figure = plt.figure()
    _, right = figure.subfigures(1, 2)
    axes = right.subplots()
    assert results["Prediction"].plot(ax=axes, dark=True) is figure
    assert axes.lines
    # Axes of an earlier plot are as good, and do not open its figure again.
    drawn = results["Prediction"].plot()
    opened, before = plt.get_fignums(), len(drawn.axes[0].lines)
    assert results["Prediction"].plot(ax=drawn.axes[0]) is drawn
    assert plt.get_fignums() == opened
    assert len(drawn.axes[0].lines) == 2 * before


def test_curves_are_drawn_in_as_many_axes_as_there_are_quantities(results):
    _, axes = plt.subplots(2, 1)
    results["Curve"].plot(["test_error", "alignment"], ax=axes)
    assert [each.get_ylabel() for each in axes] == ["test error", "alignment"]


def test_a_script_without_pyplot_opens_nothing():
    script = f"""
import sys
import gradstep as gs
from io import BytesIO
from gradstep import Problem, Step
drawn = gs.predict({PROBLEM!r}).plot()
drawn.savefig(BytesIO())
from matplotlib._pylab_helpers import Gcf
assert "matplotlib.pyplot" not in sys.modules and not Gcf.figs
assert drawn._repr_png_().startswith(b"\\x89PNG")
"""
    subprocess.run([sys.executable, "-c", script], check=True)


class Notebook:
    """A kernel whose cells show their value, and then what is open in pyplot, as IPython and its inline backend do."""

    def __init__(self):
        self.shown = []

    def display(self, value):
        """Show a value as IPython does: by `_ipython_display_` unless that is not implemented, then as a PNG."""
        try:
            value._ipython_display_()
        except NotImplementedError:
            assert value._repr_png_().startswith(b"\x89PNG")
            self.shown.append(value)

    def run(self, *displayed, flush=True):
        """End a cell that has displayed some values; return what it showed."""
        for value in displayed:
            self.display(value)
        if flush:
            for number in plt.get_fignums():
                self.display(plt.figure(number))
            plt.close("all")
        shown, self.shown = self.shown, []
        return shown


def test_a_notebook_shows_a_picture_once_a_cell(monkeypatch):
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    monkeypatch.setattr(plt, "isinteractive", lambda: True)
    cell = Notebook()
    one = offer(Picture(figsize=(1, 1)))
    assert cell.run() == [one]
    # Closed by now, and shown where it is asked for again.
    assert cell.run(one) == [one]
    two, three = offer(Picture(figsize=(1, 1))), offer(Picture(figsize=(1, 1)))
    assert plt.gcf() is three
    assert cell.run(three) == [three, two]
    # Another picture has the number of the first.
    four = offer(Picture(figsize=(1, 1)))
    assert four.number == one.number
    assert cell.run(one) == [one, four]
    assert cell.run(four) == [four]


@pytest.mark.parametrize(("backend", "interactive"), [("agg", True), ("inline", False)])
def test_a_notebook_that_leaves_pyplot_alone_shows_a_picture_each_time(monkeypatch, backend, interactive):
    monkeypatch.setattr(plt, "get_backend", lambda: backend)
    monkeypatch.setattr(plt, "isinteractive", lambda: interactive)
    cell, picture = Notebook(), offer(Picture(figsize=(1, 1)))
    assert cell.run(flush=False) == []
    assert [cell.run(picture, flush=False) for _ in range(3)] == [[picture]] * 3
    assert plt.gcf() is picture


def test_a_kernel_shows_pictures_of_cells_that_never_asked_for_pyplot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    picture = offer(Picture(figsize=(1, 1)))
    used = sys.modules["matplotlib.pyplot"]
    assert used.gcf() is picture
    assert isinstance(picture, Figure)
    used.close("all")
