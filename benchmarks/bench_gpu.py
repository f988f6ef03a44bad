"""The simulation on a graphics card against the card's own matrix products, stage by stage.

``run()`` returns rows as `benchmarks.run` prints them. The baseline of a seed is the time in which the card would do
the operations of its matrix products and factorisations at the rate that a large product has in this run:

=============================================== ======================= ============
work                                            operations              precision
=============================================== ======================= ============
pre-activations and gradient of the step        4 n_step N d            of the data
pre-activations of the features of the fit      2 n N d                 of the data
Gram matrix of the fit                          2 n N min(n, N)         double
Cholesky factor of it, and the inverse          min(n, N)^3             double
covariances of the neurons                      2 N^2 d                 double
=============================================== ======================= ============

All else (random numbers, their way to the card, activations, the population kernel) is not in it.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.bench_simulation import row

import gradstep as gs
from gradstep.simulation.backend import backend
from gradstep.simulation.instance import fit_sample
from gradstep.simulation.ridge import _accumulated, primal
from gradstep.simulation.streams import BLOCK_ROWS

Row = dict[str, Any]

#: Sizes d = N, each with n = n_step = 2 d, and whether NumPy measures the same seed.
SIZES = ((1024, True), (4096, True), (16384, False))
#: Side of the products that tell the rate of the card.
SIDE = 8192
RATE_NAME = "the same operations at the card's rate"


class Card:
    """A device, with what it is measured by."""

    def __init__(self, device: str, side: int) -> None:
        import torch

        self.torch, self.name = torch, device
        self.cuda = device.startswith("cuda")
        self.label = torch.cuda.get_device_name(device) if self.cuda else "processor"
        self.memory = backend(device, "float64").memory or float("nan")
        self.rates = {dtype: self._rate(getattr(torch, dtype), side) for dtype in ("float64", "float32")}

    def wait(self) -> None:
        """Wait until all work is done."""
        if self.cuda:
            self.torch.cuda.synchronize(self.name)

    def timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Return the wall time of a call, with all of its work done, and what it returned."""
        self.wait()
        start = time.perf_counter()
        found = call()
        self.wait()
        return time.perf_counter() - start, found

    def peak(self) -> float:
        """Return the largest memory held since the last call, in bytes, and give back what is held for later."""
        if not self.cuda:
            return float("nan")
        peak = float(self.torch.cuda.max_memory_allocated(self.name))
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats(self.name)
        return peak

    def _rate(self, dtype: Any, side: int) -> float:
        """Return the operations a second of a square product of random numbers: the best of a few."""
        left, right = (self.torch.randn(side, side, dtype=dtype, device=self.name) for _ in range(2))
        times = [self.timed(lambda: left @ right)[0] for _ in range(6)]
        return 2.0 * side**3 / min(times[1:])


def problem(side: int, activation: str) -> gs.Problem:
    """Return the problem that is timed: d = N, and twice as many samples of the step and of the fit."""
    return gs.Problem(
        activation=activation,
        teacher="sin",
        d=side,
        width=side,
        n_step=2 * side,
        n=2 * side,
        eta=gs.Step(1.0, 0.5),
        ridge=1.0,
        noise=0.1,
    )


def least_time(card: Card, side: int, dtype: str) -> float:
    """Return the seconds of all operations of a seed at the rates of the card."""
    cube = float(side) ** 3
    return (4 * 2 + 2 * 2) * cube / card.rates[dtype] + (2 * 2 + 1 + 2) * cube / card.rates["float64"]


def stages(card: Card, side: int, activation: str, dtype: str) -> Iterator[tuple[str, float]]:
    """Yield the time of each stage of one seed, measured one after another."""
    elapsed, network = card.timed(lambda: gs.Network(problem(side, activation), 0, device=card.name, dtype=dtype))
    yield "draw of the first layer, and its way to the device", elapsed
    yield "step, with its samples", card.timed(lambda: network.after)[0]
    yield "spike and bulk of the rows", card.timed(lambda: network.spike)[0]
    network, spike = network.with_weights(network.after), network.spike
    elapsed, blocks = card.timed(lambda: list(network._design()))
    yield "samples of the fit, and their features", elapsed
    elapsed, sums = card.timed(lambda: _accumulated(lambda: iter(blocks)))
    yield "Gram matrix", elapsed
    blocks.clear()
    elapsed, found = card.timed(lambda: primal(*sums, (1.0,)))
    yield "Cholesky factor, inverse and readout", elapsed
    if found is not None:
        yield "exact test error", card.timed(lambda: network.risk(found[0], along=spike.direction))[0]


