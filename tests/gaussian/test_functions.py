"""Evaluation on every kind of array, and plain callables."""

import math

import array_api_strict
import numpy as np
import pytest
import scipy.special

from gradstep.errors import InvalidInput
from gradstep.gaussian import REGISTERED, ScalarFunction, moments, scalar_function, smoothed

X = np.linspace(-4.0, 4.0, 161) + 1e-3
EXACT = {
    "linear": lambda x: x,
    "relu": lambda x: np.where(x > 0, x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "abs": np.abs,
    "sign": np.sign,
    "heaviside": lambda x: 1.0 * (x > 0),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1)),
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "erf": scipy.special.erf,
    "erf_scaled": lambda x: scipy.special.erf(x / math.sqrt(2)),
    "gelu": lambda x: x * 0.5 * (1 + scipy.special.erf(x / math.sqrt(2))),
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
} | {f"hermite{k}": (lambda x, k=k: np.polynomial.hermite_e.hermeval(x, [0] * k + [1])) for k in range(1, 11)}
NAMES = [*REGISTERED, "tanh(x) + 0.3*x**2", "x/(1+x**2)", "abs(x)**1.5", "max(x, 0.5)", "2"]


def test_every_registered_function_is_listed():
    assert set(EXACT) == set(REGISTERED)


@pytest.mark.parametrize("name", REGISTERED)
def test_value(name):
    np.testing.assert_allclose(
        REGISTERED[name](X), EXACT[name](X), rtol=1e-12, atol=1e-14 * np.max(np.abs(EXACT[name](X)))
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["__call__", "derivative"])
def test_array_api_strict(name, method):
    function = scalar_function(name)
    evaluate = getattr(function, method)
    result = evaluate(array_api_strict.asarray(X))
    assert type(result) is type(array_api_strict.asarray(X))
    np.testing.assert_allclose(np.asarray(result), evaluate(X), rtol=1e-13, atol=1e-14)
    single = evaluate(array_api_strict.asarray(X, dtype=array_api_strict.float32))
    assert single.dtype == array_api_strict.float32


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["__call__", "derivative"])
def test_torch(name, method):
    torch = pytest.importorskip("torch")
    evaluate = getattr(scalar_function(name), method)
    result = evaluate(torch.asarray(X))
    assert isinstance(result, torch.Tensor)
    np.testing.assert_allclose(result.numpy(), evaluate(X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["__call__", "derivative"])
def test_numpy_kinds(name, method):
    evaluate = getattr(scalar_function(name), method)
    single = evaluate(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, evaluate(X), rtol=2e-4, atol=1e-4 * np.max(np.abs(evaluate(X))))
    assert np.shape(evaluate(0.5)) == ()
    assert float(evaluate(0.5)) == float(evaluate(np.array([0.5]))[0])
    np.testing.assert_array_equal(evaluate([1, 2]), evaluate(np.array([1.0, 2.0])))
    np.testing.assert_array_equal(evaluate(np.array([[1, 2]])), evaluate(np.array([[1.0, 2.0]])))
    assert evaluate(np.empty((0, 3))).shape == (0, 3)
    before = X.copy()
    evaluate(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("x", ["1.0", ["1.0"], None, [None], 1j, [[1], [1, 2]], 10**400, np.array(["a"]), {}])
@pytest.mark.parametrize("method", ["__call__", "derivative"])
def test_what_is_no_array_of_numbers_is_refused(method, x):
    with pytest.raises(InvalidInput) as caught:
        getattr(REGISTERED["tanh"], method)(x)
    assert caught.value.field == "x"


def test_large_arrays_are_evaluated_in_blocks_with_the_same_result():
    x = np.random.default_rng(1).normal(size=(3, 100_001))
    for name in ("tanh", "silu", "tanh(x) + 0.3*x**2"):
        function = scalar_function(name)
        parts = [np.concatenate([function(part) for part in np.array_split(row, 7)]) for row in x]
        np.testing.assert_allclose(function(x), parts, rtol=1e-15)
        np.testing.assert_allclose(function.derivative(x.T), function.derivative(x).T, rtol=1e-14)


@pytest.mark.parametrize("name", ["relu", "sign", "hardtanh", "leaky_relu", "elu", "selu"])
def test_no_warning_at_extremes(name):
    assert np.isfinite(REGISTERED[name](np.array([-1e300, 0.0, 1e300]))).all()


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus", "silu", "gelu", "erf", "elu", "mish"])
def test_saturation(name):
    x = np.array([-800.0, 800.0])
    assert np.isfinite(REGISTERED[name](x)).all()
    np.testing.assert_allclose(REGISTERED[name].derivative(x), [0.0, float(name not in ("tanh", "sigmoid", "erf"))])


@pytest.mark.parametrize("name", ["elu", "selu", "mish"])
def test_derivatives_are_those_of_the_values(name):
    function, step = REGISTERED[name], 1e-5
    slopes = (function(X + step) - function(X - step)) / (2 * step)
    np.testing.assert_allclose(function.derivative(X), slopes, atol=1e-9)


def test_selu_keeps_mean_zero_and_variance_one():
    # Klambauer et al. 2017, equation (14): what its two constants are chosen for.
    found = smoothed(REGISTERED["selu"], 0.0, 1.0)
    np.testing.assert_allclose([found.mean, found.second_moment], [0.0, 1.0], atol=1e-14)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_averages_of_elu_are_closed(scale):
    mean = np.linspace(-3, 3, 7)
    below = np.exp(mean + scale**2 / 2) * scipy.special.ndtr(-mean / scale - scale) - scipy.special.ndtr(-mean / scale)
    relu = smoothed(REGISTERED["relu"], mean, scale).mean
    np.testing.assert_allclose(smoothed(REGISTERED["elu"], mean, scale).mean, relu + below, rtol=0, atol=1e-13)


def test_derivatives_of_sigmoids_have_their_digits_where_they_are_small():
    x = np.array([-40.0, -19.0, 0.0, 0.3, 18.7, 300.0])
    np.testing.assert_allclose(REGISTERED["tanh"].derivative(x), 1 / np.cosh(x) ** 2, rtol=1e-13)
    np.testing.assert_allclose(REGISTERED["sigmoid"].derivative(x), 0.25 / np.cosh(x / 2) ** 2, rtol=1e-13)


# Plain callables


def test_callable_derivative():
    function = scalar_function(np.arctan)
    np.testing.assert_allclose(function.derivative(X), 1 / (1 + X**2), atol=1e-11)
    assert function.parity == "odd"
    assert function.kinks == ()


def test_callable_with_undeclared_kink():
    function = scalar_function(lambda x: np.maximum(x - 0.3, 0.0))
    np.testing.assert_allclose(function.kinks, [0.3], atol=1e-9)
    reference = smoothed(scalar_function("relu(x-0.3)"), [0.0, 1.0, -2.0], [1.0, 0.2, 30.0])
    for got, expected in zip(smoothed(function, [0.0, 1.0, -2.0], [1.0, 0.2, 30.0]), reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-11)
    assert moments(function).derivative_second_moment == pytest.approx(
        moments("relu(x-0.3)").derivative_second_moment, abs=1e-5
    )


def test_callable_with_everything_declared():
    function = ScalarFunction.from_callable(
        lambda x: np.abs(x - 1), derivative=lambda x: np.sign(x - 1), kinks=(1.0,), name="distance"
    )
    assert function.name == "distance"
    assert function.kinks == (1.0,)
    assert moments(function).derivative_second_moment == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        lambda x: 1 / x,
        lambda x: np.exp(x**2),
        lambda x: x[:2],
        lambda x: x + 1j,
        lambda x: x > 0,
        lambda x: math.sin(x),
        lambda x, y: x,
        lambda x: np.sin(1000 * x),
        lambda x: np.where(x > 0, np.nan, x),
    ],
)
def test_refused_callables(bad):
    with pytest.raises(InvalidInput):
        scalar_function(bad)


