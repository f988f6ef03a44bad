"""Figures beyond the papers: tuned curves, phase diagrams, correlated inputs."""

import dataclasses

import numpy as np
import pytest

import gradstep as gs
from gradstep.drawing import draw
from gradstep.papers.beyond.experiments import gradient_spikes, mixture, phases, tuned
from gradstep.papers.figure import load_figures
from gradstep.simulation.data_rows import DataRows

#: One of them takes as long as many others.
DRAWN = ["phase_diagram", pytest.param("tuned_curves", marks=pytest.mark.statistical)]


@pytest.fixture(params=DRAWN)
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


@pytest.mark.parametrize("name", DRAWN)
def test_is_drawn_in_light_and_dark(name, quick, tmp_path):
    result = quick(name)
    for dark in (False, True):
        canvas = draw(result.outcome.panels, dark=dark)
        canvas.savefig(tmp_path / "figure.png")
        assert len(canvas.axes) >= 3
    if name == "phase_diagram":
        names = {text.get_text() for axes in canvas.axes for text in axes.texts}
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


# --- correlated inputs -----------------------------------------------------------------------------------------------

PARAMETERS = {
    "activation": "tanh",
    "teacher": "relu(x)",
    "d": 30,
    "ratio": 1.5,
    "strength": 0.74,
    "weighting": 0.5,
    "lam": 1e-2,
    "test_rows": 5.0,
}


def test_a_network_on_a_mixture_is_the_one_of_demir_and_dogan():
    """The formulas of their paper, in their scaling, on the same weights and rows."""
    d, k, seed = 30, 45, 3
    theta = d ** (0.74 * 0.5)
    problem = mixture.gaussian_problem(PARAMETERS).replace(inputs=None)
    table = DataRows(mixture.mixture_rows(d, 7 * d, theta, seed), np.ones(d), replacement=False)
    network = gs.Network(problem, seed, rows=table)
    scale = np.sqrt((d + theta) / d)
    layer, readout = network.before / scale, network.readout[:, None] / np.sqrt(k)
    direction = network.law.axes[0][:, None] / np.sqrt(1 + theta / 2)

    def drawn(sample):
        x = table.whitened[sample.place] * scale
        return x, np.maximum(x @ direction, 0)

    x, y = drawn(table.step_sample(seed, d))
    before = layer @ x.T
    residual = y.T - readout.T @ np.tanh(before) / np.sqrt(k)
    gradient = ((readout @ residual) / np.sqrt(k) / np.cosh(before) ** 2) @ x / d
    layer = layer + d ** (0.74 * 0.5) * gradient
    x, y = drawn(table.fit_sample(seed, d))
    features = np.tanh(layer @ x.T) / np.sqrt(k)
    fitted = np.linalg.solve(features @ features.T + 1e-2 * d * np.eye(k), features @ y)
    x, y = drawn(table.check_sample(seed, d, d))
    error = 0.5 * np.mean((y - (np.tanh(layer @ x.T) / np.sqrt(k)).T @ fitted) ** 2)
    assert mixture.measure(PARAMETERS, seed)["test_error"] == pytest.approx(error, rel=1e-9)


def test_rows_of_a_mixture_have_its_covariance_and_are_not_gaussian():
    d, theta, rows = 6, 8.0, 200_000
    x = mixture.mixture_rows(d, rows, theta, 1) * np.sqrt((d + theta) / d)
    eigenvalues = np.linalg.eigvalsh(x.T @ x / rows)
    # Along the two directions the fourth moments have errors of a per cent.
    np.testing.assert_allclose(eigenvalues, [1, 1, 1, 1, 1 + theta / 2, 1 + theta / 2], rtol=0.03)
    top = np.linalg.eigh(x.T @ x / rows)[1][:, -2:]
    length = ((x @ top) ** 2).sum(axis=1)
    # In a Gaussian plane the mean fourth power of the length is twice the square of the mean square.
    assert (length**2).mean() / length.mean() ** 2 > 2.3


def test_the_parts_of_a_gradient_are_those_of_its_formula():
    problem = gs.Problem.from_dict(next(iter(load_figures(["gradient_spikes"])[0].at("quick").places())).parameters)
    found = gradient_spikes.measure(problem.to_dict(), 2)
    network = gs.Network(problem, 2)
    root, a = np.sqrt(problem.width), network.readout
    shared = np.outer(a, network.gradient.rows[:, 1:].T @ a) / problem.width
    own = network.gradient.rows[:, 0] - a * (a @ network.gradient.rows[:, 0]) / problem.width
    assert found["residue"] == pytest.approx(np.linalg.norm(shared, 2) / root)
    assert found["spike"] == pytest.approx(np.linalg.norm(own) / root)
    assert found["first"] == pytest.approx(np.linalg.norm(network.gradient.rows, 2) / root)


@pytest.mark.parametrize("name", ["damping", "gaussian_mixture", "gradient_spikes"])
def test_figures_of_correlated_inputs_fail_on_other_networks(name, measured, quick):
    figure, results = measured(name)
    assert quick(name).verdict.passed
    changed = {"damping": "alignment", "gaussian_mixture": "test_error", "gradient_spikes": "third"}[name]
    wrong = [{**result, changed: 1.3 * result[changed] + 0.1} for result in results]
    assert not figure.assemble("quick", wrong).verdict.passed
