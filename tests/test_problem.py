"""Validation, immutability and round trips of `Problem`; the papers' conventions are in test_conventions.py."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradstep.errors import GradstepError, InvalidInput
from gradstep.gaussian import scalar_function
from gradstep.problem import Problem, Readout, Step
from gradstep.sizes import Proportional

FINITE: dict[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 32,
    "width": 24,
    "n_step": 40,
    "n": 50,
    "eta": 1.5,
    "ridge": 0.1,
}
LIMIT: dict[str, Any] = {
    **FINITE,
    "d": math.inf,
    "width": Proportional(0.75),
    "n_step": Proportional(1.25),
    "n": Proportional(2.0),
    "ridge": Proportional(0.01),
}
BA: dict[str, Any] = {"psi1": 2.5, "psi2": 1.5, "eta": 0.7, "lam": 0.01}
MONIRI: dict[str, Any] = {"phi": 0.4, "psi": 0.5, "alpha": 0.2, "lam": 0.01}
CUI: dict[str, Any] = {"alpha": 1.6, "alpha0": 3.0, "beta": 0.8, "eta_tilde": 1.0, "lam": 0.01}


def refused(build: Callable[[], object], field: str) -> InvalidInput:
    """Return the error of `build`, having checked that it is one line that names the field and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        build()
    error = caught.value
    assert error.field == field
    assert error.allowed
    assert str(error).startswith((f"{field}: got ", f"{field}: missing; ", f"{field}: not a known name"))
    assert f"allowed: {error.allowed}" in str(error)
    return error


# --- validation -------------------------------------------------------------------------------------------------------

NOT_NUMBERS = (None, True, "two", [2], {"x": 2}, 2 + 0j, np.array([2.0, 3.0]), lambda x: x, math.nan)
TOO_LARGE = pytest.param(10**400, id="10**400")


@pytest.mark.parametrize("field", ["d", "width", "n_step", "n"])
@pytest.mark.parametrize("value", [*NOT_NUMBERS, TOO_LARGE, -math.inf, -3, 0, 0.5, 2.5])
def test_sizes_are_positive_integers(field: str, value: object) -> None:
    error = refused(lambda: Problem(**FINITE | {field: value}), field)
    assert error.value is value


@pytest.mark.parametrize("field", ["width", "n"])
def test_only_the_step_may_see_infinitely_many_samples(field: str) -> None:
    refused(lambda: Problem(**FINITE | {field: math.inf}), field)
    assert Problem(**FINITE | {"n_step": math.inf}).n_step == math.inf


@pytest.mark.parametrize("field", ["d", "width", "n_step", "n"])
def test_sizes_are_stored_in_64_bits(field: str) -> None:
    assert getattr(Problem(**FINITE | {field: 10**18}), field) == 10**18
    assert "at most 4e+18" in str(refused(lambda: Problem(**FINITE | {field: 10**19}), field))


def test_a_step_is_judged_with_its_factor() -> None:
    Problem(**FINITE | {"eta": Step(1e20, exponent=1.0)})
    refused(lambda: Problem(**FINITE | {"eta": Step(1e20, exponent=1.0), "width": 10**12}), "eta")


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize("value", [10**5000, Unprintable(), "x" * 10**6, list(range(10**4))], ids=type)
def test_messages_show_values_at_no_length(value: object) -> None:
    assert len(str(refused(lambda: Problem(**FINITE | {"d": value}), "d"))) < 400


def test_input_dimension_is_at_least_two() -> None:
    assert "2" in refused(lambda: Problem(**FINITE | {"d": 1}), "d").allowed


@pytest.mark.parametrize("value", [*NOT_NUMBERS[:4], *NOT_NUMBERS[5:], TOO_LARGE, math.inf, -math.inf, -1e-9, 0])
def test_ridge_is_positive_and_finite(value: object) -> None:
    refused(lambda: Problem(**FINITE | {"ridge": value}), "ridge")


@pytest.mark.parametrize("value", [*NOT_NUMBERS, TOO_LARGE, math.inf, -1e-9])
def test_noise_is_non_negative_and_finite(value: object) -> None:
    refused(lambda: Problem(**FINITE | {"noise": value}), "noise")


