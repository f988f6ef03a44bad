"""What each part of the bulk is worth: the real network against networks whose rows are replaced, on the same draws.

    python -m benchmarks.bulk_terms run FILE --d 256 --seeds 300    measure; goes on where FILE ends
    python -m benchmarks.bulk_terms run LARGER --d 512 --seeds 300 --rows network --only relu
    python -m benchmarks.bulk_terms run DIAGONAL --rows diagonal --only relu
    python -m benchmarks.bulk_terms table JSON FILE --larger LARGER --diagonal DIAGONAL    what the docs show
    python -m benchmarks.bulk_terms theory JSON    the same measurements, with the theory of today

Measured is a literal network in NumPy; nothing of the package takes part. One draw serves
four first layers:

``network``
    The rows after the real step.
``gaussian``
    Given the samples of the step, each row is Gaussian with the mean and covariance that theory assumes: what is left
    of sigma' after its mean and its linear term becomes independent noise.
``isotropic``
    Rows of ``gaussian`` that keep their projection on the spike direction and their norm, but point anywhere else.
``fixed``
    Rows with the mean projection and the mean norm of their readout: the spiked random features model.

A fifth, ``diagonal``, is measured on demand: rows of ``gaussian`` whose matrix of squared residuals is replaced by the
parabola that theory has for its diagonal in the eigenbasis of the linear one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, expit

from gradstep import Problem, Step, predict_many, predict_spread

Array = np.ndarray
ROWS = ("network", "gaussian", "isotropic", "fixed")
#: Models of the rows and of their bulk, as `theory_of` has them.
MODELS = ("structured", "rows", "isotropic")
#: What tells the settings of a table apart.
SETTING_KEYS = ("activation", "readout", "n_step_per_d", "eta_over_sqrt_width")
NOISE = 0.1
SAMPLES = 1.6  # of the fit, per dimension
PENALTIES = (0.002, 0.01, 0.1)  # per dimension
TEST_SAMPLES = 1024
#: Samples of the step per dimension, and step scales in units of sqrt(N).
RATIOS = (0.25, 0.5, 1.0, 4.0)
STEPS = (1.0, 3.0)


class Student(NamedTuple):
    """An activation with its derivative, and the teacher it meets."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    teacher: str


STUDENTS = {
    "relu": Student(lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(z.dtype), "relu"),
    "softplus": Student(lambda z: np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0), expit, "tanh(x)+0.3*x**2"),
    "tanh": Student(np.tanh, lambda z: 1 - np.tanh(z) ** 2, "tanh"),
    "erf_scaled": Student(lambda z: erf(z / 2**0.5), lambda z: (2 / np.pi) ** 0.5 * np.exp(-z * z / 2), "sin"),
    "hardtanh": Student(lambda z: np.clip(z, -1, 1), lambda z: (np.abs(z) < 1).astype(z.dtype), "tanh"),
}
TEACHERS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh(x)+0.3*x**2": lambda z: np.tanh(z) + 0.3 * z * z,
    "tanh": np.tanh,
    "sin": np.sin,
}


class Setting(NamedTuple):
    """One point of the grid."""

    activation: str
    readout: str
    ratio: float
    step: float


#: The last ones, eta = 1 at N = 256, come after all others: a setting's place seeds its draws.
SETTINGS = [
    Setting(*s)
    for steps in (STEPS, (1 / 16,))
    for s in itertools.product(STUDENTS, ("gaussian", "constant"), RATIOS, steps)
]


