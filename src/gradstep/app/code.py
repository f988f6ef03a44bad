"""Python code that gives what the page shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradstep import __version__
from gradstep.app.settings import AXES, Axis

__all__ = ["code_of"]

_VARIABLES = {
    "n": "n_per_d",
    "width": "width_per_d",
    "n_step": "n_step_per_d",
    "eta": "coefficient",
    "alpha": "exponent",
    "ridge": "penalty",
}
_LAST = """
for name, problem in {{{names}}}.items():
    predictions = gs.predict_many([problem(place) for place in places])
    for place, prediction in zip(places, predictions):
        print(f"{{name}}  {{place:10.4g}}  test {{prediction.test_error:.6g}}  train {{prediction.train_error:.6g}}")

# The real network at one place, eight draws of it (finite sizes only):
# print(gs.simulate({first}(places[0]), seeds=8))
"""


def code_of(settings: Sequence[Mapping[str, Any]], axis: Axis, scale: object) -> str:
    """Return a script that predicts every setting along the axis.

    Parameters
    ----------
    settings : sequence of mapping
        In the page's form, valid.
    axis : Axis
    scale : {"linear", "log", None}
        Of the axis; None for the axis' own.
    """
    label = AXES[axis.name]["label"]
    space = "geomspace" if (scale or AXES[axis.name]["scale"]) == "log" else "linspace"
    functions = [_function("abcd"[k], setting, axis.name) for k, setting in enumerate(settings)]
    letters = "abcd"[: len(settings)]
    names = ", ".join(f'"{letter.upper()}": problem_{letter}' for letter in letters)
    return "\n".join(
        [
            f'"""Test and training error against {label}: what the page of gradstep {__version__} shows."""',
            "",
            "import math",
            "",
            "import numpy as np",
            "",
            "import gradstep as gs",
            "",
            f"places = np.{space}({axis.places[0]!r}, {axis.places[-1]!r}, {len(axis.places)})  # {label}",
            "",
            "",
            "\n\n\n".join(functions),
            "",
            _LAST.format(names=names, first="problem_a"),
        ]
    )


def _function(letter: str, setting: Mapping[str, Any], name: str) -> str:
    """Return the function from a place on the axis to the problem."""
    variable = _VARIABLES[name]
    infinite = setting["d"] in ("inf", "infinity", math.inf)

    def per_d(size: str) -> str:
        value = setting[size]
        if size == name:
            return variable
        # A whole number at finite d.
        return repr(value["per_d"] if isinstance(value, Mapping) else value / setting["d"])

    def size(of: str) -> str:
        if of == "n_step" and of != name and setting[of] in ("n", "inf", "infinity", math.inf):
            return "n" if setting[of] == "n" else "math.inf"
        return f"gs.Proportional({per_d(of)})" if infinite else f"max(1, round({per_d(of)} * d))"

    def of_size(which: str) -> str:
        return f"{which}.ratio" if infinite else which

    given = setting["eta"]
    step = given if isinstance(given, Mapping) else {"coefficient": given}
    coefficient = variable if name == "eta" else repr(step["coefficient"])
    exponent = variable if name == "alpha" else repr(step.get("exponent", 0.0))
    if step.get("of", "width") == "n":
        coefficient += f" * ({of_size('n')} / {of_size('width')}) ** {exponent}"
    ridge = setting["ridge"]
    # Along an axis a penalty is one per dimension, whatever it is here.
    plain = "per_d" if name == "ridge" else ""
    unit, penalty = next(iter(ridge.items())) if isinstance(ridge, Mapping) else (plain, repr(ridge))
    penalty = variable if name == "ridge" else repr(penalty) if unit else penalty
    factor = {"per_n": of_size("n"), "per_width": of_size("width"), "per_d": "" if infinite else "d"}.get(unit, "")
    product = f"{penalty} * {factor}" if factor else penalty
    fields = {
        "activation": repr(setting["activation"]),
        "teacher": repr(setting["teacher"]),
        "d": "math.inf" if infinite else "d",
        "width": "width",
        "n_step": size("n_step"),
        "n": "n",
        "eta": f"gs.Step({coefficient}, {exponent})",
        "ridge": f"gs.Proportional({product})" if infinite else product,
        **{k: repr(setting[k]) for k in ("noise", "readout", "initial_weights", "output_scale") if k in setting},
    }
    lines = [f"def problem_{letter}({variable}):"]
    lines += [] if infinite else [f"    d = {setting['d']!r}"]
    lines += [f"    n = {size('n')}", f"    width = {size('width')}", "    return gs.Problem("]
    return "\n".join([*lines, *(f"        {key}={value}," for key, value in fields.items()), "    )"])
