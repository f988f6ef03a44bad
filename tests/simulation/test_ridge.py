"""Ridge path: optimality, agreement with direct solves in extended precision, ill-conditioning, interpolation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gradstep.simulation import ridge
from gradstep.simulation.ridge import ACCURACY, dual, fit_ridge, primal, triangular

PENALTIES = (1e-3, 0.5, 20.0)
Real = NDArray[np.float64]


def draw(rows: int, width: int, seed: int = 0) -> tuple[Real, Real]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, width)) + 1.0, rng.standard_normal(rows)


def in_blocks(features: Real, labels: Real, size: int = 7) -> Callable[[], Iterator[tuple[Real, Real]]]:
    def blocks() -> Iterator[tuple[Real, Real]]:
        for i in range(0, labels.size, size):
            yield features[i : i + size], labels[i : i + size]

    return blocks


def exact_ridge(features: Real, labels: Real, penalty: float) -> tuple[Real, float]:
    """Solve the normal equations in rational arithmetic; return the readout and the squared residual."""
    F = [[Fraction(v) for v in row] for row in features.tolist()]
    y = [Fraction(v) for v in labels.tolist()]
    width = len(F[0])
    system = [
        [sum(row[i] * row[j] for row in F) + (Fraction(penalty) if i == j else 0) for j in range(width)]
        + [sum(row[i] * v for row, v in zip(F, y, strict=True))]
        for i in range(width)
    ]
    for i in range(width):
        pivot = system[i][i]
        system[i] = [v / pivot for v in system[i]]
        for k in range(width):
            if k != i:
                factor = system[k][i]
                system[k] = [a - factor * b for a, b in zip(system[k], system[i], strict=True)]
    b = [system[i][width] for i in range(width)]
    residual = sum((v - sum(f * c for f, c in zip(row, b, strict=True))) ** 2 for row, v in zip(F, y, strict=True))
    return np.array([float(v) for v in b]), float(residual)


@pytest.mark.parametrize(("rows", "width"), [(40, 15), (15, 40), (20, 20), (21, 20)])
@pytest.mark.parametrize("penalties", [PENALTIES, PENALTIES[:1]])
def test_every_penalty_is_optimal_and_consistent(rows: int, width: int, penalties: tuple[float, ...]) -> None:
    features, labels = draw(rows, width)
    path = fit_ridge(in_blocks(features, labels), rows, width, penalties)
    for p, penalty in enumerate(penalties):
        b = path.readouts[:, p]
        residual = labels - features @ b
        np.testing.assert_allclose(features.T @ residual, penalty * b, atol=1e-10)  # the gradient vanishes
        np.testing.assert_allclose(path.squared_residual[p], residual @ residual, rtol=1e-9)
        np.testing.assert_allclose(path.squared_norm[p], b @ b, rtol=1e-12)
        hat = features @ np.linalg.solve(features.T @ features + penalty * np.eye(width), features.T)
        np.testing.assert_allclose(path.degrees_of_freedom[p], np.trace(hat), rtol=1e-9)


@pytest.mark.parametrize(("rows", "width"), [(40, 15), (15, 40)])
def test_primal_dual_and_triangular_agree(rows: int, width: int) -> None:
    features, labels = draw(rows, width)
    found = primal(features.T @ features, features.T @ labels, float(labels @ labels), PENALTIES)
    others = [dual(features, labels, PENALTIES)]
    if rows > width:
        others.append(triangular(in_blocks(features, labels), PENALTIES))
    assert found is not None
    readouts, residual, freedom = found
    for other_readouts, other_residual, other_freedom in others:
        distance = np.linalg.norm(readouts - other_readouts, axis=0)
        assert (distance <= ACCURACY * np.linalg.norm(other_readouts, axis=0)).all()  # not of each entry
        np.testing.assert_allclose(residual, other_residual, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(freedom, other_freedom, rtol=1e-10)


def test_a_path_gives_what_single_penalties_give() -> None:
    for rows, width in ((60, 30), (30, 60)):
        features, labels = draw(rows, width)
        penalties = tuple(np.geomspace(1e-3, 1e3, 20))
        path = fit_ridge(in_blocks(features, labels), rows, width, penalties)
        for p, penalty in enumerate(penalties):
            single = fit_ridge(in_blocks(features, labels), rows, width, (penalty,))
            np.testing.assert_allclose(path.readouts[:, p], single.readouts[:, 0], rtol=1e-8, atol=1e-11)
            np.testing.assert_allclose(path.squared_residual[p], single.squared_residual[0], rtol=1e-9)
            np.testing.assert_allclose(path.degrees_of_freedom[p], single.degrees_of_freedom[0], rtol=1e-9)


@pytest.mark.parametrize("penalties", [(1e-10,), (1e-10, 1.0)])
@pytest.mark.parametrize(("rows", "width"), [(9, 6), (6, 9)])
def test_tiny_penalty_on_nearly_dependent_features(rows: int, width: int, penalties: tuple[float, ...]) -> None:
    """Two features differ by 1e-5: with a penalty of 1e-10 the normal equations are useless in double precision."""
    features, labels = draw(rows, width)
    features[:, 1] = features[:, 0] + 1e-5 * features[:, 1]
    features *= 1e2
    readout, residual = exact_ridge(features, labels, 1e-10)
    path = fit_ridge(in_blocks(features, labels), rows, width, penalties)
    np.testing.assert_allclose(path.readouts[:, 0], readout, rtol=1e-6, atol=1e-7 * np.abs(readout).max())
    np.testing.assert_allclose(path.squared_residual[0], residual, rtol=1e-6, atol=1e-25)


@pytest.mark.parametrize("penalties", [(1e-4,), (1e-4, 1.0)])
def test_rank_deficient_features(penalties: tuple[float, ...]) -> None:
    rng = np.random.default_rng(1)
    for rows, width in ((50, 20), (20, 50)):
        features = 30 * rng.standard_normal((rows, 5)) @ rng.standard_normal((5, width))
        labels = rng.standard_normal(rows)
        path = fit_ridge(in_blocks(features, labels), rows, width, penalties)
        np.testing.assert_allclose(path.degrees_of_freedom[0], 5, rtol=1e-9)
        least = np.linalg.lstsq(features, labels, rcond=1e-10)[0]  # the penalty is far below every singular value
        np.testing.assert_allclose(path.readouts[:, 0], least, rtol=1e-6, atol=1e-8)


def test_interpolation_is_exact_to_the_last_digit() -> None:
    """With n < N the residual is penalty * (F F^T + penalty)^-1 y: about 1e-24 here, far below rounding of y - F b."""
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((20, 60)), rng.standard_normal(20)
    for penalties in ((1e-10,), (1e-10, 1.0)):
        path = fit_ridge(in_blocks(features, labels), 20, 60, penalties)
        expected = 1e-20 * np.sum(np.linalg.solve(features @ features.T, labels) ** 2)
        np.testing.assert_allclose(path.squared_residual[0], expected, rtol=1e-7)
        np.testing.assert_allclose(path.degrees_of_freedom[0], 20, rtol=1e-10)


@pytest.mark.parametrize("penalties", [(1e-8,), (1e-8, 1.0)])
def test_realisable_labels_do_not_drown_in_cancellation(penalties: tuple[float, ...]) -> None:
    """The labels are linear in the features: |y|^2 - ... would give rounding noise of 1e-13 instead of 1e-15."""
    features, _ = draw(50, 8)
    labels = features @ np.arange(1.0, 9.0)
    passes = 0
    blocks = in_blocks(features, labels)

    def counted() -> Iterator[tuple[Real, Real]]:
        nonlocal passes
        passes += 1
        return blocks()

    path = fit_ridge(counted, 50, 8, penalties)
    gram = features.T @ features
    slope = 1e-8 * np.linalg.solve(gram + 1e-8 * np.eye(8), np.arange(1.0, 9.0))  # teacher minus fit, exactly
    np.testing.assert_allclose(path.squared_residual[0], slope @ gram @ slope, rtol=1e-4)
    assert passes == 2


def test_the_data_are_not_drawn_twice_without_need() -> None:
    features, labels = draw(50, 8)
    passes = 0
    blocks = in_blocks(features, labels)

    def counted() -> Iterator[tuple[Real, Real]]:
        nonlocal passes
        passes += 1
        return blocks()

    fit_ridge(counted, 50, 8, PENALTIES)
    assert passes == 1


def test_block_size_does_not_matter() -> None:
    for rows, width in ((40, 15), (15, 40)):
        features, labels = draw(rows, width)
        whole = fit_ridge(in_blocks(features, labels, 100), rows, width, PENALTIES)
        pieces = fit_ridge(in_blocks(features, labels, 4), rows, width, PENALTIES)
        np.testing.assert_allclose(whole.readouts, pieces.readouts, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(whole.squared_residual, pieces.squared_residual, rtol=1e-10)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 30),
    width=st.integers(1, 30),
    log_penalty=st.floats(-10, 6),
    seed=st.integers(0, 2**16),
)
def test_invariants(rows: int, width: int, log_penalty: float, seed: int) -> None:
    features, labels = draw(rows, width, seed)
    penalties = (10**log_penalty, 10 ** (log_penalty + 1))
    path = fit_ridge(in_blocks(features, labels), rows, width, penalties)
    assert np.all(path.squared_residual >= 0)
    assert np.all(path.squared_norm >= 0)
    assert np.all(path.degrees_of_freedom >= 0)
    assert np.all(path.degrees_of_freedom <= min(rows, width))
    label_square = float(labels @ labels)
    assert np.all(path.squared_residual + np.asarray(penalties) * path.squared_norm <= label_square * (1 + 1e-9))
    # along the path: more penalty, more residual, smaller readout, fewer degrees of freedom
    slack = 1e-9 * label_square
    assert path.squared_residual[0] <= path.squared_residual[1] + slack
    assert path.squared_norm[1] <= path.squared_norm[0] * (1 + 1e-9)
    assert path.degrees_of_freedom[1] <= path.degrees_of_freedom[0] * (1 + 1e-9)


@pytest.mark.parametrize("size", [40, 300])
def test_norms_are_found_from_few_products(size: int) -> None:
    """Spectra that end in an edge, in one value apart, in a cluster, and of one value only."""
    rng = np.random.default_rng(size)
    vectors = np.linalg.qr(rng.standard_normal((size, size)))[0]
    ends = [np.linspace(1, 3, size), np.r_[np.ones(size - 1), 500.0], np.geomspace(1e-9, 1, size), np.full(size, 7.0)]
    for values in ends:
        for scale in (1e-200, 1.0, 1e200):
            matrix = (vectors * values * scale) @ vectors.T
            found = ridge._largest(lambda v, matrix=matrix: matrix @ v, rng.standard_normal(size)) / scale
            assert size ** (-0.5 / ridge._PRODUCTS) * values.max() / 1.5 < found <= values.max() * (1 + 1e-12)
    assert ridge._largest(lambda v: 0 * v, rng.standard_normal(size)) == 0


@pytest.mark.parametrize("limit", [0.05, 5.0])
def test_a_large_fit_is_judged_by_its_eigenvalues(limit: float) -> None:
    """Sums of absolute values, which are quick to find, would refuse this matrix at a twentieth of its condition.

    The readout differs by two to twelve times rounding times condition, as the linear algebra library sums.
    """
    size, penalty, rng = 256, 1.0, np.random.default_rng(0)
    condition = limit * ACCURACY / np.finfo(float).eps
    vectors = np.linalg.qr(rng.standard_normal((size, size)))[0]
    features = np.sqrt(np.tile((condition - 1, 0.0), size // 2))[:, None] * vectors.T
    gram, labels = features.T @ features, rng.standard_normal(size)
    shifted = gram + penalty * np.eye(size)
    assert np.linalg.cond(shifted, 1) > 20 * np.linalg.cond(shifted, 2)
    found = primal(gram, features.T @ labels, float(labels @ labels), (penalty,))
    assert (found is None) == (limit > 1)
    if found is not None:
        best = triangular(in_blocks(np.vstack((features, 0 * features[:1])), np.append(labels, 0.0), 300), (penalty,))
        assert np.linalg.norm(found[0] - best[0]) < ACCURACY * np.linalg.norm(best[0])


@pytest.mark.parametrize(("size", "limit"), [(1, 0.99), (1, 1.01), (30, 0.99), (30, 1.01)])
def test_a_matrix_of_one_eigenvalue_is_judged_to_the_last_per_cent(size: int, limit: float) -> None:
    """Its trace is its largest eigenvalue, and the penalty the smallest one of the sum, if there are several."""
    penalty, direction = 3.0, np.random.default_rng(size).standard_normal(size)
    direction /= np.linalg.norm(direction)
    condition = limit * ACCURACY / np.finfo(float).eps
    gram = (condition - 1) * penalty * np.outer(direction, direction)
    found = primal(gram, gram @ np.ones(size), float(np.sum(gram)), (penalty,))
    assert (found is None) == (limit > 1 and size > 1)


def test_the_accuracy_check_is_what_saves_the_ill_conditioned_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = draw(9, 6)
    features[:, 1] = features[:, 0] + 1e-5 * features[:, 1]
    features *= 1e2
    readout, _ = exact_ridge(features, labels, 1e-10)
    monkeypatch.setattr(ridge, "ACCURACY", np.inf)
    unguarded = fit_ridge(in_blocks(features, labels), 9, 6, (1e-10, 1.0))
    assert np.max(np.abs(unguarded.readouts[:, 0] - readout)) > 1e-5 * np.abs(readout).max()
