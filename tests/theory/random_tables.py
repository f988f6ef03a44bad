"""Random tables for the fixed point of leverages and resolvents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradstep.theory.equivalent.leverage import Directions, LeverageEquations, LeverageTable

#: Directions of the inputs alone; products of two coordinates; and inputs of two lengths, with and without products.
each_kind = pytest.mark.parametrize(
    "kinds",
    [{}, {"products": True}, {"stretched": True}, {"products": True, "stretched": True}],
    ids=["inputs", "products", "stretched", "stretched products"],
)


def random_equations(
    batch: int,
    groups: int,
    nodes: int,
    classes: int,
    seed: int,
    *,
    samples: float = 250.0,
    ridge: complex = 1e-2,
    population: np.ndarray | None = None,
    products: bool = False,
    stretched: bool = False,
) -> LeverageEquations:
    """Return equations whose groups have slopes of their own, in a bulk of several classes.

    With `products` there is a second kind of directions, seven times as many and in one class more. If they are
    `stretched`, slopes in a class are multiplied by other factors at even nodes than at odd ones.
    """
    rng = np.random.default_rng(seed)
    share, profile = random_classes(rng, batch, groups, classes)
    slope, variance = rng.normal(1, 1, (batch, groups, nodes)), rng.uniform(0, 1, (batch, groups, nodes))
    weight, fraction = rng.dirichlet(np.ones(nodes), batch), rng.dirichlet(np.ones(groups), batch)
    kinds = [Directions(slope, share, profile)]
    if products:
        share, profile = random_classes(rng, batch, groups, classes + 1, number=7.0)
        kinds.append(Directions(rng.normal(0, 1, (batch, groups, nodes)), share, profile))
    if stretched:
        factors = [rng.uniform(0.6, 1.4, (batch, kind.share.shape[1], 2)) for kind in kinds]
        kinds = [Directions(k.slope, k.share, k.profile, each) for k, each in zip(kinds, factors, strict=True)]
    sizes: Any = (np.full(batch, size) for size in (300.0, 200.0, samples, ridge))
    return LeverageEquations(LeverageTable(variance, weight, fraction, tuple(kinds)), *sizes, population)


def random_classes(
    rng: np.random.Generator, batch: int, groups: int, classes: int, number: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of classes, which sum to a number, and the variances of rows in them."""
    share, profile = number * rng.dirichlet(np.ones(classes), batch), rng.uniform(0.2, 2, (batch, classes, groups))
    return share, profile / np.einsum("bj,bjg->bg", share, profile)[:, None]


def with_slopes(equations: LeverageEquations, *slopes: np.ndarray) -> LeverageEquations:
    """Return the equations with other slopes of each kind."""
    kinds = (
        Directions(slope, kind.share, kind.profile, kind.stretch)
        for slope, kind in zip(slopes, equations.table.kinds, strict=True)
    )
    table = LeverageTable(equations.table.variance, equations.table.weight, equations.table.fraction, tuple(kinds))
    sizes = equations.width, equations.directions, equations.samples, equations.ridge
    return LeverageEquations(table, *sizes, equations.population)
