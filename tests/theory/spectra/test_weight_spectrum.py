"""Spectra of the first layer in correlated inputs: isotropic inputs as a limit, moments, drawn matrices, networks."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.theory.spectra import weight_spectrum as module
from gradstep.theory.spectra.spike import sample_nodes
from gradstep.theory.spectra.weight_spectrum import weight_spectrum
from gradstep.theory.step.statistics import step_statistics

THREE = gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3])
BASE = gs.Problem(
    activation="tanh", teacher="sin(1.5*x)", d=240, width=300, n_step=240, n=10, eta=gs.Step(1.0, 0.5), ridge=1.0,
    noise=0.2, readout="constant", inputs=THREE,
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"readout": "gaussian", "n_step": 4 * 10**7}, marks=pytest.mark.statistical),
        pytest.param(
            {"activation": "softplus", "teacher": "tanh(x)+0.5", "readout": {0.5: 0.5, 2.0: 0.5}},
            marks=pytest.mark.statistical,
        ),
        # An output of order one without a linear part.
        pytest.param(
            {"activation": "x**2-1", "teacher": "x**2-1", "n_step": 8 * 10**8, "output_scale": "1/sqrt(N)"},
            marks=pytest.mark.statistical,
        ),
        pytest.param(
            {
                "activation": "x**2-1",
                "teacher": "x**2-1",
                "n_step": 8 * 10**8,
                "output_scale": "1/sqrt(N)",
                "damping": 0.5,
            },
            marks=pytest.mark.statistical,
        ),
    ],
)
def test_nearly_equal_eigenvalues_have_the_spectrum_of_isotropic_inputs(changes):
    # At a size at which the network's own output makes no drift beside this one.
    problem = BASE.replace(d=10**8, width=2 * 10**8, n_step=10**8).replace(**changes)
    isotropic, found = (weight_spectrum(problem.replace(inputs=x)) for x in (None, gs.Inputs([1 + 1e-9, 1 - 1e-9])))
    assert found.after.edge == pytest.approx(isotropic.after.edge, rel=1e-7)
    x = np.geomspace(0.3, 1, 9) * isotropic.after.edge
    np.testing.assert_allclose(found.after.cumulative(x), isotropic.after.cumulative(x), atol=1e-6)
    for name in ("singular_value", "gradient_overlap", "teacher_overlap", "readout_overlap"):
        assert getattr(found.outlier, name) == pytest.approx(getattr(isotropic.outlier, name), rel=1e-7, abs=1e-9), name


def test_moments_of_the_law():
    # tr W^T W and tr (W^T W)^2 over d, from the covariance of the rows.
    problem = BASE
    sizes = problem.real_sizes()
    step = step_statistics(problem, sizes.d, sizes.width, sizes.n_step)
    known, omega = step.correlated.spectrum, sample_nodes(problem, step)
    aspect = sizes.width / sizes.d
    tau = step.bulk / known.moment(2)
    fourth = known.moment(2) + sizes.d / sizes.n_step * float(omega.weight @ omega.omega**2)
    expected = [aspect * (1 + tau), aspect * (1 + tau) ** 2 + aspect**2 * (1 + 2 * tau + tau**2 * fourth)]
    bands = weight_spectrum(problem).after.bands
    found = [sum(float(band.weight @ band.eigenvalue**power) for band in bands) for power in (1, 2)]
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_resolvent_along_the_gradient_is_that_of_drawn_matrices():
    """The gradient and the teacher in the inputs' own coordinates, between which the resolvent is taken."""
    problem, draws = BASE.replace(width=360, eta=gs.Step(2.0, 0.5)), 30
    found = []
    d, width, n_step = 240, 360, 240
    step = step_statistics(problem, d, width, n_step)
    equations, spike = parts_of(problem, step)
    z = -0.7 + 0.4j
    state = module.advance(equations, module.start(equations, complex(-40, 1)), z).state
    (along, teacher_overlap, gradient_overlap), *_ = equations.spike_resolvent(z, state, spike).between
    # The spike is along the gradient.
    assert along == gradient_overlap
    expected = np.array([along, teacher_overlap])
    sizes = THREE.counts(d)
    root, teacher = np.sqrt(np.repeat(THREE.eigenvalues, sizes)), np.zeros(d)
    teacher[np.cumsum(sizes) - 1] = np.sqrt(THREE.teacher)
    inward, random = teacher / root, np.random.default_rng(8)
    inward /= np.linalg.norm(inward)
    tau = equations.added
    for _ in range(draws):
        x = random.standard_normal((n_step, d)) * root
        r = np.asarray(problem.teacher(x @ (teacher / root))) - step.residual_offset
        r = r + math.sqrt(step.residual_noise) * random.standard_normal(n_step)
        gradient = x.T @ r
        gradient /= np.linalg.norm(gradient)
        added = random.standard_normal((width, n_step)) @ (r[:, None] * x) / math.sqrt(n_step * d * np.mean(r**2))
        rows = random.standard_normal((width, d)) / math.sqrt(d) + math.sqrt(tau) * added
        made = np.linalg.solve(rows.T @ rows - z * np.eye(d), np.stack([gradient, inward], axis=1))
        found.append([gradient @ made[:, 0], inward @ made[:, 0]])
    for part in (np.real, np.imag):
        mean, error = part(found).mean(axis=0), part(found).std(axis=0, ddof=1) / math.sqrt(draws)
        assert np.all(np.abs(mean - part(expected)) < 4 * error + 0.01 * np.abs(expected)), (mean, expected, error)


