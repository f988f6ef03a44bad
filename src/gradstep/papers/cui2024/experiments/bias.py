"""A bias common to all neurons: errors against a given bias, and the bias that training finds.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : activation, teacher, r, c, gamma, alpha, beta, lam, sigma_eps.
bracket : interval in which the trained bias of the drawn models is searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from scipy.optimize import minimize_scalar

from gradstep.panels import Mark
from gradstep.papers.cui2024.bias import biased_lower_bound, biased_statistics, trained_bias
from gradstep.papers.cui2024.bounds import lower_bound
from gradstep.papers.cui2024.drawn import fit, network_of
from gradstep.papers.cui2024.experiments.measured import extrapolated, layer_of, samples_of
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings


@extrapolated
def measure(parameters: Settings, d: int, seed: int) -> dict[str, float]:
    """Fit a drawn model with a given bias, or find the bias of least training loss."""
    layer, samples = layer_of(parameters, d, seed), samples_of(parameters, d, seed)

    def at(b: float) -> dict[str, Any]:
        return {**samples, "sigma": _shifted(parameters["activation"], b)}

    if "bracket" in parameters:
        found = minimize_scalar(
            lambda b: float(network_of(layer, **at(float(b))).fit().train_loss[0]),
            bounds=parameters["bracket"],
            method="bounded",
            options={"xatol": 3e-3},
        )
        return {"trained": float(found.x)}
    fitted = fit(layer, **at(float(parameters["b"])))
    return {"test_error": fitted.test_error, "train_loss": fitted.train_loss}


def _shifted(activation: str, b: float) -> str:
    return f"{activation}(x + {b!r})" if b >= 0 else f"{activation}(x - {-b!r})"


class Bias(Curves):
    """Errors of drawn models with a bias, with the equations as their theory."""

    measure = staticmethod(measure)
    names: ClassVar = {"test_error": "test error", "train_loss": "training loss"}

    def places(self) -> Iterator[Place]:
        """Yield drawn models at every given bias, then models whose bias is trained."""
        yield from super().places()
        (curve,) = self.curves
        yield Place(measure, {**self.parameters(curve), "bracket": list(self.settings["bracket"])}, "trained", "")

    def theory(self, curve: Settings, x: Array) -> dict[str, Array]:
        """Return both errors at given biases."""
        found = biased_statistics(**self._arguments, b=x)
        return {name: getattr(found, name) for name in self.names}

    @property
    def _arguments(self) -> dict[str, Any]:
        arguments = dict(self.settings["base"])
        return {"sigma": arguments.pop("activation"), "sigma_star": arguments.pop("teacher"), **arguments}

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Compare the trained bias too, and mark it in the figure."""
        *given, free = samples
        best = trained_bias(**self._arguments)
        trained = free.compare(best.bias, "trained", curve="bias", place="trained", quantity="b")
        marks = [Mark(best.bias, "trained", "infinite"), Mark(trained.mean, "", "infinite", measured=True)]
        spike = {name: self._arguments[name] for name in ("sigma", "sigma_star", "r", "c", "gamma")}
        bound, at = biased_lower_bound(**spike)
        plain, d = float(lower_bound(**spike)), self.preset["d"]
        notes = (
            f"The test error is at least {plain:.4f} without a bias (27), and {bound:.4f} at the best one, {at:.2f} "
            f"(132). Lines: Result 3.3 with (131). "
            f"Points: spiked random features, extrapolated from d = {d // 2} and {d}."
        )
        check = Check.at_most(
            "with the best bias the bound (132) is {} times (27), the bound without", bound / plain, 1.0
        )
        found = super().outcome(given)
        panels = [replace(panel, marks=marks) for panel in found.panels]
        return replace(found, panels=panels) + Outcome(comparisons=[trained], checks=[check], notes=notes)
