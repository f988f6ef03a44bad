"""Other trainings than one gradient step: theory ends there, and the page draws and trains networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from gradstep.checks import flag, integer, one_of
from gradstep.errors import InvalidInput
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.training import OPTIMISERS
from gradstep.sizes import Sizes

#: The task of a network, as `gradstep.sweeps.Task` names it.
MEASURE = "gradstep.app.training:trained"
_MOST_STEPS = 20


@dataclass(frozen=True)
class Training:
    """How many steps of which optimiser, each on samples of its own or all on the same."""

    steps: int = 1
    fresh: bool = True
    optimiser: str = "gradient"

    @classmethod
    def parse(cls, given: object) -> Self:
        """Read ``{"steps", "fresh", "optimiser"}``; what is missing has its default.

        Raises `InvalidInput` on unknown fields and values out of range.
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping) or set(given) - set(known):
            raise InvalidInput("training", str(given)[:80], f"some of the fields {', '.join(known)}")
        found = cls(**given)
        found = replace(found, steps=integer("steps", found.steps, 1, _MOST_STEPS))
        flag("fresh", found.fresh)
        one_of("optimiser", found.optimiser, tuple(OPTIMISERS))
        return found

    @property
    def has_theory(self) -> bool:
        """Whether this is the one gradient step that theory predicts."""
        return self.steps == 1 and self.optimiser == "gradient"

    def operations(self, sizes: Sizes[float]) -> float:
        """Return about how many floating-point operations all steps take."""
        d, width, n_step, _, _ = sizes
        rule = 0 if self.optimiser == "gradient" else 20 * (width + d) * d * min(width, d)
        return float(self.steps * (2 * width * n_step * d + rule))


def trained(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Train one network, and return its errors and the degrees of freedom of its fit, one for each penalty."""
    training = parameters["training"]
    network = Network(Problem.from_dict(parameters["problem"]), seed)
    # The gradient is the problem's own, with its damping.
    optimiser = None if training["optimiser"] == "gradient" else training["optimiser"]
    network = network.train(training["steps"], fresh=training["fresh"], optimiser=optimiser)
    fit = network.fit([float(value) for value in parameters["ridge"]])
    return {
        "test_error": network.risk(fit.readouts).test_error.tolist(),
        "train_error": fit.train_error.tolist(),
        "degrees_of_freedom": fit.degrees_of_freedom.tolist(),
    }
