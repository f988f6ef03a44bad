"""The description of the JSON interface, for readers and for the fuzzer of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradstep import __version__
from gradstep.app.settings import AXES, DEFAULT
from gradstep.gaussian import REGISTERED
from gradstep.simulation.training import OPTIMISERS

_NUMBER = {"type": "number"}
_NULLABLE = {"type": ["number", "string", "null"]}
_NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}


def _ratio(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {name: {"type": "number", "exclusiveMinimum": 0} for name in names},
        "additionalProperties": False,
    }


def _object(
    properties: Mapping[str, Any], required: list[str] | None = None, *, closed: bool = False
) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        found["required"] = required
    if closed:
        found["additionalProperties"] = False
    return found


_FUNCTION = {
    "anyOf": [{"enum": list(REGISTERED)}, {"enum": ["tanh(x) + 0.3*x**2", "H2 + 0.5*H3"]}, {"type": "string"}],
    "description": "a registered name or a formula in x",
}
_SIZE = {"anyOf": [_ratio("per_d"), {"type": "integer", "minimum": 1}]}
_PROBLEM = {
    **_object(
        {
            "activation": _FUNCTION,
            "teacher": _FUNCTION,
            "d": {"anyOf": [{"type": "integer", "minimum": 2, "maximum": 1_000_000}, {"const": "inf"}]},
            "width": _SIZE,
            "n": _SIZE,
            "n_step": {"anyOf": [_SIZE, {"enum": ["n", "inf"]}]},
            "eta": _object(
                {
                    "coefficient": {"type": "number", "minimum": 0},
                    "exponent": {"type": "number", "minimum": 0, "maximum": 1},
                    "of": {"enum": ["width", "n"]},
                },
                ["coefficient"],
                closed=True,
            ),
            "ridge": _ratio("per_d", "per_n", "per_width"),
            "noise": {"type": "number", "minimum": 0},
            "readout": {"anyOf": [{"enum": ["gaussian", "constant"]}, {"type": "object"}]},
            "initial_weights": {"enum": ["gaussian", "sphere"]},
            "output_scale": {"enum": ["1/N", "1/sqrt(N)"]},
            "training": _object(
                {
                    "steps": {"type": "integer", "minimum": 1, "maximum": 20},
                    "fresh": {"type": "boolean"},
                    "optimiser": {"enum": list(OPTIMISERS)},
                },
                closed=True,
            ),
            "inputs": {"anyOf": [{"type": "string"}, {"type": "object"}]},
            "damping": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "inf"}]},
        },
        ["activation", "teacher", "d", "width", "n", "n_step", "eta", "ridge"],
        closed=True,
    ),
    "description": "The fields of gradstep.Problem; sizes are ratios to d or whole numbers.",
    "examples": [DEFAULT],
}
_AXIS = _object(
    {
        "name": {"enum": list(AXES)},
        "from": {"type": "number", "minimum": 0},
        "to": {"type": "number", "exclusiveMinimum": 0},
        "count": {"type": "integer", "minimum": 2, "maximum": 200},
        "scale": {"enum": ["linear", "log"]},
    },
    ["name"],
    closed=True,
)
_WHY = _object({"message": {"type": "string"}}, ["message"])
_ERROR = _object({"error": _WHY}, ["error"])
_CURVE = _object(
    {
        "curve": _object(
            dict.fromkeys(("x", "test_error", "train_error", "noiseless_train_error", "without_step"), _NUMBERS),
            ["x", "test_error", "train_error"],
        ),
        "here": _object(
            {
                "test_error": _NULLABLE,
                "without_step": _NULLABLE,
                "kernel_bound": _NUMBER,
                "regime": {"type": "object"},
                "caveats": {
                    "type": "array",
                    "items": _object(
                        {
                            "name": {"type": "string"},
                            "size": _NUMBER,
                            "page": {"type": "string"},
                            "of": {"enum": ["network"]},
                        },
                        ["name", "size", "page", "of"],
                    ),
                },
            },
            ["regime", "caveats"],
        ),
        "failure": {"anyOf": [_WHY, {"type": "null"}]},
    },
    ["curve", "here"],
)
_ANSWERS = {
    "400": "The body is no JSON object.",
    "403": "Asked for by another page.",
    "413": "The body is too large.",
    "415": "The body is not declared as JSON.",
    "422": "A value cannot be used: the field, the value, what is allowed.",
    "429": "Too many requests at once.",
    "503": "This takes too long.",
}


def _post(
    summary: str, body: Mapping[str, Any], answer: Mapping[str, Any], media: str = "application/json"
) -> dict[str, Any]:
    errors = {
        code: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for code, text in _ANSWERS.items()
    }
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {"200": {"description": "the answer", "content": {media: {"schema": answer}}}, **errors},
        }
    }


_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_ONE = {"problem": _REFERENCE}
_LINE = {"problem": _REFERENCE, "axis": {"$ref": "#/components/schemas/Axis"}}

DOCUMENT: Mapping[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "gradstep app", "version": __version__},
    "components": {"schemas": {"Problem": _PROBLEM, "Axis": _AXIS}},
    "paths": {
        "/api/start": {
            "get": {
                "summary": "What the page starts from: axes, functions, presets.",
                "responses": {
                    "200": {"description": "the facts", "content": {"application/json": {"schema": {"type": "object"}}}}
                },
            }
        },
        "/api/curves": _post(
            "Errors along an axis, and what is known at the setting.",
            _object({**_LINE, "without_step": {"type": "boolean"}}, list(_LINE), closed=True),
            _CURVE,
        ),
        "/api/learned": _post(
            "The learned function along the spike.",
            _object(_ONE, list(_ONE), closed=True),
            _object({"kappa": _NUMBERS, "learned": _NUMBERS, "teacher": _NUMBERS}, ["kappa", "learned", "teacher"]),
        ),
        "/api/spectrum": _post(
            "The singular values of the features or of the weights; ``before`` is the law of the weights as drawn.",
            _object({**_ONE, "of": {"enum": ["features", "weights"]}}, list(_ONE), closed=True),
            _object(
                {
                    "d": {"type": "integer"},
                    "atom": _NUMBER,
                    "bands": {"type": "array"},
                    "before": {"type": "array"},
                    "outliers": {"type": "array"},
                },
                ["bands"],
            ),
        ),
        "/api/best": _post(
            "The best penalty and step size.",
            _object({**_ONE, "over": {"enum": [["ridge"], ["eta"], ["ridge", "eta"]]}}, list(_ONE), closed=True),
            _object({"test_error": _NUMBER, "values": {"type": "object"}}, ["test_error", "values"]),
        ),
        "/api/code": _post(
            "Python code that draws the same.",
            _object(
                {
                    "problems": {"type": "array", "items": _REFERENCE, "minItems": 1, "maxItems": 4},
                    "axis": _LINE["axis"],
                    "active": {"type": "integer", "minimum": 0, "maximum": 3},
                    "noise": {"enum": ["neither", "both"]},
                    "seeds": {"type": "integer", "minimum": 0, "maximum": 100},
                    "places": {"type": "integer", "minimum": 2, "maximum": 40},
                    "d": {"type": "integer", "minimum": 2},
                },
                ["problems", "axis"],
                closed=True,
            ),
            _object({"code": {"type": "string"}}, ["code"]),
        ),
        "/api/simulate": _post(
            "The real network at places of the axis: one line of JSON as each network is finished.",
            _object(
                {
                    **_LINE,
                    "seeds": {"type": "integer", "minimum": 2, "maximum": 100},
                    "d": {"type": "integer", "minimum": 2},
                },
                list(_LINE),
                closed=True,
            ),
            {"type": "string"},
            "application/x-ndjson",
        ),
    },
}
