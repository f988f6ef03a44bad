"""The certificate of a solution: faults put into the solver are refused, and right answers are not."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.papers.ba2022 import coefficients, initialisation
from gradstep.papers.cui2024 import errors
from gradstep.theory.equivalent import leverage, uniform
from gradstep.theory.equivalent.leverage import Leverage, LeverageEquations, Whole, linearised, solve_leverage
from gradstep.theory.equivalent.linearised import Linearised

predict_module = sys.modules["gradstep.theory.predict"]  # gs.theory.predict is the function

BASE = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=400, n_step=600, n=500, eta=gs.Step(1.0, 0.5), ridge=3.0, noise=0.2
)  # fmt: skip
PROBLEMS = {
    "tanh": BASE,
    "relu": BASE.replace(activation="relu", readout="constant"),
    "steep": BASE.replace(activation="x**9", eta=gs.Step(0.05, 0.5)),
    "values": BASE.replace(activation="hermite6", readout={0.5: 0.5, 2.0: 0.5}, eta=gs.Step(0.3, 0.5)),
}
Function = Callable[..., Any]


def changed(change: Callable[[np.ndarray, int], None]) -> Function:
    """Return a fault of the response: what changes its entries, given the number of nodes."""

    def fault(original: Function) -> Function:
        def faulty(near: Linearised, sources: np.ndarray, nodes: int) -> np.ndarray:
            changes: np.ndarray = original(near, sources, nodes).copy()
            change(changes, nodes)
            return changes

        return faulty

    return fault


def changed_at_last(change: Callable[[np.ndarray, int], None]) -> Function:
    """Return the same fault of the response that is returned, which nothing refines."""

    def fault(original: Function) -> Function:
        def faulty(equations: LeverageEquations, point: Leverage, *arguments: Any) -> tuple[Any, np.ndarray]:
            near, changes = original(equations, point, *arguments)
            changes = changes.copy()
            change(changes, point.leverage.shape[1])
            return near, changes

        return faulty

    return fault


def lost_sign(changes: np.ndarray, nodes: int) -> None:
    changes[0, np.argmin(changes[0, :nodes])] *= -1


def doubled(changes: np.ndarray, nodes: int) -> None:
    changes[0, np.argsort(changes[0, :nodes])[nodes // 2]] *= 2


def smallest_lost(changes: np.ndarray, nodes: int) -> None:
    changes[0, np.argmin(changes[0, :nodes])] *= 1e3


def few_digits(changes: np.ndarray, nodes: int) -> None:
    changes[0, :nodes] += 1e-8 * changes[0, :nodes].max() * np.resize([1, -1], nodes)


def shifted(changes: np.ndarray, nodes: int) -> None:
    changes[:, :nodes] = np.roll(changes[:, :nodes], 1, axis=1)


def moved(change: Callable[[LeverageEquations, Leverage], Leverage]) -> Function:
    """Return a fault of the fixed point, whose residual says nothing of it."""
    return lambda original: (
        lambda equations, tolerance, **options: (
            change(equations, (found := original(equations, tolerance, **options))[0]),
            found[1],
        )
    )


def another_branch(equations: LeverageEquations, point: Leverage) -> Leverage:
    state = np.log(np.concatenate([1.3 * point.leverage, point.resolvent], axis=1))
    return leverage.evaluate(equations, state)._replace(residual=point.residual, gap=point.gap)


def one_leverage(equations: LeverageEquations, point: Leverage) -> Leverage:
    values = point.leverage.copy()
    values[0, 0] *= 1.3
    return point._replace(leverage=values)


def negative_leverage(equations: LeverageEquations, point: Leverage) -> Leverage:
    values = point.leverage.copy()
    values[0, 0] *= -1
    return point._replace(leverage=values)


def lost_inverse(equations: LeverageEquations, point: Leverage) -> Leverage:
    first, *others = point.matrices
    assert isinstance(first, Whole)
    return point._replace(matrices=(first._replace(inverse=1.001 * first.inverse), *others))


def lost_coupling(original: Function) -> Function:
    def faulty(table: Any, point: Leverage, **options: Any) -> np.ndarray:
        matrix: np.ndarray = original(table, point, **options)
        nodes = point.leverage.shape[1]
        matrix[:, :nodes, nodes:] -= point.variance.mT / 2
        matrix[:, nodes:, :nodes] -= point.variance / 2
        return matrix

    return faulty


def lost_groups(original: Function) -> Function:
    def faulty(table: Any, point: Leverage, **options: Any) -> np.ndarray:
        matrix: np.ndarray = original(table, point, **options)
        nodes = point.leverage.shape[1]
        matrix[:, nodes:, nodes:] *= 1.001
        return matrix

    return faulty


FAULTS: dict[str, tuple[Any, str, Function]] = {
    "a sign of the response": (uniform, "_response", changed_at_last(lost_sign)),
    "the smallest of the response": (uniform, "_response", changed_at_last(smallest_lost)),
    "one of the response twice": (uniform, "_response", changed_at_last(doubled)),
    "eight digits of the response": (uniform, "_response", changed_at_last(few_digits)),
    "the response of other nodes": (uniform, "_response", changed_at_last(shifted)),
    "another branch": (uniform, "solve_leverage", moved(another_branch)),
    "another leverage": (uniform, "solve_leverage", moved(one_leverage)),
    "a negative leverage": (uniform, "solve_leverage", moved(negative_leverage)),
    "digits of the inverse": (uniform, "solve_leverage", moved(lost_inverse)),
    "half of the variance in the couplings": (leverage, "couplings", lost_coupling),
    "the couplings of the groups": (leverage, "couplings", lost_groups),
}


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        # Each fault at one problem, and each problem with two or three faults.
        pytest.param(fault, problem, marks=pytest.mark.statistical if (place - other) % len(PROBLEMS) else ())
        for place, fault in enumerate(FAULTS)
        for other, problem in enumerate(PROBLEMS)
    ],
)
def test_a_fault_of_the_solver_is_refused(fault: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The residual, the training loss and the signs saw half of these: the errors of the others were off by up to
    # a half, or by nothing.
    module, name, change = FAULTS[fault]
    monkeypatch.setattr(module, name, change(getattr(module, name)))
    monkeypatch.setattr(uniform, "response_defect", lambda *_: np.zeros(1))  # a refinement mends some of them
    with pytest.raises(NotConverged):
        gs.predict(PROBLEMS[problem])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_refinement_mends_a_fault_of_the_response(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = gs.predict(PROBLEMS[problem])
    solve, response = uniform.solve_leverage, Linearised.response

    def with_a_fault_behind_it(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Linearised, "response", response)  # Newton's own steps are right
        point = solve(*arguments, **options)
        monkeypatch.setattr(Linearised, "response", changed(doubled)(response))
        return point

    monkeypatch.setattr(uniform, "solve_leverage", with_a_fault_behind_it)
    found = gs.predict(PROBLEMS[problem])
    assert found.test_error == pytest.approx(expected.test_error, rel=1e-9)
    assert found.train_loss == pytest.approx(expected.train_loss, rel=1e-9)


def test_equations_of_the_means_that_are_solved_beside_larger_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    original = uniform.solved

    def unscaled(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
        found: np.ndarray = original(matrix, right)
        if right.shape[-1] > 1:
            # What pivots of a larger row leave of a smaller one.
            found[:, 0] += 1e-6 * np.abs(found[:, 0]).max()
        return found

    monkeypatch.setattr(uniform, "solved", unscaled)
    with pytest.raises(NotConverged, match="fit of the means"):
        gs.predict(PROBLEMS["values"])


@pytest.mark.parametrize(
    ("activation", "step"),
    [
        ("hermite6", 0.1),
        ("x**9", 0.01),
        # As long as all others together, and wrong together with them.
        *(
            pytest.param(activation, step, marks=pytest.mark.statistical)
            for activation, steps in (
                ("hermite6", (0.01, 0.03)),
                ("x**9", (0.03, 0.1)),
                ("hermite10", (0.01, 0.03, 0.1)),
            )
            for step in steps
        ),
    ],
)
def test_steep_features_have_no_isolated_outliers(activation: str, step: float) -> None:
    # Resolvents of the groups are up to a hundred decades apart. Penalties from nothing to little of such features
    # leave the fit as it is, or change it steadily: the test error was 4e13 for 2.59 at one of them, 2.89 at others.
    problem = BASE.replace(activation=activation, eta=gs.Step(step, 0.5))
    found = gs.predict_many([problem.replace(ridge=ridge) for ridge in np.geomspace(1e-2, 1e2, 9)])
    changes = np.diff(np.log([prediction.test_error for prediction in found]))
    back = np.where(changes[1:] * changes[:-1] < 0, np.minimum(np.abs(changes[1:]), np.abs(changes[:-1])), 0.0)
    assert back.max() < 1e-6
    # The same without the structure of the bulk, whose equations are others, to what the structure changes: inputs have
    # lengths that differ less there, which such features raise to a high power.
    isotropic = gs.predict(problem.replace(ridge=1.0), bulk="isotropic")
    assert 1 < found[4].test_error / isotropic.test_error < 2


def equations_of(problem: gs.Problem, population: float | None = None) -> LeverageEquations:
    ((_, prepared),) = predict_module._prepared(problem, "network", "structured", 1)
    sizes = (problem.width, problem.d - 1, problem.n, problem.ridge)
    columns = (np.array([float(size)]) for size in sizes)  # type: ignore[arg-type]
    known = None if population is None else np.array([population])
    return LeverageEquations(prepared.tables.shared.leverage_table, *columns, known)


@pytest.mark.parametrize("population", [None, 0.3])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_equations_are_homogeneous(problem: str, population: float | None) -> None:
    # If resolvents grow by a factor and weights of the samples fall by it, leverages grow by it, and what the samples
    # add to a neuron's ridge stays: Euler's identity for the matrix, which no part of it is made from.
    equations = equations_of(PROBLEMS[problem], population)
    point, _ = solve_leverage(equations)
    near = linearised(equations, point)
    nodes = point.leverage.shape[1]
    probe = np.concatenate([point.sample_weight, np.ones_like(point.resolvent)], axis=1)
    raised = near.into * near.out * probe - np.matvec(near.matrix, probe)
    np.testing.assert_allclose(raised[:, :nodes], point.leverage / equations.directions[:, None], rtol=1e-8)
    np.testing.assert_allclose(raised[:, nodes:], point.load, rtol=1e-8)


# --- closed forms ---


def another_root(original: Function) -> Function:
    def faulty(q: np.ndarray, mu1_squared: np.ndarray, psi2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        linear = q + mu1_squared * (psi2 - 1)
        discriminant = np.sqrt(linear**2 + 4 * mu1_squared * q)
        g = -(linear + discriminant) / (2 * mu1_squared * q)
        return g, g * (1 + mu1_squared * g) / discriminant

    return faulty


def scaled(index: int, factor: float) -> Function:
    """Return a fault that multiplies one of several results."""

    def fault(original: Function) -> Function:
        def faulty(*arguments: Any) -> tuple[Any, ...]:
            values = list(original(*arguments))
            values[index] = factor * values[index]
            return tuple(values)

        return faulty

    return fault


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("bulk_resolvent", another_root),
        ("bulk_resolvent", scaled(1, -1.0)),
        ("bulk_resolvent", scaled(1, 1.001)),
        ("_used_fraction", scaled(1, -1.0)),
        ("_used_fraction", scaled(1, 1.001)),
    ],
)
def test_a_fault_of_random_features_is_refused(name: str, fault: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    # The other root solves the equations too: the test error was -.4, with a residual of rounding.
    values = coefficients("tanh", "softplus")
    monkeypatch.setattr(initialisation, name, fault(getattr(initialisation, name)))
    with pytest.raises(NotConverged, match="branch"):
        initialisation.random_features(values, lam=np.array([1e-3, 0.1]), psi1=5, psi2=2, sigma_eps=0.25)


@pytest.mark.parametrize(("index", "factor"), [*((k, 1.001) for k in range(5)), *((k, -1.0) for k in range(2, 5))])
def test_a_fault_of_the_large_step_is_refused(index: int, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # V_1, V_2 and the traces of S^-2: the residual saw none of them.
    sizes: dict[str, Any] = {"eta_tilde": 1.0, "alpha0": 2.0, "alpha": 1.5, "beta": 1.2, "lam": 0.01}
    assert errors.summary_statistics("tanh", "sin", **sizes).residual <= 1e-10
    monkeypatch.setattr(errors, "_bulk_responses", scaled(index, factor)(errors._bulk_responses))
    with pytest.raises(NotConverged):
        errors.summary_statistics("tanh", "sin", **sizes)


def test_groups_next_to_the_smallest_numbers_are_no_fault() -> None:
    # Where the features saturate a row of the means' equations is below the smallest number with all its digits.
    problem = gs.Problem(activation="sin", teacher="x**3", d=1153, width=74, n_step=297, n=12855, ridge=0.0150872,
                         eta=gs.Step(3.30932, 0.5))  # fmt: skip
    assert gs.predict(problem).residual <= 1e-10
