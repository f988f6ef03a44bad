"""The law of a sample's residual against moments that are known."""

import pytest

from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.weighted_samples import residual_law


@pytest.mark.parametrize("teacher", ["tanh", "relu", "sin(10*x)", "tanh(20*x)", "tanh(500*x)", "H6", "H12", "cos(3*x)"])
@pytest.mark.parametrize("noise_variance", [0.0, 0.3])
def test_mean_and_mean_square(teacher, noise_variance):
    function, offset = scalar_function(teacher), 0.4
    m, law = moments(function), residual_law(function, offset, noise_variance)
    square = m.second_moment - 2 * offset * m.mean + offset**2 + noise_variance
    assert law.square == pytest.approx(square, rel=2e-5)
    assert law.mean(law.residual) == pytest.approx(m.mean - offset, abs=1e-5 * m.second_moment**0.5)
    assert law.mean(law.residual * law.projection) == pytest.approx(m.linear, abs=1e-5 * m.second_moment**0.5)


def test_fourth_moments():
    """E H_k^4 for k = 2, 3 and of a sine: closed forms."""
    for teacher, fourth in (("H2", 60), ("H3", 3348), ("sin(10*x)", 3 / 8)):
        law = residual_law(scalar_function(teacher), 0.0, 0.0)
        assert law.mean(law.residual**4) == pytest.approx(fourth, rel=1e-4)


def test_labels_of_noise_alone():
    law = residual_law(scalar_function("0*x"), 0.0, 0.25)
    assert law.square == pytest.approx(0.25, rel=1e-12)
