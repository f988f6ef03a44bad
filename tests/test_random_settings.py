"""Settings drawn at random, and what is told of them."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.hunt.sample import Sample
from benchmarks.random_settings import COUNT, FIRST_FRESH, FRESH, STEEP, kind_of, measure, row, setting, summary, theory

import gradstep as gs


def test_a_setting_is_the_same_at_every_dimension() -> None:
    for number in (*range(COUNT), *range(FIRST_FRESH, FIRST_FRESH + FRESH)):
        small, large = (setting(number, d) for d in (200, 400))
        assert all(large[name] == 2 * small[name] for name in ("d", "width", "n", "n_step"))
        assert large["ridge"] == pytest.approx(2 * small["ridge"], rel=1e-6)
        # A problem is made, so that all values are allowed.
        one, other = gs.Problem(**small), gs.Problem(**large)
        assert (one.activation, one.teacher, one.readout) == (other.activation, other.teacher, other.readout)


def test_fresh_settings_have_all_inputs_and_steep_ones_a_power_law() -> None:
    kinds = {
        kind: [n for n in (*range(COUNT + STEEP), FIRST_FRESH) if kind_of(n) == kind] for kind in ("steep", "fresh")
    }
    assert kinds["steep"] == list(range(COUNT, COUNT + STEEP))
    assert all(len(setting(number, 60)["inputs"].eigenvalues) > 10 for number in kinds["steep"])
    assert kinds["fresh"] == [FIRST_FRESH]
    assert len({setting(n, 60).get("inputs") for n in range(FIRST_FRESH, FIRST_FRESH + 40)}) == 6


def test_a_network_and_theory_have_the_same_errors_at_the_same_places() -> None:
    mild = {"activation": "tanh(x)", "output_scale": "1/N"}
    number = next(n for n in range(COUNT) if mild.items() <= setting(n, 60).items())
    networks = Sample.of([measure(number, 60, seed, None) for seed in range(24)])
    told = theory(number, 60)
    predicted = np.array([told["test_error"], told["train_error"]])
    # The errors differ by more than this from each other, so that no two have changed places.
    assert np.abs(np.log(predicted / networks.mean)).max() < 0.1
    assert np.diff(np.sort(np.log(predicted), axis=None)).min() > 0.15


def test_the_summary_has_the_deviations_and_their_chance() -> None:
    def told(d: int, count: int, percent: float, error: float) -> dict[str, object]:
        mean = np.ones((2, 3))
        sample = Sample.from_error(count, mean, error * mean)
        one = [1 + percent / 100] * 3
        return {**row(0, d, sample), "theory": {"test_error": one, "train_error": one, "caveats": [["x"], [], []]}}

    first, second = summary([told(400, 16, 5.0, 0.01), told(1600, 4, 1.0, 0.001)])
    assert (first["far"], first["told"]) == (3, 1)
    assert first["test_error"] == pytest.approx({"known": 3, "off": 5.0, "by_chance": 1.0, "median": 5.0})
    # A quarter of the networks at four times the size: the scatter of four is not believed to be ten times smaller.
    assert second["train_error"] == pytest.approx({"known": 3, "off": 1.0, "by_chance": 1.0, "median": 1.0})
