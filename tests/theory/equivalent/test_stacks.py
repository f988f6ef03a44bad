"""Linear algebra on stacks: of one and of several, against SciPy."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.theory.equivalent.stacks import cholesky, identity, inverses, least_squares, scaled_factors, solved

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 8), st.integers(1, 4), st.integers(0, 2**32 - 1))


@given(SHAPES)
@settings(max_examples=40)
def test_solved(shape):
    batch, size, columns, seed = shape
    rng = np.random.default_rng(seed)
    matrices = np.eye(size) + rng.uniform(-0.5, 0.5, (batch, size, size)) / size
    right = rng.standard_normal((batch, size, columns))
    kept = matrices.copy(), right.copy()
    expected = [scipy.linalg.solve(m, r) for m, r in zip(matrices, right, strict=True)]
    np.testing.assert_allclose(solved(matrices, right), expected, rtol=1e-12, atol=1e-13)
    # Two leading axes, and right-hand sides that are not contiguous.
    deep = solved(matrices[:1, None], np.swapaxes(right[:1, None].swapaxes(2, 3).copy(), 2, 3))
    np.testing.assert_allclose(deep[0, 0], expected[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(matrices, kept[0])
    np.testing.assert_array_equal(right, kept[1])


@given(SHAPES)
@settings(max_examples=40)
def test_least_squares(shape):
    batch, unknowns, more, seed = shape
    rng = np.random.default_rng(seed)
    matrices = rng.standard_normal((batch, unknowns + more, unknowns)) + 3 * np.eye(unknowns + more, unknowns)
    values = rng.standard_normal((batch, unknowns + more))
    kept = matrices.copy(), values.copy()
    found = least_squares(matrices, values)
    assert found.shape == (batch, unknowns)
    expected = [np.linalg.lstsq(m, v, rcond=None)[0] for m, v in zip(matrices, values, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(matrices, kept[0])
    np.testing.assert_array_equal(values, kept[1])


@given(st.tuples(st.integers(1, 3), st.one_of(st.integers(1, 8), st.integers(15, 18)), st.integers(0, 2**32 - 1)))
@settings(max_examples=60)
def test_inverses_and_triangular_factors(shape):
    batch, size, seed = shape
    rng = np.random.default_rng(seed)
    roots = np.eye(size) + rng.uniform(-0.5, 0.5, (batch, size, size)) / size
    matrices = roots @ roots.mT
    kept = matrices.copy()
    np.testing.assert_allclose(inverses(matrices), [scipy.linalg.inv(m) for m in matrices], rtol=1e-11, atol=1e-12)
    expected = [scipy.linalg.cholesky(m, lower=True) for m in matrices]
    np.testing.assert_allclose(cholesky(matrices), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(matrices, kept)


@pytest.mark.parametrize("batch", [1, 2])
def test_singular_is_refused(batch):
    with pytest.raises(np.linalg.LinAlgError):
        solved(np.zeros((batch, 2, 2)), np.ones((batch, 2, 1)))
    for size in (2, 20):
        with pytest.raises(np.linalg.LinAlgError):
            inverses(np.zeros((batch, size, size)))
        # What is not finite shows in the result: an equation solver looks there.
        assert np.isnan(inverses(np.full((batch, size, size), np.nan))).all()
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(np.full((batch, 2, 2), -1.0))
    with pytest.raises(np.linalg.LinAlgError):
        least_squares(np.ones((batch, 3, 2)) * [1.0, 0.0], np.ones((batch, 3)))


def test_identity_is_shared_and_read_only():
    assert identity(3) is identity(3)
    with pytest.raises(ValueError, match="read-only"):
        identity(3)[0, 0] = 2.0


def test_scaled_factors_keep_the_digits_of_every_row_and_column():
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((2, 30, 3)), rng.standard_normal((2, 3, 40))
    rows, columns = 10.0 ** rng.uniform(-60, 60, (2, 30, 1)), 10.0 ** rng.uniform(-20, 20, (2, 1, 40))
    tables = rows * (left @ right) * columns
    one, other, weakest = scaled_factors(tables, 1e-13)
    assert one.shape == (2, 30, 3)
    assert other.shape == (2, 3, 40)
    assert weakest > 1e-3
    unit = np.abs(tables / rows / columns).max()
    np.testing.assert_allclose(one @ other / rows / columns, tables / rows / columns, rtol=0, atol=1e-13 * unit)


def test_scaled_factors_of_nothing():
    left, right, _ = scaled_factors(np.zeros((1, 3, 4)), 1e-13)
    np.testing.assert_array_equal(left @ right, np.zeros((1, 3, 4)))
