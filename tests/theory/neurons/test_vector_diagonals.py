"""Directions in which vectors lie: their products with matrices that do not commute, and the numerics behind them."""

import math

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.neurons import vector_diagonals
from gradstep.theory.neurons.row_rules import resolved_law, rules
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.weighted_samples import residual_law
from gradstep.theory.together import result_of

LEVELS = gs.Inputs([4, 2, 1, 0.5, 0.25], [0.05, 0.15, 0.25, 0.35, 0.2], [0.2, 0.3, 0.2, 0.2, 0.1])
#: Readouts with their shares: of both signs, with a mean.
VALUES, SHARES = np.array([-1.0, 2.0]), np.array([0.3, 0.7])
#: Where equations of a fit have their poles.
Z = np.array([-0.05 + 0.03j, -0.7 + 0.4j, -6.0 + 3.0j])


def mean_law(k=0.26):
    """Return the mean law of rows that samples with odd residuals stretch, and the mean over the root mean square."""
    link = scalar_function("x")
    samples = CorrelatedSamples(residual_law(link, 0.0, 0.01), 1 / 3.52, moments(link).linear, Spectrum.of(LEVELS))
    first, root = float(SHARES @ VALUES), math.sqrt(float(SHARES @ VALUES**2))
    return StretchedLaw(samples, k * first, k * root, 0.0), first / root


def contrast(rho):
    a = VALUES / math.sqrt(float(SHARES @ VALUES**2))
    factors = np.stack([1 - a**2, 2 * a * (1 - a * rho)])
    return (SHARES * factors) @ factors.T


def found_rules(law, frame, **given):
    return result_of(rules(result_of(resolved_law(law, frame, 1, values=VALUES, **given))))


def errors(law, rho, frame, overlap, diagonals):
    """Return the largest errors of what rows of each readout have between vectors, over the largest of it."""
    average, off = law.average(frame), []
    sums = [(overlap.T * each) @ overlap for each in diagonals]
    for a in VALUES / math.sqrt(float(SHARES @ VALUES**2)):
        found, known = (
            c + 2 * a * b + a**2 * (average - c - 2 * rho * b) for c, b in (sums, law.product_averages(frame))
        )
        off.append(np.abs(found - known).max() / np.abs(known).max())
    return np.array(off)


def test_directions_have_the_products_of_the_vectors():
    law, rho = mean_law()
    frame = law.samples.frame(law.samples.alignment)
    known, alike = found_rules(law, frame, contrast=contrast(rho)), found_rules(law, frame)
    np.testing.assert_allclose(known.overlap.T @ known.overlap, np.eye(2), atol=1e-12)
    resolvents = [(known.overlap.T / (known.special - z)) @ known.overlap for z in Z]
    np.testing.assert_allclose(resolvents, law.between(Z, frame)[0], rtol=0, atol=1e-4)
    assert np.all(errors(law, rho, frame, known.overlap, known.special_diagonals) < [0.02, 0.005])
    # With one diagonal for both vectors rows of the readout -1 have a third too much along the teacher's rest.
    assert errors(law, rho, frame, alike.overlap, alike.special_diagonals)[0] > 0.1


def test_along_one_vector_of_a_spectrum_too():
    law, rho = mean_law()
    frame = law.samples.frame(law.samples.alignment)
    found = found_rules(law, frame, contrast=contrast(rho), spectrum=True)
    assert np.all(errors(law, rho, frame[:, :1], found.overlap[:, :1], found.special_diagonals) < 0.02)


@pytest.mark.parametrize("count", [1, 2])
def test_matrices_that_commute_become_diagonal(count):
    random = np.random.default_rng(count)
    basis = np.linalg.qr(random.standard_normal((20, count, count)))[0]
    matrices = (basis * random.standard_normal((2, 20, 1, count))) @ basis.mT
    factors = random.standard_normal((2, 2))
    turn = vector_diagonals._joint_basis(matrices, factors @ factors.T)
    np.testing.assert_allclose(turn.mT @ turn, np.broadcast_to(np.eye(count), turn.shape), atol=1e-12)
    turned = turn.mT @ matrices @ turn
    off = turned - turned * np.eye(count)
    np.testing.assert_allclose(off, 0, atol=1e-9)


def test_one_combination_that_matters_becomes_diagonal():
    # With readouts of two values rows differ by one combination of the matrices, which do not commute.
    random = np.random.default_rng(1)
    matrices = random.standard_normal((2, 30, 2, 2))
    matrices += matrices.mT
    factors = np.array([0.7, -1.3])
    turn = vector_diagonals._joint_basis(matrices, np.outer(factors, factors))
    turned = turn.mT @ np.tensordot(factors, matrices, 1) @ turn
    np.testing.assert_allclose(turned[:, 0, 1], 0, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_between_bounds_is_that_of_scipy(seed):
    random = np.random.default_rng(seed)
    root, aim = random.standard_normal((30, 12)), random.standard_normal(30)
    low, high = -random.exponential(0.2, 12), random.exponential(0.2, 12)
    low[0] = high[1] = 0.0
    found = vector_diagonals._least_in_box(root.T @ root, root.T @ aim, low, high)
    expected = lsq_linear(root, aim, (low - 1e-12, high + 1e-12), method="bvls").x
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_between_bounds_nothing_pulls_inwards_where_numbers_depend_on_each_other(seed):
    # Newton's method that holds whatever is beyond a bound goes round in circles in all of these.
    random = np.random.default_rng(seed)
    root = 3 * random.standard_normal((60, 3)) @ random.standard_normal((3, 24)) + random.standard_normal((60, 24))
    matrix, slope = root.T @ root + np.eye(24), root.T @ (10 * random.standard_normal(60))
    low, high = -random.exponential(0.2, 24), random.exponential(0.2, 24)
    low[:2] = high[1:3] = 0.0
    found = vector_diagonals._least_in_box(matrix, slope, low, high)
    downhill = slope - matrix @ found
    assert np.all((found >= low) & (found <= high))
    assert np.all(np.abs(downhill[(found > low) & (found < high)]) < 1e-9)
    assert np.all(downhill[(found == low) & (low < high)] < 1e-9)
    assert np.all(downhill[(found == high) & (low < high)] > -1e-9)
