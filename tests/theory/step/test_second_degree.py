"""What rows of second degree add on correlated inputs: explicit matrices, rows of real steps, limits."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.problem import link_of
from gradstep.theory.neurons.groups import neuron_groups
from gradstep.theory.step.row_fluctuations import derivative_moments
from gradstep.theory.step.second_degree import _Form, with_second_degree
from gradstep.theory.step.statistics import step_statistics

LEVELS = gs.Inputs([12.0, 1.5, 0.25], [0.05, 0.2, 0.75], [0.6, 0.2, 0.2])


def problem(**changes):
    sizes = {"d": 200, "width": 300, "n_step": 600, "n": 400, "ridge": 2.0}
    known = {"activation": "tanh", "teacher": "x+0.3*(x**3-3*x)", "eta": gs.Step(1.0, 0.5), "readout": "constant"}
    return gs.Problem(**{**sizes, **known, "inputs": LEVELS, **changes})


def steps(case):
    """Return the step without its second degree and with it, and ``eta / sqrt(N)``."""
    d, width, n_step, *_ = case.real_sizes()
    step = step_statistics(case, d, width, n_step)
    return step, with_second_degree(case, step, d, width), case.eta.size(width) / math.sqrt(width)


def directions(d, inputs=LEVELS, seed=0):
    """Eigenvalues of C, the class of each direction, and a teacher with the given part in each class."""
    share, parts = np.array(inputs.share), np.array(inputs.teacher)
    place = np.repeat(np.arange(len(share)), np.round(share * d).astype(int))
    drawn = np.random.default_rng(seed).standard_normal(d)
    length = np.sqrt(np.bincount(place, drawn**2))
    return np.array(inputs.eigenvalues)[place], place, drawn / length[place] * np.sqrt(parts)[place]


@pytest.mark.parametrize("sphere", [False, True])
def test_the_form_has_the_variance_and_the_slope_of_its_matrix(sphere):
    """With all samples the spike is along C b, and the matrix of the form is known entry by entry."""
    case = problem(n_step=math.inf)
    step, _, _ = steps(case)
    samples, d = step.correlated, 200
    c, _, b = directions(d)
    v = c * b / np.linalg.norm(c * b)
    law = samples.law
    third = law.mean(law.residual * (law.projection**3 - 3 * law.projection))
    length = samples.linear * np.linalg.norm(c * b)
    rest = samples.linear * (np.outer(c * v, b) + np.outer(b, c * v)) + third * (b @ (c * v)) * np.outer(b, b)
    with_c = (length * np.eye(d) + rest) * c
    variance = np.trace(with_c @ with_c) - sphere * np.trace(with_c) ** 2 / d
    of_length = length**2 * ((c**2).sum() - sphere * d)
    form = _Form.of(samples)
    assert form.variance(d, sphere=sphere) == pytest.approx((variance - of_length) / d, rel=1e-6)
    assert form.along == pytest.approx(v @ (c * (with_c @ v)) / (v @ (c * v)) ** 2, rel=1e-6)


def drawn(case, seed):
    """Return a draw's classes, teacher, spike, and samples with their residuals and metric."""
    random, (d, _, n_step, *_) = np.random.default_rng(seed), case.real_sizes()
    c, place, b = directions(int(d), seed=seed)
    z = random.standard_normal((int(n_step), int(d)))
    r = np.asarray(link_of(case.teacher)(z @ b))
    metric = np.diag(c)
    if math.isfinite(case.damping):
        metric = (1 + case.damping) * np.linalg.inv(z.T @ z / n_step + np.diag(case.damping / c))
    v = metric @ (r @ z)
    return random, c, place, b, v / np.linalg.norm(v), z, r, metric


@pytest.mark.parametrize("damping", [math.inf, 1.0])
def test_the_mean_row_is_that_of_real_steps(damping):
    """Along the teacher, in each class of directions: equation (C5a)."""
    case = problem(damping=damping, d=100, n_step=60_000)
    step, found, e = steps(case)
    samples, bend = step.correlated, e * derivative_moments(case.activation).second
    expected = step.gain * (found.correlated.signal - samples.signal)
    # The equation leaves out what isotropic inputs have.
    third = samples.law.mean(samples.law.residual * (samples.law.projection**3 - 3 * samples.law.projection))
    made = np.ones(3) if damping == math.inf else samples.made
    expected = expected + bend / (2 * 100) * (2 * samples.linear + third) * made
    measured = []
    for seed in range(12):
        _, c, place, b, _, z, r, metric = drawn(case, seed)
        # The mean over initial rows is known for given samples.
        change = bend / 2 * ((z**2 @ c / len(c) - 1) * r) @ z / len(z) @ metric
        change = change / c if damping == math.inf else change
        measured.append(np.bincount(place, change * b) / np.bincount(place, b**2))
    error = np.std(measured, axis=0, ddof=1) / len(measured) ** 0.5
    assert np.all(np.abs(np.mean(measured, axis=0) - expected) < 3.5 * error), (np.mean(measured, axis=0), expected)
    assert abs(expected[0]) > 10 * error[0]


