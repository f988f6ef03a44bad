"""Moniri, Lee, Hassani, Dobriban (ICML 2024): non-linear feature learning with one gradient step.

Notation of the paper: ``phi`` is d/n, ``psi`` is d/N, ``lam`` the penalty, ``alpha`` the exponent of the step size,
``sigma_eps`` the standard deviation of the label noise, ``sigma`` the activation, ``sigma_star`` the teacher, ``l`` the
number of spikes.
"""

from gradstep.papers.moniri2024.features import Spikes, gaussian_equivalent, spike_sizes, spikes
from gradstep.papers.moniri2024.finite import FiniteErrors, finite_errors, spike_coefficients
from gradstep.papers.moniri2024.gains import Delta, Delta_by_matrix, Direction, Lambda, direction
from gradstep.papers.moniri2024.hermite import smoothed_powers
from gradstep.papers.moniri2024.published import (
    published_Delta,
    published_Delta_1,
    published_Delta_2,
    published_Lambda_1,
    published_Lambda_2,
)
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0, Traces, limiting_traces, published_system, traces
from gradstep.papers.moniri2024.staircase import L_te, L_tr, degree, windows

__all__ = [
    "Delta",
    "Delta_by_matrix",
    "Direction",
    "FiniteErrors",
    "L_te",
    "L_te_0",
    "L_tr",
    "L_tr_0",
    "Lambda",
    "Spikes",
    "Traces",
    "degree",
    "direction",
    "finite_errors",
    "gaussian_equivalent",
    "limiting_traces",
    "published_Delta",
    "published_Delta_1",
    "published_Delta_2",
    "published_Lambda_1",
    "published_Lambda_2",
    "published_system",
    "smoothed_powers",
    "spike_coefficients",
    "spike_sizes",
    "spikes",
    "traces",
    "windows",
]