def first_layers(setting: Setting, d: int, rng: np.random.Generator, kinds: Sequence[str]) -> dict[str, Array]:
    """Draw, step, and return the rows of these kinds, shape (N, d) with N = d."""
    student, samples = STUDENTS[setting.activation], int(setting.ratio * d)
    initial = rng.standard_normal((d, d)) / d**0.5
    readout = rng.standard_normal(d) if setting.readout == "gaussian" else np.ones(d)
    x = rng.standard_normal((samples, d))
    labels = TEACHERS[student.teacher](x[:, 0]) + NOISE * rng.standard_normal(samples)
    fields = x @ initial.T
    residual = labels - student.function(fields) @ readout / d
    slope = student.derivative(fields)
    nodes = np.linspace(-10, 10, 100_001)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    values = student.derivative(nodes)
    mean, linear = weights @ values, weights @ (nodes * values)
    rest = (weights @ values**2 - mean**2 - linear**2) ** 0.5
    stepped = setting.step * readout[:, None] / samples
    signal = x.T @ residual
    network = initial + stepped * ((residual[:, None] * slope).T @ x)
    noise = linear * fields + rest * rng.standard_normal((samples, d))
    gaussian = initial + stepped * (mean * signal + (residual[:, None] * noise).T @ x)

    direction = signal / np.linalg.norm(signal)
    projection = gaussian @ direction
    off = rng.standard_normal((d, d))
    off -= np.outer(off @ direction, direction)
    off /= np.linalg.norm(off, axis=1, keepdims=True)
    norm = np.sum(gaussian**2, axis=1) - projection**2
    isotropic = np.outer(projection, direction) + norm[:, None] ** 0.5 * off
    # Mean of the squared norm given the readout: 1 + 2 a k tr B/d + a^2 (k^2 tr B^2 + the rest's) / d off the spike.
    scale = setting.step / samples
    bulk = (x.T * residual) @ x
    first = scale * linear * np.trace(bulk) / d
    second = scale**2 * (linear**2 * np.sum(bulk**2) / d + rest**2 * np.sum(residual**2 * np.sum(x * x, axis=1)))
    mean_norm = (1 + 2 * readout * first + readout**2 * second) * (d - 1) / d
    spike = setting.step * readout * mean * np.linalg.norm(signal) / samples
    fixed = np.outer(spike, direction) + mean_norm[:, None] ** 0.5 * off

    def diagonal() -> Array:
        values, basis = np.linalg.eigh(bulk / samples)
        squares = (x.T * residual**2) @ x / samples
        powers = np.vander(values, 3)
        fitted = powers @ np.linalg.lstsq(powers, np.sum(basis * (squares @ basis), axis=0), rcond=None)[0]
        kept = initial @ basis * (1 + setting.step * linear * np.outer(readout, values))
        added = setting.step * rest * np.sqrt(np.maximum(fitted, 0) / samples) * rng.standard_normal((d, d))
        return np.outer(spike, direction) + (kept + readout[:, None] * added) @ basis.T

    layers = {"network": network, "gaussian": gaussian, "isotropic": isotropic, "fixed": fixed}
    return {kind: diagonal() if kind == "diagonal" else layers[kind] for kind in kinds}


def errors(setting: Setting, d: int, seed: int, kinds: Sequence[str] = ROWS) -> Array:
    """Return test and training error, shape (kind of rows, 2, penalty)."""
    student = STUDENTS[setting.activation]
    teacher = TEACHERS[student.teacher]
    rng = np.random.default_rng([SETTINGS.index(setting), seed, d])
    layers = first_layers(setting, d, rng, kinds)
    samples = int(SAMPLES * d)
    x = rng.standard_normal((samples, d))
    labels = teacher(x[:, 0]) + NOISE * rng.standard_normal(samples)
    fresh = rng.standard_normal((TEST_SAMPLES, d), dtype=np.float32)
    target = teacher(fresh[:, 0])
    out = [
        ridge_errors(student.function(x @ rows.T), labels, student.function(fresh @ rows.T.astype(np.float32)), target)
        for rows in layers.values()
    ]
    return np.array(out, dtype=float)


def ridge_errors(features: Array, labels: Array, fresh: Array, target: Array) -> tuple[Array, Array]:
    """Return test and training errors of ridge fits, one a penalty; with as many features as dimensions."""
    d = features.shape[1]
    penalties = np.array(PENALTIES)[:, None, None] * d * np.eye(d)
    fit = np.linalg.solve(features.T @ features + penalties, (features.T @ labels)[:, None])[..., 0].T
    train = np.mean((labels[:, None] - features @ fit) ** 2, axis=0)
    return np.mean((target[:, None] - fresh @ fit.astype(fresh.dtype)) ** 2, axis=0), train


def run(path: Path, d: int, seeds: int, kinds: Sequence[str], only: str) -> None:
    """Measure the settings that `path` lacks, a line of JSON each."""
    done = {tuple(line["setting"]) for line in _lines(path)} if path.exists() else set()
    for setting in SETTINGS:
        if setting in done or only not in " ".join(map(str, setting)):
            continue
        start = time.perf_counter()
        values = np.array([errors(setting, d, seed, kinds) for seed in range(seeds)])
        with path.open("a") as file:
            file.write(json.dumps({"setting": setting, "d": d, "errors": np.round(values, 7).tolist()}) + "\n")
        print(*setting, f"{time.perf_counter() - start:.0f} s", flush=True)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _problems(setting: Setting, d: int) -> list[Problem]:
    return [
        Problem(
            activation=setting.activation,
            teacher=STUDENTS[setting.activation].teacher,
            d=d,
            width=d,
            n_step=int(setting.ratio * d),
            n=int(SAMPLES * d),
            eta=Step(setting.step, exponent=0.5),
            ridge=penalty * d,
            noise=NOISE,
            readout=setting.readout,
        )
        for penalty in PENALTIES
    ]


