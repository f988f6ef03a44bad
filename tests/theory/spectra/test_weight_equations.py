"""Equations of the first layer after plain and damped steps: limits, moments, drawn matrices and networks."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

import gradstep as gs
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import moments
from gradstep.problem import link_of
from gradstep.theory.spectra import stieltjes
from gradstep.theory.spectra import weight_spectrum as module
from gradstep.theory.spectra.stieltjes import advance, find_law, start
from gradstep.theory.step.correlated_samples import words_trace
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.row_fluctuations import derivative_slope
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
SQUARE = {"activation": "relu", "teacher": "tanh(x)+0.5", "readout": {0.5: 0.5, 2.0: 0.5}, "inputs": None, "width": 240}
NAMES = ("singular_value", "gradient_overlap", "teacher_overlap", "readout_overlap")


#: Several tests ask for the same.
weight_spectrum = cache(module.weight_spectrum)


def parts_of(problem):
    """Return the equations of a problem and its spike, as `weight_spectrum` has them."""
    sizes = problem.real_sizes()
    return module._layer(problem, step_statistics(problem, sizes.d, sizes.width, sizes.n_step), "network")


QUADRATIC = {"activation": "tanh(x)+0.3*x**2", "teacher": "tanh(x)+0.3*x**2", "readout": "gaussian"}


@pytest.mark.parametrize(
    ("inputs", "changes"),
    [
        pytest.param(None, {}, marks=pytest.mark.statistical),
        (THREE, {}),
        pytest.param(THREE, {**NOT_ODD, "width": 240}, marks=pytest.mark.statistical),
        pytest.param(None, QUADRATIC, marks=pytest.mark.statistical),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [(None, {**NOT_ODD, "width": 240}), (THREE, QUADRATIC), (None, NOT_ODD), (THREE, NOT_ODD)]
        ),
    ],
)
def test_a_large_damping_is_the_plain_step(inputs, changes):
    problem = BASE.replace(inputs=inputs, **changes)
    damped, plain = (weight_spectrum(problem.replace(damping=delta)) for delta in (1e9, math.inf))
    assert damped.after.edge == pytest.approx(plain.after.edge, rel=1e-6)
    x = np.geomspace(0.3, 1, 9) * plain.after.edge
    np.testing.assert_allclose(damped.after.cumulative(x), plain.after.cumulative(x), atol=1e-6)
    for name in NAMES:
        assert getattr(damped.outlier, name) == pytest.approx(getattr(plain.outlier, name), rel=1e-5), name


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


@pytest.mark.parametrize("inputs", [None, gs.Inputs([1 + 1e-9, 1 - 1e-9])])
def test_a_population_step_stretches_all_rows_and_adds_one(inputs):
    # The gradient holds what the network's own output takes back of the initial rows, as they were before the step.
    d, width, eta = 240, 120, 9.0
    problem = BASE.replace(activation="softplus", teacher="tanh(x)+0.5", n_step=240 * 10**9, eta=eta, width=width,
                           noise=0.0, inputs=inputs, damping=math.inf)  # fmt: skip
    activation, teacher = moments(problem.activation), moments(link_of(problem.teacher))
    gain, derivative = eta / math.sqrt(width), derivative_slope(problem.activation)
    # The residual is without the mean of the initial output.
    stretch = 1 + gain * derivative * (teacher.mean - activation.mean)
    lost = gain * activation.derivative_mean * activation.linear
    signal = (gain * activation.derivative_mean * teacher.linear) ** 2 * width
    whole, ratio = ((stretch - lost) ** 2 + signal) / stretch**2, width / d
    outlier = weight_spectrum(problem).outlier
    assert outlier.singular_value**2 == pytest.approx(stretch**2 * whole * (1 + ratio / (whole - 1)), rel=1e-6)
    turned = 1 - ratio / (whole - 1) ** 2
    assert outlier.teacher_overlap == pytest.approx(signal / stretch**2 / whole * turned, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.statistical),
        {"activation": "relu", "teacher": "tanh(x)+0.5", "eta": gs.Step(2.0, 0.5)},
    ],
)
def test_moments_of_the_law(changes):
    # tr W^T W and tr (W^T W)^2 over d, from the covariance of the rows: one of them in isotropic inputs.
    # In the limit, where the largest residual of the samples is that of their law.
    problem = BASE.replace(inputs=None, noise=0.0, d=240 * 10**5, width=300 * 10**5, n_step=360 * 10**5, **changes)
    equations, _ = parts_of(problem)
    law = DampedLaw(equations.damped, equations.added, equations.linear, equations.linear)
    trace, square, aspect = law.mean, law.second_moment, 300 / 240
    expected = [aspect * trace, aspect * trace**2 + aspect**2 * square]
    bands = weight_spectrum(problem).after.bands
    found = [sum(float(band.weight @ band.eigenvalue**power) for band in bands) for power in (1, 2)]
    assert found == pytest.approx(expected, rel=1e-4)
    # The step changes both by much more than that.
    assert trace > 1.02


def test_the_mean_of_the_law_in_correlated_inputs():
    equations, _ = parts_of(BASE)
    samples = equations.damped
    expected = 300 / 240 * (1 + equations.added * samples.trace(1 / samples.spectrum.eigenvalue))
    bands = weight_spectrum(BASE).after.bands
    assert sum(float(band.weight @ band.eigenvalue) for band in bands) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param(NOT_ODD, marks=pytest.mark.statistical),
        pytest.param({**NOT_ODD, "damping": math.inf}, marks=pytest.mark.statistical),
    ],
)
def test_resolvents_are_those_of_drawn_matrices(changes):
    problem, draws, z = BASE.replace(**changes), 30, -0.7 + 0.4j
    d, width, n_step, delta = 240, 300, 360, problem.damping
    step = step_statistics(problem, d, width, n_step)
    equations, spike = parts_of(problem)
    state = module.advance(equations, module.start(equations, complex(-400, 1)), z).state
    (along, teacher_overlap, gradient_overlap), *_ = equations.spike_resolvent(z, state, spike).between
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
        metric = np.eye(d)
        if math.isfinite(delta):
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


STRETCHED = [
    {},
    {"activation": "tanh(x)+0.3*x**2", "readout": {-1: 0.5, 1: 0.5}},
    {"activation": "abs(x)", "width": 240},
]


@pytest.mark.parametrize("damping", [math.inf, 0.5])
@pytest.mark.parametrize("changes", [{}, {**NOT_ODD, "width": 240}])
def test_newtons_method_has_the_slopes_of_the_equations(changes, damping):
    equations, _ = parts_of(BASE.replace(damping=damping, **changes))
    z, h = 1.3 + 0.8j, 1e-6
    point = advance(equations, start(equations, 1e3j * equations.top), z)
    # The solution moves along the tangent.
    near = advance(equations, point, z + h)
    np.testing.assert_allclose((near.state - point.state) / h, point.tangent, rtol=1e-4, atol=1e-4)
    # Newton's step squares a small distance.
    off = point.state + 1e-4 * np.exp(1j * np.arange(len(point.state)))
    _, step, _ = equations.newton(z, off)
    np.testing.assert_allclose(off + step, point.state, atol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "changes"),
    [
        pytest.param(None, STRETCHED[0], marks=pytest.mark.statistical),
        (THREE, STRETCHED[1]),
        pytest.param(None, STRETCHED[2], marks=pytest.mark.statistical),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [(THREE, STRETCHED[0]), (None, STRETCHED[1]), (THREE, STRETCHED[2])]
        ),
    ],
)
def test_moments_of_the_law_of_stretched_rows(inputs, changes):
    # tr W^T W and tr (W^T W)^2 over d, from traces of products of B and S without crossings. Without noise and at this
    # size the largest residual of the samples is that of their law.
    changes = {**NOT_ODD, "noise": 0.0, **changes}
    problem = BASE.replace(inputs=inputs or gs.Inputs([1 + 1e-9, 1 - 1e-9]), damping=math.inf, **changes)
    problem = problem.replace(d=problem.d * 10**5, width=problem.width * 10**5, n_step=problem.n_step * 10**5)
    sizes = problem.real_sizes()
    samples = step_statistics(problem, sizes.d, sizes.width, sizes.n_step).correlated
    equations, _ = parts_of(problem)
    k, t, aspect, r = equations.linear, equations.added, sizes.width / sizes.d, samples.law.residual
    letters, whole = {"B": r, "S": r**2 / samples.law.square}, {}

    def trace(word):
        if word not in whole:
            whole[word] = words_trace(samples, [letters[letter] for letter in word], [1] * len(word))
        return whole[word]

    def covariance(a):
        return {"": 1.0, "B": 2 * a * k, "BB": (a * k) ** 2, "S": a**2 * t}

    rows = list(zip(problem.readout.values, problem.readout.weights, strict=True))
    total = sum(weight for _, weight in rows)
    means = [sum(x * trace(word) for word, x in covariance(a).items()) for a, _ in rows]
    products = np.array(
        [
            [
                sum(
                    x * y * trace(one + other) for one, x in covariance(a).items() for other, y in covariance(b).items()
                )
                for b, _ in rows
            ]
            for a, _ in rows
        ]
    )
    share = np.array([weight for _, weight in rows]) / total
    expected = [aspect * share @ means, aspect * share @ np.square(means) + aspect**2 * share @ products @ share]
    bands = weight_spectrum(problem).after.bands
    found = [sum(float(band.weight @ band.eigenvalue**power) for band in bands) for power in (1, 2)]
    assert found == pytest.approx(expected, rel=1e-4)
    # The mean of B alone has another second moment.
    still = [
        (1 + a * k * samples.law.mean(r)) ** 2 + a**2 * (t + k**2 * samples.ratio * samples.law.square) for a, _ in rows
    ]
    if inputs is None:
        assert share @ np.square(still) + aspect * (share @ still) ** 2 < 0.99 * expected[1] / aspect


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param(
            {"activation": "cos", "readout": "constant", "eta": gs.Step(0.5, 0.5)}, marks=pytest.mark.statistical
        ),
    ],
)
def test_plain_steps_stretch_the_rows_as_in_networks(changes):
    # With the mean of B in place of B the numbers differ by up to 7 (ReLU) and 4 (cosine).
    changes = {
        "activation": "relu",
        "teacher": "tanh(x)+0.5",
        "readout": {0.5: 0.5, 2.0: 0.5},
        "n_step": 480,
        **changes,
    }
    problem = BASE.replace(inputs=None, damping=math.inf, **changes)
    law, draws = weight_spectrum(problem).after, 16
    places = law.edge * np.linspace(0.02, 0.95, 30)
    values = [gs.Network(problem, seed).weight_spectrum().after ** 2 for seed in range(draws)]
    counts = np.array([(each[:, None] <= places).sum(axis=0) for each in values])
    error = counts.std(axis=0, ddof=1) / math.sqrt(draws)
    # The limit is off by terms of order one.
    assert np.all(np.abs(counts.mean(axis=0) - 240 * law.cumulative(places)) < 1.5 + 3 * error)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("inputs", "damping"),
    [
        pytest.param(None, math.inf, marks=pytest.mark.statistical),
        (THREE, 0.01),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [(THREE, math.inf), (None, 0.01), (None, 3.0), (THREE, 3.0)]
        ),
    ],
)
def test_a_square_layer_has_a_hard_edge(inputs, damping):
    problem = BASE.replace(**{**SQUARE, "inputs": inputs, "damping": damping})
    law = weight_spectrum(problem).after
    assert law.bands[0].lower == 0
    # At a hard edge the predicted number of eigenvalues below the least one is 2 u / pi, where u has the density
    # (1 + u) exp(-u^2 / 2 - u) (Edelman 1988), whatever the matrix is.
    draws = 40
    smallest = np.array([gs.Network(problem, seed).weight_spectrum().after[0] ** 2 for seed in range(draws)])
    first = math.sqrt(2 * math.pi * math.e) * norm.sf(1)
    second = 2 * (1 - first)
    mean, deviation = 2 / math.pi * first, 2 / math.pi * math.sqrt(second - first**2)
    assert abs((240 * law.cumulative(smallest)).mean() - mean) < 3.5 * deviation / math.sqrt(draws)


@pytest.mark.statistical
def test_a_weak_step_of_a_square_layer_is_followed_to_zero():
    # Entries of the matrices differ by ten powers of ten there.
    inputs = gs.Inputs.power_law(0.5, 2.0, d=500)
    sizes = {"d": 500, "width": 500, "n_step": 500}
    problem = BASE.replace(activation="cos", teacher="tanh(x)+0.5", eta=0.2, inputs=inputs, damping=318.0, **sizes)
    found = weight_spectrum(problem)
    assert found.after.bands[0].lower == 0
    assert found.after.edge == pytest.approx(4, rel=0.01)
    x = np.geomspace(1e-6, 4, 9)
    np.testing.assert_allclose(found.after.cumulative(x), found.before.cumulative(x), rtol=0.01)


#: All rows are multiplied by one matrix, whose spectrum contains zero.
QUADRATIC = BASE.replace(
    activation="x**2-1", teacher="sign", n_step=1920, inputs=None, noise=1.0, eta=gs.Step(0.5, 0.5)
)


@pytest.mark.statistical
@pytest.mark.parametrize("damping", [math.inf, pytest.param(5.0, marks=pytest.mark.statistical)])
def test_rows_of_a_quadratic_activation_reach_zero(damping):
    problem = QUADRATIC.replace(width=480, damping=damping)
    law = weight_spectrum(problem).after
    assert law.bands[0].lower == 0
    values = gs.Network(problem, 3).weight_spectrum().after ** 2
    assert 240 * np.abs(law.cumulative(values) - (np.arange(240) + 0.5) / 240).max() < 4


@pytest.mark.parametrize("damping", [pytest.param(math.inf, marks=pytest.mark.statistical), 5.0])
def test_a_square_layer_of_a_quadratic_activation(damping):
    # Two square factors whose singular values reach zero have a density like x^(-2/3).
    problem = QUADRATIC.replace(width=240, damping=damping)
    law = weight_spectrum(problem).after
    assert law.bands[0].lower == 0
    assert law.cumulative(8e-9) / law.cumulative(1e-9) == pytest.approx(2, rel=1e-2)
    values = gs.Network(problem, 3).weight_spectrum().after ** 2
    assert 240 * np.abs(law.cumulative(values) - (np.arange(240) + 0.5) / 240).max() < 4


def test_a_band_whose_edge_does_not_move_ends_the_search(monkeypatch):
    # Panels for a density like x^(-1/2) do not resolve one like x^(-2/3).
    edge = stieltjes._edge
    monkeypatch.setattr(stieltjes, "_edge", lambda *known: edge(*known)._replace(power=2))
    problem = QUADRATIC.replace(width=240, damping=math.inf)
    equations, _ = parts_of(problem)
    with pytest.raises(NotConverged):
        find_law(equations, [0.12])


def test_the_bulk_has_an_eigenvalue_of_its_own_along_the_teacher():
    # An even activation has no spike, but what the samples add along the teacher stretches all rows.
    problem = BASE.replace(
        activation="abs(x)", teacher="x**2-1", inputs=None, damping=math.inf, n_step=1920, eta=gs.Step(1.0, 0.5)
    )
    theory = weight_spectrum(problem)
    tops = [gs.Network(problem, seed).weight_spectrum(leading=1).leading[0] for seed in range(10)]
    for name, allowed in (("singular_value", 0.02), ("teacher_overlap", 0.02)):
        values = np.array([getattr(top, name) for top in tops])
        error = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - getattr(theory.outlier, name)) < 3 * error + allowed * values.mean(), name
    assert theory.outlier.singular_value**2 > 1.2 * theory.after.edge
    assert theory.outlier.readout_overlap == pytest.approx(0, abs=1e-6)


@pytest.mark.statistical
def test_the_outlier_is_the_largest_of_two():
    # The spike is orthogonal to the teacher, along which the bulk has an eigenvalue of its own.
    problem = BASE.replace(activation="relu", teacher="x**2-1", inputs=None, damping=math.inf, n_step=1920)
    theory, draws = weight_spectrum(problem), 12
    runs = [gs.Network(problem, seed).weight_spectrum(leading=2).leading for seed in range(draws)]
    for name, allowed in (("singular_value", 0.02), ("gradient_overlap", 0.005), ("readout_overlap", 0.01)):
        values = np.array([getattr(run[0], name) for run in runs])
        error = values.std(ddof=1) / math.sqrt(draws)
        assert abs(values.mean() - getattr(theory.outlier, name)) < 3 * error + allowed * values.mean(), name
    second = [run[1].singular_value for run in runs]
    assert np.mean(second) > 1.02 * math.sqrt(theory.after.edge)


def test_rows_of_a_gaussian_readout_end_at_the_largest_of_as_many_draws():
    random = np.random.default_rng(2)
    for width in (30, 1000):
        weight, readout = module._readout(BASE.replace(readout="gaussian", width=width))
        assert weight @ readout**2 == pytest.approx(1)
        largest = np.abs(random.standard_normal((4000, width))).max(axis=1)
        # The mean square that is lost beyond makes the others longer by a few per cent.
        assert 0.3 < np.mean(largest > readout.max()) < 0.55
    # As many as they like: the law itself.
    weight, readout = module._readout(BASE.replace(readout="gaussian", width=10**9))
    assert weight @ readout**4 == pytest.approx(3, rel=1e-6)


@pytest.mark.parametrize("inputs", [None, THREE])
def test_refusals(inputs):
    with pytest.raises(InvalidInput) as refused:
        weight_spectrum(BASE.replace(inputs=inputs), rows="isotropic")
    assert refused.value.field == "rows"
    with pytest.raises(InvalidInput) as refused:
        weight_spectrum(BASE.replace(inputs=inputs, output_scale="1/sqrt(N)", activation="relu"))
    assert refused.value.field == "output_scale"