@pytest.mark.parametrize("value", [*NOT_NUMBERS, TOO_LARGE, math.inf, -1e-9, {}, {"exponent": 0.5}])
def test_eta_is_non_negative_and_finite(value: object) -> None:
    refused(lambda: Problem(**FINITE | {"eta": value}), "eta")


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Step(math.nan), "eta.coefficient"),
        (lambda: Step(-1.0), "eta.coefficient"),
        (lambda: Step(True), "eta.coefficient"),
        (lambda: Step(1.0, -0.1), "eta.exponent"),
        (lambda: Step(1.0, 1.1), "eta.exponent"),
        (lambda: Step(1.0, "a"), "eta.exponent"),  # type: ignore[arg-type]
        (lambda: Proportional(0.0), "Proportional.ratio"),
        (lambda: Proportional(math.inf), "Proportional.ratio"),
        (lambda: Proportional(False), "Proportional.ratio"),
        (lambda: Readout("uniform"), "readout.kind"),  # type: ignore[arg-type]
        (lambda: Readout("gaussian", (1.0,), (1.0,)), "readout"),
        (lambda: Readout("vocabulary"), "readout"),
        (lambda: Readout("vocabulary", (1.0, 2.0), (1.0,)), "readout"),
        (lambda: Readout("vocabulary", None, None), "readout.values"),  # type: ignore[arg-type]
    ],
)
def test_parts_validate_themselves(build: Callable[[], object], field: str) -> None:
    refused(build, field)


@pytest.mark.parametrize("field", ["activation", "teacher"])
@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.0,
        [],
        "no_such_function",
        "tanh(x",
        "__import__('os').getcwd()",
        "1/x",
        "log(x)",
        "exp(x**2)",
        lambda x: x * math.nan,
        lambda x: np.zeros(3),
    ],
)
def test_functions_must_be_known_and_finite(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        Problem(**FINITE | {field: value})
    assert caught.value.field.startswith(field)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.0,
        "uniform",
        [1.0],
        np.array([1.0, 2.0]),
        {},
        {"a": 1.0},
        {0.0: 1.0},
        {1.0: 0.5, "1": 0.5},
        {math.inf: 1.0},
    ],
)
def test_readout_is_a_law(value: object) -> None:
    refused(lambda: Problem(**FINITE | {"readout": value}), "readout")


def test_text_says_what_a_mapping_and_nothing_say() -> None:
    """As on the command line, whose values mean the same in Python."""
    problem = Problem(**FINITE | {"readout": "-1:1,1:3"})
    assert problem.readout == Readout.parse({-1: 0.25, 1: 0.75}) == Readout.parse(str(problem.readout))
    assert "readout -1:0.25,1:0.75" in str(problem)
    refused(lambda: Readout.parse("-1:1,-1:3"), "readout")
    refused(lambda: Readout.parse("-1:1:2"), "readout")
    assert Problem(**FINITE | {"inputs": "isotropic"}) == Problem(**FINITE)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_readout_weights_are_positive(weight: object) -> None:
    refused(lambda: Readout.parse({1.0: weight}), "readout weight")


@pytest.mark.parametrize("value", [math.nan, True, None])
def test_readout_values_are_numbers(value: object) -> None:
    refused(lambda: Readout.parse({value: 1.0}), "readout value")


@pytest.mark.parametrize("field", ["initial_weights", "output_scale"])
@pytest.mark.parametrize("value", [None, True, "N", "Gaussian", 1, [], np.array([1.0, 2.0])])
def test_choices_are_named(field: str, value: object) -> None:
    assert "'" in refused(lambda: Problem(**FINITE | {field: value}), field).allowed


def test_origin_is_text() -> None:
    refused(lambda: Problem(**FINITE | {"origin": 3}), "origin")


