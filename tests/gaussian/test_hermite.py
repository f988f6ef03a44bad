"""Hermite coefficients against exact integration and closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.gaussian import REGISTERED, hermite_coefficients, hermite_values, scalar_function, smoothed

ORDER = 40
K = np.arange(ORDER + 1)
ROOT_FACTORIAL = np.array([math.sqrt(math.factorial(k)) for k in K])


def _double_factorial(n):
    return math.prod(range(n, 0, -2))


def _hermite_at_zero(k):
    """He_k(0)."""
    k = int(k)
    return 0 if k % 2 else (-1) ** (k // 2) * _double_factorial(k - 1)


def sign_coefficients():
    """E sign(z) He_k = 2 He_{k-1}(0) phi(0) by parts."""
    return np.array([0.0] + [2 * _hermite_at_zero(k - 1) / math.sqrt(2 * math.pi) for k in K[1:]]) / ROOT_FACTORIAL


def relu_coefficients():
    """E relu(z) He_k = He_{k-2}(0) phi(0) for k >= 2, by parts twice."""
    first = [1 / math.sqrt(2 * math.pi), 0.5]
    return np.array(first + [_hermite_at_zero(k - 2) / math.sqrt(2 * math.pi) for k in K[2:]]) / ROOT_FACTORIAL


@pytest.mark.parametrize(
    ("name", "exact"),
    [("sign", sign_coefficients()), ("relu", relu_coefficients()), ("heaviside", None), ("abs", None)],
)
def test_kinked(name, exact):
    if name == "heaviside":
        exact = sign_coefficients() / 2 + 0.5 * (K == 0)
    if name == "abs":
        exact = 2 * relu_coefficients() - (K == 1)
    np.testing.assert_allclose(hermite_coefficients(name, ORDER), exact, atol=1e-12)


@pytest.mark.parametrize("frequency", [0.3, 1.0, 3.0])
def test_sine_and_cosine(frequency):
    """E exp(i w z) h_k = (i w)^k exp(-w^2/2) / sqrt(k!)."""
    exact = (1j * frequency) ** K * math.exp(-(frequency**2) / 2) / ROOT_FACTORIAL
    np.testing.assert_allclose(hermite_coefficients("sin", ORDER, scale=frequency), exact.imag, atol=1e-12)
    np.testing.assert_allclose(hermite_coefficients("cos", ORDER, scale=frequency), exact.real, atol=1e-12)
    np.testing.assert_allclose(hermite_coefficients(f"sin({frequency}*x)", ORDER), exact.imag, atol=1e-12)


@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0])
def test_error_function(scale):
    """E erf(s z) h_k: s sqrt(k)^{-1} E erf'(s z) h_{k-1}, a Gaussian integral."""
    variance = 1 / (1 + 2 * scale**2)
    exact = np.zeros(ORDER + 1)
    for k in K[1::2]:
        # E He_j(y) for y ~ N(0, v) is (v - 1)^{j/2} (j - 1)!!, j = k - 1 even.
        j = int(k) - 1
        moment = (variance - 1) ** (j // 2) * _double_factorial(j - 1)
        exact[k] = 2 / math.sqrt(math.pi) * scale * math.sqrt(variance) * moment / ROOT_FACTORIAL[k]
    np.testing.assert_allclose(hermite_coefficients("erf", ORDER, scale=scale), exact, atol=2e-12)


def test_exponential():
    exact = math.exp(0.5) / ROOT_FACTORIAL
    np.testing.assert_allclose(hermite_coefficients("exp", ORDER), exact, atol=1e-11)


POLYNOMIALS = ["x**6 - 3*x**2 + 1", "(1 + x)**9", "H2 + 0.5*H3", "hermite8(x) - x"]


@pytest.mark.parametrize("source", POLYNOMIALS)
@pytest.mark.parametrize("scale", [1, Fraction(3, 2)])
def test_polynomials_against_sympy(source, scale, sympy):
    x = sympy.Symbol("x")
    symbolic = {"H2": x**2 - 1, "H3": x**3 - 3 * x}
    expression = sympy.sympify(source.replace("hermite8(x)", "(x**8 - 28*x**6 + 210*x**4 - 420*x**2 + 105)"), symbolic)
    polynomial = sympy.Poly(expression.subs(x, scale * x), x)
    exact = []
    for k in range(11):
        he = sympy.Poly(sympy.expand(2 ** (-sympy.Rational(k, 2)) * sympy.hermite(k, x / sympy.sqrt(2))), x)
        product = polynomial * he
        moment = sum(c * sympy.factorial2(m[0] - 1) for m, c in product.terms() if m[0] % 2 == 0)
        exact.append(float(moment / sympy.sqrt(sympy.factorial(k))))
    np.testing.assert_allclose(
        hermite_coefficients(source, 10, scale=float(scale)), exact, rtol=1e-12, atol=1e-12 * np.max(np.abs(exact))
    )


@pytest.mark.parametrize(
    ("source", "order"),
    [("relu(x)", 6), ("relu(x)", 40), ("sign(x)", 9), ("sign(x)", 39), ("erf(x)", 3), ("sin(x)", 3)],
)
def test_symbolic_integration(source, order, sympy):
    """sympy integrates over the half line exactly; no formula of ours is involved."""
    x = sympy.Symbol("x", positive=True)
    half = {"erf(x)": sympy.erf(x), "relu(x)": x, "sign(x)": sympy.Integer(1), "sin(x)": sympy.sin(x)}[source]
    he = sympy.expand(2 ** (-sympy.Rational(order, 2)) * sympy.hermite(order, x / sympy.sqrt(2)))
    if half.is_polynomial():
        # int_0^oo x^p exp(-x^2/2) dx = 2^((p-1)/2) Gamma((p+1)/2)
        terms = sympy.Poly(sympy.expand(half * he), x).terms()
        integral = sum(c * sympy.sqrt(2) ** (p - 1) * sympy.gamma(sympy.Rational(p + 1, 2)) for (p,), c in terms)
    else:
        # By parts, in a tenth of the time; what this leaves at zero vanishes for these odd functions.
        derivative = sympy.diff(half, x, order)
        integral = sympy.integrate(sympy.expand(derivative * sympy.exp(-(x**2) / 2)), (x, 0, sympy.oo))
    both_sides = 1 if source == "relu(x)" else 2
    exact = both_sides * integral / sympy.sqrt(2 * sympy.pi) / sympy.sqrt(sympy.factorial(order))
    assert hermite_coefficients(source, order)[order] == pytest.approx(float(sympy.N(exact, 25)), abs=1e-12)


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_parseval(name, scale):
    coefficients = hermite_coefficients(name, ORDER, scale=scale)
    second_moment = float(smoothed(REGISTERED[name], 0.0, scale).second_moment)
    partial = np.cumsum(coefficients**2)
    assert partial[-1] <= second_moment * (1 + 1e-10)
    if name not in ("sign", "heaviside", "hardtanh", "exp") and scale <= 1:
        assert partial[-1] >= second_moment * (1 - 2e-3)


@pytest.mark.parametrize("degree", range(1, 11))
def test_hermite_polynomials_are_the_basis(degree):
    expected = np.zeros(15)
    expected[degree] = math.sqrt(math.factorial(degree))
    np.testing.assert_allclose(hermite_coefficients(f"H{degree}", 14), expected, atol=1e-9)


def test_series_converges_to_the_function():
    x = np.linspace(-1, 1, 21)
    series = hermite_coefficients("erf", ORDER) @ hermite_values(x, ORDER)
    np.testing.assert_allclose(series, scalar_function("erf")(x), atol=1e-4)


def test_shapes_and_refusals():
    assert hermite_coefficients("tanh", 3, scale=np.ones((2, 5))).shape == (4, 2, 5)
    for order in (-1, 2.5, "3"):
        with pytest.raises(InvalidInput):
            hermite_coefficients("tanh", order)
