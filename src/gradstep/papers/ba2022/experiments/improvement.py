"""Theorem 5: the improvement delta of one step with eta = Theta(1), against paired simulations.

Every seed gives the risk before and after the step on the same weights and the same samples. As a control the step is
taken with the readout and with its negative, both draws of the same law: the part of the improvement that is odd in the
readout, and most of the noise, cancels.

Settings
--------
base : activation, teacher, psi1, psi2, lam and sigma_eps.
etas : learning rates of the lines in the second and third panel.
labels : what the three panels are called.
Presets hold d and the places of the three panels: ``etas`` at base, and ``psi1`` and ``psi2`` with the others at base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.risk import (
    R_0,
    delta,
    delta_large_sample,
    delta_large_step,
    delta_large_width,
    kernel_lower_bound,
)
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]


def _places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[str, float, dict[str, Any]]]:
    base, etas = figure.settings["base"], list(figure.settings["etas"])
    yield "eta", float("nan"), {**base, "etas": list(preset["etas"])}
    for axis in ("psi1", "psi2"):
        for place in preset[axis]:
            yield axis, float(place), {**base, axis: place, "etas": etas}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one paired simulation a place and seed; all learning rates of a place share it."""
    return [
        Task(f"{__name__}:measure", {**parameters, "d": preset["d"]}, seed)
        for axis, place, parameters in _places(figure, preset)
        for seed in point_seeds(figure.name, axis, place, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Return the improvement for every learning rate, averaged over both signs of the readout."""
    settings = dict(parameters)
    etas = settings.pop("etas")
    problem = Problem.ba2022(**settings)
    network = Network(problem, seed)
    weights, root = network.before, np.sqrt(len(network.readout))

    def risk(first_layer: Array) -> float:
        return float(network.with_weights(first_layer).test_error(tolerance=1e-7))

    before = risk(weights)
    steps = [replace(network, readout=sign * network.readout).gradient.rows for sign in (1, -1)]
    return {"delta": [before - float(np.mean([risk(weights + eta / root * g) for g in steps])) for eta in etas]}


def _theory(base: Mapping[str, Any], eta: Any, N: Any = None, **changes: Any) -> Array:
    values = {**base, **changes}
    rates = {k: values[k] for k in ("lam", "psi1", "psi2", "sigma_eps")}
    return delta(values["activation"], values["teacher"], eta=eta, N=N, **rates)


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put Theorem 5 under the paired differences, and check its sign, its growth and its limits."""
    settings, d = figure.settings, int(preset["d"])
    base = settings["base"]
    comparisons: dict[tuple[str, float], list[Comparison]] = {}
    for (axis, place, parameters), networks in zip(_places(figure, preset), by_point(results, preset), strict=True):
        found = np.array([r["delta"] for r in networks])
        changes = {} if axis == "eta" else {axis: place}
        for j, eta in enumerate(parameters["etas"]):
            predicted = float(_theory(base, eta, round(parameters["psi2"] * d), **changes))
            own = ("eta", 0.0) if axis == "eta" else (axis, float(eta))
            name = "eta" if axis == "eta" else f"{axis}, eta = {eta:g}"
            x = float(eta) if axis == "eta" else place
            found_here = compare(
                predicted,
                found[:, j].tolist(),
                curve=name,
                place=x,
                quantity="improvement",
                sample=f"{axis} = {place:g}",
            )
            comparisons.setdefault(own, []).append(found_here)
    every = [c for own in comparisons.values() for c in own]
    panels = (
        _step_panel(base, d, comparisons["eta", 0.0]),
        _sample_panel(settings, d, comparisons),
        _width_panel(settings, d, comparisons),
    )
    return Outcome(panels, tuple(every), _checks(base), notes=NOTES)


NOTES = (
    "Lines: Theorem 5 with the leading finite-width correction; dashes: without it; dots: the limit of large steps "
    "(left), of many samples (middle), of large width (right). Points: mean of R0 - R1 over paired networks, with both "
    "signs of the readout."
)


def _step_panel(base: Mapping[str, Any], d: int, own: Sequence[Comparison]) -> Panel:
    etas = np.linspace(0, 1.15 * max(float(c.place) for c in own), 60)
    rates = {k: base[k] for k in ("lam", "psi1", "psi2", "sigma_eps")}
    supremum = float(delta_large_step(coefficients(base["activation"], base["teacher"]), **rates))
    x, label = etas.tolist(), f"n/d = {base['psi1']:g}"
    lines = [
        Line(x, _theory(base, etas, base["psi2"] * d).tolist(), label, "small"),
        Line(x, _theory(base, etas).tolist(), "", "small", "dashed"),
        Line([x[0], x[-1]], [supremum, supremum], "eta → ∞", "infinite", "dotted"),
    ]
    points = [points_of(own, label, "small")]
    return Panel("larger steps", "learning rate eta", "improvement R0 - R1", lines=lines, points=points)


def _sample_panel(
    settings: Mapping[str, Any], d: int, found: Mapping[tuple[str, float], Sequence[Comparison]]
) -> Panel:
    base, grid = settings["base"], np.geomspace(0.4, 200, 80)
    values = coefficients(base["activation"], base["teacher"])
    lines, points = [], []
    for eta in map(float, settings["etas"]):
        label, x = f"eta = {eta:g}", grid.tolist()
        limit = float(delta_large_sample(values, eta=eta, lam=base["lam"], psi2=base["psi2"]))
        lines.append(Line(x, _theory(base, eta, base["psi2"] * d, psi1=grid).tolist(), label, "small"))
        lines.append(Line(x, _theory(base, eta, psi1=grid).tolist(), "", "small", "dashed"))
        lines.append(Line([30.0, x[-1]], [limit, limit], "", "small", "dotted"))
        points.append(points_of(found["psi1", eta], label, "small"))
    return Panel("more samples", "samples per dimension n/d", "improvement R0 - R1", "log", "log", lines, points)


def _width_panel(settings: Mapping[str, Any], d: int, found: Mapping[tuple[str, float], Sequence[Comparison]]) -> Panel:
    base, grid = settings["base"], np.geomspace(0.3, 3000, 100)
    far, values = grid[grid > 30], coefficients(base["activation"], base["teacher"])
    lines, points = [], []
    for eta in map(float, settings["etas"]):
        label, x = f"eta = {eta:g}", grid.tolist()
        tail = delta_large_width(values, eta=eta, psi1=base["psi1"], psi2=far)
        lines.append(Line(x, _theory(base, eta, grid * d, psi2=grid).tolist(), label, "small"))
        lines.append(Line(x, _theory(base, eta, psi2=grid).tolist(), "", "small", "dashed"))
        lines.append(Line(far.tolist(), tail.tolist(), "", "small", "dotted"))
        points.append(points_of(found["psi2", eta], label, "small"))
    return Panel("wider networks", "width per dimension N/d", "improvement R0 - R1", "log", "log", lines, points)


def _checks(base: Mapping[str, Any]) -> tuple[Check, ...]:
    sigma, sigma_star = base["activation"], base["teacher"]
    values = coefficients(sigma, sigma_star)
    eta = np.geomspace(0.05, 50, 24)
    psi1, psi2, lam = (
        g[..., None]
        for g in np.meshgrid(np.geomspace(0.1, 100, 13), np.geomspace(0.1, 100, 13), np.geomspace(1e-5, 10, 7))
    )
    rates = {"psi1": psi1, "psi2": psi2, "lam": lam, "sigma_eps": base["sigma_eps"]}
    table = delta(sigma, sigma_star, eta=eta, **rates)
    room = R_0(sigma, sigma_star, **rates) - kernel_lower_bound(sigma_star)
    growth = float((np.diff(table, axis=-1) / table[..., 1:]).min())
    many = float(delta(sigma, sigma_star, eta=2.0, psi1=1e7, psi2=base["psi2"], lam=base["lam"]))
    many /= float(delta_large_sample(values, eta=2.0, psi2=base["psi2"], lam=base["lam"]))
    wide = float(delta(sigma, sigma_star, eta=2.0, psi1=base["psi1"], psi2=1e6, lam=base["lam"]))
    wide /= float(delta_large_width(values, eta=2.0, psi1=base["psi1"], psi2=1e6))
    return (
        Check(
            "smallest delta on a grid of learning rates, ratios and penalties, above",
            float(table.min()),
            0.0,
            bool(table.min() > 0),
        ),
        Check("smallest relative growth of delta with eta on the grid, above", growth, 0.0, growth > 0),
        Check.at_most("largest delta / (R0 - bound of Fact 4) on the grid", float((table / room).max()), 1.0),
        Check.at_most("delta at n/d = 1e7 against its limit, relative", abs(many - 1), 1e-3),
        Check.at_most("delta at N/d = 1e6 against its limit, relative", abs(wide - 1), 1e-3),
    )
