"""Collect what the page starts from, in a worker: the server itself imports none of the theory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradstep import __version__
from gradstep.app.openapi import DOCUMENT
from gradstep.app.presets import elsewhere, presets
from gradstep.app.settings import AXES, DEFAULT
from gradstep.gaussian import REGISTERED
from gradstep.problem import CONVENTION

__all__ = ["openapi", "start"]


def start() -> dict[str, Any]:
    """Return axes, the first setting, the functions known by name, the presets and the figures that are none."""
    found = presets()
    return {
        "version": __version__,
        "convention": CONVENTION,
        "axes": AXES,
        "default": DEFAULT,
        "functions": list(REGISTERED),
        "presets": found,
        "elsewhere": elsewhere(found),
    }


def openapi() -> Mapping[str, Any]:
    """Return the description of the interface."""
    return DOCUMENT
