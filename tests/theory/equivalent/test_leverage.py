"""The fixed point for leverages and resolvents, on random tables."""

import math
from dataclasses import replace

import numpy as np
import pytest
from random_tables import each_kind, random_equations, with_slopes

import gradstep as gs
import gradstep.theory.equivalent.leverage as leverage_module
from gradstep.errors import NotConverged
from gradstep.theory.equivalent.leverage import (
    Core,
    Directions,
    LeverageEquations,
    LeverageTable,
    Separable,
    Undamped,
    Whole,
    couplings,
    evaluate,
    inner,
    linear_gain,
    linearised,
    solve_leverage,
)
from gradstep.theory.equivalent.stacks import inverses


def test_first_guess_is_exact_for_one_neuron_and_one_input():
    # Newton's method then has nothing left to do: more steps would show a guess that is worse than it says.
    rng = np.random.default_rng(0)
    linear, nonlinear, neurons, dimension, samples, ridge = 10.0 ** rng.uniform(-2, 4, (6, 200))
    shape = (200, 1, 1)
    kinds = (Directions(np.sqrt(linear).reshape(shape)),)
    table = LeverageTable(nonlinear.reshape(shape), np.ones((1, 1)), np.ones((1, 1)), kinds)
    equations = LeverageEquations(table, neurons, dimension, samples, ridge)
    point, steps = solve_leverage(equations)
    assert point.residual.max() <= 1e-10
    assert steps <= 2


def slopes_of_classes(kind, member=0):
    """Return the slopes in each class, with the factors at even and at odd nodes."""
    factors = np.broadcast_to(kind.stretch, (len(kind.share), kind.share.shape[1], kind.stretch.shape[2]))[member]
    return [kind.slope[member] * np.resize(each, kind.slope.shape[2]) for each in factors]


