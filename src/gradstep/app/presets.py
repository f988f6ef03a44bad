"""The papers' figures: settings of those that are curves of problems, from their own files, and what draws the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.app.settings import AXES, setting_of
from gradstep.papers.figure import PAPERS, Figure, load_figures
from gradstep.problem import Problem, Step

__all__ = ["elsewhere", "presets"]

#: Curves that the page compares.
_MOST = 4
#: Parameters of the papers that are an axis of the page; a parameter that is not a ratio to d is left out.
_AXES = {
    ("ba2022", "psi1"): "n",
    ("ba2022", "psi2"): "width",
    ("cui2024", "alpha"): "n",
    ("cui2024", "beta"): "width",
}
_PRESET = "standard"

Curve = tuple[str, dict[str, Any]]


def presets() -> list[dict[str, Any]]:
    """Return all presets in the papers' order.

    Returns
    -------
    list of dict
        ``name``, ``paper``, ``title``, ``stated`` and ``ours`` (whose settings they are), ``note``
        (what differs from the figure), ``axis``, ``shows`` (``errors``, ``learned`` or ``spectrum``), ``settings``,
        one a curve with a ``label`` each, and ``shown``, the places in it of the one to four to begin with.
    """
    found = []
    for figure in load_figures():
        maker = _MAKERS.get(figure.experiment)
        made = maker(figure) if maker else None
        if made is not None:
            found.append(
                {
                    "name": figure.name,
                    "paper": PAPERS[figure.paper],
                    "title": figure.title,
                    "stated": figure.stated,
                    "ours": figure.ours,
                    **made,
                }
            )
    return found


def elsewhere(found: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return ``paper``, ``title`` and ``command`` of the figures that are not among the presets found."""
    known = {preset["name"] for preset in found}
    return [
        {
            "paper": PAPERS[figure.paper],
            "title": figure.title,
            "command": f"gradstep reproduce --paper {figure.paper} --figure {figure.name}",
        }
        for figure in load_figures()
        if figure.name not in known
    ]


def _made(axis: Mapping[str, Any], curves: Sequence[Curve], shows: str = "errors", note: str = "") -> dict[str, Any]:
    """Return a preset; of more curves than the page compares, evenly chosen ones are shown first."""
    shown = sorted({round(k) for k in np.linspace(0, len(curves) - 1, _MOST)})
    name = axis["name"]
    span = {key: axis.get(key, AXES[name][key]) for key in ("from", "to", "scale")}
    settings = [{"label": label, "problem": setting} for label, setting in curves]
    return {"axis": {"name": name, **span}, "settings": settings, "shown": shown, "shows": shows, "note": note}


