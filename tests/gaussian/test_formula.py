"""The formula language: what it accepts, what it refuses, and that nothing is ever executed."""

import math
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.errors import InvalidInput
from gradstep.gaussian import REGISTERED, ScalarFunction, scalar_function
from gradstep.gaussian.expression import differentiate, size, text
from gradstep.gaussian.formula import parse

X = np.linspace(-3.0, 3.0, 101)


def test_a_caret_is_a_power():
    """In Python it is not, and binds less than a sum does."""
    assert parse("2*x^3 - x ^ 2") == parse("2*x**3 - x**2")
    assert parse("x1^2*x2", several=True) == parse("x1**2*x2", several=True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("tanh(x) + 0.3*x**2", lambda x: np.tanh(x) + 0.3 * x**2),
        ("tanh + 0.3*x**2", lambda x: np.tanh(x) + 0.3 * x**2),
        ("-x**2", lambda x: -(x**2)),
        ("2 - (x - 1)*3/4", lambda x: 2 - (x - 1) * 3 / 4),
        ("2**-1*x", lambda x: x / 2),
        ("x/(1 + x**2)", lambda x: x / (1 + x**2)),
        ("sin(pi*x)*exp(-x**2)", lambda x: np.sin(np.pi * x) * np.exp(-(x**2))),
        ("H2 + 0.5*He3", lambda x: x**2 - 1 + 0.5 * (x**3 - 3 * x)),
        ("max(x, 0) - min(2*x, 1)", lambda x: np.maximum(x, 0) - np.minimum(2 * x, 1)),
        ("log(1 + exp(x))", lambda x: np.log1p(np.exp(x))),
        ("sqrt(1 + x**2)", lambda x: np.sqrt(1 + x**2)),
        ("abs(x)**1.5", lambda x: np.abs(x) ** 1.5),
        ("e*x", lambda x: np.e * x),
        ("3", lambda x: 3 + 0 * x),
    ],
)
def test_value(source, expected):
    np.testing.assert_allclose(scalar_function(source)(X), expected(X), rtol=1e-14, atol=1e-14)


SMOOTH = [
    "tanh(2*x) + 0.3*x**2",
    "x*sin(3*x)",
    "exp(-x**2/2)*x",
    "x/(1+x**2)",
    "sqrt(1+x**2)",
    "log(2+cos(x))",
    "erf(x)**3",
]


