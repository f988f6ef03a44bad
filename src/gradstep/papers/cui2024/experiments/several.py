"""Spikes of larger rank and biases of several values: learning curves of drawn models.

Settings
--------
base : activation, teacher, beta, lam, sigma_eps.
axis : range of the lines in alpha (``from``, ``to``); presets have the count of their points, ``line``.
curves : label, regime, ``panel`` (its title), and the letters: ``fractions``, ``strengths`` (a row of spikes for each
    letter), ``variances``, ``alignments`` (one a spike), ``biases``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import scalar_function
from gradstep.papers.cui2024.drawn import sampled_error, spiked_layer
from gradstep.papers.cui2024.experiments.measured import places
from gradstep.papers.cui2024.letters import Letters, LetterStatistics, letter_statistics
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Readout
from gradstep.simulation.instance import initial_readout
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

_LETTERS = ("fractions", "strengths", "variances", "alignments", "biases")
_NAMES = {"test_error": "test error", "train_error": "training error"}
_TEST_SAMPLES_PER_D = 20


def _parameters(figure: Figure, curve: Mapping[str, Any]) -> dict[str, Any]:
    return {**figure.settings["base"], **{name: curve[name] for name in _LETTERS}}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one model a curve, place and seed."""
    return [
        Task(f"{__name__}:measure", {**_parameters(figure, curve), "alpha": alpha, "d": int(preset["d"])}, seed)
        for curve, alpha in places(figure, preset)
        for seed in point_seeds(figure.name, curve["label"], alpha, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Draw one model, fit it, and return its errors."""
    d = int(parameters["d"])
    width, n = (round(float(parameters[name]) * d) for name in ("beta", "alpha"))
    letters = _letters(parameters)
    # A vocabulary of the letters' numbers gives each its exact share of the neurons, in random order.
    law = Readout("vocabulary", tuple(float(k + 1) for k in range(letters.fractions.size)), tuple(letters.fractions))
    letter = initial_readout(seed, width, law).astype(np.intp) - 1
    layer = spiked_layer(
        seed, width, d, r=letters.strengths[letter], c=letters.variances[letter], gamma=letters.alignments
    )
    test_error, train_error = sampled_error(
        layer,
        scalar_function(parameters["activation"]),
        scalar_function(parameters["teacher"]),
        n=n,
        lam=float(parameters["lam"]),
        seed=seed,
        test_samples=_TEST_SAMPLES_PER_D * d,
        biases=letters.biases[letter],
        sigma_eps=float(parameters["sigma_eps"]),
    )
    return {"test_error": test_error, "train_error": train_error}


def _letters(parameters: Mapping[str, Any]) -> Letters:
    values = {name: parameters[name] for name in _LETTERS}
    return Letters.of(values.pop("fractions"), **values)


def _theory(parameters: Mapping[str, Any], alphas: Sequence[float], d: float) -> list[LetterStatistics]:
    letters = _letters(parameters)
    return [
        letter_statistics(
            parameters["activation"],
            parameters["teacher"],
            letters,
            alpha=alpha,
            d=d,
            lam=parameters["lam"],
            beta=parameters["beta"],
            sigma_eps=parameters["sigma_eps"],
        )
        for alpha in alphas
    ]


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the equations with letters under the drawn models."""
    d = int(preset["d"])
    found: list[tuple[str, Comparison]] = []
    for (curve, alpha), own in zip(places(figure, preset), by_point(results, preset), strict=True):
        theory = _theory(_parameters(figure, curve), [alpha], d)[0]
        for name, text in _NAMES.items():
            values = [r[name] for r in own]
            comparison = compare(
                getattr(theory, name),
                values,
                curve=curve["label"],
                place=alpha,
                quantity=text,
                sample=f"{curve['label']}/{alpha}",
            )
            found.append((curve["label"], comparison))
    titles = dict.fromkeys(curve["panel"] for curve in figure.settings["curves"])
    panels = tuple(_panel(figure, preset, title, found) for title in titles)
    notes = f"Lines: the equations with letters at d = {d}; dashes: their limit. Points: drawn models at d = {d}."
    return Outcome(panels, tuple(comparison for _, comparison in found), notes=notes)


def _panel(figure: Figure, preset: Mapping[str, Any], title: str, found: Sequence[tuple[str, Comparison]]) -> Panel:
    axis, d = figure.settings["axis"], int(preset["d"])
    grid = np.linspace(axis["from"], axis["to"], int(preset["line"])).tolist()
    lines, points = [], []
    for curve in figure.settings["curves"]:
        if curve["panel"] != title:
            continue
        label, regime, parameters = curve["label"], curve["regime"], _parameters(figure, curve)
        at_d, limit = ([found.test_error for found in _theory(parameters, grid, size)] for size in (float(d), np.inf))
        lines += [Line(grid, at_d, label, regime), Line(grid, limit, "", regime, style="dashed")]
        own = [c for name, c in found if name == label and c.quantity == "test error"]
        points.append(points_of(own, label, regime))
    return Panel(title, "samples per dimension n/d", "test error", y_scale="log", lines=lines, points=points)
