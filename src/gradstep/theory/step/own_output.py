r"""The step of a network whose output at initialisation is of order one (``output_scale = "1/sqrt(N)"``).

The linear part of that output is ``mu_1 <b, x>`` with ``b = W_0^T a / sqrt(N)``: a sum of all rows of the first layer.
The residual holds it, so that the gradient points partly along ``b``, and with it along every row that it is added to.
Given ``b`` the rows are independent again::

    W_0 = a b^T / (sqrt(N) E a^2) + (1 - a a^T / |a|^2) G,

``G`` being a copy of the first layer that knows nothing of ``b``. With ``e = eta / sqrt(N)`` and ``g = g' - mu_1 b``,
where ``g'`` has the teacher and the step's samples, the rank-one part of the step is ``e E[sigma'] a g^T``. Together::

    W_1 = a u^T + (1 - a a^T / |a|^2) G + ...,      u = (1 - q) b / (sqrt(N) E a^2) + e E[sigma'] g',

where ``q = eta E[sigma'] mu_1 E a^2`` (``q_back`` in the docs) is the share of the output that the step takes back. All
errors follow from here in one of two ways, of which either is exact for the rank-one part alone:

* for a small ``q`` the spike is along ``g'``, and what is left of ``b`` is the rows' own, ``1 - q`` times as much as
  before. The spike is independent of the rows;
* for a large ``q`` what is left of ``b`` is a large spike as well: there is one spike, along ``u``, and the rows'
  component along the readout is gone. By then ``u`` is along ``g``, and so is all that the step adds to the rows beside
  the spike.

At ``q = 1`` there is nothing left of ``b``, and both are the same but for the last of the terms below. Near it, and
near ``q = -1``, errors are means over the two.

A step that stretches the rows stretches their mean as well: where rows become ``1 + a q'`` times as long, ``b`` has the
factor ``E[a^2 (1 + a q')] / E a^2`` in place of one, which is also what ``q`` is a share of. The step's samples turn
it, too, as they turn every row: the linear part of ``sigma'`` adds ``a k B`` times a row to that row, so that the mean
row gains ``k E[a^3] / E[a^2] (B - E r) b / (sqrt(N) E a^2)``. One component of this vector is along the samples' part
of the gradient, because the residuals that made both hold the output ``-mu_1 <b, x>``. It belongs to the spike. The
rest belongs to the rows along their readouts, like what is left of ``b``.

Not all rows are turned alike: that of readout ``a`` gains ``a^2 k B b / (sqrt(N) E a^2)``. The spike ``u`` has it with
``a E[a^3] / E[a^2]`` in place of ``a^2``. The difference is a mean of the rows in directions off the spike
(`gradstep.theory.neurons.bulk`). It is small for each row, but the same for all of one readout, and where rows are
taken given ``b`` it is as large as what the bulk has along these directions.

Of an activation with a mean the output has a constant too, ``E[sigma] sum_i a_i / sqrt(N)``: it is of order one,
another in each draw of a Gaussian readout, and the step takes it for a mean of the labels. Errors are averaged over it.
This project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.gaussian.orthogonal_polynomials import orthogonal_polynomials
from gradstep.gaussian.quadrature import gaussian_density
from gradstep.problem import Problem, link_of
from gradstep.theory.step.correlated_output import ClassMeanRow
from gradstep.theory.step.statistics import CommonRow, StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise

__all__ = ["MeanRow", "common_share", "given_own_output", "output_constants"]

Array = NDArray[np.float64]

#: Nodes of the average over the output's constant, where it is less than the rest of the residual and where it is more;
#: mean squares of the one over the other between which the second average takes over.
_NODES, _MORE_NODES, _LARGE = 5, 9, (0.8, 1.25)
#: Standard deviations of the constant that are covered; beyond lies less than 1e-7 of its mean square.
_RANGE = 6.0
#: A mean of the activation below the smallest is rounding.
_NO_MEAN = 1e-12
#: Shares of the output, taken back or added, between which the first way gives way to the second smoothly.
_SHARES = (0.8, 1.25)


def output_constants(problem: Problem, refine: int = 1) -> Sequence[tuple[float, float | None]]:
    """Return probabilities and constants of the initial output, over which a prediction is averaged.

    The pairs are a quadrature rule for the law ``N(0, E[a^2] E[sigma]^2)``, and `refine` multiplies their number. The
    constants are for `gradstep.theory.step.statistics.step_statistics`. Without a step, or where the output has no such
    constant, there is a single pair, and its constant is None.
    """
    if problem.output_scale == "1/N" or problem.readout.kind == "vocabulary" or problem.eta.coefficient == 0:
        return [(1.0, None)]
    activation, teacher, power = (
        moments(problem.activation),
        moments(link_of(problem.teacher)),
        problem.readout.second_moment,
    )
    if abs(activation.mean) < _NO_MEAN:
        return [(1.0, None)]
    square = power * activation.mean**2
    rest = teacher.second_moment - teacher.mean**2 + problem.noise**2 + power * activation.second_moment - square
    # All turns where the mean of the residual vanishes, within the size of the rest.
    scale = math.sqrt(max(rest, 1e-6 * square))
    more = smooth_rise(square / scale**2, *_LARGE)
    nodes: list[tuple[float, float]] = []
    for share, count in ((1 - more, _NODES), (more, _MORE_NODES)):
        if share > 0:
            rule = _gaussian_rule_in_asinh(math.sqrt(square), teacher.mean, scale, refine * count)
            nodes += [(share * weight, constant) for constant, weight in zip(*rule, strict=True)]
    return sorted(nodes, key=lambda node: node[1])


def _gaussian_rule_in_asinh(
    deviation: float, centre: float, scale: float, count: int
) -> tuple[list[float], list[float]]:
    """Return the Gaussian rule of ``N(0, deviation^2)`` for functions of an angle.

    It is exact for polynomials in ``asinh((x - centre) / scale)``: in `x` itself near the centre, in its logarithm far
    from it. Powers of `x` are exponentials there: the second moment is exact to 1e-5 with nine nodes, and to 1e-4 with
    five where `scale` is above `deviation`.
    """
    low, high = (math.asinh((end * _RANGE * deviation - centre) / scale) for end in (-1, 1))
    # The trapezoidal rule: smooth, and nothing at the ends.
    fine = np.linspace(-1, 1, 64 * count)
    half, middle = (high - low) / 2, (high + low) / 2
    angles = middle + half * fine
    density = np.cosh(angles) * gaussian_density((centre + scale * np.sinh(angles)) / deviation)
    jacobi, _ = orthogonal_polynomials(fine, density / density.sum(), fine, count)
    nodes, vectors = np.linalg.eigh(jacobi)
    return (centre + scale * np.sinh(middle + half * nodes)).tolist(), np.square(vectors[0]).tolist()


def mean_stretch(problem: Problem, step: StepStatistics) -> float:
    """Return the factor of the mean row: the mean of those of all rows, weighted by the squares of the readouts."""
    values, shares = readout_values(problem.readout)
    square = shares * values**2
    return float(square @ step.stretch(values, values**2) / square.sum())


def common_share(problem: Problem, literal: StepStatistics, width: float) -> float:
    """Return the weight of the description whose spike is along the common part of the rows, in [0, 1].

    It is zero or one, but where a step about takes back an initial output of order one, or about doubles it.
    """
    if problem.output_scale == "1/N":
        return 0.0
    if literal.correlated is not None:
        return smooth_rise(ClassMeanRow.of(problem, literal, width).largely_taken, *_SHARES)
    return MeanRow.of(problem, literal, width).common_share


@dataclass(frozen=True)
class MeanRow:
    """The mean row of the first layer for each unit of readout, and the gradient that changed it.

    Vectors have components along the teacher, along ``b``, along the samples of the step (``X_perp^T r``) and along
    what the samples make of ``b`` besides.

    Docs, "Uniform equivalent", equation (E13).
    """

    taught: Array  #: ``g'``, the gradient without the network's own output, shape (4,).
    output: Array  #: ``b``, shape (4,).
    #: Shape (4,): ``k B b / (sqrt(N) E a^2)``, what the step's linear part adds to the mean of a row for each unit of
    #: the squared readout. Zero if the output is small.
    second: Array
    skewness: float  #: ``E[a^3] / E[a^2]``.
    slope: float  #: ``mu_1``: the gradient is ``g' - mu_1 b``.
    gain: float  #: ``e E[sigma']``, what the step adds for each unit of the gradient.
    unit: float  #: ``1 / (sqrt(N) E a^2)``, the mean row before the step, over ``b``.
    stretch: float  #: The factor of the mean row before the step, as the rows are stretched.
    #: Whether the spike is along the common part of the rows; by default it is where that is the better way.
    along_common: bool | None = None

    @classmethod
    def of(cls, problem: Problem, step: StepStatistics, width: float, along_common: bool | None = None) -> MeanRow:
        """Return the mean row of a network after the step itself; a small output has no part in it."""
        power, slope = problem.readout.second_moment, moments(problem.activation).linear
        if problem.output_scale == "1/N":
            slope = 0.0
        linear = step.alignment * step.gradient_norm
        sampled = math.sqrt(max(step.gradient_norm**2 - linear**2 - slope**2 * power, 0.0))
        taught, output = np.array([linear, 0.0, sampled, 0.0]), np.array([0.0, math.sqrt(power), 0.0, 0.0])
        # Rows that a step shrinks to nothing have no mean row to take anything from.
        stretch = mean_stretch(problem, step) or _NO_MEAN
        unit = 1 / (math.sqrt(width) * power)
        values, shares = readout_values(problem.readout)
        skewness, second = float(shares @ values**3) / power, np.zeros(4)
        if slope and step.samples is not None:
            by_samples = step.curvature * np.array([step.samples.output_along_random, step.samples.output_off_random])
            second = unit * output[1] * np.array([0.0, step.whole_drift, *by_samples])
        return cls(taught, output, second, skewness, slope, step.gain, unit, stretch, along_common)

    @property
    def before(self) -> float:
        """The mean row before the step, over ``b``, stretched as the rows are."""
        return self.stretch * self.unit

    @property
    def turned(self) -> Array:
        """What the samples add to the mean row beside a multiple of it, shape (4,).

        Docs, "Uniform equivalent", equation (E14b).
        """
        return self.skewness * self.second * [0.0, 0.0, 1.0, 1.0]

    @property
    def taken(self) -> float:
        """``q``, the share of the output that the step takes back."""
        return self.gain * self.slope / self.before

    @property
    def independent(self) -> bool:
        """Whether the spike is independent of the rows."""
        return self.common_share < 0.5 if self.along_common is None else not self.along_common

    @property
    def common_share(self) -> float:
        """Weight of the description whose spike is along the common part of the rows, in [0, 1]."""
        return smooth_rise(abs(self.taken), *_SHARES)

    @property
    def left(self) -> float:
        """The component of the mean row along ``b``, over ``b``, after the step."""
        return self.before - self.gain * self.slope

    @property
    def after(self) -> Array:
        """``u``, the mean row after the step."""
        return self.gain * self.taught + self.left * self.output + self.turned

    @property
    def direction(self) -> Array:
        """Direction of the spike, not of length one.

        It contains the component of `turned` along the samples. If the spike is independent of the rows, it contains
        the share `taken` of that component: none for a weak step, and all where the step takes back the whole output,
        as in the other description.
        """
        along = self.turned * [0.0, 0.0, 1.0, 0.0]
        if self.independent:
            return self.taught + self.slope / self.before * along
        return math.copysign(1.0, self.gain) * (self.gain * self.taught + self.left * self.output + along)

    def resolved(self, step: StepStatistics) -> StepStatistics:
        """Return the step in the form that holds for independent rows."""
        gradient = self.taught - self.slope * self.output
        direction = self.direction
        length, whole = float(np.linalg.norm(direction)), float(np.linalg.norm(gradient))
        if length == 0:
            return step
        v = direction / length
        total, overlap = float(self.after @ v), self.before * float(self.output @ v)
        kept = np.linalg.norm(self.before * self.output + self.turned)
        rest = float(np.linalg.norm(self.after - total * v) / kept)
        # What the step adds to the norms is told along the gradient: the share that is not along v is independent.
        turn = float(gradient @ v) / whole if whole > 0 else 1.0
        return replace(
            step,
            alignment=float(v[0]),
            spike=total - overlap,
            initial_overlap=overlap,
            # A small output is no part of this row: what the step takes of it is in the step already.
            readout_shrinkage=step.readout_shrinkage * rest,
            given_output=True,
            influence=step.influence if self.independent else 1.0,
            common=self._common(v),
            fluctuations=step.fluctuations.turned(turn),
        )

    def _common(self, v: Array) -> CommonRow | None:
        """Return the second-order part of the rows' mean, for a spike along a unit vector."""
        if self.independent or not self.second.any():
            return None
        length = self.unit * float(np.linalg.norm(self.output))
        return CommonRow(float(v[1]), length, self.skewness, float(self.second @ v))


def given_own_output(
    problem: Problem, step: StepStatistics, width: float, along_common: bool | None = None
) -> StepStatistics:
    """Return the step in the form that holds for independent rows: a spike along ``g'`` or ``u``.

    The step is given with its spike along the gradient. The one returned has a `spike` and an `initial_overlap` along
    one direction, whose overlap with the teacher is the `alignment`, and the `readout_shrinkage` of what is left of the
    rows along the readout. It is the given one where the initial output is small. What the step adds to the directions
    off the spike is left as it is along the gradient.

    The direction is the common part of the rows or not, as `along_common` says. By default it is where that is the
    better way, but not on correlated inputs or after a damped step.
    """
    if problem.output_scale == "1/N":
        return step
    if step.correlated is not None:
        return ClassMeanRow.of(problem, step, width).resolved(step, along_common=bool(along_common))
    return MeanRow.of(problem, step, width, along_common).resolved(step)
