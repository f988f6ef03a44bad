"""The joint law of a row's projection on the spike and of its squared norm, after a damped step.

It is that of `gradstep.theory.step.correlated_rows` with the damped metric P in place of C in the step
(`gradstep.theory.step.damped_samples`). Terms without the slope ``k = e E[z sigma']`` of the derivative are exact to
order ``1/d``. In those with it P stands by what it makes of a direction in the mean; they vanish for odd activations.
This project. Docs, "Correlated inputs", equations (C3), (C4) and (C5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_fluctuations import RowFluctuations, derivative_moments

__all__ = ["damped_fluctuations"]

Array = NDArray[np.float64]


def damped_fluctuations(
    activation: ScalarFunction, samples: DampedSamples, e: float, gain: float, square_trace: float, *, sphere: bool
) -> RowFluctuations:
    """Return the fluctuations of rows after a damped step.

    Docs, "Correlated inputs", equations (C3), (C4) and (C5).

    Parameters
    ----------
    activation : ScalarFunction
    samples : DampedSamples
        With a gradient that is not zero.
    e : float
        ``eta / sqrt(N)``.
    gain, square_trace : float
        ``v.P S P.v`` and ``(1/d) tr (P S P)^2`` (`gradstep.theory.step.damped_law.DampedLaw`).
    sphere : bool
        Whether initial rows ``w`` have length one; otherwise they are Gaussian.

    Returns
    -------
    RowFluctuations
    """
    psi, r, mean = derivative_moments(activation), samples.law.residual, samples.law.mean
    phi0, norm, known, c = samples.ratio, samples.norm, samples.spectrum, samples.spectrum.eigenvalue
    plain, one, kept, c2 = samples.plain, np.ones_like(c), samples.scale * samples.kept, known.moment(2)
    r0, m2, m4 = (mean(r**power) for power in (1, 2, 4))
    varied = m2 - r0**2
    k, spike, length = e * psi.linear, e * psi.second, e * psi.third

    def average(values: Array) -> float:
        return float(known.share @ values)

    # (1/d) z.CP.z, z.P^2.z, z.PCP.z of a sample, and C B_- P^2 without its own part in B.
    alpha, beta, third = average(c * kept), samples.trace(one), samples.trace(c)
    through = samples.scale * alpha - (samples.damping + phi0) * beta

    # Degree one.
    l_1, l_2 = 2 * spike * alpha, 2 * spike * k * r0 * through
    l_3 = phi0 * beta * (2 * spike * k + e**2 * psi.square_slope)
    g_v, h_v = samples.with_gradient(c) / norm, mean(r**2 * samples.along_covariance) / norm
    own = plain.along(1)
    g_b_v = mean(r * own * samples.along) / norm
    own_square = phi0 * r**2 + plain.squares_to_teacher * known.teacher_moment(1) * samples.law.projection
    h_b_v = mean(r * own_square * samples.along) / norm
    linear = [l_1 * g_v, l_2 * g_v + l_3 * h_v + k * l_1 * g_b_v, k * (l_2 * g_b_v + l_3 * h_b_v)]
    crossed = plain.crossed_form(1)
    degree_one = [
        l_1**2 * plain.form(1),
        2 * l_1 * (l_2 * plain.form(1) + l_3 * crossed),
        l_2**2 * plain.form(1) + 2 * l_2 * l_3 * crossed + l_3**2 * plain.squares_form(1),
    ]

    # Degree two: om_0.M.om_0 in c, M being (1 + a k r0 K)^2 and the samples with the weights a G_1 + a^2 G_2.
    stretch = [one, 2 * k * r0 * kept, (k * r0 * kept) ** 2]
    with_squares = phi0 * beta * (k * length + e**2 * psi.square_bend)
    weights = [0 * r, length * alpha * r, k * length * r0 * through * r + with_squares * r**2]
    quadratic, joint, mean_form = np.zeros(5), np.zeros(3), np.zeros(3)
    followed = r * samples.along / norm
    for power in range(3):
        mean_form[power] = average(c * stretch[power]) + mean(weights[power])
        joint[power] = mean(followed) * average(c**2 * stretch[power])
        joint[power] += phi0 * mean(followed * weights[power]) + mean(followed) * mean(weights[power]) * c2
        for other in range(3):
            both = average(c**2 * stretch[power] * stretch[other])
            both += 2 * average(c**2 * stretch[power]) * mean(weights[other])
            both += phi0 * mean(weights[power] * weights[other]) + mean(weights[power]) * mean(weights[other]) * c2
            quadratic[power + other] += 2 * both
    # Of k P B the part that varies between samples.
    quadratic[2] += 4 * k**2 * phi0 * varied * (alpha**2 + third)
    joint[1] += 2 * k * phi0 * alpha * mean(followed * (r - r0))
    joint *= spike
    if sphere:
        quadratic -= 2 * np.convolve(mean_form, mean_form)
        joint -= spike * mean(followed) * mean_form

    # Above.
    own_part = [np.full_like(r, alpha), k * (r0 * through + phi0 * beta * r)]
    rest = [
        third - alpha**2,
        2 * k * r0 * (average(c * kept**3) - alpha * average(c * kept**2)),
        k**2 * (r0**2 * (average(c * kept**4) - average(c * kept**2) ** 2) + phi0 * m2 * samples.trace(kept**2)),
    ]
    squares = [own_part[0] ** 2, 2 * own_part[0] * own_part[1], own_part[1] ** 2]
    product, cross = 4 * e**2 * psi.product, 4 * e**3 * phi0 * beta * psi.cross
    higher = np.array(
        [product * mean(r**2 * part) + 4 * e**2 * m2 * psi.square * y for part, y in zip(squares, rest, strict=True)]
    )
    higher[1:] += [cross * mean(r**3 * part) for part in own_part]
    higher[2] += e**4 * phi0**2 * beta**2 * psi.square_square * m4
    higher *= phi0
    along, together = samples.along / norm, 2 * e**2 * phi0 * psi.with_product
    joint_higher = np.array([0.0, *(together * mean(r**2 * along * part) for part in own_part)])
    joint_higher[2] += e**3 * phi0**2 * beta * psi.with_square * mean(r**3 * along)
    # Pairs of samples.
    pairs = 2 * (e**2 * phi0 * psi.square) ** 2 * (m2**2 * square_trace - phi0 * m4 * beta**2)

    norm_variance = quadratic
    norm_variance[2:] += np.array(degree_one) + higher
    norm_variance[4] += max(pairs, 0.0)
    constant = samples.quadratic(c) / norm**2
    slope = (linear[0] / constant**0.5, (l_2 * g_v + l_3 * h_v) / constant**0.5)
    norm_variance[2:] -= [slope[0] ** 2, 2 * slope[0] * slope[1], slope[1] ** 2]
    square = r0**2 * samples.quadratic(c * kept**2) / norm**2 + phi0 * varied * gain
    projection_variance = (
        constant,
        2 * k * mean(r * samples.along_covariance * samples.along) / norm**2,
        k**2 * square + e**2 * phi0 * psi.square * m2 * gain,
    )
    return RowFluctuations(
        projection_variance=projection_variance,
        spike_variance=(spike * norm) ** 2 / 2 * (c2 - sphere),
        norm_slope=slope,
        covariance=tuple((np.array(linear) + joint + joint_higher).tolist()),
        norm_variance=tuple(norm_variance.tolist()),
        sample_gain=gain,
    )
