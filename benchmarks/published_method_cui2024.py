r"""The evaluation that Cui et al. (2024) describe for Result 3.3, written anew: the baseline of our speed comparison.

The paper's system still holds traces over a bulk matrix. The published recipe draws that matrix once, takes its
spectrum and the projections of the spike and of the teacher on its eigenvectors, and then iterates the update equations
(18) to (24) with damping, computing every Gaussian average by adaptive quadrature on every iteration, until the order
parameters move by less than 1e-4.

Run ``python benchmarks/published_method_cui2024.py`` for a table of both methods on the same settings.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.interpolate import CubicSpline

from gradstep.gaussian.functions import scalar_function
from gradstep.gaussian.smoothing import smoothed
from gradstep.papers.cui2024 import Spike, equivalent_srf, summary_statistics

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bulk:
    """A drawn bulk, seen in the eigenvectors of its part orthogonal to the spike.

    Attributes
    ----------
    eigenvalues : ndarray
        Of :math:`W_0 \\Pi W_0^\\top`, shape (p,).
    spike_weights, teacher_weights : ndarray
        Squared projections of :math:`W_0 \\hat v` and of :math:`W_0 \\hat\\zeta` on the eigenvectors.
    """

    eigenvalues: Array
    spike_weights: Array
    teacher_weights: Array


class PublishedEvaluation(NamedTuple):
    """Test error against clean labels, seconds of the iteration alone, and number of iterations."""

    test_error: float
    seconds: float
    iterations: int


def draw_bulk(d: int, beta: float, *, seed: int) -> Bulk:
    """Draw rows on the unit sphere and diagonalise the bulk orthogonal to the spike."""
    generator = np.random.default_rng(seed)
    weights = generator.standard_normal((round(beta * d), d))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    # By rotation invariance the spike and the rest of the teacher may be the first two axes.
    eigenvalues, vectors = np.linalg.eigh(weights[:, 1:] @ weights[:, 1:].T)
    return Bulk(np.maximum(eigenvalues, 0.0), (vectors.T @ weights[:, 0]) ** 2, (vectors.T @ weights[:, 1]) ** 2)


def _tables(activation: str, teacher: str, model: Spike) -> CubicSpline:
    """Interpolate mu_0, mu_1, mu_2^2 and the teacher's three averages in kappa."""
    kappa = np.linspace(-10.0, 10.0, 4001)
    r, c, gamma = map(float, model)
    features = smoothed(scalar_function(activation), r * kappa, np.sqrt(c))
    labels = smoothed(scalar_function(teacher), gamma * kappa, np.sqrt(1 - gamma**2))
    slope = features.slope / np.sqrt(c)
    columns = [features.mean, slope, features.residual_variance, labels.mean, labels.slope, labels.second_moment]
    return CubicSpline(kappa, np.stack(columns, axis=1))


