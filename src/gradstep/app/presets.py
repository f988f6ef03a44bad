"""The papers' figures: settings of those that are curves of problems, from their own files, and what draws the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gradstep.app.settings import AXES, DEFAULT, TEACHERS, inputs_of, setting_of
from gradstep.papers.beyond.experiments.mixture import gaussian_problem
from gradstep.papers.figure import PAPERS, load_figures
from gradstep.papers.places import Settings, sizes_at
from gradstep.problem import Problem, Step

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

_WITHOUT_DRAWN = "The network and its theory, without the drawn models."


@dataclass(frozen=True)
class _Page:
    """A figure on the page: its axis, the range of the axis, and labels and parameters of its curves.

    ``per_width`` says that the penalty is one for each neuron, whatever the paper's own unit.
    """

    axis: str
    curves: Sequence[tuple[str, Settings]]
    span: Settings = field(default_factory=dict)
    note: str = ""
    shows: str = "errors"
    per_width: bool = False


def presets() -> list[dict[str, Any]]:
    """Return all presets in the papers' order.

    Each has ``name``, ``paper``, ``title``, ``stated`` and ``ours`` (whose settings they are), ``note`` (what differs
    from the figure), ``axis``, ``shows`` (``errors``, ``learned``, ``spectrum``, ``weights`` or ``numbers``),
    ``settings``, one a curve with a ``label`` each, and ``shown``, the places in it of the one to four to begin with.
    """
    found = []
    for figure in load_figures():
        maker = _MAKERS.get(figure.experiment)
        page = maker(figure.settings, figure.presets[_PRESET]) if maker else None
        if page is not None:
            said = {name: getattr(figure, name) for name in ("name", "title", "stated", "ours")}
            found.append({**said, "paper": PAPERS[figure.paper], **_made(page)})
    return found


def elsewhere(found: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return name, paper, title, summary, reason and command of the figures that are not among the presets found."""
    known = {preset["name"] for preset in found}
    return [
        {
            "name": figure.name,
            "paper": PAPERS[figure.paper],
            "title": figure.title,
            "summary": figure.summary,
            "reason": _REASONS[figure.experiment],
            "command": f"gradstep reproduce --paper {figure.paper} --figure {figure.name}",
        }
        for figure in load_figures()
        if figure.name not in known
    ]


def _made(page: _Page) -> dict[str, Any]:
    """Return a preset; of more curves than the page compares, evenly chosen ones are shown first."""
    shown = sorted({round(k) for k in np.linspace(0, len(page.curves) - 1, _MOST)})
    span = {key: page.span.get(key, AXES[page.axis][key]) for key in ("from", "to", "scale")}
    settings = [{"label": label, "problem": _setting(given, page.per_width)} for label, given in page.curves]
    axis = {"name": page.axis, **span}
    return {"axis": axis, "settings": settings, "shown": shown, "shows": page.shows, "note": page.note}


def _setting(parameters: Mapping[str, Any], per_width: bool = False) -> dict[str, Any]:
    """Return the page's form of a problem in a paper's parameters, with what that paper ties together tied."""
    forms: dict[str, Any] = {"training": parameters["training"]} if "training" in parameters else {}
    values = {name: value for name, value in parameters.items() if name not in forms}
    if "inputs" in values:
        law = inputs_of(values["inputs"], values["d"])
        forms |= {"inputs": values["inputs"]} if law is not values["inputs"] else {}
        values["inputs"] = law
    problem = Problem.from_dict(values)
    convention = parameters.get("convention")
    if convention == "cui2024":
        forms["ridge"] = {"per_width": float(parameters["lam"])}
    if convention in ("ba2022", "moniri2024"):
        forms["ridge"] = {"per_n": float(parameters["lam"])}
        if parameters.get("psi1_step") is None:
            forms["n_step"] = "n"
    if convention == "moniri2024":
        step = {"coefficient": float(parameters.get("c", 1.0)), "exponent": float(parameters["alpha"]), "of": "n"}
        forms["eta"] = step
    if per_width:
        forms["ridge"] = {"per_width": problem.ratio("ridge") / problem.ratio("width")}
    return setting_of(problem, **forms)


