"""Cost of the theory: predictions, curves, grids, limits, tuning, spectra, other losses, published evaluations.

``run()`` returns rows ``{"name", "measured", "baseline", "baseline_name", "ratio", "target", "better", "unit"}``. Where
the goal is a time or a rate, the baseline is that goal and the target is 1; otherwise the baseline is measured in the
same run. Times are medians over rounds in which the calls of a group take turns, so that all see the same machine. A
call of a millisecond is made several times in its turn and its mean taken; a row that tells the time of one call also
has the least of the rounds, which a busy machine changes less.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple, TypeVar

import numpy as np
from benchmarks.published_method_cui2024 import draw_bulk, published_evaluation

import gradstep as gs
from gradstep.papers.ba2022 import coefficients, small_step
from gradstep.papers.cui2024 import SummaryStatistics, summary_statistics
from gradstep.theory.equivalent.tables import without_fit
from gradstep.theory.step.own_output import output_constants
from gradstep.threads import one_thread

# The package's `predict` is the function; its module holds the tables that a cold call must not find.
predict_module = importlib.import_module("gradstep.theory.predict")

Row = dict[str, Any]
Key = TypeVar("Key")

#: Predictions of which the mean time is taken.
CALLS_IN_TURN = 10
BARE = "bare LAPACK solves of its shapes"


def row(
    name: str,
    measured: float,
    baseline: float,
    baseline_name: str,
    *,
    target: float | None = 1.0,
    better: str = "lower",
    unit: str = "s",
    ratio: float | None = None,
    least: float | None = None,
) -> Row:
    """Return one line of the report; `ratio` is measured / baseline unless given."""
    return {
        "name": name,
        "measured": measured,
        "baseline": baseline,
        "baseline_name": baseline_name,
        "ratio": measured / baseline if ratio is None else ratio,
        "target": target,
        "better": better,
        "unit": unit,
        "least": least,
    }


class Times(NamedTuple):
    """Median and least wall time of a call, in seconds."""

    median: float
    least: float


def timed(calls: Mapping[Key, Callable[[], object]], rounds: int, calls_in_turn: int = 1) -> dict[Key, Times]:
    """Time several calls in rounds, each so many times in its turn, after one untimed round."""
    times: dict[Key, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for key, call in calls.items():
            start = time.perf_counter()
            for _ in range(calls_in_turn):
                call()
            times[key].append((time.perf_counter() - start) / calls_in_turn)
    return {key: Times(median(values), min(values)) for key, values in times.items()}


def problem(**changes: Any) -> gs.Problem:
    """Return the problem that is timed: a large step at d = 1000."""
    settings: dict[str, Any] = {
        "activation": "tanh",
        "teacher": "sin",
        "d": 1000,
        "width": 2000,
        "n_step": 4000,
        "n": 2000,
        "eta": gs.Step(1.0, exponent=0.5),
        "ridge": 2.0,
        "noise": 0.1,
    }
    return gs.Problem(**(settings | changes))


def bare_solves(problems: Sequence[gs.Problem]) -> Callable[[], None]:
    """Return the dense solves that predictions cannot do without: their Newton steps and one conditional error each."""
    sizes: Counter[int] = Counter()
    for posed, prediction in zip(problems, gs.predict_many(problems), strict=True):
        bare = without_fit(posed)
        for _, constant in output_constants(posed):
            for _, prepared in predict_module._prepared(bare, "network", "structured", 1, constant):
                groups, nodes = prepared.tables.features.mean.shape
                sizes[groups + nodes] += prediction.iterations
                sizes[nodes] += 1
    return bare_systems(sizes)


def bare_systems(sizes: Mapping[int, int], turn: complex = 1.0) -> Callable[[], None]:
    """Return the solution of so many linear systems of each size, of complex numbers if `turn` is one."""
    rng = np.random.default_rng(0)
    systems = [
        ((np.eye(size) + 0.01 * rng.standard_normal((size, size))) * turn, np.ones(size), times)
        for size, times in sizes.items()
    ]

    @one_thread()
    def solve() -> None:
        for matrix, right, times in systems:
            for _ in range(times):
                np.linalg.solve(matrix, right)

    return solve


def one_prediction(rounds: int) -> list[Row]:
    """Time a single `gs.predict`, with its tables in memory and without."""
    goals = {
        ("gaussian", "tanh"): 5e-3, ("gaussian", "relu"): 5e-3, ("constant", "tanh"): 1e-3, ("constant", "relu"): 1e-3
    }  # fmt: skip
    posed = {case: problem(readout=case[0], activation=case[1]) for case in goals}

    # A call with new tables forgets all others: it has rounds of its own.
    times = timed({(case, "new tables"): partial(cold, [one]) for case, one in posed.items()}, rounds)
    calls: dict[tuple[tuple[str, str], str], Callable[[], object]] = {}
    for case, one in posed.items():
        calls[case, "tables known"] = partial(gs.predict, one)
        calls[case, "isotropic bulk"] = partial(gs.predict, one, bulk="isotropic")
        calls[case, "bare"] = bare_solves([one])
    times |= timed(calls, rounds, CALLS_IN_TURN)
    rows = []
    for case, goal in goals.items():
        label = "predict, {} readout, {}".format(*case)
        for which in ("new tables", "tables known", "isotropic bulk"):
            measured = times[case, which]
            rows.append(row(f"{label}, {which}", measured.median, goal, "goal", least=measured.least))
        known, isotropic, bare = (times[case, which].median for which in ("tables known", "isotropic bulk", "bare"))
        rows += [
            row(f"{label}, structured bulk", known, isotropic, "the isotropic bulk", target=5.0),
            row(f"{label}, tables known", known, bare, BARE, target=None),
        ]
    return rows


def vocabularies(rounds: int) -> list[Row]:
    """Time what the structured bulk costs over the isotropic one when the readout has many values."""
    rows = []
    for count in (2, 5, 10):
        posed = problem(readout={(k + 1) / count: 1 / count for k in range(count)}, activation="relu")
        calls = {"structured": partial(gs.predict, posed), "isotropic": partial(gs.predict, posed, bulk="isotropic")}
        times = timed(calls, rounds, CALLS_IN_TURN)
        label = f"predict, {count} readout values, relu, structured bulk"
        rows.append(row(label, times["structured"].median, times["isotropic"].median, "the isotropic bulk", target=5.0))
    return rows


def correlated(rounds: int) -> list[Row]:
    """Time predictions for correlated inputs of 30 classes, with a plain and a damped step, over isotropic ones."""
    rows = []
    for readout, activation in (("constant", "tanh"), ("gaussian", "tanh"), ("constant", "relu"), ("gaussian", "relu")):
        plain = problem(readout=readout, activation=activation)
        correlated = plain.replace(inputs=gs.Inputs.power_law(0.4, 1.0, d=1000))
        cases = {"isotropic": plain, "plain": correlated, "damped": correlated.replace(damping=0.1)}
        times = timed({name: partial(cold, [one]) for name, one in cases.items()}, rounds)
        for name in ("plain", "damped"):
            label = f"predict, correlated inputs, {name} step, {readout} readout, {activation}, new tables"
            rows.append(row(label, times[name].median, times["isotropic"].median, "isotropic inputs", target=3.0))
    return rows


def cold(posed: Sequence[gs.Problem]) -> list[gs.Prediction]:
    """Predict problems of which no table is known."""
    predict_module._prepared.cache_clear()
    return gs.predict_many(posed)


def large_step(alpha: Any, eta_tilde: Any = 3.0) -> SummaryStatistics:
    return summary_statistics("tanh", "sin", eta_tilde=eta_tilde, alpha0=20.0, alpha=alpha, lam=0.1)


def limits(rounds: int, dimension: int) -> list[Row]:
    """Time the papers' limits in batches, and the large step against its published evaluation."""
    points, small_points = 1000, 10_000
    ratios, small_ratios = np.linspace(0.2, 3.0, points), np.linspace(0.2, 3.0, small_points)
    steps = np.linspace(0.5, 4.0, points)

    def small() -> object:
        return small_step(coefficients("tanh", "sin"), psi1=small_ratios, psi2=1.5, lam=0.1, eta=1.0)

    bulk = draw_bulk(dimension, 1.0, seed=0)
    check = (0.2, 0.9, 1.6, 2.3, 3.0)
    evaluations = [
        published_evaluation("tanh", "sin", eta_tilde=3.0, alpha0=20.0, alpha=ratio, lam=0.1, bulk=bulk)
        for ratio in check
    ]
    times = timed(
        {
            "small": small,
            "shared": lambda: large_step(ratios),
            "distinct": lambda: large_step(ratios, steps),
            "single": lambda: large_step(0.9),
        },
        rounds,
    )
    seconds = {name: measured.median for name, measured in times.items()}
    worst = max(float(large_step(ratios).residual.max()), float(large_step(ratios, steps).residual.max()))
    apart = float(np.abs(large_step(check).test_error - [evaluation.test_error for evaluation in evaluations]).max())
    published = median(evaluation.seconds for evaluation in evaluations)
    rows = [
        row(label, points / needed, goal, "goal", better="higher", unit="1/s")
        for label, points, needed, goal in (
            (f"small step, {small_points} points", small_points, seconds["small"], 50_000.0),
            (f"large-step limit, {points} points sharing a spike", points, seconds["shared"], 2000.0),
            (f"large-step limit, {points} points, each its own spike", points, seconds["distinct"], 2000.0),
        )
    ]
    baseline_name = f"published evaluation at d = {dimension}, without drawing the bulk"
    rows += [
        row(label, needed, published, baseline_name, target=3000.0, better="higher", ratio=published / needed)
        for label, needed in (
            ("large step per point, sharing a spike", seconds["shared"] / points),
            ("large step per point, each its own spike", seconds["distinct"] / points),
            ("large step, one point in a call of its own", seconds["single"]),
        )
    ]
    rows += [
        row("largest residual of the large step", worst, 1e-10, "goal", unit=""),
        row(
            "test error: distance to the published evaluation",
            apart,
            float(np.mean(large_step(check).test_error)),
            "test error",
            target=None,
            unit="",
        ),
    ]
    return rows


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything: about three minutes on two cores, half a minute if `quick`."""
    return [
        *one_prediction(5 if quick else 51),
        *vocabularies(5 if quick else 11),
        *correlated(5 if quick else 51),
        *limits(3 if quick else 7, 300 if quick else 2000),
    ]