@pytest.mark.parametrize("field", ["width", "n_step", "n", "ridge"])
def test_a_multiple_of_the_dimension_is_a_number_where_that_is_finite(field: str) -> None:
    assert "infinite" in refused(lambda: Problem(**LIMIT | {field: FINITE[field]}), field).allowed
    for ratio, text in ((1.5, "1.5d"), (1.5, " 1.5 * d "), (1.0, "d"), (0.25, "d/4")):
        for form in (text, Proportional(ratio), {"per_d": ratio}):
            assert getattr(Problem(**FINITE | {field: form}), field) == ratio * FINITE["d"]
            assert getattr(Problem(**LIMIT | {field: form}), field) == Proportional(ratio)
    assert getattr(Problem(**FINITE | {field: "7"}), field) == 7
    assert refused(lambda: Problem(**FINITE | {field: "1.5n"}), field).value == "1.5n"
    assert refused(lambda: Problem(**FINITE | {field: {"per_d": -1}}), field).value == {"per_d": -1}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("0.3", Step(0.3)),
        ("N^0.25", Step(1.0, 0.25)),
        ("N**0.25", Step(1.0, 0.25)),
        (" 1.5 N ^ 0.5 ", Step(1.5, 0.5)),
        ("2*sqrt(N)", Step(2.0, 0.5)),
        ("√N", Step(1.0, 0.5)),
        ("2N", Step(2.0, 1.0)),
    ],
)
def test_a_step_size_may_be_text(text: str, step: Step) -> None:
    assert Problem(**FINITE | {"eta": text}).eta == step
    assert Step.parse(str(step)) == step


def test_no_penalty_is_told_what_to_use() -> None:
    for value in (0, 0.0, "0"):
        assert "min-norm" in refused(lambda value=value: Problem(**FINITE | {"ridge": value}), "ridge").allowed


@pytest.mark.parametrize(
    ("convention", "settings", "field", "value"),
    [
        *(
            (name, settings, field, bad)
            for name, settings, positive in [
                ("ba2022", BA, ("psi1", "psi2", "lam")),
                ("moniri2024", MONIRI, ("phi", "psi", "lam")),
                ("cui2024", CUI, ("alpha", "beta", "lam")),
            ]
            for field in positive
            for bad in (0, -1.0, math.nan, math.inf, None, True, "1")
        ),
        *(("ba2022", BA, "sigma_eps", bad) for bad in (-0.1, math.nan, "0")),
        *(("ba2022", BA, "psi1_step", bad) for bad in (0, -1.0, math.nan, "2")),
        *(("ba2022", BA, "d", bad) for bad in (1, 2.5, "64")),
        *(("moniri2024", MONIRI, "alpha", bad) for bad in (-0.1, 1.1, "0.2", None)),
        *(("moniri2024", MONIRI, "c", bad) for bad in (-1.0, math.nan, None)),
        *(("moniri2024", MONIRI, "n", bad) for bad in (0, -5, 2.5, "many")),
        *(("moniri2024", MONIRI, "residual", bad) for bad in ("f", None, [])),
        *(("cui2024", CUI, "alpha0", bad) for bad in (-1.0, math.nan, None)),
        *(("cui2024", CUI, "eta_tilde", bad) for bad in (-1.0, math.nan, math.inf, "1")),
    ],
)
def test_parameters_of_the_papers_are_named_as_in_the_papers(
    convention: str, settings: dict[str, Any], field: str, value: object
) -> None:
    refused(lambda: Problem.from_dict({"convention": convention} | settings | {field: value}), field)


def test_an_invalid_input_is_a_value_error_and_ours() -> None:
    with pytest.raises(ValueError, match="ridge: got -1; allowed: a finite number > 0"):
        Problem(**FINITE | {"ridge": -1})
    assert issubclass(InvalidInput, GradstepError)


# --- a value: equal, hashable, immutable ------------------------------------------------------------------------------


def test_equal_descriptions_are_equal_problems() -> None:
    one = Problem(**FINITE)
    same = Problem(**FINITE | {"activation": scalar_function("tanh"), "d": 32.0, "n": np.int64(50), "eta": Step(1.5)})
    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same, one.replace(n=51)}) == 2
    assert type(same.d) is int
    assert type(same.n) is int


