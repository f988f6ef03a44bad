"""Errors against a parameter: lines of Result 3.3 over drawn models, and of the network's theory over networks.

Settings
--------
axis : parameter on the horizontal axis, its label, the range of the lines (``from``, ``to``, ``count``), its scale.
quantities : what is compared: ``test_error``, ``train_error``, the summary statistics (17). Errors get a panel each.
table : true adds a table of all comparisons.
base : parameters shared by all curves: activation, teacher, alpha, beta, lam, sigma_eps (0 where absent), and either
    r, c, gamma or eta_tilde, alpha0. ``eta_per_d`` in place of eta_tilde is a learning rate that does not grow with
    the width: eta_tilde = eta_per_d / beta.
curves : label, regime, changed parameters, and ``models`` with what is drawn: ``srf`` (the spiked random features
    model), ``equivalent`` (the equivalent features), ``network`` (the real one). ``line = false`` draws points only.
guides : ``best_linear = true`` draws the error of the best linear estimator.
falling : true judges that each curve lies below the one before it and has a weaker spike, in theory and as measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.charts import Curve, Theory, charts, grid_of, table_of
from gradstep.papers.claims import total_fall
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.cui2024.drawn import equivalent_fit, fit
from gradstep.papers.cui2024.errors import SummaryStatistics, solve
from gradstep.papers.cui2024.experiments.measured import extrapolate, layer_of, problem_of, samples_of, spike_of
from gradstep.papers.cui2024.spiked import equivalent_features
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.panels import Guide, Panel
from gradstep.papers.places import Place, Sample, on_curve
from gradstep.theory import predict_many

__all__ = ["measure", "outcome", "places", "statistics"]

Array = NDArray[np.float64]

_NAMES = {
    "test_error": "test error",
    "train_error": "training error",
    "readout_mean": "m",
    "bulk_overlap": "theta",
    "teacher_overlap": "psi",
    "bulk_norm": "q1",
    "readout_norm": "q2",
}
_MODELS = {"srf": "sRF", "equivalent": "equivalent", "network": "network"}


def statistics(parameters: Mapping[str, Any]) -> SummaryStatistics:
    """Solve Result 3.3; the parameter on the axis may be an array."""
    spike = spike_of(parameters)
    features = equivalent_features(
        parameters["activation"], parameters["teacher"], r=spike.strength, c=spike.bulk_variance, gamma=spike.alignment
    )
    ratios = {name: parameters[name] for name in ("alpha", "beta", "lam")}
    return solve(features, **ratios, sigma_eps=parameters.get("sigma_eps", 0.0))


def _theory(model: str, parameters: Mapping[str, Any], axis: str, quantities: Sequence[str]) -> Theory:
    """Return the quantities along the axis: of the network its own limit, of all else Result 3.3."""

    def limit(places: Array) -> dict[str, list[float]]:
        found = list(predict_many(problem_of({**parameters, axis: float(x)}, np.inf) for x in places))
        return {name: [float(getattr(p, name)) for p in found] for name in quantities}

    def result(places: Array) -> dict[str, Array]:
        found = statistics({**parameters, axis: places})
        return {name: getattr(found, name) for name in quantities}

    return limit if model == "network" else result


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Draw a model at d and at d/2, and extrapolate its errors and summary statistics to infinite d."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, float]:
    samples = samples_of(parameters, d, seed)
    if parameters["model"] == "equivalent":
        r, c, gamma = (float(value) for value in spike_of(parameters))
        width = round(float(parameters["beta"]) * d)
        return equivalent_fit(width=width, d=d, r=r, c=c, gamma=gamma, **samples).numbers()
    return fit(layer_of(parameters, d, seed), **samples).numbers()


def _parameters(figure: Figure, curve: Mapping[str, Any]) -> dict[str, Any]:
    return {**figure.settings["base"], **curve.get("parameters", {})}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Models of every kind that a curve draws, at every point."""
    axis = figure.settings["axis"]["parameter"]
    for curve in figure.settings["curves"]:
        for model in curve["models"]:
            for x in map(float, preset["points"]):
                parameters = {**_parameters(figure, curve), axis: x, "model": model, "d": int(preset["d"])}
                yield Place(measure, parameters, f"{curve['label']}/{model}", x)


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the lines of the theory under the points."""
    settings, axis = figure.settings, figure.settings["axis"]
    shown = [name for name in settings["quantities"] if name.endswith("error")]
    # Where curves are drawn from two models each, the models get a panel each.
    groups: list[tuple[str, ...]] = list(dict.fromkeys(tuple(curve["models"]) for curve in settings["curves"]))
    several = len(groups) == 1 and len(groups[0]) > 1
    by_model: list[Sequence[Panel]] = []
    comparisons: list[Judged] = []
    written = {name: _NAMES[name] for name in settings["quantities"]}
    for models in [(model,) for model in groups[0]] if several else [tuple(_MODELS)]:
        panels = {name: _panel(figure, name, len(shown) > 1, _MODELS[models[0]] if several else "") for name in shown}
        curves = [
            Curve(
                curve["label"],
                curve["regime"],
                _theory(model, _parameters(figure, curve), axis["parameter"], settings["quantities"]),
                on_curve(samples, f"{curve['label']}/{model}"),
                name=f"{curve['label']}, {_MODELS[model]}",
                line=curve.get("line", True),
            )
            for curve in settings["curves"]
            for model in curve["models"]
            if model in models
        ]
        found = charts(curves, grid_of(axis), panels, written)
        by_model.append(found.panels)
        comparisons += found.comparisons
    notes = "Lines: Result 3.3, the paper's model"
    if any("network" in models for models in groups):
        notes += "; over networks the network's own theory (the uniform equivalent at infinite d)"
    d = int(preset["d"])
    notes += f". Points: {settings['points_are']}, extrapolated from d = {d // 2} and {d}."
    header = ["model", axis["label"], "quantity", "theory", "drawn", "z"]
    return Outcome(
        [panel for quantity in zip(*by_model, strict=True) for panel in quantity],
        comparisons,
        _falling(figure, comparisons, groups[0]) if settings.get("falling", False) else (),
        notes=notes,
        table=table_of(header, comparisons) if settings.get("table", False) else None,
    )


def _panel(figure: Figure, quantity: str, several: bool, model: str) -> Panel:
    """Return the axes; the title says which of several quantities, and which model."""
    axis, text = figure.settings["axis"], _NAMES[quantity]
    guides = []
    if quantity == "test_error" and figure.settings.get("guides", {}).get("best_linear", False):
        guides.append(Guide("best linear", height=best_linear(figure.settings["base"]["teacher"])))
    title = ", ".join(word for word in (text if several else "", model) if word)
    return Panel(title, axis["label"], text, axis.get("scale", "linear"), "log", guides=guides)


def _falling(figure: Figure, comparisons: Sequence[Judged], models: Sequence[str]) -> tuple[Check, ...]:
    """Judge that spike and test error fall from curve to curve."""
    curves, axis = figure.settings["curves"], figure.settings["axis"]
    along_axis = {axis["parameter"]: grid_of(axis)}
    solutions = [statistics({**_parameters(figure, curve), **along_axis}) for curve in curves]
    spikes = [float(np.max(a.spike.strength / b.spike.strength)) for b, a in pairwise(solutions)]
    errors = [float(np.max(a.test_error / b.test_error)) for b, a in pairwise(solutions)]
    checks = [
        Check.at_most("spike strength over that of the curve before, largest", max(spikes), 1.0),
        Check.at_most("test error in theory over that of the curve before, largest", max(errors), 1.0),
    ]
    for model in models:
        names = [f"{curve['label']}, {_MODELS[model]}" for curve in curves]
        drawn = [[c for c in comparisons if (c.curve, c.quantity) == (name, "test error")] for name in names]
        least = min(total_fall(before, after) for before, after in pairwise(drawn))
        text = f"{_MODELS[model]}: measured fall from one curve to the next, in standard errors, smallest"
        checks.append(Check.at_least(text, least, 2.0))
    return tuple(checks)
