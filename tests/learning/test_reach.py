"""Beyond the pool: what is said about pairs of n and ridge without an estimate."""

import re

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.learning import equations
from gradstep.learning.pool import pool_of
from gradstep.learning.reach import least_ridge, most_samples, place_of
from gradstep.learning.resolvent import Resolvent


@pytest.fixture
def few(rows):
    """Return features and targets of fewer rows than features."""
    features, targets, _ = rows(60, 90, 1)
    return features, targets


def test_neighbours_have_an_estimate_and_what_is_beyond_has_none(few):
    pool, ridge = pool_of(*few), 0.1
    assert place_of(pool, 120, ridge) is None
    least = least_ridge(pool, 120, ridge)
    assert place_of(pool, 120, least.ridge) is not None
    assert place_of(pool, 120, least.ridge / 1.3) is None
    most = most_samples(pool, 120, ridge, least)
    assert place_of(pool, most, ridge) is not None
    assert place_of(pool, most + 2, ridge) is None


def test_a_search_that_begins_nearby_finds_the_same_weights_with_fewer_factors(few, monkeypatch):
    """The weights of a pair do not depend on the one before it, for other n and other penalties."""
    factors = []
    monkeypatch.setattr(equations, "Resolvent", lambda *given: factors.append(given) or Resolvent(*given))

    def counted(*given):
        factors.clear()
        return place_of(pool, *given).weights, len(factors)

    pool = pool_of(*few)
    near = place_of(pool, 110, 600.0)
    for samples, ridge in ((110, 480.0), (115, 600.0), (100, 600.0)):
        (weights, needed), (expected, alone) = counted(samples, ridge, near), counted(samples, ridge)
        np.testing.assert_allclose(weights, expected, rtol=2e-3)
        assert needed < alone


def test_the_message_names_pairs_that_have_one(few):
    with pytest.raises(NotConverged, match=r"There is an estimate for n = 120 with a ridge of") as failure:
        gs.learning_curve(*few, n=120, ridge=0.1)
    least, most = re.search(r"ridge of ([\d.e+]+), and for ridge = 0.1 up to n = (\d+)", str(failure.value)).groups()
    found = gs.learning_curve(*few, n=[int(most), 120], ridge=[0.1, float(least)])
    np.testing.assert_array_equal(np.isnan(found.test_error), [[False, False], [True, False]])
    assert f"up to n = {most}" in "".join(found.caveats)
