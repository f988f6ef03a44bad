"""What rows of second degree add on correlated inputs: explicit matrices, rows of real steps, limits."""

import math
from dataclasses import replace

import numpy as np
import pytest

import gradstep as gs
from gradstep.problem import link_of
from gradstep.theory.neurons.groups import neuron_groups
from gradstep.theory.step.correlated_output import ClassMeanRow
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
    """Eigenvalues of C, the class of each direction, and a teacher with the given part in each class.

    The samples of a draw have the same seed, and another stream.
    """
    share, parts = np.array(inputs.share), np.array(inputs.teacher)
    place = np.repeat(np.arange(len(share)), np.round(share * d).astype(int))
    drawn = np.random.default_rng([seed, 1]).standard_normal(d)
    length = np.sqrt(np.bincount(place, drawn**2))
    eigenvalues = np.array(inputs.eigenvalues) / np.dot(share, inputs.eigenvalues)
    return eigenvalues[place], place, drawn / length[place] * np.sqrt(parts)[place]


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
    # Of rows on the sphere to leading order.
    third = np.trace(np.linalg.matrix_power(with_c - sphere * length * np.eye(d), 3))
    assert form.third_moment(d, sphere=sphere) == pytest.approx(third / d, rel=1e-6)
    assert form.along == pytest.approx(v @ (c * (with_c @ v)), rel=1e-6)


@pytest.mark.parametrize("sphere", [False, True])
def test_what_the_projection_tells_of_the_row_is_known_entry_by_entry(sphere):
    """Covariances of two quadratic forms are traces of two matrices: equations (C8a) and (C8b), with all samples."""
    case = problem(n_step=math.inf, initial_weights="sphere" if sphere else "gaussian")
    _, found, e = steps(case)
    samples, d = found.correlated, 200
    c, place, b = directions(d)
    # The spike along the mean row, which is not C b.
    v = samples.signal[place] * c * b
    v /= np.linalg.norm(v)
    law = samples.law
    third, rest = law.mean(law.residual * (law.projection**3 - 3 * law.projection)), b - v * (v @ b)

    def form(x, length=0.0):
        half = samples.linear * np.outer(c * x, b)
        return length * np.eye(d) + half + half.T + third * (b @ (c * x)) * np.outer(b, b)

    with_c, known = form(v, samples.norm) * c, _Form.of(samples)
    vectors = np.stack([c * b, c**2 * b, c**3 * b, c**3 * v])
    for x in (rest, *np.random.default_rng(0).standard_normal((3, d))):
        aside = x - v * (v @ x)
        expected = np.trace(form(aside) * c @ with_c) - sphere * np.trace(form(aside) * c) * np.trace(with_c) / d
        assert known.vector(d, sphere=sphere) @ (vectors @ aside) == pytest.approx(expected, rel=1e-6)
    of_teacher = b @ (c * (with_c @ b)) - sphere * np.trace(with_c) / d * (b @ (c * b))
    assert known.of_teacher(d, sphere=sphere) == pytest.approx(of_teacher, rel=1e-6)
    # Of the teacher's rest nothing is left to diagonals.
    along = found.fluctuations.bend_vector @ (vectors @ rest) / np.linalg.norm(rest)
    assert found.fluctuations.bend_rest == pytest.approx(along, rel=1e-6)
    size, norm = e * derivative_moments(case.activation).second, found.own_component_norm
    # The square of a component along bt, over its mean, has a variance of two.
    of_form = size / 2 * 2 * of_teacher / d**2 / (b @ (c * b) / d)
    assert np.array(found.fluctuations.bend_norm) / d == pytest.approx([norm * of_form, 2 * norm**2], rel=1e-6)


def cubic(teacher, size):
    """Return a problem in which all of a row is of the first and second degree, and hardly anything is noise."""
    inputs = gs.Inputs(LEVELS.eigenvalues, LEVELS.share, teacher)
    return problem(activation="x+0.1*hermite3(x)", teacher="x", inputs=inputs, n_step=8000, eta=gs.Step(size, 0.5))


def network_rows(case, seed):
    """Return whitened rows of a network before the step and after it, and the unit vector of their mean change."""
    network = gs.Network(case, seed)
    before, after = (np.asarray(network.law.times_root(rows)) for rows in (network.before, network.after))
    v = (after - before).mean(axis=0)
    return network, before, after, v / np.linalg.norm(v)


