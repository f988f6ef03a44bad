r"""Singular values of the gradient where one direction of the inputs has a large variance.

Sonthalia, Murray and Montufar 2025 take inputs :math:`x+\zeta z\,q` with isotropic x, normal z, and
:math:`\zeta=n^\nu`: the covariance :math:`I+\zeta^2qq^\top`. They split the leading part of the gradient into two
matrices of rank one. The first lies along the bulk of :math:`X^\top r`, which all neurons share up to the sign of
their readout. The second lies along q: neurons differ in it, because their slopes follow the large direction.

No theory of this package covers the spectra of gradients in such inputs. Both matrices are therefore measured on
the networks, as in the paper.

Settings
--------
base : parameters of the network, without its activation and inputs; ``sizes``, those of the paper.
curves : label, regime and ``activation``; each has a panel of its singular values.
few, many : the largest nu of the places at which one singular value, and the smallest of those at which two have to
    stand out, and by which factors: ``alone``, most of the second over the third, and ``apart``, least of it.
along : least part of q in the span of the first two singular vectors at the last nu.
residue : relative difference of the first singular value from the first matrix that is granted at ``few``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradstep.inputs import Inputs
from gradstep.panels import Panel, Points
from gradstep.papers.charts import measured_points
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network

#: Names in the results: how they are written, and the regime that gives them their colour.
_DRAWN = {
    "first": ("first singular value", "large"),
    "second": ("second", "between"),
    "third": ("third", "initial"),
    "residue": ("shared part, along the residue", "small"),
    "spike": ("the rest along q", "infinite"),
}


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    r"""Return the leading singular values of the gradient, its two parts, and where q lies among singular vectors.

    With q the first coordinate, ``residue`` is the norm of the gradient without its first column, projected on the
    readout; ``spike`` is that of the first column without its projection on the readout. They are divided by the root
    of the width, as the singular values are: all are those of the gradient of one neuron.
    """
    network = Network(Problem.from_dict(dict(parameters)), seed)
    found, signs = network.gradient.rows, network.readout / np.linalg.norm(network.readout)
    along, rest = found[:, 0], found[:, 1:]
    _, values, vectors = np.linalg.svd(found, full_matrices=False)
    scaled = {name: float(value) for name, value in zip(("first", "second", "third"), values, strict=False)}
    scaled["residue"] = float(np.linalg.norm(signs @ rest))
    scaled["spike"] = float(np.linalg.norm(along - signs * (signs @ along)))
    root = network.problem.sizes.width**0.5
    shared = {"along_first": float(vectors[0, 0] ** 2), "along_second": float(vectors[1, 0] ** 2)}
    return {name: value / root for name, value in scaled.items()} | shared


class GradientSpikes(Experiment):
    """Singular values and directions against the exponent nu of the spike."""

    def places(self) -> Iterator[Place]:
        """Yield every activation at every exponent."""
        sizes = {name: round(value * self.preset["scale"]) for name, value in self.settings["sizes"].items()}
        for curve in self.settings["curves"]:
            for nu in map(float, self.preset["points"]):
                problem = Problem.from_dict(
                    {**self.settings["base"], **sizes, "n_step": sizes["n"], "activation": curve["activation"]}
                    | {"inputs": Inputs.spiked([sizes["n"] ** (2 * nu)], d=sizes["d"], teacher=[0.0])}
                )
                yield Place(measure, problem.to_dict(), curve["label"], nu)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw singular values with both parts, and where q lies; check what the paper claims."""
        panels, checks = list[Panel](), list[Check]()
        axis = "exponent of the spike, ν"
        for curve in self.settings["curves"]:
            own = on_curve(samples, curve["label"])
            points = [measured_points(own, name, *words) for name, words in _DRAWN.items()]
            panels.append(Panel(curve["label"], axis, "singular value / √N", y_scale="log", points=points))
            checks += self._claims(curve["label"], own)
        parts = [
            self._part(on_curve(samples, curve["label"]), curve, place)
            for curve in self.settings["curves"]
            for place in ("first", "second")
        ]
        panels.append(Panel("where q lies", axis, "squared cosine with q", points=parts))
        return Outcome(panels, checks=checks)

    @staticmethod
    def _part(own: Sequence[Sample], curve: Settings, place: str) -> Points:
        label, regime = f"{place}, {curve['label']}", curve["regimes"][place]
        return measured_points(own, f"along_{place}", label, regime)

    def _claims(self, label: str, own: Sequence[Sample]) -> Iterator[Check]:
        settings = self.settings
        few, many = settings["few"], settings["many"]
        for sample in own:
            ratio = float((sample["second"] / sample["third"]).mean())
            sentence = f"{label}, ν = {sample.x:g}: the second singular value is {{}} times the third"
            if sample.x <= few:
                yield Check.at_most(sentence, ratio, settings["alone"])
                off = float(abs(sample["first"] / sample["residue"] - 1).mean())
                words = f"{label}, ν = {sample.x:g}: the first one is off the shared part by the share {{}}"
                yield Check.at_most(words, off, settings["residue"])
            elif sample.x >= many:
                yield Check.at_least(sentence, ratio, settings["apart"])
        both = float((own[-1]["along_first"] + own[-1]["along_second"]).mean())
        words = f"{label}, ν = {own[-1].x:g}: of q the part {{}} is in the span of the first two singular vectors"
        yield Check.at_least(words, both, settings["along"])
