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

from gradstep.gaussian import scalar_function
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.cui2024.drawn import equivalent_fit, fit, spiked_layer, stepped_layer
from gradstep.papers.cui2024.errors import SummaryStatistics, solve
from gradstep.papers.cui2024.experiments.measured import extrapolate, table
from gradstep.papers.cui2024.spiked import Spike, equivalent_features, equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Guide, Line, Panel
from gradstep.problem import Problem
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many

__all__ = ["assemble", "measure", "spike_of", "statistics", "tasks"]

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


def spike_of(parameters: Mapping[str, Any]) -> Spike:
    """Return the spike: as given, or that of a step (Result 3.1)."""
    if "r" in parameters:
        return Spike(*(np.asarray(parameters[name], dtype=np.float64) for name in ("r", "c", "gamma")))
    return equivalent_srf(
        parameters["activation"],
        parameters["teacher"],
        eta_tilde=_eta_tilde(parameters),
        alpha0=float(parameters["alpha0"]),
        sigma_eps=parameters.get("sigma_eps", 0.0),
    )


def _eta_tilde(parameters: Mapping[str, Any]) -> float:
    if "eta_per_d" in parameters:
        return float(parameters["eta_per_d"]) / float(parameters["beta"])
    return float(parameters["eta_tilde"])


def statistics(parameters: Mapping[str, Any]) -> SummaryStatistics:
    """Solve Result 3.3; the parameter on the axis may be an array."""
    spike = spike_of(parameters)
    features = equivalent_features(
        parameters["activation"], parameters["teacher"], r=spike.strength, c=spike.bulk_variance, gamma=spike.alignment
    )
    ratios = {name: parameters[name] for name in ("alpha", "beta", "lam")}
    return solve(features, **ratios, sigma_eps=parameters.get("sigma_eps", 0.0))


def _problem(parameters: Mapping[str, Any], d: float) -> Problem:
    return Problem.cui2024(
        alpha=float(parameters["alpha"]),
        alpha0=float(parameters["alpha0"]),
        beta=parameters["beta"],
        eta_tilde=_eta_tilde(parameters),
        lam=parameters["lam"],
        d=d,
        activation=parameters["activation"],
        teacher=parameters["teacher"],
        noise=parameters.get("sigma_eps", 0.0),
    )


