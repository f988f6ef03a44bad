"""The simulation on a graphics card against the card's own matrix products, stage by stage.

``run()`` yields rows as `benchmarks.run` prints them, beginning with the stages of the largest size. The baseline of a
seed is the time in which the card would do the operations of its matrix products and factorisations at the rate that a
large product has in this run:

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
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from benchmarks.bench_simulation import row

import gradstep as gs
from gradstep.simulation.backend import backend
from gradstep.simulation.instance import fit_sample
from gradstep.simulation.ridge import _accumulated, primal, triangular
from gradstep.simulation.streams import BLOCK_ROWS, Drawing

Row = dict[str, Any]

#: Sizes d = N, each with n = n_step = 2 d: one that a card alone does, and those that NumPy does too.
LARGE, SIZES = 16384, (4096, 1024)
#: Seconds: what is expected to end later is left out.
BUDGET = 95.0
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
    elapsed, found = card.timed(lambda: primal(*sums, (1.0,)))
    yield "Cholesky factor, inverse and readout", elapsed
    if found is None:
        print("the Cholesky factor was not trusted", file=sys.stderr)
    else:
        yield "exact test error", card.timed(lambda: network.risk(found[0], along=spike.direction))[0]
    if side <= max(SIZES):
        label = "in place of Cholesky: triangular factor and singular values"
        yield label, card.timed(lambda: triangular(lambda: iter(blocks), (1.0,)))[0]


def drawing(card: Card, side: int) -> Iterator[Row]:
    """Yield rows on random numbers: by several threads, into new memory or such that is kept, and on their way."""
    engine, about = backend(card.name, "float64"), f"a block of {BLOCK_ROWS} x {side}"
    threads, kept = engine.drawing.threads, engine.drawing.empty
    sample = fit_sample(0, min(threads, 8) * BLOCK_ROWS, side)

    def drawn(way: Drawing, count: int) -> float:
        blocks = islice(sample.blocks(way), count)
        return card.timed(lambda: deque(blocks, maxlen=0))[0] / count

    drawn(Drawing(1, kept), 1)
    alone = drawn(Drawing(1, kept), 1)
    named = {"baseline_name": "one thread, memory that is kept"}
    yield row(f"{about} drawn by one thread into new memory", drawn(Drawing(1), 1), alone, None) | named
    for name, memory in (("memory that is kept", kept), ("new memory", np.empty)):
        elapsed = drawn(Drawing(threads, memory), min(threads, 8))
        yield row(f"{about} drawn by {threads} threads into {name}", elapsed, alone, None) | named
    for name, memory in (("memory that is kept", kept), ("new memory", np.empty)):
        block = memory((BLOCK_ROWS, side))
        block.fill(1.0)
        moved = min(card.timed(lambda block=block: engine.data(block))[0] for _ in range(2))
        yield row(f"{about} to the device from {name}", moved, alone, None) | {"baseline_name": "drawing it"}


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
    """Yield rows on the stages of one seed, each as soon as it is known."""
    least = least_time(card, side, dtype)
    for name, elapsed in stages(card, side, activation, dtype):
        line = row(f"{name}: {activation}, d = N = {side}, {dtype}", elapsed, least, None)
        yield line | {"baseline_name": f"a seed, {RATE_NAME}"}
    card.peak()


@contextmanager
def going_on(what: str) -> Iterator[None]:
    """Say what is measured, and go on where it fails: a card is not always at hand."""
    print(f"{what} ...", file=sys.stderr, flush=True)
    try:
        yield
    except Exception:
        traceback.print_exc()


def told(line: Row) -> Row:
    """Print a row, and return it with all that the table needs."""
    extra = {key: line[key] for key in ("times", "apart", "test_error") if key in line}
    about = f"{line['measured']:.4g} {line['unit']}, {line['baseline_name']} {line['baseline']:.4g}"
    print(f"  {line['name']}: {about}, ratio {line['ratio']:.3g} {extra or ''}", file=sys.stderr, flush=True)
    return {"better": "lower", **line}


def run(
    device: str = "cuda", large: int = LARGE, sizes: tuple[int, ...] = SIZES, side: int = SIDE, budget: float = BUDGET
) -> Iterator[Row]:
    """Yield all rows, within the budget of time; none without a card."""
    began = time.perf_counter()
    try:
        card = Card(device, side)
    except (ImportError, RuntimeError, AssertionError, gs.errors.GradstepError) as error:
        print(f"no graphics card: {error}", file=sys.stderr)
        return
    about = f"{card.label}, product of {side} x {side}"
    for dtype, rate in card.rates.items():
        line = row(f"{about}, {dtype}", rate / 1e12, card.rates["float64"] / 1e12, None, "TFLOP/s")
        yield told(line | {"baseline_name": "float64", "better": "higher"})
    gs.simulate(problem(256, "tanh"), 1, device=device)

    def part(what: str, rows: Iterator[Row], expected: float) -> Iterator[Row]:
        if time.perf_counter() - began + expected > budget:
            print(f"{what}: left out, for want of time", file=sys.stderr, flush=True)
            return
        with going_on(what):
            yield from map(told, rows)

    start = time.perf_counter()
    yield from part(f"stages, {large}", stage_rows(card, large, "erf", "float64"), 0.0)
    once = time.perf_counter() - start
    for size in sizes:
        yield from part(f"erf, {size}", seed_rows(card, size, "erf", "float64", 2, True), 12.0)
        yield from part(f"stages, {size}", stage_rows(card, size, "erf", "float64"), 5.0)
    repetitions = 2 if once < 15 else 1
    yield from part(f"erf, {large}", seed_rows(card, large, "erf", "float64", repetitions, False), repetitions * once)
    yield from part(f"random numbers, {large}", drawing(card, large), 10.0)
    yield from part(f"erf, {large}, float32", seed_rows(card, large, "erf", "float32", 1, False), once)
    yield from part(f"tanh, {large}", seed_rows(card, large, "tanh", "float64", 1, False), 1.5 * once)


if __name__ == "__main__":
    list(run())
