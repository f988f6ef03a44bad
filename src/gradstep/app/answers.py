"""Compute what the page shows, in a worker process: curves, learned function, spectrum, optimum, code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from gradstep.app.code import Points, code_of
from gradstep.app.regimes import describe, without_step
from gradstep.app.settings import Axis, coefficient_in, penalty_in, problem_of
from gradstep.checks import flag, integer, one_of
from gradstep.errors import GradstepError, InvalidInput
from gradstep.label_noise import LABEL_NOISE, noiseless_training_error
from gradstep.papers.ba2022 import kernel_lower_bound
from gradstep.papers.cui2024 import best_linear
from gradstep.problem import Problem, link_of
from gradstep.theory import Prediction, predict, predict_each
from gradstep.theory.prediction import QUANTITIES
from gradstep.theory.tuning import tune

if TYPE_CHECKING:
    from gradstep.theory.spectra.feature_spectrum import Outlier
    from gradstep.theory.spectra.stieltjes import Law

#: The spectrum's outliers grow with the sizes, so that it has no picture in the limit: this dimension stands for it.
_SPECTRUM_DIMENSION = 1000
_MOST_OUTLIERS = 6
_POWERS = ("constant", "κ", "κ²", "κ³", "κ⁴")


def _setting(request: Mapping[str, Any]) -> Mapping[str, Any]:
    setting = request.get("problem")
    if not isinstance(setting, Mapping):
        raise InvalidInput("problem", setting, "a mapping of parameter names to values")
    return setting


def _axis(request: Mapping[str, Any]) -> Axis:
    given = request.get("axis")
    if not isinstance(given, Mapping):
        raise InvalidInput("axis", given, "{name, from, to, count, scale}")
    return Axis.parse(given)


def curve_part(request: Mapping[str, Any], part: int, parts: int) -> dict[str, Any]:
    """Predict every `parts`-th place of an axis, from the `part`-th on; a place without an answer is None.

    ``failure`` is the first error. If the request asks for it, ``without_step`` has the test errors of the network that
    takes no step.
    """
    setting, axis = _setting(request), _axis(request)
    settings = [axis.apply(setting, place) for place in axis.places[part::parts]]
    problems = [problem_of(s) for s in settings]
    unstepped = flag("without_step", request.get("without_step", False))
    found = predict_each(problems)
    return {
        "x": [axis.place(s, p) for s, p in zip(settings, problems, strict=True)],
        "test_error": [p.test_error if isinstance(p, Prediction) else None for p in found],
        "train_error": [p.train_error if isinstance(p, Prediction) else None for p in found],
        "noiseless_train_error": [_noiseless(p) if isinstance(p, Prediction) else None for p in found],
        "without_step": _unstepped_errors(problems) if unstepped else [None] * len(problems),
        "failure": next((p for p in found if isinstance(p, GradstepError)), None),
    }


def _unstepped_errors(problems: Sequence[Problem]) -> list[float | None]:
    """Return the test error of each problem without a step, on which the step's samples have no influence."""
    unstepped = [problem.replace(eta=0.0, n_step=problems[0].n_step, damping=math.inf) for problem in problems]
    distinct = list(dict.fromkeys(unstepped))
    found = dict(zip(distinct, predict_each(distinct), strict=True))
    return [p.test_error if isinstance(p := found[problem], Prediction) else None for problem in unstepped]


def here(request: Mapping[str, Any]) -> dict[str, Any]:
    """Predict the setting itself: quantities, bounds, regime."""
    setting, axis = _setting(request), _axis(request)
    problem = problem_of(setting)
    prediction = predict(problem)
    before, teacher = without_step(problem), link_of(problem.teacher)
    # That no kernel is below the bound is known for isotropic inputs.
    bounds = {"kernel_bound": kernel_lower_bound, "best_linear": best_linear}
    return {
        "x": _finite(axis.place(setting, problem)),
        **{name: _finite(getattr(prediction, name)) for name in QUANTITIES},
        "noiseless_train_error": _noiseless(prediction),
        "without_step": None if before is None else before.test_error,
        "method": prediction.method,
        "caveats": [asdict(caveat) for caveat in prediction.caveats],
        "residual": _finite(prediction.residual),
        **{name: None if problem.inputs is not None else bound(teacher) for name, bound in bounds.items()},
        "inputs": _law(problem),
        "regime": asdict(describe(prediction, before)),
        "problem": problem.to_dict(),
    }


def _law(problem: Problem) -> dict[str, Any] | None:
    """Return the classes of the inputs' eigenvalues as they are at the dimension, from the largest on."""
    if problem.inputs is None:
        return None
    law = problem.inputs if problem.is_limit else problem.inputs.at_dimension(int(problem.d))
    lists = {name: list(getattr(law, name)) for name in ("eigenvalues", "share", "teacher")}
    return {**lists, "effective_dimension": law.effective_dimension}


