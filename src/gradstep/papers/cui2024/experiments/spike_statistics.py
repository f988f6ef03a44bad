"""Spike strength, bulk variance and alignment of real gradient steps against Result 3.1.

Settings
--------
axis : range of the lines in alpha0 (``from``, ``to``, ``count``).
curves : label, regime, activation, teacher, eta_tilde, sigma_eps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradstep.papers.charts import Theory, charts, curves_of, grid_of, table_of
from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate, problem_of
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Outcome
from gradstep.papers.panels import Panel
from gradstep.papers.places import Place, Sample, along
from gradstep.simulation.instance import TEACHER_AXIS

__all__ = ["measure", "outcome", "places"]

_QUANTITIES = {"strength": "spike strength r", "bulk_variance": "bulk variance c", "alignment": "alignment gamma"}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Steps of every curve with every number of samples."""
    for curve, alpha0 in along(figure.settings, preset):
        step = {name: curve[name] for name in ("activation", "teacher", "eta_tilde", "sigma_eps")}
        yield Place(measure, {**step, "alpha0": alpha0, "d": int(preset["d"])}, curve["label"], alpha0)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Make a step at d and at d/2, and extrapolate to infinite d."""
    return extrapolate(lambda d: _step(parameters, d, seed), int(parameters["d"]))


def _step(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, float]:
    layer = stepped_layer(problem_of(parameters, d), seed)
    # The direction is only defined up to the sign of the spike.
    sign = float(np.sign(layer.spike[0]))
    along_spike = layer.weights @ layer.direction
    rest = np.mean((layer.weights**2).sum(axis=1) - along_spike**2)
    return {
        "strength": sign * float(layer.spike[0]),
        "bulk_variance": float(rest) * d / (d - 1),
        "alignment": sign * float(layer.direction[TEACHER_AXIS]),
    }


def _theory(curve: Mapping[str, Any]) -> Theory:
    functions = curve["activation"], curve["teacher"]
    step = {name: curve[name] for name in ("eta_tilde", "sigma_eps")}

    def result(alpha0: ArrayLike) -> dict[str, ArrayLike]:
        spike = equivalent_srf(*functions, alpha0=alpha0, **step)
        return {name: getattr(spike, name) for name in _QUANTITIES}

    return result


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put Result 3.1 under the measured steps."""
    axis = "samples of the step per dimension n0/d"
    panels = {name: Panel(text, axis, text, "log", "linear") for name, text in _QUANTITIES.items()}
    found = charts(curves_of(figure, samples, _theory), grid_of(figure.settings["axis"]), panels)
    return replace(
        found, table=table_of(["step", "n0/d", "quantity", "Result 3.1", "measured", "z"], found.comparisons)
    )
