"""Lists and ranges as text, with the meaning that they have on the command line and in Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.problem import Step
from gradstep.ranges import parse_seeds, values_of
from gradstep.sizes import Proportional


@pytest.mark.parametrize(
    ("name", "given", "values"),
    [
        ("n", "3", (3,)),
        ("n", "1e3", (1000,)),
        ("noise", "1,2,5", (1.0, 2.0, 5.0)),
        ("n", "500:4000:8", tuple(range(500, 4001, 500))),
        ("n", "4:1:4", (4, 3, 2, 1)),
        ("n", "1:3:9", (1, 2, 3)),
        ("noise", "0:1:5", (0.0, 0.25, 0.5, 0.75, 1.0)),
        ("n_step", "inf", (math.inf,)),
        ("n", "30,2d,d/4", (30, Proportional(2.0), Proportional(0.25))),
        ("width", "1d:3d:3", tuple(map(Proportional, (1.0, 2.0, 3.0)))),
        ("width", "1:3:3d", tuple(map(Proportional, (1.0, 2.0, 3.0)))),
        ("ridge", "d/64", (Proportional(1 / 64),)),
        ("n", [30, 40.0, "2d", np.int64(7)], (30, 40, Proportional(2.0), 7)),
        ("n", np.array([3, 4]), (3, 4)),
        ("n", 5, (5,)),
        ("activation", "relu,tanh", ("relu", "tanh")),
        ("activation", "max(x, 0), tanh", ("max(x, 0)", "tanh")),
        ("readout", "gaussian,constant", ("gaussian", "constant")),
        ("readout", "-1:0.5,1:0.5", ({-1.0: 0.5, 1.0: 0.5},)),
        ("centre_teacher", "true", (True,)),
        ("eta", "0,1,N^0.5", (0.0, 1.0, Step(1.0, 0.5))),
        ("eta", "0:2:3", (0.0, 1.0, 2.0)),
        ("eta", "0:2:3*N^0.5", tuple(Step(c, 0.5) for c in (0.0, 1.0, 2.0))),
        ("eta", "N^0:0.5:3", tuple(Step(1.0, e) for e in (0.0, 0.25, 0.5))),
        ("eta", "0:2:2*sqrt(N)", (Step(0.0, 0.5), Step(2.0, 0.5))),
        ("eta", [{"coefficient": 2, "exponent": 0.5}, Step(1.0)], (Step(2.0, 0.5), Step(1.0))),
    ],
)
def test_values(name: str, given: object, values: tuple[object, ...]) -> None:
    read = values_of(name, given)
    assert read == values
    if name in ("n", "width"):
        assert not any(isinstance(value, float) for value in read)


def test_a_logarithmic_range_has_equal_ratios_and_exact_ends() -> None:
    values = values_of("ridge", "1e-4:1e2:log7")
    assert (values[0], values[-1], len(values)) == (1e-4, 1e2, 7)
    assert [b / a for a, b in itertools.pairwise(values)] == pytest.approx([10.0] * 6, rel=1e-12)


@pytest.mark.parametrize("name", ["n", "noise"])
@pytest.mark.parametrize(
    "text",
    ["", "nan", "1,nan", "x", "1:2", "1:2:3:4", "1:2:1", "1:2:x", "1:2:-3", "1:2:log", "-1:2:log3", "0:1:log3",
     "1:1:4", "1:inf:3", "1:2:999999", "1_000", ",".join(map(str, range(10_001)))],
)  # fmt: skip
def test_malformed_numbers_are_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name}: got "):
        values_of(name, text)


@pytest.mark.parametrize("text", ["0d", "-1d", "1dd", "d/0", "1d:2:3", "xd", "infd"])
def test_malformed_multiples_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^n: got .*1\.5d"):
        values_of("n", text)


@pytest.mark.parametrize(
    "text",
    ["", "N^", "*N", "N^N", "N^x", "N*2", "__import__('os')", "nan", "1.5*M^0.5", "N^nan", "N^2", "-1*N", "sqrt N"],
)
def test_malformed_steps_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^eta: got .*N\^0\.5"):
        values_of("eta", text)


def test_seeds() -> None:
    assert parse_seeds("16") == 16
    assert parse_seeds("3, 7,11") == (3, 7, 11)
    for text in ("0", "-1", "1.5", "x", "", "3,3", "1,", "99999999999,1", "4294967296,1"):
        with pytest.raises(InvalidInput, match="seeds"):
            parse_seeds(text)
    assert parse_seeds("0", 0) == 0
    with pytest.raises(InvalidInput) as refused:
        parse_seeds("-1", 0)
    allowed = "an integer in [0, 1000000], or distinct integers in [0, 2**32) such as 3,7,11"
    assert str(refused.value) == f"seeds: got -1; allowed: {allowed}"
