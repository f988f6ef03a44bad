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
from gradstep.papers.charts import Curve, Theory, charts
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Line, Panel, Style
from gradstep.papers.places import Place, Sample, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Paired networks of every panel; all learning rates of a place share them."""
    base, d = figure.settings["base"], preset["d"]
    yield Place(measure, {**base, "etas": list(preset["etas"]), "d": d}, "eta", float("nan"))
    for axis in ("psi1", "psi2"):
        for place in preset[axis]:
            parameters = {**base, axis: place, "etas": list(figure.settings["etas"]), "d": d}
            yield Place(measure, parameters, axis, float(place))


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


def _along(base: Mapping[str, Any], d: int | None, axis: str, **fixed: float) -> Theory:
    """Theorem 5 along an axis; with a dimension, the leading finite-width correction."""

    def gains(x: Array) -> dict[str, Array]:
        values = {**base, **fixed, axis: x}
        rates = {name: values[name] for name in ("eta", "lam", "psi1", "psi2", "sigma_eps")}
        N = None if d is None else values["psi2"] * d
        return {"delta": delta(values["activation"], values["teacher"], N=N, **rates)}

    return gains


def _limit(base: Mapping[str, Any], axis: str, eta: float) -> Theory:
    """The limit of many samples, or of large width, where either is large."""
    values = coefficients(base["activation"], base["teacher"])

    def gains(x: Array) -> dict[str, Array]:
        if axis == "psi1":
            limit = delta_large_sample(values, eta=eta, lam=base["lam"], psi2=base["psi2"])
        else:
            limit = delta_large_width(values, eta=eta, psi1=base["psi1"], psi2=x)
        return {"delta": np.where(x > 30, limit, np.nan)}

    return gains


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put Theorem 5 under the paired differences, and check its sign, its growth and its limits."""
    base, d = figure.settings["base"], int(preset["d"])
    (sweep,) = on_curve(samples, "eta")
    without: dict[Style, Theory] = {"dashed": _along(base, None, "eta")}
    step = Curve(f"n/d = {base['psi1']:g}", "small", _along(base, d, "eta"), sweep.spread("etas"), "eta", without)

    def family(axis: str) -> list[Curve]:
        return [
            Curve(
                f"eta = {eta:g}",
                "small",
                _along(base, d, axis, eta=eta),
                [sample.item(k) for sample in on_curve(samples, axis)],
                f"{axis}, eta = {eta:g}",
                {"dashed": _along(base, None, axis, eta=eta), "dotted": _limit(base, axis, eta)},
            )
            for k, eta in enumerate(figure.settings["etas"])
        ]

    rates = {name: base[name] for name in ("lam", "psi1", "psi2", "sigma_eps")}
    supremum = delta_large_step(coefficients(base["activation"], base["teacher"]), **rates)
    etas, gain = np.linspace(0, 1.15 * max(preset["etas"]), 60), "improvement R0 - R1"
    limit = Line.of(etas[[0, -1]], supremum, "eta → ∞", "infinite", "dotted")
    first = Panel("larger steps", "learning rate eta", gain, lines=[limit])
    second = Panel("more samples", "samples per dimension n/d", gain, "log", "log")
    third = Panel("wider networks", "width per dimension N/d", gain, "log", "log")
    words = {"delta": "improvement"}
    return (
        charts([step], etas, {"delta": first}, words)
        + charts(family("psi1"), np.geomspace(0.4, 200, 80), {"delta": second}, words)
        + charts(family("psi2"), np.geomspace(0.3, 3000, 100), {"delta": third}, words)
        + Outcome(checks=_checks(base))
    )


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
