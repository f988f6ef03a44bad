"""The table of the search: what was measured, what theory says of it today, and what is off."""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.hunt.measure import ERRORS, STEP, VERSION, Search, size_of_errors, theory_of
from benchmarks.hunt.settings import DIMENSION, PENALTIES, Setting, is_found

import gradstep
from gradstep.overlay import FAR as FAR_Z
from gradstep.overlay import Overlay

__all__ = [
    "OFF",
    "SIGMA",
    "falls",
    "is_off",
    "measured_row",
    "measured_rows",
    "off_table",
    "read",
    "with_theory",
    "write",
]

#: A setting is off where some error is, by more than this share of the network's and this many standard errors.
OFF, SIGMA = 0.02, FAR_Z
#: Whether a deviation falls is decided where one answer fits better by so many squares of standard errors.
DECIDED = 4.0
#: A setting is known precisely where the standard errors of its test errors are at most this share of them.
PRECISE = 0.01
#: For its caveats a test error is far off beyond the first, and right within the second.
FAR, RIGHT = 0.03, 0.01

Row = dict[str, Any]
Array = np.ndarray

#: What a row holds that is measured, or was set.
MEASURED = ("name", "d", "levels", "member", "point", "problem", "first_seed", "networks", "mean", "error")


def _rounded(values: Iterable[float], digits: int = 5) -> list[float]:
    return [float(f"{v:.{digits}g}") for v in values]


def measured_row(search: Search, setting: Setting, d: int = DIMENSION) -> Row:
    """Return what was measured of a setting, with all that is needed to measure it again."""
    samples = {name: search.sample(setting, name, d) for name in (*ERRORS, *STEP)}
    # In full, so that a search that goes on from the table tells what one search would have told.
    return {
        "name": setting.name,
        "d": d,
        "levels": list(setting.levels.values()),
        "member": setting.member,
        "point": list(setting.point),
        "problem": setting.problem(d),
        "first_seed": setting.first_seed,
        "networks": search.count(setting, d),
        "mean": {name: sample.mean.tolist() for name, sample in samples.items()},
        "error": {name: sample.error.tolist() for name, sample in samples.items()},
    }


def with_theory(row: Mapping[str, Any]) -> Row:
    """Return a row with what theory says today, and how far off it is.

    `worst` is the error and the penalty whose deviation, less two standard errors, is largest; `is_off` says whether
    any is beyond `OFF` and `SIGMA`.
    """
    new = {key: row[key] for key in MEASURED}
    theory = theory_of(row["problem"], [factor * row["problem"]["ridge"] for factor in PENALTIES])
    if "failure" in theory:
        new["failure"] = theory["failure"]
    if any(name not in theory for name in ERRORS):
        return {**new, "is_off": False}
    new["theory"] = {name: _rounded(theory[name] if name in ERRORS else theory[name][:1]) for name in (*ERRORS, *STEP)}
    mean, error = (np.array([row[key][name] for name in ERRORS]) for key in ("mean", "error"))
    predicted, size = np.array([theory[name] for name in ERRORS]), size_of_errors(row["problem"], mean)
    off = (predicted - mean) / size
    # Positive where theory is above the network.
    z = -Overlay(predicted, mean, error, row["networks"]).z
    sure = np.nan_to_num(np.abs(off) - 2 * error / size, nan=-1.0)
    cell = np.unravel_index(int(sure.argmax()), sure.shape)
    new["worst"] = {
        "of": ERRORS[cell[0]],
        "penalty": PENALTIES[cell[1]],
        "theory": float(f"{predicted[cell]:.5g}"),
        "mean": float(f"{mean[cell]:.5g}"),
        "error": float(f"{error[cell]:.3g}"),
        "percent": round(100 * float(off[cell]), 2),
        "percent_error": round(100 * float(error[cell] / size[cell]), 2),
        "z": round(float(z[cell]), 2),
    }
    with np.errstate(invalid="ignore"):
        new["is_off"] = bool(np.any((np.abs(off) > OFF) & (np.abs(z) > SIGMA)))
    # Of all errors and penalties, for the summary.
    new["caveats"] = theory.get("caveats", [[] for _ in PENALTIES])
    share, sure = np.abs(off[0]), np.abs(z[0]) > SIGMA
    right = (share < RIGHT) & (error[0] / size[0] < RIGHT)
    new["judged"] = [
        "far" if far else "right" if near else "" for far, near in zip((share > FAR) & sure, right, strict=True)
    ]
    new["middle_percent"] = round(100 * float(off[0, 1]), 2)
    new["beyond"] = int(np.count_nonzero(np.abs(z) > SIGMA))
    return new


def is_off(row: Mapping[str, Any]) -> bool:
    """Whether theory misses some error of a row by more than `OFF` and `SIGMA`."""
    return bool(row["is_off"])


