"""A paper's names in the errors of the theory that its functions call, which has names of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from gradstep.errors import InvalidInput

__all__ = ["in_cui2024"]

P = ParamSpec("P")
R = TypeVar("R")

_CUI2024 = {
    "step_size": "eta_tilde",
    "step_sample_ratio": "alpha0",
    "sample_ratio": "alpha",
    "width_ratio": "beta",
    "penalty": "lam",
    "noise": "sigma_eps",
    "strength": "r",
    "bulk_variance": "c",
    "alignment": "gamma",
}


def in_cui2024(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of Cui et al. 2024: errors about a field of the theory name the paper's parameter.

    Parameters
    ----------
    function : callable
        A function whose parameters have the paper's names.

    Returns
    -------
    callable
        The same function; fields for which the paper has no name keep theirs.
    """
    return _renaming(function, _CUI2024)


def _renaming(function: Callable[P, R], names: Mapping[str, str]) -> Callable[P, R]:
    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except InvalidInput as error:
            if error.field not in names:
                raise
            raise InvalidInput(names[error.field], error.value, error.allowed, error.reason) from None

    return called
