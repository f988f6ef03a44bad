"""Figures beyond the papers: tuned curves and phase diagrams."""

import dataclasses

import numpy as np
import pytest

from gradstep.drawing import draw
from gradstep.papers.beyond.experiments import phases, tuned
from gradstep.papers.figure import load_figures


@pytest.fixture(params=["phase_diagram", "tuned_curves"])
def finished(request, measured):
    return measured(request.param)


def test_vertex_and_its_jackknife():
    places = np.array([-0.7, 0.1, 0.9])
    assert tuned._vertex(places, 2 + 3 * (places - 0.4) ** 2) == pytest.approx(0.4)
    # With errors that share their curvature the vertex is linear in them: the jackknife gives back each seed's own.
    own = np.array([0.2, 0.35, 0.1, 0.5])
    errors = 1 + (places[:, None] - own) ** 2
    np.testing.assert_allclose(tuned._pseudo_values(places, errors), own, atol=1e-10)


def test_lowest_of_a_scan_is_that_of_its_parabola():
    u = np.linspace(-3, 3, 8)
    assert phases._lowest(1 + (u - 0.3) ** 2) == pytest.approx(1)
    assert phases._lowest(np.exp(u)) == np.exp(-3)


@pytest.mark.parametrize("name", ["phase_diagram", "tuned_curves"])
def test_is_drawn_in_light_and_dark(name, quick, tmp_path):
    result = quick(name)
    for dark in (False, True):
        canvas = draw(result.outcome.panels, dark=dark)
        canvas.savefig(tmp_path / "figure.png")
        assert len(canvas.axes) >= 3
    if name == "phase_diagram":
        names = {text.get_text() for axes in draw(result.outcome.panels).axes for text in axes.texts}
        assert names <= {"initial", "small step", "large step", "constant", "vocabulary", "Gaussian"}
        assert len(names) >= 3


def test_a_network_that_disagrees_fails(finished):
    figure, results = finished
    for k, result in enumerate(results):
        if "around" in result:  # the optimum and a neighbour change places
            swapped = {**result, "errors": [result["errors"][i] for i in (1, 0, 2)]}
            wrong = [*results[:k], swapped, *results[k + 1 :]]
            break
        if "test_error" in result:  # candidates change places
            rest = [r for r in results if "test_error" in r]
            wrong = [r for r in results if "test_error" not in r]
            wrong += [{**a, "test_error": [1.3 * v for v in a["test_error"]]} for a in rest]
            break
    assert not figure.assemble("quick", wrong).verdict.passed


def test_a_winner_that_is_behind_on_the_network_fails():
    (figure,) = load_figures(["phase_diagram"])
    preset = {**figure.presets["quick"], "points": [[], [[0.5, 1.0]], []], "columns": 1, "rows": 1}
    figure = dataclasses.replace(figure, presets={"quick": preset})
    results = [phases.measure(task.parameters, task.seed) for task in figure.tasks("quick")]
    assert figure.assemble("quick", results).outcome.checks[0].passed
    results[-1], results[-3] = results[-3], results[-1]
    assert not figure.assemble("quick", results).outcome.checks[0].passed
