"""Cui, Pesce, Dandi, Krzakala, Lu, Zdeborova, Loureiro (ICML 2024): asymptotics after one gradient step.

Notation of the paper: ``sigma`` the activation, ``sigma_star`` the teacher, ``eta_tilde`` the step in the units of its
code, ``alpha0`` the samples of the step, ``alpha`` those of the fit, ``beta`` the width, all per input dimension, and
``lam`` the penalty. ``r``, ``c`` and ``gamma`` are the spike strength, the bulk variance and the alignment. An argument
out of range, or a function that is unknown, raises `InvalidInput` with the name it has here.

Appendix C, any convex loss and penalty, is :func:`~gradstep.theory.convex.convex_loss.convex_prediction` of
:meth:`Problem.cui2024 <gradstep.Problem.cui2024>` with ``rows="isotropic"`` and ``bulk="isotropic"``.
"""

from gradstep.papers.cui2024.bias import TrainedBias, biased_lower_bound, biased_statistics, trained_bias
from gradstep.papers.cui2024.bounds import (
    BestPenalty,
    BestStep,
    best_linear,
    best_penalty,
    best_step,
    lower_bound,
    realised_functions,
    upper_bound,
)
from gradstep.papers.cui2024.errors import (
    SummaryStatistics,
    learned_along_target,
    learned_function,
    solve,
    summary_statistics,
)
from gradstep.papers.cui2024.groups import (
    GroupBounds,
    GroupStatistics,
    NeuronGroups,
    density_groups,
    group_bounds,
    group_statistics,
    stepped_groups,
)
from gradstep.papers.cui2024.spectrum import outlier, spectral_law
from gradstep.papers.cui2024.spiked import ConditionalMoments, Spike, equivalent_features, equivalent_srf

__all__ = [
    "BestPenalty",
    "BestStep",
    "ConditionalMoments",
    "GroupBounds",
    "GroupStatistics",
    "NeuronGroups",
    "Spike",
    "SummaryStatistics",
    "TrainedBias",
    "best_linear",
    "best_penalty",
    "best_step",
    "biased_lower_bound",
    "biased_statistics",
    "density_groups",
    "equivalent_features",
    "equivalent_srf",
    "group_bounds",
    "group_statistics",
    "learned_along_target",
    "learned_function",
    "lower_bound",
    "outlier",
    "realised_functions",
    "solve",
    "spectral_law",
    "stepped_groups",
    "summary_statistics",
    "trained_bias",
    "upper_bound",
]
