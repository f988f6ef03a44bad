"""The own output of order one on correlated inputs: mean rows and averages of drawn networks, isotropic inputs."""

import math
from dataclasses import replace

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.problem import link_of
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_output import ClassMeanRow
from gradstep.theory.step.correlated_samples import CorrelatedSamples, OwnOutput, Spectrum
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
        c, share, teacher = (np.array(x) for x in (problem.inputs.eigenvalues, problem.inputs.share, problem.inputs.teacher))
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


@pytest.mark.parametrize("damping", [math.inf, 0.5])
def test_the_mean_row_of_drawn_steps_differs_between_classes(damping):
    problem = BASE.replace(damping=damping)
    step = step_statistics(problem, problem.d, problem.width, problem.n_step)
    row, left, noises = ClassMeanRow.of(problem, step, problem.width), [], []
    for seed in range(16):
        drawn = Drawn(problem, seed)
        mean = drawn.a @ drawn.step(problem) / (drawn.width * problem.readout.second_moment)
        left.append(drawn.in_classes(drawn.f, mean) / drawn.in_classes(drawn.f, drawn.f) / row.unit)
    left = np.array(left)
    error = left.std(axis=0, ddof=1) / math.sqrt(len(left))
    expected = row.left / row.unit
    # What is left of the mean row has another sign in the two classes, or is far from equal there.
    assert abs(expected[0] - expected[1]) > 20 * error.max()
    np.testing.assert_array_less(np.abs(left.mean(axis=0) - expected), 3.5 * error + 0.03 * np.abs(expected).max())
