"""Factors of the caveats, fitted to networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.caveat_sizes import WEIGHTS, Measured, estimates, fitted, summary

from gradstep.theory.caveats import _LEAST, _RULES, caveats_of


def test_the_estimate_is_that_of_all_caveats_together() -> None:
    found = dict.fromkeys(_RULES, 0.3)
    factors = np.array([rule.factor for rule in _RULES.values()])
    (estimate,) = estimates(np.array([list(found.values())]), factors)
    sizes = [rule.factor * 0.3**rule.power for rule in _RULES.values()]
    assert estimate == pytest.approx(math.hypot(*sizes))
    shown = [caveat.size for caveat in caveats_of(found)]
    assert shown == pytest.approx(sorted(sizes, reverse=True)[: len(shown)])


def drawn(true: np.ndarray, count: int) -> list[Measured]:
    """Return predictions whose deviations have the root mean square that some factors say."""
    random = np.random.default_rng(5)
    found = random.lognormal(math.log(0.02), 1.0, (count, len(_RULES))) * (random.random((count, len(_RULES))) < 0.2)
    deviation = estimates(found, true) * random.standard_normal(count)
    every = []
    for name in WEIGHTS:
        every += [Measured(name, False, list(x), y, 1e-3) for x, y in zip(found, deviation, strict=True)]
    return every


def test_factors_that_are_too_small_grow_and_others_fall() -> None:
    now = np.array([rule.factor for rule in _RULES.values()])
    place = {name: i for i, name in enumerate(_RULES)}
    true = now.copy()
    true[place["growth"]] *= 4
    true[place["shared_sign"]] /= 4
    found = fitted(drawn(true, 600)) / now
    assert found[place["growth"]] > 1.5
    assert found[place["shared_sign"]] < 1 / 1.5


def test_the_summary_counts_what_is_shown() -> None:
    key = list(_RULES).index("growth")

    def one(size: float, deviation: float) -> Measured:
        values = [0.0] * len(_RULES)
        values[key] = size / _RULES["growth"].factor
        return Measured("hunt.json", False, values, deviation, 0.004)

    told = summary([one(2 * _LEAST, 0.1), one(0.02, -0.05), one(0.02, 0.005), one(2 * _LEAST, 0.001)])
    first = told["told"][0]
    assert {name: first[name] for name in ("far", "far_told", "right", "right_told")} == {
        "far": 2, "far_told": 50.0, "right": 2, "right_told": 50.0,
    }  # fmt: skip
    between = next(line for line in told["sizes"] if line["from"] == 2.0)
    assert between["predictions"] == 2
    assert between["root_mean_square"] == pytest.approx(100 * math.sqrt((0.05**2 + 0.005**2) / 2 - 0.004**2))