def learned(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mean output of the trained network, and of the teacher, given the projection on the spike."""
    problem = problem_of(_setting(request))
    curve = predict(problem).curve
    return {"kappa": curve.kappa.tolist(), "learned": curve.learned.tolist(), "teacher": curve.target.tolist()}


def spectrum(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predicted density of the singular values of the features or of the weights, and the outliers."""
    of = one_of("of", request.get("of", "features"), ("features", "weights"))
    problem = problem_of(_setting(request))
    if problem.is_limit:
        problem = problem.at_dimension(_SPECTRUM_DIMENSION)
    return _of_weights(problem) if of == "weights" else _of_features(problem)


def _of_weights(problem: Problem) -> dict[str, Any]:
    # Here and below: a process that only predicts starts faster without.
    from gradstep.theory.spectra.weight_spectrum import weight_spectrum

    found = weight_spectrum(problem)
    outliers = []
    if found.outlier is not None:
        label = f"teacher ({100 * found.outlier.teacher_overlap:.0f} %)"
        outliers.append({"singular_value": found.outlier.singular_value, "label": label})
    bands, before = _bands(found.after), _bands(found.before)
    return {"d": problem.d, "bands": bands, "before": before, "atom": found.after.atom, "outliers": outliers}


def _bands(law: Law) -> list[dict[str, list[float]]]:
    """Return the density of the singular values in each band of a law of eigenvalues."""
    return [
        {"singular_value": np.sqrt(b.eigenvalue).tolist(), "density": (2 * np.sqrt(b.eigenvalue) * b.density).tolist()}
        for b in law.bands
    ]


def _of_features(problem: Problem) -> dict[str, Any]:
    from gradstep.theory.spectra.feature_spectrum import feature_spectrum

    found = feature_spectrum(problem)
    outliers = [
        {
            "singular_value": outlier.singular_value,
            "label": _name(outlier),
            "sample_overlap": outlier.sample_overlap.tolist(),
            "teacher_overlap": outlier.teacher_overlap.tolist(),
        }
        for outlier in found.outliers[:_MOST_OUTLIERS]
    ]
    return {"d": problem.d, "bands": _bands(found.bulk), "atom": found.bulk.atom, "outliers": outliers}


def _name(outlier: Outlier) -> str:
    """Say what an outlier's vector is closest to, a power of kappa or a direction of the inputs, and how close."""
    if outlier.of_inputs:
        return f"{outlier.closest} ({100 * outlier.linear_overlap:.0f} %)"
    share = float(np.max(outlier.sample_overlap))
    return f"{_POWERS[outlier.sample_degree]} ({100 * share:.0f} %)"


def best(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the best penalty, step size, or both, in the units of the setting."""
    setting = _setting(request)
    problem = problem_of(setting)
    over = request.get("over", ["ridge"])
    if over not in (["ridge"], ["eta"], ["ridge", "eta"]):
        raise InvalidInput("over", over, "['ridge'], ['eta'] or ['ridge', 'eta']")
    tuned = tune(problem, over)
    units = {"ridge": penalty_in, "eta": coefficient_in}
    return {
        "test_error": tuned.prediction.test_error,
        "train_error": tuned.prediction.train_error,
        "before": tuned.before.test_error,
        "values": {name: units[name](setting, tuned.problem) for name in over},
        "meanings": {parameter.name: parameter.meaning for parameter in tuned.parameters},
        "caveats": [asdict(caveat) for caveat in tuned.prediction.caveats],
    }


def code(request: Mapping[str, Any]) -> dict[str, str]:
    """Return Python code that draws the same curves."""
    settings = request.get("problems")
    if not isinstance(settings, list) or not 1 <= len(settings) <= 4:
        raise InvalidInput("problems", None, "a list of one to four problems")
    for setting in settings:
        problem_of(_setting({"problem": setting}))
    axis = _axis(request)
    active = integer("active", request.get("active", 0), 0, len(settings) - 1)
    noise = one_of("noise", request.get("noise", "neither"), LABEL_NOISE)
    points = Points(
        seeds=integer("seeds", request.get("seeds", 0), 0, 100),
        places=integer("places", request.get("places", 8), 2, 40),
        d=integer("d", request.get("d", 200), 2),
    )
    return {
        "code": code_of(settings, axis, request["axis"].get("scale"), active=active, noise=str(noise), points=points)
    }


def _noiseless(found: Prediction) -> float:
    return noiseless_training_error(found.problem, found.train_error, found.degrees_of_freedom)


def _finite(value: float) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(number)
