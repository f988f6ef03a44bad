"""Set the number of threads that BLAS uses: one where matrices are small.

Several threads wait for each other many times in one operation. Where another process holds one of the cores, each of
these waits may take a time slice of the system, some milliseconds: what one thread ends in a millisecond then takes ten
or a hundred times as long, and on an idle machine it gains little. Measured on two cores, time with two threads over
time with one:

================================= ========= ==================================
matrices                          idle      one core held by another process
================================= ========= ==================================
products, 128 to 256 square       .6 to .8  9 to 14
product, 512 square               .6        1.9
products, (4096, 256) with 256^2  .5 to .8  1.0
products, 1024 square             .6        1.3
factorisations, order 128 to 256  .6 to 2.7 1.1 to 24
factorisations, order 512         .9 to 1.2 1.5 to 2.7
factorisations, order 1024        .9 to 1.0 1.1 to 1.3
================================= ========= ==================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Multiplications in a product from which several threads pay: one thread does them in about 5 ms.
_PRODUCT = 2.5e8
#: Order of a matrix from which its factorisation gains by several threads.
_ORDER = 1000


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries of NumPy and of SciPy, which has one of its own; finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401  # a library can be found when it is loaded

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def blas_threads() -> int:
    """Return the number of threads BLAS is allowed to use now."""
    return max((int(library.num_threads or 1) for library in _libraries()), default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread inside; also a decorator.

    The number may belong to the whole process. Where several Python threads are inside, it is put back when the one
    that changed it leaves. Another may then end its work on more threads, but none puts back what it has not changed.
    """
    changed = []
    for library in _libraries():
        number = library.num_threads
        if number not in (None, 1) and _use(library, 1):
            changed.append((library, number))
    try:
        yield
    finally:
        for library, number in changed:
            _use(library, number)


def _use(library: Any, number: int) -> bool:
    """Set a library's number of threads and return whether that worked: another Python thread may have claimed it."""
    library.set_num_threads(number)
    if hasattr(library, "clear_controlling_thread"):  # newer versions of threadpoolctl give the claim to whoever sets
        library.clear_controlling_thread()
    return bool(library.num_threads == number)


def threads_for_products(rows: int, inputs: int, width: int) -> AbstractContextManager[None]:
    """Let BLAS use one thread inside where the products of a network are small, and leave it its threads otherwise.

    The largest number of samples in one product is `rows`, `inputs` is their dimension ``d``, and `width` is ``N``:
    inputs (rows, d) meet weights (d, N), and features (rows, N) each other.
    """
    largest = rows * width * max(inputs, min(rows, width))
    return one_thread() if largest < _PRODUCT else nullcontext()


def threads_for_factorisation(order: int) -> AbstractContextManager[None]:
    """Let BLAS use one thread inside where a matrix to be factorised is small, and leave it its threads otherwise.

    Its rows or columns, whichever are fewer, are `order`.
    """
    return one_thread() if order < _ORDER else nullcontext()
