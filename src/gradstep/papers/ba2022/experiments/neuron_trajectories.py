"""Figure 2: where the neurons go, in the plane of the teacher's two neurons.

Settings
--------
parameterisations : those of `gradstep.papers.ba2022.trajectories`.
loss_bound : training loss to reach.
rate : learning rate, in units of `stable_rate`.
shown : number of neurons whose path is drawn.
limits : bounds of the checks, see `NeuronTrajectories`.
Presets hold d, psi1 and psi2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import scalar_function
from gradstep.panels import Guide, Line, Panel, Points
from gradstep.papers.ba2022.trajectories import stable_rate, train
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Readout
from gradstep.simulation.instance import fit_sample, initial_readout, initial_weights
from gradstep.sweeps import Result

#: Colours of the parameterisations.
REGIMES = {"mean-field": "first kind", "NTK": "second kind"}


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Train one network whole, and return paths, losses, how far the neurons went and how they point."""
    d = int(parameters["d"])
    n, N = round(parameters["psi1"] * d), round(parameters["psi2"] * d)
    inputs = np.concatenate([x for x, _ in fit_sample(seed, n, d).blocks()])
    weights, readout = initial_weights(seed, N, d, "gaussian"), initial_readout(seed, N, Readout("gaussian"))
    relu = scalar_function("relu")
    labels = relu(inputs[:, 0]) + relu(inputs[:, 1])
    trained = train(
        inputs,
        labels,
        weights,
        readout,
        relu,
        parameterisation=parameters["parameterisation"],
        rate=parameters["rate"] * stable_rate(inputs, weights, relu),
        directions=list(np.eye(d)[:2]),
        loss_bound=parameters["loss_bound"],
    )
    moved = np.linalg.norm(trained.final - trained.initial, axis=1) / np.linalg.norm(trained.initial, axis=1)
    return {
        "steps": trained.steps.tolist(),
        "losses": trained.losses.tolist(),
        "paths": trained.weights[:, : parameters["shown"]].tolist(),
        "moved": float(np.sqrt((moved**2).mean())),
        "initial_alignment": alignment(weights, readout),
        "alignment": alignment(trained.final, trained.readout),
    }


def alignment(weights: Array, readout: Array) -> float:
    """Return the mean cosine between a neuron and the plane of the teacher's two neurons.

    Neurons are weighted by their contribution to the output: the size of their readout times that of their weights.
    """
    sizes = np.linalg.norm(weights, axis=1)
    cosines = np.linalg.norm(weights[:, :2], axis=1) / sizes
    return float(np.average(cosines, weights=np.abs(readout) * sizes))


class NeuronTrajectories(Experiment):
    """The first network's paths, and checks of all networks.

    Every training loss has to reach the bound. With ``limits``, mean-field neurons have to move at least by
    ``mean_field_moved`` times their norm (root mean square) and end with an alignment of at least
    ``mean_field_aligned``; tangent-kernel neurons have to move at most by ``ntk_moved`` divided by the square root of
    the width, and their alignment may change by at most ``ntk_turned``.
    """

    def places(self) -> Iterator[Place]:
        """Yield trainings in every parameterisation; the two start from the same networks and data."""
        shared = {name: self.settings[name] for name in ("loss_bound", "rate", "shown")}
        shared |= {name: self.preset[name] for name in ("d", "psi1", "psi2")}
        for name in self.settings["parameterisations"]:
            yield Place(measure, {**shared, "parameterisation": name}, name, 0, ("network", 0))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw the planes and the losses, and check how far and where the neurons went."""
        settings, limits = self.settings, self.settings["limits"]
        by_name = {sample.place.curve: sample.results for sample in samples}
        field, tangent = by_name["mean-field"], by_name["NTK"]
        root = np.sqrt(round(self.preset["psi2"] * self.preset["d"]))
        loss = max(float(r["losses"][-1]) for sample in samples for r in sample.results)
        least, turned = min(r["moved"] for r in field), min(r["alignment"] for r in field)
        most = max(r["moved"] for r in tangent)
        drift = max(abs(r["alignment"] - r["initial_alignment"]) for r in tangent)
        checks = (
            Check(
                "the largest final training loss is {}",
                loss,
                settings["loss_bound"],
                loss < settings["loss_bound"],
                "below",
            ),
            Check.at_least(
                "mean-field: the neurons move by {} of their length (root mean square)",
                least,
                limits["mean_field_moved"],
            ),
            Check.at_least(
                "mean-field: the final alignment with the teacher is {}", turned, limits["mean_field_aligned"]
            ),
            Check.at_most("NTK: the neurons move by {} / √N of their length", most * root, limits["ntk_moved"]),
            Check.at_most("NTK: the alignment with the teacher changes by {}", drift, limits["ntk_turned"]),
        )
        # Both on the axes of the neurons that go farthest, and those that hardly move once more on their own.
        spans = {name: _span(own[0]) for name, own in by_name.items()}
        widest = max(spans.values(), key=lambda span: span[1] - span[0])
        planes = [_plane(name, name, own[0], widest) for name, own in by_name.items()]
        closer = _plane("NTK, enlarged", "NTK", tangent[0], spans["NTK"])
        before, after = field[0]["initial_alignment"], tangent[0]["alignment"]
        notes = (
            f"Initial neurons have norm one. Root mean square distance moved: mean-field {least:.2f}, NTK {most:.3f}. "
            f"Cosine with the teacher's plane: {before:.2f} before training, {turned:.2f} (mean-field) and {after:.2f} "
            "(NTK) after it."
        )
        return Outcome((*planes, closer, _losses(by_name, settings["loss_bound"])), (), checks, notes=notes)


def _span(result: Result) -> tuple[float, float]:
    paths = np.array(result["paths"])
    low, high = float(paths.min()), float(paths.max())
    room = 0.05 * (high - low)
    return low - room, high + room


def _plane(title: str, name: str, result: Result, span: tuple[float, float]) -> Panel:
    paths, reach = np.array(result["paths"]), span[1]
    regime = REGIMES[name]
    lines = [Line.of(path[:, 0], path[:, 1], "", regime, "dotted") for path in paths.transpose(1, 0, 2)]
    lines.append(Line.of([0, reach], 0.0, "teacher", "teacher", "dashed"))
    lines.append(Line.of([0, 0], [0, reach], "", "teacher", "dashed"))
    points = [
        Points(paths[0, :, 0].tolist(), paths[0, :, 1].tolist(), None, "start", "initial"),
        Points(paths[-1, :, 0].tolist(), paths[-1, :, 1].tolist(), None, name, regime),
    ]
    return Panel(
        title,
        "along the first teacher neuron",
        "along the second teacher neuron",
        lines=lines,
        points=points,
        span=span,
    )


def _losses(by_name: Mapping[str, Sequence[Result]], bound: float) -> Panel:
    lines = []
    for name, own in by_name.items():
        # Step 0 has no place on a logarithmic axis.
        lines.append(Line([s + 1 for s in own[0]["steps"]], own[0]["losses"], name, REGIMES[name]))
    end = Guide("end of training", height=bound)
    return Panel("training loss", "steps + 1", "training loss", "log", "log", lines, guides=[end])
