r"""Summary statistics and errors of the ridge fit after the step: Result 3.3, in the proportional limit.

The equations of :math:`V_1` and :math:`V_2` are nonlinear; everything else is linear once they are solved. They are
independent of the uniform equivalent, by which :func:`gradstep.predict` solves the same model.

The paper leaves traces of a drawn bulk in its equations. Their closed form at any width ratio, with the overlap
:math:`\theta` of the readout with the bulk's component along the spike, is a derivation of this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import NotConverged
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.smoothing import hermite_smoothed
from gradstep.papers.cui2024.spiked import (
    ConditionalMoments,
    Spike,
    conditional_features,
    equivalent_features,
    equivalent_srf,
)
from gradstep.resolution import NOTHING
from gradstep.theory.equivalent.certificate import LABEL_ROUNDING, ON_SHELL

__all__ = ["SummaryStatistics", "learned_along_target", "learned_function", "solve", "summary_statistics"]

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""Largest relative residual of the self-consistent equations that is ever returned."""
MAXIMUM_ITERATIONS = 200
# Points times nodes handled at once: keeps the working arrays in the processor's cache.
CHUNK = 400_000


@dataclass(frozen=True)
class SummaryStatistics:
    r"""Solution of Result 3.3; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    spike : Spike
        :math:`r`, :math:`c` and :math:`\gamma`.
    test_error : ndarray
        (25), :math:`E(\hat f-f^*)^2` against the noiseless teacher.
    noisy_test_error : ndarray
        The same plus the variance of the label noise: :math:`\varepsilon_{test}` against noisy labels.
    train_error : ndarray
        Mean squared residual on the training set, which the paper does not give.
    train_loss : ndarray
        ``train_error`` plus :math:`\lambda|a|^2/n`: the minimum of (4) per sample.
    readout_mean : ndarray
        :math:`m=1^\top a/\sqrt p`.
    bulk_overlap : ndarray
        :math:`\theta`: overlap of the readout with the component of the bulk along the spike.
    teacher_overlap : ndarray
        :math:`\psi`: overlap with the teacher's part orthogonal to the spike.
    bulk_norm, readout_norm : ndarray
        :math:`q_1=|\Pi\tilde W^\top a|^2/p` and :math:`q_2=|a|^2/p`.
    bulk_response, readout_response : ndarray
        :math:`V_1` and :math:`V_2`.
    residual : ndarray
        True relative residual of the whole system, at most 1e-10.
    """

    spike: Spike
    test_error: Array
    noisy_test_error: Array
    train_error: Array
    train_loss: Array
    readout_mean: Array
    bulk_overlap: Array
    teacher_overlap: Array
    bulk_norm: Array
    readout_norm: Array
    bulk_response: Array
    readout_response: Array
    residual: Array


def summary_statistics(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta_tilde: ArrayLike,
    alpha0: ArrayLike,
    alpha: ArrayLike,
    lam: ArrayLike,
    beta: ArrayLike = 1.0,
    sigma_eps: ArrayLike = 0.0,
    published: bool = False,
) -> SummaryStatistics:
    r"""All summary statistics (17) at the solution of (18) to (24), and the errors.

    Docs, "Large step", equations (L2) and (L7).

    Parameters
    ----------
    sigma, sigma_star, eta_tilde, alpha0
        Activation, teacher and step, as in :func:`~gradstep.papers.cui2024.equivalent_srf`.
    alpha : array_like
        :math:`n/d` of the ridge fit.
    lam : array_like
        :math:`\lambda` of (4): sum of squares plus :math:`\lambda|a|^2`, features divided by :math:`\sqrt p`.
    beta : array_like
        :math:`p/d`.
    sigma_eps : array_like
        Standard deviation of the label noise, in the step and in the fit.
    published : bool
        Take :math:`\theta=0`, as in the outputs stored in the paper's notebook.

    Raises
    ------
    NotConverged
        If the equations are not solved: the true residual is above 1e-10.

    Notes
    -----
    A step of size zero removes the spike, and the result is that of random features. For any positive size, however
    small, the spike is infinitely strong in the limit (its norm is :math:`r\sqrt p`) and :math:`m` is free.

    The overlap :math:`\theta` does not vanish in the limit, and neither Result 3.3 nor the source of the paper's
    notebook leaves it out. Only the outputs stored there, of an earlier state of that source, have
    :math:`\theta\approx0`, and overstate the error by up to 3 per cent. (They also have the bulk variance of an earlier
    version, which lowers the error by half a per cent.)
    """
    r, c, gamma = equivalent_srf(sigma, sigma_star, eta_tilde=eta_tilde, alpha0=alpha0, sigma_eps=sigma_eps)
    features = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, folded=True)
    return solve(features, alpha=alpha, lam=lam, beta=beta, sigma_eps=sigma_eps, published=published)


