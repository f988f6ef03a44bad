"""Arrays of any library as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

__all__ = ["to_host"]


def to_host(values: Any) -> NDArray[np.float64]:
    """Return values of any array library, on any device, as a NumPy array in double precision."""
    if is_torch_array(values):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)