@pytest.mark.parametrize("teacher", [[0.6, 0.2, 0.2], [0.1, 0.2, 0.7]])
def test_rows_beside_the_spike_follow_the_projection_as_in_networks(teacher):
    """Equation (C8a), along the teacher's rest."""
    case, d, measured = cubic(teacher, 2.0), 200, []
    theory = steps(case)[1].fluctuations.bend_rest / d**2
    for seed in range(24):
        network, before, after, v = network_rows(case, seed)
        b = np.asarray(network.law.directions(case.teacher, d))[0]
        rest = b - v * (v @ b)
        along, own = (rows @ v - (rows @ v).mean() for rows in (after, before))
        # What is linear in the row has a covariance of its own, which the variances of the directions know.
        bent = along - own * (along @ own) / (own @ own)
        measured.append(bent @ after @ rest / np.linalg.norm(rest) / len(along))
    error = np.std(measured, ddof=1) / len(measured) ** 0.5
    assert abs(np.mean(measured) - theory) < 3.5 * error < 3.5 / 8 * abs(theory)


def test_projections_are_skewed_as_in_networks():
    """Equation (C8c): of the two parts the second is two fifths."""
    case, d, measured = cubic([0.6, 0.2, 0.2], 0.5), 200, []
    law = steps(case)[1].fluctuations
    theory = sum(law.bend_third) / d**2
    for seed in range(40):
        _, _, after, v = network_rows(case, seed)
        measured.append(((after @ v - (after @ v).mean()) ** 3).mean())
    error = np.std(measured, ddof=1) / len(measured) ** 0.5
    assert abs(np.mean(measured) - theory) < 3.5 * error < 3.5 / 6 * theory


def test_norms_follow_the_projection_as_in_networks():
    """Equation (C8b) is the leading order in the step: a half of what is missing otherwise in a step of this size."""
    case, measured = cubic([0.1, 0.2, 0.7], 0.5), []
    _, found, _ = steps(case)
    without = replace(found, fluctuations=replace(found.fluctuations, bend_norm=(0.0, 0.0)))
    theory = []
    for each in (found, without):
        groups = neuron_groups(each, case.readout, 200.0, odd=True)
        mean = groups.weight @ groups.projection
        theory.append(groups.weight @ ((groups.projection - mean) * groups.variance))
    for seed in range(64):
        _, _, after, v = network_rows(case, seed)
        along = after @ v
        measured.append(((along - along.mean()) * ((after**2).sum(axis=1) - along**2)).mean())
    error = np.std(measured, ddof=1) / len(measured) ** 0.5
    assert abs(np.mean(measured) - theory[0]) < 3.5 * error < abs(np.mean(measured) - theory[1])


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


@pytest.mark.statistical
@pytest.mark.parametrize("damping", [math.inf, pytest.param(1.0, marks=pytest.mark.statistical)])
def test_the_mean_row_is_that_of_real_steps(damping):
    """Along the teacher, in each class of directions: equation (C6)."""
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


def test_the_norm_is_that_of_real_steps():
    """Off the spike, without what samples make, which is the bulk: equation (C7). Damped steps have the same draws."""
    cases = [problem(damping=damping, n_step=20_000) for damping in (math.inf, 1.0)]
    d, known, expected, differences = 200, [steps(case) for case in cases], [], []
    for case, (step, found, e) in zip(cases, known, strict=True):
        samples, bend = step.correlated, e * derivative_moments(case.activation).second
        alike = (bend * samples.linear) ** 2 * float(samples.spectrum.share @ samples.made) ** 2 * (1 - 1 / d) / d
        expected.append(found.own_component_norm + alike)
    for seed in range(5):
        change, found = None, []
        for case, (step, _, e) in zip(cases, known, strict=True):
            random, c, _, b, v, z, r, metric = drawn(case, seed)
            linear, bend = step.correlated.linear, e * derivative_moments(case.activation).second
            if change is None:
                rows = random.standard_normal((300, d)) * np.sqrt(c / d)
                change = (((rows @ z.T) ** 2 - z**2 @ c / d) * r) @ z / len(z)
            own = bend / 2 * change @ metric
            norm = (own**2).sum(axis=1) - (own @ v) ** 2
            # The noise of the samples is a bulk: of degree two it has half of this mean square.
            noise = bend**2 / 2 * np.mean(r**2) / len(z) * np.trace(metric @ (z.T @ z / len(z)) @ metric)
            # The component along the teacher and the stretched row are not independent.
            both = metric @ (c * b) / d
            both = 2 * (bend * linear) ** 2 * (both @ both - (both @ v) ** 2)
            found.append(norm.mean() - noise - both)
        differences.append(np.array(found) - expected)
    error = np.std(differences, axis=0, ddof=1) / len(differences) ** 0.5
    assert np.all(np.abs(np.mean(differences, axis=0)) < 3.5 * error)
    assert np.all(expected > 10 * error)


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


