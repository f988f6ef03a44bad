"""Elementwise work on the rows of a block, in pieces that stay in the cache, on as many threads as BLAS uses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CHUNK_ROWS = 64


def for_rows(work: Callable[[slice], None], rows: int, threads: int | None) -> None:
    """Call ``work(slice)`` for consecutive slices that cover `rows` rows, under the caller's `numpy.errstate`.

    The work changes only the rows of its slice, so that the result depends neither on the order nor on the threads.
    If `threads` is None there is one slice of all rows, for libraries that divide the work themselves.
    """
    if threads is None:
        work(slice(0, rows))
        return
    slices = [slice(start, min(start + CHUNK_ROWS, rows)) for start in range(0, rows, CHUNK_ROWS)]
    if threads == 1:
        for part in slices:
            work(part)
        return
    # Other threads do not inherit the caller's error state.
    handling, called = np.geterr(), np.geterrcall()

    def handled(part: slice) -> None:
        with np.errstate(call=called, **handling):  # type: ignore[arg-type]  # what geterrcall returns
            work(part)

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(handled, slices):
            pass
