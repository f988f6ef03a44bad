r"""The law of the inputs: a spectrum in classes of directions, and where in it the teacher lies.

Inputs are :math:`x\sim N(0,C)` with :math:`\operatorname{tr}C=d`. A class is a set of eigenvectors of C that share an
eigenvalue. Rotations within a class change nothing, so that a law is three numbers for each class: its eigenvalue, its
share of the d directions, and its share of the variance of :math:`\langle\beta_*,x\rangle`, which is one in all.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from gradstep.checks import bounded, integer, is_infinite, real, size
from gradstep.errors import InvalidInput
from gradstep.sizes import apportioned

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from gradstep.input_estimate import EstimatedInputs

__all__ = ["Inputs", "rank_bounds"]

#: Relative deviation from one up to which numbers count as scaled already, so that reading them changes no digit.
_SCALED = 1e-11
#: Relative difference up to which eigenvalues are equal.
_EQUAL = 1e-12
#: Classes of a power law, and its largest exponent.
_CLASSES, _STEEPEST = 30, 20
#: Most directions of which a law is made one by one.
_MOST_DIRECTIONS = 1_000_000
_WRITTEN = (
    "'isotropic', 'power_law(0.5)', 'spiked([9, 9], d=300)', or a mapping with the lists eigenvalues and, if wanted, "
    "share, teacher"
)


@dataclass(frozen=True, repr=False)
class Inputs:
    r"""The spectrum of the inputs' covariance C, in classes of directions with one eigenvalue each.

    The classes are stored in decreasing order of their eigenvalues, and classes of equal eigenvalues as one. If all
    eigenvalues are equal the inputs are isotropic.

    Parameters
    ----------
    eigenvalues : sequence of float
        Eigenvalue of each class, at least zero. They are scaled so that ``sum(share * eigenvalues) == 1``, which is
        ``tr C = d``.
    share : sequence of float, optional
        Proportion of the directions in each class, scaled to sum to one; by default all are equal.
    teacher : sequence of float, optional
        Proportion of ``Var <beta*, x>`` in each class, scaled to sum to one. The default is in proportion to
        ``share * eigenvalues``: what a teacher has whose direction is drawn at random.

    Raises
    ------
    InvalidInput
        On lists of other lengths than `eigenvalues` and numbers out of range.

    Examples
    --------
    >>> import gradstep as gs
    >>> gs.Inputs([5, 1], share=[0.25, 0.75])
    Inputs((2.5, 0.5), share=(0.25, 0.75), teacher=(0.625, 0.375))
    >>> print(gs.Inputs.power_law(0.5, d=300))
    power_law(0.5, d=300)
    >>> round(gs.Inputs.power_law(0.5, d=300).effective_dimension, 2)  # as a share of d
    0.59
    """

    eigenvalues: tuple[float, ...]
    share: tuple[float, ...]
    teacher: tuple[float, ...]
    _text: str = field(default="", init=False, compare=False)

    def __init__(
        self, eigenvalues: Sequence[float], share: Sequence[float] | None = None, teacher: Sequence[float] | None = None
    ) -> None:
        values = _numbers("inputs.eigenvalues", eigenvalues)
        shares = [1.0] * len(values) if share is None else _numbers("inputs.share", share, len(values), positive=True)
        shares = _scaled(shares, math.fsum(shares))
        powers = [s * c for s, c in zip(shares, values, strict=True)]
        signal = powers if teacher is None else _numbers("inputs.teacher", teacher, len(values))
        for name, given, all_of_it in (("eigenvalues", eigenvalues, powers), ("teacher", teacher, signal)):
            if not math.fsum(all_of_it) > 0:
                raise InvalidInput(f"inputs.{name}", given, "numbers that are not all zero")
        if any(s > 0 and c == 0 for s, c in zip(signal, values, strict=True)):
            raise InvalidInput("inputs.teacher", teacher, "zero where the eigenvalue is zero: nothing varies there")
        values, signal = _scaled(values, math.fsum(powers)), _scaled(signal, math.fsum(signal))
        merged: list[list[tuple[float, float, float]]] = []
        for each in sorted(zip(values, shares, signal, strict=True), reverse=True):
            if not merged or each[0] < merged[-1][0][0] * (1 - _EQUAL):
                merged.append([])
            merged[-1].append(each)
        alone = len(merged) == 1
        object.__setattr__(self, "eigenvalues", (1.0,) if alone else tuple(members[0][0] for members in merged))
        for place, name in ((1, "share"), (2, "teacher")):
            sums = (math.fsum(each[place] for each in members) for members in merged)
            object.__setattr__(self, name, (1.0,) if alone else tuple(sums))

    # --- constructors ----------------------------------------------------------------------------------------------

    @classmethod
    def power_law(
        cls, exponent: float, teacher_exponent: float | None = None, *, d: float = math.inf, classes: int = _CLASSES
    ) -> Self:
        """Return eigenvalues that fall as a power of their rank, ``c_j ~ j**-exponent``.

        Parameters
        ----------
        exponent : float
            From 0 to 20, and below one without `d`.
        teacher_exponent : float, optional
            Direction j has a part of the teacher's variance in proportion to ``j**-teacher_exponent``. Zero spreads it
            evenly over all directions, a large one puts it on the leading ones and a negative one on the last. By
            default it is `exponent`: a teacher whose direction is drawn at random. Below one without `d`.
        d : int, optional
            Number of directions of which the law is the exact one, ``j = 1, ..., d``. Without it the law is that of
            many directions, ``c(t) ~ t**-exponent`` for t from 0 to 1.
        classes : int
            Number of classes at most. Ranks that are neighbours are put together, with the mean of their eigenvalues:
            with `d` in classes of equal width in ``log j``, without it in classes of equal shares.

        Raises
        ------
        InvalidInput
            On numbers out of range.
        """
        allowed = f"a number from 0 to {_STEEPEST}"
        exponent = real("exponent", exponent, allowed, lambda value: 0 <= value <= _STEEPEST)
        powers, arguments = [exponent, exponent], [f"{exponent!r}"]
        if teacher_exponent is not None:
            allowed = f"a number from -{_STEEPEST} to {_STEEPEST}"
            powers[1] = real("teacher_exponent", teacher_exponent, allowed, lambda value: abs(value) <= _STEEPEST)
            arguments.append(f"{powers[1]!r}")
        classes = integer("classes", classes, 1, _MOST_DIRECTIONS)
        if is_infinite(d):
            for name, power in zip(("exponent", "teacher_exponent"), powers, strict=True):
                if power >= 1:
                    raise InvalidInput(
                        name, power, "a number < 1; from 1 on the number of directions too, such as d=300"
                    )
            edges = list(pairwise(k / classes for k in range(classes + 1)))
            sums = [[high ** (1 - power) - low ** (1 - power) for low, high in edges] for power in powers]
            sizes = [1] * classes
        else:
            count = integer("d", d, 2, _MOST_DIRECTIONS)
            ranks = [range(low + 1, high + 1) for low, high in pairwise(rank_bounds(count, classes))]
            sums = [[math.fsum(j**-power for j in members) for members in ranks] for power in powers]
            sizes = [len(members) for members in ranks]
            arguments.append(f"d={count}")
        made = cls([total / size for total, size in zip(sums[0], sizes, strict=True)], sizes, sums[1])
        return made._called("power_law", *arguments, *([] if classes == _CLASSES else [f"classes={classes}"]))

    @classmethod
    def spiked(cls, strengths: Sequence[float], d: int, teacher: Sequence[float] | None = None) -> Self:
        r"""Return the spiked covariance :math:`C\propto I+\sum_k\theta_k v_kv_k^\top` of d directions.

        Parameters
        ----------
        strengths : sequence of float
            The :math:`\theta_k > -1`, each of one direction.
        d : int
            Number of directions, more than there are strengths.
        teacher : sequence of float, optional
            Part of the teacher's variance on each of them, at most one in all; the rest is on the other directions. By
            default the teacher's direction is drawn at random.

        Raises
        ------
        InvalidInput
            On numbers out of range.
        """
        spikes = [
            real("strengths", each, "numbers > -1", lambda value: -1 < value < math.inf)
            for each in _listed("strengths", strengths)
        ]
        count = integer("d", d, len(spikes) + 1, _MOST_DIRECTIONS)
        rest, signal = count - len(spikes), None
        if teacher is not None:
            signal = _numbers("teacher", teacher, len(spikes))
            left = 1 - math.fsum(signal)
            if left < -_SCALED:
                raise InvalidInput("teacher", teacher, "numbers of which the sum is at most one")
            signal = [*signal, max(left, 0.0)]
        made = cls([*(1 + each for each in spikes), 1.0], [*[1] * len(spikes), rest], signal)
        return made._called(
            "spiked", repr(spikes), f"d={count}", *([] if teacher is None else [f"teacher={list(teacher)!r}"])
        )

    @classmethod
    def from_data(
        cls, X: ArrayLike, y: ArrayLike | None = None, *, classes: int = 10, seed: int = 0
    ) -> EstimatedInputs:
        """Estimate the law of the inputs of a table, and the teacher's place and link from its labels.

        Eigenvalues are corrected for the size of the sample, and so is the part of the labels' linear dependence in
        each class. See :mod:`gradstep.input_estimate` for the method.

        Parameters
        ----------
        X : array_like, shape (rows, d)
            Inputs, at least 20 rows. Columns are centred, and all of them scaled together to ``tr C = d``.
        y : array_like, shape (rows,), optional
            Labels. Without them the teacher is one drawn at random.
        classes : int
            Number of classes at most: quantiles of the eigenvalues, single directions at the top.
        seed : int
            Of the blocks of rows of the jackknife.

        Returns
        -------
        EstimatedInputs
            With standard errors, and the link as a formula for ``Problem(teacher=...)``.

        Raises
        ------
        InvalidInput
            On other shapes, numbers that are not finite, and inputs that do not vary.

        Examples
        --------
        >>> import numpy as np, gradstep as gs
        >>> random = np.random.default_rng(0)
        >>> x = random.standard_normal((500, 40)) * np.repeat([2, 1], [10, 30])
        >>> found = gs.Inputs.from_data(x, np.tanh(x[:, 0]) + 0.1 * random.standard_normal(500))
        >>> found.teacher[0] > 0.5
        True
        """
        from gradstep.input_estimate import estimate

        return estimate(X, y, classes, seed)

    @classmethod
    def parse(cls, value: object) -> Inputs:
        """Read a law in any of its forms.

        Parameters
        ----------
        value : str, mapping or Inputs
            A constructor as text, ``"power_law(0.5)"`` or ``"spiked([9, 9], d=300)"``; or a mapping with the key
            ``eigenvalues`` and, if wanted, ``share`` and ``teacher``.

        Raises
        ------
        InvalidInput
            On anything else, and as the constructors.
        """
        if isinstance(value, Inputs):
            return value
        if isinstance(value, Mapping):
            if set(value) - {"eigenvalues", "share", "teacher"} or "eigenvalues" not in value:
                raise InvalidInput("inputs", dict(value), _WRITTEN)
            return cls(**value)
        if not isinstance(value, str):
            raise InvalidInput("inputs", value, _WRITTEN)
        made: dict[str, Callable[..., Inputs]] = {"power_law": cls.power_law, "spiked": cls.spiked}
        try:
            call = ast.parse(value.strip(), mode="eval").body
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                raise ValueError
            given = [ast.literal_eval(each) for each in call.args]
            named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
            return made[call.func.id](*given, **named)
        except InvalidInput as error:
            raise InvalidInput(f"inputs ({error.field})", error.value, error.allowed, error.reason) from None
        except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
            raise InvalidInput("inputs", value, _WRITTEN) from None

    # --- what it is at a dimension ---------------------------------------------------------------------------------

    def counts(self, d: int) -> tuple[int, ...]:
        """Return how many of d directions each class has.

        They are the integers nearest to ``share * d`` that sum to d (largest remainders). A class with a part of the
        teacher keeps one direction at least.

        Parameters
        ----------
        d : int
            Input dimension.

        Raises
        ------
        InvalidInput
            If there are more classes with a part of the teacher than directions.
        """
        d, needed = size("d", d), [int(part > 0) for part in self.teacher]
        if sum(needed) > d:
            raise InvalidInput(
                "d", d, f"at least {sum(needed)}, the number of classes that the teacher lies in, or fewer classes"
            )
        found = apportioned(self.share, d)
        for place, least in enumerate(needed):
            if found[place] < least:
                # From the class that has most, of which one direction is the smallest part.
                found[max(range(len(found)), key=lambda k: found[k] - needed[k])] -= 1
                found[place] += 1
        return tuple(found)

    def at_dimension(self, d: int) -> Inputs:
        """Return the law that d directions have: shares are `counts` over d, and eigenvalues are scaled to them.

        Parameters
        ----------
        d : int
            Input dimension.

        Raises
        ------
        InvalidInput
            As `counts`.
        """
        return _at_dimension(self, size("d", d))

    @property
    def is_isotropic(self) -> bool:
        """Whether all eigenvalues are equal."""
        return len(self.eigenvalues) == 1

    @property
    def effective_dimension(self) -> float:
        """``(tr C)^2 / (d tr C^2)``, from 0 to 1: the share of d that matters for how lengths fluctuate."""
        return 1 / math.fsum(s * c * c for c, s in zip(self.eigenvalues, self.share, strict=True))

    # --- reading and writing ---------------------------------------------------------------------------------------

    def to_plain(self) -> str | dict[str, list[float]]:
        """Return the form a settings file holds: the constructor as text, or three lists."""
        if self._text:
            return self._text
        return {name: list(getattr(self, name)) for name in ("eigenvalues", "share", "teacher")}

    def _called(self, name: str, *arguments: str) -> Self:
        object.__setattr__(self, "_text", f"{name}({', '.join(arguments)})")
        return self

    def __repr__(self) -> str:
        if self._text:
            return f"Inputs.{self._text}"
        return f"Inputs({self.eigenvalues}, share={self.share}, teacher={self.teacher})"

    def __str__(self) -> str:
        if self._text:
            return self._text
        if len(self.eigenvalues) <= 3:
            each = (f"{c:.4g} ({s:.3g} d)" for c, s in zip(self.eigenvalues, self.share, strict=True))
            return f"eigenvalues {', '.join(each)}"
        ends = f"{self.eigenvalues[0]:.3g} to {self.eigenvalues[-1]:.3g}"
        return f"{len(self.eigenvalues)} eigenvalues from {ends}, effective dimension {self.effective_dimension:.3g} d"


@lru_cache(maxsize=64)
def _at_dimension(inputs: Inputs, d: int) -> Inputs:
    kept = [each for each in zip(inputs.eigenvalues, inputs.counts(d), inputs.teacher, strict=True) if each[1]]
    return Inputs(*(list(column) for column in zip(*kept, strict=True)))


def rank_bounds(count: int, classes: int) -> list[int]:
    """Return 0 and the last ranks of classes of which the widths are even in the logarithm, single ranks at first."""
    return sorted({min(max(k, round(count ** (k / classes))), count) for k in range(1, classes + 1)} | {0})


def _numbers(name: str, given: object, length: int | None = None, *, positive: bool = False) -> list[float]:
    """Return finite numbers >= 0, or above it if `positive`, as a list: as many as there are classes."""
    values = [bounded(name, each, positive=positive) for each in _listed(name, given)]
    if not values or (length is not None and len(values) != length):
        raise InvalidInput(name, given, "at least one number" if length is None else f"{length} numbers")
    return values


def _listed(name: str, given: object) -> list[object]:
    """Return what a list, a tuple or an array holds."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(name, given, "a list of numbers")
    return list(given)


def _scaled(values: Sequence[float], total: float) -> list[float]:
    """Divide by a total, unless it is one but for rounding."""
    return list(values) if math.isclose(total, 1.0, rel_tol=_SCALED) else [value / total for value in values]
