"""Settings of the search: what a network can be, and neighbours of a setting."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.hunt.covering import covering_array
from scipy.stats import qmc

__all__ = [
    "DIMENSION",
    "FACTORS",
    "FACTORS_WITH_INPUTS",
    "PENALTIES",
    "SEEDS",
    "Setting",
    "design",
    "is_found",
    "neighbours",
]

#: Settings of the covering designs. Of the first a third covers all triples, the rest each triple again; the second,
#: with correlated inputs and damped steps, covers all triples.
COUNT, COUNT_WITH_INPUTS = 420, 260
DIMENSION = 200
#: Seeds that each setting of the design has for itself, so that at most so many networks can be drawn of it.
SEEDS = 1000
#: Every network is fitted with three penalties, in units of the setting's own.
PENALTIES = (0.1, 1.0, 10.0)

#: By content of the derivative: see `docs/deviations.md`. Several members each; those with mean zero have a list of
#: their own, because an output of order one under a readout with a mean needs them.
ACTIVATIONS = {
    "odd": ("tanh(x)", "erf(x)", "sin(x)", "H1+0.3*H3", "tanh(2*x)"),
    "even": ("cos(x)", "H2", "tanh(x)**2", "H2+0.1*H4", "cos(2*x)+0.3"),
    "mixed": ("softplus(x)", "gelu(x)", "H1+0.4*H2", "sigmoid(2*x)", "sin(x+0.6)"),
    "drift": ("tanh(x)+0.3*x**2", "H1+0.4*H2+0.3*H3", "sin(x)-0.4*H2", "tanh(2*x)+0.5*cos(x)", "silu(x)+0.2*H3"),
    "kinked": ("relu", "leaky_relu", "abs(x)", "sign(x)-0.4"),
}
CENTRED = {
    "odd": ACTIVATIONS["odd"],
    "even": ("cos(x)-exp(-0.5)", "H2", "H2+0.1*H4"),
    "mixed": ("gelu(x)-0.5/sqrt(pi)", "H1+0.4*H2", "sin(x+0.6)-exp(-0.5)*sin(0.6)"),
    "drift": ("tanh(x)+0.3*H2", "H1+0.4*H2+0.3*H3", "sin(x)-0.4*H2"),
    "kinked": ("relu(x)-1/sqrt(2*pi)", "abs(x)-sqrt(2/pi)", "hardtanh(x)"),
}
TEACHERS = {
    "linear": ("x",),
    "mean": ("x-1", "x+1.5"),
    "quadratic": ("x+0.7*H2", "x-0.7*H2"),
    "cubic": ("x+0.5*H3", "x-0.4*H3"),
    "all": ("0.7+0.8*x+0.5*H2-0.3*H3", "relu(x)", "tanh(x)+0.3*x**2"),
    "even": ("H2", "cos(2*x)", "abs(x)"),
    "bounded": ("sin(x)", "tanh(2*x)", "sign(x)"),
}
READOUTS: dict[str, Any] = {
    "constant": "constant",
    "gaussian": "gaussian",
    "signs": {"-1": 0.5, "1": 0.5},
    "one sign": {"0.5": 0.5, "2": 0.5},
    "mixed letters": {"-1": 0.3, "2": 0.7},
}
_NO_MEAN = ("gaussian", "signs")
#: Spectra of the inputs: eigenvalues far from each other or near, and the teacher on top or at the bottom.
INPUTS: dict[str, dict[str, list[float]] | None] = {
    "isotropic": None,
    "two levels": {"eigenvalues": [3.0, 0.5], "share": [0.2, 0.8], "teacher": [0.6, 0.4]},
    "teacher below": {"eigenvalues": [4.0, 0.25], "share": [0.2, 0.8], "teacher": [0.2, 0.8]},
    "five levels": {
        "eigenvalues": [4.0, 2.0, 1.0, 0.5, 0.25], "share": [0.05, 0.15, 0.25, 0.35, 0.2],
        "teacher": [0.2, 0.3, 0.2, 0.2, 0.1],
    },
}  # fmt: skip
DAMPING = {"none": math.inf, "1": 1.0, "1/5": 0.2}

FACTORS: dict[str, tuple[str, ...]] = {
    "activation": tuple(ACTIVATIONS),
    "teacher": tuple(TEACHERS),
    "readout": tuple(READOUTS),
    "sign of the activation": ("+", "-"),
    "output scale": ("1/N", "1/sqrt(N)"),
    "initial weights": ("gaussian", "sphere"),
    "step": ("none", "0", "1/4", "1/2"),
}

#: Those of the second design. A damped step has to be one, and both signs of an activation are exact symmetries.
FACTORS_WITH_INPUTS: dict[str, tuple[str, ...]] = {
    **{name: levels for name, levels in FACTORS.items() if name != "sign of the activation"},
    "step": ("0", "1/4", "1/2"),
    "inputs": tuple(INPUTS),
    "damping": tuple(DAMPING),
}

#: Ranges of the continuous values, spaced by their logarithms; the noise, from zero, is not.
_RANGES = {
    "width": (0.5, 3.5),
    "n": (0.5, 3.5),
    "n_step": (0.5, 5.0),
    "ridge": (0.05, 0.5),
    "teacher": (0.5, 2.0),
}
_NOISE = 0.6
_STEPS = {"none": (0.0, 0.0, 0.0), "0": (0.0, 0.3, 20.0), "1/4": (0.25, 0.3, 4.0), "1/2": (0.5, 0.2, 2.0)}
_COORDINATES = (*_RANGES, "noise", "step")
#: How far a neighbour is, in the unit cube of the continuous values.
_MOVE = 0.2


@dataclass(frozen=True)
class Setting:
    """One network of the search.

    Attributes
    ----------
    name : str
        Number in the design; a dot and another number for each move of the local search.
    levels : dict
        Level of each factor.
    member : int
        Which function of the activation's class, and in fives of the teacher's, modulo their numbers.
    point : tuple of float
        Continuous values in the unit cube: `width`, `n`, `n_step`, `ridge`, teacher scale, noise, step coefficient.
    """

    name: str
    levels: dict[str, str]
    member: int
    point: tuple[float, ...]

    @property
    def first_seed(self) -> int:
        """First of its seeds: its own, but a neighbour has those of the setting that it came from."""
        return SEEDS * int(self.name.split(".")[0])

    def problem(self, d: int = DIMENSION) -> dict[str, Any]:
        """Return the problem as plain values, with the middle one of the penalties."""
        levels = self.levels
        value = {
            name: low * (high / low) ** t for (name, (low, high)), t in zip(_RANGES.items(), self.point, strict=False)
        }
        exponent, low, high = _STEPS[levels["step"]]
        coefficient = low * (high / low) ** self.point[6] if high else 0.0
        readout, class_ = levels["readout"], levels["activation"]
        refused = levels["output scale"] == "1/sqrt(N)" and readout not in _NO_MEAN
        activations, teachers = (CENTRED if refused else ACTIVATIONS)[class_], TEACHERS[levels["teacher"]]
        activation = activations[self.member % len(activations)]
        problem = {
            "activation": f"-({activation})" if levels.get("sign of the activation") == "-" else activation,
            "teacher": f"{value['teacher']:.3g}*({teachers[self.member // 5 % len(teachers)]})",
            "d": d,
            **{name: round(round(value[name], 2) * d) for name in ("width", "n_step", "n")},
            "eta": {"coefficient": float(f"{coefficient:.3g}"), "exponent": exponent},
            "ridge": round(float(f"{value['ridge']:.3g}") * d, 6),
            "noise": round(_NOISE * self.point[5], 2),
            "readout": READOUTS[readout],
            "initial_weights": levels["initial weights"],
            "output_scale": levels["output scale"],
        }
        if "inputs" in levels:
            inputs, damping = INPUTS[levels["inputs"]], DAMPING[levels["damping"]]
            problem |= {"inputs": inputs} if inputs else {}
            problem |= {"damping": damping} if math.isfinite(damping) else {}
        return problem

    @property
    def factors(self) -> dict[str, tuple[str, ...]]:
        """The factors of its design."""
        return FACTORS_WITH_INPUTS if "inputs" in self.levels else FACTORS

    def penalties(self, d: int = DIMENSION) -> list[float]:
        """Return the penalties that every network is fitted with."""
        return [factor * self.problem(d)["ridge"] for factor in PENALTIES]


def is_found(name: str) -> bool:
    """Whether a setting is of the local search: the number of the one that it began from, a dot, and its own."""
    return "." in name


def design(count: int | None = None, *, inputs: bool = False) -> list[Setting]:
    """Return a covering design: the same every time, a longer one begins with a shorter one."""
    factors = FACTORS_WITH_INPUTS if inputs else FACTORS
    count = count or (COUNT_WITH_INPUTS if inputs else COUNT)
    names = list(factors)
    rows = covering_array([len(factors[name]) for name in names], count, seed=23)
    points = qmc.Sobol(len(_COORDINATES), scramble=False).random_base2(math.ceil(math.log2(count + 1)))[1:]
    members = np.random.default_rng(23).integers(60, size=count)
    return [
        Setting(
            str(index),
            {name: factors[name][level] for name, level in zip(names, row, strict=True)},
            int(member),
            tuple(point),
        )
        for index, (row, point, member) in enumerate(zip(rows, points.tolist(), members, strict=False))
    ]


def neighbours(setting: Setting, name: str) -> list[Setting]:
    """Return what differs from a setting in one value: continuous ones both ways, other functions, other levels.

    All have the name given, of which one is to be chosen.
    """
    found: list[Setting] = []
    for place, coordinate in enumerate(_COORDINATES):
        if coordinate == "step" and setting.levels["step"] == "none":
            continue
        for move in (-_MOVE, _MOVE):
            value = min(max(setting.point[place] + move, 0.0), 1.0)
            point = (*setting.point[:place], value, *setting.point[place + 1 :])
            if point != setting.point:
                found.append(replace(setting, name=name, point=point))
    found += [replace(setting, name=name, member=setting.member + move) for move in (1, 5)]
    for factor, levels in setting.factors.items():
        for level in levels:
            if level != setting.levels[factor]:
                found.append(replace(setting, name=name, levels={**setting.levels, factor: level}))
    return found