@pytest.mark.parametrize(
    "neighbours",
    [
        lambda x: x / np.abs(x).max(),
        lambda x: np.tanh(x - x.mean()),
        np.sort,
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True),
    ],
)
def test_refuses_functions_that_are_not_elementwise(neighbours):
    with pytest.raises(InvalidInput, match="elementwise"):
        scalar_function(neighbours)
    with pytest.raises(InvalidInput, match=r"derivative.*elementwise"):
        ScalarFunction.from_callable(np.tanh, derivative=neighbours)


def test_refuses_functions_that_write_into_their_argument():
    """The gradient would be taken at other pre-activations than the features."""
    with pytest.raises(InvalidInput, match="leaves its argument as it is"):
        scalar_function(lambda x: np.clip(x, 0, None, out=x))


@pytest.mark.parametrize("kinks", [(math.inf,), ("a",), (10**400,), 3, None])
def test_refuses_what_is_no_place_of_a_kink(kinks):
    with pytest.raises(InvalidInput) as caught:
        ScalarFunction.from_callable(np.tanh, kinks=kinks)
    assert caught.value.field == "kinks"


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "mish", "sqrt(1+x**2)", "x/(4+x**2)"])
def test_pole_distance_is_not_larger_than_the_distance_of_the_pole(name):
    poles = {"tanh": math.pi / 2, "sigmoid": math.pi, "silu": math.pi, "mish": 0.75 * math.pi}
    pole = (poles | {"sqrt(1+x**2)": 1.0, "x/(4+x**2)": 2.0})[name]
    assert 0.2 * pole <= scalar_function(name).pole_distance <= 1.0001 * pole