def _sizes(row: Mapping[str, Any], larger: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the deviation of a row's worst error and penalty at each size.

    `percent` is the deviation that a setting is judged by, in per cent, and `ratio` the predicted over the measured
    error, with its relative standard error.

    The scatter of a handful of networks can be far smaller than that of the law they are drawn from, most of all where
    that law is skewed. So a standard error at a larger size is at least what the scatter of the many networks at the
    design's dimension amounts to, which falls like `d^(-1/2)`, or faster.
    """
    worst = row["worst"]
    place = PENALTIES.index(worst["penalty"])
    others = sorted((r for r in larger if r["name"] == row["name"] and "theory" in r), key=lambda r: int(r["d"]))
    found: list[Row] = []
    for one in (row, *others):
        predicted, mean, error = (one[key][worst["of"]][place] for key in ("theory", "mean", "error"))
        if not math.isfinite(predicted):  # theory may refuse a size
            continue
        size = float(size_of_errors(one["problem"], np.array(mean)))
        errors = {"percent_error": 100 * error / size, "ratio_error": error / mean}
        if found:
            fewer = math.sqrt(row["networks"] * row["d"] / (one["networks"] * one["d"]))
            errors = {key: max(value, found[0][key] * fewer) for key, value in errors.items()}
        values = {"percent": 100 * (predicted - mean) / size, "ratio": predicted / mean, **errors}
        # A ratio may be far below one, and its logarithm is taken.
        rounded = {
            key: float(f"{value:.5g}") if key.startswith("ratio") else round(value, 2) for key, value in values.items()
        }
        found.append({"d": one["d"], **rounded})
    return found


def summary(rows: Sequence[Row], larger: Sequence[Row]) -> dict[str, Any]:
    """Return what the rows say together; deviations in per cent of the network."""
    told = [r for r in rows if "worst" in r]
    off = [r for r in told if is_off(r)]
    sure = np.array([abs(r["worst"]["percent"]) - 2 * r["worst"]["percent_error"] for r in off])
    again = [r for r in off if len(r["sizes"]) > 1]
    return {
        "settings": len(rows),
        "design": sum(not is_found(r["name"]) for r in rows),
        "networks": sum(r["networks"] for r in [*rows, *larger]),
        "least_networks": min((r["networks"] for r in rows), default=0),
        "precise": sum(_precise(r) for r in told if not is_found(r["name"])),
        "refused": len(rows) - len(told),
        "off": len(off),
        "off_by_five": int(np.count_nonzero(sure > 5)),
        "off_by_twenty": int(np.count_nonzero(sure > 20)),
        "median_percent": round(float(np.median([abs(r["middle_percent"]) for r in told])), 2) if told else None,
        "beyond_three": sum(r["beyond"] for r in told),
        "values": len(told) * len(ERRORS) * len(PENALTIES),
        **_caveats([*rows, *larger]),
        "measured_again": len(again),
        "fallen": sum(r["falls"] is True for r in again),
        "open": sum(r["falls"] is None for r in again),
        "kinds": dict(Counter(kind_of(r) for r in off).most_common()),
        "explanations": dict(Counter(explanation(r) for r in off).most_common()),
    }


def _precise(row: Row) -> bool:
    """Whether the standard errors of the test errors are small, of a measured error or of a hundredth of the labels."""
    mean, error = (np.array([row[key][name] for name in ERRORS]) for key in ("mean", "error"))
    share = error / size_of_errors(row["problem"], mean)
    return bool(share[ERRORS.index("test_error")].max() <= PRECISE)


def _caveats(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many test errors are far off and how many right, and the shares of each that carry a caveat."""
    carry: dict[str, list[bool]] = {"far": [], "right": []}
    for row in rows:
        for judged, names in zip(row.get("judged", ()), row.get("caveats", ()), strict=True):
            if judged:
                carry[judged].append(bool(names))
    shares = {kind: round(100 * float(np.mean(found)), 1) if found else None for kind, found in carry.items()}
    return {
        "far": len(carry["far"]),
        "far_told": shares["far"],
        "right": len(carry["right"]),
        "right_told": shares["right"],
    }


def falls(row: Mapping[str, Any], larger: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether the worst deviation of a row is known to fall with the size; None where that is open.

    It falls if it is within `OFF` at the largest size, its standard error included, or if a deviation that falls like
    `d^(-1/2)` or `1/d` fits those of all sizes better than one that stays, and it does not if one that stays fits
    better: in both cases if the sums of squares, in standard errors, differ by more than four. Deviations are compared
    as the logarithm of the predicted over the measured error. Where the error is below a hundredth of the labels'
    power, it falls if this logarithm or the one of its share of that hundredth does: the error itself may grow with
    the size.

    Parameters
    ----------
    row : mapping
        With theory.
    larger : sequence of mapping
        Measured rows of larger sizes; those of other settings count for nothing.
    """
    sizes = _sizes(row, [with_theory(r) for r in larger if r["name"] == row["name"]])
    return _falls(sizes) if len(sizes) > 1 else None


def _falls(sizes: Sequence[Mapping[str, Any]]) -> bool | None:
    d, percent, percent_error, ratio, ratio_error = (
        np.array([size[key] for size in sizes]) for key in ("d", "percent", "percent_error", "ratio", "ratio_error")
    )
    if abs(percent[-1]) + percent_error[-1] <= 100 * OFF:
        return True
    # Logarithms, because a predicted error that is far too small differs by nearly 100 per cent whatever it is.
    # The logarithm of a predicted error of zero is infinite, which leaves the answer open.
    with np.errstate(divide="ignore", invalid="ignore"):
        shares, ratios = np.log1p(percent / 100), np.log(ratio)
        answers = {_tends_to_zero(d, shares, percent_error / 100), _tends_to_zero(d, ratios, ratio_error)}
    return True if True in answers else None if None in answers else False


def _tends_to_zero(d: Array, value: Array, error: Array) -> bool | None:
    """Whether a multiple of `d^(-1/2)` or `1/d` fits values better than a constant; None where neither is clear."""

    def misfit(exponent: float) -> float:
        """Return the sum of squares that is left by the best multiple of a power of the size."""
        wanted, law = value / error, (d[0] / d) ** exponent / error
        return float(np.sum((wanted - law * (wanted @ law) / (law @ law)) ** 2))

    gain = misfit(0.0) - min(misfit(0.5), misfit(1.0))
    return gain > 0 if abs(gain) > DECIDED else None


def kind_of(row: Row) -> str:
    """Return why a row is off: the largest caveat of its worst deviation, or which error it is that has none."""
    caveats: list[str] = row["caveats"][PENALTIES.index(row["worst"]["penalty"])]
    return caveats[0] if caveats else row["worst"]["of"].replace("_", " ")


def explanation(row: Row) -> str:
    """Return what is known of why a row is off: its deviation falls, or theory is exact in the limit, or neither is."""
    if row["falls"] is True:
        return "finite size: falls"
    if not row["problem"]["eta"]["coefficient"]:
        return "finite size: no step, for which the equations are exact in the limit"
    return "not smaller where last measured" if row["falls"] is False else "within the errors of falling and of staying"


def off_table(table: Mapping[str, Any]) -> str:
    """Return the settings of the design that are off, and those of the search that do not fall, in Markdown.

    Most others of the search are neighbours of one of the design.
    """
    lines = [
        "| activation | teacher | readout | $N$, $n_{step}$, $n$ over $d$ | step | other | error, ridge | theory "
        "| network | off, per cent | at larger sizes | caveats | explanation |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in filter(is_off, table["rows"]):
        if is_found(row["name"]) and row["falls"] is not False:
            continue
        problem, worst = row["problem"], row["worst"]
        step, readout = problem["eta"], problem["readout"]
        readout_values = readout if isinstance(readout, str) else ", ".join(f"{k}: {v:g}" for k, v in readout.items())
        ratios = ", ".join(f"{problem[name] / problem['d']:.2f}" for name in ("width", "n_step", "n"))
        eta = f"{step['coefficient']:g} N^{step['exponent']:g}" if step["coefficient"] else "none"
        other = f"{problem['output_scale']}, {problem['initial_weights']}, noise {problem['noise']:g}"
        sizes = [f"{s['percent']:+.1f} ± {s['percent_error']:.1f} (d = {s['d']})" for s in row["sizes"][1:]]
        cells = (
            f"`{problem['activation']}`",
            f"`{problem['teacher']}`",
            readout_values,
            ratios,
            eta,
            other,
            f"{worst['of'].split('_')[0]}, {worst['penalty']:g}",
            f"{worst['theory']:.4g}",
            f"{worst['mean']:.4g} ± {worst['error']:.2g}",
            f"{worst['percent']:+.1f} ± {worst['percent_error']:.1f}",
            "; ".join(sizes) or "–",
            "; ".join(row["caveats"][PENALTIES.index(worst["penalty"])]) or "–",
            explanation(row),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read(path: Path) -> dict[str, Any]:
    """Return a table."""
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def measured_rows(path: Path) -> list[Row]:
    """Return the rows of a table, of all dimensions, that networks of today can be added to; none without a table."""
    if not path.exists():
        return []
    table = read(path)
    return [*table["rows"], *table["larger"]] if table["settings"].get("networks") == VERSION else []


def write(path: Path, rows: Sequence[Mapping[str, Any]], larger: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write a table of measured rows, with the theory of today; return its summary."""
    told, again = [with_theory(r) for r in rows], [with_theory(r) for r in larger]
    for row in told:
        if "worst" in row:
            row["sizes"] = _sizes(row, again)
            row["falls"] = _falls(row["sizes"]) if is_off(row) and len(row["sizes"]) > 1 else None
    told.sort(key=lambda r: 2 * r["worst"]["percent_error"] - abs(r["worst"]["percent"]) if "worst" in r else -np.inf)
    content = {
        "settings": {
            "command": "make hunt",
            "gradstep": gradstep.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "networks": VERSION,
            "d": DIMENSION,
            "penalties": f"{', '.join(f'{p:g}' for p in PENALTIES)} times the ridge",
        },
        "summary": summary(told, again),
    }
    # A setting a line: readable, and small in a history of versions.
    parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
    for key, listed in (("rows", told), ("larger", again)):
        parts.append(f' "{key}": [\n' + ",\n".join(json.dumps(r) for r in listed) + "\n ]")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return dict(content["summary"])
