r"""Coefficients of the activation (2.2) and of the teacher (2.3): all that the linear equivalent keeps of a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative
from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import is_continuous, moments

__all__ = ["Coefficients", "coefficients"]

Array = NDArray[np.float64]

#: Largest mean of an activation, over its root mean square, that counts as zero.
_CENTRED = 1e-9


@dataclass(frozen=True)
class Coefficients:
    r"""The coefficients that Theorem 5 depends on: arrays that broadcast.

    Attributes
    ----------
    mu0, mu1, mu2_squared : ndarray
        Of the activation, (2.2): :math:`\mu_0=E\sigma`, :math:`\mu_1=E z\sigma(z)` and
        :math:`\mu_2^2=E\sigma^2-\mu_0^2-\mu_1^2`.
    mu0_star, mu1_star, mu2_star_squared : ndarray
        Of the teacher, (2.3); ``mu0_star`` is 0 for a centred teacher.
    jumps : bool
        Whether the activation has jumps, through which no gradient step follows it.
    """

    mu0: Array
    mu1: Array
    mu2_squared: Array
    mu0_star: Array
    mu1_star: Array
    mu2_star_squared: Array
    jumps: bool = False

    @property
    def unlearned(self) -> Array:
        r"""Second moment of the teacher that no linear equivalent can fit.

        An activation of non-zero mean adds the constant feature :math:`\mu_0`, whose fit costs nothing in the limit, so
        that the mean of the teacher is learned. With an activation of mean zero it is not, and acts like one more
        nonlinear component. This is exact for odd activations and for weights of equal norm.

        Docs, "Random features", equation (R1).
        """
        power = np.square(self.mu0) + np.square(self.mu1) + self.mu2_squared
        lost = np.abs(self.mu0) <= _CENTRED * np.sqrt(power)
        return np.asarray(self.mu2_star_squared + np.where(lost, np.square(self.mu0_star), 0.0))

    @property
    def second_moment(self) -> Array:
        """Second moment of the teacher, mean included: what the labels of the step carry."""
        return np.asarray(np.square(self.mu0_star) + np.square(self.mu1_star) + self.mu2_star_squared)

    def check_step(self, eta: ArrayLike = 1.0) -> Array:
        """Return the learning rate if a step can be taken with it.

        Parameters
        ----------
        eta : array_like
            The learning rate.

        Raises
        ------
        InvalidInput
            If it is negative or not finite, or not zero with an activation that has jumps: the step follows the
            ordinary derivative.
        """
        eta = nonnegative("eta", eta)
        if self.jumps and eta.any():
            raise InvalidInput("sigma", "an activation with jumps", "a function without jumps")
        return eta


def coefficients(
    sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, *, centred: bool = True
) -> Coefficients:
    """Coefficients (2.2) and (2.3) of an activation and a teacher.

    The teacher's mean is subtracted if it is to be `centred`. Assumption 1 requires a teacher of mean zero, which the
    SoftPlus and ReLU teachers of Figure 3 are not; the paper does not say what it did, and this package centres them by
    default.
    """
    activation = scalar_function(sigma)
    student, target = moments(activation), moments(scalar_function(sigma_star))
    return Coefficients(
        mu0=np.asarray(student.mean),
        mu1=np.asarray(student.linear),
        mu2_squared=np.asarray(student.nonlinear_second_moment),
        mu0_star=np.asarray(0.0 if centred else target.mean),
        mu1_star=np.asarray(target.linear),
        mu2_star_squared=np.asarray(target.nonlinear_second_moment),
        jumps=not is_continuous(activation),
    )
