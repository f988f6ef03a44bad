"""The tasks of a sweep: predict a point, simulate one network at a point, see what single precision costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradstep.errors import GradstepError, InvalidInput
from gradstep.problem import Problem
from gradstep.resolution import NOTHING
from gradstep.simulation import simulate
from gradstep.simulation.backend import backend
from gradstep.sizes import Proportional
from gradstep.theory import QUANTITIES, Prediction, predict_each

__all__ = ["device_at_hand", "precision_cost", "predicted", "simulated"]


def predicted(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the theory's value of every quantity, one for each penalty, with the solver's residual.

    Where some penalties of a path have no prediction, theirs are nan and ``failure`` says why, penalty by penalty.
    Raises `InvalidInput` and `NotConverged` if no penalty has a prediction.
    """
    problem = Problem.from_dict(parameters["problem"])
    penalty = Proportional if problem.is_limit else float
    problems = [problem.replace(ridge=penalty(ridge)) for ridge in parameters["ridge"]]
    found = predict_each(problems, some=True)
    values: dict[str, Any] = {
        name: [_number(getattr(each, name) if isinstance(each, Prediction) else math.nan) for each in found]
        for name in (*QUANTITIES, "residual")
    }
    values["method"] = next(each.method for each in found if isinstance(each, Prediction))
    failures = [f"{type(each).__name__}: {each}" if isinstance(each, GradstepError) else "" for each in found]
    return {**values, "failure": failures} if any(failures) else values


def simulated(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return one network's value of every quantity, one for each penalty."""
    problem = Problem.from_dict(parameters["problem"])
    ridge = [float(value) for value in parameters["ridge"]]
    measured = simulate(problem, [seed], ridge=ridge, device=parameters["device"], dtype=parameters["dtype"])
    values = {}
    for name in QUANTITIES:
        of_seed = measured[name][0]
        values[name] = [_number(v) for v in (of_seed if of_seed.ndim else [of_seed] * len(ridge))]
    return values


def precision_cost(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return, for each quantity, the largest relative difference between one network in float32 and in float64."""
    single, double = (simulated({**parameters, "dtype": dtype}, seed) for dtype in ("float32", "float64"))
    cost: dict[str, Any] = {}
    for name in QUANTITIES:
        pairs = [(float(a), float(b)) for a, b in zip(single[name], double[name], strict=True)]
        cost[name] = _number(max(abs(a - b) / max(abs(b), NOTHING) for a, b in pairs))
    return cost


def device_at_hand(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return what is allowed in place of a device that is not there; empty text if it is."""
    try:
        backend(parameters["device"], parameters["dtype"])
    except InvalidInput as error:
        return {"allowed": error.allowed}
    return {"allowed": ""}


def _number(value: Any) -> float | str:
    """Return a float; infinities as text, which JSON has no number for."""
    number = float(value)
    return number if math.isfinite(number) else str(number)
