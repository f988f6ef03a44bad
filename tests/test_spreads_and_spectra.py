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


def test_deviations_are_relative_and_free_of_what_few_inputs_add():
    added = 0.05 * math.sqrt(FRESH * DIMENSION)
    told = {
        "spread": [math.sqrt(0.1**2 - 0.05**2), 0.12, added],
        "features": [3.3],
        "weights": [],
        "caveats": {"a": 0.03, "b": 0.04},
    }
    (found,) = deviations([measured(0, told)])
    assert found["estimate"] == pytest.approx(0.05)
    assert found["test"][0] == pytest.approx(0, abs=1e-3)
    assert found["train"][0] == pytest.approx(0.2, abs=1e-3)
    # A fair coin has no fourth cumulant, but a variance that is known to one over the root of all draws at best.
    assert found["train"][1] == pytest.approx(1 / math.sqrt(8000))
    assert found["features"] == (pytest.approx(0.1), 0.0)
    assert "weights" not in found


def test_what_is_refused_or_interpolates_does_not_count():
    rows = [
        measured(0, {"spread failure": "near interpolation", "caveats": {}, "features": [3.0], "weights": [2.0]}),
        measured(1, {"spread": [0.1, None, 0.0], "caveats": {"a": 0.2}, "features": [3.6], "weights": [2.0]}),
    ]
    known, _, told, _ = summary(rows)
    assert [known[name]["count"] for name in ("test", "train", "features")] == [0, 0, 1]
    assert [told[name]["count"] for name in ("test", "train", "features")] == [1, 0, 1]
    assert told["features"]["off"] == pytest.approx(20)
    # An outlier that is a fifth too large, where caveats say a fifth.
    more = measured(2, {"spread": [0.1, 0.1, 0.0], "caveats": {"a": 0.2}, "features": [3.6], "weights": [2.0]})
    assert factors([*rows, more])["features"] == pytest.approx(1.0)
