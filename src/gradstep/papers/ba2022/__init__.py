"""Ba, Erdogdu, Suzuki, Wang, Wu, Yang (NeurIPS 2022): how one gradient step improves the representation.

Notation of the paper: ``psi1`` is n/d, ``psi2`` is N/d, ``lam`` the penalty of (4.1), ``sigma_eps`` the standard
deviation of the label noise, ``sigma`` the activation, ``sigma_star`` the teacher.
"""

from gradstep.papers.ba2022.bound import beats_kernels, penalty_window, risk_bound, smallest_constant
from gradstep.papers.ba2022.coefficients import Coefficients, coefficients
from gradstep.papers.ba2022.equivalence import R_GE
from gradstep.papers.ba2022.gradient import (
    Norms,
    error_bound,
    first_gradient,
    norms,
    rank_one,
)
from gradstep.papers.ba2022.initialisation import RandomFeatures, random_features
from gradstep.papers.ba2022.kernels import (
    R_NTK,
    LinearEquivalent,
    R_ker,
    R_linear,
    distance_kernel,
    inner_product_kernel,
    kernel_ridge_penalty,
    tangent_kernel,
)
from gradstep.papers.ba2022.risk import (
    R_0,
    R_1,
    SmallStep,
    delta,
    delta_large_sample,
    delta_large_step,
    delta_large_width,
    kernel_lower_bound,
    small_step,
)
from gradstep.papers.ba2022.spike import Outlier, outlier, theta
from gradstep.papers.ba2022.student import TauStar, constructed_readout, constructed_risk, student_risk, tau_star

__all__ = [
    "R_0",
    "R_1",
    "R_GE",
    "R_NTK",
    "Coefficients",
    "LinearEquivalent",
    "Norms",
    "Outlier",
    "R_ker",
    "R_linear",
    "RandomFeatures",
    "SmallStep",
    "TauStar",
    "beats_kernels",
    "coefficients",
    "constructed_readout",
    "constructed_risk",
    "delta",
    "delta_large_sample",
    "delta_large_step",
    "delta_large_width",
    "distance_kernel",
    "error_bound",
    "first_gradient",
    "inner_product_kernel",
    "kernel_lower_bound",
    "kernel_ridge_penalty",
    "norms",
    "outlier",
    "penalty_window",
    "random_features",
    "rank_one",
    "risk_bound",
    "small_step",
    "smallest_constant",
    "student_risk",
    "tangent_kernel",
    "tau_star",
    "theta",
]
