"""Products of coordinates and the length of an input: explicit covariances, drawn inputs, and the real network."""

from dataclasses import replace

import numpy as np
import pytest
from resolved_plane import solution_of

import gradstep as gs
from gradstep.theory.equivalent.tables import stepped_networks
from gradstep.theory.neurons.bulk import isotropic
from gradstep.theory.neurons.products import OffResolved, products_of
from gradstep.theory.together import result_of


def bulk_of(variance, spike):
    """Return the bulk of rows with a covariance that is diagonal, one class for each direction."""
    d = len(variance)
    one = variance[None]
    return replace(isotropic(1), share=np.full(d, 1 / d), profile=one, spike=spike, special_profile=one)


def covariance(d=60):
    """Return variances along the axes, of mean one, and a vector."""
    generator = np.random.default_rng(3)
    variance = generator.lognormal(0, 1, d)
    variance /= variance.mean()
    return variance, generator.normal(size=d)


def test_cells_have_the_moments_of_the_covariance_off_the_spike():
    # The largest variance belongs to one direction, as those of the cells do at most.
    variance, spike = covariance()
    spike[variance.argmax()] = 0
    spike /= np.linalg.norm(spike)
    d = len(variance)
    projector = np.eye(d) - np.outer(spike, spike)
    off = projector @ np.diag(variance) @ projector
    found = OffResolved.of(np.ones(1), bulk_of(variance, spike), spike[None], d)
    scale = (d - 1) / np.trace(off)
    assert found.number @ found.variance[0] == pytest.approx(d - 1)
    assert found.number @ found.variance[0] ** 2 == pytest.approx(scale**2 * np.trace(off @ off), rel=1e-9)


def test_a_direction_that_is_the_spike_is_taken_out_whole():
    variance, _ = covariance()
    variance[7] = 12.0
    found = OffResolved.of(np.ones(1), bulk_of(variance, np.eye(60)[7]), np.eye(60)[[7]], 60)
    others = np.delete(variance, 7)
    expected = 59**2 * (others**2).sum() / others.sum() ** 2
    assert found.number @ found.variance[0] ** 2 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("degree", [2, 3])
def test_products_have_the_moments_of_all_products(degree):
    # Of d coordinates: a sum over all ordered choices, of which the factorial of the degree are the same product.
    variance, _ = covariance()
    found = OffResolved.of(np.ones(1), bulk_of(variance, np.zeros(60)), np.empty((0, 60)), 60)
    classes = products_of(found, degree)
    assert classes.share @ classes.profile[0] == pytest.approx(1)
    first, second = (found.number @ found.variance[0] ** k for k in (1, 2))
    factorial = {2: 2, 3: 6}[degree]
    expected = factorial * (second / first**2) ** degree * 59
    assert classes.share @ classes.profile[0] ** 2 == pytest.approx(expected, rel=1e-9)


def test_isotropic_rows_have_one_class():
    off = OffResolved.of(np.ones(1), isotropic(1), np.empty((0, 1)), 101)
    pairs, triples = products_of(off, 2), products_of(off, 3)
    assert pairs.share == pytest.approx([50.0])
    assert pairs.profile[0] == pytest.approx([2 / 100])
    assert triples.share * 100 == pytest.approx([100**3 / 6])
    assert off.lengths == pytest.approx([np.sqrt(2 / 100)], rel=1e-3)


def test_coordinates_of_long_inputs_are_those_of_drawn_ones():
    # Docs, "Uniform equivalent", (E8c): regressions on the length of Gaussian inputs.
    variance, _ = covariance()
    off = OffResolved.of(np.ones(1), bulk_of(variance, np.zeros(60)), np.empty((0, 60)), 60)
    x = np.random.default_rng(4).standard_normal((400_000, 60))
    length = x**2 @ variance
    length = (length - length.mean()) / length.std()
    change = (off.stretch(variance)[:, 1] - off.stretch(variance)[:, 0]) / 2
    drawn = (x**2 * length[:, None]).mean(axis=0)
    error = np.sqrt(2 + 10 * drawn**2) / np.sqrt(len(x))
    small = change < 0.6  # larger ones are bounded
    assert np.abs((drawn - change) / error)[small].max() < 4.5
    seen = (x**2 @ variance).std() / variance.sum()
    assert off.lengths[0] == pytest.approx(seen, rel=0.02)


def test_a_linear_feature_has_no_products():
    ((_, network),) = result_of(stepped_networks(gs.Problem(activation="linear", **SIZES, eta=0.0)))
    assert network.tables.products == ()
    ((_, network),) = result_of(stepped_networks(gs.Problem(activation="x+.3*hermite2", **SIZES, eta=0.0)))
    assert len(network.tables.products) == 1


SIZES = {
    "teacher": "x", "readout": {-1: 0.5, 1: 0.5}, "noise": 0.2,
    "d": 150, "width": 200, "n": 350, "n_step": 30, "ridge": 2.5,
}  # fmt: skip


def off_networks(problem, seeds):
    """Return the z-score and the relative deviation of a test error, and the deviation without products."""
    networks = gs.simulate(problem, seeds=seeds)
    mean, error = float(networks.mean("test_error")), float(networks.standard_error("test_error"))
    described = result_of(stepped_networks(problem, plane=True, products=False))
    without = sum(share * float(solution_of(network, problem).test_error[0]) for share, network in described)
    predicted = gs.predict(problem).test_error
    return (predicted - mean) / error, predicted / mean - 1, without / mean - 1


def test_few_samples_of_a_strong_step():
    problem = gs.Problem(activation="relu", eta=gs.Step(1.5, 0.5), **SIZES)
    z, off, without = off_networks(problem, 64)
    assert abs(z) < 3 or abs(off) < 0.04
    assert without > 0.07


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"activation": "relu"}, 0.02),
        ({"activation": "relu", "readout": "constant"}, 0.02),
        ({"activation": "relu", "readout": "gaussian"}, 0.02),
        ({"activation": "x+.3*(x**2-1)"}, 0.02),
        ({"activation": "relu", "inputs": gs.Inputs([9, 1], [0.1, 0.9]), "n_step": 90}, 0.02),
        ({"activation": "relu", "teacher": "sign(x)", "noise": 0.0}, 0.02),
        # The degree above three counts here.
        ({"activation": "tanh"}, 0.035),
    ],
)
def test_errors_of_networks_in_few_directions(changes, part):
    sizes = {"d": 300, "width": 400, "n": 700, "n_step": 30, "ridge": 5.0}
    problem = gs.Problem(**{**SIZES, **sizes, "eta": gs.Step(1.5, 0.5), **changes})
    z, off, without = off_networks(problem, 64)
    assert abs(off) < part + 3 * abs(off / z)
    assert abs(without) > abs(off)


@pytest.mark.statistical
@pytest.mark.parametrize("inputs", [None, gs.Inputs([3, 0.5], [0.2, 0.8], [0.6, 0.4])])
def test_products_and_lengths_balance_at_the_peak_of_an_even_feature(inputs):
    # With products alone the error would be 3 % too small, with lengths alone as much too large.
    problem = gs.Problem(
        activation="H2", teacher="x", d=200, width=358, n=358, n_step=108, eta=0.0, ridge=2.2, noise=0.1, inputs=inputs
    )
    z, off, _ = off_networks(problem, 400)
    assert abs(z) < 3
    assert abs(off) < 0.03
