"""Test error against a parameter of the problem: lines of the uniform equivalent over points of the real network.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base, curves : in the paper's convention; ``limit`` draws the paper's model in the proportional limit as dashes.
guides : reference lines: label and kind (``kernel_lower_bound``, ``best_linear``, ``rate`` with its height at one).
paired, claims : optional; see `gradstep.papers.experiments.paired_gains`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradstep.panels import Guide, Panel, Style
from gradstep.papers.ba2022 import kernel_lower_bound
from gradstep.papers.charts import Theory
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.experiments.paired_gains import claim_checks, gain_comparisons, gain_panel
from gradstep.papers.outcome import Outcome
from gradstep.papers.places import Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.theory import predict_many


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Simulate one network and return its errors."""
    measured = simulate(Problem.from_dict(dict(parameters)), seeds=[seed])
    return {name: float(measured[name][0]) for name in ("test_error", "train_error", "train_loss")}


class LearningCurves(Curves):
    """Errors of the network, and what its step gains."""

    measure = staticmethod(measure)
    notes = (
        "Lines: theory of the network (the uniform equivalent) at d = {d}; points: the real network; "
        "dashes of the same colours, hidden where they agree: the paper's model in the proportional limit."
    )

    def theory(self, curve: Settings, x: Array, limit: bool = False) -> dict[str, list[float]]:
        """Return errors of the uniform equivalent, at the size simulated or in the paper's limit."""
        size = {"d": "inf"} if limit else {}
        models: dict[str, Any] = {"rows": "isotropic", "bulk": "isotropic"} if limit else {}
        problems = [Problem.from_dict({**self.parameters(curve, float(at)), **size}) for at in x]
        return {"test_error": [p.test_error for p in predict_many(problems, **models)]}

    def beside(self, curve: Settings) -> Mapping[Style, Theory]:
        """Return the limit if the settings name it."""
        return {"dashed": partial(self.theory, curve, limit=True)} if curve.get("limit", False) else {}

    def drawn(self, curve: Settings, x: Any) -> tuple[str, object] | None:
        """Return the networks: paired curves share those of a point."""
        return ("network", x) if "paired" in self.settings else None

    @property
    def guides(self) -> Sequence[Guide]:
        """The bounds and rates that the settings name."""
        return [self._guide(**guide) for guide in self.settings.get("guides", ())]

    def _guide(self, label: str, kind: str, height: float = np.nan) -> Guide:
        if kind == "rate":
            return Guide(label, x=self.grid.tolist(), y=(height / self.grid).tolist())
        bound = kernel_lower_bound if kind == "kernel_lower_bound" else best_linear
        return Guide(label, height=float(bound(self.settings["base"]["teacher"])))

    def panels(self, title: str) -> dict[str, Panel]:
        """Return the axes of the error."""
        return super().panels("error" if "paired" in self.settings else title)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Compare the points with the lines of the theory, and check the gains and the claims."""
        found = super().outcome(samples)
        measured = {(sample.place.curve, sample.x): sample["test_error"] for sample in samples}
        checks = claim_checks(self.settings, found.comparisons, measured)
        if "paired" in self.settings:
            gains = gain_comparisons(self.settings, found.comparisons, measured)
            found += Outcome([gain_panel(self.settings, found.panels[0].lines, gains)], gains)
        return found + Outcome(checks=checks)
