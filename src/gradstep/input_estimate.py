r"""The law of a table's inputs: their spectrum and the teacher's place in it, corrected for the size of the sample.

Eigenvalues of a sample are spread more widely than those of the population, and a regression on them sees the
teacher through the sample's noise. What is known of both without bias are traces: with the sample's second moment
:math:`\hat C`, n rows, :math:`v(z)=\frac1n\operatorname{tr}(XX^\top/n-z)^{-1}` and :math:`\hat g=X^\top y/n`,

.. math::

    \frac dn\int\frac{\tau v}{1+\tau v}\,dH(\tau)=1+zv,\qquad
    \int\Bigl(1+\frac{zv}{1+\tau v}\Bigr)dG(\tau)+\frac{s^2}n\operatorname{tr}\hat C(\hat C-z)^{-1}
    =\hat g^\top(\hat C-z)^{-1}\hat g,

where H is the distribution of the population's eigenvalues :math:`\tau`, G that of the linear part of the labels over
them, and :math:`s^2` the mean square of all else in the labels. Both are linear in what is unknown, and are solved on
a grid of :math:`\tau` by nonnegative least squares. This is the method of El Karoui 2008 (Annals of Statistics 36,
2757) for H, and its counterpart for G. The z are negative numbers, and complex ones above the sample's eigenvalues
whose imaginary parts are their widths, :math:`\lambda\sqrt{d/n}`: closer to the axis there is only noise, and
farther from it eigenvalues of many rows would not be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import ndtri

from gradstep.checks import chosen_seed, finite, integer
from gradstep.errors import InvalidInput
from gradstep.gaussian import hermite_values
from gradstep.inputs import Inputs, rank_bounds
from gradstep.summary import Summary
from gradstep.text_table import Table, number

__all__ = ["EstimatedInputs", "estimate"]

Array = NDArray[np.float64]

#: Places of eigenvalues of the population, and numbers z, even in the logarithm: negative and complex ones.
_ATOMS, _NEGATIVE, _COMPLEX = 100, 40, 80
#: Eigenvalues of the population are looked for from this part of the smallest of the sample to this of the largest.
_BELOW, _ABOVE = 0.3, 1.05
#: Eigenvalues of the sample below this part of the largest are rounding, and so is what is below it of the population.
_ROUNDING, _SMALLEST = 1e-10, 1e-4
#: Weight of what must hold: the distribution is one, and its mean the sample's.
_CERTAIN = 100.0
#: Blocks of rows of the jackknife, and the degree of the link.
_BLOCKS, _DEGREE = 10, 3
#: Standard error of a part of the teacher that may be anything from zero to one.
_UNKNOWN = 0.5
#: Classes whose eigenvalues differ by less than this are one.
_ALIKE = 0.01
#: Alignment up to which nothing is seen of the teacher.
_UNSEEN = 0.01
#: Standard errors from which a coefficient of the link above the first is part of its formula.
_SIGNIFICANT = 2.0


@dataclass(frozen=True, repr=False, init=False)
class EstimatedInputs(Inputs):
    """The law of a table's inputs with standard errors, and the link of its labels.

    Standard errors are those of a jackknife over ten blocks of rows.

    Attributes
    ----------
    eigenvalue_error, teacher_error : tuple of float
        Standard error of each class's eigenvalue and of its part of the teacher. Without labels the teacher is one
        drawn at random, without errors.
    coefficients, coefficient_error : tuple of float
        Coefficients of the link in orthonormal Hermite polynomials of degree 0 to 3 of the teacher's projection. Empty
        without labels, and where linear predictions of rows that were left out do not follow the labels.
    noise, noise_error : float
        Root mean square of what the formula of the link leaves of the labels.
    alignment : float
        Correlation of the projections from which the link was taken, predictions of ridge regressions without the row
        that is predicted, with the teacher's. Coefficients are corrected for it.
    """

    eigenvalue_error: tuple[float, ...] = ()
    teacher_error: tuple[float, ...] = ()
    coefficients: tuple[float, ...] = ()
    coefficient_error: tuple[float, ...] = ()
    noise: float = math.nan
    noise_error: float = math.nan
    alignment: float = math.nan
    _text: str = field(default="", init=False, compare=False)

    @property
    def link(self) -> str:
        """The teacher as a formula: the constant, the linear part, and what is more than two standard errors.

        Raises `InvalidInput` if there were no labels, or nothing of them is linear.
        """
        if not self.coefficients:
            raise InvalidInput("y", None, "labels that linear predictions follow: there is no link without")
        told = abs(self.coefficients[0]) > _ROUNDING * max(map(abs, self.coefficients))
        terms = [f"{self.coefficients[0]!r}"] if told else []
        for degree in (1, *_told(self.coefficients, self.coefficient_error)):
            terms.append(f"{self.coefficients[degree] / math.sqrt(math.factorial(degree))!r}*H{degree}")
        return " + ".join(terms).replace("+ -", "- ")

    def summary(self) -> Summary:
        """Return what is printed: every class with its standard errors, and the link."""
        lines = [f"effective dimension {number(self.effective_dimension)} d"]
        if self.coefficients:
            each = zip(self.coefficients, self.coefficient_error, strict=True)
            lines.append("link: " + ", ".join(f"h{k} {number(c)} +- {number(e, 2)}" for k, (c, e) in enumerate(each)))
            lines.append(f"noise {number(self.noise)} +- {number(self.noise_error, 2)}")
        elif self.teacher_error:
            lines.append("no link: linear predictions of rows that were left out do not follow their labels")
        errors = self.teacher_error or (math.nan,) * len(self.share)
        columns = (self.share, self.eigenvalues, self.eigenvalue_error, self.teacher, errors)
        rows = [
            [number(s), number(c), number(ce, 2), number(t), number(te, 2)]
            for s, c, ce, t, te in zip(*columns, strict=True)
        ]
        return Summary("Inputs of a table", lines, Table(["share of d", "eigenvalue", "+-", "teacher", "+-"], rows))


class _Spectrum(NamedTuple):
    """Distribution of the population's eigenvalues, with the sample that it was found from.

    Weights (A,) are those of the atoms (A,); the sample's eigenvalues are (r,) with vectors (r, d), and v (Z,) are the
    traces at z (Z,).
    """

    atoms: Array
    weight: Array
    found: Array
    vectors: Array
    z: Any
    v: Any


class _Signal(NamedTuple):
    """Linear part of the labels in each class (K,), mean square of the rest, and both if they could be negative."""

    classes: Array
    rest: float
    free: Array
    free_rest: float


def estimate(X: ArrayLike, y: ArrayLike | None, classes: int, seed: int) -> EstimatedInputs:
    """Estimate the law of the inputs of a table; see `gradstep.Inputs.from_data`."""
    x, labels, unit = _table(X, y)
    classes, seed = integer("classes", classes, 1, 1000), chosen_seed(seed)
    d, blocks = x.shape[1], np.random.default_rng(seed).permutation(len(x)) % _BLOCKS
    kept = [blocks != block for block in range(_BLOCKS)]
    whole, parts = _spectrum(x), [_spectrum(x[own]) for own in kept]
    bounds = _distinct(whole, np.array(rank_bounds(d, classes)) / d)
    share = np.diff(bounds)
    eigenvalues = _shares(whole, bounds) @ whole.atoms
    errors: dict[str, object] = {"eigenvalue_error": _jackknife([_shares(part, bounds) @ part.atoms for part in parts])}
    signal = None if labels is None else _signal(x, labels, whole, bounds)
    if labels is None or signal is None or not signal.classes.any():
        made = EstimatedInputs(eigenvalues.tolist(), share.tolist())
    else:
        made = EstimatedInputs(eigenvalues.tolist(), share.tolist(), signal.classes.tolist())
        signals = [_signal(x[own], labels[own], part, bounds) for own, part in zip(kept, parts, strict=True)]
        # A part that may not be negative may be zero with every block left out, and look as if it were known.
        spread = _jackknife([part.free / (part.classes.sum() or 1.0) for part in signals])
        errors["teacher_error"] = tuple(min(error, _UNKNOWN) for error in spread)
        found = _link(x, labels, signal, signals, eigenvalues, kept)
        errors |= {name: value if name == "alignment" else _times(unit, value) for name, value in found.items()}
    for name, value in errors.items():
        object.__setattr__(made, name, value)
    return made


def _times(unit: float, value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    """Return one number or several in another unit."""
    return unit * value if isinstance(value, float) else tuple(unit * each for each in value)


def _table(X: ArrayLike, y: ArrayLike | None) -> tuple[Array, Array | None, float]:
    """Return centred rows of which the variances are one in the mean, the labels, and their unit.

    The unit is a power of two, so that squares of labels neither overflow nor vanish, and no label is rounded.
    """
    x = finite("X", X)
    if x.ndim != 2 or x.shape[0] < 2 * _BLOCKS or x.shape[1] < 2:
        raise InvalidInput("X", f"shape {x.shape}", f"shape (rows, d) with at least {2 * _BLOCKS} rows and d >= 2")
    x = x - x.mean(axis=0)
    largest = float(np.abs(x).max())
    if largest == 0:
        raise InvalidInput("X", "equal rows", "rows that differ")
    x /= largest  # before squares are taken, which overflow
    x /= math.sqrt(float((x**2).mean()))
    if y is None:
        return x, None, 1.0
    labels = finite("y", y)
    if labels.shape != x.shape[:1]:
        raise InvalidInput("y", f"shape {labels.shape}", f"one number for each of the {len(x)} rows")
    unit = 2.0 ** (np.frexp(np.abs(labels).max())[1] - 1)
    return x, labels / unit, float(unit)


def _spectrum(x: Array) -> _Spectrum:
    """Solve the first equation of the module for rows (n, d)."""
    n, d = x.shape
    if n < d:
        _, singular, vectors = np.linalg.svd(x, full_matrices=False)
        found = singular**2 / n
    else:
        found, vectors = np.linalg.eigh(x.T @ x / n)
        found, vectors = np.maximum(found[::-1], 0.0), vectors.T[::-1]
    sample = np.zeros(d)
    sample[: len(found)] = found
    largest, above = found[0], found[found > _ROUNDING * found[0]]
    least = max(_BELOW * above[-1], _SMALLEST * largest)
    atoms = np.geomspace(_ABOVE * largest, least, _ATOMS)
    if len(above) < min(n - 1, d):  # no sample has fewer directions than its rows, centred, or the population allow
        atoms = np.append(atoms, 0.0)
    near = np.geomspace(_ABOVE * largest, least, _COMPLEX) * (1 + 1j * math.sqrt(d / n))
    z = np.concatenate([-np.geomspace(3 * largest, least, _NEGATIVE), near])
    v = d / n * (1 / (sample[:, None] - z)).mean(axis=0) - (1 - d / n) / z
    shrunk = atoms * v[:, None] / (1 + atoms * v[:, None])
    certain = np.stack([np.ones(len(atoms)), atoms / sample.mean()])
    weight = nnls(*_real(shrunk, (1 + z * v) * n / d, certain, np.ones(2)), maxiter=100 * _ATOMS)[0]
    return _Spectrum(atoms, weight / weight.sum(), found, vectors, z, v)


def _signal(x: Array, y: Array, spectrum: _Spectrum, bounds: Array) -> _Signal:
    """Solve the second equation of the module, with a signal that is spread evenly over what varies of each class."""
    atoms, _, found, vectors, z, v = spectrum
    labels = y - y.mean()
    square = float((labels**2).mean())
    if square == 0:
        return _Signal(np.zeros(len(bounds) - 1), 0.0, np.zeros(len(bounds) - 1), 0.0)
    along = (vectors @ (labels @ x / len(x))) ** 2
    quadratic, noise = ((top[:, None] / (found[:, None] - z)).sum(axis=0) for top in (along, found / len(x)))
    inside = _shares(spectrum, bounds) * (atoms > 0)
    inside /= np.maximum(inside.sum(axis=1, keepdims=True), _ROUNDING)
    seen = (1 + (z * v)[:, None] / (1 + atoms * v[:, None])) @ inside.T
    certain, values = [np.append(inside.sum(axis=1), 1.0)], [1.0]
    varying = found > _ROUNDING * found[0]
    if (rank := int(varying.sum())) < len(x) - 1:
        # At z = 0: what plain regression explains, wherever the signal is. Without it little noise is lost in the rest.
        certain.append(np.append(inside.sum(axis=1), rank / (len(x) - 1)))
        values.append(float((along[varying] / found[varying]).sum()) / square)
    system = _real(np.column_stack([seen, noise]), quadratic, np.stack(certain) / square, np.array(values))
    signal, free = nnls(*system)[0], np.asarray(np.linalg.lstsq(*system)[0], np.float64)
    return _Signal(signal[:-1], float(signal[-1]), free[:-1], float(free[-1]))


def _real(table: Any, right: Any, certain: Array, values: Array) -> tuple[Array, Array]:
    """Return complex equations, each in units of its right side, and real ones that must hold."""
    size = np.abs(right)
    rows = np.concatenate([table / size[:, None], _CERTAIN * certain])
    right = np.concatenate([right / size, _CERTAIN * values])
    return np.concatenate([rows.real, rows.imag]), np.concatenate([right.real, right.imag])


def _shares(spectrum: _Spectrum, bounds: Array) -> Array:
    """Return how each class, between quantiles of the eigenvalues, is made of the atoms, (K, A)."""
    ends = np.concatenate([[0.0], np.cumsum(spectrum.weight)])
    inside = np.minimum(ends[1:], bounds[1:, None]) - np.maximum(ends[:-1], bounds[:-1, None])
    shares = inside / np.diff(bounds)[:, None]
    return np.where(shares > _ROUNDING, shares, 0.0)


def _distinct(spectrum: _Spectrum, bounds: Array) -> Array:
    """Return the bounds without those between classes of equal eigenvalues."""
    means = _shares(spectrum, bounds) @ spectrum.atoms
    apart = [below < above * (1 - _ALIKE) for above, below in pairwise(means)]
    return np.concatenate([bounds[:1], bounds[1:-1][apart], bounds[-1:]])


def _told(coefficients: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Return the degrees above the first that the formula of a link has."""
    return [k for k in range(2, _DEGREE + 1) if abs(coefficients[k]) > _SIGNIFICANT * errors[k]]


