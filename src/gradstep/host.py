"""Arrays of any library as NumPy arrays, and errors of PyTorch as those of NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

__all__ = ["host_errors", "to_host"]


def to_host(values: Any) -> NDArray[np.float64]:
    """Return values of any array library, on any device, as a NumPy array in double precision."""
    if is_torch_array(values):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)


@contextmanager
def host_errors() -> Iterator[None]:
    """Raise what NumPy raises where PyTorch has no memory left, or finds no decomposition; also a decorator."""
    try:
        yield
    except RuntimeError as error:
        torch = sys.modules.get("torch")
        if torch is None:
            raise
        # PyTorch has no type of error for a lack of the machine's own memory, only this text.
        if isinstance(error, torch.cuda.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate" in str(error):
            raise MemoryError(str(error)) from error
        if isinstance(error, torch.linalg.LinAlgError):
            raise np.linalg.LinAlgError(str(error)) from error
        raise