def theory_of(setting: Setting, d: int) -> Array:
    """Return predicted errors, shape (model, 2, penalty), of `structured`, `isotropic` and `fixed` rows."""
    problems = _problems(setting, d)
    models = (("network", "structured"), ("network", "isotropic"), ("isotropic", "isotropic"))
    return np.array(
        [
            [[p.test_error for p in predicted], [p.train_error for p in predicted]]
            for rows, bulk in models
            for predicted in [predict_many(problems, rows=rows, bulk=bulk)]
        ]
    )


def _spread(setting: Setting, d: int) -> Array:
    """Return predicted standard deviations over draws, shape (2, penalty), of the errors as they are measured."""
    spreads = [predict_spread(problem) for problem in _problems(setting, d)]
    test = [np.hypot(s.test_error, s.squared_error / TEST_SAMPLES**0.5) for s in spreads]
    return np.array([test, [s.train_error for s in spreads]])


class _Measured(NamedTuple):
    """One setting: networks, per cent of their mean; shapes end with (test or training error, penalty)."""

    setting: Setting
    d: int
    mean: Array
    error: Array
    replaced: Array  # (kind, ...): replaced rows over the network, less one, on the same draws
    replaced_error: Array
    deviation: Array  # standard deviation over draws

    @classmethod
    def of(cls, line: dict[str, Any]) -> _Measured:
        values = np.array(line["errors"])
        network, count = values[:, 0], len(values)
        mean = network.mean(axis=0)
        paired = 100 * (values[:, 1:] - values[:, :1]) / mean
        return cls(
            Setting(*line["setting"]),
            line["d"],
            mean,
            network.std(axis=0, ddof=1) / count**0.5,
            paired.mean(axis=0),
            paired.std(axis=0, ddof=1) / count**0.5,
            100 * network.std(axis=0, ddof=1) / mean,
        )

    def row(self) -> dict[str, Any]:
        """Return what the docs show: the middle one of the penalties."""
        row = {
            "activation": self.setting.activation,
            "teacher": STUDENTS[self.setting.activation].teacher,
            "readout": self.setting.readout,
            "n_step_per_d": self.setting.ratio,
            "eta_over_sqrt_width": self.setting.step,
            "large_step": self.setting.step == max(STEPS),
            "d": self.d,
        }
        for index, name in enumerate(("test_error", "train_error")):
            cell = (index, 1)
            mean, error = self.mean[cell], self.error[cell]
            row[name] = {"mean": round(mean, 5), "error": round(error, 5), "percent": round(100 * error / mean, 2)}
            for kind, off, error in zip(ROWS[1:], self.replaced, self.replaced_error, strict=False):
                row[name][f"replaced_{kind}"] = {"off": round(off[cell], 2), "error": round(error[cell], 2)}
            row[name]["deviation"] = round(self.deviation[cell], 2)
        return row


def with_theory(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table with what theory predicts, in per cent of the network's mean."""
    found = Setting(row["activation"], row["readout"], row["n_step_per_d"], row["eta_over_sqrt_width"])
    predicted, spread = theory_of(found, row["d"])[..., 1], _spread(found, row["d"])[:, 1]
    result = dict(row)
    for index, name in enumerate(("test_error", "train_error")):
        mean = row[name]["mean"]
        off = (round(100 * (value / mean - 1), 2) for value in predicted[:, index].tolist())
        result[name] = row[name] | dict(
            zip(MODELS, off, strict=True), spread=round(100 * float(spread[index]) / mean, 2)
        )
    return result


def summary_of(rows: list[dict[str, Any]], with_size: list[dict[str, Any]], seeds: int) -> dict[str, Any]:
    """Return how near theory is to the networks, at the middle penalty: pairs are of test and training errors."""
    names = ("test_error", "train_error")

    def numbers(of: list[dict[str, Any]], key: str) -> Array:
        return np.array([[row[name][key] for name in names] for row in of], float)

    def misses(of: list[dict[str, Any]], model: str) -> Array:
        off = np.abs(numbers(of, model))
        return (off > 1.5) & (off > 250 * numbers(of, "error") / numbers(of, "mean"))

    summary: dict[str, Any] = {}
    for model in MODELS:
        off = np.abs(numbers(rows, model))
        summary[model] = {
            "within": np.round(100 * (1 - misses(rows, model).mean(axis=0)), 1).tolist(),
            "median": np.round(np.median(off, axis=0), 2).tolist(),
            "largest": np.round(off.max(axis=0), 1).tolist(),
        }
    ratio = numbers(rows, "spread") / numbers(rows, "deviation")
    summary["spread"] = {
        "median": np.round(100 * (np.median(ratio, axis=0) - 1), 1).tolist(),
        "scatter": np.round(100 * ratio.std(axis=0), 1).tolist(),
        "largest": np.round(100 * np.abs(ratio - 1).max(axis=0), 1).tolist(),
        # Of a standard deviation measured on as many Gaussian numbers.
        "by_chance": round(100 / (2 * seeds) ** 0.5, 1),
    }
    # What still misses the bound at the largest size at which a setting was measured.
    by_size = sorted([*rows, *with_size], key=lambda row: row["d"])
    final = list({tuple(row[key] for key in SETTING_KEYS): row for row in by_size}.values())
    summary["left"] = {
        "count": int(misses(final, "structured").sum()),
        "of": 2 * len(final),
        "size": by_size[-1]["d"],
    }
    return summary


def predict_again(path: Path) -> None:
    """Put the theory of today beside the measurements of a table."""
    content = json.loads(path.read_text())
    for part in ("rows", "with_size"):
        content[part] = [with_theory(row) for row in content[part]]
    content["summary"] |= summary_of(content["rows"], content["with_size"], content["settings"]["seeds"])
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content["summary"], indent=1))


