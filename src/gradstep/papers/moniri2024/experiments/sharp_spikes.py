"""Delta_l or Lambda_l for every l: as published, closed form, equations at n = 1e17, sharp spikes on real features.

No network that fits in a computer has more than two spikes that are sharp. So spikes far stronger than the bulk are
added to the features of real random layers. Their shapes are the network's own: the direction of its real gradient,
and the variance that the part of that gradient beyond rank one adds. The decrease of the training loss and of the test
error with each additional spike is compared with the limits.

The equations for every step size approach the gains of l spikes like n^(-1/(2 l + 2)) in the middle of a window: for
l = 4 about a quarter of what the last spike adds is still missing at n = 1e16. For a polynomial activation of degree l
the window has no end, as there is no next spike; there they are solved, at the end of the window of l, where the spikes
are sharp and yet small.

Settings
--------
quantity : ``Delta`` (training loss) or ``Lambda`` (test error); both share their measurements.
activation, teacher, phi, psi, lam, noise : the setting, with the residual y and Gaussian rows.
strength : operator norm of every spike, in units of the square root of n.
accuracy : largest gap of the equations, relative to what the last spike adds, and the smallest of the published form.
Presets hold n, the number of ``spikes``, how many ``test`` inputs there are for each sample, and ``published_z``, the
z-score that the published gains must exceed where they differ (none where the seeds are too few).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyval

from gradstep.overlay import Overlay
from gradstep.panels import Line, Panel, Points, Table
from gradstep.papers.claims import published_is_off
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.moniri2024.experiments.limits import arguments, limit
from gradstep.papers.moniri2024.gains import PUBLISHED, Delta_by_matrix
from gradstep.papers.moniri2024.hermite import coefficients, smoothed_powers
from gradstep.papers.moniri2024.published import published_Delta, published_Lambda_1, published_Lambda_2
from gradstep.papers.moniri2024.staircase import windows
from gradstep.papers.outcome import Check, Outcome, points_of
from gradstep.papers.places import Place, Sample, Settings, point_seeds
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.ridge import fit_rows
from gradstep.theory import predict_many

SIZE = 1e17
"""Samples at which the equations for every step size are solved."""

MARGIN = 0.01
"""How far the exponent of that step lies beyond the window of l."""


def measure(parameters: Settings, seed: int) -> dict[str, list[float]]:
    """Return the decrease of the training loss and of the test error with each additional spike."""
    settings = dict(parameters)
    strength, spikes, test = (settings.pop(name) for name in ("strength", "spikes", "test"))
    problem = Problem.moniri2024(**settings, residual="y", alpha=0.0)
    n, ridge = problem.sizes.n, problem.sizes.ridge
    network = Network(problem, seed)
    inputs, labels = network.fit_data()
    fresh, target = network.test_data(int(test) * n)
    v, rho = _spike(network)
    rows, fresh_rows = (network.initial.features(x) for x in (inputs, fresh))
    # Only the span of the powers of the readout matters for spikes this strong; an orthonormal basis keeps them so.
    basis = np.linalg.qr(network.readout[:, None] ** np.arange(1, spikes + 1))[0]
    losses, errors = [], []
    for l in range(spikes + 1):  # noqa: E741
        if l:
            spike = strength * basis[:, l - 1]
            rows = rows + np.outer(_power(inputs @ v, l, rho), spike)
            fresh_rows = fresh_rows + np.outer(_power(fresh @ v, l, rho), spike)
        fit = fit_rows(rows, labels, [ridge])
        losses.append(float(fit.train_loss[0]))
        errors.append(float(np.mean((fresh_rows @ fit.readouts[:, 0] - target) ** 2)))
    return {"Delta": (-np.diff(losses)).tolist(), "Lambda": (-np.diff(errors)).tolist()}


def _spike(network: Network) -> tuple[Array, float]:
    """Return the gradient's common direction, and the variance from its other part over the square of a spike."""
    readout, rows, v = network.readout, network.gradient.rows, network.spike.direction
    along = rows @ v
    rest = rows - np.outer(along, v)
    return v, float(np.sum(rest**2) * (readout @ readout) / (readout @ along) ** 2)


def _power(kappa: Array, k: int, rho: float) -> Array:
    """Return ``E_u (kappa + sqrt(rho) u)^k``, divided by its root mean square over kappa."""
    in_hermite = smoothed_powers(k, 1 + rho)[-1]
    square = float(in_hermite**2 @ [math.factorial(p) for p in range(k + 1)])
    return np.asarray(polyval(kappa, smoothed_powers(k, rho)[-1])) / math.sqrt(square)