@pytest.mark.parametrize("function", [f for f in REGISTERED.values() if f.parity], ids=lambda f: f.name)
def test_parity(function):
    sign = {"odd": -1.0, "even": 1.0}[function.parity]
    np.testing.assert_allclose(function(-X), sign * function(X), rtol=1e-13)
    np.testing.assert_allclose(function.derivative(-X), -sign * function.derivative(X), rtol=1e-13)


def test_undeclared_kinks_and_jumps_are_found():
    function = scalar_function(lambda x: np.sign(x - 0.3) + np.abs(x + 2) + np.abs(x))
    np.testing.assert_allclose(function.kinks, [-2.0, 0.0, 0.3], atol=1e-6)
    away = X[np.min(np.abs(X[:, None] - np.array([-2.0, 0.0, 0.3])), axis=1) > 1e-4]
    np.testing.assert_allclose(function.derivative(away), np.sign(away + 2) + np.sign(away), atol=1e-8)


@pytest.mark.parametrize("place", [0.0, 0.3, -2.5, 1.2345678])
def test_a_jump_of_a_callable_is_its_kink_and_no_part_of_its_derivative(place):
    # The last one lies next to an edge of the first panels, which hide it.
    function = scalar_function(lambda x: np.where(x > place, 0.5 * x, -1.0))
    assert function.kinks == pytest.approx((place,), abs=1e-14)
    density = math.exp(-(place**2) / 2) / math.sqrt(2 * math.pi)
    above = math.erfc(place / math.sqrt(2)) / 2
    found = moments(function)
    assert found.derivative_mean == pytest.approx(0.5 * above, abs=1e-11)
    assert found.derivative_second_moment == pytest.approx(0.25 * above, abs=1e-11)
    assert found.linear == pytest.approx(0.5 * above + (0.5 * place + 1) * density, abs=1e-11)


@pytest.mark.parametrize(
    ("formula", "same"),
    [
        ("log(1+exp(20*x))/20", "softplus(20*x)/20"),
        ("1/(1+exp(-20*x))", "sigmoid(20*x)"),
        ("x/(1+exp(-x))", "x*sigmoid(x)"),
        ("(exp(x)+1)**-2", "sigmoid(-x)**2"),
    ],
)
def test_a_softplus_or_sigmoid_that_is_spelled_out_does_not_overflow(formula, same):
    assert scalar_function(formula) == scalar_function(same)


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("erf(2*sign(x))", lambda x: scipy.special.erf(2 * np.sign(x))),
        ("tanh(sign(x-1))", lambda x: np.tanh(np.sign(x - 1))),
        ("sin(-3*sign(x**2-1))", lambda x: np.sin(-3 * np.sign(x**2 - 1))),
        ("hermite3(2*sign(x))", lambda x: 8 * np.sign(x) ** 3 - 6 * np.sign(x)),
    ],
)
def test_an_odd_function_of_a_sign_is_a_multiple_of_the_sign(formula, values):
    function, x = scalar_function(formula), np.array([-2.0, -1.0, 0.0, 0.3, 1.0, 2.0])
    np.testing.assert_allclose(function(x), values(x), atol=1e-15)
    assert "*sign(" in function.name


def test_a_function_of_a_sign_that_is_not_odd_keeps_its_value_where_the_sign_is_zero():
    assert scalar_function("exp(sign(x))")(0.0) == 1


def test_a_spelled_out_softplus_may_have_factors():
    function, x = scalar_function("log(2+3*exp(x))"), np.linspace(-30, 30, 61)
    np.testing.assert_allclose(function(x), np.log(2 + 3 * np.exp(x)), rtol=1e-14)
    np.testing.assert_allclose(function.derivative(x), 3 / (2 * np.exp(-x) + 3), rtol=1e-13)


@pytest.mark.parametrize("name", ["max(min(x, 40), -15)", "sin(x) + max(x - 14, 0)", "abs(x) + max(x - 300, 0)"])
def test_what_differs_far_out_has_no_parity(name):
    """Rows after a strong step reach there."""
    assert scalar_function(name).parity is None
    compiled = scalar_function(name)
    assert scalar_function(lambda x: compiled(x)).parity is None


def test_a_parity_is_seen_where_one_side_leaves_the_range_of_numbers():
    assert scalar_function(lambda x: np.log(1 + np.exp(x)) - x / 2).parity == "even"
