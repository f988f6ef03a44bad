"""The equations near a point, as a matrix over the nodes and between pairs of slopes."""

import sys
from typing import Any

import numpy as np
import pytest
from random_tables import each_kind, random_equations, with_slopes

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.theory.equivalent import leverage, uniform
from gradstep.theory.equivalent.leverage import (
    LeverageEquations,
    couplings_times,
    linearised,
    near_point,
    solve_leverage,
)
from gradstep.theory.equivalent.linearised import Linearised, LinearisedByPairs

predict_module = sys.modules["gradstep.theory.predict"]  # gs.theory.predict is the function

# Two coordinates have nodes of their own: several hundred for six groups of neurons.
PLANE = gs.Problem(
    activation="H1+0.4*H2+0.2*H3", teacher="sin", d=120, width=180, n_step=360, n=240, eta=gs.Step(2.0, 0.5), ridge=5.0,
    noise=0.1, readout="constant", inputs=gs.Inputs.spiked([5.0], 120, [0.7]),
)  # fmt: skip


@pytest.fixture(scope="module")
def equations() -> LeverageEquations:
    ((_, prepared),) = predict_module._prepared(PLANE, "network", "structured", 1)
    sizes = (PLANE.width, PLANE.d - 1, PLANE.n, PLANE.ridge)
    return LeverageEquations(prepared.tables.shared.leverage_table, *(np.array([float(size)] * 2) for size in sizes))  # type: ignore[arg-type]


def test_pairs_of_slopes_are_the_matrix(equations: LeverageEquations) -> None:
    check_pairs(equations)


@each_kind
@pytest.mark.parametrize("groups", [5, 60])  # few groups, and more of few dimensions
def test_pairs_of_random_slopes_are_the_matrix(groups: int, kinds: dict[str, bool]) -> None:
    equations, rng = random_equations(2, groups, 320, 3, groups, **kinds), np.random.default_rng(groups)
    if groups == 60:
        slopes = (rng.normal(size=(2, 60, 4)) @ rng.normal(size=(2, 4, 320)) for _ in equations.table.kinds)
        equations = with_slopes(equations, *slopes)
        assert all(kind.factors is not None for kind in equations.table.kinds)
    check_pairs(equations)


def test_points_by_singular_values_have_pairs_of_the_slopes_of_groups() -> None:
    """Whole matrices beside slopes of few dimensions: the pairs are of what the matrices are between."""
    equations, rng = random_equations(1, 60, 4000, 3, 5, products=True), np.random.default_rng(5)
    slopes = (rng.normal(size=(1, 60, 4)) @ rng.normal(size=(1, 4, 4000)) for _ in equations.table.kinds)
    equations = with_slopes(equations, *slopes)
    state = np.zeros((1, 4060))
    expected = near_point(equations, leverage.evaluate(equations, state))
    found = near_point(equations, leverage.evaluate(equations, state, stable=True))
    vectors = rng.standard_normal(expected.into.shape)
    np.testing.assert_allclose(found.times(vectors), expected.times(vectors), rtol=1e-8, atol=1e-8)


def check_pairs(equations: LeverageEquations) -> None:
    """Compare both forms away from the solution too, where two members of a batch differ."""
    state = np.log(np.concatenate([(point := solve_leverage(equations)[0]).leverage, point.resolvent], axis=1))
    point = leverage.evaluate(equations, state + np.array([[0.1], [-0.3]]))
    nodes = point.leverage.shape[1]
    pairs, whole = near_point(equations, point), linearised(equations, point)
    assert isinstance(pairs, LinearisedByPairs)
    assert pairs.known.shape[1] < len(equations.table.kinds) * nodes / 4
    random = np.random.default_rng(0)
    vectors, values = random.standard_normal(whole.into.shape), random.standard_normal(point.resolvent.shape)
    scale = np.abs(whole.matrix).max()
    np.testing.assert_allclose(pairs.diagonal, whole.diagonal, rtol=1e-10)
    np.testing.assert_allclose(pairs.times(vectors), whole.times(vectors), atol=1e-12 * scale)
    np.testing.assert_allclose(pairs.times_groups(values), whole.times_groups(values), atol=1e-12 * scale)
    of_pairs, of_whole = (couplings_times(equations, point, near, vectors) for near in (pairs, whole))
    np.testing.assert_allclose(of_pairs, of_whole, atol=1e-12 * np.abs(of_whole).max())
    sources = whole.times(np.abs(vectors))
    for near in (pairs, whole):
        np.testing.assert_allclose(near.response(sources, nodes), np.abs(vectors), rtol=1e-7)
    last = pairs.take(np.array([False, True]))
    np.testing.assert_allclose(last.times(vectors[1:]), whole.times(vectors)[1:], atol=1e-12 * scale)


