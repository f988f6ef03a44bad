"""From what the page sends to problems: sizes as ratios, penalties in any paper's unit, one axis that varies."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gradstep.app.training import Training
from gradstep.checks import integer, is_real, is_whole, one_of, real
from gradstep.errors import InvalidInput
from gradstep.inputs import Inputs
from gradstep.problem import Problem, Step
from gradstep.sizes import Proportional

#: Parameters for the horizontal axis: what the page calls them, and the range shown first.
AXES: Mapping[str, Mapping[str, Any]] = {
    "n": {"label": "samples per dimension n/d", "from": 0.3, "to": 10.0, "scale": "log"},
    "width": {"label": "neurons per dimension N/d", "from": 0.2, "to": 10.0, "scale": "log"},
    "n_step": {"label": "samples of the step per dimension n₀/d", "from": 0.3, "to": 30.0, "scale": "log"},
    "eta": {"label": "step scale c", "from": 0.05, "to": 5.0, "scale": "log"},
    "alpha": {"label": "step exponent α", "from": 0.0, "to": 0.5, "scale": "linear"},
    "ridge": {"label": "ridge penalty", "from": 1e-4, "to": 100.0, "scale": "log"},
    "damping": {"label": "damping of the step δ", "from": 0.02, "to": 100.0, "scale": "log"},
}

#: A large step that visibly learns, in the page's units.
DEFAULT: Mapping[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 256,
    "width": {"per_d": 1.5},
    "n_step": {"per_d": 8.0},
    "n": {"per_d": 3.0},
    "eta": {"coefficient": 2.0, "exponent": 0.5, "of": "width"},
    "ridge": {"per_d": 0.2},
    "noise": 0.1,
    "readout": "gaussian",
    "initial_weights": "gaussian",
    "inputs": None,
    "damping": "inf",
    "training": {"steps": 1, "fresh": True, "optimiser": "gradient"},
}

#: Where the teacher lies: exponent of its part of a power law's eigenvectors, and its share on one large direction.
TEACHERS: Mapping[str, tuple[float | None, float | None]] = {
    "random": (None, None),
    "even": (0.0, None),
    "leading": (2.0, 1.0),
    "last": (-1.0, 0.0),
}
_LARGEST_DIMENSION = 1_000_000
_RATIO = "a ratio to d from 1e-4 to 1e6"
#: A penalty's unit to the size that it multiplies.
_UNITS = {"per_d": "d", "per_n": "n", "per_width": "width"}
_MOST_POINTS = 200
#: Most values of a readout law: memory and time of a prediction grow with their square.
_MOST_READOUT_VALUES = 50
_AXIS_FIELDS = ("name", "from", "to", "count", "scale")


@dataclass(frozen=True)
class Axis:
    """One parameter over a range."""

    #: A key of `AXES`. Sizes vary as ratios to d, the penalty in the unit of the setting, ``eta`` and ``alpha`` are the
    #: coefficient and the exponent of the step size.
    name: str
    places: tuple[float, ...]  #: Increasing.

    @classmethod
    def parse(cls, given: Mapping[str, Any], most: int = _MOST_POINTS) -> Self:
        """Read ``{"name", "from", "to", "count", "scale"}``.

        Raises `InvalidInput` on unknown fields and names, ends out of order or not finite, more than `most` places.
        """
        name = given.get("name")
        if not isinstance(name, str) or name not in AXES:
            raise InvalidInput("axis.name", name, ", ".join(AXES))
        for field, value in given.items():
            if field not in _AXIS_FIELDS:
                raise InvalidInput(f"axis.{field[:200]}", _plain(value), f"one of the fields {', '.join(_AXIS_FIELDS)}")
        scale = given.get("scale", AXES[name]["scale"])
        one_of("axis.scale", scale, ("linear", "log"))
        least = 0.0 if name in ("eta", "alpha") and scale == "linear" else math.ulp(0.0)
        most_value = 1.0 if name == "alpha" else 1e6
        ends = []
        for end in ("from", "to"):
            allowed = "a number in [0, 1]" if name == "alpha" else "a number > 0, at most 1e6"
            value = given.get(end, AXES[name][end])
            ends.append(real(f"axis.{end}", value, allowed, lambda number: least <= number <= most_value))
        low, high = ends
        if not low < high:
            raise InvalidInput("axis.to", high, f"a number above the other end, {low:g}")
        count = integer("axis.count", given.get("count", 60), 2, most)
        space = np.geomspace if scale == "log" else np.linspace
        return cls(name, tuple(map(float, space(low, high, count))))

    def apply(self, setting: Mapping[str, Any], place: float) -> dict[str, Any]:
        """Return the setting with the parameter at a place."""
        if self.name in ("eta", "alpha"):
            key = "coefficient" if self.name == "eta" else "exponent"
            return {**setting, "eta": {**_step(setting), key: place}}
        if self.name == "ridge":
            return {**setting, "ridge": {_unit(setting): place}}
        if self.name == "damping":
            return {**setting, "damping": place}
        return {**setting, self.name: {"per_d": place}}

    def place(self, setting: Mapping[str, Any], problem: Problem) -> float:
        """Return where a problem lies: sizes are whole numbers, so not exactly where it was asked for."""
        if self.name == "ridge":
            return penalty_in(setting, problem)
        if self.name == "damping":
            return problem.damping
        if self.name == "eta":
            return float(_step(setting)["coefficient"])
        if self.name == "alpha":
            return float(_step(setting)["exponent"])
        return float(getattr(problem.ratios, self.name))


def problem_of(setting: Mapping[str, Any]) -> Problem:
    """Build a problem from the page's form of it.

    A setting has the fields of `Problem`, with these forms: ``width``, ``n`` and ``n_step`` are ``{"per_d": ratio}`` or
    whole numbers; ``n_step`` may be ``"n"``, as many as the fit has, or ``"inf"``; ``ridge`` is ``{"per_d": value}``,
    ``{"per_n": value}`` (Ba et al. 2022, Moniri et al. 2024) or ``{"per_width": value}`` (Cui et al. 2024), or a
    number; ``eta`` may be ``{"coefficient", "exponent", "of"}``, a power of ``"width"`` or of ``"n"``; ``d`` may be
    ``"inf"``; ``inputs`` may have a form of `inputs_of`. A ``training`` (`gradstep.app.training.Training`) is checked
    and is no part of the problem. Raises `InvalidInput` naming the field, its value and what is allowed.
    """
    values = dict(setting)
    values.pop("origin", None)
    Training.parse(values.pop("training", {}))
    readout = values.get("readout")
    if isinstance(readout, Mapping) and len(readout) > _MOST_READOUT_VALUES:
        raise InvalidInput("readout", f"{len(readout)} values", f"at most {_MOST_READOUT_VALUES} on the page")
    d = values.pop("d", None)
    infinite = d in ("inf", "infinity") if isinstance(d, str) else d == math.inf
    if not infinite:
        allowed = f"an integer from 2 to {_LARGEST_DIMENSION}, or 'inf' for the proportional limit"
        real("d", d, allowed, lambda number: 2 <= number <= _LARGEST_DIMENSION and number.is_integer())
    for name in ("width", "n", "n_step"):
        if name not in values:
            raise InvalidInput(name, None, "a ratio {per_d}, or a whole number")
    if values["n_step"] == "n":
        values["n_step"] = values["n"]
    sizes: dict[str, float] = {"d": 1.0 if infinite else float(d)}  # in units of d where d is infinite
    for name in ("width", "n", "n_step"):
        if name == "n_step" and values[name] in ("inf", "infinity", math.inf):
            values[name] = "inf"
            continue
        ratio = _ratio(name, values[name], math.inf if infinite else float(d))
        sizes[name] = ratio if infinite else max(1, round(ratio * d))
        values[name] = {"per_d": ratio} if infinite else sizes[name]
    if "inputs" in values:
        values["inputs"] = inputs_of(values["inputs"], math.inf if infinite else int(d))
    unit, penalty = _penalty(values.get("ridge"), math.inf if infinite else float(d))
    ridge = penalty * sizes[_UNITS[unit]]
    step = _step(values)
    coefficient = step["coefficient"]
    if step["of"] == "n":
        Step(coefficient, step["exponent"])  # says what is wrong with what was given
        coefficient *= (sizes["n"] / sizes["width"]) ** step["exponent"]
    return Problem.from_dict(
        {
            **values,
            "d": "inf" if infinite else int(d),
            "eta": {"coefficient": coefficient, "exponent": step["exponent"]},
            "ridge": {"per_d": ridge} if infinite else ridge,
        }
    )


def inputs_of(given: Any, d: float) -> Any:
    """Return the law of the inputs in a form of `Problem`, at the setting's dimension.

    The dimension `d` is infinite in the limit. `given` is ``{"exponent", "teacher"}``, eigenvalues that fall as a
    power of their rank; ``{"strength", "teacher"}``, one direction of which the variance is ``1 + strength`` times that
    of the others; or what a problem has. The ``teacher`` is a word of `TEACHERS`. Raises `InvalidInput` on numbers and
    words out of range, and laws that no limit has.
    """
    if not isinstance(given, Mapping) or not set(given) & {"exponent", "strength"}:
        return given
    kind = "exponent" if "exponent" in given else "strength"
    if set(given) != {kind, "teacher"}:
        raise InvalidInput("inputs", _plain(given), "{exponent, teacher} or {strength, teacher}")
    place = one_of("inputs.teacher", given["teacher"], tuple(TEACHERS))
    allowed = "an exponent from 0 to 4" if kind == "exponent" else "a strength from 0 to 1e6"
    most = 4 if kind == "exponent" else 1e6
    value = real("inputs", _plain(given[kind]), allowed, lambda number: 0 <= number <= most)
    if kind == "strength":
        if math.isinf(d):
            reason = "one direction has no weight among infinitely many: choose a finite dimension for it"
            raise InvalidInput("inputs", "one large direction in the limit", "a finite dimension", reason)
        share = TEACHERS[place][1]
        return Inputs.spiked([value], int(d), None if share is None else [share]).to_plain()
    exponent = TEACHERS[place][0]
    if math.isinf(d):
        if value >= 1 or (exponent or 0) >= 1:
            reason = (
                "in the proportional limit the exponent is below 1, and the teacher is not on the leading directions"
            )
            raise InvalidInput("inputs", _plain(given), "exponents below 1", reason)
        return Inputs.power_law(value, exponent).to_plain()
    return Inputs.power_law(value, exponent, d=int(d)).to_plain()


def setting_of(problem: Problem, **forms: Any) -> dict[str, Any]:
    """Return the page's form of a problem; `forms` replace fields by another form of the same value."""
    infinite_step = problem.n_step == math.inf
    fields = problem.to_dict()
    names = ("activation", "teacher", "noise", "readout", "initial_weights", "inputs", "damping")
    plain = {name: fields[name] for name in names if name in fields}
    return {
        **plain,
        "d": "inf" if problem.is_limit else problem.d,
        "width": {"per_d": problem.ratio("width")},
        "n_step": "inf" if infinite_step else {"per_d": problem.ratio("n_step")},
        "n": {"per_d": problem.ratio("n")},
        "eta": {"coefficient": problem.eta.coefficient, "exponent": problem.eta.exponent, "of": "width"},
        "ridge": {"per_d": problem.ratio("ridge")},
        "inputs": plain.get("inputs"),
        "damping": plain.get("damping", "inf"),
        "training": dict(DEFAULT["training"]),
        **forms,
    }


