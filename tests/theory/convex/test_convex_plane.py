"""Convex losses where both directions are resolved: the limit of one direction, `predict`, identities, networks."""

import math

import numpy as np
import pytest
from resolved_plane import EVEN
from scipy.stats import norm

import gradstep as gs
from gradstep.convex import loss as loss_of
from gradstep.gaussian import scalar_function
from gradstep.labels import labels_of
from gradstep.simulation.convex_measurement import convex_measurement
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.convex.proximal import LabelsAtNodes, OutputLaw, loss_averages, mean_losses
from gradstep.theory.equivalent import features as features_module
from gradstep.theory.equivalent import tables as tables_module
from gradstep.theory.equivalent.along_rest import (
    Overlaps,
    breakpoints,
    on_a_lattice,
    on_either_side,
    on_the_whole_line,
    teacher_along_rest,
)

QUANTITIES = ("test_error", "test_loss", "classification_error", "train_error", "train_loss")


def results(prediction):
    values = np.array([getattr(prediction, quantity) for quantity in QUANTITIES])
    return values[np.isfinite(values)]


@pytest.mark.parametrize(
    ("changes", "loss", "channel", "penalty"),
    [
        ({}, "huber(0.5)", "real", "ridge"),
        pytest.param(
            {"teacher": "abs(x)-.3*x", "noise": 0.05}, "absolute", "real", "ridge", marks=pytest.mark.statistical
        ),
        pytest.param({"noise": 0.05}, "hinge", "sign", "ridge", marks=pytest.mark.statistical),
        pytest.param({"teacher": "x-.5*x**2"}, "huber(0.5)", "real", "l1", marks=pytest.mark.statistical),
        pytest.param(
            {"teacher": "sign(x-.4)+.2*x", "activation": "max(x,0)"},
            "pseudo_huber(0.5)",
            "real",
            "ridge",
            marks=pytest.mark.statistical,
        ),
        pytest.param({"noise": 0.0}, "squared_hinge", "sign", "ridge", marks=pytest.mark.statistical),
        pytest.param(
            {"noise": 0.0, "teacher": "2*x-x**2"}, "logistic", "logistic", "ridge", marks=pytest.mark.statistical
        ),
    ],
)
def test_one_direction_and_two_have_the_same_limit(changes, loss, channel, penalty, monkeypatch):
    """One averages over the teacher's rest with the label given it, the other resolves it: no equation is shared."""
    big = {"d": 10**7, "width": 15 * 10**6, "n_step": 3 * 10**7, "n": 25 * 10**6, "ridge": 1e5}
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(tables_module, "share_along_teacher", lambda *_, share=share: share)
        problem = EVEN.replace(**big | changes)
        found.append(results(convex_prediction(problem, loss=loss, channel=channel, penalty=penalty)))
    assert found[1] == pytest.approx(found[0], rel=1.5e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "max(x,0)", "teacher": "abs(x)-x/2"},
        {"activation": "max(x,0)", "teacher": "tanh(x)**2-x/2"},
        {"activation": "max(x,0)", "readout": {0.5: 0.5, 2.0: 0.5}, "n_step": 30000},
        {"activation": "abs(x)", "teacher": "x-.5*x**2", "readout": {-1: 0.3, 2: 0.7}},
    ],
    ids=["even", "kinks", "smooth", "readout values", "signs"],
)
def test_the_square_loss_is_that_of_predict(changes):
    """There the teacher's rest has other nodes, which resolve the square loss only."""
    problem = EVEN.replace(**changes)
    expected, result = gs.predict(problem), convex_prediction(problem)
    for quantity in ("test_error", "train_error", "train_loss"):
        # On either side of a kink there are other nodes.
        accuracy = 2e-4 if problem.teacher.kinks else 1e-4
        assert getattr(result, quantity) == pytest.approx(getattr(expected, quantity), rel=accuracy)
    assert result.kappa == pytest.approx(expected.curve.kappa)
    near = np.abs(result.kappa) < 3
    assert result.learned[near] == pytest.approx(expected.curve.learned[near], abs=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("loss", "channel", "noise", "accuracy"),
    [
        ("absolute", "real", 0.3, 1e-4),
        pytest.param("hinge", "sign", 0.0, 1e-4, marks=pytest.mark.statistical),
        pytest.param("logistic", "sign", 0.3, 1e-3, marks=pytest.mark.statistical),
        pytest.param("squared_hinge", "sign", 0.05, 2e-3, marks=pytest.mark.statistical),
    ],
)
def test_nodes_along_the_rest_are_enough(loss, channel, noise, accuracy, monkeypatch):
    """Also where the chance of a class is steep, but has no kink."""
    problem = EVEN.replace(noise=noise)
    coarse = convex_prediction(problem, loss=loss, channel=channel)
    monkeypatch.setattr(features_module, "_LATTICE_STEP", features_module._LATTICE_STEP / 1.6)
    monkeypatch.setattr(features_module, "_ON_A_SIDE", features_module._ON_A_SIDE * 1.6)
    fine = convex_prediction(problem, loss=loss, channel=channel)
    assert results(coarse) == pytest.approx(results(fine), rel=accuracy)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("loss", "channel"),
    [("huber(0.5)", "real"), pytest.param("squared_hinge", "sign", marks=pytest.mark.statistical)],
)
def test_the_minimum_grows_with_the_penalty_by_the_penalty(loss, channel):
    """Envelope theorem: the derivative of the minimum of the objective in the ridge is the penalty itself."""
    problem, step = EVEN.replace(n_step=3000, noise=0.0), 4e-3
    low, here, high = (
        convex_prediction(problem.replace(ridge=1 + change), loss=loss, channel=channel) for change in (-step, 0, step)
    )
    slope = (high.train_loss - low.train_loss) / (2 * step)
    assert slope == pytest.approx(here.train_loss - here.train_error, rel=1e-5)