@pytest.mark.parametrize("source", SMOOTH)
def test_derivative_against_sympy(source, sympy):
    symbol = sympy.Symbol("x")
    exact = sympy.lambdify(symbol, sympy.diff(sympy.sympify(source), symbol), "scipy")
    np.testing.assert_allclose(scalar_function(source).derivative(X), exact(X), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", [*REGISTERED, "silu(2*x-1)*gelu(x)", "softplus(x)**2", "relu(x**3-x)", "abs(x)**1.5"])
def test_derivative_against_differences(name):
    function = scalar_function(name)
    x = np.linspace(-2.9, 2.9, 200) + 0.001234
    x = x[np.min(np.abs(x[:, None] - np.array([*function.kinks, np.inf])), axis=1) > 0.01]
    h = 1e-3
    difference = sum(
        w * (function(x + k * h) - function(x - k * h)) / h for k, w in ((1, 0.75), (2, -3 / 20), (3, 1 / 60))
    )
    scale = max(1.0, float(np.max(np.abs(function(x)))))
    np.testing.assert_allclose(function.derivative(x), difference, atol=1e-10 * scale)


@pytest.mark.parametrize(
    ("source", "token"),
    [
        ("__import__('os')", "__import__"),
        ("__import__('os').system('true')", "__import__('os').system"),
        ("x.real", "x.real"),
        ("lambda x: x", "lambda x: x"),
        ("x if x else 1", "x if x else 1"),
        ("f'{x}'", "f'{x}'"),
        ("'x'", "'x'"),
        ("[x]", "[x]"),
        ("x[0]", "x[0]"),
        ("(y := x)", "y := x"),
        ("x + y", "y"),
        ("foo(x)", "foo"),
        ("2^x", "2^x"),
        ("x^^2", "x^^2"),
        ("x < 1", "x < 1"),
        ("x and x", "x and x"),
        ("not x", "not x"),
        ("True", "True"),
        ("1j*x", "1j"),
        ("x**x", "x**x"),
        ("x**1e9", "x**1e9"),
        ("9**9**9*x", "9**9**9"),
        ("tanh(x, x)", "tanh(x, x)"),
        ("tanh(x=x)", "tanh(x=x)"),
        ("tanh(*x)", "*x"),
        ("max(x)", "max(x)"),
        ("1/0", "1/0"),
        ("(-1)**0.5", "(-1)**0.5"),
        ("1e999*x", "1e999"),
        ("x +", "x +"),
        ("x; x", "x; x"),
        ("import os", "import os"),
    ],
)
def test_refusal_names_the_token(source, token):
    with pytest.raises(InvalidInput) as caught:
        scalar_function(source)
    assert caught.value.value == token
    # What is wrong, and apart from it what would be right.
    assert caught.value.reason
    assert f"got {token!r}, {caught.value.reason}; allowed: a formula in x" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("c", [0.0, 0.3, 0.5, 1 / 3, 2.0])
def test_a_number_in_max_and_min_leaves_no_rounding(c):
    # Written as x + relu(c - x) a shifted relu is rounding where it should be constant, which no panel resolves.
    x = np.linspace(-3, 3, 1001)
    for first, second in (("x", repr(c)), (repr(c), "x")):
        np.testing.assert_array_equal(scalar_function(f"max({first}, {second}) - {c!r}")(x[x < c]), 0)
        np.testing.assert_array_equal(scalar_function(f"min({first}, {second}) - {c!r}")(x[x > c]), 0)
    np.testing.assert_array_equal(scalar_function(f"max(2*x - {c!r}, 0)")(x[2 * x < c]), 0)


@pytest.mark.parametrize("pattern", ["max({}, x**2)", "min({}, 1)", "max(x, min({}, 3*x))"])
def test_nested_choices_do_not_grow_without_end(pattern):
    source = "tanh(x)"
    for _ in range(30):
        source = pattern.format(source)
    with pytest.raises(InvalidInput, match="too deep or too long"):
        scalar_function(source)
    x = np.linspace(-3, 3, 7)
    few = scalar_function("max(max(max(tanh(x), x**2), 1), 2*x)")
    np.testing.assert_allclose(few(x), np.max([np.tanh(x), x**2, np.ones(7), 2 * x], axis=0))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x**x", "the exponent is not constant"),
        ("max(x)", "max takes 2 arguments"),
        ("tanh()", "tanh takes 1 argument"),
        ("log(x)", "the argument is not positive at x = 0"),
        ("1/(x-0.3)", "division by zero at x = 0.3"),
        ("", "empty"),
        ("tanh(2x)", "not a formula (a product needs its sign: 2*x)"),
        ("1 + 0.5(x + 1)^2", "only named functions can be called"),
        ("x**2 + 3x^2", "not a formula (a product needs its sign: 3*x)"),
    ],
)
def test_refusal_says_what_is_wrong(source, reason):
    with pytest.raises(InvalidInput) as caught:
        scalar_function(source)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "source",
    [
        "",
        "   ",
        "x" * 2000,
        "+".join(["x"] * 450),
        "(" * 300 + "x" + ")" * 300,
        "-" * 300 + "x",
        "tanh(" * 60 + "x" + ")" * 60,
        "(x**30)**30",
        "\x00",
        "x\n+1",
        "1/x",
        "1/(x-0.3)",
        "1/(x**2-2)",
        "(x-1)**-2",
        "1/(sin(x)-1)",
        "log(x)",
        "log(x**2)",
        "sqrt(x)",
        "sqrt(x**2)",
        "x**0.5",
        "exp(x**2)",
        "exp(0.26*x**2)",
        "exp(exp(x))",
        "sign(sin(40*x))",
        "sin(x**9)",
    ],
)
def test_refused(source):
    with pytest.raises(InvalidInput):
        scalar_function(source)


@pytest.mark.parametrize("spec", [3, None, ["x"], b"x"])
def test_refuses_other_types(spec):
    with pytest.raises(InvalidInput):
        scalar_function(spec)


@pytest.mark.parametrize(
    ("source", "kinks"),
    [
        ("relu(2*x-1)", (0.5,)),
        ("abs(x)", (0.0,)),
        ("sign(x**2-1)", (-1.0, 1.0)),
        ("hardtanh(x/3)", (-3.0, 3.0)),
        ("max(x, 1-x)", (0.5,)),
        ("min(x**2, 2)", (-math.sqrt(2), math.sqrt(2))),
        ("relu(exp(x)-2)", (math.log(2),)),
        ("relu(x-700)", (700.0,)),
        ("abs(x-1)**1.5", (1.0,)),
        ("tanh(x)*sin(x)", ()),
    ],
)
def test_kinks(source, kinks):
    found = scalar_function(source).kinks
    assert len(found) == len(kinks)
    np.testing.assert_allclose(found, kinks, atol=1e-12)


