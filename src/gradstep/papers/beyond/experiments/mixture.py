r"""Networks on inputs from a mixture of Gaussians, beside the theory of Gaussian inputs of the same covariance.

Demir and Dogan 2025 draw each input from one of two Gaussians of mean zero and the covariances
:math:`I+\theta\,\gamma_k\gamma_k^\top`, with random directions :math:`\gamma_k`. The covariance of all inputs is
:math:`I+\frac\theta2\sum_k\gamma_k\gamma_k^\top` up to the small overlap of the two: that of
:meth:`gradstep.Inputs.spiked`.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : teacher; ``strength`` and ``weighting``, the paper's beta and alpha: :math:`\theta=d^{\beta(1-\alpha)}`, and the
    step is :math:`d^{\alpha\beta}` in the paper's scaling; ``lam``, the paper's penalty; ``test_rows``, rows of the
    test set divided by d.
curves : the ``activation`` of each; ``read``, ratios of width and samples with the error that the paper's figure shows.
paper_d : the paper's dimension; ``read_within`` the relative difference from what was read that is granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from gradstep.inputs import Inputs
from gradstep.panels import Scale
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Settings
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.data_rows import DataRows
from gradstep.theory import predict_many

_COMPONENTS = 2
_ROWS_STREAM = 1 << 20
"""Added to a seed for the rows of the mixture."""


def _spread(parameters: Settings) -> float:
    """Return theta."""
    return float(parameters["d"] ** (parameters["strength"] * (1 - parameters["weighting"])))


def gaussian_problem(parameters: Settings) -> Problem:
    r"""Return the paper's network in this package's convention, with Gaussian inputs of the mixture's covariance.

    The paper's inputs have the trace ``d + theta``, and its first layer is divided by the root of that. Its step is
    ``d^(alpha beta)`` times the gradient divided by ``sqrt(k)`` at readouts of variance ``1 / k``, and its penalty is
    ``lam n`` at features divided by ``sqrt(k)``, ``k`` the width. Its teacher's direction is divided by the root of the
    largest eigenvalue ``1 + theta / 2``, so that it varies less than ours.
    """
    d, theta = int(parameters["d"]), _spread(parameters)
    width, trace = round(parameters["ratio"] * d), (d + theta) / d
    deviation = (trace / (1 + theta / _COMPONENTS)) ** 0.5
    return Problem(
        activation=parameters["activation"],
        teacher=f"{deviation!r}*{parameters['teacher']}",
        d=d,
        width=width,
        n_step=d,
        n=d,
        eta=d ** (parameters["strength"] * parameters["weighting"]) * trace / width**0.5,
        ridge=parameters["lam"] * d * width,
        readout="gaussian",
        inputs=Inputs.spiked([theta / _COMPONENTS] * _COMPONENTS, d=d),
    )


def mixture_rows(d: int, rows: int, theta: float, seed: int) -> Array:
    """Draw rows (rows, d) of the mixture, scaled so that the mean square of a row is d."""
    generator = np.random.default_rng([seed, _ROWS_STREAM])
    directions = np.linalg.qr(generator.standard_normal((d, _COMPONENTS)))[0].T
    x = generator.standard_normal((rows, d))
    component = generator.integers(_COMPONENTS, size=rows)
    for k, direction in enumerate(directions):
        own = component == k
        x[own] += (np.sqrt(1 + theta) - 1) * np.outer(x[own] @ direction, direction)
    return np.asarray(x * np.sqrt(d / (d + theta)))


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Take the step and fit on rows of the mixture; return half the mean square error on other rows.

    The table is handed over in its own coordinates, not centred and not scaled by its sample covariance, as in the
    paper: centring would make the means of the samples of the fit and of the test opposite.
    """
    problem = gaussian_problem(parameters)
    d, sizes = problem.sizes.d, problem.sizes
    rows = sizes.n_step + sizes.n + round(parameters["test_rows"] * d)
    table = DataRows(mixture_rows(d, rows, _spread(parameters), seed), np.ones(d), replacement=False)
    network = Network(problem.replace(inputs=None), seed, rows=table)
    error = network.risk(network.fit().readouts).test_error[0]
    return {"test_error": float(error) / 2}


class Mixture(Curves):
    """The test error against the width, for several activations."""

    measure = staticmethod(measure)
    names: ClassVar = {"test_error": "test error, half the mean square"}
    y_scale: ClassVar[Scale] = "linear"

    def theory(self, curve: Settings, x: Array) -> dict[str, Any]:
        """Return half the mean square error in Gaussian inputs of the same covariance."""
        return {"test_error": self._theory([self.parameters(curve, float(ratio)) for ratio in x])}

    def _theory(self, places: Sequence[Settings]) -> list[float]:
        found = predict_many([gaussian_problem(place) for place in places])
        return [prediction.test_error / 2 for prediction in found]

    def claims(self, found: Outcome) -> Sequence[Check]:
        """Return how far theory at the paper's size is from what can be read off the paper's figure."""
        checks = []
        for curve in self.curves:
            for ratio, read in curve["read"]:
                at = {**self.parameters(curve, ratio), "d": self.settings["paper_d"]}
                (value,) = self._theory([at])
                label = (
                    f"{curve['label']} at k/m = {ratio:g}, d = {at['d']}: the relative distance of theory from {read}"
                )
                sentence = f"{label}, read off the paper's figure, is {{}}"
                checks.append(Check.at_most(sentence, abs(value / read - 1), self.settings["read_within"]))
        return checks