def test_every_field_counts_in_equality() -> None:
    one = Problem(**FINITE)
    changes = {
        "activation": "erf",
        "teacher": "relu",
        "d": 33,
        "width": 25,
        "n_step": 41,
        "n": 51,
        "eta": Step(1.5, 0.1),
        "ridge": 0.2,
        "noise": 0.1,
        "readout": "constant",
        "initial_weights": "sphere",
        "output_scale": "1/sqrt(N)",
        "inputs": "power_law(0.5)",
        "damping": 0.1,
    }
    assert set(changes) == {field.name for field in dataclasses.fields(Problem)} - {"origin"}
    for name, value in changes.items():
        assert one.replace(**{name: value}) != one, name


@pytest.mark.parametrize("value", [Problem(**FINITE), Step(1.0), Readout("gaussian"), Proportional(1.0)])
def test_immutable(value: Any) -> None:
    name = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(value, name)


def test_a_problem_says_how_to_change_a_field() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"^a problem does not change: use problem.replace\(n="):
        Problem(**FINITE).n = 3  # type: ignore[misc]


def test_copies_are_equal() -> None:
    problem = Problem(**FINITE | {"activation": "tanh(x) + 0.3*x**2", "readout": {1: 1, 2: 3}})
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert copy.deepcopy(problem) == problem


# --- reading and writing ----------------------------------------------------------------------------------------------

WRITTEN = [
    Problem(**FINITE),
    Problem(**LIMIT),
    Problem(**FINITE | {"n_step": math.inf}),
    Problem(**FINITE | {"eta": Step(0.3, 0.5), "readout": {-1: 1, 0.5: 2, 2: 1}, "noise": 0.25}),
    Problem(**FINITE | {"activation": "tanh(x) + 0.3*x**2", "teacher": "H2 + 0.5*H3", "readout": "constant"}),
    Problem.ba2022(**BA, sigma_eps=0.1, d=64),
    Problem.ba2022(**BA, psi1_step=math.inf),
    Problem.moniri2024(**MONIRI, n=150, c=2.0),
    Problem.moniri2024(**MONIRI, residual="y"),
    Problem.cui2024(**CUI, d=40),
    Problem.cui2024(**CUI | {"alpha0": math.inf}, readout={0.5: 0.5, 2: 0.5}),
]


@pytest.mark.parametrize("problem", WRITTEN, ids=lambda problem: f"{problem.origin}-{problem.d}-{problem.n_step}")
def test_round_trip_through_json(problem: Problem) -> None:
    text = json.dumps(problem.to_dict(), allow_nan=False)
    assert Problem.from_dict(json.loads(text)) == problem


@given(
    st.fixed_dictionaries(
        {
            "activation": st.sampled_from(["tanh", "relu", "sin(1.2*x + 0.6)", "H2 + 0.5*H3"]),
            "d": st.integers(2, 10**6),
            "width": st.integers(1, 10**6),
            "n_step": st.integers(1, 10**6) | st.just(math.inf),
            "n": st.integers(1, 10**6),
            "eta": st.builds(Step, st.floats(0, 1e6), st.floats(0, 1)),
            "ridge": st.floats(1e-12, 1e12),
            "noise": st.floats(0, 1e3),
            "readout": st.dictionaries(st.floats(-9, 9), st.floats(0.1, 9), min_size=1, max_size=4).filter(any),
            "initial_weights": st.sampled_from(["gaussian", "sphere"]),
            "output_scale": st.sampled_from(["1/N", "1/sqrt(N)"]),
        }
    )
)
def test_round_trip_of_any_problem(changes: dict[str, Any]) -> None:
    problem = Problem(**FINITE | changes)
    again = Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    # Normalising the weights a second time may change the last digit.
    assert again.readout.weights == pytest.approx(problem.readout.weights, rel=1e-15)
    assert again.replace(readout=problem.readout) == problem
    assert again.readout.values == problem.readout.values


