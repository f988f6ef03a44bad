"""The real network at some places of an axis, message by message, by the machinery of `gradstep.sweeps`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gradstep.app.settings import Axis, problem_of
from gradstep.app.training import MEASURE, Training
from gradstep.checks import integer
from gradstep.errors import InvalidInput
from gradstep.label_noise import noiseless_training_error
from gradstep.overlay import Overlay, mean_and_error
from gradstep.plain import plain
from gradstep.problem import Problem
from gradstep.sweeps import Design, Failure, Store, design_of, execute
from gradstep.sweeps.task import digest
from gradstep.theory import Prediction, predict_each

_MOST_PLACES = 40
_MOST_SEEDS = 100
#: Floating-point operations of one network (some ten seconds), and of all of them (some hours).
_MOST_OPERATIONS, _MOST_IN_ALL = 4e11, 1e15
_QUANTITIES = ("test_error", "train_error", "noiseless_train_error")
_MEASURED = ("test_error", "train_error", "degrees_of_freedom")


def simulation(request: Mapping[str, Any], folder: str, workers: int) -> Iterator[dict[str, Any]]:
    """Simulate, and tell of every network that is finished.

    The request has ``problem`` and ``axis`` as for a curve, with few places; ``seeds``, networks a place; and ``d``,
    the dimension that stands for an infinite one. The networks are trained as the ``training`` of the problem says, by
    so many processes. Results are kept in the folder, and what is there is not computed again.

    The messages are ``start`` with the places, the theory there (None where there is none) and the number of networks;
    ``place`` with a mean and its standard error; ``end`` with the z-scores of the test error. Theory is that of one
    plain step: after another training there are no z-scores. Raises `InvalidInput` before any work on what cannot be
    simulated or would take too long.
    """
    setting, given = request.get("problem"), request.get("axis")
    if not isinstance(setting, Mapping) or not isinstance(given, Mapping):
        raise InvalidInput("problem", None, "a problem, and an axis {name, from, to, count, scale}")
    axis = Axis.parse({"count": 8, **given}, _MOST_PLACES)
    seeds = integer("seeds", request.get("seeds", 8), 2, _MOST_SEEDS)
    d = setting.get("d") if setting.get("d") not in ("inf", "infinity") else request.get("d", 200)
    if d in ("inf", "infinity", math.inf):
        raise InvalidInput("d", d, "a finite integer >= 2: only errors can be predicted in a limit")
    asked = [axis.apply({**setting, "d": d}, place) for place in axis.places]
    distinct = {digest(problem_of(s).to_dict()): s for s in asked}  # sizes are rounded
    settings = list(distinct.values())
    problems = [problem_of(s) for s in settings]
    training = Training.parse(setting.get("training", {}))
    _check_work(problems, seeds, training)
    design = _design(problems, seeds)
    predictions = predict_each(problems, some=True)
    theory = [each.test_error if isinstance(each, Prediction) else math.nan for each in predictions]
    total = design.task_count
    yield {
        "kind": "start",
        "x": [axis.place(s, p) for s, p in zip(settings, problems, strict=True)],
        "theory": plain(theory),
        "d": problems[0].d,
        "networks": total * (len(problems) if design.path else 1),
    }
    values: list[dict[str, list[float]]] = [{name: [] for name in _QUANTITIES} for _ in problems]
    points: dict[int, int] = {}

    def listed() -> Iterator[Any]:
        for index, (point, task) in enumerate(design.tasks()):
            points[index] = point
            # The same networks as those of the plain step, seed by seed.
            more = {**task.parameters, "training": asdict(training)}
            yield task if training.has_theory else replace(task, measure=MEASURE, parameters=more)

    for done, (index, result) in enumerate(execute(listed(), Store(Path(folder)), workers=workers), 1):
        if isinstance(result, Failure):
            yield {"kind": "error", "message": str(result)}
            return
        touched = range(len(problems)) if design.path else [points.pop(index)]
        for column, place in enumerate(touched):
            test, train, freedom = (float(result[name][column]) for name in _MEASURED)
            found = test, train, noiseless_training_error(problems[place], train, freedom)
            for name, value in zip(_QUANTITIES, found, strict=True):
                values[place][name].append(value)
            yield {"kind": "place", "place": place, "done": done, "of": total, **_summary(values[place])}
    known = theory if training.has_theory else [math.nan] * len(theory)
    z = Overlay.of(known, [place["test_error"] for place in values], axis=-1).z
    yield {"kind": "end", "z": plain(z)}


def _check_work(problems: list[Problem], seeds: int, training: Training) -> None:
    operations = 0.0
    for problem in problems:
        if problem.n_step == math.inf:
            raise InvalidInput("n_step", "inf", "a finite number of samples: a network cannot take a population step")
        sizes = problem.real_sizes()
        d, width, _, n, _ = sizes
        needed = 2 * width * (n * (d + min(n, width)) + d * width) + training.operations(sizes)
        if needed > _MOST_OPERATIONS or width * (d + width) + n * min(n, width) > 2e8:
            raise InvalidInput("d", problem.d, "smaller sizes: this network would take minutes, or gigabytes")
        operations += needed * seeds
    if operations > _MOST_IN_ALL:
        raise InvalidInput("seeds", seeds, "fewer networks, or smaller ones: this would take hours")


def _design(problems: list[Problem], seeds: int) -> Design:
    """Return the sweep over problems; those that differ in the penalty alone share their networks."""
    plain = [problem.to_dict() for problem in problems]
    varied = [key for key in plain[0] if any(p[key] != plain[0][key] for p in plain)]
    base = {key: value for key, value in plain[0].items() if key not in varied}
    columns = {key: [p[key] for p in plain] for key in varied}
    if varied == ["ridge"]:
        return design_of(base, columns, seeds=seeds, theory=False)
    return design_of(base, {}, zipped=[columns] if columns else [], seeds=seeds, theory=False)


def _summary(values: Mapping[str, list[float]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"seeds": len(values["test_error"])}
    for name, found in values.items():
        mean, error, count = mean_and_error(found)
        summary[name] = {"mean": float(mean), "standard_error": float(error) if count > 1 else None}
    return summary
