"""Whether arrays can be held in memory, before any work."""

from __future__ import annotations

import math
import os

from gradstep.errors import InvalidInput


def check_fits(width: int, needed: float, sizes: str) -> None:
    """Refuse a width for which the largest arrays do not fit in the machine's memory together.

    Parameters
    ----------
    width : int
    needed : float
        Bytes.
    sizes : str
        What they are for, in words.

    Raises
    ------
    InvalidInput
    """
    try:
        available = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        available = math.inf
    if needed > available:
        share = f"{needed / 2**30:.3g} GiB of {available / 2**30:.3g} GiB"
        raise InvalidInput("width", width, f"sizes that fit in memory ({sizes} and width = {width} need {share})")
