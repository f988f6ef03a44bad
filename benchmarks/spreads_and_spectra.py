"""Predicted spreads and outliers beside networks, in the settings of `benchmarks.random_settings`.

``python -m benchmarks.spreads_and_spectra FILE`` measures the settings that the file lacks and writes them with what
theory says of them. It can be stopped and goes on where it ended; with ``--theory`` only what theory says is computed
again. It also prints by how much spreads, and outliers, deviate in units of the sizes that their caveats name.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.random_settings import COUNT, STEEP, problem
from benchmarks.rounding import rounded
from threadpoolctl import threadpool_limits

import gradstep as gs
from gradstep.errors import GradstepError
from gradstep.sweeps.store import write_whole
from gradstep.theory import Caveat

#: Every so many settings of `benchmarks.random_settings` are measured, at this dimension.
EVERY, DIMENSION = 4, 160
#: Networks for the spread, and those of them whose singular values are taken; fresh inputs for a test error, over `d`.
NETWORKS, SPECTRA, FRESH = 160, 12, 16
#: A size that caveats name beyond this one says only that the theory may not hold.
BEYOND = 0.5
#: Lines of the table: sizes above the first number, up to the second.
LINES = {"none": (-1.0, 0.0), "up to 20 %": (0.0, 0.2), "up to 50 %": (0.2, BEYOND), "more": (BEYOND, math.inf)}
#: Singular values of a network that are kept, the largest first (the first is compared), and matrices they are of.
OUTLIERS, MATRICES = 4, ("features", "weights")

Row = dict[str, Any]


def network(number: int, seed: int) -> Row:
    """Return the errors of one network, and the largest singular values if it is one of the first."""
    asked = problem(number, DIMENSION, 1.0)
    with threadpool_limits(1):
        drawn = gs.Network(asked, seed, dtype="float32")
        fit = drawn.fit([asked.ridge])
        errors = drawn.sampled_risk(fit.readouts, FRESH * DIMENSION)[0], fit.train_error
        found: Row = {"errors": [float(np.ravel(error)[0]) for error in errors]}
        if seed < SPECTRA:
            drawn = gs.Network(asked, seed)
            values = np.sqrt(drawn.feature_spectrum(leading=0).eigenvalues), drawn.weight_spectrum(leading=0).after
            found |= {of: each[::-1][:OUTLIERS].tolist() for of, each in zip(MATRICES, values, strict=True)}
    return found


def row(number: int, networks: Sequence[Row]) -> Row:
    """Return what is kept of the networks of a setting: means and deviations, with standard errors."""
    errors = np.array([each["errors"] for each in networks])
    centred = errors - errors.mean(axis=0)
    square = np.mean(centred**2, axis=0)
    of_square = np.sqrt(np.maximum(np.mean(centred**4, axis=0) - square**2, 0) / len(errors))
    found = {
        "number": number,
        "networks": len(errors),
        "mean": errors.mean(axis=0),
        "variance": errors.var(axis=0, ddof=1),
    }
    found["variance_error"] = of_square
    for of in MATRICES:
        values = np.array([each[of] for each in networks if of in each])
        found[of] = [values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))]
    return rounded(found, 6)


def theory(number: int) -> Row:
    """Return what theory says of a setting, or why it refuses."""
    asked, found = problem(number, DIMENSION, 1.0), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            spread = gs.predict_spread(asked)
            found["spread"] = [spread.test_error, spread.train_error, spread.squared_error]
            found["caveats of spread"] = _sizes(spread.caveats)
        except GradstepError as error:
            found["spread failure"] = str(error)
        for of in MATRICES:
            try:
                spectrum = gs.spectrum(asked, of=of)
                found[of] = [value for value, _ in spectrum.outliers][:OUTLIERS]
                found[f"caveats of {of}"] = _sizes(spectrum.caveats)
            except GradstepError as error:
                found[f"{of} failure"] = str(error)
    return rounded(found, 6)


def _sizes(caveats: Iterable[Caveat]) -> dict[str, float]:
    return {caveat.name: caveat.size for caveat in caveats}


def deviations(rows: Sequence[Row]) -> list[Row]:
    """Return how far standard deviations and first outliers are off, relatively.

    Each has three numbers: the deviation, what it is by chance, and the size that the caveats name.
    """
    found = []
    for each in rows:
        told, line = each["theory"], {"number": each["number"]}
        if "spread" in told:
            test, train, at_one_input = told["spread"]
            # A test error that is measured on few inputs varies more.
            variance = np.array(each["variance"]) - [at_one_input**2 / (FRESH * DIMENSION), 0]
            least, size = 1 / math.sqrt(2 * each["networks"]), math.hypot(*told["caveats of spread"].values())
            for place, (name, predicted) in enumerate((("test", test), ("train", train))):
                if variance[place] > 0 and predicted is not None:
                    by_chance = max(each["variance_error"][place] / variance[place] / 2, least)
                    line[name] = predicted / math.sqrt(variance[place]) - 1, by_chance, size
        for of in MATRICES:
            if told.get(of):
                (mean, *_), (error, *_) = each[of]
                line[of] = told[of][0] / mean - 1, error / mean, math.hypot(*told[f"caveats of {of}"].values())
        found.append(line)
    return found


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return how far theory is off, in per cent, by the size that caveats name."""
    found, lines = [], deviations(rows)
    for size, (low, high) in LINES.items():
        entry: Row = {"size": size}
        for name in ("test", "train", *MATRICES):
            pairs = np.array([line[name] for line in lines if name in line and low < line[name][2] <= high])
            off, by_chance, _ = 100 * pairs.reshape(-1, 3).T
            entry[name] = {"count": len(off)}
            if len(off):
                squares = [float(np.sqrt(np.mean(each**2))) for each in (off, by_chance)]
                entry[name] |= {"median": float(np.median(off)), "off": squares[0], "by_chance": squares[1]}
        found.append(entry)
    return rounded(found, 6)


def factors(rows: Sequence[Row]) -> dict[str, float]:
    """Return by how much quantities are off over the sizes that caveats name, in the root mean square."""
    found, lines = {}, deviations(rows)
    for name in ("test", "train", "features"):
        known = [line[name] for line in lines if name in line and 0 < line[name][2] <= BEYOND]
        off, by_chance, size = np.array(known).reshape(-1, 3).T
        found[name] = float(np.sqrt(max(np.sum(off**2 - by_chance**2) / np.sum(size**2), 0))) if known else math.nan
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--theory", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: list[Row] = json.loads(options.file.read_text())["rows"] if options.file.exists() else []

    def write() -> None:
        told = sorted((each for each in kept if "theory" in each), key=lambda each: each["number"])
        settings = {"settings": len(told), "d": DIMENSION, "networks": NETWORKS, "spectra": SPECTRA}
        table = {"settings": settings, "summary": summary(told), "factors": factors(told), "rows": told}
        text = json.dumps(rounded(table, 6), separators=(",", ":")).replace('{"number"', '\n{"number"')
        write_whole(options.file, text + "\n")

    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        if options.theory:
            told = list(pool.map(theory, [each["number"] for each in kept]))
            kept = [{**each, "theory": found} for each, found in zip(kept, told, strict=True)]
        done = {each["number"] for each in kept}
        for number in (n for n in range(0, COUNT + STEEP, EVERY) if n not in done and not options.theory):
            measured = row(number, list(pool.map(partial(network, number), range(NETWORKS))))
            kept.append({**measured, "theory": pool.submit(theory, number).result()})
            write()
    write()
    print(json.dumps(factors(kept)))


if __name__ == "__main__":
    main()