def parts_of(problem, step):
    """Return the equations of a problem and its spike, as `weight_spectrum` has them."""
    kept = {}
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(module, "_outlier", lambda equations, spike, edge: kept.update(found=(equations, spike)))
        weight_spectrum(problem)
    return kept["found"]


@pytest.mark.statistical
def test_a_network_has_the_predicted_bulk():
    # With the law of isotropic inputs the distance is 12 eigenvalues.
    problem = BASE.replace(activation="sin(2*x)", teacher="tanh(2*x)", width=360, n_step=120, eta=gs.Step(1.5, 0.5))
    values = gs.Network(problem, 3).weight_spectrum().after ** 2
    empirical = (np.arange(len(values)) + 0.5) / len(values)
    distance = {
        inputs: len(values)
        * np.abs(weight_spectrum(problem.replace(inputs=inputs)).after.cumulative(values) - empirical).max()
        for inputs in (THREE, None)
    }
    assert distance[THREE] < 5 < 9 < distance[None]


OUTLIERS = [
    {},
    {"inputs": gs.Inputs([4, 1], [0.25, 0.75], [0.6, 0.4]), "readout": "gaussian", "eta": gs.Step(0.7, 0.5)},
    {"inputs": gs.Inputs.power_law(0.5, 2.0, d=240), "activation": "erf", "eta": gs.Step(2.0, 0.5)},
    {"activation": "softplus", "teacher": "tanh(x)", "n_step": 960, "eta": gs.Step(0.75, 0.5)},
]


@pytest.mark.parametrize(
    "changes", [OUTLIERS[0], *(pytest.param(c, marks=pytest.mark.statistical) for c in OUTLIERS[1:])]
)
def test_outliers_are_those_of_networks(changes):
    problem = BASE.replace(**changes)
    theory, seeds = weight_spectrum(problem).outlier, 20
    tops = [gs.Network(problem, seed).weight_spectrum(leading=1).leading[0] for seed in range(seeds)]
    for name, allowed in (("singular_value", 0.02), ("gradient_overlap", 0.002), ("teacher_overlap", 0.02)):
        values = np.array([getattr(top, name) for top in tops])
        error = values.std(ddof=1) / math.sqrt(seeds)
        # The limit is off by terms of order 1/d.
        assert abs(values.mean() - getattr(theory, name)) < 3 * error + allowed * values.mean(), name
    # Isotropic inputs have another outlier.
    isotropic = weight_spectrum(problem.replace(inputs=None)).outlier
    assert abs(isotropic.teacher_overlap / theory.teacher_overlap - 1) > 0.1


@pytest.mark.parametrize(
    ("changes", "rows", "field"),
    [({}, "isotropic", "rows"), ({"output_scale": "1/sqrt(N)", "activation": "relu"}, "network", "output_scale")],
)
def test_refusals(changes, rows, field):
    with pytest.raises(InvalidInput) as refused:
        weight_spectrum(BASE.replace(**changes), rows=rows)
    assert refused.value.field == field


def test_without_labels_to_follow_the_spectrum_stays():
    still = weight_spectrum(BASE.replace(eta=0.0))
    assert still.outlier is None
    assert still.after is still.before
    assert still.after.edge == pytest.approx((1 + math.sqrt(300 / 240)) ** 2, rel=1e-6)


#: The derivative has no mean, and the output of order one has a linear part all the same.
JUMPS = gs.Problem(
    activation="abs(x) + 2*sign(x) - 0.7978845608028654", teacher="x**2 - 1 + x", d=300, width=600, n_step=4800, n=10,
    eta=gs.Step(2.0, 0.5), ridge=1.0, noise=0.2, readout={-0.5: 0.5, 2: 0.5}, output_scale="1/sqrt(N)",
)  # fmt: skip


def test_the_gradient_holds_the_output_also_where_the_derivative_has_no_mean():
    outlier = weight_spectrum(JUMPS).outlier
    beside = weight_spectrum(JUMPS.replace(activation="abs(x) + 2*sign(x) - 0.7978845608028654 + 1e-6*x")).outlier
    assert outlier.gradient_overlap == pytest.approx(beside.gradient_overlap, rel=1e-4)
    assert outlier.singular_value == pytest.approx(beside.singular_value, rel=1e-4)


@pytest.mark.statistical
def test_networks_have_that_gradient():
    seeds = 24
    values = [gs.Network(JUMPS, seed).weight_spectrum(leading=1).leading[0].gradient_overlap for seed in range(seeds)]
    deviation = np.mean(values) - weight_spectrum(JUMPS).outlier.gradient_overlap
    assert abs(deviation) < 3 * np.std(values, ddof=1) / math.sqrt(seeds)