def solve(
    features: ConditionalMoments,
    *,
    alpha: ArrayLike,
    lam: ArrayLike,
    beta: ArrayLike = 1.0,
    sigma_eps: ArrayLike = 0.0,
    published: bool = False,
) -> SummaryStatistics:
    r"""Solve Result 3.3 for given features.

    The features are those of :func:`~gradstep.papers.cui2024.equivalent_features`, and the others, as in
    :func:`summary_statistics`, broadcast with their spike. Raises `NotConverged` as in :func:`summary_statistics`.

    Docs, "Large step", equations (L2), (L3), (L4), (L5), (L6) and (L7).

    Notes
    -----
    With :math:`V=\mu_1^2V_1+\mu_2^2V_2`, :math:`\omega_0=\mu_0m+\kappa\mu_1\theta` and the squared error
    :math:`R=E[(y-\omega_0)^2|\kappa]-2\mu_1\psi h_1+\mu_1^2q_1+\mu_2^2q_2` given :math:`\kappa`, where
    :math:`h=E_\zeta\sigma_*` and :math:`h_1=E_\zeta\zeta\sigma_*`,

    .. math::
        \hat V_j=\tfrac\alpha\beta E\tfrac{\mu_j^2}{1+V},\quad
        \hat q_j=\tfrac\alpha\beta E\tfrac{\mu_j^2R}{(1+V)^2},\quad
        \hat\theta=\tfrac\alpha\beta E\tfrac{\kappa\mu_1(h-\omega_0)}{1+V},\quad
        \hat\psi=\tfrac\alpha\beta E\tfrac{\mu_1h_1}{1+V},\quad
        0=E\tfrac{\mu_0(h-\omega_0)}{1+V}.

    With the traces closed, :math:`(V_1,V_2)` are those of a Marchenko-Pastur law, :math:`\theta=c\beta V_2\hat\theta`,
    :math:`\psi=\beta V_1\hat\psi`, and :math:`(q_1,q_2)` minus the derivative of :math:`(V_1,V_2)` along
    :math:`(\hat q_1+\beta\hat\psi^2,\hat q_2+c\beta\hat\theta^2)`. The test error is :math:`E\,R` without the noise.
    """
    spike, *tables = features
    alpha, beta, lam, sigma_eps, c = np.broadcast_arrays(
        positive("alpha", alpha),
        positive("beta", beta),
        positive("lam", lam),
        nonnegative("sigma_eps", sigma_eps),
        spike.bulk_variance,
    )
    shape, nodes = alpha.shape, features.nodes.shape[-1]
    # Points that share a spike share its tables.
    row = np.broadcast_to(np.arange(spike.bulk_variance.size).reshape(spike.bulk_variance.shape), shape).ravel()
    tables = [table.reshape(-1, nodes) for table in tables]
    points = [np.ascontiguousarray(np.ravel(array)) for array in (alpha, beta, lam, sigma_eps, c)]
    size = max(1, CHUNK // nodes)
    parts = [
        _solve_chunk(
            [table[row[begin : begin + size]] for table in tables],
            *(array[begin : begin + size] for array in points),
            published=published,
        )
        for begin in range(0, row.size, size)
    ]
    fields = [np.concatenate(columns).reshape(shape) for columns in zip(*parts, strict=True)]
    found = SummaryStatistics(Spike(*(np.broadcast_to(value, shape) for value in spike)), *fields)
    if not (found.residual <= TOLERANCE).all():
        raise NotConverged(
            "large step",
            float(np.max(found.residual)),
            TOLERANCE,
            "Ratios between 0.01 and 100 and penalties between 1e-10 and 1e10 are supported; rescale the problem.",
        )
    return found


def _bulk_responses(v1_hat: Array, v2_hat: Array, beta: Array, lam: Array) -> tuple[Array, Array, Array, Array, Array]:
    r"""Traces of the Marchenko-Pastur bulk of unit variance: :math:`V_1, V_2, s_0, s_1, s_2`.

    :math:`V_2=\frac1p\mathrm{tr}S^{-1}`, :math:`V_1=\frac1p\mathrm{tr}\,\Omega S^{-1}`,
    :math:`s_k=\frac1p\mathrm{tr}\,\Omega^kS^{-2}` with :math:`S=\lambda+\hat V_2+\hat V_1\Omega`, without cancellation.

    Docs, "Large step", equation (L3).
    """
    shift = lam + v2_hat
    linear = shift + v1_hat * (1 - beta)
    discriminant = np.sqrt(linear**2 + 4 * beta * v1_hat * shift)
    total = discriminant + np.abs(linear)
    v2 = np.where(linear >= 0, 2 / total, total / (2 * beta * shift * np.where(v1_hat > 0, v1_hat, 1.0)))
    ratio = 1 + beta * v1_hat * v2
    v1 = v2 / ratio
    s0 = v2 / discriminant
    # 1 + beta - beta (1 - beta) T with T = v1_hat * v2.
    s2 = s0 * (1 + beta - beta * (1 - beta) * v1_hat * v2) / ratio**2
    return v1, v2, s0 * ratio, s0 / ratio, s2


class _Chunk:
    """Points solved at once, from eight tables of shape (points, nodes).

    The bulk has unit variance here: what is called mu1 is sqrt(c) mu_1, and V_1, theta, psi and q_1 are those of the
    paper without their powers of c.
    """

    def __init__(
        self, tables: Sequence[Array], alpha: Array, beta: Array, lam: Array, noise: Array, *, published: bool
    ) -> None:
        kappa, self.weight, self.mu0, self.mu1, self.mu2_squared, self.h, self.h1, self.h_rest = tables
        self.alpha, self.beta, self.lam, self.ratio = alpha, beta, lam, alpha / beta
        self.mu1_squared, self.y_rest = self.mu1**2, self.h_rest + noise[:, None] ** 2
        self.linear = np.zeros_like(self.mu1) if published else kappa * self.mu1
        hats = _Hats(self.weight, self.mu1_squared, self.mu2_squared, self.ratio)
        self.v1, self.v2 = _newton(hats, beta, lam)
        self.hats = hats(self.v1, self.v2)
        self.traces = _bulk_responses(*self.hats, beta, lam)
        gain = hats.gain(self.v1, self.v2)
        self.first, self.second = self.weight * gain, self.weight * gain**2
        self.m, self.theta = self._means()
        self.miss = self.h - self.mu0 * self.m[:, None] - self.linear * self.theta[:, None]
        self.psi = alpha * self.v1 * _dot(self.first, self.mu1, self.h1)
        self.q1, self.q2 = self._norms()
        # The factor of 1/(1+V)^2 in the hats of q_1 and q_2.
        self.noisy_error = self._fixed + (self.mu1_squared * self.q1[:, None] + self.mu2_squared * self.q2[:, None])
        self.train_error = _dot(self.second, self.noisy_error)
        # The minimum of the objective.
        self.train_loss = self.train_error + lam * beta / alpha * self.q2

    @property
    def _carries_mean(self) -> Array:
        size = _dot(self.weight, self.mu0, self.mu0)
        whole = size + _dot(self.weight, self.mu1, self.mu1) + _dot(self.weight, self.mu2_squared)
        return np.asarray(size > 1e-24 * whole)

    @property
    def _fixed(self) -> Array:
        """Return the factor of 1/(1+V)^2 in the hats of q_1 and q_2, without its terms in q."""
        return np.asarray(self.miss**2 + self.y_rest + self.h1**2 - 2 * self.psi[:, None] * self.mu1 * self.h1)

    def _means(self) -> tuple[Array, Array]:
        """Return m and theta of omega_0 = m mu_0 + theta kappa mu_1: project out mu_0, then solve for theta."""
        carries, first, step = self._carries_mean, self.first, self.alpha * self.v2
        safe = np.where(carries, _dot(first, self.mu0, self.mu0), 1.0)
        mean_linear = np.where(carries, _dot(first, self.mu0, self.linear) / safe, 0.0)
        rest = self.linear - mean_linear[:, None] * self.mu0
        theta = step * _dot(first, rest, self.h) / (1 + step * _dot(first, rest, rest))
        return np.where(carries, _dot(first, self.mu0, self.h) / safe, 0.0) - mean_linear * theta, theta

    def _sources(self, error: Array) -> tuple[Array, Array]:
        """Return the hats of q_1 and q_2 with the spikes of the teacher and of kappa mu_1, for an error given kappa."""
        return (
            self.ratio * _dot(self.second, self.mu1_squared, error) + self.psi**2 / (self.beta * self.v1**2),
            self.ratio * _dot(self.second, self.mu2_squared, error) + self.theta**2 / (self.beta * self.v2**2),
        )

    def _norms(self) -> tuple[Array, Array]:
        """Return q_1 and q_2, from two linear equations."""
        squares, (_, _, s0, s1, s2) = (self.mu1_squared, self.mu2_squared), self.traces
        h11, h12, h22 = (self.ratio * _dot(self.second, *pair) for pair in combinations_with_replacement(squares, 2))
        source1, source2 = self._sources(self._fixed)
        return _solve_two(
            1 - (s2 * h11 + s1 * h12),
            -(s2 * h12 + s1 * h22),
            -(s1 * h11 + s0 * h12),
            1 - (s1 * h12 + s0 * h22),
            s2 * source1 + s1 * source2,
            s1 * source1 + s0 * source2,
        )

    def test_error(self) -> Array:
        """Return (25) as a sum of terms that are not negative."""
        error = self.miss**2 + self.h_rest + (self.h1 - self.mu1 * self.psi[:, None]) ** 2
        error += self.mu1_squared * (self.q1 - self.psi**2)[:, None] + self.mu2_squared * self.q2[:, None]
        return _dot(self.weight, error)

    def residual(self) -> Array:
        """Return the true relative residual, from the equations as stated."""
        (f1, f2, s0, s1, s2), first = self.traces, self.first
        q1_hat, q2_hat = self._sources(self.noisy_error)
        scale = self.beta * self.v2 * self.ratio
        theta_size = np.abs(self.theta) + scale * _dot(first, np.abs(self.linear), np.abs(self.h)) + NOTHING
        label_size = np.sqrt(_dot(self.weight, self.h, self.h)) + NOTHING
        mean = np.where(self._carries_mean, np.abs(_dot(first, self.mu0, self.miss)), 0.0)
        parts = [
            np.abs(f1 / self.v1 - 1),
            np.abs(f2 / self.v2 - 1),
            np.abs(self.theta - scale * _dot(first, self.linear, self.miss)) / theta_size,
            mean / (_dot(first, np.abs(self.mu0)) * label_size + NOTHING),
            np.abs(s2 * q1_hat + s1 * q2_hat - self.q1) / (self.q1 + NOTHING),
            np.abs(s1 * q1_hat + s0 * q2_hat - self.q2) / (self.q2 + NOTHING),
        ]
        residual, defect = np.max(parts, axis=0), self._defect()
        return np.asarray(np.where(defect <= ON_SHELL, residual, np.maximum(residual, defect)))

    def _defect(self) -> Array:
        """Return the largest violation of identities that follow from the equations but are not among them.

        The traces of the bulk belong together: tr S S^-2 = tr S^-1, and so with Omega. The minimum of the objective is
        also the mean of y (y - f), which depends on the means alone.
        """
        (v1_hat, v2_hat), (_, _, s0, s1, s2), h, h1 = self.hats, self.traces, self.h, self.h1
        on_shell = _dot(self.first, self.y_rest + h * self.miss + h1 * (h1 - self.mu1 * self.psi[:, None]))
        power = _dot(self.weight, h, h) + _dot(self.weight, h1, h1) + _dot(self.weight, self.y_rest)
        loss_size = self.train_loss + LABEL_ROUNDING / ON_SHELL * power + NOTHING
        parts = [
            np.abs((self.lam + v2_hat) * s0 + v1_hat * s1 - self.v2) / self.v2,
            np.abs((self.lam + v2_hat) * s1 + v1_hat * s2 - self.v1) / self.v1,
            np.abs(self.train_loss - on_shell) / loss_size,
            np.where((self.v1 > 0) & (self.v2 > 0), 0.0, np.inf),
        ]
        return np.asarray(np.max(parts, axis=0))


def _solve_chunk(
    tables: Sequence[Array], alpha: Array, beta: Array, lam: Array, noise: Array, c: Array, *, published: bool
) -> tuple[Array, ...]:
    """Return the fields of `SummaryStatistics` except for the first."""
    found, root = _Chunk(tables, alpha, beta, lam, noise, published=published), np.sqrt(c)
    test_error = found.test_error()
    return (
        test_error,
        test_error + noise**2,
        found.train_error,
        found.train_loss,
        found.m,
        root * found.theta,
        root * found.psi,
        c * found.q1,
        found.q2,
        c * found.v1,
        found.v2,
        found.residual(),
    )


def _dot(*factors: Array) -> Array:
    """Sum over the nodes of the product of the factors."""
    letters = ",".join(["pm"] * len(factors))
    return np.asarray(np.einsum(f"{letters}->p", *factors))


def _solve_two(a: Array, b: Array, c: Array, d: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Solve the 2 by 2 systems with matrix ((a, b), (c, d)) and right-hand side (x, y)."""
    determinant = a * d - b * c
    return (x * d - b * y) / determinant, (a * y - x * c) / determinant


class _Hats:
    r"""The maps :math:`\hat V_j(V)=\frac\alpha\beta E\frac{\mu_j^2}{1+V}` of (18) and their derivatives.

    Docs, "Large step", equation (L2).
    """

    def __init__(self, weight: Array, mu1_squared: Array, mu2_squared: Array, ratio: Array) -> None:
        self.mu1_squared, self.mu2_squared, self.ratio = mu1_squared, mu2_squared, ratio
        self.first1, self.first2 = weight * mu1_squared, weight * mu2_squared
        # Products of two, once: the averages of every Newton step are then dot products.
        self.second11, self.second12 = self.first1 * mu1_squared, self.first1 * mu2_squared
        self.second22 = self.first2 * mu2_squared

    def gain(self, v1: Array, v2: Array) -> Array:
        return np.asarray(1 / (1 + self.mu1_squared * v1[:, None] + self.mu2_squared * v2[:, None]))

    def __call__(self, v1: Array, v2: Array) -> tuple[Array, Array]:
        gain = self.gain(v1, v2)
        return self.ratio * _dot(self.first1, gain), self.ratio * _dot(self.first2, gain)

    def with_slopes(self, v1: Array, v2: Array) -> tuple[Array, Array, Array, Array, Array]:
        gain = self.gain(v1, v2)
        squared = gain**2
        return (
            self.ratio * _dot(self.first1, gain),
            self.ratio * _dot(self.first2, gain),
            self.ratio * _dot(self.second11, squared),
            self.ratio * _dot(self.second12, squared),
            self.ratio * _dot(self.second22, squared),
        )


def _newton(hats: _Hats, beta: Array, lam: Array) -> tuple[Array, Array]:
    """Solve log V = log F(V) by Newton, safeguarded by monotone bounds.

    F is increasing and F(tV) < t F(V) for t > 1, so the solution is unique, F maps lower bounds to lower bounds and
    upper bounds to upper bounds, and the Jacobian in log V is an M-matrix.
    """
    zero = np.zeros_like(lam)
    low1, low2, *_ = _bulk_responses(*hats(zero, zero), beta, lam)
    high1, high2, *_ = _bulk_responses(zero, zero, beta, lam)
    low, high = np.log([low1, low2]), np.log([high1, high2])
    # With fewer samples than neurons the readout's response is of order 1/penalty.
    start = np.where(hats.ratio < 1, high, low)
    u = start
    previous = np.full_like(lam, np.inf)
    for _ in range(MAXIMUM_ITERATIONS):
        v1, v2 = np.exp(u)
        v1_hat, v2_hat, h11, h12, h22 = hats.with_slopes(v1, v2)
        f1, f2, s0, s1, s2 = _bulk_responses(v1_hat, v2_hat, beta, lam)
        image = np.log([f1, f2])
        gap = image - u
        size = np.abs(gap).max(axis=0)
        # At the peak of interpolation the last digits of the residual still matter: stop when only rounding is left.
        if ((size <= 1e-15) | ((size <= 1e-12) & (size >= 0.5 * previous))).all():
            break
        previous = size
        low = np.where((gap >= 0).all(axis=0), np.maximum(low, image), low)
        high = np.where((gap <= 0).all(axis=0), np.minimum(high, image), high)
        # Jacobian of log F in log V; its row sums are below one.
        j11, j12 = (s2 * h11 + s1 * h12) * v1 / f1, (s2 * h12 + s1 * h22) * v2 / f1
        j21, j22 = (s1 * h11 + s0 * h12) * v1 / f2, (s1 * h12 + s0 * h22) * v2 / f2
        step = np.array(_solve_two(1 - j11, -j12, -j21, 1 - j22, gap[0], gap[1]))
        proposal = u + step
        inside = (proposal >= low) & (proposal <= high)
        u = np.where(inside, proposal, np.where(step > 0, 0.5 * (u + high), 0.5 * (u + low)))
    return v1, v2


def learned_function(sigma: str | ScalarFunction, statistics: SummaryStatistics, kappa: ArrayLike) -> Array:
    r"""Mean output given the projection on the spike, :math:`\omega_0(\kappa)=m\mu_0+\kappa\theta\mu_1` (Figure 3).

    The activation is that of the statistics, which are without a bias. The result has the shape of the statistics
    followed by that of the projections ``kappa``.
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    r, c, _, m, theta, _ = _outer(statistics, kappa)
    mean, slope, _ = conditional_features(sigma, kappa, r=r, c=c)
    return np.asarray(m * mean + kappa * theta * slope)


def learned_along_target(sigma: str | ScalarFunction, statistics: SummaryStatistics, t: ArrayLike) -> Array:
    r"""Mean output given the projection :math:`t=\langle w_*,x\rangle` on the target's direction (Figure 1).

    The result has the shape of the statistics, which are as in :func:`learned_function`, followed by that of ``t``.

    Notes
    -----
    Given :math:`t` the projection on the spike is :math:`\kappa=\gamma t+\rho z`, with :math:`\rho^2=1-\gamma^2`, and
    the teacher's other coordinate is :math:`\zeta=\rho t-\gamma z`. With
    :math:`u=r\gamma t+\sqrt{r^2\rho^2+c}\,z'` the average of :math:`m\mu_0+\kappa\theta\mu_1+\psi\zeta\mu_1` is

    .. math:: m\,E\sigma(u)+(\gamma\theta+\rho\psi)\,t\,E\sigma'(u)+\rho r(\rho\theta-\gamma\psi)\,E\sigma''(u)

    by Stein's lemma (this project).
    """
    t = np.asarray(t, dtype=np.float64)
    r, c, gamma, m, theta, psi = _outer(statistics, t)
    rho = np.sqrt(np.maximum(1 - gamma**2, 0.0))
    scale = np.sqrt((r * rho) ** 2 + c)
    mean, first, second = hermite_smoothed(scalar_function(sigma), r * gamma * t, scale, 2)
    curvature = np.sqrt(2) * second / scale**2
    linear = (gamma * theta + rho * psi) * t * first / scale
    return np.asarray(m * mean + linear + rho * r * (rho * theta - gamma * psi) * curvature)


def _outer(statistics: SummaryStatistics, points: Array) -> list[Array]:
    """Return r, c, gamma, m, theta and psi, with an axis of length one for each axis of the points."""
    expand = (...,) + (None,) * points.ndim
    overlaps = statistics.readout_mean, statistics.bulk_overlap, statistics.teacher_overlap
    return [value[expand] for value in (*statistics.spike, *overlaps)]