def _theory(model: str, parameters: Mapping[str, Any], axis: str, places: Any, quantity: str) -> list[float]:
    """Return a quantity along the axis: of the network its own limit, of all else Result 3.3."""
    if model == "network":
        problems = [_problem({**parameters, axis: float(x)}, np.inf) for x in places]
        return [float(getattr(p, quantity)) for p in predict_many(problems)]
    found = statistics({**parameters, axis: np.asarray(places, dtype=np.float64)})
    return [float(value) for value in getattr(found, quantity)]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Draw a model at d and at d/2, and extrapolate its errors and summary statistics to infinite d."""
    return extrapolate(lambda d: _drawn({**parameters, "d": d}, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    sigma, sigma_star = scalar_function(parameters["activation"]), scalar_function(parameters["teacher"])
    d, noise, lam = int(parameters["d"]), float(parameters.get("sigma_eps", 0.0)), float(parameters["lam"])
    width, n = (round(float(parameters[name]) * d) for name in ("beta", "alpha"))
    if parameters["model"] == "network":
        layer = stepped_layer(_problem(parameters, d), seed)
        return fit(layer, sigma, sigma_star, n=n, lam=lam, seed=seed, sigma_eps=noise).numbers()
    spike = spike_of(parameters)
    r, c, gamma = (float(value) for value in (spike.strength, spike.bulk_variance, spike.alignment))
    if parameters["model"] == "equivalent":
        return equivalent_fit(
            seed, sigma, sigma_star, width=width, d=d, r=r, c=c, gamma=gamma, n=n, lam=lam, sigma_eps=noise
        ).numbers()
    layer = spiked_layer(seed, width, d, r=r, c=c, gamma=gamma)
    return fit(layer, sigma, sigma_star, n=n, lam=lam, seed=seed, sigma_eps=noise).numbers()


def _curve_parameters(figure: Figure, curve: Mapping[str, Any], x: Any) -> dict[str, Any]:
    settings = figure.settings
    return {**settings["base"], **curve.get("parameters", {}), settings["axis"]["parameter"]: x}


def _places(
    figure: Figure, preset: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], str, float, dict[str, Any]]]:
    for curve in figure.settings["curves"]:
        for model in curve["models"]:
            for x in map(float, preset["points"]):
                yield curve, model, x, _curve_parameters(figure, curve, x)


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one drawn model a curve, place and seed."""
    return [
        Task(f"{__name__}:measure", {**parameters, "model": model, "d": int(preset["d"])}, seed)
        for curve, model, x, parameters in _places(figure, preset)
        for seed in point_seeds(figure.name, f"{curve['label']}/{model}", x, preset)
    ]


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the lines of the theory under the points."""
    settings = figure.settings
    comparisons: list[Comparison] = []
    owners: list[tuple[str, str, str]] = []
    for (curve, model, x, parameters), own in zip(_places(figure, preset), by_point(results, preset), strict=True):
        for quantity in settings["quantities"]:
            comparisons.append(
                compare(
                    _theory(model, parameters, settings["axis"]["parameter"], [x], quantity)[0],
                    [r[quantity] for r in own],
                    curve=f"{curve['label']}, {_MODELS[model]}",
                    place=x,
                    quantity=_NAMES[quantity],
                    sample=f"{curve['label']}/{model}/{x}",
                )
            )
            owners.append((curve["label"], model, quantity))
    shown = [quantity for quantity in settings["quantities"] if quantity.endswith("error")]
    # Where curves are drawn from two models each, the models get a panel each.
    groups: list[tuple[str, ...]] = list(dict.fromkeys(tuple(curve["models"]) for curve in settings["curves"]))
    several = len(groups) == 1 and len(groups[0]) > 1
    split = [(model,) for model in groups[0]] if several else [tuple(_MODELS)]
    panels = tuple(
        _panel(
            figure,
            quantity,
            models,
            ", ".join([_NAMES[quantity]] * (len(shown) > 1) + [_MODELS[models[0]]] * several),
            comparisons,
            owners,
        )
        for quantity in shown
        for models in split
    )
    header = ["model", settings["axis"]["label"], "quantity", "theory", "drawn", "z"]
    d = int(preset["d"])
    lines = "Lines: Result 3.3, the paper's model"
    if any("network" in curve["models"] for curve in settings["curves"]):
        lines += "; over networks the network's own theory (the uniform equivalent at infinite d)"
    notes = f"{lines}. Points: {settings['points_are']}, extrapolated from d = {d // 2} and {d}."
    return Outcome(
        panels,
        tuple(comparisons),
        _falling(figure, comparisons, owners) if settings.get("falling", False) else (),
        notes=notes,
        table=table(header, comparisons) if settings.get("table", False) else None,
    )


def _grid(figure: Figure) -> NDArray[np.float64]:
    axis = figure.settings["axis"]
    space = np.geomspace if axis.get("scale") == "log" else np.linspace
    return np.asarray(space(axis["from"], axis["to"], axis["count"]), dtype=np.float64)


def _falling(
    figure: Figure, comparisons: Sequence[Comparison], owners: Sequence[tuple[str, str, str]]
) -> tuple[Check, ...]:
    """Judge that spike and test error fall from curve to curve."""
    curves, grid = figure.settings["curves"], _grid(figure)
    solutions = [statistics(_curve_parameters(figure, curve, grid)) for curve in curves]
    spikes = [float(np.max(a.spike.strength / b.spike.strength)) for b, a in pairwise(solutions)]
    errors = [float(np.max(a.test_error / b.test_error)) for b, a in pairwise(solutions)]
    checks = [
        Check.at_most("spike strength over that of the curve before, largest", max(spikes), 1.0),
        Check.at_most("test error in theory over that of the curve before, largest", max(errors), 1.0),
    ]
    for model in dict.fromkeys(model for _, model, _ in owners):
        drawn = [
            [c for c, owner in zip(comparisons, owners, strict=True) if owner == (curve["label"], model, "test_error")]
            for curve in curves
        ]
        # Over all places: where the curves come close, a single place can be in any order by chance.
        falls = [
            sum(b.mean - a.mean for b, a in zip(before, after, strict=True))
            / np.sqrt(sum(c.standard_error**2 for c in (*before, *after)))
            for before, after in pairwise(drawn)
        ]
        text = f"{_MODELS[model]}: measured fall from one curve to the next, in standard errors, smallest"
        checks.append(Check.at_least(text, min(falls), 2.0))
    return tuple(checks)


def _panel(
    figure: Figure,
    quantity: str,
    models: Sequence[str],
    title: str,
    comparisons: Sequence[Comparison],
    owners: Sequence[tuple[str, str, str]],
) -> Panel:
    settings = figure.settings
    axis, grid = settings["axis"], _grid(figure)
    lines, points = [], []
    for curve in settings["curves"]:
        label, regime = curve["label"], curve["regime"]
        own_models = [m for m in curve["models"] if m in models]
        if own_models and curve.get("line", True):
            parameters = _curve_parameters(figure, curve, grid)
            values = _theory(own_models[0], parameters, axis["parameter"], grid, quantity)
            lines.append(Line(grid.tolist(), values, label, regime))
        for model in own_models:
            own = [c for c, o in zip(comparisons, owners, strict=True) if o == (label, model, quantity)]
            points.append(points_of(own, label, regime))
    guides = []
    if quantity == "test_error" and settings.get("guides", {}).get("best_linear", False):
        guides.append(Guide("best linear", height=best_linear(settings["base"]["teacher"])))
    return Panel(
        title=title,
        x_label=axis["label"],
        y_label=_NAMES[quantity],
        x_scale=axis.get("scale", "linear"),
        y_scale="log",
        lines=lines,
        points=points,
        guides=guides,
    )
