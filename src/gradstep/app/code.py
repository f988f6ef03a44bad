"""Python code that draws what the page shows, by `gradstep.curve`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradstep import __version__
from gradstep.app.settings import AXES, Axis, inputs_of
from gradstep.app.training import Training
from gradstep.checks import is_infinite

__all__ = ["code_of"]

_SIZES = ("n", "width", "n_step")
#: What an axis other than a size is called where problems are functions of it.
_VARIABLES = {"eta": "c", "alpha": "alpha", "ridge": "penalty"}
#: What is not said of a problem if it is this.
_USUAL = {
    "noise": 0,
    "readout": "gaussian",
    "initial_weights": "gaussian",
    "output_scale": "1/N",
    "inputs": None,
    "damping": "inf",
}
#: Dimension of the networks that stand for infinite ones, their number at each place, and the number of places.
_DRAWN_DIMENSION, _NETWORKS, _PLACES = 200, 8, 8
_NOISE = {
    False: "Training errors are on the noisy labels, from which the page takes the noise.",
    True: "Test errors are without the label noise, which the page adds to them.",
}
_TRAINED = """
# Theory ends at one gradient step. The network after {words} is drawn and measured.
few = gs.curve({name}, over={{"{variable}": "{few}"}})
for place, each in zip(few.axes[0].numbers, few.problems):
    networks = [gs.Network({each}, seed).train({options}) for seed in range({networks})]
    errors = [network.risk(network.fit().readouts).test_error[0] for network in networks]
    bar = np.std(errors, ddof=1) / len(errors) ** 0.5
    figure.axes[0].errorbar(place, np.mean(errors), bar, fmt="o", color="black")
"""


def code_of(
    settings: Sequence[Mapping[str, Any]], axis: Axis, scale: object, *, active: int = 0, noisy: bool = False
) -> str:
    """Return a script that draws what the page draws.

    Parameters
    ----------
    settings : sequence of mapping
        In the page's form, valid.
    axis : Axis
    scale : {"linear", "log", None}
        Of the axis; None for the axis' own.
    active : int
        Place of the setting at hand, which decides whether there is a curve without a step.
    noisy : bool
        Whether the page has the label noise in both errors, or in neither: the script says how its errors differ.
    """
    label, logarithmic = AXES[axis.name]["label"], (scale or AXES[axis.name]["scale"]) == "log"
    # What varies in more than one place, or not alike in all settings, is the argument of a function.
    tied = any(_is_tied(s, axis.name) for s in settings) or len({_shared(s, axis.name) for s in settings}) > 1
    plain = axis.name if axis.name in (*_SIZES, "ridge", "damping") else "eta"
    over = _VARIABLES.get(axis.name, axis.name) if tied else plain
    names = ["problem"] if len(settings) == 1 else [f"problem_{'abcd'[k]}" for k in range(len(settings))]
    shown = names[0] if len(names) == 1 else "{" + ", ".join(f'"{n[-1].upper()}": {n}' for n in names) + "}"
    references = ["no step"] if _step(settings[active])[0] else []
    # The bound is known for isotropic inputs.
    if all(setting.get("inputs") is None for setting in settings):
        references.append("kernel lower bound")

    def values(count: int) -> str:
        return _values(settings[0], axis, f"{'log' if logarithmic else ''}{count}", tied)

    named = list(zip(names, settings, strict=True))
    trained = [_trained(name, setting, over, values(_PLACES)) for name, setting in named]
    problems = [_Code(setting, axis.name if tied else "").problem(name, over) for name, setting in named]
    return "\n".join(
        [
            f'"""Test and training error against {label}: what the page of gradstep {__version__} shows.',
            "",
            f'{_NOISE[noisy]}\n"""',
            "",
            *(["import numpy as np", ""] if any(trained) else []),
            "import gradstep as gs",
            "",
            *([""] if tied else []),
            *problems,
            f'curve = gs.curve({shown}, over={{"{over}": "{values(len(axis.places))}"}})  # seeds=8 adds the network',
            f'figure = curve.plot(["test_error", "train_error"], references={json.dumps(references)})',
            *filter(None, trained),
            'figure.savefig("gradstep_page.png", bbox_inches="tight")',
            "",
        ]
    )


def _trained(name: str, setting: Mapping[str, Any], variable: str, few: str) -> str:
    """Return what draws the network of a setting whose training has no theory; empty if it has."""
    training = Training.parse(setting.get("training", {}))
    if training.has_theory:
        return ""
    options = f"{training.steps}{'' if training.fresh else ', fresh=False'}"
    if training.optimiser != "gradient":
        options += f', optimiser="{training.optimiser}"'
    each = f"each.at_dimension({_DRAWN_DIMENSION})" if is_infinite(_dimension(setting)) else "each"
    words = f"{training.steps} step{'s' if training.steps > 1 else ''} ({training.optimiser})"
    given = {"words": words, "name": name, "variable": variable, "few": few, "each": each, "options": options}
    return _TRAINED.format(**given, networks=_NETWORKS)


def _dimension(setting: Mapping[str, Any]) -> float:
    return math.inf if setting["d"] in ("inf", "infinity", math.inf) else int(setting["d"])


