"""Python code that draws what the page shows, by `gradstep.curve`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradstep import __version__
from gradstep.app.settings import AXES, Axis, inputs_of, problem_of
from gradstep.app.training import Training
from gradstep.checks import is_infinite
from gradstep.theory.references import REFERENCES

_SIZES = ("n", "width", "n_step")
_NO_STEP, _BOUNDS = "no step", ("kernel lower bound", "best linear error")
#: Bounds that differ by less are the same.
_SAME = 1e-9
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
#: Networks at each place, and places, where theory ends and none were simulated.
_NETWORKS, _PLACES = 8, 8
_NOISE = {"neither": "Neither error has the label noise.", "both": "Both errors have the label noise."}
_OTHERS = "\nThe networks have other seeds than those of the page."
_DRAWN = """
# {words}
networks = gs.curve({problem}, over={{"{variable}": "{few}"}}, seeds={seeds})
for error, inside in (("test_error", None), ("train_error", "none")):
    found = networks.overlay(error, label_noise="{noise}")
    look = {{"fmt": "o", "color": figure.axes[0].lines[{line}].get_color(), "mfc": inside}}
    figure.axes[0].errorbar(networks.axes[0].numbers, found.mean, found.standard_error, **look)
"""
_TRAINED = """
# Theory ends at one gradient step. The network after {words} is drawn and measured.
# The page draws its training errors, too.
few = gs.curve({name}, over={{"{variable}": "{few}"}})
for place, each in zip(few.axes[0].numbers, few.problems):
    networks = [gs.Network({each}, seed).train({options}) for seed in range({seeds})]
    errors = [network.risk(network.fit().readouts).test_error[0]{plus} for network in networks]
    bar = np.std(errors, ddof=1) / len(errors) ** 0.5
    figure.axes[0].errorbar(place, np.mean(errors), bar, fmt="o", color=figure.axes[0].lines[{line}].get_color())
"""


@dataclass(frozen=True)
class Points:
    """How networks were simulated on the page."""

    seeds: int = 0  #: Networks at each place; 0 if none were simulated.
    places: int = _PLACES  #: Places of the axis.
    d: int = 200  #: Dimension of the networks that stand for infinite ones.


def code_of(
    settings: Sequence[Mapping[str, Any]],
    axis: Axis,
    scale: object,
    *,
    active: int = 0,
    noise: str = "neither",
    points: Points = Points(),
) -> str:
    """Return a script that draws what the page draws.

    The settings are in the page's form and valid, and the scale of the axis is "linear", "log", or None for the axis'
    own. The setting at the place `active` is at hand: it decides what the curves are compared with. The noise of the
    labels is in "neither" or in "both" errors. The script draws as many networks as the `points` say.
    """
    label, scale = AXES[axis.name]["label"], scale or AXES[axis.name]["scale"]
    # What varies in more than one place, or not alike in all settings, is the argument of a function.
    tied = any(_is_tied(s, axis.name) for s in settings) or len({_shared(s, axis.name) for s in settings}) > 1
    plain = axis.name if axis.name in (*_SIZES, "ridge", "damping") else "eta"
    over = _VARIABLES.get(axis.name, axis.name) if tied else plain
    names = ["problem"] if len(settings) == 1 else [f"problem_{'abcd'[k]}" for k in range(len(settings))]
    shown = names[0] if len(names) == 1 else "{" + ", ".join(f'"{n[-1].upper()}": {n}' for n in names) + "}"
    references = _references(settings, active)

    def values(count: int) -> str:
        return _values(settings[0], axis, f"{'log' if scale == 'log' else ''}{count}", tied)

    few = {"variable": over, "few": values(points.places), "noise": noise}
    each = [
        _networks(name, setting, {**few, "line": 2 * place}, points, tied)
        for place, (name, setting) in enumerate(zip(names, settings, strict=True))
    ]
    trained = any(not _training(setting).has_theory for setting in settings)
    apart = trained or any(is_infinite(_dimension(setting)) for setting in settings)
    seeds, hint = "", "" if apart else "  # seeds=8 adds the network"
    if points.seeds and not apart:
        each, seeds, hint = [], f", seeds={points.seeds}", ""
    count = points.places if seeds else len(axis.places)
    problems = [
        _Code(setting, axis.name if tied else "").problem(name, over)
        for name, setting in zip(names, settings, strict=True)
    ]
    several = len(settings) > 1 and _NO_STEP in references
    return "\n".join(
        [
            f'"""Test and training error against {label}: what the page of gradstep {__version__} shows.',
            "",
            f'{_NOISE[noise]}{_OTHERS if points.seeds else ""}\n"""',
            "",
            *(["import numpy as np", ""] if trained else []),
            "import gradstep as gs",
            "",
            *([""] if tied else []),
            *problems,
            f'curve = gs.curve({shown}, over={{"{over}": "{values(count)}"}}{seeds}){hint}',
            *(["# The page draws the curve without the step of the setting at hand alone."] if several else []),
            "figure = curve.plot(",
            '    ["test_error", "train_error"],',
            f"    references={json.dumps(references)},",
            f'    label_noise="{noise}",',
            "    together=True,",
            f'    x_scale="{scale}",',
            '    y_scale="log",',
            ")",
            *filter(None, each),
            'figure.savefig("gradstep_page.png", bbox_inches="tight")',
            "",
        ]
    )


def _references(settings: Sequence[Mapping[str, Any]], active: int) -> list[str]:
    """Return the names of what the setting at hand is compared with."""
    found = [_NO_STEP] if _step(settings[active])[0] else []
    # The bounds are known for isotropic inputs.
    if any(setting.get("inputs") is not None for setting in settings):
        return found
    problem = problem_of(settings[active])
    kernel, linear = (REFERENCES[name](problem) for name in _BOUNDS)
    # Bounds that are one number have one line, and those of a linear teacher, which are zero, have none.
    distinct = abs(linear - kernel) >= _SAME * max(1.0, kernel)
    shown = (kernel >= _SAME, distinct)
    return found + [name for name, there in zip(_BOUNDS, shown, strict=True) if there]


def _training(setting: Mapping[str, Any]) -> Training:
    return Training.parse(setting.get("training", {}))


def _networks(name: str, setting: Mapping[str, Any], few: Mapping[str, Any], points: Points, tied: bool) -> str:
    """Return what draws the networks of a setting beside the curve; empty if there are none."""
    training, infinite = _training(setting), is_infinite(_dimension(setting))
    finite = f".at_dimension({points.d})" if infinite else ""
    if not training.has_theory:
        options = f"{training.steps}{'' if training.fresh else ', fresh=False'}"
        if training.optimiser != "gradient":
            options += f', optimiser="{training.optimiser}"'
        words = f"{training.steps} step{'s' if training.steps > 1 else ''} ({training.optimiser})"
        given = {"words": words, "name": name, "each": f"each{finite}", "options": options}
        plus = " + each.noise**2" if few["noise"] == "both" else ""
        return _TRAINED.format(**few, **given, plus=plus, seeds=points.seeds or _NETWORKS)
    if not points.seeds:
        return ""
    words, problem = "The networks of one step.", name
    if infinite:
        words, variable = f"Networks of dimension {points.d} stand for infinite ones.", few["variable"]
        made = f"{name}({variable})" if tied else f"{name}.replace({variable}={variable})"
        problem = f"lambda {variable}: {made}{finite}"
    return _DRAWN.format(**few, words=words, problem=problem, seeds=points.seeds)


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