@pytest.mark.parametrize("name", ["activation", "teacher"])
@pytest.mark.parametrize(
    "function", ["1e154*x", "1e31*tanh(x)", "tanh(x) + 1e300", "1e200*relu(x)", "exp(0.2*x**2 + 80)"]
)
def test_functions_that_leave_double_precision_are_refused(name: str, function: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Problem(**FINITE | {name: function})
    assert raised.value.field == name
    assert "root mean square" in raised.value.allowed


TOML = """
[problem]
convention = "cui2024"
alpha = 1.6
alpha0 = "inf"
eta_tilde = 1.0
lam = 0.01
d = 40
[problem.readout]
"0.5" = 0.25
"2" = 0.75
"""


def test_toml_text_and_file(tmp_path: Path) -> None:
    expected = Problem.cui2024(
        alpha=1.6, alpha0=math.inf, eta_tilde=1.0, lam=0.01, d=40, readout={0.5: 0.25, 2.0: 0.75}
    )
    assert Problem.from_toml(TOML) == expected
    for path in (tmp_path / "problem.toml", tmp_path / "alpha=1.6.toml"):
        path.write_text(TOML, encoding="utf-8")
        assert Problem.from_toml(path) == expected
        assert Problem.from_toml(str(path)) == expected
    refused(lambda: Problem.from_toml("noise = 0.5\n" + TOML), "settings file")
    assert Problem.from_toml(TOML + "\n[run]\nseeds = 3\n") == expected
    bare = 'activation="tanh"\nteacher="sin"\nd=32\nwidth=24\nn_step=40\nn=50\neta=1.5\nridge=0.1'
    assert Problem.from_toml(bare) == Problem(**FINITE)


@pytest.mark.parametrize("source", ["absent.toml", "a = [", "\n=", 5, None, "problem = 3", b"\n"])
def test_unreadable_settings(source: Any) -> None:
    with pytest.raises(InvalidInput, match="allowed"):
        Problem.from_toml(source)


def test_a_file_of_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes('origin = "d\xe9j\xe0"'.encode("latin-1"))
    refused(lambda: Problem.from_toml(path), "settings file")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ([], "settings"),
        ({"convention": "ba2023"}, "convention"),
        ({"convention": ["ba2022"]}, "convention"),
        (FINITE | {"widht": 3}, "widht"),
        ({name: value for name, value in FINITE.items() if name != "ridge"}, "ridge"),
        ({"convention": "cui2024"} | BA, "psi1"),
        ({"convention": "ba2022"} | {name: BA[name] for name in ("psi1", "lam")}, "psi2"),
    ],
)
def test_settings_with_wrong_names(settings: Any, field: str) -> None:
    refused(lambda: Problem.from_dict(settings), field)


def test_a_callable_cannot_be_written_down() -> None:
    problem = Problem(**FINITE | {"teacher": np.tanh})
    refused(problem.to_dict, "teacher")


@pytest.mark.parametrize(
    ("constructor", "given", "meant"),
    [
        (Problem, "activaton", "activation"),
        (Problem.ba2022, "sigma_ep", "sigma_eps"),
        (Problem.cui2024, "alph", "alpha"),
    ],
)
def test_a_misspelt_parameter_gets_a_guess(constructor: Callable[..., Problem], given: str, meant: str) -> None:
    allowed = "allowed: one of the parameters"
    with pytest.raises(InvalidInput, match=rf"{given}: not a known name \(did you mean {meant}\?\); {allowed}"):
        constructor(**{given: 1})


def test_what_is_not_given_is_said_to_be_missing() -> None:
    with pytest.raises(InvalidInput, match=r"^psi2: missing; allowed: a value \(the convention 'ba2022' needs one\)$"):
        Problem.from_dict({"convention": "ba2022", "psi1": 2.0, "lam": 0.1})


