"""The errors gradstep raises; every one of them names what to change."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

#: Characters of a value that a message shows.
_SHOWN = 300
#: A number or a text of NumPy, which is meant as that of Python.
_SCALAR = re.compile(r"\bnp\.(?:float\d+|u?int\d+|longdouble|str_)\(([^()]*)\)")
#: How the list of names begins if it is the field itself that is misspelt; letters of the longest word.
_NAMES, _LONGEST_WORD = ("one of the parameters", "one of the fields"), 40
#: Reason of what was not given at all.
MISSING = "missing"
#: Reason of what an optional part of the package is needed for.
NOT_INSTALLED = "not installed"


class GradstepError(Exception):
    """Base class of every error raised on purpose by gradstep."""


class InvalidInput(GradstepError, ValueError):  # noqa: N818 - reads as what it says
    """A value that cannot be used, reported before any work starts.

    Parameters
    ----------
    field : str
        Name of the offending field or option.
    value : object
        The value that was given.
    allowed : str
        The range or the set of values that would have been accepted.
    reason : str, optional
        The reason why the value is not accepted, if it does not follow from what is allowed.
    """

    def __init__(self, field: str, value: object, allowed: str, reason: str = "") -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        self.reason = reason
        super().__init__(field, value, allowed, reason)

    def __str__(self) -> str:
        if self.reason == MISSING:
            return f"{self.field}: {MISSING}; allowed: {self.allowed}"
        if self.reason == NOT_INSTALLED:
            return f"{self.field}: needs a part of gradstep that is not installed; run: {self.allowed}"
        guess = f" (did you mean {self.guess}?)" if self.guess else ""
        if self.allowed.startswith(_NAMES):  # the name is at fault, not the value
            return f"{self.field}: not a known name{guess}; allowed: {self.allowed}"
        reason = f", {self.reason}" if self.reason else ""
        return f"{self.field}: got {_shown(self.value)}{reason}{guess}; allowed: {self.allowed}"

    @property
    def guess(self) -> str:
        """The allowed word that a misspelt one is close to; empty if there is none."""
        given = self.field if self.allowed.startswith(_NAMES) else self.value
        if not isinstance(given, str) or not 3 <= len(given) <= _LONGEST_WORD:
            return ""
        from difflib import get_close_matches

        # Words in brackets are explanations. A text of one piece is a description, one of several pieces lists choices.
        pieces = re.split(r",|;|\bor\b|\band\b", re.sub(r"\([^)]* [^)]*\)", "", self.allowed))
        words = [piece.split()[-1].strip("'") for piece in pieces if piece.split()] if len(pieces) > 1 else []
        words = [word for word in words if word.replace("-", "_").isidentifier()]  # an example such as 2*N^0.5 is none
        # Choices of several words; a power of N among examples is none.
        words += [word for word in re.findall("'([^']+)'", self.allowed) if not re.search(r"[*^]|sqrt", word)]
        # A word that is there already was meant: "max" in "max(x)". A comma inside brackets cuts a choice in two.
        present = {given, *re.findall(r"\w+", given)}
        known = [word for word in words if word not in present and word.count("(") == word.count(")")]
        spelled = [word for word in known if word.lower() == given.lower()]  # "ReLU" for "relu"
        longer = [word for word in known if given in word.split()]  # "noise" for "label noise"
        close = spelled or longer or get_close_matches(given, known, n=1, cutoff=0.65)
        return close[0] if close else ""


def missing_extra(field: str, extra: str) -> InvalidInput:
    """Return the error for what only an installation with an optional part can do: it says what to run."""
    return InvalidInput(field, NOT_INSTALLED, f'pip install "gradstep[{extra}]"', NOT_INSTALLED)


def optional_module(name: str, field: str, extra: str) -> Any:
    """Import a module that an optional part brings; without it raise the error that says what to run."""
    if find_spec(name) is None:
        raise missing_extra(field, extra)
    return import_module(name)


def _shown(value: object) -> str:
    """Return a value as a message shows it: not at any length, and whatever its own `repr` does."""
    try:
        text = repr(value)
    except Exception:  # an integer of thousands of digits, a class of the user's own
        return f"<{type(value).__name__}>"
    text = " ".join(text.split())  # arrays and tables have lines of their own
    text = _SCALAR.sub(r"\1", text)
    half = _SHOWN // 2
    return text if len(text) <= _SHOWN else f"{text[:half]} ... {text[-half:]}"


class NotConverged(GradstepError, RuntimeError):  # noqa: N818
    """A solver stopped before its true residual reached the tolerance, or found what means nothing.

    Parameters
    ----------
    solver : str
        Which equations were being solved.
    residual : float
        The true (undamped) residual reached.
    tolerance : float
        The residual that was asked for.
    advice : str
        A change that may help.
    reason : str, optional
        The defect of a solution that was found but is wrong. `residual` and `tolerance` are then the size of this
        defect, and the bound beyond which the solution means nothing.
    """

    def __init__(self, solver: str, residual: float, tolerance: float, advice: str, reason: str = "") -> None:
        self.solver = solver
        self.residual = residual
        self.tolerance = tolerance
        self.advice = advice
        self.reason = reason
        super().__init__(solver, residual, tolerance, advice, reason)

    def __str__(self) -> str:
        reason = self.reason or f"did not converge: residual {self.residual:.2e} above {self.tolerance:.0e}"
        return f"{self.solver} {reason}. {self.advice}"


@contextmanager
def within_range(work: str) -> Iterator[None]:
    """Turn what linear algebra and arithmetic raise on numbers out of range into `NotConverged`; also a decorator.

    The work that is being done is for the message.
    """
    try:
        yield
    except Exception as error:
        from numpy.linalg import LinAlgError  # here: the command line shows its help without NumPy

        if not isinstance(error, LinAlgError | ArithmeticError):
            raise
        advice = f"Numbers left the range of double precision ({error}): use less extreme settings."
        raise NotConverged(work, math.nan, 1e-10, advice) from None
