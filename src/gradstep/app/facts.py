"""Collect what the page starts from, in a worker: the server itself imports none of the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradstep import __version__
from gradstep.app.openapi import DOCUMENT
from gradstep.app.presets import elsewhere, presets
from gradstep.app.settings import AXES, DEFAULT
from gradstep.gaussian import REGISTERED
from gradstep.problem import CONVENTION
from gradstep.typesetting import to_html, to_plain

#: Fields of a figure that hold words.
_WORDS = ("title", "note", "stated", "ours", "summary", "reason")


def start() -> dict[str, Any]:
    """Return axes, the first setting, functions by name, presets, figures that are none, and the words of these."""
    found = presets()
    others = elsewhere(found)
    return {
        "version": __version__,
        "convention": CONVENTION,
        "axes": AXES,
        "default": DEFAULT,
        "functions": list(REGISTERED),
        "presets": found,
        "elsewhere": others,
        "typeset": _typeset(found, others),
    }


def _typeset(found: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return what is written of the figures as HTML and as plain text with the formulas typeset, by the text itself."""
    texts = [figure[name] for figure in [*found, *others] for name in _WORDS if name in figure]
    texts += [setting["label"] for figure in found for setting in figure["settings"]]
    return {text: {"html": to_html(text), "plain": to_plain(text)} for text in texts if to_plain(text) != text}


def openapi() -> Mapping[str, Any]:
    """Return the description of the interface."""
    return DOCUMENT