def test_what_is_printed_is_short_and_what_is_shown_builds_the_problem_again() -> None:
    problem = Problem(**FINITE | {"eta": Step(1.5, 0.25)})
    text = str(problem)
    for part in ("tanh", "sin", "d = 32", "width = 24", "n_step = 40", "n = 50", "1.5*N^0.25", "ridge = 0.1"):
        assert part in text
    assert "gaussian" not in text
    assert "d = 32" not in problem.described(["d"])
    limit = Problem(**LIMIT | {"readout": {-1: 0.5, 1: 0.5}, "output_scale": "1/sqrt(N)"})
    assert "width = 0.75 d" in str(limit)
    for each in (problem, limit, Problem(**FINITE | {"readout": "constant", "initial_weights": "sphere"})):
        assert eval(repr(each), {"Problem": Problem, "Step": Step, "math": math}) == each
        assert max(map(len, repr(each).splitlines())) <= 80


# --- derived ----------------------------------------------------------------------------------------------------------


def test_replace_validates_again() -> None:
    problem = Problem(**FINITE)
    assert problem.replace(n=60).n == 60
    assert problem.n == 50
    refused(lambda: problem.replace(n=-1), "n")
    refused(lambda: problem.replace(samples=60), "samples")
    refused(lambda: problem.replace(n_step="60d", output_scale="1"), "output_scale")
    refused(lambda: problem.replace(width=40, eta=Step(9e29, exponent=0.5)), "eta")
    refused(lambda: problem.replace(d=math.inf), "width")


def test_at_dimension() -> None:
    limit = Problem(**LIMIT | {"noise": 0.3, "readout": "constant", "initial_weights": "sphere"})
    finite = limit.at_dimension(40)
    assert (finite.d, finite.width, finite.n_step, finite.n) == (40, 30, 50, 80)
    assert finite.ridge == pytest.approx(0.4, rel=1e-15)
    assert finite.replace(**{name: getattr(limit, name) for name in ("d", "width", "n_step", "n", "ridge")}) == limit
    assert limit.replace(n_step=math.inf).at_dimension(40).n_step == math.inf
    assert limit.replace(width=Proportional(1e-4)).at_dimension(40).width == 1
    refused(lambda: limit.at_dimension(1), "d")
    refused(lambda: finite.at_dimension(80), "d")


@pytest.mark.parametrize(
    ("constructor", "settings"), [(Problem.ba2022, BA), (Problem.cui2024, CUI)], ids=["ba2022", "cui2024"]
)
def test_the_limit_at_a_dimension_is_the_finite_problem(constructor: Callable[..., Problem], settings: Any) -> None:
    limit, finite = constructor(**settings), constructor(**settings, d=40)
    assert limit.is_limit
    assert not finite.is_limit
    again = limit.at_dimension(40)
    assert again.ridge == pytest.approx(finite.ridge, rel=1e-14)
    assert again.replace(ridge=finite.ridge) == finite


def test_the_limit_of_moniri2024_at_a_dimension_is_the_finite_problem() -> None:
    limit, finite = Problem.moniri2024(**MONIRI), Problem.moniri2024(**MONIRI, n=150)
    again = limit.at_dimension(60)
    assert (again.d, again.width, again.n_step, again.n) == (finite.d, finite.width, finite.n_step, finite.n)
    assert again.ridge == pytest.approx(finite.ridge, rel=1e-14)
    assert again.step_size == pytest.approx(finite.step_size, rel=1e-14)
    assert finite.step_size == pytest.approx(150**0.2, rel=1e-14)


def test_ratios() -> None:
    finite, limit = Problem(**FINITE), Problem(**LIMIT)
    assert [finite.ratio(name) for name in ("width", "n_step", "n", "ridge")] == [24 / 32, 40 / 32, 50 / 32, 0.1 / 32]
    assert [limit.ratio(name) for name in ("width", "n_step", "n", "ridge")] == [0.75, 1.25, 2.0, 0.01]
    assert finite.replace(n_step=math.inf).ratio("n_step") == math.inf


def test_step_size() -> None:
    assert Step(3.0, 0.5).size(16) == 12.0
    assert Step(3.0).size(math.inf) == 3.0
    assert Step(3.0, 0.5).size(math.inf) == math.inf
    assert Step(0.0, 0.5).size(math.inf) == 0.0
    assert Problem(**FINITE | {"eta": {"coefficient": 3.0, "exponent": 0.5}, "width": 16}).step_size == 12.0
    assert Problem(**LIMIT | {"eta": Step(3.0, 0.5)}).step_size == math.inf


