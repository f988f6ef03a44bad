"""The teacher along its part off the spike, against averages in closed form and by another rule."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss, hermeval
from scipy.special import factorial, ndtr

from gradstep.gaussian import scalar_function
from gradstep.theory.equivalent.along_rest import teacher_along_rest

#: Integrals end at 7.6 standard deviations.
CUT = 3e-8
ALIGNMENT, KAPPA = 0.6, np.linspace(-3.0, 3.0, 7)


def test_coefficients_of_a_sign_are_in_closed_form():
    """A jump elsewhere for each kappa: integrals of Hermite polynomials from it are those of one degree less."""
    found = teacher_along_rest(scalar_function("sign(x - 0.4)"), ALIGNMENT, KAPPA, 8)
    jump = (0.4 - ALIGNMENT * KAPPA) / np.sqrt(1 - ALIGNMENT**2)
    density = np.exp(-(jump**2) / 2) / np.sqrt(2 * np.pi)
    expected = [1 - 2 * ndtr(jump)]
    expected += [2 * density * hermeval(jump, np.eye(8)[k - 1]) / np.sqrt(factorial(k)) for k in range(1, 8)]
    np.testing.assert_allclose(found, expected, atol=CUT)


@pytest.mark.parametrize("teacher", ["x**3 - x", "tanh(x) + 0.3*x**2"])
def test_coefficients_of_a_smooth_teacher_are_those_of_a_gaussian_rule(teacher):
    function = scalar_function(teacher)
    found = teacher_along_rest(function, ALIGNMENT, KAPPA, 6)
    t, weight = hermegauss(120)
    weight = weight / weight.sum()
    basis = np.stack([hermeval(t, np.eye(6)[k]) / np.sqrt(factorial(k)) for k in range(6)])
    values = function(ALIGNMENT * KAPPA[:, None] + np.sqrt(1 - ALIGNMENT**2) * t)
    np.testing.assert_allclose(found, basis @ (weight * values).T, atol=CUT)