@pytest.mark.parametrize(
    ("source", "parity"),
    [
        ("tanh", "odd"),
        ("x**2 + cos(x)", "even"),
        ("x + x**2", None),
        ("relu", None),
        ("relu(x) - relu(-x)", "odd"),
        ("relu(x) + relu(-x)", "even"),
        ("sigmoid(x) - 0.5", "odd"),
        ("x*sin(x)", "even"),
        ("tanh(x**3)", "odd"),
        ("abs(x)**1.5*sign(x)", "odd"),
        ("exp(-x**2)", "even"),
        ("gelu", None),
    ],
)
def test_parity(source, parity):
    assert scalar_function(source).parity == parity


@pytest.mark.parametrize("factor", ["tanh(x)", "sin(x)*cos(x)", "(1 + 0.1*x)*sigmoid(2*x)"])
def test_equal_factors_are_evaluated_once(factor):
    """A product of equal factors is a power, and its slope has about as many terms as that of one of them."""
    product, single = scalar_function("*".join([factor] * 20)), scalar_function(factor)
    x = np.linspace(-2, 2, 101)
    np.testing.assert_allclose(product(x), single(x) ** 20, rtol=1e-12)
    slope = 20 * single(x) ** 19 * single.derivative(x)
    np.testing.assert_allclose(product.derivative(x), slope, rtol=1e-11, atol=1e-300)
    assert size(differentiate(product.expression)) <= 4 * size(differentiate(single.expression))


@pytest.mark.parametrize(
    "source",
    ["x*exp(-x**2)*exp(2*x)", "exp(x)*x/exp(x**2 - x)", "exp(x)**2*x*exp(-x**2)", "x*exp(-x)**(-2)*exp(-x**2)"],
)
def test_a_product_of_exponentials_is_one(source):
    """Far from zero one factor overflows and another is zero, though their product is a small number."""
    x = np.array([-1000.0, -3.0, 0.5, 3.0, 1000.0])
    found = scalar_function(source)
    np.testing.assert_allclose(found(x), x * np.exp(2 * x - x**2), rtol=1e-13)
    np.testing.assert_allclose(found.derivative(x), (1 + 2 * x - 2 * x**2) * np.exp(2 * x - x**2), rtol=1e-13)


@pytest.mark.parametrize(
    ("source", "simplified"),
    [
        ("exp(x)/(1 + exp(x))", "sigmoid(x)"),
        ("exp(x)/(1 + exp(x))**2", "sigmoid(x)*sigmoid(-x)"),
        ("x*exp(2*x)/(1 + exp(2*x))", "x*sigmoid(2*x)"),
        ("exp(x + 1)*sigmoid(-x - 1)", "sigmoid(x + 1)"),
        ("(2*exp(x))**2*exp(-x**2)", "4*exp(2*x - x**2)"),
        ("exp(2*x)*sigmoid(-x)**2", "sigmoid(x)**2"),
        ("exp(2.5*x)*sigmoid(-x)**2.5", "sigmoid(x)**2.5"),
        ("exp(14*x)*sigmoid(-x)**14", "sigmoid(x)**14"),
        ("x*exp(2*x)/(1 + exp(x))**3", "x*sigmoid(x)**2*sigmoid(-x)"),
        ("exp(2*x + 1)*sigmoid(-x - 0.5)**2", "sigmoid(x + 0.5)**2"),
    ],
)
def test_an_exponential_does_not_overflow_beside_what_vanishes(source, simplified):
    found, x = scalar_function(source), np.array([-900.0, -1.0, 0.5, 900.0])
    assert text(found.expression) == simplified
    with np.errstate(all="raise", under="ignore"):
        values, slopes = found(x), found.derivative(x)
    near = x[1:3]
    names = {"exp": np.exp, "sigmoid": lambda u: 1 / (1 + np.exp(-u))}
    assert values[1:3] == pytest.approx(eval(source, names, {"x": near}), rel=1e-13)
    assert np.isfinite(values[[0, -1]]).all()
    assert np.isfinite(slopes).all()


def test_a_small_factor_of_an_exponential_is_not_squared_alone():
    x = np.array([455.0, 460.0])
    assert scalar_function("(1e-200*exp(x))**2*exp(-x**2/1e4)")(x) == pytest.approx(
        np.exp(2 * (x - 200 * np.log(10)) - x**2 / 1e4), rel=1e-9
    )


def test_an_exponential_beside_another_sigmoid_is_kept():
    x = np.array([-1.0, 0.3, 2.0])
    for source in ("exp(3 + x)*sigmoid(x)", "exp(2*x)*sigmoid(-x)", "exp(x + 1)*sigmoid(-x - 2)**1.5"):
        names = {"exp": np.exp, "sigmoid": lambda u: 1 / (1 + np.exp(-u))}
        assert scalar_function(source)(x) == pytest.approx(eval(source, names, {"x": x}), rel=1e-13)


