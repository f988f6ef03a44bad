"""Steps of other draws: what they add up to, and gradients that were drawn."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import scalar_function
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.direction_draws import direction_draws
from gradstep.theory.step.drawn_steps import _polynomials, drawn_steps, law_of_draw
from gradstep.theory.step.statistics import step_statistics
from gradstep.theory.step.weighted_samples import residual_law

PROBLEM = gs.Problem(
    activation="tanh", teacher="sin(1.5*x)+0.3*x**2", d=2_000_000, width=2_000_000, n_step=2_500_000, n=2_000_000,
    eta=gs.Step(1.0, 0.5), ridge=1.0, noise=0.3, readout="constant",
    inputs={"eigenvalues": [6, 1, 0.2], "share": [0.1, 0.5, 0.4], "teacher": [0.5, 0.2, 0.3]},
)  # fmt: skip


def test_classes_add_up_to_the_alignment_and_the_length_of_the_whole_gradient():
    # The one from independent numbers in each class of directions, the other from the minimum of a quadratic form.
    sizes = sizes_of(PROBLEM)
    step = step_statistics(PROBLEM, sizes.d, sizes.width, sizes.n_step)
    pairs = list(drawn_steps(PROBLEM, step, sizes))
    half = np.array([[numbers(up)[k] - numbers(down)[k] for k in range(3)] for up, down, _ in pairs]) / 2
    expected = direction_draws(DampedSamples(step.correlated, 1e9), sizes.n_step).covariance
    found = half.T @ half
    # b.theta, the bulk in units of r^2, and |theta|^2.
    scale = np.array([1, step.correlated.law.square / step.bulk, 1])
    chosen = np.ix_([0, 2, 4], [0, 2, 4])
    np.testing.assert_allclose(found * np.outer(scale, scale), expected[chosen], rtol=3e-5)


@pytest.mark.parametrize("damping", [1.0, 0.1])
def test_the_direction_of_a_damped_step_has_its_alignment_and_length_from_the_classes(damping):
    problem = PROBLEM.replace(damping=damping)
    sizes = sizes_of(problem)
    step = step_statistics(problem, sizes.d, sizes.width, sizes.n_step)
    pairs = list(drawn_steps(problem, step, sizes))
    half = np.array([[numbers(up)[k] - numbers(down)[k] for k in range(3)] for up, down, _ in pairs]) / 2
    expected = direction_draws(step.correlated, sizes.n_step).covariance
    scale = np.array([1, step.correlated.law.square / step.bulk, 1])
    expected = expected[np.ix_([0, 2, 4], [0, 2, 4])]
    found = half.T @ half * np.outer(scale, scale)
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5 * expected.max())


def test_a_damped_step_leaves_no_freedom_beside_the_teacher_to_a_class_of_one_direction():
    inputs = {"eigenvalues": [3, 2, 1], "teacher": [0.4, 0.3, 0.3]}
    alone = PROBLEM.replace(d=3, width=3, n_step=3, n=3, inputs=inputs, damping=1.0)
    sizes = sizes_of(alone)
    step = step_statistics(alone, sizes.d, sizes.width, sizes.n_step)
    pairs = list(drawn_steps(alone, step, sizes))
    # Three averages over the samples, and the three components along the teacher's parts.
    assert len(pairs) == 3 + 3
    assert all(np.ptp(one.correlated.turn.noise) == 0 for pair in pairs for one in pair[:2])


def numbers(step):
    return step.alignment * step.gradient_norm, step.bulk, step.gradient_norm**2


def test_a_class_of_one_direction_has_no_freedom_beside_the_teacher():
    # Then the noise is all along the teacher's part in the class, and the length of it is no number of its own.
    alone = PROBLEM.replace(d=3, width=3, n_step=3, n=3, inputs={"eigenvalues": [3, 2, 1], "teacher": [0.4, 0.3, 0.3]})
    sizes = sizes_of(alone)
    step = step_statistics(alone, sizes.d, sizes.width, sizes.n_step)
    # Three averages over the samples, and where the teacher's part is among the three.
    assert len(list(drawn_steps(alone, step, sizes))) == 3 + 2


def test_polynomials_are_orthonormal_where_there_is_weight():
    values, weight = np.array([5.0, 2.0, 1.0, 0.5]), np.array([0.2, 0.0, 0.5, 0.3])
    found = _polynomials(values, weight)
    np.testing.assert_allclose((found * weight) @ found.T, np.eye(3), atol=1e-12)
    assert np.all(found[:, 1] == 0)
    assert found[0] == pytest.approx(found[0, 0] * (weight > 0))


def averages(r, u):
    return np.array([np.mean(r * u, axis=-1), np.mean(r**2, axis=-1), np.mean(r, axis=-1)])


def averages_of(law):
    return np.array([law.mean(law.residual * law.projection), law.square, law.mean(law.residual)])


def test_the_law_of_a_draw_has_its_averages():
    law = residual_law(scalar_function("sin(x)+0.5*(x**2-1)"), 0.2, 0.3)
    change = np.array([3e-4, -5e-4, 2e-4])
    found = law_of_draw(law, change)
    scale = np.sqrt(found.weight @ law.projection**2)
    means = [found.mean(found.residual * found.projection) * scale, found.square, found.mean(found.residual)]
    expected = [law.mean(law.residual * law.projection), law.square, law.mean(law.residual)]
    np.testing.assert_allclose(np.subtract(means, expected), change, rtol=1e-6)
    assert found.mean(found.projection**2) == pytest.approx(1, rel=1e-12)
    assert found.weight.sum() == pytest.approx(1, rel=1e-12)
    # With the average of r u^2 the projections keep the mean square that goes with them.
    four = np.append(change, 7e-4)
    found = law_of_draw(law, four)
    drawn, mean = (
        np.array([*averages_of(each), each.mean(each.residual * each.projection**2)]) for each in (found, law)
    )
    np.testing.assert_allclose(drawn - mean, four, rtol=1e-6)
    assert np.array_equal(found.projection, law.projection)
    # Of a residual that is linear in u two of the three are the same number.
    linear = residual_law(scalar_function("x"), 0.0, 0.0)
    found = law_of_draw(linear, np.array([1e-3, 1e-3, 0.0]))
    assert found.square - linear.square == pytest.approx(1e-3, rel=1e-6)
    assert np.array_equal(law_of_draw(law, np.zeros(3)).residual, law.residual)


def test_other_averages_of_drawn_samples_follow_those_that_are_known():
    # The regression of drawn averages, over the mean square of u, on the three that are known.
    link, count, random = scalar_function("sin(x)+0.5*(x**2-1)"), 1000, np.random.default_rng(3)
    law = residual_law(link, 0.2, 0.3)
    u = random.standard_normal((6000, count))
    r = np.asarray(link(u)) - 0.2 + 0.3**0.5 * random.standard_normal(u.shape)
    known = averages(r, u)
    scale = np.mean(u**2, axis=1)
    others = np.array([np.mean(r * u**2, axis=1) / scale, np.mean(r**2 * u, axis=1) / np.sqrt(scale)])
    known, others = (each - each.mean(axis=1, keepdims=True) for each in (known, others))
    inverse = np.linalg.inv(known @ known.T)
    slopes = others @ known.T @ inverse
    left = others - slopes @ known
    error = np.sqrt(np.outer(left.var(axis=1), np.diagonal(inverse)))
    expected = np.empty((2, 3))
    for k, change in enumerate(1e-4 * np.eye(3)):
        up, down = (law_of_draw(law, sign * change) for sign in (1, -1))
        for j, power in enumerate(((1, 2), (2, 1))):
            high, low = (each.mean(each.residual ** power[0] * each.projection ** power[1]) for each in (up, down))
            expected[j, k] = (high - low) / 2e-4
    assert np.all(np.abs(slopes - expected) < 4 * error), (slopes - expected) / error
    assert np.all(np.abs(expected[0]) > 20 * error[0])