@pytest.mark.parametrize("changes", [{"activation": "relu"}, {"eta": 0.0}])
def test_without_a_second_degree_or_a_step_nothing_is_added(changes):
    # A ReLU has E[(z^2 - 1) sigma'] = 0.
    step, found, _ = steps(problem(**changes))
    assert found is step


@pytest.mark.parametrize(
    ("ratio", "damping"),
    [
        (0.3, math.inf),
        (1.0, math.inf),
        (0.8, 1e-4),
        pytest.param(1.0, 0.1, marks=pytest.mark.statistical),
        (0.5, 1.0),
        pytest.param(1.0, 10.0, marks=pytest.mark.statistical),
    ],
)
def test_few_samples_turn_the_mean_row_as_they_turn_real_steps(ratio, damping):
    """The noise of the gradient has the second degree too: first order of the length and the alignment of each draw."""
    case = problem(teacher="tanh(2*x)", n_step=round(200 * ratio), damping=damping)
    step, found, e = steps(case)
    bend = e * derivative_moments(case.activation).second
    changes = []
    for seed in range(400):
        _, c, _, b, _, z, r, metric = drawn(case, seed)
        # The mean over initial rows, without what isotropic inputs have.
        beyond = z**2 @ (c - 1) / len(c)
        weights = [r + sign * bend / 2 / step.gain * beyond * r for sign in (1, -1)]
        gradients = np.array([step.gain * weight @ z / len(z) @ metric for weight in weights])
        lengths = np.linalg.norm(gradients, axis=1)
        overlaps = gradients @ b / lengths
        # What the weights add of second order is noise, which is as large for both signs.
        changes.append([math.log(lengths[0] / lengths[1]) / 2, (overlaps[0] - overlaps[1]) / 2])
    error = np.std(changes, axis=0, ddof=1) / len(changes) ** 0.5
    expected = np.array([found.spike / step.spike - 1, found.alignment - step.alignment])
    # A first order: its square is left out, of the size of the change of the length.
    left = abs(expected[0]) * np.abs(expected)
    assert np.all(np.abs(np.mean(changes, axis=0) - expected) < 3.5 * error + left), (
        np.mean(changes, axis=0),
        expected,
    )
    assert np.any(np.abs(expected) > 10 * error)


@pytest.mark.parametrize("damping", [math.inf, 0.1])
def test_the_noise_given_an_own_output_is_that_of_real_steps(damping):
    """The metric and the weights of the samples know what residuals hold of the output: in each class of directions."""
    changes = {"activation": "x-0.02*(x**3-3*x)", "teacher": "x", "output_scale": "1/sqrt(N)", "eta": 0.2}
    case = problem(n_step=400, damping=damping, **changes)
    step, found, e = steps(case)
    samples, turned, d = step.correlated, found.correlated, 200
    weight = e * derivative_moments(case.activation).second / (2 * d) / step.gain
    plain = damping == math.inf
    known = np.array([np.nan if plain else samples.noise(one) for one in np.eye(3)])
    expected = turned.turn.noise**2 if plain else np.array([turned.noise(one) for one in np.eye(3)]) / known
    spread = math.sqrt(samples.law.square - samples.linear**2 - samples.own.linear**2)
    measured = []
    for seed in range(200):
        random, c, place, b, _, z, _, metric = drawn(case, seed)

        def off(vector, along, place=place):
            """Return a vector without its part along another one in each class."""
            return vector - (np.bincount(place, vector * along) / np.bincount(place, along**2))[place] * along

        f = off(random.standard_normal(d), b)
        f *= np.sqrt(c / d * np.bincount(place)[place] / np.bincount(place, f**2)[place])
        r = z @ b + samples.own.linear * (z @ f) + spread * random.standard_normal(len(z))
        if plain:
            metric = np.eye(d)
        noise, more = (off(off(r * x @ z / len(z) @ metric, b), f) for x in (1.0, z**2 @ (c - 1)))
        measured.append([np.bincount(place, noise**2), 2 * weight * np.bincount(place, noise * more)])
    square, change = np.mean(measured, axis=0)
    relative = change / square
    error = np.std([m - relative * s for s, m in measured], axis=0, ddof=1) / len(measured) ** 0.5 / square
    assert np.all(np.abs(relative - (expected - 1)) < 3.5 * error), (relative, expected - 1, error)
    assert abs(relative[0]) > 4 * error[0]


