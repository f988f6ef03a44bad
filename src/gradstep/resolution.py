"""Numbers that decide what is zero: one place for all that mean the same.

Tolerances that belong to one equation stand next to it.
"""

from __future__ import annotations

__all__ = ["LEAST_WITH_DIGITS", "NOTHING"]

#: A size below it is zero. It is the least divisor, too: a size divided by it stays in the range of floats.
NOTHING = 1e-300
#: Numbers below it, next to the least that floats have, have lost digits.
LEAST_WITH_DIGITS = 1e-290
