"""The lengths of an input that rows see: drawn matrices of real samples, closed cases, symmetries."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.problem import link_of
from gradstep.theory.equivalent.tables import stepped_networks
from gradstep.theory.neurons.lengths import lengths_off, seen_lengths
from gradstep.theory.step.statistics import step_statistics
from gradstep.theory.together import result_of

LEVELS = gs.Inputs([4.0, 1.0, 0.4], [0.1, 0.4, 0.5], [0.5, 0.3, 0.2])


def problem(**changes):
    known = {"activation": "relu", "teacher": "x-0.5", "eta": gs.Step(0.6, 0.5), "readout": {0.5: 0.5, 2: 0.5}}
    sizes = {"d": 200, "width": 260, "n_step": 250, "n": 300, "ridge": 3.0, "noise": 0.1}
    return gs.Problem(**{**sizes, **known, **changes})


def products(case, *, plane=False):
    """Products of the lengths that rows of each readout see. Groups of one readout see the same."""
    ((_, network), *_) = result_of(stepped_networks(case, plane=plane))
    assert network.tables.in_plane == plane
    groups, lengths = network.tables.groups, network.tables.bulk.lengths
    values = np.unique(groups.readout)
    first = [int(np.flatnonzero(groups.readout == value)[0]) for value in values]
    scale = math.sqrt(case.readout.second_moment)
    assert lengths == pytest.approx(np.stack([lengths[first[np.searchsorted(values, a)]] for a in groups.readout]))
    return values * scale, lengths[first] @ lengths[first].T


def drawn(case, values, seed, *, leading=False):
    """The same from the samples of a step: d tr(A B) / (tr A tr B) of the covariances A and B of two readouts.

    With `leading` these are off the first direction and off the spike.
    """
    random, (d, width, n_step, *_) = np.random.default_rng(seed), case.real_sizes()
    d, n_step = int(d), int(n_step)
    step = step_statistics(case, *case.real_sizes()[:3])
    inputs = case.inputs or gs.Inputs([1.0])
    c = np.repeat(np.array(inputs.eigenvalues), np.round(np.array(inputs.share) * d).astype(int))
    parts = np.ones(1) if case.inputs is None else np.array(inputs.teacher)
    place = np.repeat(np.arange(len(parts)), np.round(np.array(inputs.share) * d).astype(int))
    b = random.standard_normal(d)
    b *= np.sqrt(parts / np.bincount(place, b**2))[place]
    z = random.standard_normal((n_step, d))
    r = np.asarray(link_of(case.teacher)(z @ b)) + case.noise * random.standard_normal(n_step) - step.residual_offset
    metric = np.diag(c)
    if math.isfinite(case.damping):
        metric = (1 + case.damping) * np.linalg.inv(z.T @ z / n_step + np.diag(case.damping / c))
    # A ReLU has the derivative 1/2 + z / sqrt(2 pi) and a rest.
    e, linear = case.eta.size(width) / math.sqrt(width), 1 / math.sqrt(2 * math.pi)
    stretch = e * linear * metric @ (z.T * r) @ z / n_step
    rest = e**2 * (0.25 - linear**2) * metric @ (z.T * r**2) @ z @ metric / n_step**2 * d
    turned = [np.eye(d) + a * stretch for a in values]
    rows = [part @ np.diag(c) @ part.T + a**2 * rest for part, a in zip(turned, values, strict=True)]
    if leading:
        off, _ = np.linalg.qr(np.stack([np.eye(d)[0], metric @ (r @ z)], axis=1))
        rows, d = [each - off @ (off.T @ each) for each in rows], d - 2
        rows = [each - (each @ off) @ off.T for each in rows]
    return np.array([[d * np.sum(x * y) / np.trace(x) / np.trace(y) for x in rows] for y in rows])


@pytest.mark.parametrize(
    ("inputs", "damping", "readout"),
    [
        (LEVELS, 0.1, {-1: 0.5, 1: 0.5}),
        (None, math.inf, {0.5: 0.5, 2: 0.5}),
        pytest.param(LEVELS, math.inf, {0.5: 0.5, 2: 0.5}, marks=pytest.mark.statistical),
        pytest.param(LEVELS, 2.0, {0.5: 0.5, 2: 0.5}, marks=pytest.mark.statistical),
        pytest.param(LEVELS, 1e-3, {0.5: 0.5, 2: 0.5}, marks=pytest.mark.statistical),
        pytest.param(LEVELS, math.inf, {-1: 0.5, 1: 0.5}, marks=pytest.mark.statistical),
        pytest.param(None, math.inf, {-1: 0.5, 1: 0.5}, marks=pytest.mark.statistical),
        pytest.param(None, 0.3, {0.5: 0.5, 2: 0.5}, marks=pytest.mark.statistical),
        pytest.param(LEVELS, 0.3, {-1: 0.3, 0.5: 0.4, 2: 0.3}, marks=pytest.mark.statistical),
        pytest.param(LEVELS, math.inf, {-1: 0.3, 0.5: 0.4, 2: 0.3}, marks=pytest.mark.statistical),
        pytest.param(None, 0.01, {-1: 0.3, 0.5: 0.4, 2: 0.3}, marks=pytest.mark.statistical),
    ],
)
def test_they_are_those_of_the_samples(inputs, damping, readout):
    case = problem(inputs=inputs, damping=damping, readout=readout, d=500, width=650, n_step=625, n=750)
    values, found = products(case)
    measured = [drawn(case, values, seed) for seed in range(10)]
    error = np.std(measured, axis=0, ddof=1) / math.sqrt(len(measured))
    # Terms of order 1/d are left out.
    assert np.all(np.abs(np.mean(measured, axis=0) - found) < 3.5 * error + 2 * found / 500), (
        np.mean(measured, axis=0),
        found,
        error,
    )
    # One length would have all numbers equal.
    assert np.ptp(found) > 20 * error.max() or found.min() > 1.5


@pytest.mark.parametrize("readout", ["constant", "gaussian"])
def test_without_a_step_there_is_one_length(readout):
    """That of an isotropic input, or one in d over the mean square of the eigenvalues."""
    for inputs, square in ((None, 1.0), (LEVELS, 0.1 * 16 + 0.4 + 0.5 * 0.16)):
        mean = 1.0 if inputs is None else 0.1 * 4 + 0.4 + 0.5 * 0.4
        ((_, network), *_) = result_of(stepped_networks(problem(eta=0.0, readout=readout, inputs=inputs)))
        lengths = network.tables.bulk.lengths
        assert lengths.shape[1] == 1
        assert np.abs(lengths) == pytest.approx(math.sqrt(square) / mean, rel=1e-4)


@pytest.mark.parametrize("damping", [math.inf, 0.01])
def test_a_leading_direction_takes_no_part_in_them(damping):
    """It is resolved, with its part that is along the spike: of the traces of all it may be nine tenths."""
    inputs = gs.Inputs([15.0, 2.0, 0.5], [0.005, 0.2, 0.795], [0.3, 0.4, 0.3])
    case = problem(inputs=inputs, damping=damping, readout={-1: 0.5, 1: 0.5}, teacher="x", eta=gs.Step(0.5, 0.5))
    values, found = products(case, plane=True)
    measured = [drawn(case, values, seed, leading=True) for seed in range(10)]
    error = np.std(measured, axis=0, ddof=1) / math.sqrt(len(measured))
    # All rows have the diagonals of their covariances in one basis here.
    assert np.all(np.abs(np.mean(measured, axis=0) - found) < 3.5 * error + 0.08 * found), (
        np.mean(measured, axis=0),
        found,
        error,
    )


def test_few_lengths_have_the_products_of_all():
    random = np.random.default_rng(1)
    seen, weight = random.uniform(size=(20, 3)) @ random.standard_normal((3, 40)), random.uniform(size=20)
    few = seen_lengths(weight, seen)
    assert few.shape == (20, 3)
    assert few @ few.T == pytest.approx(seen @ seen.T)
    square = weight @ few**2
    assert np.all(np.diff(square) < 0)
    assert (weight * few.T) @ few == pytest.approx(np.diag(square))


def test_off_a_direction_they_are_those_of_the_projected_rows():
    """Diagonal covariances, of which a direction takes a part."""
    random, d = np.random.default_rng(2), 12
    variance, weight = random.uniform(0.3, 2, size=(3, d)), np.full(3, 1 / 3)
    variance /= variance.mean(axis=1, keepdims=True)
    direction = random.standard_normal(d)
    direction /= np.linalg.norm(direction)
    found = lengths_off(weight, variance / math.sqrt(d), variance, direction, d)
    left = np.eye(d) - np.outer(direction, direction)
    rows = [left @ np.diag(each) @ left for each in variance]
    expected = [[d * np.sum(x * y) / np.trace(x) / np.trace(y) for x in rows] for y in rows]
    # `lengths_off` counts the trace that is left in all directions.
    assert found @ found.T == pytest.approx(np.array(expected), rel=1e-9)


def test_a_direction_that_has_all_of_a_row_leaves_numbers():
    variance, direction = np.array([[1e-3, 12.0], [2.0, 12.0 - 1e-12]]), np.array([0.0, 1.0])
    found = lengths_off(np.full(2, 0.5), variance / math.sqrt(12), variance, direction, 12)
    assert np.all(np.isfinite(found))
    assert np.abs(found).max() < 10


@pytest.mark.statistical
@pytest.mark.parametrize(("inputs", "seeds"), [(gs.Inputs([6.0, 0.5], [1 / 11, 10 / 11]), 40), (None, 24)])
def test_networks_whose_neurons_see_two_lengths(inputs, seeds):
    """Little noise, and a damped step on few samples: with one length for all, errors were 13 and 6 % too low."""
    case = problem(
        teacher="x", readout={-1: 0.5, 1: 0.5}, d=480, width=624, n=720, n_step=600, ridge=8.0, damping=0.01,
        eta=gs.Step(0.5, 0.5), inputs=inputs,
    )  # fmt: skip
    measured = gs.simulate(case, seeds=seeds)
    predicted = gs.predict(case).test_error
    # What the features share beyond that is left out: it makes the errors 2 to 4 % smaller.
    assert -0.01 < predicted / measured.mean("test_error") - 1 < 0.05
