"""Where a deviation comes from: the law of the rows after the step, or the equivalence of the fit on them.

    python -m benchmarks.hunt.legs FOLDER TABLE OUT --minutes 60    goes on where FOLDER ends
    python -m benchmarks.hunt.legs --theory TABLE OUT               the legs of today's theory and table, nothing drawn

Between a prediction and a network lie the expected errors of ridge fits on drawn first layers
(`gradstep.Network.learning_curve`), which take nothing from the theory of the rows. So the deviation of a
setting of the search's table splits into two legs: the prediction less the expected errors, which is what the laws of
the rows and of their features leave out, and the expected errors less the errors of plain fits, which must vanish.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.hunt.measure import ERRORS, size_of_errors
from benchmarks.hunt.sample import Sample
from benchmarks.hunt.settings import PENALTIES, is_found
from benchmarks.hunt.table import is_off, read, with_theory
from scipy.stats import chi2, norm, t
from threadpoolctl import threadpool_limits

from gradstep import Network, Problem
from gradstep.errors import GradstepError
from gradstep.sweeps.store import Store
from gradstep.sweeps.task import Task

__all__ = ["legs_of", "legs_table", "summary"]

#: First layers of a setting, and the seconds of one processor that one may take.
LAYERS, LONGEST = 4, 30
#: Pools of rows for each first layer. What they leave uncertain scatters with the layers, and is in their error.
POOLS = 4
#: A setting's fit is suspected where the legs of its errors exceed chance with this probability.
SUSPECT = 1e-3

Row = dict[str, Any]


def layer(task: Task) -> dict[str, Any]:
    """Return the expected errors of one first layer, one for each penalty."""
    problem, penalties = Problem.from_dict(task.parameters["problem"]), task.parameters["ridge"]

    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        with threadpool_limits(1):
            network = Network(problem, task.seed)
            rows = POOLS * max(int(problem.sizes.n), 4 * int(problem.sizes.width), 500)
            curve = network.learning_curve(n=[int(problem.sizes.n)], ridge=penalties, pool=rows)
        return {"test_error": curve.test_error[0].tolist(), "train_error": curve.training_error[0].tolist()}
    except (TimeoutError, GradstepError) as error:
        return {"failure": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def sample_of(layers: Sequence[Mapping[str, Any]]) -> Sample:
    """Return the expected errors of first layers, shape (errors, penalties)."""
    return Sample.of([[layer[name] for name in ERRORS] for layer in layers])


def legs_of(row: Mapping[str, Any], expected: Sample) -> Row:
    """Return both legs of a row of the search's table, in per cent of its errors, shape (errors, penalties).

    Their standard errors take layers and networks for independent, although they share seeds: they are too large.
    """
    mean, error = (np.array([row[key][name] for name in ERRORS]) for key in ("mean", "error"))
    size = size_of_errors(row["problem"], mean) / 100
    told = with_theory(row)
    predicted = np.array([told["theory"][name] for name in ERRORS]) if "theory" in told else np.full_like(mean, np.nan)
    values = {
        "rows": (predicted - expected.mean) / size,
        "rows_error": expected.error / size,
        "fit": (expected.mean - mean) / size,
        "fit_error": np.hypot(expected.error, error) / size,
    }
    return {
        "name": row["name"],
        "is_off": is_off(told),
        "worst": told.get("worst"),
        "layers": expected.count,
        "expected": expected.mean.tolist(),
        "expected_error": expected.error.tolist(),
        **{key: np.round(value, 3).tolist() for key, value in values.items()},
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return what the legs say together: of the test error and of the training error, over settings and penalties."""
    told = [row for row in rows if np.isfinite(row["rows"]).all()]
    if not told:
        return {"settings": 0}
    legs = {key: np.array([row[key] for row in told]) for key in ("rows", "rows_error", "fit", "fit_error")}
    # A few layers say little of their own scatter: Student's t with the degrees of freedom of both errors (Welch).
    layers = np.array([row["layers"] for row in told])[:, None, None]
    freedom = legs["fit_error"] ** 4 / (legs["rows_error"] ** 4 / (layers - 1) + 1e-300)
    # Training errors that vanish have legs and errors of zero.
    ratio = np.abs(legs["fit"]) / np.maximum(legs["fit_error"], 1e-300)
    z = norm.isf(t.sf(ratio, np.maximum(freedom, 1.0)))
    off = [row for row in told if row["is_off"]]
    shares = [_shares(row) for row in off]
    # The six errors of a setting are strongly correlated: the largest of them, as if all were one.
    suspect = z.max(axis=(1, 2)) > math.sqrt(chi2.isf(SUSPECT / z[0].size, 1))
    return {
        "settings": len(told),
        "layers": int(sum(row["layers"] for row in told)),
        "fit_median": np.round(np.median(legs["fit"], axis=(0, 2)), 2).tolist(),
        "fit_median_size": np.round(np.median(np.abs(legs["fit"]), axis=(0, 2)), 2).tolist(),
        "fit_median_z": np.round(np.median(z, axis=(0, 2)), 2).tolist(),
        "fit_suspect": [row["name"] for row, odd in zip(told, suspect, strict=True) if odd],
        "rows_median_size": np.round(np.median(np.abs(legs["rows"]), axis=(0, 2)), 2).tolist(),
        "off": len(off),
        "off_by_rows": sum(share == "rows" for share in shares),
        "off_by_fit": sum(share == "fit" for share in shares),
        "off_by_both": sum(share == "both" for share in shares),
        "off_open": sum(share == "open" for share in shares),
    }