@pytest.mark.parametrize("ridge", [5.0, 1e-3])
def test_predictions_do_not_depend_on_the_form(ridge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PLANE.replace(ridge=ridge)
    by_pairs = gs.predict(problem)
    monkeypatch.setattr(leverage, "_FEW_UNKNOWNS", 0.0)
    whole = gs.predict(problem)
    for name in ("test_error", "train_error", "train_loss", "degrees_of_freedom"):
        assert getattr(by_pairs, name) == pytest.approx(getattr(whole, name), rel=1e-10)


@pytest.mark.parametrize("part", ["known", "square", "source", "between"])
def test_a_fault_of_a_part_is_refused(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*arguments: Any) -> Linearised | LinearisedByPairs:
        near = near_point(*arguments)
        assert isinstance(near, LinearisedByPairs)
        return near._replace(**{part: 1.001 * getattr(near, part)})

    monkeypatch.setattr(uniform, "near_point", faulty)
    with pytest.raises(NotConverged, match="not those of the fit"):
        gs.predict(PLANE)


def test_a_matrix_solves_what_pairs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, solve, response = gs.predict(PLANE), uniform.solve_leverage, LinearisedByPairs.response
    asked: list[type] = []

    def inexact(near: LinearisedByPairs, *arguments: Any) -> Any:
        asked.append(type(near))
        return 1.01 * response(near, *arguments)  # a refinement leaves a ten-thousandth

    def with_a_fault_behind_it(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(LinearisedByPairs, "response", response)  # Newton's own steps are right
        point = solve(*arguments, **options)
        monkeypatch.setattr(LinearisedByPairs, "response", inexact)
        return point

    def whole(*arguments: Any, **options: Any) -> Linearised:
        asked.append(Linearised)
        return linearised(*arguments, **options)

    monkeypatch.setattr(uniform, "solve_leverage", with_a_fault_behind_it)
    monkeypatch.setattr(uniform, "linearised", whole)
    assert gs.predict(PLANE).test_error == pytest.approx(expected.test_error, rel=1e-10)
    assert asked == [LinearisedByPairs, LinearisedByPairs, Linearised]


def test_some_members_of_a_batch_keep_the_equations_of_the_step_before(equations: LeverageEquations) -> None:
    """Newton's steps end at different counts, and old equations are replaced for some members only."""
    random = np.random.default_rng(0)
    for _ in range(12):
        samples, ridge = 10 ** random.uniform(1, 3, 3), 10 ** random.uniform(-3, 2, 3)
        three = np.ones(3)
        together = LeverageEquations(equations.table, PLANE.width * three, (PLANE.d - 1) * three, samples, ridge)
        point, _ = solve_leverage(together)
        for place in range(3):
            alone, _ = solve_leverage(together.take(np.arange(3) == place))
            np.testing.assert_allclose(point.leverage[place], alone.leverage[0], rtol=1e-9)


def test_a_curve_is_its_points() -> None:
    """Points that share their tables, and are solved at once."""
    problems = [PLANE.replace(n=n) for n in (30, 240, 400)]
    for found, alone in zip(gs.predict_many(problems), map(gs.predict, problems), strict=True):
        assert found.test_error == pytest.approx(alone.test_error, rel=1e-9)
        assert found.train_loss == pytest.approx(alone.train_loss, rel=1e-9)


def test_a_singular_matrix_between_pairs_is_left_to_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: Any) -> None:
        raise np.linalg.LinAlgError

    expected = gs.predict(PLANE)
    original, module = uniform._response, sys.modules[LinearisedByPairs.__module__]

    def response(*arguments: Any) -> Any:
        with monkeypatch.context() as context:
            context.setattr(module, "solved", singular)  # of pairs: a matrix is solved by another function
            return original(*arguments)

    monkeypatch.setattr(uniform, "_response", response)
    assert gs.predict(PLANE).test_error == pytest.approx(expected.test_error, rel=1e-10)