def _setting(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page's form of a problem in a paper's parameters, with what that paper ties together tied."""
    problem = Problem.from_dict(parameters)
    convention = parameters["convention"]
    forms: dict[str, Any] = {}
    if convention == "cui2024":
        forms["ridge"] = {"per_width": float(parameters["lam"])}
    if convention in ("ba2022", "moniri2024"):
        forms["ridge"] = {"per_n": float(parameters["lam"])}
        if parameters.get("psi1_step") is None:
            forms["n_step"] = "n"
    if convention == "moniri2024":
        step = {"coefficient": float(parameters.get("c", 1.0)), "exponent": float(parameters["alpha"]), "of": "n"}
        forms["eta"] = step
    return setting_of(problem, **forms)


def _learning_curves(figure: Figure) -> dict[str, Any] | None:
    settings, preset = figure.settings, figure.presets[_PRESET]
    axis, base = settings["axis"], settings["base"]
    middle = float(np.median(preset["points"]))
    curves = [
        (
            curve["label"],
            _setting({**base, "d": preset["d"], axis["parameter"]: middle, **curve["parameters"]}),
        )
        for curve in settings["curves"]
    ]
    span = {"from": axis["from"], "to": axis["to"], "scale": axis.get("scale", "linear")}
    dashed = any(curve.get("limit", False) for curve in settings["curves"])
    note = "The network and its theory, without the paper's limit (dashed in the figure)." if dashed else ""
    return _made({"name": _AXES[base["convention"], axis["parameter"]], **span}, curves, note=note)


def _drawn_curves(figure: Figure) -> dict[str, Any] | None:
    """Return the curves of the figures with drawn models that have the network; the others have no problem."""
    settings, preset = figure.settings, figure.presets[_PRESET]
    base = settings["base"]
    drawn = [curve for curve in settings["curves"] if "network" in curve["models"]]
    if not drawn or settings["axis"]["parameter"] != "alpha":
        return None
    curves = []
    for curve in drawn:
        values = {**base, **curve.get("parameters", {})}
        per_d = values.pop("eta_per_d", None)
        if per_d is not None:
            values["eta_tilde"] = per_d / values["beta"]
        values["noise"] = values.pop("sigma_eps", 0.0)
        given = {"convention": "cui2024", "d": preset["d"], "alpha": float(np.median(preset["points"])), **values}
        curves.append((curve["label"], _setting(given)))
    span = {"from": settings["axis"]["from"], "to": settings["axis"]["to"], "scale": "linear"}
    return _made({"name": "n", **span}, curves, note="The network and its theory, without the drawn models.")


def _vocabulary(figure: Figure) -> dict[str, Any]:
    settings, preset = figure.settings, figure.presets[_PRESET]
    curves = []
    for curve in settings["curves"]:
        letters = dict(zip(map(str, curve["values"]), curve["weights"], strict=True))
        given = {"convention": "cui2024", "d": preset["d"], "alpha": 3.0, "readout": letters, **settings["base"]}
        curves.append((curve["label"], _setting(given)))
    span = {"from": settings["axis"]["from"], "to": settings["axis"]["to"], "scale": "linear"}
    return _made({"name": "n", **span}, curves, note="The network and its theory, without the drawn models.")


def _learned(figure: Figure) -> dict[str, Any]:
    settings, preset = figure.settings, figure.presets[_PRESET]
    curves = [
        (
            curve["label"],
            _setting({"convention": "cui2024", "d": preset["d"], **settings["base"], **curve["parameters"]}),
        )
        for curve in settings["curves"]
    ]
    return _made({"name": "n"}, curves, shows="learned", note="Along the spike, in the theory of the network.")


def _exponents(figure: Figure) -> dict[str, Any]:
    """Moniri et al. 2024: errors against the exponent, with the residual that theory covers."""
    settings, preset = figure.settings, figure.presets[_PRESET]
    curves = []
    for n in preset["sizes"]:
        given = {"convention": "moniri2024", **settings["base"], "n": n, "alpha": 0.29, "residual": "y"}
        curves.append((f"n = {n}", _setting(given)))
    note = "" if settings["base"]["residual"] == "y" else "With residual y in place of y - f, which theory covers."
    span = {"from": 0.0, "to": settings["largest"], "scale": "linear"}
    return _made({"name": "alpha", **span}, curves, note=f"{note} The equations for every step size.".strip())


def _initial(figure: Figure) -> dict[str, Any]:
    settings, preset = figure.settings, figure.presets[_PRESET]
    shared = {"convention": "moniri2024", **settings["base"], "n": preset["n"], "alpha": 0.0, "c": 0.0}
    curves = []
    for curve in settings["curves"]:
        given = {**shared, **curve["parameters"], "lam": 0.01, "residual": "y"}
        curves.append((curve["label"], _setting(given)))
    span = {"from": settings["axis"]["from"], "to": settings["axis"]["to"], "scale": "log"}
    return _made({"name": "ridge", **span}, curves, note="The test error without the label noise.")


def _improvement(figure: Figure) -> dict[str, Any]:
    settings, preset = figure.settings, figure.presets[_PRESET]
    base = {"convention": "ba2022", "d": preset["d"], **settings["base"]}
    curves = [
        (f"n/d = {psi1:g}", _setting({**base, "psi1": psi1, "eta": float(settings["etas"][-1])}))
        for psi1 in preset["psi1"]
    ]
    span = {"from": 0.0, "to": 1.15 * max(preset["etas"]), "scale": "linear"}
    return _made({"name": "eta", **span}, curves, note="The error itself: the improvement is its fall from c = 0.")


def _equivalence(figure: Figure) -> dict[str, Any]:
    settings, preset = figure.settings, figure.presets[_PRESET]
    step = Step(float(settings["eta"]), 0.25)
    setting = _setting({"convention": "ba2022", "d": preset["d"], **settings["base"], "eta": step})
    span = {"from": 0.0, "to": 0.5, "scale": "linear"}
    return _made({"name": "alpha", **span}, [("erf", setting)], note="The conjugate features: the left panel.")


def _feature_spectra(figure: Figure) -> dict[str, Any]:
    settings, preset = figure.settings, figure.presets[_PRESET]
    base = {**settings["base"], **preset["sizes"]}
    curves = [
        (f"{settings['vary_label']} = {value:g}", _setting({**base, settings["vary"]: value}))
        for value in settings["histograms"]
    ]
    # The last one has the largest spike: it comes first, since the page shows one spectrum at a time.
    return _made({"name": "n"}, curves[::-1], shows="spectrum")


_MAKERS: Mapping[str, Callable[[Figure], dict[str, Any] | None]] = {
    "learning_curves": _learning_curves,
    "drawn_curves": _drawn_curves,
    "vocabulary": _vocabulary,
    "learned": _learned,
    "exponents": _exponents,
    "initial": _initial,
    "improvement": _improvement,
    "equivalence": _equivalence,
    "feature_spectra": _feature_spectra,
}
