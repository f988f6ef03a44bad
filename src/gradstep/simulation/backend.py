"""The array library of a simulation: NumPy on the host (default), or PyTorch on a named device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.typing import NDArray

from gradstep.checks import one_of
from gradstep.errors import InvalidInput, missing_extra
from gradstep.host import to_host
from gradstep.simulation.streams import Drawing
from gradstep.threads import blas_threads

__all__ = ["Array", "Backend", "Precision", "backend", "to_host"]

Array: TypeAlias = Any
"""An array of any array-API library; all arrays of one computation come from the same one."""

Precision = Literal["float64", "float32"]
"""Names of the floating-point types of inputs, weights and features."""


@dataclass(frozen=True)
class Backend:
    """An array library with a device and the precision of the data."""

    xp: Any  #: Array-API namespace.
    device: Any = None  #: Device of that library; None is its default.
    #: Precision of inputs, weights and features. Factorisations and the population risk are always done in double.
    dtype: Precision = "float64"

    @property
    def threads(self) -> int | None:
        """Threads for elementwise work: as many as BLAS may use now, or None if the library divides the work itself."""
        return blas_threads() if self.xp is numpy_namespace else None

    @property
    def on_card(self) -> bool:
        """Whether a graphics card does the work, with memory of its own."""
        return getattr(self.device, "type", "cpu") != "cpu"

    @property
    def memory(self) -> float | None:
        """Bytes of memory of a graphics card; None if the work is done in that of the machine."""
        if not self.on_card:
            return None
        import torch

        return float(torch.cuda.get_device_properties(self.device).total_memory)

    @property
    def drawing(self) -> Drawing:
        """The way random numbers are drawn on the host: by one thread beside BLAS, by several for a graphics card."""
        return Drawing(blas_threads(), _pinned) if self.on_card else Drawing()

    def data(self, values: NDArray[np.float64]) -> Array:
        """Move host values to the device in the precision of the data."""
        return self.xp.astype(self.double(values), getattr(self.xp, self.dtype), copy=False)

    def double(self, values: Array) -> Array:
        """Move host or device values to the device in double precision."""
        return self.xp.asarray(values, dtype=self.xp.float64, device=self.device)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Allocate zeros in double precision."""
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)


def _pinned(shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return memory that a card reads at full speed, and that PyTorch keeps for the next block when this one is done.

    New memory may take longer to come from the system than to be filled with random numbers.
    """
    import torch

    try:
        memory = torch.empty(shape, dtype=torch.float64, pin_memory=True)
    except RuntimeError:  # a system may allow less of it than there is
        return np.empty(shape)
    return cast(NDArray[np.float64], memory.numpy())


def backend(device: str | None, dtype: str) -> Backend:
    """Choose the array library.

    The device is None for NumPy, and ``"cpu"``, ``"cuda"`` or ``"cuda:k"`` for PyTorch; the precision of the data is
    ``"float64"`` or ``"float32"``. Raises `InvalidInput` if the device is unknown or absent, the precision is unknown,
    or a device is given and PyTorch is not installed.
    """
    one_of("dtype", dtype, ("float64", "float32"))
    precision = cast(Precision, dtype)
    if device is None:
        return Backend(numpy_namespace, None, precision)
    allowed = "None (NumPy), or a PyTorch device: 'cpu', 'cuda' or 'cuda:k'"
    if not isinstance(device, str) or device.split(":")[0] not in ("cpu", "cuda"):
        raise InvalidInput("device", device, allowed)
    try:
        import array_api_compat.torch as torch_namespace
        import torch
    except ImportError:
        raise missing_extra("device", "torch") from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise InvalidInput("device", device, f"{allowed} present on this machine") from None
    return Backend(torch_namespace, torch.device(device), precision)