def test_readout_moments_and_order() -> None:
    law = Readout.parse({2: 1, -1: 3})
    assert law == Readout("vocabulary", (-1.0, 2.0), (0.75, 0.25))
    assert law.mean == pytest.approx(-0.25, rel=1e-15)
    assert law.second_moment == pytest.approx(1.75, rel=1e-15)
    gaussian, constant = Readout.parse("gaussian"), Readout.parse("constant")
    assert (gaussian.mean, gaussian.second_moment) == (0.0, 1.0)
    assert constant == Readout.parse({1: 7})
    assert (constant.mean, constant.second_moment) == (1.0, 1.0)
    assert Readout.parse(law) is law


def test_no_step_of_cui2024() -> None:
    assert Problem.cui2024(**CUI | {"alpha0": 0}, d=40).step_size == 0.0


@pytest.mark.parametrize("teacher", ["relu", "softplus", "0.3*x**2 + x", np.exp, lambda x: x**2 + x])
def test_ba2022_centres_the_teacher(teacher: Any) -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(99)
    points = np.array([-2.0, 0.3, 1.7])
    plain = scalar_function(teacher)
    # The mean of relu is 1/sqrt(2 pi); the others are smooth.
    mean = 1 / math.sqrt(2 * math.pi) if teacher == "relu" else weights @ plain(nodes) / math.sqrt(2 * math.pi)
    centred = Problem.ba2022(**BA, teacher=teacher).teacher
    np.testing.assert_allclose(centred(points), plain(points) - mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(centred.derivative(points), plain.derivative(points), rtol=1e-10, atol=1e-10)
    assert Problem.ba2022(**BA, teacher=teacher, centre_teacher=False).teacher == plain


def test_ba2022_leaves_an_odd_teacher_alone() -> None:
    assert Problem.ba2022(**BA, teacher="erf").teacher.name == "erf"


def test_weights_that_were_normalised_stay_what_they_are() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        readout = {float(v): float(w) for v, w in zip(rng.normal(size=5), rng.uniform(size=5), strict=True)}
        problem = Problem(**FINITE | {"readout": readout})
        assert Problem.from_dict(json.loads(json.dumps(problem.to_dict()))) == problem


def _bent(x: Any) -> Any:
    return np.maximum(x, 0.0) + 0.1 * x


def test_problems_of_one_callable_are_equal() -> None:
    one, two = (Problem.ba2022(**BA, teacher=_bent) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert Problem.ba2022(**BA, teacher=np.arctan) != one


def test_origin_is_a_label_only() -> None:
    assert Problem(**FINITE, origin="elsewhere") == Problem(**FINITE)


def test_what_varies_little_around_a_large_mean_is_not_constant() -> None:
    assert Problem(**FINITE | {"activation": "1 + 1e-8*tanh(x)"}).activation.parity is None
    for constant in ("3", "sin(x)**2 + cos(x)**2", "heaviside(x**2)"):
        refused(lambda formula=constant: Problem(**FINITE | {"activation": formula}), "activation")


def test_files_that_no_system_names() -> None:
    refused(lambda: Problem.from_toml("a\0b"), "settings file")


def test_a_ratio_is_that_of_a_size():
    problem = Problem(activation="relu", teacher="H1", d=20, width=10, n_step=40, n=30, eta=1.0, ridge=1.0)
    assert problem.ratio("n_step") == 2
    with pytest.raises(InvalidInput, match="name: got 'noise'"):
        problem.ratio("noise")


def test_numbers_in_arrays_without_dimensions() -> None:
    given: Any = {"d": np.array(20), "width": np.array(30), "eta": np.array(1.5), "ridge": np.array(0.5)}
    plain: Any = {"d": 20, "width": 30, "eta": 1.5, "ridge": 0.5}
    rest: Any = {"activation": "tanh", "teacher": "sin", "n_step": 40, "n": 60}
    assert Problem(**given, **rest) == Problem(**plain, **rest)
