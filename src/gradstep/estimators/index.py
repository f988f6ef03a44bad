r"""The direction of the inputs that a fitted network looks at: where its output varies most.

A function of one projection, :math:`f(z)=g(\langle\beta,z\rangle)`, has the gradient :math:`g'\,\beta` everywhere, so
that its average gradient outer product :math:`E\,\nabla f\,\nabla f^\top` is a multiple of :math:`\beta\beta^\top`,
whatever the function is. The gradient *step* need not point there: an even function has no correlation with the
inputs, so that after few samples the step's direction is noise, while the network fitted after it may have found the
function all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.metric import Metric
from gradstep.estimators.moves import Move, average_gradients, gradient_rows, moved_on
from gradstep.estimators.rows import HOST, Sample
from gradstep.simulation.ridge import OutOfRange

__all__ = ["QUARTERS", "Index", "agreement", "agreement_of_halves", "correlation", "find_index", "implied_alignment"]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

#: Parts of the rows from which halves are made, in three ways; copies stay together.
QUARTERS = 4


@dataclass(frozen=True)
class Index:
    """The leading direction of the average gradient outer product."""

    #: Direction in the standardised inputs, scaled to projections of variance one; zero if the network is constant.
    #: Shape (d,).
    direction: Host
    #: Projections of every row. Rows of the fit are projected on the direction of a network that has not used them.
    #: Shape (n,).
    projections: Host
    outputs: Host  #: Those of the same networks: every row of the fit by one that has not seen it. Shape (n, k).
    #: Shares of the inputs in the mean squared gradient of the networks that have seen three quarters of the rows,
    #: shape (4, d).
    variations: Host
    #: Correlation between the projections on the directions of networks fitted to halves of the rows, chance
    #: subtracted.
    halves: float
    #: The correlation between the projection on `direction` and that of a network fitted to infinitely many rows, as
    #: implied by the agreement of networks fitted to halves of the rows.
    alignment: float
    blur: float  #: The same for `projections`, whose networks have seen three quarters of the rows.


def find_index(
    layers: tuple[FirstLayer, FirstLayer],
    sample: Sample,
    metric: Metric,
    move: Move,
    n_steps: int,
    penalty: float,
    target: Host,
) -> Index:
    """Fit networks to all rows, to three quarters of them and to halves, and find the index of each.

    The layers are two independent draws: what two halves agree on is then not what their networks have in common. The
    first also serves all other fits. Each network makes the move on the rows it sees. The penalty of the ridge fits is
    relative to the mean squared length of a row of centred features. The sign of the direction is such that its
    projections do not correlate negatively with the target, shape (n,).
    """
    quarters = sample.parts(QUARTERS)
    nowhere, constant = np.zeros(sample.z.shape[1]), np.zeros(sample.y.shape)

    def fitted(layer: FirstLayer, rows: Rows) -> tuple[Host, Host, Host]:
        """Return the index of a network fitted to some rows, its outputs on all, and the shares of the inputs."""
        known = sample.of(rows & sample.fit_rows)
        if not len(known.y):
            return nowhere, constant, nowhere
        try:
            stepped = moved_on(layer, sample, sample.step_rows & rows, metric, move, n_steps)
            ridge = replace(known, z=stepped.features(HOST, known.z)).ridge()
        except OutOfRange:
            return nowhere, constant, nowhere
        coefficients, intercepts = ridge.fitted(max(penalty * ridge.mean_square, ridge.floor))
        outputs = stepped.features(HOST, sample.z) @ coefficients + intercepts
        # Numbers of groups are in the order of the rows' hashes, which is random.
        order = np.argsort(known.copies.group, kind="stable")[: gradient_rows(sample.y.shape[1])]
        gradients = average_gradients(stepped, coefficients, known.of(order))
        if not np.isfinite(gradients).all() or not gradients.any():
            return nowhere, outputs, nowhere
        squares = np.sum(metric.resolved(gradients) ** 2, axis=0)
        return metric.leading(gradients)[0], outputs, squares / squares.sum()

    halves = agreement_of_halves(sample, lambda k, rows: fitted(layers[k], rows)[0], metric.eigenvalues)
    direction, outputs, _ = fitted(layers[0], np.ones(len(sample.z), dtype=bool))
    outputs = outputs.copy()
    direction = direction * np.copysign(1.0, correlation(sample.z @ direction, target, sample.weights))
    reference = sample.z @ direction
    projections, variations = reference.copy(), np.zeros((QUARTERS, sample.z.shape[1]))
    for number, quarter in enumerate(quarters):
        left_out = quarter & sample.fit_rows
        if left_out.any():
            away, held_out, variations[number] = fitted(layers[0], ~left_out)
            away = sample.z @ away
            projections[left_out] = np.copysign(1.0, correlation(away, reference, sample.weights)) * away[left_out]
            outputs[left_out] = held_out[left_out]
    blur = implied_alignment(halves, 1 - 1 / QUARTERS)
    return Index(direction, projections, outputs, variations, halves, implied_alignment(halves), blur)


def agreement_of_halves(sample: Sample, direction: Callable[[int, Rows], Host], variances: Host) -> float:
    """Return the `agreement` of the directions of two halves (0 and 1) of the rows, from three ways to halve them."""
    first, *others = sample.parts(QUARTERS)
    correlations = []
    for other in others:
        half = first | other
        one, rest = (sample.z @ direction(k, rows) for k, rows in enumerate((half, ~half)))
        correlations.append(correlation(one, rest, sample.weights))
    return agreement(np.array(correlations), variances)


def agreement(correlations: Host, variances: Host) -> float:
    r"""Return the correlation of the projections on the directions of two halves of the rows, chance subtracted.

    Two random directions of few inputs agree to some degree, too. If the projections on them have independent Gaussian
    components of variances :math:`v_i`, the squared correlation is :math:`c=\sum v_i^2/(\sum v_i)^2` on average. A
    correlation q of what the rows tell becomes :math:`q^2(1-c)+c` by it. The correlations are those of several pairs of
    halves, and the variances are known up to a factor. The result is one where the inputs have a single direction.
    """
    total = float(np.sum(variances))
    chance = float(np.sum((variances / total) ** 2)) if total > 0 else 0.0
    square = float(np.mean(correlations**2))
    return math.sqrt(max(square - chance, 0.0) / (1 - chance)) if chance < 1 else 1.0


def implied_alignment(halves: float, share: float = 1.0) -> float:
    r"""Return the alignment with the direction of infinitely many rows that the agreement of two halves implies.

    It is :math:`(1+(1/q-1)/(2s))^{-1/2}` for errors that are independent between rows, where q is the correlation
    between the projections on the directions of two halves of the rows, and s the share of the rows that the direction
    in question has seen. With all rows it is :math:`\sqrt{2q/(1+q)}` (Spearman and Brown).
    """
    return float((1 + (1 / max(halves, 1e-6) - 1) / (2 * share)) ** -0.5)


def correlation(a: Host, b: Host, weights: Host) -> float:
    """Return the correlation of two projections of mean zero; zero where one of them does not vary."""
    size = math.sqrt((weights @ a**2) * (weights @ b**2))
    return float(weights @ (a * b)) / size if size > 0 else 0.0