def _step(setting: Mapping[str, Any]) -> tuple[float, float, str]:
    """Return the coefficient and the exponent of the step size, and the size of which it is a power."""
    given = setting["eta"]
    step = given if isinstance(given, Mapping) else {"coefficient": given}
    return step["coefficient"], step.get("exponent", 0.0), step.get("of", "width")


def _penalty(setting: Mapping[str, Any]) -> tuple[float, str]:
    """Return the penalty, and the size that it multiplies; empty if it is the penalty itself."""
    given = setting["ridge"]
    if not isinstance(given, Mapping):
        return given, ""
    ((unit, value),) = given.items()
    return value, unit.removeprefix("per_")


def _is_tied(setting: Mapping[str, Any], axis: str) -> bool:
    """Whether another parameter varies with the one on the axis, or that one has a unit of its own."""
    _, exponent, of = _step(setting)
    unit = _penalty(setting)[1]
    varied = {unit} if unit != "d" else set()
    if unit not in ("d", ""):
        varied.add("ridge")
    if of == "n":
        varied |= {"n", "width", "eta"} if exponent else set()
        varied.add("alpha")
    if setting["n_step"] == "n":
        varied.add("n")
    return axis in varied


def _shared(setting: Mapping[str, Any], axis: str) -> object:
    """Return what settings have in common if one list of step sizes serves all."""
    coefficient, exponent, _ = _step(setting)
    return {"eta": exponent, "alpha": coefficient}.get(axis)


def _values(setting: Mapping[str, Any], axis: Axis, count: str, tied: bool) -> str:
    """Return the range of the axis as `gradstep.curve` reads it."""
    low, high = axis.places[0], axis.places[-1]
    plain = f"{low!r}:{high!r}:{count}"
    if axis.name in _SIZES or (axis.name == "ridge" and not tied):
        return f"{low!r}d:{high!r}d:{count}"
    if axis.name == "damping":
        return plain
    coefficient, exponent, _ = _step(setting)
    if tied or (axis.name == "eta" and not exponent):
        return plain
    return f"{plain}*N^{exponent!r}" if axis.name == "eta" else f"{coefficient!r}*N^{plain}"


@dataclass(frozen=True)
class _Code:
    """A setting as code, in which the parameter `varied` is the argument of a function; none if it is empty."""

    setting: Mapping[str, Any]
    varied: str

    @property
    def infinite(self) -> bool:
        return is_infinite(_dimension(self.setting))

    def size(self, name: str) -> str:
        """Return a size as an argument of a problem."""
        value = self.setting[name]
        if name == self.varied:
            return name
        if value == "n":
            return self.size("n")
        if isinstance(value, Mapping):
            return f'"{value["per_d"]!r}d"'
        return '"inf"' if value in ("inf", "infinity", math.inf) else repr(value)

    def number(self, name: str) -> str:
        """Return a size as a number; in the limit its ratio to d."""
        value, d = self.setting[name], _dimension(self.setting)
        if name == self.varied:
            return f"{name}.ratio" if self.infinite else f"round({name}.ratio * {d})"
        if name == "d":
            return "1" if self.infinite else repr(d)
        ratio = value["per_d"] if isinstance(value, Mapping) else value / d
        return repr(ratio if self.infinite else max(1, round(ratio * d)))

    def eta(self) -> str:
        given, exponent, of = _step(self.setting)
        coefficient = "c" if self.varied == "eta" else repr(given)
        power = "alpha" if self.varied == "alpha" else repr(exponent)
        if of == "n" and power not in ("0", "0.0"):
            coefficient += f" * ({self.number('n')} / {self.number('width')}) ** {power}"
        return coefficient if power in ("0", "0.0") else f"gs.Step({coefficient}, exponent={power})"

    def ridge(self) -> str:
        value, unit = _penalty(self.setting)
        if self.varied == "ridge":
            penalty, unit = "penalty", unit or "d"
        else:
            penalty = repr(value)
        if not unit:
            return penalty
        if unit == "d" and penalty != "penalty":
            return f'"{penalty}d"'
        product = penalty if self.number(unit) == "1" else f"{penalty} * {self.number(unit)}"
        return f"gs.Proportional({product})" if self.infinite else product

    def problem(self, name: str, variable: str) -> str:
        """Return the code of the problem, or of a function that returns it."""
        setting = {**self.setting, "inputs": inputs_of(self.setting.get("inputs"), _dimension(self.setting))}
        usual = {key: repr(setting[key]) for key in _USUAL if setting.get(key, _USUAL[key]) != _USUAL[key]}
        given = {
            "activation": repr(self.setting["activation"]),
            "teacher": repr(self.setting["teacher"]),
            "d": '"inf"' if self.infinite else repr(_dimension(self.setting)),
            **{size: self.size(size) for size in ("width", "n_step", "n")},
            "eta": self.eta(),
            "ridge": self.ridge(),
            **usual,
        }
        fields = "".join(f"    {key}={value},\n" for key, value in given.items()).replace("'", '"')
        problem = f"gs.Problem(\n{fields})"
        if self.varied:
            return f"def {name}({variable}):\n    return {problem.replace(chr(10), chr(10) + '    ')}\n\n"
        return f"{name} = {problem}"
