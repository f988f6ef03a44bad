"""The own output of order one on correlated inputs: mean rows and averages of drawn networks, isotropic inputs."""

import math
from dataclasses import replace

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import scalar_function
from gradstep.problem import link_of
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.groups import neuron_groups
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_output import ClassMeanRow
from gradstep.theory.step.correlated_samples import CorrelatedSamples, OwnOutput, Spectrum, SpikeBeside, words_trace
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.damped_traces import DampedTraces
from gradstep.theory.step.samples import step_samples
from gradstep.theory.step.statistics import step_statistics

BASE = gs.Problem(
    activation="tanh(x)+0.3*(x**2-1)", teacher="x+0.5", d=400, width=400, n_step=800, n=800, eta=gs.Step(0.6, 0.5),
    ridge=4.0, noise=0.3, readout={0.5: 0.5, 2: 0.5}, inputs=gs.Inputs([4, 0.25], [0.2, 0.8], [0.5, 0.5]),
    output_scale="1/sqrt(N)",
)  # fmt: skip


class Drawn:
    """A step on whitened inputs, drawn: a linear output, or the rows of a whole network."""

    def __init__(self, problem: gs.Problem, seed: int) -> None:
        rng, d, self.width = np.random.default_rng(seed), problem.d, problem.width
        c, share, teacher = (
            np.array(x) for x in (problem.inputs.eigenvalues, problem.inputs.share, problem.inputs.teacher)
        )
        self.classes = np.repeat(np.arange(len(c)), np.rint(share * d).astype(int))
        self.c = c[self.classes]
        self.teacher = np.sqrt((teacher / share)[self.classes] / d)
        values = problem.readout.values
        self.a = rng.permutation(np.resize(values, self.width))
        self.rows = rng.standard_normal((self.width, d)) * np.sqrt(self.c / d)
        self.f = self.a @ self.rows / math.sqrt(self.width)
        self.z = rng.standard_normal((problem.n_step, d))
        noise = problem.noise * rng.standard_normal(problem.n_step)
        self.labels = np.asarray(link_of(problem.teacher)(self.z @ self.teacher)) + noise
        delta, second = problem.damping, self.z.T @ self.z / problem.n_step
        self.metric = np.diag(self.c)
        if delta < math.inf:
            self.metric = (1 + delta) * np.linalg.inv(second + np.diag(delta / self.c))

    def step(self, problem: gs.Problem) -> np.ndarray:
        """Return the rows after the step."""
        activation, hidden = problem.activation, self.z @ self.rows.T
        residual = self.labels - np.asarray(activation(hidden)) @ self.a / math.sqrt(self.width)
        gradient = (self.z.T @ (residual[:, None] * np.asarray(activation.derivative(hidden)))).T / len(self.z)
        size = problem.eta.size(self.width) / math.sqrt(self.width)
        return self.rows + size * self.a[:, None] * gradient @ self.metric

    def in_classes(self, vector: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.bincount(self.classes, vector * other)


@pytest.mark.parametrize("damping", [pytest.param(math.inf, marks=pytest.mark.statistical), 0.5])
def test_the_mean_row_of_drawn_steps_differs_between_classes(damping):
    problem = BASE.replace(damping=damping)
    step = step_statistics(problem, problem.d, problem.width, problem.n_step)
    row, left = ClassMeanRow.of(problem, step, problem.width), []
    for seed in range(16):
        drawn = Drawn(problem, seed)
        mean = drawn.a @ drawn.step(problem) / (drawn.width * problem.readout.second_moment)
        left.append(drawn.in_classes(drawn.f, mean) / drawn.in_classes(drawn.f, drawn.f) / row.unit)
    left = np.array(left)
    error = left.std(axis=0, ddof=1) / math.sqrt(len(left))
    expected = row.left / row.unit
    # The same factor in both classes would be far off.
    assert abs(expected[0] - expected[1]) > 10 * error.max()
    np.testing.assert_array_less(np.abs(left.mean(axis=0) - expected), 3.5 * error + 0.03 * np.abs(expected).max())


#: Leading directions, whose squared eigenvalue is no small part of d.
LEADING = gs.Inputs([12.0, 29 / 39], [0.025, 0.975], [0.5, 0.5])


@pytest.mark.parametrize("damping", [math.inf, pytest.param(2.0, marks=pytest.mark.statistical)])
@pytest.mark.parametrize(
    ("activation", "seeds"),
    # Of the last one, small directions would be shrunk without the term that is along the row in all of them.
    [("tanh(x)+0.3*(x**2-1)", 12), ("relu(x)-1/sqrt(2*pi)", 12), ("abs(x)-sqrt(2/pi)+x", 32)],
)
def test_what_the_quadratic_output_stretches_differs_between_classes(activation, seeds, damping):
    problem = BASE.replace(activation=activation, damping=damping, inputs=LEADING, teacher="x", eta=3.0)
    step, found = step_statistics(problem, problem.d, problem.width, problem.n_step), []
    for seed in range(seeds):
        drawn = Drawn(problem, seed)
        before, after = (rows[drawn.a == 2] for rows in (drawn.rows, drawn.step(problem)))
        before, after = before - before.mean(axis=0), after - after.mean(axis=0)
        products = (np.bincount(drawn.classes, (before * rows).sum(axis=0)) for rows in (after, before))
        found.append(np.divide(*products))
    made, known = step.correlated.made, step.correlated.spectrum
    # The term of the row's own feature is along P times the row; theory has its mean over the row's directions.
    by_row = 4 * step.own_drift[1] * made / (known.share @ (known.eigenvalue * made))
    expected = 1 + 2 * step.class_drift * made + by_row
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(len(found))
    # In the mean over all directions it would be far off. What is left out is of order c / d: .03 for the first.
    assert abs(expected[0] - expected[1]) > 10 * error.max()
    np.testing.assert_array_less(np.abs(mean - expected), 3.5 * error + 0.06 * np.abs(expected - 1))


def with_linear_output(ratio: float, noise: float, slope: float, spectrum: Spectrum, damping: float = math.inf):
    """Return samples of residuals ``u + .4 (u^2 - 1) - slope t + noise``, by the rule of isotropic inputs."""
    variance = noise**2 + slope**2
    alike = step_samples(scalar_function("x+0.4*(x**2-1)"), 0.3, variance, ratio, -slope)
    own = OwnOutput(-slope, alike.output, alike.output_variance)
    samples = CorrelatedSamples(alike.law, ratio, alike.linear, spectrum, own=own)
    return alike, samples if damping == math.inf else DampedSamples(samples, damping)


def test_averages_of_equal_eigenvalues_are_those_of_isotropic_inputs():
    # They are other formulas: sums over all directions there, over powers of C here.
    alike, found = with_linear_output(0.4, 0.5, 0.9, Spectrum(*np.ones((3, 1))))
    norm = alike.norm
    assert found.norm == pytest.approx(norm, rel=1e-10)
    np.testing.assert_allclose(found.along(2) / norm, alike.along, rtol=1e-9, atol=1e-9)
    assert found.spread(2, 2) / norm**2 == pytest.approx(alike.spread, rel=1e-9)
    assert found.stretched_form() / norm**2 == pytest.approx(alike.form_square, rel=1e-9)
    assert found.squares_between() / norm == pytest.approx(alike.form_with_squares, rel=1e-9)
    assert found.square(found.law.residual) / norm**2 == pytest.approx(alike.form_along, rel=1e-9)
    assert found.squares_form(0) - (found.crossed_form(0) / norm) ** 2 == pytest.approx(alike.squares_off, rel=1e-9)
    row = ClassMeanRow(found, power=1.0, gain=1.0, slope=0.9, unit=1.0, stretch=np.zeros(1), skewness=0.0, second=1.0)
    random_norm = math.sqrt(found.ratio * found.law.square)
    assert row._by_random * random_norm == pytest.approx(alike.output_along_random, rel=1e-9)
    assert math.sqrt(row._off_random) == pytest.approx(alike.output_off_random, rel=1e-9)


class DrawnSamples:
    """Samples of a linear output, with two classes of directions."""

    def __init__(self, seed: int, spectrum: Spectrum, ratio: float, noise: float, slope: float, damping: float) -> None:
        rng, d = np.random.default_rng(seed), 400
        classes = np.repeat([0, 1], np.rint(spectrum.share * d).astype(int))
        self.c, self.d = spectrum.eigenvalue[classes], d
        self.teacher = np.sqrt((spectrum.teacher / spectrum.share)[classes] / d)
        self.f = rng.standard_normal(d) * np.sqrt(self.c / d)
        self.f -= self.teacher * (self.teacher @ self.f)
        self.f /= np.linalg.norm(self.f)
        z = rng.standard_normal((round(d / ratio), d))
        u = z @ self.teacher
        self.r = u + 0.4 * (u**2 - 1) - 0.3 - slope * z @ self.f + noise * rng.standard_normal(len(z))
        self.z = z
        self.metric = np.diag(self.c)
        if damping < math.inf:
            self.metric = (1 + damping) * np.linalg.inv(z.T @ z / len(z) + np.diag(damping / self.c))

    def weighted(self, power: int) -> np.ndarray:
        """Return the matrix of the samples weighted by a power of the residual."""
        return (self.z.T * self.r**power) @ self.z / len(self.z)

    def summed(self, power: int) -> np.ndarray:
        """Return the sum of the samples, weighted in the same way."""
        return self.z.T @ self.r**power / len(self.z)


LEVELS = Spectrum(np.array([2.5, 0.625]), np.array([0.2, 0.8]), np.array([0.5, 0.5]))
DRAWS = 10


def compared(drawn: list, expected) -> None:
    """Compare means of draws with what is expected, by their standard errors and 1/d."""
    values, expected = np.array(drawn), np.array(expected)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    scale = np.abs(expected).max() if expected.ndim else abs(expected)
    np.testing.assert_array_less(np.abs(values.mean(axis=0) - expected), 3.5 * error + 0.008 * scale)


@pytest.mark.parametrize("added", [np.zeros(2), np.array([-1.2, 0.5])])
def test_averages_of_drawn_samples_that_hold_an_own_output(added):
    found = replace(with_linear_output(0.5, 0.4, 0.9, LEVELS)[1], by_output=added)
    drawn = []
    for seed in range(DRAWS):
        one = DrawnSamples(seed, LEVELS, 0.5, 0.4, 0.9, math.inf)
        g, h, b = one.summed(1), one.summed(2), one.weighted(1) + np.diag(np.repeat(added, [80, 320]))
        spike = one.c**2 * g
        moved = np.sqrt(one.c) * (b @ spike)
        products = [g @ spike, h @ (one.c * (b @ spike)), moved @ moved, g @ (one.c * h), h @ (one.c * h)]
        drawn.append([np.trace((b * one.c**2) @ b * one.c) / one.d, *products])
    expected = [
        words_trace(found, [None, None], [2, 1]),
        found.form(2),
        found.squares_between(),
        found.stretched_form(),
        found.crossed_form(1),
        found.squares_form(1),
    ]
    for place, value in enumerate(expected):
        compared([each[place] for each in drawn], value)


def test_a_damped_direction_that_holds_an_own_output_is_that_of_drawn_samples():
    _, found = with_linear_output(0.5, 0.4, 0.9, LEVELS, damping=0.4)
    one, drawn = np.ones(2), []
    traces, r = DampedTraces(found), found.law.residual
    for seed in range(DRAWS):
        draw = DrawnSamples(seed, LEVELS, 0.5, 0.4, 0.9, 0.4)
        g, h, b = draw.summed(1), draw.summed(2), draw.weighted(1)
        theta = draw.metric @ g
        by_h = draw.c * h
        seen = [theta, draw.c * theta, draw.teacher, draw.f, by_h]
        seen += [draw.metric @ (b @ by_h), draw.metric @ (b @ (draw.c * g))]
        drawn.append([theta @ each for each in seen])
    along_f = float(found.directions[1].part @ found.along_output)
    expected = [found.quadratic(one), found.quadratic(LEVELS.eigenvalue), found.with_teacher(one), along_f]
    expected += [*traces.projected(r**2), traces.projected(r)[1]]
    for place, value in enumerate(expected):
        compared([each[place] for each in drawn], value)


#: A spike that has its own part along f in each class, and what the own output adds to B there.
BESIDE, ADDED = SpikeBeside(0.6, -0.5, np.array([2.2, -0.8]), 0.8), np.array([-1.2, 0.5])


@pytest.mark.parametrize(
    ("damping", "linear", "beside"),
    [
        (math.inf, 0.0, None),
        (0.4, 0.5, None),
        (math.inf, 0.5, BESIDE),
        pytest.param(math.inf, 0.0, BESIDE, marks=pytest.mark.statistical),
        pytest.param(math.inf, 0.5, None, marks=pytest.mark.statistical),
        pytest.param(0.4, 0.0, None, marks=pytest.mark.statistical),
    ],
)
def test_the_resolvent_between_the_spike_the_teacher_and_the_output_is_that_of_drawn_samples(damping, linear, beside):
    _, samples = with_linear_output(0.5, 0.4, 0.9, LEVELS, damping=damping)
    if beside:
        samples = replace(samples, beside=beside, by_output=ADDED if linear else None)
    z, strength = np.array([-0.5 + 0.4j, 1.5 + 0.5j]), 0.3
    if damping < math.inf:
        law = DampedLaw(samples, strength, linear, linear)
    elif linear:
        law = StretchedLaw(samples, linear, linear, strength, samples.own.mean, samples.own.variance)
    else:
        law = CorrelatedLaw(samples, strength)
    frame = samples.whole_frame(samples.alignment)
    np.testing.assert_allclose(frame.T @ samples.among(0) @ frame, np.eye(3), atol=1e-10)
    found, slope = law.between(z, frame)
    _, others = law.others(z, frame)
    drawn, products = [], []
    for seed in range(DRAWS):
        draw = DrawnSamples(seed, LEVELS, 0.5, 0.4, 0.9, damping)
        p, b, s = draw.metric, draw.weighted(1), draw.weighted(2) / np.mean(draw.r**2)
        stretched = np.eye(draw.d) + linear * p @ (b + np.diag(np.repeat(samples.added, [80, 320])))
        a = stretched @ np.diag(draw.c) @ stretched.T + strength * p @ s @ p
        spike = p @ draw.summed(1)
        if beside:
            # The noise of the samples is what the gradient has off the teacher and off f.
            along = [draw.teacher * (draw.teacher @ draw.summed(1)), draw.f * (draw.f @ draw.summed(1))]
            taught = draw.c * samples.linear * draw.teacher
            by_c = draw.c * beside.output_by_c * np.repeat(beside.signal, [80, 320])
            spike = taught + (beside.output + by_c) * draw.f
            spike += beside.random * draw.c * (draw.summed(1) - sum(along))
        vectors, _ = np.linalg.qr(np.stack([spike, draw.teacher, draw.f], axis=1))
        # The signs of a frame: along the spike, toward the teacher, toward f.
        vectors *= np.sign(np.diagonal(vectors.T @ np.stack([spike, draw.teacher, draw.f], axis=1)))
        resolved = [np.linalg.solve(a - each * np.eye(draw.d), vectors) for each in z]
        drawn.append([vectors.T @ each for each in resolved])
        products.append([each.T @ (draw.c * draw.summed(2)) for each in resolved])
    for part in (np.real, np.imag):
        compared([part(each) for each in drawn], part(found))
        compared([part(each) for each in products], part(others[..., 2]))
    shifted, _ = law.between(z + 1e-5, frame)
    back, _ = law.between(z - 1e-5, frame)
    np.testing.assert_allclose((shifted - back) / 2e-5, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("activation", "readout", "inputs", "damping"),
    [
        ("tanh(x)", {1.0: 0.5, -1.0: 0.5}, gs.Inputs([3.0, 0.5], [0.2, 0.8], [0.6, 0.4]), 0.5),
        pytest.param(
            "tanh(x)+0.1*(x**2-1)",
            "gaussian",
            gs.Inputs([0.3, 3.8], [0.8, 0.2], [0.9, 0.1]),
            0.3,
            marks=pytest.mark.statistical,
        ),
    ],
)
def test_norms_of_rows_after_a_step_are_those_of_networks(activation, readout, inputs, damping):
    """Their mean off the spike; the overlap of gradient and mean row is that of the plain gradient for any metric."""
    problem = BASE.replace(
        activation=activation, teacher="tanh(2*x)+0.2*x**2", readout=readout, inputs=inputs, damping=damping,
        d=200, width=260, n_step=1600, n=100, eta=gs.Step(1.2, 0.5), noise=0.2,
    )  # fmt: skip
    network = gs.simulate(problem, seeds=24)
    groups = neuron_groups(step_statistics(problem, 200, 260, 1600), problem.readout, 200, odd=False)
    deviation = groups.weight @ groups.variance - network.mean("bulk_variance")
    # Terms of the next order are 1/d.
    assert abs(deviation) < 3 * network.standard_error("bulk_variance") + 1 / 200