def _shares(row: Mapping[str, Any]) -> str:
    """Return on which leg the worst deviation of a setting lies: beyond three standard errors."""
    rows, fit = (_worst(row, key) / _worst(row, f"{key}_error") for key in ("rows", "fit"))
    by_rows, by_fit = abs(rows) > 3, abs(fit) > 3
    return {(True, False): "rows", (False, True): "fit", (True, True): "both"}.get((by_rows, by_fit), "open")


def _worst(row: Mapping[str, Any], key: str) -> float:
    worst = row["worst"]
    return float(row[key][ERRORS.index(worst["of"])][PENALTIES.index(worst["penalty"])])


def legs_table(table: Mapping[str, Any]) -> str:
    """Return both legs of the settings whose deviation is largest, in Markdown."""
    lines = [
        "| setting | error, ridge | off | law of the rows | equivalence of the fit |",
        "| --- | --- | --- | --- | --- |",
    ]
    off = sorted((r for r in table["rows"] if r["is_off"]), key=lambda r: -abs(r["worst"]["z"]))
    for row in off[:25]:
        worst = row["worst"]
        legs = (f"{_worst(row, key):+.1f} ± {_worst(row, f'{key}_error'):.1f}" for key in ("rows", "fit"))
        name = f"{worst['of'].split('_')[0]}, {worst['penalty']:g}"
        whole = f"{worst['percent']:+.1f} ± {worst['percent_error']:.1f}"
        lines.append("| " + " | ".join((row["name"], name, whole, *legs)) + " |")
    return "\n".join(lines)


def _known(path: Path, rows: Sequence[Row]) -> Iterator[tuple[Row, Sample]]:
    """Yield the rows of the search's table whose expected errors are in a file, with these."""
    of_name = {row["name"]: row for row in rows}
    for known in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        if known["name"] in of_name:
            sample = Sample.from_error(known["layers"], known["expected"], known["expected_error"])
            yield of_name[known["name"]], sample


def _measured(folder: Path, rows: list[Row], seconds: float) -> Iterator[tuple[Row, Sample]]:
    """Yield rows with the expected errors of their first layers, until the time is over."""
    end, store = time.monotonic() + seconds, Store(folder)
    store.prepare()
    # The cheapest first: what is left when the time is over are the widest.
    rows.sort(key=lambda row: row["problem"]["width"] ** 2 * max(4 * row["problem"]["width"], row["problem"]["n"]))
    for row in rows:
        parameters = {"problem": row["problem"], "ridge": [factor * row["problem"]["ridge"] for factor in PENALTIES]}
        found = []
        for seed in range(row["first_seed"], row["first_seed"] + LAYERS):
            task = Task("benchmarks.hunt.legs:layer", parameters, seed)
            result = store.read(task)
            if result is None and time.monotonic() < end:
                store.write(task, layer(task))
                result = store.read(task)
            if result is None or "failure" in result:
                break
            found.append(result)
        if len(found) == LAYERS:
            yield row, sample_of(found)


def main() -> None:
    """Measure first layers until the time is over, and write the legs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where layers are kept")
    parser.add_argument("table", type=Path, help="table of the search")
    parser.add_argument("out", type=Path)
    parser.add_argument("--theory", action="store_true", help="draw nothing, and read expected errors from OUT")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    rows = [row for row in read(options.table)["rows"] if not is_found(row["name"])]
    if options.theory:
        done = [legs_of(*pair) for pair in _known(options.out, rows)]
    elif options.folder is None:
        parser.error("a folder, a table and a file to write are needed")
    else:
        done = [legs_of(*pair) for pair in _measured(options.folder, rows, 60 * options.minutes)]
    content = {"settings": {"command": "python -m benchmarks.hunt.legs", "d": rows[0]["d"], "layers": LAYERS}}
    parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in {**content, "summary": summary(done)}.items()]
    parts.append(' "rows": [\n' + ",\n".join(json.dumps(row) for row in done) + "\n ]")
    options.out.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    print(json.dumps(summary(done), indent=1))


if __name__ == "__main__":
    main()