def _curves(settings: Settings, shared: Settings) -> list[tuple[str, dict[str, Any]]]:
    """Return labels and parameters of the curves in a settings file, with the parameters that they share."""
    return [(curve["label"], {**shared, **curve.get("parameters", {})}) for curve in settings["curves"]]


def _learning_curves(settings: Settings, preset: Settings) -> _Page:
    axis, base = settings["axis"], settings["base"]
    curves = _curves(settings, {**base, "d": preset["d"], axis["parameter"]: float(np.median(preset["points"]))})
    dashed = any(curve.get("limit", False) for curve in settings["curves"])
    note = "The network and its theory, without the paper's limit (dashed in the figure)." if dashed else ""
    return _Page(_AXES[base["convention"], axis["parameter"]], curves, {"scale": "linear", **axis}, note)


def _drawn_curves(settings: Settings, preset: Settings) -> _Page | None:
    """Return the curves of the figures with drawn models that have the network; the others have no problem."""
    drawn = [curve for curve in settings["curves"] if "network" in curve["models"]]
    if not drawn or settings["axis"]["parameter"] != "alpha":
        return None
    curves = []
    for curve in drawn:
        values = {**settings["base"], **curve.get("parameters", {})}
        per_d = values.pop("eta_per_d", None)
        if per_d is not None:
            values["eta_tilde"] = per_d / values["beta"]
        values["noise"] = values.pop("sigma_eps", 0.0)
        middle = float(np.median(preset["points"]))
        curves.append((curve["label"], {"convention": "cui2024", "d": preset["d"], "alpha": middle, **values}))
    return _Page("n", curves, {**settings["axis"], "scale": "linear"}, _WITHOUT_DRAWN)


def _vocabulary(settings: Settings, preset: Settings) -> _Page:
    shared = {"convention": "cui2024", "d": preset["d"], "alpha": 3.0, **settings["base"]}
    curves = [
        (curve["label"], {**shared, "readout": dict(zip(map(str, curve["values"]), curve["weights"], strict=True))})
        for curve in settings["curves"]
    ]
    return _Page("n", curves, {**settings["axis"], "scale": "linear"}, _WITHOUT_DRAWN)


def _learned(settings: Settings, preset: Settings) -> _Page:
    curves = _curves(settings, {"convention": "cui2024", "d": preset["d"], **settings["base"]})
    return _Page("n", curves, note="Along the spike, in the theory of the network.", shows="learned")


def _exponents(settings: Settings, preset: Settings) -> _Page:
    """Moniri et al. 2024: errors against the exponent, with the residual that theory covers."""
    shared = {"convention": "moniri2024", **settings["base"], "alpha": 0.29, "residual": "y"}
    curves = [(f"n = {n}", {**shared, "n": n}) for n in preset["sizes"]]
    note = "" if settings["base"]["residual"] == "y" else "With residual y in place of y - f, which theory covers."
    span = {"from": 0.0, "to": settings["largest"], "scale": "linear"}
    return _Page("alpha", curves, span, f"{note} The equations for every step size.".strip())


def _initial(settings: Settings, preset: Settings) -> _Page:
    shared = {"convention": "moniri2024", **settings["base"], "n": preset["n"], "alpha": 0.0, "c": 0.0}
    curves = _curves(settings, shared | {"lam": 0.01, "residual": "y"})
    return _Page("ridge", curves, settings["axis"], "The test error without the label noise.")


def _improvement(settings: Settings, preset: Settings) -> _Page:
    shared = {"convention": "ba2022", "d": preset["d"], **settings["base"], "eta": float(settings["etas"][-1])}
    curves = [(f"n/d = {psi1:g}", {**shared, "psi1": psi1}) for psi1 in preset["psi1"]]
    span = {"from": 0.0, "to": 1.15 * max(preset["etas"]), "scale": "linear"}
    return _Page("eta", curves, span, "The error itself: the improvement is its fall from c = 0.")


def _equivalence(settings: Settings, preset: Settings) -> _Page:
    step = Step(float(settings["eta"]), 0.25)
    curves = [("erf", {"convention": "ba2022", "d": preset["d"], **settings["base"], "eta": step})]
    span = {"from": 0.0, "to": 0.5, "scale": "linear"}
    return _Page("alpha", curves, span, "The conjugate features: the left panel.")