def published_evaluation(
    activation: str,
    teacher: str,
    *,
    eta_tilde: float,
    alpha0: float,
    alpha: float,
    beta: float = 1.0,
    lam: float,
    sigma_eps: float = 0.0,
    bulk: Bulk,
    damping: float = 0.5,
    tolerance: float = 1e-4,
    maximum_iterations: int = 2000,
) -> PublishedEvaluation:
    """Iterate the published update equations to the given tolerance.

    Parameters
    ----------
    activation, teacher : str
        Registered functions.
    eta_tilde, alpha0, alpha, beta, lam, sigma_eps : float
        As in :func:`gradstep.papers.cui2024.summary_statistics`.
    bulk : Bulk
        From :func:`draw_bulk` at the same width ratio.
    damping : float
        Share of the old value kept in every update.
    tolerance : float
        Largest relative change of an order parameter at which the iteration stops.
    maximum_iterations : int
        The iteration gives up after as many steps.

    Returns
    -------
    PublishedEvaluation
    """
    began = time.perf_counter()
    model = equivalent_srf(activation, teacher, eta_tilde=eta_tilde, alpha0=alpha0, sigma_eps=sigma_eps)
    table = _tables(activation, teacher, model)
    c = float(model.bulk_variance)
    p = bulk.eigenvalues.size
    omega, spike_weights, teacher_weights = (
        c * array for array in (bulk.eigenvalues, bulk.spike_weights, bulk.teacher_weights)
    )
    ratio = alpha / beta
    state = np.array([0.1, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])  # m, theta, psi, q1, q2, V1, V2

    def average(name: str, order: Array) -> float:
        m, theta, psi, q1, q2, v1, v2 = order

        def integrand(kappa: float) -> float:
            mu0, mu1, mu2_squared, h, h1, h2 = table(kappa)
            gain = 1 / (1 + mu1**2 * v1 + mu2_squared * v2)
            omega0 = mu0 * m + kappa * mu1 * theta
            error = h2 + sigma_eps**2 - 2 * omega0 * h + omega0**2 - 2 * mu1 * psi * h1 + mu1**2 * q1 + mu2_squared * q2
            value = {
                "V1": mu1**2 * gain,
                "V2": mu2_squared * gain,
                "q1": mu1**2 * error * gain**2,
                "q2": mu2_squared * error * gain**2,
                "theta": kappa * mu1 * (h - omega0) * gain,
                "psi": mu1 * h1 * gain,
                "m": mu0 * (h - kappa * mu1 * theta) * gain,
                "norm": mu0**2 * gain,
                "error": error,
            }[name]
            return float(value * np.exp(-0.5 * kappa**2) / np.sqrt(2 * np.pi))

        return float(quad(integrand, -8, 8, limit=200)[0])

    for iterations in range(1, maximum_iterations + 1):
        hat = {name: ratio * average(name, state) for name in ("V1", "V2", "q1", "q2", "theta", "psi")}
        inverse = 1 / (lam + hat["V2"] + hat["V1"] * omega)
        fluctuation = (hat["q1"] * omega + hat["q2"]) / p
        fluctuation = fluctuation + hat["theta"] ** 2 * spike_weights + hat["psi"] ** 2 * teacher_weights
        updated = np.array(
            [
                average("m", state) / average("norm", state),
                hat["theta"] * (spike_weights * inverse).sum(),
                hat["psi"] * (teacher_weights * inverse).sum(),
                (omega * fluctuation * inverse**2).sum(),
                (fluctuation * inverse**2).sum(),
                (omega * inverse).mean(),
                inverse.mean(),
            ]
        )
        change = np.abs(updated - state).max()
        state = damping * state + (1 - damping) * updated
        if change <= tolerance * (1 + np.abs(state).max()):
            error = average("error", state) - sigma_eps**2
            return PublishedEvaluation(error, time.perf_counter() - began, iterations)
    raise RuntimeError(f"the published iteration did not settle in {maximum_iterations} steps")


def main() -> None:
    """Print both methods on the setting of the paper's published run."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--d", type=int, default=2000, help="input dimension of the drawn bulk")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.perf_counter()
    bulk = draw_bulk(arguments.d, 1.0, seed=arguments.seed)
    print(f"bulk of d = {arguments.d} drawn and diagonalised in {time.perf_counter() - began:.2f} s")
    ratios = [0.2, 0.9, 1.6, 2.3, 3.0]
    setting = {"eta_tilde": 3.0, "alpha0": 20.0, "lam": 0.1}
    began = time.perf_counter()
    ours = summary_statistics("tanh", "sin", alpha=ratios, **setting)
    seconds = (time.perf_counter() - began) / len(ratios)
    print(" alpha  published    seconds  steps   closed form    seconds")
    for alpha, error in zip(ratios, ours.test_error, strict=True):
        published = published_evaluation("tanh", "sin", alpha=alpha, bulk=bulk, **setting)
        print(
            f"{alpha:6.2f}  {published.test_error:.6f}  {published.seconds:9.3f}  {published.iterations:5d}"
            f"      {error:.6f}  {seconds:9.6f}"
        )


if __name__ == "__main__":
    main()
