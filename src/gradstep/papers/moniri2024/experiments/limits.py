"""The limits that the figures draw, as functions of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradstep.papers.moniri2024.gains import Delta, Lambda


def arguments(base: Mapping[str, Any]) -> dict[str, Any]:
    """Return functions, ratios, penalty and noise of settings under the names that the limits give them."""
    ratios = {name: base[name] for name in ("phi", "psi", "lam")}
    return {"sigma": base["activation"], "sigma_star": base["teacher"], **ratios, "sigma_eps": base["noise"]}


def limit(base: Mapping[str, Any], gain: str, l: int, **options: Any) -> float:  # noqa: E741
    """Return the gain with l spikes in training loss (``Delta``) or in test error (``Lambda``)."""
    return float({"Delta": Delta, "Lambda": Lambda}[gain](l, **arguments(base), **options))
