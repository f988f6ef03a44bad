r"""A sample of a damped step: its projections on what the damped metric makes of the gradient.

In whitened inputs (`gradstep.theory.step.correlated_samples`) a damped step multiplies the gradient by

    P = (1 + delta) (Z^T Z / n_step + delta C^-1)^-1,

where the plain step has C. The matrix knows the samples whose sum it multiplies. With the effective ridge ``kappa``,

    delta = kappa (1 - phi0 <c / (c + kappa)>),    k = c / (c + kappa),    f = phi0 <k^2>,

what ``P Z^T Z / n_step`` makes of a direction has the mean ``(1 + delta) k``, and the noise of samples left out is
``1/(1 - f)`` times as large as if the matrix did not know them. This project.
Docs, "Correlated inputs", equation (C11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum, relative_variance
from gradstep.theory.step.weighted_samples import Residual

__all__ = ["DampedSamples"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DampedSamples:
    """Averages over the samples of a damped step, with ``theta = P g`` in place of the plain step's ``C g``.

    Attributes
    ----------
    plain : CorrelatedSamples
        The same samples without damping.
    damping : float
        ``delta``, finite.
    """

    plain: CorrelatedSamples
    damping: float

    @cached_property
    def law(self) -> Residual:
        """Law of ``u`` and ``r``, with ``E u^2 = 1`` and ``E u r = mu_1*`` to the last digit.

        What its nodes leave of them would be multiplied by ``1/delta``.
        """
        law = self.plain.law
        u = law.projection / math.sqrt(law.mean(law.projection**2))
        return replace(law, projection=u, residual=law.residual + (self.linear - law.mean(u * law.residual)) * u)

    @property
    def ratio(self) -> float:
        """``phi0 = d / n_step``."""
        return self.plain.ratio

    @property
    def linear(self) -> float:
        """``mu_1* = E u r``."""
        return self.plain.linear

    @property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of the inputs' covariance."""
        return self.plain.spectrum

    @cached_property
    def ridge(self) -> float:
        """``kappa``, the effective ridge: above the damping, and at most the sum of both terms."""
        from scipy.optimize import brentq  # here: it loads for longer than a plain step takes to predict

        c, share, ratio, delta = self.spectrum.eigenvalue, self.spectrum.share, self.ratio, self.damping

        def gap(log_ridge: float) -> float:
            ridge = math.exp(log_ridge)
            return ridge * (1 - ratio * float(share @ (c / (c + ridge)))) - delta

        ends = math.log(delta) - 1e-9, math.log(delta + ratio) + 1e-9
        return math.exp(brentq(gap, *ends, xtol=1e-15, rtol=1e-14))

    @cached_property
    def kept(self) -> Array:
        """``k``, the part of each class of directions that the damped metric leaves of the whitened one."""
        return np.asarray(self.spectrum.eigenvalue / (self.spectrum.eigenvalue + self.ridge))

    @property
    def scale(self) -> float:
        """``1 + delta``."""
        return 1 + self.damping

    @cached_property
    def freedom(self) -> float:
        """``f``, the share of the samples that the metric takes up."""
        return self.ratio * float(self.spectrum.share @ self.kept**2)

    def trace(self, values: Array) -> float:
        """Return ``(1/d) z^T P V P z`` of a sample, for a function V of C given by its values."""
        known = float(self.spectrum.share @ (values * self.kept**2))
        return self.scale**2 * known / (1 - self.freedom)

    @property
    def bulk_trace(self) -> float:
        """``(1/d) tr P S P`` of samples with weights of mean one."""
        return self.trace(self._one)

    @property
    def stretch(self) -> tuple[Array, Array]:
        """Products of rows with what the mean of ``P Z^T Z / n_step`` makes of them, and its squares, in each class."""
        made = self.scale * self.kept
        return self.spectrum.eigenvalue * made, self.spectrum.eigenvalue * made**2

    @property
    def own_gain(self) -> float:
        """Mean square of what the mean of ``P Z^T Z / n_step`` makes of a row; the rest of it counts as noise."""
        return float(self.spectrum.share @ self.stretch[1])

    @cached_property
    def missed(self) -> float:
        """Mean square of the residuals that the ridge regression of them leaves of the population."""
        known, law = float(self.spectrum.teacher @ (1 - self.kept) ** 2), self.law
        return law.mean((law.residual - self.linear * law.projection) ** 2) + self.linear**2 * known

    def quadratic(self, values: Array) -> float:
        """Return ``theta^T V theta``, for a function V of C given by its values."""
        teacher = self.linear**2 * float(self.spectrum.teacher @ (values * self.kept**2))
        return self.scale**2 * teacher + self.ratio * self.trace(values) * self.missed

    def with_teacher(self, values: Array) -> float:
        """Return ``bt^T V theta``."""
        return self.scale * self.linear * float(self.spectrum.teacher @ (values * self.kept))

    def with_gradient(self, values: Array) -> float:
        """Return ``g^T V theta``."""
        known = self.spectrum
        first, kept = float(known.teacher @ self.kept), float(known.share @ (values * self.kept))
        noise = self.ratio * self.scale * kept * (self.law.square - self.linear**2 * first)
        return self.linear * self.with_teacher(values) + noise

    @cached_property
    def _one(self) -> Array:
        return np.ones_like(self.spectrum.eigenvalue)

    @cached_property
    def norm(self) -> float:
        """``|theta|``."""
        return math.sqrt(self.quadratic(self._one))

    @property
    def relative_variance_of_square(self) -> float:
        """``n_step`` times the relative variance of ``|theta|^2`` that the averages over the samples make.

        The metric knows the samples: of a residual r its teacher's part fits some, and the average of u times the rest
        is what differs between draws.
        """
        r, u, known = self.law.residual, self.law.projection, self.spectrum.teacher
        signal = self.scale**2 * self.linear * float(known @ self.kept**2)
        left = r - self.linear * float(known @ self.kept) * u
        noise = self.ratio * self.trace(self._one)
        return relative_variance(self.law, (2 * signal * u + noise * left) * left, self.norm**2)

    @cached_property
    def alignment(self) -> float:
        """``<v, bt>``, or one without a gradient."""
        return self.with_teacher(self._one) / self.norm if self.norm > 0 else 1.0

    @cached_property
    def off_teacher(self) -> float:
        """``nu``, the length of the part of theta that is orthogonal to bt."""
        return math.sqrt(max(self._among(self._one)[2], NOTHING))

    def _among(self, values: Array) -> tuple[float, float, float]:
        """Return V between bt and ``theta - m bt``, for a function V of C given by its values."""
        teacher, projection = self.spectrum.teacher * values, self.with_teacher(self._one)
        apart = self.scale * self.linear * self.kept - projection
        noise = self.ratio * self.trace(values) * self.missed
        return float(teacher.sum()), float(teacher @ apart), float(teacher @ apart**2) + noise

    def among(self, power: int) -> Array:
        """Return ``C^k`` between bt and a unit vector orthogonal to it, of which theta is made."""
        first, across, last = self._among(self.spectrum.eigenvalue**power)
        across, last = across / self.off_teacher, last / self.off_teacher**2
        return np.array([[first, across], [across, last]])

    def frame(self, alignment: float) -> Array:
        """Return a unit vector in the plane of v and bt, and one orthogonal to it, as `CorrelatedSamples` does."""
        other = math.sqrt(max(1 - alignment**2, 0.0))
        return np.array([[alignment, other], [other, -alignment]])

    def form_along(self, alignment: float, power: int = 1) -> float:
        """Return ``C^k`` along the first vector of `frame`; C itself is the variance of initial rows there, times d."""
        vector = self.frame(alignment)[:, 0]
        return float(vector @ self.among(power) @ vector)

    @cached_property
    def along(self) -> Array:
        """Mean of ``<z, P theta>`` at the nodes of the law."""
        teacher, lost = self.spectrum.teacher, self.freedom / (1 - self.freedom)
        one, two = (float(teacher @ self.kept**power) for power in (1, 2))
        by_teacher = self.linear * ((1 + lost) * two - 2 * lost * one) * self.law.projection
        return np.asarray(self.scale**2 * (by_teacher + lost * self.law.residual))