@pytest.mark.parametrize("damping", [math.inf, 1.0])
def test_the_norm_is_that_of_real_steps(damping):
    """Off the spike, without what samples make, which is the bulk: equation (C5b)."""
    case = problem(damping=damping, n_step=20_000)
    step, found, e = steps(case)
    samples, d = step.correlated, 200
    bend = e * derivative_moments(case.activation).second
    alike = (bend * samples.linear) ** 2 * float(samples.spectrum.share @ samples.made) ** 2 * (1 - 1 / d) / d
    differences, expected = [], found.own_component_norm + alike
    for seed in range(8):
        random, c, _, b, v, z, r, metric = drawn(case, seed)
        rows = random.standard_normal((600, d)) * np.sqrt(c / d)
        change = bend / 2 * (((rows @ z.T) ** 2 - z**2 @ c / d) * r) @ z / len(z) @ metric
        norm = (change**2).sum(axis=1) - (change @ v) ** 2
        # The noise of the samples is a bulk: of degree two it has half of this mean square.
        noise = bend**2 / 2 * np.mean(r**2) / len(z) * np.trace(metric @ (z.T @ z / len(z)) @ metric)
        # The component along the teacher and the stretched row are not independent.
        both = metric @ (c * b) / d
        both = 2 * (bend * samples.linear) ** 2 * (both @ both - (both @ v) ** 2)
        differences.append(norm.mean() - noise - both - expected)
    error = np.std(differences, ddof=1) / len(differences) ** 0.5
    assert abs(np.mean(differences)) < 3.5 * error
    assert expected > 10 * error


def test_groups_have_the_norm_and_the_spread_of_networks():
    """The variance of the spike is in the projection alone, and not taken out of the norm of the rest."""
    case = problem(teacher="sin(x)", n_step=300, d=300, eta=gs.Step(0.75, 0.5))
    _, found, _ = steps(case)
    groups = neuron_groups(found, case.readout, 300.0, odd=False)
    mean = groups.weight @ groups.projection
    theory = [mean, groups.weight @ (groups.projection - mean) ** 2, groups.weight @ groups.variance]
    measured = []
    for seed in range(24):
        network = gs.Network(case, seed)
        root = network.law.times_root
        before, after = (np.asarray(root(rows)) for rows in (network.before, network.after))
        # The gradient, to which the mean change of rows would have the noise of the rows.
        samples, labels = network.step_data()
        residual = labels - np.asarray(network.initial.features(samples)).sum(axis=1) / len(before)
        v = root(residual @ samples)
        v = v / np.linalg.norm(v)
        along = after @ v
        measured.append([along.mean(), along.var(), ((after - np.outer(along, v)) ** 2).sum(axis=1).mean()])
    error = np.std(measured, axis=0, ddof=1) / len(measured) ** 0.5
    assert np.all(np.abs(np.mean(measured, axis=0) - theory) < 3.5 * error), (np.mean(measured, axis=0), theory, error)


@pytest.mark.parametrize(
    "changes", [{"activation": "relu"}, {"inputs": None, "damping": 1.0}, {"eta": 0.0}, {"activation": "x**3-3*x"}]
)
def test_without_a_second_degree_or_a_spike_nothing_is_added(changes):
    # A ReLU has E[(z^2 - 1) sigma'] = 0, isotropic inputs leave such terms out, and the last one has E[sigma'] = 0.
    step, found, _ = steps(problem(**changes))
    assert found is step


def test_a_large_damping_is_the_plain_step():
    plain, damped = (steps(problem(damping=damping))[1] for damping in (math.inf, 1e9))
    for name in ("spike", "alignment", "own_component_norm"):
        assert getattr(damped, name) == pytest.approx(getattr(plain, name), rel=1e-6), name
    for name in ("bend", "bend_variance"):
        assert getattr(damped.fluctuations, name) == pytest.approx(getattr(plain.fluctuations, name), rel=1e-6), name


def test_it_grows_with_the_eigenvalues_from_nothing():
    """For equal eigenvalues nothing is added to the mean row and the norm, and there is no jump."""
    sizes = []
    for width in (1e-9, 1e-3, 1e-2):
        step, found, _ = steps(problem(inputs=gs.Inputs([1 + width, 1 - width])))
        sizes.append([found.spike / step.spike - 1, found.own_component_norm])
    assert np.abs(sizes[0]).max() < 1e-10
    assert np.abs(sizes[1]).max() < 1e-3
    assert np.abs(sizes[2]).max() < 1e-2


def test_a_mean_derivative_of_nothing_makes_no_jump():
    """The first order over a small gain is cut, so that the spike vanishes with the gain."""
    tiny, none = (steps(problem(activation=f"(x**3-3*x)/6+{mean}*x"))[1] for mean in ("1e-9", "0"))
    assert abs(tiny.spike) < 1e-7
    assert none.spike == 0
