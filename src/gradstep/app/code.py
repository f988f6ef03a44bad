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
_PICTURE = """
figure, axes = plt.subplots(layout="constrained")
for name, problem in {{{names}}}.items():
    problems = [problem(place) for place in places]
    predictions = gs.predict_many(problems)
    test = np.array([p.test_error for p in predictions])
    train = np.array([p.train_error for p in predictions])
    noise = np.array([p.noise**2 for p in problems])  # variance of the label noise
{convention}
    (line,) = axes.plot(places, test, label=f"{{name}}test")
    axes.plot(places, train, ":", color=line.get_color(), label=f"{{name}}training")
    # The real network at some of the places, eight draws of it (finite sizes only):
    # for place in places[::10]:
    #     found = gs.simulate(problem(place), seeds=8)
    #     mean, error = found.mean("test_error"), found.standard_error("test_error")
    #     axes.errorbar(place, mean{plus_noise}, error, fmt="o", color=line.get_color())
{without}axes.axhline(kernel_lower_bound({teacher}){plus_floor}, color="gray", linestyle="--", label="kernel bound")
axes.set(xscale="{scale}", yscale="log", xlabel="{label}", ylabel="{what}")
axes.legend()
plt.show()
"""
#: Fields of a setting that are written down as they are.
_KEPT = ("noise", "readout", "initial_weights", "output_scale", "inputs", "damping")
_WITHOUT_STEP = """unstepped = gs.predict_many([problem_{mine}(place).replace(eta=0.0) for place in places])
axes.plot(places, [p.test_error{plus} for p in unstepped], color="gray", label="no step")
"""
_NOISELESS = """\
    # The training error against the teacher itself, from the one on noisy labels.
    freedom = np.array([p.degrees_of_freedom for p in predictions])
    samples = np.array([p.{samples} for p in problems])
    train -= noise * (1 - 2 * freedom / samples)"""
_NOISY = """\
    test += noise"""


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
        Place of the setting at hand: the lines without a step and of the kernel bound are its own.
    noisy : bool
        Whether both errors contain the label noise, or neither.
    """
    label = AXES[axis.name]["label"]
    scale = scale or AXES[axis.name]["scale"]
    space = "geomspace" if scale == "log" else "linspace"
    functions = [_function("abcd"[k], setting, axis.name) for k, setting in enumerate(settings)]
    letters = "abcd"[: len(settings)]
    several = len(settings) > 1
    names = ", ".join(f'"{letter.upper() + " " if several else ""}": problem_{letter}' for letter in letters)
    mine = settings[active]
    noise = f" + {mine['noise']!r} ** 2" if noisy and mine.get("noise") else ""
    picture = _PICTURE.format(
        names=names,
        convention=_NOISY if noisy else _NOISELESS.format(samples='ratio("n")' if _infinite(settings[0]) else "n"),
        plus_noise=" + problem(place).noise**2" if noisy else "",
        without=_WITHOUT_STEP.format(mine=letters[active], plus=noise) if _steps(mine) else "",
        teacher=repr(mine["teacher"]),
        plus_floor=noise,
        scale=scale,
        label=label,
        what="error, with the label noise" if noisy else "error, without label noise",
    )
    return "\n".join(
        [
            f'"""Test and training error against {label}: what the page of gradstep {__version__} shows."""',
            "",
            "import math",
            "",
            "import matplotlib.pyplot as plt",
            "import numpy as np",
            "",
            "import gradstep as gs",
            "from gradstep.papers.ba2022 import kernel_lower_bound",
            "",
            f"places = np.{space}({axis.places[0]!r}, {axis.places[-1]!r}, {len(axis.places)})  # {label}",
            "",
            "",
            "\n\n\n".join(functions),
            "",
            picture,
        ]
    )


def _infinite(setting: Mapping[str, Any]) -> bool:
    return setting["d"] in ("inf", "infinity", math.inf)


def _steps(setting: Mapping[str, Any]) -> bool:
    given = setting["eta"]
    return bool(given["coefficient"] if isinstance(given, Mapping) else given)


def _function(letter: str, setting: Mapping[str, Any], name: str) -> str:
    """Return the function from a place on the axis to the problem."""
    variable = _VARIABLES[name]
    infinite = _infinite(setting)

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
        **{k: repr(setting[k]) for k in _KEPT if k in setting},
    }
    lines = [f"def problem_{letter}({variable}):"]
    lines += [] if infinite else [f"    d = {setting['d']!r}"]
    lines += [f"    n = {size('n')}", f"    width = {size('width')}", "    return gs.Problem("]
    return "\n".join([*lines, *(f"        {key}={value}," for key, value in fields.items()), "    )"])
