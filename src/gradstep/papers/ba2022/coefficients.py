"""Coefficients of the activation (2.2) and of the teacher (2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments

__all__ = ["Coefficients", "coefficients"]


@dataclass(frozen=True)
class Coefficients:
    """The coefficients that Theorem 5 depends on.

    Attributes
    ----------
    mu0, mu1, mu2_squared : float
        Of the activation, (2.2).
    mu0_star, mu1_star, mu2_star_squared : float
        Of the teacher, (2.3); ``mu0_star`` is 0 for a centred teacher.
    """

    mu0: float
    mu1: float
    mu2_squared: float
    mu0_star: float
    mu1_star: float
    mu2_star_squared: float

    @property
    def unlearned(self) -> float:
        """Second moment of the teacher that the linear equivalent cannot fit; the mean counts when ``mu0`` is 0."""
        return self.mu2_star_squared + (self.mu0_star**2 if abs(self.mu0) < 1e-9 else 0.0)

    @property
    def second_moment(self) -> float:
        """Second moment of the teacher, mean included."""
        return self.mu0_star**2 + self.mu1_star**2 + self.mu2_star_squared


def coefficients(
    sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, *, centred: bool = True
) -> Coefficients:
    """Coefficients (2.2) and (2.3) of an activation and a teacher.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    centred : bool
        Whether the teacher's mean is subtracted. Assumption 1 asks for a teacher of mean zero, which the SoftPlus and
        ReLU teachers of Figure 3 are not; the paper does not say what it did, and this package centres them by default.

    Returns
    -------
    Coefficients
    """
    student, target = moments(scalar_function(sigma)), moments(scalar_function(sigma_star))
    return Coefficients(
        mu0=float(student.mean),
        mu1=float(student.linear),
        mu2_squared=float(student.nonlinear_second_moment),
        mu0_star=0.0 if centred else float(target.mean),
        mu1_star=float(target.linear),
        mu2_star_squared=float(target.nonlinear_second_moment),
    )