class SharpSpikes(Experiment):
    """A table of the gains, with comparisons of what every spike adds."""

    def places(self) -> Iterator[Place]:
        """Yield random layers; all numbers of spikes share them, and so do the figures of both quantities."""
        names, preset = ("activation", "teacher", "phi", "psi", "lam", "noise", "strength"), self.preset
        parameters = {name: self.settings[name] for name in names} | {k: preset[k] for k in ("n", "spikes", "test")}
        seeds = point_seeds("sharp_spikes", "spikes", preset["n"], preset)
        yield Place(measure, parameters, "spikes", preset["n"], seeds=seeds)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Tabulate the gains, and compare what every spike adds."""
        settings, name = self.settings, self.settings["quantity"]
        (values,) = (sample[name] for sample in samples)
        degrees = range(1, int(self.preset["spikes"]) + 1)
        slides, closed = (
            [limit(settings, name, l, **options) for l in (0, *degrees)]  # noqa: E741
            for options in (PUBLISHED, {"residual": "y"})
        )
        comparisons, rejected = [], 0.0
        for l, theory, published in zip(degrees, np.diff(closed), np.diff(slides), strict=True):  # noqa: E741
            words = {"curve": f"{name}_l", "place": float(l), "quantity": f"{name}_l - {name}_(l-1)"}
            comparisons.append(samples[0].compare(theory, values[:, l - 1], **words))
            if not math.isclose(theory, published):
                rejected = max(rejected, abs(Overlay.of(published, values[:, l - 1]).z))
        polynomial = [_polynomial(settings, l) for l in degrees]  # noqa: E741
        checks = _equations(settings["accuracy"], polynomial)
        text = "the published spikes lie up to {} standard errors from the networks"
        checks += published_is_off(text, rejected, self.preset)
        printed, more = _printed(settings, slides, closed)
        gains = Points.measured(degrees, np.cumsum(values, axis=1).T, "", "")
        rows = [
            (
                str(l),
                printed[l - 1],
                f"{slides[l]:.5f}",
                f"{closed[l]:.5f}",
                f"{gains.mean[l - 1]:.4f} ± {gains.error[l - 1]:.4f}",  # type: ignore[index]
                f"{polynomial[l - 1].limit:.5f}",
                f"{polynomial[l - 1].solved:.5f}",
            )
            for l in degrees  # noqa: E741
        ]
        panel = Panel(
            title="",
            x_label="number of spikes $l$",
            y_label=rf"gain from the last spike, $\{name}_l-\{name}_{{l-1}}$",
            x_ticks=[(float(l), str(l)) for l in degrees],  # noqa: E741
            lines=[
                Line.of(*_bars(np.diff(closed)), "network", "large"),
                Line.of(*_bars(np.diff(slides)), "published spikes", "initial", "dashed"),
            ],
            points=[points_of(comparisons, "network", "large")],
        )
        return Outcome((panel,), tuple(comparisons), (*checks, *more), table=Table(HEADER, rows))


def _bars(values: Array) -> tuple[Array, Array]:
    """Return a horizontal line for each number of spikes, from one on, without lines between them."""
    x = np.arange(1, len(values) + 1)[:, None] + [-0.4, 0.4, 0.4]
    return x.ravel(), (values[:, None] + [0.0, 0.0, np.nan]).ravel()


def _printed(settings: Settings, slides: Sequence[float], closed: Sequence[float]) -> tuple[list[str], list[Check]]:
    """Return the gains as the paper prints them; its theorem for every l is checked against the closed form."""
    setting = arguments(settings)
    degrees = range(1, len(slides))
    if settings["quantity"] == "Delta":
        theorem = [float(published_Delta(l, **setting)) for l in degrees]  # noqa: E741
        matrix = [float(Delta_by_matrix(l, residual="y", **setting)) for l in degrees]  # noqa: E741
        apart = max(abs(a / b - 1) for a, b in zip(theorem + matrix, [*slides[1:], *closed[1:]], strict=True))
        check = Check.at_most("the closed form differs from the theorem's matrix by {} of it", apart, 1e-9)
        return [f"{value:.5f}" for value in theorem], [check]
    two = [f"{float(f(**setting)):.5g}" for f in (published_Lambda_1, published_Lambda_2)]
    return two + ["-"] * (len(degrees) - 2), []


HEADER = (
    "l",
    "as printed",
    "published spikes",
    "network's spikes",
    "sharp spikes",
    "polynomial activation",
    "the same, equations at n = 1e17",
)


class _Polynomial(NamedTuple):
    """Gains of an activation of degree l: limits with l - 1 and l spikes, published, and what the equations give."""

    fewer: float
    limit: float
    published: float
    solved: float


def _polynomial(settings: Settings, l: int) -> _Polynomial:  # noqa: E741
    c = coefficients(settings["activation"], l)
    sigma = " + ".join(f"({c[k]:.17g})*H{k}" for k in range(1, l + 1))
    base = {name: settings[name] for name in ("teacher", "phi", "psi", "lam", "noise")} | {"activation": sigma}
    problem = Problem.moniri2024(**base, residual="y", n=SIZE, alpha=windows(l)[1] + MARGIN)
    before, after = predict_many([problem.replace(eta=0.0), problem])
    gain = settings["quantity"]
    solved = before.train_loss - after.train_loss if gain == "Delta" else before.test_error - after.test_error
    fewer, found = (limit(base, gain, k, residual="y") for k in (l - 1, l))
    return _Polynomial(fewer, found, limit(base, gain, l, **PUBLISHED), solved)


def _equations(accuracy: float, found: Sequence[_Polynomial]) -> list[Check]:
    """Judge the gaps between the equations and the limits, relative to what the last spike adds."""
    gap = max(abs(p.solved - p.limit) / (p.limit - p.fewer) for p in found)
    published = min(abs(p.solved - p.published) / (p.limit - p.fewer) for p in found[1:])
    return [
        Check.at_most(
            "at n = 1e17 the equations differ from their limits by {} of what the last spike adds", gap, accuracy
        ),
        Check.at_least("those of the published spikes differ by {} of it or more (l > 1)", published, accuracy),
    ]
