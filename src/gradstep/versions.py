"""Versions of the packages behind a number."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

#: Looking one up reads the file system, which takes longer than a prediction.
_version = cache(version)


def versions(*more: str) -> dict[str, str]:
    """Return the versions of gradstep, NumPy and SciPy, and of more packages, by name."""
    return {name: _version(name) for name in ("gradstep", "numpy", "scipy", *more)}