def _spectra(settings: Settings, preset: Settings, shows: str, note: str = "") -> _Page:
    base, name, label = {**settings["base"], **preset["sizes"]}, settings["vary"], settings["vary_label"]
    # The last one has the largest spike: it comes first, since the page shows one spectrum at a time.
    curves = [(f"{label} = {value:g}", {**base, name: value}) for value in settings["histograms"][::-1]]
    return _Page("n", curves, note=note, shows=shows)


def _statistics(settings: Settings, preset: Settings) -> _Page:
    middle = float(np.median(preset["points"]))
    shared = {"convention": "cui2024", "d": preset["d"], "alpha": 3.0, "beta": 1.0, "lam": 0.1, "alpha0": middle}
    curves = _curves(settings, shared)
    for _, given in curves:
        given["noise"] = given.pop("sigma_eps")
    note = (
        "Spike, bulk and alignment of the setting are in the strip of numbers; the samples of its fit are chosen here."
    )
    return _Page("n_step", curves, settings["axis"], note, shows="numbers")


def _kernels(settings: Settings, preset: Settings) -> _Page:
    """Kernel ridge regression as networks: the number added to the kernel matrix is the penalty for each neuron."""
    psi1, trained, base = settings["psi1"], settings["trained"], settings["base"]
    shared = {"convention": "ba2022", "d": preset["d"], **base, "psi1": psi1}

    def lam(added: float) -> float:
        return added * float(base["psi2"]) / float(psi1)

    curves = [
        ("conjugate kernel", {**shared, "eta": 0.0, "lam": lam(settings["ridge"])}),
        (trained["label"], {**shared, "eta": trained["eta"], "lam": lam(trained["ridge"])}),
    ]
    note = "The kernel of the network before and after its step; the other kernels are those of no network."
    return _Page("n", curves, note=note, per_width=True)


def _theorem7(settings: Settings, preset: Settings) -> _Page:
    base, psi1, d = settings["base"], float(np.median(preset["points"])), preset["d"]
    lam = round(base["psi2"] * d) * float(round(psi1 * d)) ** -settings["penalty_exponent"]
    step = Step(settings["eta_bar"], exponent=0.5)
    shared = {"convention": "ba2022", "d": d, **base, "psi1": psi1, "eta": step, "lam": lam}
    curves = _curves(settings, shared)
    span = {"from": min(preset["points"]), "to": 256.0, "scale": "log"}
    return _Page("n", curves, span, f"With the penalty that the figure has at n/d = {psi1:g}, in its unit, at every n.")


def _universality(settings: Settings, preset: Settings) -> _Page:
    shared = {"convention": "moniri2024", **settings["base"], "alpha": max(preset["points"])}
    curves = [(f"n = {n}", {**shared, "n": n}) for n in preset["sizes"]]
    return _Page("alpha", curves, {"from": 0.0, "to": 0.4, "scale": "linear"}, "The network, without its equivalents.")


def _tuned(settings: Settings, preset: Settings) -> _Page:
    d, sizes = preset["d"], sizes_at(preset["d"], settings["per_d"])
    curves = [
        (f"budget {budget:g} d", {**settings["base"], **sizes, "d": d, "n_step": samples, "n": samples})
        for budget in preset["budgets"]
        for samples in [round(budget * d / 2)]
    ]
    return _Page(
        "ridge", curves, note="The stars, on the curve and on the sliders, are the points of the figure's lines."
    )


def _several_steps(settings: Settings, preset: Settings) -> _Page:
    teacher, d = settings["teachers"][0]["teacher"], preset["d"]
    shared = {**settings["base"], **sizes_at(d, settings["per_d"]), "d": d, "n": 3 * d, "teacher": teacher}
    curves = []
    for training in settings["trainings"]:
        if not training.get("fresh", True):
            continue
        steps = {"training": {**DEFAULT["training"], "steps": training["steps"]}} if training["steps"] else {"eta": 0.0}
        curves.append((training["label"], {**shared, **steps}))
    low, high = settings["n_range"]
    note = "The first teacher, fresh samples. Lines of one step are theory; Simulate draws the network after more."
    return _Page("n", curves, {"from": low, "to": high, "scale": "log"}, note)


