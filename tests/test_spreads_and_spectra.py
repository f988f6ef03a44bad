"""The table of predicted spreads and outliers beside networks, from networks that are known."""

import math

import numpy as np
import pytest
from benchmarks.spreads_and_spectra import DIMENSION, FRESH, deviations, factors, row, summary


def measured(number, theory, deviation=0.1, outlier=3.0):
    """Return a row of networks whose errors have this standard deviation, and singular values this mean."""
    random = np.random.default_rng(number)
    errors = 1 + deviation * random.choice([-1.0, 1.0], (4000, 2))
    networks = [{"errors": error.tolist()} for error in errors]
    for network in networks[:10]:
        network |= {"features": [outlier, 1.0], "weights": [2.0, 1.0]}
    return {**row(number, networks), "theory": theory}


def told(spread=None, outlier=None, size=0.0):
    """Return what theory says, with caveats of this size together."""
    caveats = {"a": 0.6 * size, "b": 0.8 * size}
    found = {"spread failure": "near interpolation"} if spread is None else {"spread": spread}
    found |= {"features": [] if outlier is None else [outlier], "weights": [2.0]}
    return found | {"caveats of spread": caveats, "caveats of features": caveats, "caveats of weights": {}}


def test_deviations_are_relative_and_free_of_what_few_inputs_add():
    added = 0.05 * math.sqrt(FRESH * DIMENSION)
    (found,) = deviations([measured(0, told([math.sqrt(0.1**2 - 0.05**2), 0.12, added], 3.3, 0.05))])
    assert found["test"] == pytest.approx((0, found["test"][1], 0.05), abs=1e-3)
    # A fair coin has no spread of its squares: the least is that of Gaussian errors.
    assert found["train"] == pytest.approx((0.2, 1 / math.sqrt(8000), 0.05), abs=1e-3)
    assert found["features"] == pytest.approx((0.1, 0, 0.05))
    assert found["weights"] == pytest.approx((0, 0, 0))


def test_what_is_refused_or_interpolates_does_not_count():
    rows = [measured(0, told(outlier=3.0)), measured(1, told([0.1, None, 0.0], 3.6, 0.4))]
    none, _, some, _ = summary(rows)
    assert [none[name]["count"] for name in ("test", "train", "features", "weights")] == [0, 0, 1, 2]
    assert [some[name]["count"] for name in ("test", "train", "features", "weights")] == [1, 0, 1, 0]
    assert some["features"]["off"] == some["features"]["median"] == pytest.approx(20)
    # Outliers are a fifth too large, where caveats say two fifths.
    assert factors(rows)["features"] == pytest.approx(0.5)
