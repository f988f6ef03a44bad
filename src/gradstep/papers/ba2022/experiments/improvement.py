"""Theorem 5: the improvement delta of one step with eta = Theta(1), against paired simulations.

Every seed gives the risk before and after the step on the same weights and the same samples. As a control the step is
taken with the readout and with its negative, both draws of the same law: the part of the improvement that is odd in the
readout, and most of the noise, cancels.

Settings
--------
base : activation, teacher, psi1, psi2, lam and sigma_eps.
etas : learning rates of the lines in the second and third panel.
labels : titles of the three panels.
Presets hold d and the places of the three panels: ``etas`` at base, and ``psi1`` and ``psi2`` with the others at base.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gradstep.panels import Line, Panel
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.risk import (
    R_0,
    delta,
    delta_large_sample,
    delta_large_step,
    delta_large_width,
    kernel_lower_bound,
)
from gradstep.papers.charts import Curve, charts
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network


def measure(parameters: Settings, seed: int) -> dict[str, list[float]]:
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


class Improvement(Experiment):
    """Theorem 5 under the paired differences, with its sign, its growth and its limits."""

    def places(self) -> Iterator[Place]:
        """Yield paired networks of every panel; all learning rates of a place share them."""
        base, preset, d = self.settings["base"], self.preset, self.preset["d"]
        yield Place(measure, {**base, "etas": list(preset["etas"]), "d": d}, "eta", float("nan"))
        for axis in ("psi1", "psi2"):
            for place in preset[axis]:
                parameters = {**base, axis: place, "etas": list(self.settings["etas"]), "d": d}
                yield Place(measure, parameters, axis, float(place))

    def _gain(self, axis: str, x: Array, d: int | None = None, **fixed: float) -> dict[str, Array]:
        """Return Theorem 5 along an axis; with a dimension, the leading finite-width correction."""
        values = {**self.settings["base"], **fixed, axis: x}
        rates = {name: values[name] for name in ("eta", "lam", "psi1", "psi2", "sigma_eps")}
        N = None if d is None else values["psi2"] * d
        return {"delta": delta(values["activation"], values["teacher"], N=N, **rates)}

    def _limit(self, axis: str, x: Array, eta: float) -> dict[str, Array]:
        """Return the limit of many samples, or of large width, where either is large."""
        base = self.settings["base"]
        values = coefficients(base["activation"], base["teacher"])
        if axis == "psi1":
            limit = delta_large_sample(values, eta=eta, lam=base["lam"], psi2=base["psi2"])
        else:
            limit = delta_large_width(values, eta=eta, psi1=base["psi1"], psi2=x)
        return {"delta": np.where(x > 30, limit, np.nan)}

    def _family(self, axis: str, samples: Sequence[Sample]) -> list[Curve]:
        """Return a curve for every learning rate."""
        own, gain = on_curve(samples, axis), partial(self._gain, axis)
        return [
            Curve(
                f"eta = {eta:g}",
                "small",
                partial(gain, d=self.preset["d"], eta=eta),
                [sample.item(k) for sample in own],
                f"{axis}, eta = {eta:g}",
                {"dashed": partial(gain, eta=eta), "dotted": partial(self._limit, axis, eta=eta)},
            )
            for k, eta in enumerate(self.settings["etas"])
        ]

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw gains against the learning rate, the samples and the width."""
        base, gain = self.settings["base"], partial(self._gain, "eta")
        (sweep,) = on_curve(samples, "eta")
        at_size, label = partial(gain, d=self.preset["d"]), f"n/d = {base['psi1']:g}"
        step = Curve(label, "small", at_size, sweep.spread("etas"), "eta", {"dashed": gain})
        rates = {name: base[name] for name in ("lam", "psi1", "psi2", "sigma_eps")}
        supremum = delta_large_step(coefficients(base["activation"], base["teacher"]), **rates)
        etas, text = np.linspace(0, 1.15 * max(self.preset["etas"]), 60), "improvement R0 - R1"
        limit = Line.of(etas[[0, -1]], supremum, "eta → ∞", "infinite", "dotted")
        first = Panel("larger steps", "learning rate eta", text, lines=[limit])
        second = Panel("more samples", "samples per dimension n/d", text, "log", "log")
        third = Panel("wider networks", "width per dimension N/d", text, "log", "log")
        words = {"delta": "improvement"}
        return (
            charts([step], etas, {"delta": first}, words)
            + charts(self._family("psi1", samples), np.geomspace(0.4, 200, 80), {"delta": second}, words)
            + charts(self._family("psi2", samples), np.geomspace(0.3, 3000, 100), {"delta": third}, words)
            + Outcome(checks=_checks(base))
        )


def _checks(base: Settings) -> tuple[Check, ...]:
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
            "on a grid of learning rates, ratios and penalties delta is {} or more",
            float(table.min()),
            0.0,
            bool(table.min() > 0),
            "above",
        ),
        Check("delta grows with eta by {} of it or more on the grid", growth, 0.0, growth > 0, "above"),
        Check.at_most("delta is at most {} times R0 - bound of Fact 4 on the grid", float((table / room).max()), 1.0),
        Check.at_most("delta at n/d = 1e7 differs from its limit by {} of it", abs(many - 1), 1e-3),
        Check.at_most("delta at N/d = 1e6 differs from its limit by {} of it", abs(wide - 1), 1e-3),
    )