def test_nodes_on_either_side_of_a_kink_are_gaussian_rules():
    """Moments of the two parts of a normal law, by partial integration."""
    jump, alignment, kappa = scalar_function("sign(x-0.7)"), 0.6, np.array([-1.3, 0.2, 3.0])
    found = on_either_side(jump, Overlaps.of(alignment, 1.0), kappa, breakpoints(jump, alignment), 5)
    assert abs(found.mean[found.share > 0]) == pytest.approx(1)
    assert found.hidden == pytest.approx(0, abs=1e-12)
    end = (0.7 - alignment * kappa) / math.sqrt(1 - alignment**2)
    above = np.where(found.mean > 0.5, found.share, 0.0)
    moments = [norm.sf(end), norm.pdf(end)]
    for power in range(2, 6):
        moments.append(end ** (power - 1) * norm.pdf(end) + (power - 1) * moments[power - 2])
    for power, moment in enumerate(moments):
        assert (above * found.t**power).sum(axis=1) == pytest.approx(moment, rel=1e-8)


def test_a_steep_chance_turns_where_its_sign_does():
    steep = scalar_function("tanh(8*(x**2-1))")
    ends = breakpoints(steep, 0.5)
    assert (ends[::2] + ends[1::2]) / 2 == pytest.approx([-1, 1])
    assert breakpoints(scalar_function("tanh(x/2)"), 0.5).size == 0
    found = on_either_side(steep, Overlaps.of(0.5, 1.0), np.zeros(1), ends, 6)
    place, density = np.linspace(-8, 8, 40001), norm.pdf(np.linspace(-8, 8, 40001)) * 16 / 40000
    exact = steep(math.sqrt(0.75) * place) * density
    for power in range(4):
        assert (found.share * found.mean * found.t**power).sum() == pytest.approx(exact @ place**power, abs=1e-8)


def test_a_lattice_has_the_moments_of_the_teacher():
    teacher, kappa = scalar_function("sin(x)"), np.array([-0.4, 1.0])
    found = on_a_lattice(teacher, Overlaps.of(0.6, 1.0), kappa, 0.9)
    share = found.share
    assert (share * found.t**4).sum(axis=1) == pytest.approx(3, rel=1e-3)
    assert (share * found.mean).sum(axis=1) == pytest.approx(np.sin(0.6 * kappa) * math.exp(-0.32), rel=1e-4)