def test_products_of_many_different_factors_are_refused():
    with pytest.raises(InvalidInput, match="products of too many different factors"):
        scalar_function("*".join(f"sin(x+{k})" for k in range(70)))


NUMBERS = st.floats(-5, 5, allow_nan=False).map(lambda v: repr(round(v, 3)))
SOURCES = st.recursive(
    st.one_of(st.just("x"), NUMBERS, st.sampled_from(["pi", "tanh", "relu", "H3"])),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/"]), inner),
        st.builds("({})**{}".format, inner, st.sampled_from(["2", "3", "-1", "0.5", "1.5"])),
        st.builds(
            "{}({})".format,
            st.sampled_from(["sin", "exp", "abs", "sign", "erf", "log", "sqrt", "silu", "hardtanh"]),
            inner,
        ),
        st.builds("-{}".format, inner),
        st.builds("max({}, {})".format, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=120)
@given(SOURCES)
def test_generated_formulas_are_finite_or_refused(source):
    try:
        function = scalar_function(source)
    except InvalidInput:
        return
    x = np.linspace(-30, 30, 400)
    assert np.isfinite(function(x)).all()
    assert np.isfinite(function.derivative(x)).all()
    again = scalar_function(function.name)
    assert again == function
    assert again.name == function.name


@settings(max_examples=100)
@given(SOURCES)
def test_canonical_text_is_a_fixed_point(source):
    try:
        tree = parse(source)
    except InvalidInput:
        return
    assert parse(text(tree)) == tree
    differentiate(tree)


@settings(max_examples=80)
@given(st.one_of(st.text(max_size=40), st.text(alphabet="x0123456789.+-*/()e tanhsiglmpr_,'[]:", max_size=40)))
def test_fuzz(source):
    try:
        function = scalar_function(source)
    except InvalidInput:
        return
    assert np.isfinite(function(X)).all()


def test_nothing_is_executed(monkeypatch):
    def forbidden(*_args, **_kwargs):
        raise AssertionError("executed")

    monkeypatch.setattr("builtins.eval", forbidden)
    monkeypatch.setattr("builtins.exec", forbidden)
    with pytest.raises(InvalidInput):
        scalar_function("open('somewhere', 'w')")
    assert scalar_function("x + 12.5*tanh(x)")(0.0) == 0.0


@pytest.mark.parametrize("name", [*REGISTERED, "H2 + 0.5*H3", "0.1*relu(x) - 1e-7"])
def test_name_gives_the_function_back(name):
    function = scalar_function(name)
    assert scalar_function(function.name) == function
    assert hash(scalar_function(function.name)) == hash(function)
    copy = pickle.loads(pickle.dumps(function))
    assert copy == function
    np.testing.assert_array_equal(copy(X), function(X))


def test_equality():
    assert scalar_function("tanh(x)") == scalar_function("tanh")
    assert scalar_function("tanh") != scalar_function("sin")
    assert scalar_function("H2") == REGISTERED["hermite2"]
    assert scalar_function(np.arctan) == scalar_function(np.arctan)
    assert scalar_function(np.arctan) != scalar_function(np.arcsinh)
    assert scalar_function(np.arctan) != "arctan"
    assert isinstance(scalar_function("x"), ScalarFunction)


def test_what_is_accepted_can_be_read_back():
    """A balanced sum is deep in neither form; written out it is one long chain."""
    terms = [f"tanh({k}*x)" for k in range(1, 49)]
    while len(terms) > 1:
        terms = [f"({' + '.join(terms[k : k + 2])})" for k in range(0, len(terms), 2)]
    function = scalar_function(terms[0])
    assert pickle.loads(pickle.dumps(function)) == function
    assert scalar_function(function.name) == function
    x = np.linspace(-1, 1, 7)
    np.testing.assert_allclose(function(x), sum(np.tanh(k * x) for k in range(1, 49)), rtol=1e-13)


def test_a_chain_has_the_order_of_operations():
    x = np.array([0.3, 1.7])
    for formula, values in (
        ("x - 2 - 3 + x*2/4*3 - x", x - 2 - 3 + x * 2 / 4 * 3 - x),
        ("tanh(x)/2/3*5 - (1 - 2 - x)", np.tanh(x) / 2 / 3 * 5 + 1 + x),
    ):
        np.testing.assert_allclose(scalar_function(formula)(x), values, rtol=1e-14)


def test_threads_leave_the_filters_of_warnings_as_they_were():
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(parse, [f"tanh({k}*x) + x" for k in range(2000)]))
    assert warnings.filters == before
