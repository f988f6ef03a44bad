"""What theory lacks after a large step on few samples: features put together from the real rows, piece by piece.

``python -m benchmarks.quadratic_part FILE`` writes what the docs show. On each draw the network meets
features that share its rows and differ in what is quadratic in the bulk:

``linear``
    It is independent noise, as in theory.
``pairs``
    It is linear in Gaussian inputs, one for each pair of the leading directions of the rows, with independent
    coefficients of the right variances and their mean over the neurons.
``products``
    The same inputs, with the rows' own coefficients: products of their components.
``quadratic``
    The inputs are the quadratic polynomials themselves.

What is of higher order, or in the other directions, is independent noise in all of them.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.bulk_terms import (
    NOISE,
    PENALTIES,
    SAMPLES,
    STUDENTS,
    TEACHERS,
    TEST_SAMPLES,
    Setting,
    first_layers,
    ridge_errors,
    theory_of,
)
from threadpoolctl import threadpool_limits

from gradstep.gaussian import hermite_smoothed, scalar_function, smoothed

Array = np.ndarray
#: Where the gap is largest.
SETTING = Setting("relu", "constant", 0.25, 3.0)
KINDS = ("network", "linear", "pairs", "products", "quadratic")


def errors_of_one_draw(seed: int, d: int) -> Array:
    """Return test and training errors on one draw, shape (kind, 2, penalty)."""
    rng = np.random.default_rng([seed, d])
    rows = first_layers(SETTING, d, rng, ("network",))["network"]
    activation, student = scalar_function(SETTING.activation), STUDENTS[SETTING.activation]
    # With one readout for all neurons their mean points along the spike.
    spike = rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0))
    projection = rows @ spike
    rest = rows - np.outer(projection, spike)
    norm = np.linalg.norm(rest, axis=1)
    unit = rest / norm[:, None]
    leading = np.linalg.eigh(unit.T @ unit)[1][:, ::-1][:, : int(SETTING.ratio * d) + 8]
    first, second = np.triu_indices(leading.shape[1])
    equal, components = first == second, unit @ leading
    power = (components**2).mean(axis=0)
    products = components[:, first] * components[:, second] * np.where(equal, 1, 2**0.5)
    common = np.where(equal, power[first], 0.0)
    drawn = rng.standard_normal(products.shape) * (2 * power[first] * power[second]) ** 0.5
    pairs = common + drawn * (1 - (common**2).sum()) ** 0.5

    def features(x: Array) -> list[Array]:
        along = (x @ spike)[:, None] * projection
        mean, slope, curvature = hermite_smoothed(activation, along, norm, 2)
        variance = smoothed(activation, along, norm).second_moment - mean**2 - slope**2
        base, noise = mean + slope * (x @ unit.T), rng.standard_normal(along.shape)
        coordinates = x @ leading
        polynomials = coordinates[:, first] * coordinates[:, second]
        polynomials[:, equal] = (polynomials[:, equal] - 1) / 2**0.5
        gaussian = rng.standard_normal(polynomials.shape)
        found = [student.function(x @ rows.T), base + np.sqrt(np.maximum(variance, 0)) * noise]
        for inputs, coefficients in ((gaussian, pairs), (gaussian, products), (polynomials, products)):
            left = variance - curvature**2 * (coefficients**2).sum(axis=1)
            found.append(base + curvature * (inputs @ coefficients.T) + np.sqrt(np.maximum(left, 0)) * noise)
        return found

    x, fresh = rng.standard_normal((int(SAMPLES * d), d)), rng.standard_normal((TEST_SAMPLES, d))
    teacher = TEACHERS[student.teacher]
    y, target = teacher(x[:, 0]) + NOISE * rng.standard_normal(len(x)), teacher(fresh[:, 0])
    both = zip(features(x), features(fresh), strict=True)
    return np.array([ridge_errors(trained, y, tested, target) for trained, tested in both])


def measure(d: int, seeds: int) -> dict[str, object]:
    """Return the content of the results file."""
    with threadpool_limits(1), ProcessPoolExecutor(2, initializer=threadpool_limits, initargs=(1,)) as pool:
        errors = np.array(list(pool.map(partial(errors_of_one_draw, d=d), range(seeds), chunksize=5)))
    network = errors[:, 0].mean(axis=0)
    off = {"theory": (theory_of(SETTING, d)[0] - network, errors[:, 0] - network)}
    for k, kind in enumerate(KINDS[1:], 1):
        paired = errors[:, k] - errors[:, 0]
        off[kind] = (paired.mean(axis=0), paired)
    rows = [
        {
            "features": kind,
            **{
                name: {
                    "off": (100 * mean / network)[i].round(2).tolist(),
                    "error": (100 * each.std(axis=0, ddof=1) / network / seeds**0.5)[i].round(2).tolist(),
                }
                for i, name in enumerate(("test_error", "train_error"))
            },
        }
        for kind, (mean, each) in off.items()
    ]
    settings = {
        "command": f"python -m benchmarks.quadratic_part FILE --d {d} --seeds {seeds}",
        **SETTING._asdict(),
        "d": d,
        "seeds": seeds,
        "penalties": PENALTIES,
    }
    return {"settings": settings, "rows": rows}


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=300)
    chosen = parser.parse_args()
    found = measure(chosen.d, chosen.seeds)
    chosen.file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
