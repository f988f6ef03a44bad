"""The joint law of a row's projection on the spike and of its squared norm, after a damped step.

It is that of `gradstep.theory.step.correlated_rows` with the damped metric P in place of C in the step
(`gradstep.theory.step.damped_samples`), for odd activations: all terms with ``E[z sigma']`` or another mean of an odd
function of the pre-activation are zero. This project. Docs, "Correlated inputs", equations (C3), (C4) and (C5).
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
        An odd function.
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
    one, c2, m2, m4 = np.ones_like(c), known.moment(2), mean(r**2), mean(r**4)
    spike = e * psi.second
    # (1/d) z.CP.z, z.P^2.z and z.PCP.z of a sample.
    alpha = samples.scale * float(known.share @ (c * samples.kept))
    beta, third = samples.trace(one), samples.trace(c)

    # Degree one.
    linear = 2 * spike * alpha * samples.with_gradient(c) / norm
    constant = samples.quadratic(c) / norm**2
    slope = linear / constant**0.5

    # Degree two: om_0.M.om_0 in c, M being the identity and a^2 times the samples with these weights.
    weight = phi0 * beta * e**2 * psi.square_bend * r**2
    mean_form = np.array([1.0, 0.0, mean(weight)])
    quadratic = 2 * c2 * np.convolve(mean_form, mean_form)
    quadratic[4] += 2 * phi0 * mean(weight**2)
    followed = r * samples.along / norm
    joint = spike * mean(followed) * c2 * mean_form
    joint[2] += spike * phi0 * mean(followed * weight)
    if sphere:
        quadratic -= 2 * np.convolve(mean_form, mean_form)
        joint -= spike * mean(followed) * mean_form

    # Above: functions of one sample, and pairs of samples.
    single = 4 * e**2 * phi0 * m2 * (psi.product * alpha**2 + psi.square * (third - alpha**2))
    squares = e**4 * phi0**3 * beta**2 * psi.square_square * m4
    pairs = 2 * (e**2 * phi0 * psi.square) ** 2 * (m2**2 * square_trace - phi0 * m4 * beta**2)
    joint[2] += e**3 * phi0**2 * beta * psi.with_square * mean(r**2 * followed)
    joint[0] += linear

    norm_variance = quadratic
    norm_variance[2] += 4 * spike**2 * alpha**2 * samples.plain.form(1) + single - slope**2
    norm_variance[4] += squares + max(pairs, 0.0)
    return RowFluctuations(
        projection_variance=(constant, 0.0, e**2 * phi0 * psi.square * m2 * gain),
        spike_variance=(spike * norm) ** 2 / 2 * (c2 - sphere),
        norm_slope=(slope, 0.0),
        covariance=tuple(joint.tolist()),
        norm_variance=tuple(norm_variance.tolist()),
        sample_gain=gain,
    )
