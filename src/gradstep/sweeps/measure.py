"""The tasks of a sweep: predict a point, simulate one network at a point, see what single precision costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradstep.problem import Problem, Proportional
from gradstep.simulation import simulate
from gradstep.theory import predict_many
from gradstep.theory.prediction import QUANTITIES

__all__ = ["precision_cost", "predicted", "simulated"]


def predicted(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the theory's value of every quantity, one for each penalty, with the solver's residual."""
    problem = Problem.from_dict(parameters["problem"])
    penalty = Proportional if problem.is_limit else float
    predictions = predict_many([problem.replace(ridge=penalty(ridge)) for ridge in parameters["ridge"]])
    values = {name: [_number(getattr(p, name)) for p in predictions] for name in (*QUANTITIES, "residual")}
    return {**values, "method": predictions[0].method}


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
    cost = {}
    for name in QUANTITIES:
        pairs = [(float(a), float(b)) for a, b in zip(single[name], double[name], strict=True)]
        cost[name] = max(abs(a - b) / max(abs(b), 1e-300) for a, b in pairs)
    return cost


def _number(value: Any) -> float | str:
    """Return a float; infinities as text, which JSON has no number for."""
    number = float(value)
    return number if math.isfinite(number) else str(number)