def test_the_rest_is_averaged_out_at_the_nodes():
    """A sine stays a sine under an average over a Gaussian, with all three rules of nodes."""
    teacher, kappa, alignment, second = scalar_function("sin(x)"), np.array([-0.4, 1.0]), 0.6, 0.8
    overlaps = Overlaps.of(alignment, second)
    assert np.square(overlaps).sum() == pytest.approx(1)
    known, square = teacher_along_rest(teacher, alignment, kappa, 21), (1 - np.exp(-1.28) * np.cos(1.2 * kappa)) / 2
    for found in (
        on_a_lattice(teacher, overlaps, kappa, 0.5),
        on_either_side(teacher, overlaps, kappa, np.array([0.3]), 9),
        on_the_whole_line(known, square, second),
    ):
        place, width, near = alignment * kappa[:, None] + overlaps.second * found.t, overlaps.rest, abs(found.t) < 3
        shrunk = math.exp(-(width**2) / 2)
        assert found.mean[near] == pytest.approx(shrunk * np.sin(place)[near], abs=1e-6)
        assert found.slope[near] == pytest.approx(width * shrunk * np.cos(place)[near], abs=1e-6)
        whole = (found.share * (found.mean**2 + found.slope**2 + found.hidden)).sum(axis=1)
        assert whole == pytest.approx(square, rel=1e-4)


@pytest.mark.parametrize(("name", "channel"), [("huber(0.5)", "real"), ("logistic", "sign"), ("squared_hinge", "sign")])
def test_averages_at_nodes_against_monte_carlo(name, channel):
    labels, chosen = labels_of(EVEN, channel), loss_of(name)
    mean, hidden = np.array([-0.8, 0.1, 0.95]), np.array([0.2, 0.0, 0.05])
    nothing = np.zeros(3)
    law = OutputLaw(
        nothing, np.array([0.3, -0.5, 1.2]), nothing, np.array([0.4, 0.1, 0.9]), np.array([0.3, 1.0, 3.0]), 0.5,
        LabelsAtNodes(mean, hidden),
    )  # fmt: skip
    a, b, c = np.random.default_rng(8).normal(size=(3, 200_000, 3))
    y = np.where(2 * norm.cdf(a) < 1 + mean, 1.0, -1.0) if labels.binary else mean + np.sqrt(hidden) * b + 0.3 * a
    output = law.mean + np.sqrt(law.variance) * c
    fitted = chosen.proximal_output(y, output, law.leverage)
    pull = (fitted - output) / law.leverage
    averages, losses = loss_averages(labels, chosen, law), mean_losses(labels, chosen, law)
    assert averages.slope == pytest.approx(0)
    for values, expected in (
        (pull, averages.pull),
        (pull**2, averages.power),
        (chosen.value(y, output), losses.test),
        (chosen.value(y, fitted), losses.train),
    ):
        assert np.abs((values.mean(axis=0) - expected) / (values.std(axis=0) / math.sqrt(len(values)))).max() < 4


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changes", "loss", "channel"),
    [
        ({"activation": "max(x,0)", "readout": {0.5: 0.5, 2.0: 0.5}}, "huber(1)", "real"),
        ({"activation": "max(x,0)", "readout": {0.5: 0.5, 2.0: 0.5}, "ridge": 3.0}, "logistic", "sign"),
        ({"noise": 0.0, "ridge": 3.0, "n_step": 3000, "eta": gs.Step(1.5, 0.5)}, "hinge", "sign"),
        ({"eta": gs.Step(1.5, 0.5)}, "absolute", "real"),
    ],
)
def test_the_plane_is_nearer_to_networks_than_the_spike_alone(changes, loss, channel, monkeypatch):
    """The spike alone is off by 5 to 50 per cent; the plane by what the square loss is off by too, at most 4."""
    problem = EVEN.replace(**{"n_step": 30000, "eta": gs.Step(1.0, 0.5)} | changes)
    measured = convex_measurement(problem, 48, loss=loss, channel=channel, test_samples=10_000)
    two = convex_prediction(problem, loss=loss, channel=channel)
    monkeypatch.setattr(tables_module, "share_along_teacher", lambda *_: 0.0)
    one = convex_prediction(problem, loss=loss, channel=channel)
    for quantity in ("test_loss", "train_error"):
        mean, error = float(measured.mean(quantity)), float(measured.standard_error(quantity))
        assert abs(getattr(two, quantity) - mean) < 2.5 * error + 0.01 * mean
        assert abs(getattr(one, quantity) - mean) > 4 * error
