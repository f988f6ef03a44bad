r"""Expected errors of ridge regression with n rows from a pool of M rows.

.. math:: \min_b \sum_{\mu\le n} |y_\mu - b^\top\phi_\mu|^2 + \Lambda |b|^2

The law of large numbers for many rows gives equations in the population (Docs, "Learning curve", equations (F1) and
(F2)). They are solved with the pool in its place, and the fluctuations of the pool are removed: one fit to the whole
pool, in which row m has the weight :math:`w_m`, stands for all fits to n rows. With
:math:`R=(\Lambda+\sum w\phi\phi^\top)^{-1}`, the leverages :math:`u=w\,\phi^\top R\phi` and :math:`\varrho=n/M` the
weights are the stationary point of

.. math::
   F=\sum_m\bigl[\varrho\ln w_m+(1-\varrho)\ln|1-w_m|\bigr]
   -\ln\det\Bigl(\Lambda+\sum_mw_m\phi_m\phi_m^\top\Bigr),

where :math:`(1-w_m)(1-u_m)=1-\varrho`. For n < M the function F is strictly concave in :math:`\ln w`. So there is one
solution, and Newton's method with a line search finds it. The errors need the inverse of the same matrix as Newton's
method, which is positive definite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from array_api_compat import device

from gradstep.errors import NotConverged
from gradstep.host import to_host
from gradstep.learning.conjugate_gradient import NotDefinite, conjugate_gradient
from gradstep.learning.diagonal import DiagonalResolvent
from gradstep.learning.equal_weights import equal_fits
from gradstep.learning.fixed_point import accelerated
from gradstep.learning.pool import Array, Pool
from gradstep.learning.resolvent import Resolvent, Summed
from gradstep.learning.rounded import RoundedResolvent, SingleResolvent

__all__ = ["TOLERANCE", "RowErrors", "TooFewRows", "WeightedFit", "diagonal_fits", "row_errors", "weighted_fit"]

#: Largest change of the logarithm of a weight by its own equation that is accepted, and relative residual at which the
#: equation of the errors counts as solved.
TOLERANCE = 1e-6
_NEWTON_STEPS = 60
#: Halvings of a step that is known to lead upwards, and of Newton's step for n > M, where nothing is known: one that is
#: still too long after these leads away.
_HALVINGS, _FEW_HALVINGS = 40, 4
#: Factor by which a plain step shortens the distance from the solution that makes it quicker than Newton's.
_QUICK = 0.3
_ROUNDING = "Use a larger ridge: rounding hides the solution."
_UNRESOLVED = (
    "Use fewer samples, down to the {rows} rows of the pool, or a larger ridge: rows are so unlike each other that the "
    "pool does not tell what more of them would bring."
)
#: Largest weight over n / M. Only extrapolation to n > M asks for more, of rows with a leverage of about M / (n - M).
LARGEST_WEIGHT = 4.0
#: Share of the rows that may have that weight. With more, estimates were up to 40 % off the errors of refits.
_MOST_CAPPED = 0.2
#: Largest change of the logarithm of a weight in one step.
_LONGEST_STEP = 3.0
#: Steps of many fits at once.
_COMMON_STEPS = 200
#: Largest number of samples over rows of the pool of these.
_LARGEST_RATIO = 1 - 1e-9
#: Least remainder of a row up to which its own terms may be taken out of sums in single precision: rounding grows like
#: the inverse of its square.
_LEAST_REMAINDER = 1e-2


class TooFewRows(NotConverged):
    """More than a fifth of the rows of a pool ask for the largest weight: it does not tell the errors of a pair."""


@dataclass(frozen=True, eq=False)
class WeightedFit:
    """A fit to the pool that stands for fits to n rows; or G of them, each with a column of all that has M rows."""

    ratio: Any  #: Number of samples over rows of the pool, n / M; of G fits shape (G,).
    weights: Array  #: Shape (M,) or (M, G).
    #: That of the fit with these weights: a `Resolvent`, a `RoundedResolvent` for weights (M, 1), or a
    #: `DiagonalResolvent` for G fits.
    resolvent: Any

    def columns(self, values: Array) -> Array:
        """Return values of the pool, with a last axis of length one if this fit has columns."""
        return values[..., None] if self.weights.ndim > 1 else values

    @property
    def bare_leverage(self) -> Array:
        """``phi^T R phi``, shape (M,)."""
        return self.resolvent.bare_leverage

    @cached_property
    def remainder(self) -> Array:
        """One less the leverage of each row in this fit, ``1 - u``, shape (M,)."""
        return 1 - self.weights * self.bare_leverage

    @cached_property
    def leverage(self) -> Array:
        """``V = phi^T R phi`` without the row itself: the leverage of a new row in a fit to n rows, shape (M,)."""
        return self.bare_leverage / self.remainder

    @cached_property
    def double(self) -> Array:
        """``phi^T R R phi`` with R without the row itself, shape (M,)."""
        return self.resolvent.double() / self.remainder**2

    @cached_property
    def rounded(self) -> WeightedFit:
        """This fit for several columns of values, with sums over pairs of rows in single precision where they may."""
        enough = float(self.resolvent.pool.xp.min(self.remainder)) > _LEAST_REMAINDER
        return WeightedFit(self.ratio, self.weights[:, None], RoundedResolvent(self.resolvent, single=enough))

    @property
    def missing(self) -> Any:
        """``M / n - 1``: how much more fits to n rows vary than the fit to the pool, as a share of the latter."""
        return 1 / self.ratio - 1

    def coupled(self, values: Array) -> Array:
        """Return the symmetric matrix S times values (M,).

        Docs, "Learning curve", equation (F6).
        """
        return self._coupled(values, symmetric=True)

    def _coupled(self, values: Array, *, symmetric: bool) -> Array:
        scale = self.weights / self.remainder
        return scale * self.resolvent.others(scale * values, symmetric=symmetric)

    def spread(self, values: Array) -> Array:
        """Return the matrix P times values (M,).

        Docs, "Learning curve", equation (F5).
        """
        scale = self.weights * self.remainder
        return self._coupled(scale * values, symmetric=False) / scale

    def gathered(self, values: Array) -> Array:
        """Return the transpose of the matrix P times values (M,).

        Docs, "Learning curve", equation (F5).
        """
        scale = self.weights * self.remainder
        return scale * self.coupled(values / scale)

    def solved(self, values: Array, tolerance: float = TOLERANCE, rows: Array | float = 1.0) -> Array:
        """Return ``(1 - (M/n - 1) P)^-1`` times values (M,), up to a relative residual.

        `rows` is one for those to which P is restricted, zero for the others. Docs, "Learning curve", equation (F5).
        Raises `NotConverged` if the residual stays above ten times the tolerance, or the matrix has a negative
        eigenvalue, which only happens for n > M or by rounding.
        """
        if isinstance(self.ratio, float) and self.ratio == 1:
            return values
        scale, solver = self.weights * self.remainder, "The equation of the errors of a learning curve"
        advice = _UNRESOLVED.format(rows=self.resolvent.pool.rows) if self._extrapolates else _ROUNDING
        try:
            solution, residual = conjugate_gradient(
                lambda v: v - self.missing * rows * self.coupled(rows * v),
                scale * values,
                1 + 0 * values,
                tolerance,
                certified=tolerance <= TOLERANCE,
            )
        except NotDefinite:
            raise NotConverged(solver, math.nan, tolerance, advice, "has no solution") from None
        if not residual <= 10 * tolerance:
            raise NotConverged(solver, residual, tolerance, advice)
        return solution / scale

    @property
    def _extrapolates(self) -> bool:
        return isinstance(self.ratio, float) and self.ratio > 1

    @cached_property
    def _denominator(self) -> Array:
        """``1 + (1 - n/M) V``, of which only n > M makes small or negative numbers, shape (M,)."""
        return 1 + (1 - self.ratio) * self.leverage

    @property
    def _capped(self) -> Array:
        """Rows whose own equation asks for more than the largest weight, shape (M,)."""
        return self._denominator < 1 / LARGEST_WEIGHT

    @cached_property
    def free(self) -> Array:
        """One for each row with the weight of its own equation, zero for those with the largest weight, shape (M,)."""
        xp = self.resolvent.pool.xp
        return xp.astype(xp.logical_not(self._capped), self.weights.dtype)

    @property
    def capped_share(self) -> float:
        """Share of the rows with the largest weight."""
        return 1 - float(self.resolvent.pool.xp.mean(self.free))

    @cached_property
    def own_weights(self) -> Array:
        """Weight of each row by its own equation at these leverages, at most the largest weight, shape (M,)."""
        floor = 1 / LARGEST_WEIGHT + 0 * self._denominator
        return self.ratio / self.resolvent.pool.xp.where(self._capped, floor, self._denominator)

    @property
    def contraction(self) -> float:
        """Bound of the factor by which the logarithms of two sets of weights approach each other by their equations."""
        largest = abs(1 - float(self.ratio)) * float(self.resolvent.pool.xp.max(self.leverage))
        if self.ratio < 1:
            return largest / (1 + largest)
        return largest / (1 - largest) if largest < 1 else math.inf

    @cached_property
    def residual(self) -> float:
        """Largest change of the logarithm of a weight by its own equation."""
        xp = self.resolvent.pool.xp
        return float(xp.max(xp.abs(xp.log(self.own_weights / self.weights))))

    @cached_property
    def objective(self) -> float:
        """The function F of the weights.

        Docs, "Learning curve", equation (F4).
        """
        xp, w = self.resolvent.pool.xp, self.weights
        entropy = self.ratio * xp.log(w) + (1 - self.ratio) * xp.log(xp.abs(1 - w))
        return float(xp.sum(entropy) - self.resolvent.log_determinant)

    def newton_step(self, remainder: Array | None = None) -> Array:
        """Return Newton's step of the logarithms of the weights, shape (M,).

        If better remainders than those of this fit are given, the fit lends no more than the matrix of the step. Raises
        `NotDefinite` if that matrix is not positive definite, which only happens for n > M or by rounding.
        """
        xp, w, rest, share = self.resolvent.pool.xp, self.weights, self.remainder, 1 - self.ratio
        gradient = self.ratio - share * w / (1 - w) - 1 + (rest if remainder is None else remainder)
        diagonal = share * w / (1 - w) ** 2 + rest * (1 - rest)
        sign = -1.0 if self._extrapolates else 1.0
        free = self.free
        to_cap = (1 - free) * xp.log(self.own_weights / w)
        if float(xp.min(sign * diagonal + (1 - free))) <= 0:
            raise NotDefinite("a diagonal entry has the wrong sign")
        metric = free * sign * diagonal + (1 - free)

        def product(values: Array) -> Array:
            return metric * values - sign * free * rest * self.coupled(rest * free * values)

        right = sign * free * (gradient + rest * self.coupled(rest * to_cap)) + to_cap
        step, _ = conjugate_gradient(product, right, metric, min(0.1, self.residual))
        return step


def weighted_fit(
    pool: Pool,
    samples: float,
    ridge: float,
    start: Array | None = None,
    tolerance: float = TOLERANCE,
    *,
    single: bool = False,
) -> WeightedFit:
    """Return the fit that stands for fits to so many samples, from weights (M,) to begin with.

    `single` says whether factors may be in single precision. Docs, "Learning curve", equation (F3). Raises
    `NotConverged` if no solution is found, or if more than a fifth of the rows need the largest weight. For n <= M
    there always is a solution, which only rounding can hide, and no row needs that weight.
    """
    ratio = samples / pool.rows

    def at(weights: Array) -> WeightedFit:
        return WeightedFit(ratio, weights, (SingleResolvent if single else Resolvent)(pool, ridge, weights))

    constant = ratio + 0 * pool.mass
    if ratio == 1:
        return at(constant)
    fit = at(constant if start is None else start)
    for _ in range(_NEWTON_STEPS):
        if fit.residual <= tolerance:
            return _resolved(fit, samples)
        following = _improved(fit, at)
        if following is None:
            break
        fit = following
    if fit.residual <= tolerance:
        return _resolved(fit, samples)
    advice = _ROUNDING if ratio < 1 else _UNRESOLVED.format(rows=pool.rows)
    raise NotConverged(_solver(samples, ridge), fit.residual, tolerance, advice)


def _resolved(fit: WeightedFit, samples: float) -> WeightedFit:
    """Return a fit in which few rows have the largest weight, or raise."""
    share, pool = fit.capped_share, fit.resolvent.pool
    if share > _MOST_CAPPED:
        reason = f"ask for more than the pool tells: {share:.0%} of its rows would have to count without bound"
        advice = _UNRESOLVED.format(rows=pool.rows)
        raise TooFewRows(_solver(samples, fit.resolvent.ridge), share, _MOST_CAPPED, advice, reason)
    return fit


def _solver(samples: float, ridge: float) -> str:
    return f"The weights of a learning curve at n = {samples:g}, ridge = {ridge:g}"


def _improved(fit: WeightedFit, at: Callable[[Array], WeightedFit]) -> WeightedFit | None:
    """Return a better fit along one of a few directions; None if there is none."""
    xp = fit.resolvent.pool.xp
    for step, halvings in _directions(fit):
        exact = halvings > 0
        length = min(1.0, _LONGEST_STEP / max(float(xp.max(xp.abs(step))), _LONGEST_STEP))
        for _ in range(1 + halvings):
            weights = fit.weights * xp.exp(length * step)
            if bool(xp.all(weights < 1 if fit.ratio < 1 else weights > 1)):
                following = at(weights)
                enough = 1 - 0.3 * length if exact else _QUICK
                if following.residual < enough * fit.residual or (
                    exact and fit.ratio < 1 and following.objective > fit.objective
                ):
                    return following
            length /= 2
    return None


def _directions(fit: WeightedFit) -> Iterator[tuple[Array, int]]:
    """Yield Newton's step, rough and then exact, and the plain one, to what each weight's own equation makes of it.

    With each comes the number of times that it may be halved. Where all leverages are small there is only the plain
    step: it shortens the distance from the solution by `WeightedFit.contraction` at least, and needs no sums over pairs
    of rows. The rough step has the matrix of a diagonal resolvent. It is taken whole or not at all.
    """
    plain = fit.resolvent.pool.xp.log(fit.own_weights / fit.weights)
    if fit.contraction < _QUICK:
        yield plain, _HALVINGS
        return
    with suppress(NotDefinite):
        if fit.ratio < 1:
            columns = fit.weights[:, None]
            rough = WeightedFit(fit.ratio, columns, DiagonalResolvent(fit.resolvent.pool, fit.resolvent.ridge, columns))
            yield rough.newton_step(fit.remainder[:, None])[:, 0], 0
    with suppress(NotDefinite):
        yield fit.newton_step(), _HALVINGS if fit.ratio < 1 else _FEW_HALVINGS
    yield plain, _HALVINGS


def diagonal_fits(pool: Pool, samples: Array, ridges: Array, tolerance: float = TOLERANCE) -> WeightedFit:
    """Return G fits, with weights (M, G), without the entries of the resolvent beside its diagonal.

    They stand for so many samples (G,) each, at most the rows of the pool. Docs, "Learning curve", equation (F11).
    Raises `NotConverged` if rounding hides a solution.
    """
    xp = pool.xp
    # For as many samples as rows all weights are one.
    ratio = xp.clip(samples / pool.rows, None, _LARGEST_RATIO)

    def at(weights: Array) -> WeightedFit:
        return WeightedFit(ratio, weights, DiagonalResolvent(pool, ridges, weights))

    def image(logarithms: Array) -> Array:
        # The weight that solves (1 - w) (1 - w h) = 1 - n/M for the present h: nearer to the end than that for V.
        bare = at(ratio * xp.exp(logarithms)).bare_leverage
        return xp.log(2 / (1 + bare + xp.sqrt((1 - bare) ** 2 + 4 * (1 - ratio) * bare)))

    equal = equal_fits(pool, to_host(ratio) * pool.rows, to_host(ridges)).weights
    start = xp.log(xp.asarray(equal, device=device(ratio)) / ratio) + 0 * pool.mass[:, None]
    found, residual = accelerated(image, image(start), _COMMON_STEPS, tolerance)
    if not residual <= tolerance:
        raise NotConverged("The weights of a learning curve", residual, tolerance, _ROUNDING)
    return at(ratio * xp.exp(found))


@dataclass(frozen=True, eq=False)
class RowErrors:
    """Errors on each row of the pool of fits to n other rows."""

    fit: WeightedFit
    #: Shape (M, K): residuals of the weighted fit without the row, times the root of the row's sample weight.
    residuals: Array
    #: Shape (M,): expected squared error of fits to n other rows, summed over outputs, times the row's sample weight.
    squares: Array

    @cached_property
    def rounded(self) -> RowErrors:
        """These errors for several columns of values, with sums over pairs of rows in single precision."""
        if isinstance(self.fit.resolvent, RoundedResolvent):
            return self
        return RowErrors(self.fit.rounded, self.residuals[:, :, None], self.squares[:, None])

    @cached_property
    def variation(self) -> tuple[Summed, Array]:
        """The sum by which fits to n rows vary more than that to the pool; its form without a row's own term, (M,)."""
        varied = self.fit.resolvent.summed(self.fit.missing * self.squares * self.fit.weights**2)
        return varied, self.fit.resolvent.others(*varied)

    @property
    def test_error(self) -> Any:
        """Expected squared error on a new row, sum over outputs, weighted mean over rows; shape () or (G,)."""
        pool = self.fit.resolvent.pool
        return pool.xp.sum(self.squares, axis=0) / pool.total

    @property
    def training_error(self) -> Any:
        """Expected squared error on the rows of the fit: each row divides its own residual by ``1 + V``."""
        pool = self.fit.resolvent.pool
        return pool.xp.sum(self.squares / (1 + self.fit.leverage) ** 2, axis=0) / pool.total


def row_errors(fit: WeightedFit, tolerance: float = TOLERANCE, *, rounded: bool = False) -> RowErrors:
    """Return the expected errors of every row, up to a relative residual of the equation.

    Sums over pairs of rows may be `rounded` to single precision, for a single fit. Docs, "Learning curve", equation
    (F5). Raises `NotConverged` if the equation is not solved.
    """
    targets = fit.columns(fit.resolvent.pool.targets)
    predicted = fit.resolvent.predictions(fit.weights[:, None, ...] * targets, tolerance=tolerance)
    residuals = (targets - predicted) / fit.remainder[:, None, ...]
    own = fit.resolvent.pool.xp.sum(residuals**2, axis=1)
    squares = fit.rounded.solved(own[:, None], tolerance)[:, 0] if rounded else fit.solved(own, tolerance)
    return RowErrors(fit, residuals, squares)