@pytest.mark.parametrize(("activation", "noise"), [("erf", 0.1), ("sin", 0.0), ("tanh(x)+0.3*H2", 0.0)])
def test_hardly_any_damping_has_a_limit(activation, noise):
    """With fewer samples than directions the metric is as large as 1/damping where the samples are not."""
    inputs = gs.Inputs([2.0, 0.5], [1 / 3, 2 / 3])
    case = problem(
        activation=activation, teacher="x", noise=noise, inputs=inputs, n_step=160, eta=gs.Step(2.0, 0.5), d=200
    )
    found = gs.predict_many([case.replace(damping=damping) for damping in (1e-4, 1e-5, 1e-7)])
    errors = np.array([[p.test_error, p.train_error, p.alignment] for p in found])
    assert errors[0] == pytest.approx(errors[2], rel=5e-3)
    # Along a few directions rows are a million times as long as along others; cells of directions are coarse there.
    assert errors[1] == pytest.approx(errors[2], rel=2e-3 if "H2" in activation else 5e-4)


@pytest.mark.parametrize("scale", ["1/N", "1/sqrt(N)"])
@pytest.mark.parametrize("eta", [gs.Step(1.0, 0.5), 0.2])
def test_a_large_damping_is_the_plain_step(eta, scale):
    case = problem(output_scale=scale, eta=eta)
    plain, damped = (steps(case.replace(damping=damping))[1] for damping in (math.inf, 1e9))
    for name in ("spike", "alignment", "own_component_norm"):
        assert getattr(damped, name) == pytest.approx(getattr(plain, name), rel=1e-6), name
    for name in ("bend_third", "bend_variance", "bend_vector", "bend_norm", "bend_rest"):
        assert getattr(damped.fluctuations, name) == pytest.approx(getattr(plain.fluctuations, name), rel=1e-6), name
    errors = [[p.test_error, p.train_error] for p in gs.predict_many([case, case.replace(damping=1e8)])]
    assert errors[1] == pytest.approx(errors[0], rel=2e-6)


@pytest.mark.parametrize("damping", [1.0, 1e8])
@pytest.mark.parametrize("readout", ["constant", {-1.0: 0.5, 1.0: 0.5}, "gaussian"])
def test_it_grows_from_nothing_where_eigenvalues_are_equal(readout, damping):
    case = problem(readout=readout, damping=damping)
    equal, almost = (gs.Inputs([1 + width, 1 - width]) for width in (0.0, 1e-9))
    one, other = gs.predict_many([case.replace(inputs=None), case.replace(inputs=almost)])
    assert [other.test_error, other.train_error] == pytest.approx([one.test_error, one.train_error], rel=1e-6)
    one, other = (steps(problem(inputs=inputs, damping=damping))[1] for inputs in (equal, almost))
    assert np.abs(np.array(other.fluctuations.bend_third) - one.fluctuations.bend_third).max() < 1e-6
    assert abs(one.own_component_norm) < 1e-10


@pytest.mark.parametrize("damping", [math.inf, 1.0])
def test_a_mean_derivative_of_nothing_makes_no_jump(damping):
    """The first order over a small gain is cut, so that the spike vanishes with the gain, and nothing else does."""
    cases = [problem(activation=f"(x**3-3*x)/6+{mean}*x", damping=damping) for mean in ("1e-13", "0")]
    tiny, none = (steps(case)[1] for case in cases)
    assert abs(tiny.spike) < 1e-11
    assert none.spike == 0
    assert none.own_component_norm > 0.05
    assert tiny.own_component_norm == pytest.approx(none.own_component_norm, rel=1e-9)
    for name in ("bend_third", "bend_variance", "bend_vector", "bend_norm", "bend_rest"):
        assert getattr(tiny.fluctuations, name) == pytest.approx(getattr(none.fluctuations, name), rel=1e-9), name
    one, other = gs.predict_many(cases)
    assert [other.test_error, other.train_error] == pytest.approx([one.test_error, one.train_error], rel=1e-6)


def test_the_spike_given_an_own_output_has_overlaps_below_one():
    case = problem(output_scale="1/sqrt(N)", eta=0.2)
    _, found, _ = steps(case)
    for along_common in (False, True):
        row = ClassMeanRow.of(case, found, 300.0)
        samples = row.resolved(found, along_common=along_common).correlated
        overlap = row._overlap(samples, 1.0, row.along if along_common else 0 * row.left)
        assert 0.5 < overlap < 1 + 1e-9