def drawing(card: Card, side: int) -> list[Row]:
    """Return rows on random numbers: by several threads over by one, and the way of a block to the device."""
    threads = backend(card.name, "float64").drawing_threads
    blocks = min(max(threads, 1), 2 * side // BLOCK_ROWS or 1)
    sample = fit_sample(0, blocks * BLOCK_ROWS, side)
    rates = {}
    for count in (1, threads):
        elapsed, _ = card.timed(lambda count=count: [None for _ in sample.blocks(count)])
        rates[count] = elapsed
    told = f"{blocks} blocks of {BLOCK_ROWS} x {side} random numbers"
    rows = [row(f"{told}, {threads} threads", rates[threads], rates[1], None) | {"baseline_name": "one thread"}]
    block, engine = next(sample.blocks())[0], backend(card.name, "float64")
    moved = min(card.timed(lambda: engine.data(block))[0] for _ in range(3))
    line = row(f"a block of {BLOCK_ROWS} x {side} to the device", moved, rates[1] / blocks, None)
    rows.append(line | {"baseline_name": "drawing it, one thread"})
    if card.cuda:
        host = card.torch.from_numpy(block)
        pinned, copy = card.timed(host.pin_memory)
        sent = min(card.timed(lambda: copy.to(card.name, non_blocking=True))[0] for _ in range(3))
        for name, elapsed in (("copied to pinned memory", pinned), ("from pinned memory to the device", sent)):
            rows.append(row(f"the same {name}", elapsed, moved, None) | {"baseline_name": "to the device directly"})
    return rows


def seed_rows(card: Card, side: int, activation: str, dtype: str, repetitions: int, host: bool) -> Iterator[Row]:
    """Yield rows on one seed: the whole, its memory, and the same on the processor."""
    asked, label = problem(side, activation), f"{activation}, d = N = {side}, n = n_step = {2 * side}, {dtype}"
    times = []
    for _ in range(repetitions):
        card.peak()
        elapsed, found = card.timed(lambda: gs.simulate(asked, 1, device=card.name, dtype=dtype))
        times.append(elapsed)
    peak, whole = card.peak(), min(times)
    yield row(f"simulate {label}", whole, least_time(card, side, dtype), None) | {
        "baseline_name": RATE_NAME,
        "times": times,
        "test_error": float(found["test_error"][0]),
    }
    yield row(f"peak memory, {label}", peak / 2**30, card.memory / 2**30, None, "GiB") | {"baseline_name": "the card's"}
    if host:
        elapsed, known = card.timed(lambda: gs.simulate(asked, 1, dtype=dtype))
        apart = {name: abs(float(found[name][0]) / float(known[name][0]) - 1) for name in ("test_error", "train_error")}
        line = row(f"simulate {label}", whole, elapsed, None)
        yield line | {"baseline_name": "NumPy on its processor", "apart": apart}
        path = [10.0**power for power in range(-3, 4)]
        elapsed, _ = card.timed(lambda: gs.simulate(asked, 1, ridge=path, device=card.name, dtype=dtype))
        yield row(f"{len(path)} penalties, {label}", elapsed, whole, None) | {"baseline_name": "one penalty"}


def stage_rows(card: Card, side: int, activation: str, dtype: str) -> Iterator[Row]:
    """Yield rows on the stages of one seed, as parts of their sum."""
    found = list(stages(card, side, activation, dtype))
    whole = sum(elapsed for _, elapsed in found)
    for name, elapsed in found:
        line = row(f"{name}: {activation}, d = N = {side}, {dtype}", elapsed, whole, None)
        yield line | {"baseline_name": "all stages"}
    card.peak()


@contextmanager
def going_on(what: str) -> Iterator[None]:
    """Say what is measured, and go on where it fails: a card is not always at hand."""
    print(f"{what} ...", file=sys.stderr, flush=True)
    try:
        yield
    except Exception:
        traceback.print_exc()


def run(device: str = "cuda", sizes: tuple[tuple[int, bool], ...] = SIZES, side: int = SIDE) -> list[Row]:
    """Measure everything; about two minutes on one H100 with 16 cores. No rows without a card."""
    rows: list[Row] = []

    def keep(found: Iterator[Row] | list[Row]) -> None:
        for line in found:
            rows.append({"better": "lower", **line})
            extra = {key: line[key] for key in ("times", "apart", "test_error") if key in line}
            told = f"{line['measured']:.4g} {line['unit']}, {line['baseline_name']} {line['baseline']:.4g}"
            print(f"  {line['name']}: {told}, ratio {line['ratio']:.3g} {extra or ''}", file=sys.stderr, flush=True)

    try:
        card = Card(device, side)
    except (ImportError, RuntimeError, AssertionError, gs.errors.GradstepError) as error:
        print(f"no graphics card: {error}", file=sys.stderr)
        return rows
    about = f"{card.label}, product of {side} x {side}"
    for dtype, rate in card.rates.items():
        line = row(f"{about}, {dtype}", rate / 1e12, card.rates["float64"] / 1e12, None, "TFLOP/s")
        keep([line | {"baseline_name": "float64", "better": "higher"}])
    gs.simulate(problem(256, "tanh"), 1, device=device)
    for size, host in sizes:
        for activation, dtype in (("erf", "float64"), ("tanh", "float64"), ("erf", "float32")):
            first = (activation, dtype) == ("erf", "float64")
            with going_on(f"{activation}, {size}, {dtype}"):
                keep(seed_rows(card, size, activation, dtype, 2 if first or size < 8192 else 1, host and first))
        with going_on(f"stages, {size}"):
            keep(stage_rows(card, size, "erf", "float64"))
    with going_on("stages of tanh"):
        keep(stage_rows(card, sizes[-1][0], "tanh", "float64"))
    with going_on("random numbers"):
        keep(drawing(card, sizes[-1][0]))
    return rows


if __name__ == "__main__":
    run()
