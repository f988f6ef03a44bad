"""Random numbers that depend on the seed, the purpose and the block of rows, and on nothing else.

Every array of normals is drawn on the host, in blocks of `BLOCK_ROWS` rows, each block from its own stream. So the
numbers do not depend on the device, on the precision, on the memory at hand or on which worker draws them. Two
problems simulated with the same seed share their random numbers as far as their sizes allow: the first rows of a
larger sample are the rows of a smaller one, and likewise for the neurons of a wider network. Differences between such
problems are therefore paired, and much less noisy than the values themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 4096
"""Rows drawn and processed at a time: fixed, because it is part of what a seed means."""

#: Bytes that blocks drawn ahead may take together.
_AHEAD = 1 << 32

_ENTROPY = 0x67726164_73746570
"""Root of all streams of the package ("gradstep" in ASCII)."""


@dataclass(frozen=True)
class Drawing:
    """The way in which blocks are drawn; the numbers do not depend on it."""

    threads: int = 1  #: How many draw. With several of them the following blocks are drawn while one is in use.
    #: Returns memory for a block of a shape (rows, columns) in double precision.
    empty: Callable[[tuple[int, int]], NDArray[np.float64]] = np.empty


class Purpose(IntEnum):
    """The use of a random stream; the values are part of what a seed means."""

    WEIGHTS = 0
    READOUT = 1
    STEP_INPUTS = 2
    STEP_NOISE = 3
    FIT_INPUTS = 4
    FIT_NOISE = 5
    TEST_INPUTS = 6
    POOL_INPUTS = 7
    POOL_SIGNS = 8
    BASIS = 9
    TEACHER = 10
    ROWS = 11


def generator(seed: int, purpose: Purpose, block: int = 0, turn: int = 0) -> np.random.Generator:
    """Return the generator of one block of one purpose of one seed; turns count the samples of the same purpose."""
    key = (seed, int(purpose), block)
    sequence = np.random.SeedSequence(_ENTROPY, spawn_key=(*key, turn) if turn else key)
    return np.random.Generator(np.random.PCG64(sequence))


def normal_blocks(
    seed: int, purpose: Purpose, rows: int, columns: int, turn: int = 0, *, drawing: Drawing | None = None
) -> Iterator[NDArray[np.float64]]:
    """Yield a (rows, columns) matrix of independent standard normals, at most `BLOCK_ROWS` rows at a time."""
    drawing = drawing or Drawing()

    def drawn(block: int) -> NDArray[np.float64]:
        count = min(BLOCK_ROWS, rows - block * BLOCK_ROWS)
        return generator(seed, purpose, block, turn).standard_normal(out=drawing.empty((count, columns)))

    blocks = block_count(rows)
    ahead = min(drawing.threads, blocks, max(_AHEAD // (8 * BLOCK_ROWS * columns), 1))
    if ahead <= 1:
        yield from map(drawn, range(blocks))
        return
    pool = ThreadPoolExecutor(ahead)
    try:
        waiting = deque(pool.submit(drawn, block) for block in range(ahead))
        for block in range(ahead, blocks + ahead):
            following = waiting.popleft().result()
            if block < blocks:
                waiting.append(pool.submit(drawn, block))
            yield following
    finally:
        pool.shutdown(cancel_futures=True)


def block_count(rows: int) -> int:
    """Return the number of blocks `normal_blocks` yields."""
    return -(-rows // BLOCK_ROWS)
