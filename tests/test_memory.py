"""Results that are kept: bounded in bytes, the least recently used forgotten first; and what fits in memory."""

import math
import tracemalloc
from dataclasses import fields, is_dataclass
from importlib import import_module

import numpy as np
import pytest

import gradstep as gs
from gradstep.cli.compute import _check_size
from gradstep.errors import InvalidInput
from gradstep.memory import check_fits, remembered
from gradstep.sizes import Sizes
from gradstep.theory.equivalent import batches

# The package has a function of this name.
predict_module = import_module("gradstep.theory.predict")


def test_results_are_kept_up_to_a_bound_in_bytes():
    called = []

    @remembered(100, len)
    def texts(asked):
        called.append([*asked])
        for count, letter in reversed(asked):
            yield (count, letter), letter * count

    assert texts(40, "a") is texts(40, "a")
    # What is known comes first, and what is asked for twice is computed once.
    assert [*texts.each([(30, "b"), (40, "a"), (20, "c"), (30, "b")])] == [
        ((40, "a"), "a" * 40),
        ((20, "c"), "c" * 20),
        ((30, "b"), "b" * 30),
    ]
    assert called == [[(40, "a")], [(30, "b"), (20, "c")]]
    assert texts.cache_info() == (2, 3, 90, 3)
    # The one that was used last stays.
    texts(40, "a")
    texts(45, "d")
    assert texts.cache_info().held == 85
    texts(40, "a")
    assert called[2:] == [[(45, "d")]]
    # What is larger than all that may be kept pushes nothing out.
    assert [len(texts(101, "a")), len(texts(101, "a"))] == [101, 101]
    assert called[3:] == [[(101, "a")]] * 2
    assert texts.cache_info().held == 85
    texts.cache_clear()
    assert texts.cache_info() == (0, 0, 0, 0)


def test_a_failure_is_not_kept():
    @remembered(100, len)
    def fails(asked):
        for number in asked:
            if number == (2,):
                raise ValueError("no")
            yield number, "found"

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            [*fails.each([(1,), (2,), (3,)])]
    assert fails.cache_info().kept == 1


def held_by(value, seen):
    """Return the bytes of all arrays that can be reached, each once."""
    if id(value) in seen:
        return 0
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        return held_by(value.base, seen) if isinstance(value.base, np.ndarray) else value.nbytes
    if isinstance(value, tuple | list):
        return sum(held_by(part, seen) for part in value)
    if is_dataclass(value) or hasattr(value, "_asdict"):
        # With what `cached_property` has added.
        parts = vars(value).values() if is_dataclass(value) else value
        return sum(held_by(part, seen) for part in [*parts, *(getattr(value, f.name) for f in fields(value))])
    return 0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "relu", "readout": {0.5: 0.5, 2.0: 0.5}},
        {"activation": "exp(0.1*x)", "output_scale": "1/sqrt(N)", "readout": {-1.0: 0.5, 1.0: 0.5}},
        {"activation": "abs(x)", "n_step": 100},
        {"activation": "tanh(x)+0.3*x**2", "readout": {k / 10: 1.0 for k in range(1, 21)}},
        {"n_step": np.inf, "eta": gs.Step(5.0, 0.5)},
    ],
)
def test_tables_take_no_more_than_is_counted(changes):
    base = {"activation": "tanh", "teacher": "sin", "d": 200, "width": 300, "n_step": 800, "n": 600, "ridge": 10.0}
    problem = gs.Problem(**base | {"eta": gs.Step(2.0, 0.5)} | changes)
    cache = predict_module._prepared
    cache.cache_clear()
    gs.predict(problem)
    kept = [prepared for prepared, _ in cache._known.values()]
    assert kept
    for prepared in kept:
        assert held_by(prepared, {}) < predict_module._memory(prepared)


def test_a_batch_holds_few_tables_at_a_time(monkeypatch):
    problem = gs.Problem(
        activation="relu", teacher="sin", d=200, width=300, n_step=np.inf, n=400, eta=gs.Step(2.0, 0.5), ridge=1.0
    )
    problems = [problem.replace(eta=gs.Step(2.0 + k / 100, 0.5)) for k in range(20)]
    expected = [prediction.test_error for prediction in gs.predict_many(problems)]
    size = predict_module._memory(predict_module._prepared(problem, "network", "structured", 1))
    most = 3 * size
    monkeypatch.setattr(predict_module, "_REMEMBERED", most)
    monkeypatch.setattr(predict_module._prepared, "_most", most)
    predict_module._prepared.cache_clear()
    solved, waited = batches._solved, []

    def watched(fits):
        waited.append(sum(fit.tables.memory for fit in fits))
        return solved(fits)

    monkeypatch.setattr(batches, "_solved", watched)
    tracemalloc.start()
    try:
        found = [prediction.test_error for prediction in gs.predict_many(problems)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == pytest.approx(expected, rel=1e-9)
    assert len(waited) > 4
    assert sum(waited) > 15 * size
    # What is kept, what waits, and what the solver works with; all together would take 14 times as much.
    assert peak < 7 * most
    assert predict_module._prepared.cache_info().held <= most


@pytest.mark.parametrize("damping", [pytest.param(math.inf, marks=pytest.mark.statistical), 0.5])
def test_points_of_a_curve_do_not_hold_their_laws_all_at_once(damping):
    # The law of the rows has an array over many points and nodes.
    problem = gs.Problem(
        activation="relu", teacher="sin(5*x)", readout={1.0: 0.5, 2.0: 0.5}, d=200, width=250, n=500, n_step=110,
        noise=1.0, ridge=0.1, eta=gs.Step(1.0, 0.5), inputs=gs.Inputs.power_law(0.5), damping=damping,
    )  # fmt: skip
    curve = [problem.replace(eta=gs.Step(1 + 0.01 * point, 0.5)) for point in range(3)]
    gs.predict(problem)

    def largest(problems):
        predict_module._prepared.cache_clear()
        tracemalloc.start()
        predict_module.predict_many(problems)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    assert largest(curve) < 2 * largest([problem])


def test_a_card_has_its_own_memory_and_no_month():
    with pytest.raises(InvalidInput, match=r"width: got 9; .*\(d = 5 and width = 9 need 4 GiB of 2 GiB\)"):
        check_fits("width", 9, 4.0 * 2**30, "d = 5", 2.0 * 2**30)
    check_fits("width", 9, 2.0 * 2**30, "d = 5", 2.0 * 2**30)
    large = Sizes(d=4000, width=4000, n_step=8000, n=8000, ridge=1.0)
    _check_size(large, 1e9)
    with pytest.raises(InvalidInput, match=r"GiB of 0\.0931 GiB"):
        _check_size(large, 1e8)
    endless = Sizes(d=100, width=100, n_step=10**15, n=100, ridge=1.0)
    _check_size(endless, 1e9)
    with pytest.raises(InvalidInput, match="n_step"):
        _check_size(endless, None)