@each_kind
@pytest.mark.parametrize("turn", [1.0, np.exp(0.3j)])
def test_many_nodes_are_coupled_by_products_of_slopes(turn, kinds, monkeypatch):
    """Also at a complex penalty, where the matrices are symmetric and not Hermitian."""
    equations = random_equations(2, 3, 8, 4, 5, ridge=turn, **kinds)
    point = evaluate(equations, np.random.default_rng(1).normal(0, 1, (2, 11)) * turn)
    expected = couplings(equations.table, point)
    monkeypatch.setattr(leverage_module, "_AT_ONCE", 0)
    np.testing.assert_allclose(couplings(equations.table, point), expected, rtol=1e-12, atol=1e-14)
    monkeypatch.setattr(leverage_module, "_MATRIX_OF_PAIRS", -math.inf)
    np.testing.assert_allclose(couplings(equations.table, point), expected, rtol=1e-12, atol=1e-14)
    # A square of each class, averaged.
    squares = np.zeros((2, 8, 8), dtype=expected.dtype)
    for kind, matrices in zip(equations.table.kinds, point.matrices, strict=True):
        root = np.sqrt(point.density[:, None] * kind.profile)
        matrix = root[..., None] * matrices.inverse * root[..., None, :]
        for member in range(2):
            slopes = slopes_of_classes(kind, member)
            for share, slope, of_class in zip(kind.share[member], slopes, matrix[member], strict=True):
                squares[member] += share * (slope.T @ of_class @ slope) ** 2
    np.testing.assert_allclose(expected[:, :8, :8], squares, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("activation", ["tanh", "relu", "softplus"])
@pytest.mark.parametrize("n", [500, 2000, 4000])
def test_neurons_that_are_alike_take_two_steps(activation, n):
    # The first guess knows how the inputs differ; with the crowd of an average input kinks took a third step.
    sizes = {"d": 1000, "width": 2000, "n_step": 4000, "n": n, "eta": gs.Step(1.0, 0.5), "ridge": 2.0}
    problem = gs.Problem(activation=activation, teacher="sin", **sizes, noise=0.1, readout="constant")
    prediction = gs.predict(problem, bulk="isotropic")
    # The first guess does not know the leverage of the means, which is largest where a feature has a mean.
    assert prediction.iterations <= (3 if activation == "softplus" else 2)
    assert prediction.residual <= 1e-10


@pytest.mark.parametrize("ridge", [1e-10, 1e-34, 1e-60, 1e-155, 1e-250])
def test_first_guess_at_interpolation_without_a_ridge_ends(ridge):
    # There the scalar equation is flat to rounding, and its numbers leave their range: a guess or a clear error.
    point = np.array([1.396947199175573]), np.array([0.006654480838073473])
    kinds = (Directions(np.sqrt(point[0]).reshape(1, 1, 1)),)
    table = LeverageTable(point[1].reshape(1, 1, 1), np.ones((1, 1)), np.ones((1, 1)), kinds)
    sizes = (np.full(1, size) for size in (482.0, 188.0, 482.0, ridge))
    try:
        solution, _ = solve_leverage(LeverageEquations(table, *sizes))
    except NotConverged:
        assert ridge < 1e-10
    else:
        assert solution.residual[0] <= 1e-10


@each_kind
@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize(("groups", "nodes"), [(4, 8), (12, 6)])
def test_solution_obeys_the_equations_as_they_are_stated(groups, nodes, classes, kinds):
    # In the matrices of the module's docstring, without the square roots and logarithms of its code.
    equations = random_equations(1, groups, nodes, classes, seed=classes, **kinds)
    point, _ = solve_leverage(equations)
    table, directions = equations.table, equations.directions[0]
    g2, v, r = table.variance[0], point.leverage[0], point.resolvent[0]
    n_w, neurons = equations.samples[0] * table.weight[0] / (1 + v), equations.width[0] * table.fraction[0]
    inverse, leverage = equations.ridge[0] + g2 @ n_w, (neurons * r) @ g2
    for kind in table.kinds:
        for share, profile, g1 in zip(kind.share[0], kind.profile[0], slopes_of_classes(kind), strict=True):
            v1, density = (g1 * n_w) @ g1.T, np.diag(profile * neurons * r / directions)
            inverse = inverse + share * profile * np.diagonal(v1 @ np.linalg.inv(np.eye(groups) + density @ v1))
            crowd = directions * share * np.linalg.inv(np.linalg.inv(density) + v1)
            leverage = leverage + np.einsum("gk,gh,hk->k", g1, crowd, g1)
    np.testing.assert_allclose(1 / r, inverse, rtol=1e-9)
    np.testing.assert_allclose(v, leverage, rtol=1e-9)


@each_kind
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("population", [None, 0.3])
def test_jacobian_is_the_derivative_and_an_m_matrix(population, stable, kinds):
    weight = None if population is None else np.full(1, population)
    equations = random_equations(1, 3, 6, 2, seed=5, population=weight, **kinds)
    rng = np.random.default_rng(1)
    state = rng.normal(0, 0.5, (1, 9))
    near = linearised(equations, evaluate(equations, state, stable=stable))
    matrix = near.matrix[0] / near.into[0][:, None] / near.out[0]
    step = 1e-5
    differences = [
        (evaluate(equations, state - step * one).gap[0] - evaluate(equations, state + step * one).gap[0]) / (2 * step)
        for one in np.eye(9)
    ]
    np.testing.assert_allclose(matrix, np.transpose(differences), atol=1e-9)
    assert np.all(np.eye(9) - matrix >= 0)
    assert np.all(np.linalg.inv(matrix) > 0)
    np.testing.assert_allclose(near.matrix, near.matrix.mT, rtol=1e-12)
    assert np.linalg.eigvalsh(near.matrix[0]).min() > 0


@each_kind
def test_members_of_a_batch_are_solved_as_if_alone(kinds):
    # Members need different numbers of steps, so that they leave the batch one by one.
    seeds, samples, ridge = range(6), [20.0, 290.0, 300.0, 301.0, 800.0, 5e4], [10.0, 1e-6, 1e-3, 1e-8, 1e3, 1e-4]
    alone = [
        random_equations(1, 4, 10, 2, s, samples=n, ridge=r, **kinds)
        for s, n, r in zip(seeds, samples, ridge, strict=True)
    ]

    def joined(parts, columns):
        return [np.concatenate([getattr(part, name) for part in parts]) for name in columns]

    tables = [equations.table for equations in alone]
    columns = ["slope", "share", "profile"] + ["stretch"] * ("stretched" in kinds)
    of_kinds = [Directions(*joined(same, columns)) for same in zip(*(table.kinds for table in tables), strict=True)]
    table = LeverageTable(*joined(tables, ["variance", "weight", "fraction"]), tuple(of_kinds))
    sizes = joined(alone, ["width", "directions", "samples", "ridge"])
    together, most = solve_leverage(LeverageEquations(table, *sizes))
    steps = []
    for member, equations in enumerate(alone):
        point, count = solve_leverage(equations)
        steps.append(count)
        assert together.residual[member] <= 1e-10
        np.testing.assert_allclose(together.leverage[member], point.leverage[0], rtol=1e-8)
        for all_members, matrices in zip(together.matrices, point.matrices, strict=True):
            np.testing.assert_allclose(all_members.dressed[member], matrices.dressed[0], rtol=1e-7, atol=1e-12)
    assert min(steps) < max(steps) == most


@each_kind
def test_members_whose_slopes_have_other_dimensions_are_solved_as_if_alone(kinds):
    """One has converged before the others, whose slopes have fewer dimensions than those of the whole batch."""
    equations = random_equations(3, 45, 8, 2, 11, ridge=3.0, **kinds)
    slopes = [kind.slope.copy() for kind in equations.table.kinds]
    for slope in slopes:
        slope[1:] = slope[1:, :, :3] @ np.random.default_rng(0).normal(0, 1, (2, 3, 8))
        slope[0] *= 1e-3
    equations = with_slopes(equations, *slopes)
    first, others = np.array([True, False, False]), np.array([False, True, True])
    for kind, slope in zip(equations.table.kinds, slopes, strict=True):
        left, _ = kind.factors
        kept = kind.take(others).factors
        assert kept[0].shape[2] == left.shape[2] == 8
        np.testing.assert_allclose(kept[0] @ kept[1], slope[1:], rtol=1e-10, atol=1e-12)
    whole, _ = solve_leverage(equations)
    for chosen in (first, others):
        alone, _ = solve_leverage(with_slopes(equations.take(chosen), *(slope[chosen] for slope in slopes)))
        np.testing.assert_allclose(whole.take(chosen).leverage, alone.leverage, rtol=1e-9)
        np.testing.assert_allclose(whole.take(chosen).resolvent, alone.resolvent, rtol=1e-9)


@each_kind
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("groups", [40, 70])  # solved at once, and group by group
def test_response_solves_the_linear_equations(groups, batch, kinds):
    nodes, rng = 46, np.random.default_rng(groups)
    equations = random_equations(batch, groups, nodes, 1, seed=groups, **kinds)
    point, _ = solve_leverage(equations)
    sources = rng.normal(size=(batch, nodes + groups))
    near = linearised(equations, point)
    found = near.response(sources, nodes)
    np.testing.assert_allclose((near.matrix @ found[..., None])[..., 0], sources, atol=1e-11)


def test_unreached_tolerance_is_an_error_that_says_what_to_change():
    one = np.ones((1, 1))
    table = LeverageTable(one[None], one, one, (Directions(one[None]),))
    equations = LeverageEquations(table, np.full(1, 9.0), np.full(1, 5.0), np.full(1, 7.0), np.ones(1))
    with pytest.raises(NotConverged, match="ridge"):
        solve_leverage(equations, tolerance=-1.0)


def test_factors_keep_the_digits_of_small_slopes():
    # Steep exponentials: groups of small slopes have large resolvents, and nodes of large slopes small weights.
    rng = np.random.default_rng(2)
    rows, columns = 10.0 ** rng.uniform(-20, 0, (1, 50, 1)), 10.0 ** rng.uniform(0, 10, (1, 1, 60))
    slope = rows * (rng.normal(size=(1, 50, 6)) @ rng.normal(size=(1, 6, 60))) * columns
    kind = Directions(slope)
    assert kind.factors is not None
    assert kind.factors[0].shape[2] == 6
    weight, root = (
        rng.uniform(0.1, 1, (1, 60)) / columns[:, 0] ** 2,
        rng.uniform(0.1, 1, (1, 2, 50)) / rows[:, None, :, 0],
    )
    expected = inverses(inner(linear_gain(kind, weight), root))
    core = leverage_module._core(kind, root, weight)
    np.testing.assert_allclose(np.eye(50) - core.of_groups(), expected, atol=1e-12)
    # As many dimensions as there are groups are none to spare.
    assert Directions(rng.normal(size=slope.shape)).factors is None


@pytest.mark.parametrize(("groups", "nodes"), [(5, 8), (60, 8), (40, 50)])
def test_undamped_is_the_inverse(groups, nodes):
    # In matrices of the groups' size, of the nodes', and (rank seven) of neither.
    rng = np.random.default_rng(groups)
    slope, weight = rng.normal(size=(2, groups, nodes)), 10.0 ** rng.uniform(-12, 3, (2, nodes))
    if nodes == 50:
        slope = rng.normal(size=(2, groups, 7)) @ (rng.normal(size=(2, 7, nodes)) * 10.0 ** rng.uniform(-3, 3, nodes))
    weight[0, 0] = 1e-300  # a node that weighs nothing
    kind = Directions(slope)
    assert (kind.factors is None) == (groups == 5)
    if kind.factors is not None:
        assert kind.factors[0].shape[2] == min(nodes, 50 if nodes == 8 else 7)
    root = 10.0 ** rng.uniform(-3, 1, (2, 3, groups)) / np.sqrt(nodes)
    matrix = inner(linear_gain(kind, weight), root)
    found, one = inverses(matrix), np.broadcast_to(np.eye(groups), matrix.shape)
    np.testing.assert_allclose(matrix @ found, one, atol=1e-14 * matrix.max())
    known = Undamped.of(kind, root, weight, linear_gain(kind, weight))
    assert (known.matrices is None) == (kind.factors is not None)
    vectors = rng.normal(size=(2, 3, groups))
    # The inverse of the whole matrix has this error.
    rounding = 1e-15 * matrix.max()
    np.testing.assert_allclose(known.less_one(vectors), np.matvec(found - one, vectors), atol=rounding)
    separable = [Separable(rng.normal(size=(2, groups, k)), rng.normal(size=(2, k, 3))) for k in (1, 2)]
    rows = [(each.left @ each.right).mT / root for each in separable]
    taken = known.taken(rows, lambda: separable)
    for a, left in enumerate(rows):
        for b, right in enumerate(rows):
            whole = np.einsum("bji,bjik,bjk->bik", left, one - found, right)
            np.testing.assert_allclose(taken[a][b], whole, atol=rounding * np.abs(left).max() * np.abs(right).max())


def test_separable_numbers_keep_their_digits():
    rng = np.random.default_rng(3)
    values = 10.0 ** rng.uniform(-20, 0, (1, 30, 1)) * (rng.normal(size=(1, 30, 3)) @ rng.normal(size=(1, 3, 8)))
    by_group, by_direction = 10.0 ** rng.uniform(0, 20, (1, 30)), rng.normal(size=(1, 8))
    found = Separable.of(values).scaled(by_group, by_direction)
    assert found.left.shape[2] == 3
    size = np.abs(values).max(axis=2, keepdims=True) * by_group[..., None]
    np.testing.assert_allclose(
        found.left @ found.right / size, values * by_group[..., None] * by_direction[:, None] / size, atol=1e-14
    )


@each_kind
@pytest.mark.parametrize("turn", [1.0, np.exp(0.3j)])
@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("nodes", [10, 70])
def test_few_dimensions_of_the_slopes_give_the_equations_of_the_whole_tables(turn, classes, nodes, kinds, monkeypatch):
    """The densities of the groups, and the weights of the nodes, are up to thirty decades apart."""
    rng = np.random.default_rng(nodes)
    equations = random_equations(2, 45, nodes, classes, 5, ridge=turn, **kinds)
    slopes = [
        10.0 ** rng.uniform(-10, 0, (2, 45, 1)) * (rng.normal(size=(2, 45, rank)) @ rng.normal(size=(2, rank, nodes)))
        for _, rank in zip(equations.table.kinds, (5, 3), strict=False)
    ]
    weight, fraction = (values / values.sum(axis=1, keepdims=True) for values in (
        10.0 ** rng.uniform(-30, 0, (2, nodes)), 10.0 ** rng.uniform(-30, 0, (2, 45))
    ))  # fmt: skip
    equations = replace(equations, table=replace(equations.table, weight=weight, fraction=fraction))
    equations, whole = (with_slopes(equations, *slopes) for _ in range(2))
    state = rng.normal(0, 1, (2, nodes + 45)) * turn
    assert [kind.factors[0].shape[2] for kind in equations.table.kinds] == [5, 3][: len(slopes)]
    found = evaluate(equations, state)
    near, half = linearised(equations, found), found.take(np.array([False, True]))
    for matrices, of_half in zip(found.matrices, half.matrices, strict=True):
        assert isinstance(matrices, Core)
        np.testing.assert_array_equal(of_half.form, matrices.form[1:])
    along = rng.normal(size=(2, 45))
    from_groups = [m.from_groups(k, along) for k, m in zip(equations.table.kinds, found.matrices, strict=True)]
    matrix = couplings(equations.table, found)
    for constant, number in ("_AT_ONCE", 0), ("_MATRIX_OF_PAIRS", -math.inf):
        monkeypatch.setattr(leverage_module, constant, number)
        unit = np.sqrt(np.diagonal(near.matrix, axis1=1, axis2=2))
        difference = couplings(equations.table, found) - matrix
        np.testing.assert_allclose(difference / unit[..., None] / unit[:, None], 0, atol=1e-13)
    monkeypatch.setattr(Directions, "factors", None)
    expected = evaluate(whole, state)
    for kind, matrices, values in zip(whole.table.kinds, expected.matrices, from_groups, strict=True):
        assert isinstance(matrices, Whole)
        if turn == 1:  # a fit asks for them, a spectrum does not
            of_whole = matrices.from_groups(kind, along)
            np.testing.assert_allclose(values, of_whole, atol=1e-12 * np.abs(of_whole).max())
    np.testing.assert_allclose(found.following, expected.following, rtol=1e-11)
    matrix = linearised(whole, expected).matrix
    unit = np.sqrt(np.abs(np.diagonal(matrix, axis1=1, axis2=2)))
    np.testing.assert_allclose(
        near.matrix / unit[..., None] / unit[:, None], matrix / unit[..., None] / unit[:, None], atol=1e-12
    )


@each_kind
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("sparse", [1e-12, 1e-8])  # unsolved by few dimensions, and solved with digits lost
def test_slopes_that_cancel_are_taken_whole(sparse, place, kinds, monkeypatch):
    """Where sparse neurons alone have a slope, that of the others must not be rounding of their factors.

    One kind of directions is enough, where slopes along the others are nothing.
    """
    rng = np.random.default_rng(8)
    equations = random_equations(1, 45, 30, 1, 8, ridge=1.0, **kinds)
    slope = rng.normal(size=(1, 45, 5)) @ rng.normal(size=(1, 5, 30))
    slope[:, 1:, 0] = 1e-14 * rng.normal(size=44)
    fraction = np.full((1, 45), 1 / 44)
    fraction[0, 0] = sparse
    table = LeverageTable(
        np.full_like(slope, 1e-30), np.full((1, 30), 1 / 30), fraction / fraction.sum(), equations.table.kinds
    )
    slopes = [slope * (np.arange(30) > 0) for _ in table.kinds]
    slopes[place] = slope
    equations, whole = (with_slopes(replace(equations, table=table), *slopes) for _ in range(2))
    assert all(kind.factors is not None for kind in equations.table.kinds)
    point, _ = solve_leverage(equations)
    assert all(isinstance(matrices, Whole) for matrices in point.matrices)
    monkeypatch.setattr(Directions, "factors", None)
    expected, _ = solve_leverage(whole)
    np.testing.assert_allclose(point.leverage, expected.leverage, rtol=1e-9)
