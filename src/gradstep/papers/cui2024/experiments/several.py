"""Spikes of larger rank and biases of several values: learning curves of drawn models.

Settings
--------
base : activation, teacher, beta, lam, sigma_eps.
axis : range of the lines in alpha (``from``, ``to``, ``count``; a preset may have fewer, ``line``).
curves : label, regime, ``panel`` (its title), and the letters: ``fractions``, ``strengths`` (a row of spikes for each
    letter), ``variances``, ``alignments`` (one a spike), ``biases``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.charts import Curve, Theory, charts, grid_of
from gradstep.papers.cui2024.drawn import sampled_error, spiked_layer
from gradstep.papers.cui2024.experiments.measured import samples_of
from gradstep.papers.cui2024.letters import Letters, letter_statistics
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Outcome
from gradstep.papers.panels import Panel
from gradstep.papers.places import Place, Sample, along, on_curve
from gradstep.problem import Readout
from gradstep.simulation.instance import initial_readout

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

_LETTERS = ("fractions", "strengths", "variances", "alignments", "biases")
_NAMES = {"test_error": "test error", "train_error": "training error"}
_TEST_SAMPLES_PER_D = 20


def _parameters(figure: Figure, curve: Mapping[str, Any]) -> dict[str, Any]:
    return {**figure.settings["base"], **{name: curve[name] for name in _LETTERS}}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Models of every curve at every point."""
    for curve, alpha in along(figure.settings, preset):
        parameters = {**_parameters(figure, curve), "alpha": alpha, "d": int(preset["d"])}
        yield Place(measure, parameters, curve["label"], alpha)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Draw one model, fit it, and return its errors."""
    d = int(parameters["d"])
    width = round(float(parameters["beta"]) * d)
    letters = _letters(parameters)
    # A vocabulary of the letters' numbers gives each its exact share of the neurons, in random order.
    law = Readout("vocabulary", tuple(float(k + 1) for k in range(letters.fractions.size)), tuple(letters.fractions))
    letter = initial_readout(seed, width, law).astype(np.intp) - 1
    layer = spiked_layer(
        seed, width, d, r=letters.strengths[letter], c=letters.variances[letter], gamma=letters.alignments
    )
    test_error, train_error = sampled_error(
        layer,
        test_samples=_TEST_SAMPLES_PER_D * d,
        biases=letters.biases[letter],
        **samples_of(parameters, d, seed),
    )
    return {"test_error": test_error, "train_error": train_error}


def _letters(parameters: Mapping[str, Any]) -> Letters:
    values = {name: parameters[name] for name in _LETTERS}
    return Letters.of(values.pop("fractions"), **values)


def _theory(parameters: Mapping[str, Any], d: float) -> Theory:
    options = {name: parameters[name] for name in ("lam", "beta", "sigma_eps")}
    functions = parameters["activation"], parameters["teacher"]

    def errors(alphas: Array) -> dict[str, list[float]]:
        found = [letter_statistics(*functions, _letters(parameters), alpha=float(a), d=d, **options) for a in alphas]
        return {name: [getattr(own, name) for own in found] for name in _NAMES}

    return errors


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the equations with letters under the drawn models."""
    d, found = float(preset["d"]), Outcome()
    for title in dict.fromkeys(curve["panel"] for curve in figure.settings["curves"]):
        curves = [
            Curve(
                curve["label"],
                curve["regime"],
                _theory(_parameters(figure, curve), d),
                on_curve(samples, curve["label"]),
                beside={"dashed": _theory(_parameters(figure, curve), np.inf)},
            )
            for curve in figure.settings["curves"]
            if curve["panel"] == title
        ]
        panel = Panel(title, "samples per dimension n/d", "test error", y_scale="log")
        found += charts(curves, grid_of(figure.settings["axis"], preset), {"test_error": panel}, _NAMES)
    return found
