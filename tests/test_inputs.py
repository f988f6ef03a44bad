"""The law of the inputs: classes, their scaling, numbers of directions, and how it is written."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradstep as gs
from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.moniri2024.finite import finite_errors
from gradstep.ranges import values_of
from gradstep.sweeps.design import design_of
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.references import REFERENCES
from gradstep.theory.spectra.second_step import second_step
from gradstep.theory.step.fresh_steps import fresh_steps

SIZES: dict[str, Any] = {"d": 40, "width": 60, "n_step": 160, "n": 120, "eta": gs.Step(1.0, 0.5), "ridge": 1.0}
LAWS = [
    gs.Inputs([4, 1, 0.5]),
    gs.Inputs([4, 1, 0.5], share=[1, 2, 7], teacher=[0, 1, 0]),
    gs.Inputs([1, 0], share=[0.25, 0.75]),
    gs.Inputs.power_law(0.5),
    gs.Inputs.power_law(0.3, -1),
    gs.Inputs.power_law(1.5, 0, d=300),
    gs.Inputs.spiked([9, 5], d=50, teacher=[0.5, 0]),
]


def problem(**changes: Any) -> gs.Problem:
    return gs.Problem(activation="tanh", teacher="sin", **SIZES | changes)


laws = st.integers(1, 6).flatmap(
    lambda k: st.builds(
        gs.Inputs,
        st.lists(st.floats(0.01, 100), min_size=k, max_size=k),
        st.lists(st.floats(0.01, 1), min_size=k, max_size=k),
        st.lists(st.floats(0, 1), min_size=k, max_size=k).filter(any),
    )
)


@given(laws)
def test_classes_are_scaled_sorted_and_read_back_to_the_last_digit(law: gs.Inputs) -> None:
    of_class = list(zip(law.eigenvalues, law.share, law.teacher, strict=True))
    assert sum(s * c for c, s, _ in of_class) == pytest.approx(1, rel=1e-12)
    assert sum(law.share) == pytest.approx(1, rel=1e-12)
    assert sum(law.teacher) == pytest.approx(1, rel=1e-12)
    assert list(law.eigenvalues) == sorted(set(law.eigenvalues), reverse=True)
    assert gs.Inputs(*zip(*of_class, strict=True)) == law
    assert 0 < law.effective_dimension <= 1 + 1e-12


@given(laws, st.integers(6, 500))
def test_numbers_of_directions(law: gs.Inputs, d: int) -> None:
    counts = law.counts(d)
    assert sum(counts) == d
    forced = sum(1 for share in law.share if share * d < 1)
    for count, share, teacher in zip(counts, law.share, law.teacher, strict=True):
        assert count >= (teacher > 0)
        assert abs(count - share * d) < 1 + forced
    at = law.at_dimension(d)
    assert sum(s * c for c, s in zip(at.eigenvalues, at.share, strict=True)) == pytest.approx(1, rel=1e-12)
    assert sum(at.counts(d)) == d
    assert at.counts(d) == pytest.approx(np.array(at.share) * d, abs=1e-6)


def test_a_class_split_in_two_is_the_same_law() -> None:
    whole = gs.Inputs([4, 1], share=[0.25, 0.75], teacher=[0.5, 0.5])
    assert gs.Inputs([1, 4, 1], share=[0.25, 0.25, 0.5], teacher=[0.1, 0.5, 0.4]) == whole
    assert gs.Inputs([3, 3, 3]) == gs.Inputs([1])
    assert gs.Inputs([3, 3]).is_isotropic


def test_the_default_teacher_is_drawn_at_random() -> None:
    law = gs.Inputs([4, 1], share=[0.25, 0.75])
    assert law.teacher == pytest.approx([4 / 7, 3 / 7])


def test_power_law_with_d_has_the_eigenvalues_by_rank() -> None:
    d, c = 200, np.arange(1, 201.0) ** -0.7
    fine = gs.Inputs.power_law(0.7, 0.2, d=d, classes=d)
    assert np.repeat(fine.eigenvalues, fine.counts(d)) == pytest.approx(c / c.mean())
    assert fine.teacher == pytest.approx(np.arange(1, 201.0) ** -0.2 / (np.arange(1, 201.0) ** -0.2).sum())
    coarse = gs.Inputs.power_law(0.7, 0.2, d=d)
    assert len(coarse.eigenvalues) == 30
    assert coarse.at_dimension(d).eigenvalues == pytest.approx(coarse.eigenvalues)
    assert coarse.effective_dimension == pytest.approx(fine.effective_dimension, rel=0.01)


def test_power_law_without_d_has_the_means_of_its_density() -> None:
    law = gs.Inputs.power_law(0.5, 0.0, classes=4)
    assert law.eigenvalues == pytest.approx([4 * (math.sqrt((k + 1) / 4) - math.sqrt(k / 4)) for k in range(4)])
    assert law.teacher == pytest.approx([0.25] * 4)
    assert gs.Inputs.power_law(0).is_isotropic


def test_directions_may_be_a_whole_float_as_sizes_may() -> None:
    assert gs.Inputs.spiked([9], d=1e2) == gs.Inputs.spiked([9], d=100)
    assert str(gs.Inputs.power_law(1, d=np.float64(100))) == str(gs.Inputs.power_law(1, d=100))
    with pytest.raises(gs.InvalidInput, match=r"^d: got 10.5; allowed: an integer from 2 to 1000000"):
        gs.Inputs.spiked([9], d=10.5)  # type: ignore[arg-type]
    with pytest.raises(gs.InvalidInput, match=r"^exponent: got 1.0; allowed: a number < 1; .* such as d=300"):
        gs.Inputs.power_law(1)


def test_spikes_are_single_directions() -> None:
    law = gs.Inputs.spiked([9, 4], d=100, teacher=[0.5, 0.2])
    assert law.counts(100) == (1, 1, 98)
    assert law.teacher == pytest.approx([0.5, 0.2, 0.3])
    assert np.array(law.eigenvalues) / law.eigenvalues[-1] == pytest.approx([10, 5, 1])


@pytest.mark.parametrize("law", LAWS)
def test_every_form_is_read_back(law: gs.Inputs) -> None:
    assert gs.Inputs.parse(law.to_plain()) == law
    assert eval(repr(law), {"Inputs": gs.Inputs}) == law
    assert len(repr(law).splitlines()) == 1
    assert pickle.loads(pickle.dumps(law)) == law
    assert pickle.loads(pickle.dumps(law)).to_plain() == law.to_plain()
    # What is replaced has no text of the constructor any more.
    changed = dataclasses.replace(law, teacher=law.share if all(law.eigenvalues) else law.teacher)
    assert gs.Inputs.parse(changed.to_plain()) == changed
    whole = problem(inputs=law, damping=0.5)
    assert gs.Problem.from_dict(whole.to_dict()) == whole
    assert eval(repr(whole), vars(gs) | {"Problem": gs.Problem, "Inputs": gs.Inputs, "Step": gs.Step}) == whole
    assert str(law) in str(whole)


@pytest.mark.parametrize(
    "wrong",
    [
        "power_law(1)",
        "power_law(-1)",
        "power_law()",
        "power_law('a')",
        "power_law(0.5",
        "power_law(0.5, 1.0)",
        "power_law(0.5, d=1)",
        "spiked(3, 4)",
        "spiked([1, -1], d=5)",
        "spiked([1, 2], d=2)",
        "spiked([1], d=5, teacher=[2])",
        "open('x')",
        "().__class__",
        {"eigenvalues": []},
        {"eigenvalues": [1, -1]},
        {"eigenvalues": [0, 0]},
        {"eigenvalues": [1, math.nan]},
        {"eigenvalues": [1, math.inf]},
        {"eigenvalues": [1, 2], "share": [1]},
        {"eigenvalues": [1, 2], "share": [1, 0]},
        {"eigenvalues": [1, 2], "teacher": [0, 0]},
        {"eigenvalues": [1, 0], "teacher": [1, 1]},
        {"eigenvalues": "12"},
        {"values": [1]},
        3.0,
    ],
)
def test_what_is_no_law_is_refused(wrong: Any) -> None:
    with pytest.raises(gs.InvalidInput, match=r"^inputs"):
        problem(inputs=wrong)


def test_isotropic_inputs_are_none_and_change_nothing() -> None:
    plain = problem()
    assert problem(inputs={"eigenvalues": [2, 2]}) == plain
    assert hash(problem(inputs=gs.Inputs([1]), damping="inf")) == hash(plain)
    assert not {"inputs", "damping"} & plain.to_dict().keys()
    assert "inputs" not in str(plain) + repr(plain)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, "x", None, True])
def test_damping_is_positive(wrong: Any) -> None:
    with pytest.raises(gs.InvalidInput, match=r"^damping"):
        problem(damping=wrong)


def test_the_teacher_needs_a_direction_in_each_of_its_classes() -> None:
    with pytest.raises(gs.InvalidInput, match=r"^d: got 20; allowed: at least 30"):
        problem(d=20, inputs="power_law(0.5)")


def test_lists_and_tables_make_grids(tmp_path: Any) -> None:
    curve = gs.curve(problem(damping=math.inf), over={"damping": "0.5,inf"}, seeds=2)
    assert [axis.numbers for axis in curve.axes] == [(0.5, math.inf)]
    assert values_of("inputs", "power_law(0.5, d=40),spiked([9, 9], d=40)") == (
        "power_law(0.5, d=40)",
        "spiked([9, 9], d=40)",
    )
    (tmp_path / "one.toml").write_text(
        'activation = "tanh"\nteacher = "sin"\nd = 40\nwidth = 60\nn_step = 160\nn = 120\neta = 1.0\nridge = 1.0\n'
        "damping = 0.3\n[inputs]\neigenvalues = [4, 1]\nshare = [1, 3]\n"
    )
    read = gs.Problem.from_toml(tmp_path / "one.toml")
    assert read.inputs == gs.Inputs([4, 1], share=[1, 3])
    laws = values_of("inputs", [{"eigenvalues": [4, 1]}, "power_law(0.5)"])
    assert [problem(inputs=law).inputs for law in laws] == [gs.Inputs([4, 1]), gs.Inputs.power_law(0.5)]


def test_sweeps_keep_the_law() -> None:
    law = gs.Inputs([4, 1], share=[0.25, 0.75])
    over = {"inputs": ["power_law(0.5)", law], "damping": [0.5, math.inf]}
    task = design_of(problem(), over, seeds=2).simulation_task(2, 0)
    expected = gs.simulate(problem(inputs=law, damping=0.5), [task.seed])["test_error"]
    assert task.run()["test_error"] == pytest.approx(expected)


WITHOUT_THEORY = {
    "second step": second_step,
    "fresh steps": lambda case: fresh_steps(case, 2),
    "drawn layers of Cui et al.": lambda case: stepped_layer(case, 0),
    "finite errors of Moniri et al.": lambda case: finite_errors([case.replace(readout="gaussian", eta=1.0)]),
}


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("name", WITHOUT_THEORY)
def test_what_has_no_theory_for_a_problem_refuses_it(name: str, noise: float) -> None:
    for change in ({"inputs": "power_law(0.5)"}, {"damping": 0.5}):
        with pytest.raises(gs.InvalidInput, match=rf"^{next(iter(change))}: .*gradstep.simulate"):
            WITHOUT_THEORY[name](problem(readout="constant", noise=noise, **change))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"damping": 0.5}, marks=pytest.mark.statistical),
        pytest.param({"inputs": gs.Inputs([3, 1])}, marks=pytest.mark.statistical),
        {"inputs": gs.Inputs([3, 1]), "damping": 0.5},
    ],
)
def test_spread_and_spectra_have_theory_for_every_step(change: dict[str, Any]) -> None:
    case = problem(readout="constant", **change)
    assert gs.predict_spread(case).test_error > 0
    assert gs.spectrum(case, of="weights").bulk.edge > 1
    assert gs.spectrum(case).bulk.edge > 0


WITH_THEORY = {
    "predict": gs.predict,
    "predict_many": lambda case: gs.predict_many([case]),
    "tune": lambda case: gs.tune(case, over="ridge"),
    "compare": lambda case: gs.compare(case, 2),
    "curve": lambda case: gs.curve(case, over={"n": [50, 60]}),
    "convex": convex_prediction,
}


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        # What tunes such problems has tests of its own, which hold it against a scan.
        pytest.param(name, noise, marks=pytest.mark.statistical if (place + other) % 2 or name == "tune" else ())
        for place, name in enumerate(WITH_THEORY)
        for other, noise in enumerate([0.0, 0.2])
    ],
)
def test_what_has_theory_for_a_problem_answers(name: str, noise: float) -> None:
    for change in ({"inputs": "power_law(0.5)"}, {"damping": 0.5}):
        case = problem(readout="constant", noise=noise, **change)
        WITH_THEORY[name](case)
        WITH_THEORY[name](case.replace(activation="softplus"))


def test_bounds_of_kernels_are_for_isotropic_inputs() -> None:
    assert REFERENCES["best linear error"](problem(inputs="power_law(0.5)")) > 0
    with pytest.raises(gs.InvalidInput, match=r"^reference: "):
        REFERENCES["kernel lower bound"](problem(inputs="power_law(0.5)"))