def _diagonal_row(line: dict[str, Any]) -> dict[str, Any]:
    """Return what the diagonal changes, in per cent of the network, for the docs."""
    setting, values = Setting(*line["setting"]), np.array(line["errors"])
    paired = 100 * (values[:, 1] - values[:, 0]) / values[:, 0].mean(axis=0)
    off, error = paired.mean(axis=0)[:, 1], paired.std(axis=0, ddof=1)[:, 1] / len(values) ** 0.5
    row = {"activation": setting.activation, "readout": setting.readout, "n_step_per_d": setting.ratio}
    for index, name in enumerate(("test_error", "train_error")):
        row[name] = {"off": round(off[index], 2), "error": round(error[index], 2)}
    return row


def table(out: Path, first: Path, larger: Path, diagonal: Path) -> None:
    """Write theory beside the measurements: all settings at one size, some at a larger one."""
    measured = [_Measured.of(line) for line in _lines(first)]
    # The network against Gaussian rows of the same covariance, both on the same draws.
    gaussian = np.array([(m.replaced[0], m.replaced_error[0]) for m in measured])
    off = np.abs(gaussian[:, 0])
    summary: dict[str, Any] = {"values": int(off[:, 0].size), "penalties": PENALTIES}
    summary["gaussian"] = {
        "within": np.round(100 * ((off <= 1.5) | (off <= 2.5 * gaussian[:, 1])).mean(axis=(0, 2)), 1).tolist(),
        "median": np.round(np.median(off, axis=(0, 2)), 2).tolist(),
        "largest": np.round(off.max(axis=(0, 2)), 1).tolist(),
    }
    sizes = [_Measured.of(line) for line in _lines(larger)]
    again = {m.setting for m in sizes}
    with_size = sorted(
        [m for m in [*measured, *sizes] if m.setting in again], key=lambda m: (SETTINGS.index(m.setting), m.d)
    )
    line = _lines(first)[0]
    settings = {
        "command": "python -m benchmarks.bulk_terms",
        "d": line["d"],
        "width": line["d"],
        "n": f"{SAMPLES} d",
        "noise": NOISE,
        "ridge": f"{PENALTIES[1]} d",
        "seeds": len(line["errors"]),
    }
    content = {
        "settings": settings,
        "summary": summary,
        "rows": [m.row() for m in sorted(measured, key=lambda m: SETTINGS.index(m.setting))],
        "with_size": [m.row() for m in with_size],
        "diagonal": [_diagonal_row(line) for line in _lines(diagonal)],
    }
    out.write_text(json.dumps(content, indent=1) + "\n")
    predict_again(out)


def main() -> None:
    """Measure, or put theory beside what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("run")
    measure.add_argument("path", type=Path)
    measure.add_argument("--d", type=int, default=256)
    measure.add_argument("--seeds", type=int, default=300)
    measure.add_argument("--rows", choices=("all", "network", "diagonal"), default="all")
    measure.add_argument("--only", default="", help="settings that hold this text, as in 'relu gaussian 4.0'")
    compare = commands.add_parser("table")
    compare.add_argument("out", type=Path)
    compare.add_argument("first", type=Path)
    compare.add_argument("--larger", type=Path, required=True)
    compare.add_argument("--diagonal", type=Path, required=True)
    commands.add_parser("theory").add_argument("path", type=Path)
    options = parser.parse_args()
    if options.command == "theory":
        predict_again(options.path)
    elif options.command == "run":
        kinds = {"all": ROWS, "network": ROWS[:1], "diagonal": ("network", "diagonal")}[options.rows]
        run(options.path, options.d, options.seeds, kinds, options.only)
    else:
        table(options.out, options.first, options.larger, options.diagonal)


if __name__ == "__main__":
    main()
