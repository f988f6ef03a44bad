"""Test error against a parameter of the problem: lines of the uniform equivalent over points of the real network.

Settings
--------
axis : parameter on the horizontal axis, its label, the range of the lines (``from``, ``to``, ``count``), its scale.
base : parameters shared by all curves, in the paper's convention.
curves : label, regime, changed parameters; ``limit`` draws the paper's model in the proportional limit as dashes,
    ``theory_only`` simulates nothing, ``allowance`` is a documented error of the theory: ``relative``, ``reason``, and
    ``up_to`` on the axis.
guides : reference lines: label and kind (``kernel_lower_bound``, ``best_linear``, ``rate`` with its height at one).
paired, claims : optional; see `gradstep.papers.experiments.paired_gains`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradstep.papers.ba2022 import kernel_lower_bound
from gradstep.papers.charts import Curve, Theory, charts, grid_of
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.experiments.paired_gains import claim_checks, gain_comparisons, gain_panel
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Outcome
from gradstep.papers.panels import Guide, Panel
from gradstep.papers.places import Place, Sample, along, on_curve
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.theory import predict_many

__all__ = ["measure", "outcome", "places"]


def _problem(figure: Figure, curve: Mapping[str, Any], x: float, d: float | str) -> Problem:
    settings = figure.settings
    return Problem.from_dict({**settings["base"], "d": d, **curve["parameters"], settings["axis"]["parameter"]: x})


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Every curve at every point; paired curves share the networks of a point."""
    for curve, x in along(figure.settings, preset):
        if not curve.get("theory_only", False):
            problem = _problem(figure, curve, x, preset["d"])
            drawn = ("network", x) if "paired" in figure.settings else None
            yield Place(measure, problem.to_dict(), curve["label"], x, drawn)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Simulate one network and return its errors."""
    measured = simulate(Problem.from_dict(dict(parameters)), seeds=[seed])
    return {name: float(measured[name][0]) for name in ("test_error", "train_error", "train_loss")}


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the lines of the theory under the points, and judge what is claimed of them."""
    settings, axis, d = figure.settings, figure.settings["axis"], preset["d"]
    grid = grid_of(axis)
    isotropic = {"rows": "isotropic", "bulk": "isotropic"}
    curves = [
        Curve(
            curve["label"],
            curve["regime"],
            _errors(figure, curve, d),
            on_curve(samples, curve["label"]),
            beside={"dashed": _errors(figure, curve, "inf", **isotropic)} if curve.get("limit", False) else {},
            allowance=curve.get("allowance", {}),
        )
        for curve in settings["curves"]
    ]
    title = "error" if "paired" in settings else ""
    guides = [_guide(guide, settings["base"]["teacher"], grid.tolist()) for guide in settings.get("guides", ())]
    panel = Panel(title, axis["label"], "test error", axis.get("scale", "linear"), "log", guides=guides)
    found = charts(curves, grid, {"test_error": panel})
    measured = {(sample.place.curve, sample.x): sample["test_error"] for sample in samples}
    checks = claim_checks(settings, found.comparisons, measured)
    if "paired" in settings:
        gains = gain_comparisons(settings, found.comparisons, measured)
        found += Outcome([gain_panel(settings, found.panels[0].lines, gains)], gains)
    notes = (
        f"Lines: theory of the network (the uniform equivalent) at d = {d}; points: the real network; "
        "dashes: the paper's model in the proportional limit."
    )
    return found + Outcome(checks=checks, notes=notes)


def _errors(figure: Figure, curve: Mapping[str, Any], d: float | str, **models: Any) -> Theory:
    def errors(places: Any) -> dict[str, list[float]]:
        problems = [_problem(figure, curve, float(x), d) for x in places]
        return {"test_error": [p.test_error for p in predict_many(problems, **models)]}

    return errors


def _guide(guide: Mapping[str, Any], teacher: str, grid: Sequence[float]) -> Guide:
    if guide["kind"] == "rate":
        return Guide(guide["label"], x=grid, y=[guide["height"] / x for x in grid])
    height = kernel_lower_bound(teacher) if guide["kind"] == "kernel_lower_bound" else best_linear(teacher)
    return Guide(guide["label"], height=float(height))
