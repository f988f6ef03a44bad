"""What array libraries do in different ways."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from gradstep.host import set_diagonal, to_host


@pytest.mark.parametrize("library", [np, array_api_strict], ids=["numpy", "strict"])
@pytest.mark.parametrize("size", [4, 515])
def test_a_diagonal_is_set_and_nothing_else(library, size):
    values, entries = np.random.default_rng(0).standard_normal(size), np.arange(1.0 * size**2).reshape(size, size)
    matrix = library.asarray(entries.copy())
    for given in (values, 0.0):
        set_diagonal(matrix, given)
        expected = entries.copy()
        expected[np.diag_indices(size)] = given
        np.testing.assert_array_equal(to_host(matrix), expected)
