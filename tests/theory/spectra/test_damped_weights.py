"""Spectra of the first layer after a damped step: limits, closed forms, moments, drawn matrices and networks."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import link_of
from gradstep.theory.spectra import weight_spectrum as module
from gradstep.theory.spectra.weight_spectrum import weight_spectrum
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.statistics import step_statistics

THREE = gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3])
BASE = gs.Problem(
    activation="tanh", teacher="sin(1.5*x)", d=240, width=300, n_step=360, n=10, eta=gs.Step(1.0, 0.5), ridge=1.0,
    noise=0.2, readout="constant", inputs=THREE, damping=0.5,
)  # fmt: skip
NOT_ODD = {
    "activation": "softplus",
    "teacher": "tanh(x)+0.5",
    "readout": {0.5: 0.5, 2.0: 0.5},
    "eta": gs.Step(2.0, 0.5),
}
NAMES = ("singular_value", "gradient_overlap", "teacher_overlap", "readout_overlap")


def parts_of(problem):
    """Return the equations of a problem and its spike, as `weight_spectrum` has them."""
    kept = {}
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(module, "_outlier", lambda equations, spike, edge: kept.update(found=(equations, spike)))
        weight_spectrum(problem)
    return kept["found"]


@pytest.mark.parametrize("inputs", [None, THREE])
def test_a_large_damping_is_the_plain_step(inputs):
    problem = BASE.replace(inputs=inputs)
    damped, plain = (weight_spectrum(problem.replace(damping=delta)) for delta in (1e9, math.inf))
    assert damped.after.edge == pytest.approx(plain.after.edge, rel=1e-7)
    x = np.geomspace(0.3, 1, 9) * plain.after.edge
    np.testing.assert_allclose(damped.after.cumulative(x), plain.after.cumulative(x), atol=1e-6)
    for name in NAMES:
        assert getattr(damped.outlier, name) == pytest.approx(getattr(plain.outlier, name), rel=1e-6), name


@pytest.mark.parametrize("changes", [{}, pytest.param(NOT_ODD, marks=pytest.mark.statistical)])
def test_nearly_equal_eigenvalues_have_the_spectrum_of_isotropic_inputs(changes):
    problem = BASE.replace(**changes)
    isotropic, found = (weight_spectrum(problem.replace(inputs=x)) for x in (None, gs.Inputs([1 + 1e-9, 1 - 1e-9])))
    assert found.after.edge == pytest.approx(isotropic.after.edge, rel=1e-7)
    for name in NAMES:
        assert getattr(found.outlier, name) == pytest.approx(getattr(isotropic.outlier, name), rel=1e-7), name


def test_a_population_step_adds_one_row():
    # P is a function of C, and one row of another length in a rotated layer has the law of a spiked covariance.
    d, width, eta = 240, 120, 9.0
    problem = BASE.replace(n_step=240 * 10**9, eta=eta, width=width, noise=0.0)
    c, share, teacher = (np.array(x) for x in (THREE.eigenvalues, THREE.share, THREE.teacher))
    teacher, activation = teacher / teacher.sum(), moments(problem.activation)
    metric = (1 + problem.damping) * c / (c + problem.damping)
    gain = eta / math.sqrt(width) * activation.derivative_mean
    lost = gain * activation.linear * metric
    signal = (gain * moments(link_of(problem.teacher)).linear) ** 2 * width * (teacher @ (metric**2 / c))
    whole, ratio = share @ (1 - lost) ** 2 + signal, width / d
    cosine = (teacher @ (metric / c)) ** 2 / (teacher @ (metric**2 / c)) / (teacher @ (1 / c))
    # The gradient holds what is taken back of the row, too.
    with_row = (signal - share @ (lost * (1 - lost))) ** 2 / (signal + share @ lost**2) / whole
    turned = 1 - ratio / (whole - 1) ** 2
    outlier = weight_spectrum(problem).outlier
    found = outlier.singular_value**2, outlier.gradient_overlap, outlier.teacher_overlap, outlier.readout_overlap
    readout = ((whole - 1) ** 2 - ratio) / ((whole - 1) * (whole - 1 + ratio))
    expected = whole * (1 + ratio / (whole - 1)), with_row * turned, signal / whole * turned * cosine, readout
    assert found == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("changes", [{}, {"activation": "relu", "teacher": "tanh(x)+0.5", "eta": gs.Step(2.0, 0.5)}])
def test_moments_of_the_law(changes):
    # tr W^T W and tr (W^T W)^2 over d, from the covariance of the rows: one of them in isotropic inputs.
    # In the limit, where the largest residual of the samples is that of their law.
    problem = BASE.replace(inputs=None, noise=0.0, d=240 * 10**5, width=300 * 10**5, n_step=360 * 10**5, **changes)
    equations, _ = parts_of(problem)
    law = DampedLaw(equations.samples, equations.added, equations.linear, equations.linear)
    trace, square, aspect = law.mean, law.second_moment, 300 / 240
    expected = [aspect * trace, aspect * trace**2 + aspect**2 * square]
    bands = weight_spectrum(problem).after.bands
    found = [sum(float(band.weight @ band.eigenvalue**power) for band in bands) for power in (1, 2)]
    assert found == pytest.approx(expected, rel=1e-4)
    # The step changes both by much more than that.
    assert trace > 1.02


def test_the_mean_of_the_law_in_correlated_inputs():
    equations, _ = parts_of(BASE)
    samples = equations.samples
    expected = 300 / 240 * (1 + equations.added * samples.trace(1 / samples.spectrum.eigenvalue))
    bands = weight_spectrum(BASE).after.bands
    assert sum(float(band.weight @ band.eigenvalue) for band in bands) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("changes", [{}, NOT_ODD])
def test_resolvents_are_those_of_drawn_matrices(changes):
    problem, draws, z = BASE.replace(**changes), 30, -0.7 + 0.4j
    d, width, n_step, delta = 240, 300, 360, 0.5
    step = step_statistics(problem, d, width, n_step)
    equations, spike = parts_of(problem)
    state = module.advance(equations, module.start(equations, complex(-400, 1)), z).state
    along, teacher_overlap, gradient_overlap = equations.spike_resolvent(z, state, spike)
    # The spike is along the gradient.
    assert along == gradient_overlap
    expected = np.array([along, teacher_overlap, *equations.readout_resolvent(z, state)])
    sizes = THREE.counts(d)
    c = np.repeat(THREE.eigenvalues, sizes)
    root, teacher = np.sqrt(c), np.zeros(d)
    teacher[np.cumsum(sizes) - 1] = np.sqrt(THREE.teacher)
    inward, random = teacher / root, np.random.default_rng(8)
    inward /= np.linalg.norm(inward)
    values = np.array(problem.readout.values)
    a = np.repeat(values, width // len(values))
    hat, found = a / np.linalg.norm(a), []
    # What an initial row loses, in the mean over the samples.
    taken = np.repeat(equations.taken, sizes)
    for _ in range(draws):
        x = random.standard_normal((n_step, d)) * root
        r = np.asarray(problem.teacher(x @ (teacher / root))) - step.residual_offset
        r = r + math.sqrt(step.residual_noise) * random.standard_normal(n_step)
        metric = (1 + delta) * np.linalg.inv(x.T @ x / n_step + delta * np.eye(d))
        gradient = metric @ x.T @ r
        gradient /= np.linalg.norm(gradient)
        added = random.standard_normal((width, n_step)) @ (r[:, None] * x) / math.sqrt(n_step * d * np.mean(r**2))
        still = random.standard_normal((width, d)) / math.sqrt(d)
        bent = equations.linear * (still @ (x.T * r) @ x / n_step)
        rows = still + a[:, None] * ((math.sqrt(equations.added) * added + bent) @ metric)
        inverse = np.linalg.inv(rows.T @ rows - z * np.eye(d))
        lost = (hat @ still) * taken
        h = hat @ np.linalg.solve(rows @ rows.T - z * np.eye(width), hat)
        ends = gradient @ inverse @ gradient, inward @ inverse @ gradient
        found.append([*ends, h, hat @ rows @ inverse @ lost, lost @ inverse @ lost])
    for part in (np.real, np.imag):
        mean, error = part(found).mean(axis=0), part(found).std(axis=0, ddof=1) / math.sqrt(draws)
        assert np.all(np.abs(mean - part(expected)) < 4 * error + 0.004 * np.abs(expected)), (mean, expected, error)


OUTLIERS = [
    {},
    {"inputs": None, "readout": "gaussian", "damping": 0.1},
    {"inputs": gs.Inputs.power_law(0.5, 2.0, d=240), "activation": "erf", "eta": gs.Step(2.0, 0.5), "damping": 1.0},
    {**NOT_ODD, "damping": 1.0},
    {**NOT_ODD, "activation": "relu", "inputs": None, "n_step": 240},
]


@pytest.mark.parametrize(
    "changes", [OUTLIERS[0], *(pytest.param(c, marks=pytest.mark.statistical) for c in OUTLIERS[1:])]
)
def test_outliers_and_bulks_are_those_of_networks(changes):
    problem = BASE.replace(**changes)
    theory, seeds = weight_spectrum(problem), 20
    networks = [gs.Network(problem, seed).weight_spectrum(leading=1) for seed in range(seeds)]
    for name, allowed in zip(NAMES, (0.01, 0.002, 0.01, 0.003), strict=True):
        values = np.array([getattr(network.leading[0], name) for network in networks])
        error = values.std(ddof=1) / math.sqrt(seeds)
        # The limit is off by terms of order 1/d.
        assert abs(values.mean() - getattr(theory.outlier, name)) < 3 * error + allowed * values.mean(), name
    empirical = (np.arange(240) + 0.5) / 240
    distance = [240 * np.abs(theory.after.cumulative(network.after**2) - empirical).max() for network in networks]
    assert np.mean(distance) < 4
    # The plain step has another outlier.
    plain = weight_spectrum(problem.replace(damping=math.inf)).outlier
    assert abs(plain.singular_value / theory.outlier.singular_value - 1) > 0.05


@pytest.mark.parametrize("inputs", [None, THREE])
def test_refusals(inputs):
    with pytest.raises(InvalidInput) as refused:
        weight_spectrum(BASE.replace(inputs=inputs), rows="isotropic")
    assert refused.value.field == "rows"
    with pytest.raises(InvalidInput) as refused:
        weight_spectrum(BASE.replace(inputs=inputs, output_scale="1/sqrt(N)"))
    assert refused.value.field == "output_scale"