def _jackknife(parts: list[Array]) -> tuple[float, ...]:
    """Return standard errors of values from those without each of the blocks in turn."""
    values = np.stack(parts)
    return tuple(np.sqrt((len(values) - 1) * values.var(axis=0)).tolist())


def _link(
    x: Array, y: Array, whole: _Signal, parts: list[_Signal], eigenvalues: Array, kept: list[NDArray[np.bool_]]
) -> dict[str, float | tuple[float, ...]]:
    """Return Hermite coefficients along the index that ridge regression finds, seen through its alignment."""
    scores = np.zeros(len(y))
    for part, own in zip(parts, kept, strict=True):
        # The penalty that is best for a random teacher of this size.
        size = float((part.classes[eigenvalues > 0] / eigenvalues[eigenvalues > 0]).sum()) or 1.0
        inside, target = x[own], y[own] - y[own].mean()
        gram = inside.T @ inside
        # Without noise it is zero, but columns may be constant or copies of each other.
        penalty = max(part.rest * x.shape[1] / size, _ROUNDING * float(np.trace(gram)))
        scores[~own] = x[~own] @ np.linalg.solve(gram + penalty * np.eye(x.shape[1]), inside.T @ target)

    def means(rows: NDArray[np.bool_]) -> Array:
        # Normal scores among these rows, of mean square one with any number of rows, and without a block, too.
        normal = ndtri((np.argsort(np.argsort(scores[rows])) + 0.5) / rows.sum())
        normal /= math.sqrt(float(normal @ normal) / len(normal))
        return np.asarray((hermite_values(normal, _DEGREE) * y[rows]).mean(axis=1))

    def seen_through(means: Array, signal: _Signal) -> Array:
        linear = math.sqrt(float(signal.classes.sum()))
        alignment = float(np.clip(means[1] / linear, _UNSEEN, 1.0)) if linear > 0 else 1.0
        found = means / alignment ** np.arange(_DEGREE + 1)
        found[1] = max(linear, means[1])
        return np.array([*found, alignment])

    every, without = means(np.ones(len(y), dtype=bool)), [means(own) for own in kept]
    # Scores of few rows lack the tails: a straight line would have a third coefficient. This is of the order 1 / n.
    every[1:] += (_BLOCKS - 1) * (every - np.mean(without, axis=0))[1:]
    *coefficients, alignment = seen_through(every, whole).tolist()
    # Where predictions of rows left out do not follow the labels there is no index to see them along.
    if alignment <= _UNSEEN:
        return {}
    each = np.stack([seen_through(*of_part) for of_part in zip(without, parts, strict=True)])
    errors = _jackknife(list(each[:, :-1]))
    told = _told(coefficients, errors)
    square = whole.rest - float(np.square([coefficients[k] for k in told]).sum())
    # A rest that may not be negative may be zero with every block left out, and look as if it were known.
    known = all(signal.rest > 0 for signal in (whole, *parts))
    rests = np.array([[part.rest if known else part.free_rest] for part in parts])
    error = min(_jackknife(list(rests - (each[:, told] ** 2).sum(axis=1, keepdims=True)))[0], float(y.var()))
    noise = math.sqrt(max(square, 0.0))
    return {
        "coefficients": tuple(coefficients),
        "coefficient_error": errors,
        "noise": noise,
        # To the farther of the ends to which a standard error takes the square.
        "noise_error": max(math.sqrt(noise**2 + error) - noise, noise - math.sqrt(max(noise**2 - error, 0.0))),
        "alignment": alignment,
    }
