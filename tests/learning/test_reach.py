"""Beyond the pool: what is said about pairs of n and ridge without an estimate."""

import re

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.learning.pool import pool_of
from gradstep.learning.reach import has_estimate, least_ridge, most_samples


@pytest.fixture
def few(rows):
    """Return features and targets of fewer rows than features."""
    features, targets, _ = rows(60, 90, 1)
    return features, targets


def test_neighbours_have_an_estimate_and_what_is_beyond_has_none(few):
    pool, ridge = pool_of(*few), 0.1
    assert not has_estimate(pool, 120, ridge)
    least = least_ridge(pool, 120, ridge)
    assert has_estimate(pool, 120, least)
    assert not has_estimate(pool, 120, least / 1.3)
    most = most_samples(pool, 120, ridge)
    assert has_estimate(pool, most, ridge)
    assert not has_estimate(pool, most + 2, ridge)


def test_the_message_names_pairs_that_have_one(few):
    with pytest.raises(NotConverged, match=r"There is an estimate for n = 120 with a ridge of") as failure:
        gs.learning_curve(*few, n=120, ridge=0.1)
    least, most = re.search(r"ridge of ([\d.e+]+), and for ridge = 0.1 up to n = (\d+)", str(failure.value)).groups()
    found = gs.learning_curve(*few, n=[int(most), 120], ridge=[0.1, float(least)])
    np.testing.assert_array_equal(np.isnan(found.test_error), [[False, False], [True, False]])
    assert f"up to n = {most}" in "".join(found.caveats)