def _phases(settings: Settings, preset: Settings) -> _Page:
    """Return the candidates of the first map at the last place where they are drawn."""
    chart, (x, y), d = settings["maps"][0], preset["points"][0][-1], preset["d"]
    sizes = {"d": d, "width": round(y * d), "n": round(x * d), "n_step": round(x * d)}
    curves = [
        (each["label"], {**chart["base"], **sizes, "ridge": d, "eta": each["eta"]}) for each in chart["candidates"]
    ]
    low, high = settings["ridge_range"]
    note = f"One place of the first map, n/d = {x:g} and N/d = {y:g}: the lowest point of each curve is compared there."
    return _Page("ridge", curves, {"from": low, "to": high, "scale": "log"}, note)


def _damping(settings: Settings, preset: Settings) -> _Page:
    d = preset["d"]
    base = {name: value for name, value in settings["base"].items() if name not in ("per_d", "teacher_exponent")}
    shared = {**base, **sizes_at(d, settings["base"]["per_d"]), "d": d, "damping": 0.1}
    place = next(word for word, (exponent, _) in TEACHERS.items() if exponent == settings["base"]["teacher_exponent"])
    curves = [
        (curve["label"], {**shared, **({"inputs": {"exponent": exponent, "teacher": place}} if exponent else {})})
        for curve in settings["curves"]
        for exponent in [curve["parameters"]["exponent"]]
    ]
    return _Page("damping", curves, settings["axis"])


def _mixture(settings: Settings, preset: Settings) -> _Page:
    shared = {**settings["base"], "d": preset["d"], "ratio": 1.0}
    curves = [(label, gaussian_problem(given).to_dict()) for label, given in _curves(settings, shared)]
    note = (
        "Gaussian inputs of the mixture's covariance. The error is the whole mean square, twice the figure's. The step "
        "size is that of k/m = 1 at every width, and the figure's changes with the width: at k/m = 0.1 the error "
        "differs by up to 1.6 per cent."
    )
    return _Page("width", curves, {**settings["axis"], "scale": "linear"}, note, per_width=True)


_MAKERS: Mapping[str, Callable[[Settings, Settings], _Page | None]] = {
    "learning_curves": _learning_curves,
    "drawn_curves": _drawn_curves,
    "vocabulary": _vocabulary,
    "learned": _learned,
    "exponents": _exponents,
    "initial": _initial,
    "improvement": _improvement,
    "equivalence": _equivalence,
    "feature_spectra": partial(_spectra, shows="spectrum"),
    "weight_spectra": partial(_spectra, shows="weights", note="The first panels: the spectrum of each setting."),
    "spike_statistics": _statistics,
    "kernel_ridge": _kernels,
    "theorem7": _theorem7,
    "universality": _universality,
    "tuned": _tuned,
    "several_steps": _several_steps,
    "phases": _phases,
    "damping": _damping,
    "mixture": _mixture,
}

#: Why the page cannot compute the figures of each of the other experiments.
_REASONS = {
    "neuron_trajectories": "it follows single neurons through a training of both layers",
    "rank_one": "it is about norms of the gradient",
    "goodness": "it is about all pairs of student and teacher with one large step, in a limit without a fit",
    "student": "its readout is an average of some neurons, and the page fits every readout",
    "spiked_features": "it takes the features apart into terms, whose norms the page does not have",
    "spike_shape": "it is about single spikes of the gradient",
    "sharp_spikes": "it counts what each spike brings, in a limit that no problem of the page reaches",
    "drawn_curves": "its models are drawn features with a given spike, which no step of a network makes",
    "pool": "it is about the functions that a step offers, before any fit",
    "bounds": "it is about bounds for all fits, and about drawn features with a given spike",
    "spiked_spectrum": "its models are drawn features with a given spike, which no step of a network makes",
    "convex": "it has other losses or penalties than the squares that the page fits",
    "bias": "its neurons have biases, which those of the page have not",
    "several": "its models are drawn features with two given spikes or with biases",
    "optimisers": "it is about the direction of the step, and the page has errors of networks there",
    "gradient_spikes": "it is about singular values of the gradient, which have no theory for correlated inputs",
    "reused_samples": "it is about the direction after two steps, and the page has errors of networks there",
    "second_outliers": "it is about singular values after two steps",
    "two_directions": "its teacher has two directions, and that of the page has one",
}
