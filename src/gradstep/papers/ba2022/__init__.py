"""Ba, Erdogdu, Suzuki, Wang, Wu, Yang (NeurIPS 2022): how one gradient step improves the representation.

Notation of the paper: ``psi1`` is n/d, ``psi2`` is N/d, ``lam`` the penalty of (4.1), ``sigma_eps`` the standard
deviation of the label noise, ``sigma`` the activation, ``sigma_star`` the teacher.
"""

from gradstep.papers.ba2022.coefficients import Coefficients, coefficients
from gradstep.papers.ba2022.risk import R_0, R_1, delta, kernel_lower_bound
from gradstep.papers.ba2022.spike import outlier, theta, threshold
from gradstep.papers.ba2022.student import TauStar, tau_star

__all__ = [
    "R_0",
    "R_1",
    "Coefficients",
    "TauStar",
    "coefficients",
    "delta",
    "kernel_lower_bound",
    "outlier",
    "tau_star",
    "theta",
    "threshold",
]