def penalty_in(setting: Mapping[str, Any], problem: Problem) -> float:
    """Return a problem's penalty in the unit of a setting."""
    size = _UNITS[_unit(setting)]
    return problem.ratios.ridge / float(getattr(problem.ratios, size))


def coefficient_in(setting: Mapping[str, Any], problem: Problem) -> float:
    """Return the coefficient of a problem's step size as the setting counts it (a power of the width, or of n)."""
    if _step(setting)["of"] == "width":
        return problem.eta.coefficient
    return float(problem.eta.coefficient * (problem.ratio("width") / problem.ratio("n")) ** problem.eta.exponent)


def _step(setting: Mapping[str, Any]) -> dict[str, Any]:
    given = setting.get("eta")
    step = dict(given) if isinstance(given, Mapping) else {"coefficient": given}
    allowed = "a number >= 0, or {coefficient, exponent, of}"
    if "coefficient" not in step or set(step) - {"coefficient", "exponent", "of"}:
        raise InvalidInput("eta", _plain(given), allowed)
    one_of("eta.of", _plain(step.setdefault("of", "width")), ("width", "n"))
    step.setdefault("exponent", 0.0)
    return step


def _ratio(name: str, value: Any, d: float) -> float:
    if isinstance(value, Mapping) and set(value) == {"per_d"}:
        value = value["per_d"]
    elif is_whole(value) and math.isfinite(d) and 1 <= value <= 1e12:
        value = value / d
    else:
        raise InvalidInput(name, _plain(value), f"{{per_d: {_RATIO}}}")
    try:
        ratio = Proportional(value).ratio
    except InvalidInput:
        raise InvalidInput(name, _plain(value), _RATIO) from None
    if not 1e-4 <= ratio <= 1e6:
        raise InvalidInput(name, ratio, _RATIO)
    return ratio


def _penalty(value: Any, d: float) -> tuple[str, float]:
    allowed = "a number > 0 from 1e-12 to 1e12, as {per_d}, {per_n} or {per_width}"
    unit = "per_d"
    if isinstance(value, Mapping) and len(value) == 1 and set(value) <= set(_UNITS):
        unit, value = next(iter(value.items()))
    elif is_real(value) and math.isfinite(d):
        value = value / d if abs(value) < 1e300 else math.inf
    if is_real(value) and value == 0:
        allowed += "; for the min-norm fit (ridge -> 0) a small one such as 1e-6"
    return unit, real("ridge", _plain(value), allowed, lambda number: 1e-12 <= number <= 1e12)


def _unit(setting: Mapping[str, Any]) -> str:
    given = setting.get("ridge")
    return (
        next(iter(given)) if isinstance(given, Mapping) and len(given) == 1 and set(given) <= set(_UNITS) else "per_d"
    )


def _plain(value: Any) -> Any:
    """Return a short form of whatever was sent, for a message."""
    text = json.dumps(value, default=str)
    return value if len(text) <= 80 else text[:77] + "..."
