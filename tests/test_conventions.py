"""Each paper's own notation, written out as the paper does, against the canonical form of the same instance.

One instance is drawn as standard normals. The paper's side uses only the paper's parameters, its own matrices and
functions typed in by hand; the canonical side uses only the fields of the `Problem` that the constructor returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradstep.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """Standard normals, one neuron or one sample a row; the teacher's direction is a unit vector."""

    weights: Array
    readout: Array
    direction: Array
    step_inputs: Array
    step_noise: Array
    fit_inputs: Array
    fit_noise: Array
    test_inputs: Array

    @classmethod
    def of(cls, seed: int, d: int, width: int, n_step: int, n: int) -> Draw:
        normal = np.random.default_rng(seed).standard_normal
        direction = normal(d)
        return cls(
            normal((width, d)),
            normal(width),
            direction / np.linalg.norm(direction),
            normal((n_step, d)),
            normal(n_step),
            normal((n, d)),
            normal(n),
            normal((7, d)),
        )


@dataclass(frozen=True)
class Outcome:
    """Weights (one neuron a row), features on the fit's inputs and predictions on new ones."""

    weights: Array
    features: Array
    coefficients: Array
    predictions: Array


def canonical(problem: Problem, draw: Draw, readout_values: Array | None = None) -> Outcome:
    """Follow the convention stated at the top of `gradstep.problem`, line by line."""
    N, n_step = problem.width, problem.n_step
    assert (N, problem.d) == draw.weights.shape
    assert n_step == len(draw.step_inputs)
    assert problem.n == len(draw.fit_inputs)
    if problem.initial_weights == "sphere":
        W = draw.weights / np.linalg.norm(draw.weights, axis=1, keepdims=True)
    else:
        W = draw.weights / math.sqrt(problem.d)
    if problem.readout.kind == "gaussian":
        a = draw.readout
    elif readout_values is None:
        a = np.full(N, problem.readout.values[0])
    else:
        assert sorted(set(readout_values)) == list(problem.readout.values)
        a = readout_values
    prefactor = {"1/N": 1 / N, "1/sqrt(N)": 1 / math.sqrt(N)}[problem.output_scale]

    X = draw.step_inputs
    y = problem.teacher(X @ draw.direction) + problem.noise * draw.step_noise
    change = np.empty_like(W)
    for i in range(N):
        f = prefactor * problem.activation(X @ W.T) @ a
        change[i] = (a[i] * (y - f) * problem.activation.derivative(X @ W[i])) @ X / n_step
    W = W + problem.step_size / math.sqrt(N) * change

    F = problem.activation(draw.fit_inputs @ W.T)
    y = problem.teacher(draw.fit_inputs @ draw.direction) + problem.noise * draw.fit_noise
    b = ridge(F, y, problem.ridge)
    return Outcome(W, F, b, problem.activation(draw.test_inputs @ W.T) @ b)


def ridge(features: Array, labels: Array, penalty: Any) -> Array:
    """Minimise ``|labels - features b|^2 + penalty |b|^2`` as a least-squares problem of stacked rows."""
    width = features.shape[1]
    rows = np.vstack([features, math.sqrt(penalty) * np.eye(width)])
    return np.linalg.lstsq(rows, np.concatenate([labels, np.zeros(width)]), rcond=None)[0]


def agree(ours: Outcome, theirs: Outcome, *, features_times: float, coefficients_times: float) -> None:
    """Compare to 1e-10; the papers' features and coefficients are ours times the documented factors."""
    tolerance = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(theirs.weights, ours.weights, **tolerance)
    np.testing.assert_allclose(theirs.features, features_times * ours.features, **tolerance)
    np.testing.assert_allclose(theirs.coefficients, coefficients_times * ours.coefficients, **tolerance)
    np.testing.assert_allclose(theirs.predictions, ours.predictions, **tolerance)


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


@pytest.mark.parametrize("exponent", [0.0, 0.5])
def test_ba2022(exponent: float) -> None:
    psi1, psi2, eta, lam, sigma_eps, d = 2.5, 1.5, 0.8, 0.05, 0.25, 24
    n, N = 60, 36  # psi1 d, psi2 d
    draw = Draw.of(1, d, N, n, n)
    # (2.2)-(2.3) ask for a centred teacher: E softplus(z) by a rule exact far beyond double precision here.
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    mean = weights @ softplus(nodes) / math.sqrt(2 * math.pi)
    eta *= N**exponent

    # Section 2.1: W in R^{d x N}, sqrt(d) W_ij ~ N(0, 1), sqrt(N) a_j ~ N(0, 1).
    W0, a = draw.weights.T / math.sqrt(d), draw.readout / math.sqrt(N)
    X, Xt = draw.step_inputs, draw.fit_inputs
    y = softplus(X @ draw.direction) - mean + sigma_eps * draw.step_noise
    yt = softplus(Xt @ draw.direction) - mean + sigma_eps * draw.fit_noise
    # (2.1)
    residual = y - np.tanh(X @ W0) @ a / math.sqrt(N)
    G0 = X.T @ (np.outer(residual, a) / math.sqrt(N) * (1 - np.tanh(X @ W0) ** 2)) / n
    W1 = W0 + eta * math.sqrt(N) * G0
    # a_hat = argmin (1/n) |y - Phi a|^2 + (lam/N) |a|^2
    Phi = np.tanh(Xt @ W1) / math.sqrt(N)
    a_hat = np.linalg.solve(Phi.T @ Phi / n + lam / N * np.eye(N), Phi.T @ yt / n)
    theirs = Outcome(W1.T, Phi, a_hat, np.tanh(draw.test_inputs @ W1) @ a_hat / math.sqrt(N))

    problem = Problem.ba2022(
        psi1=psi1, psi2=psi2, eta=eta, lam=lam, sigma_eps=sigma_eps, d=d, activation="tanh", teacher="softplus"
    )
    agree(canonical(problem, draw), theirs, features_times=1 / math.sqrt(N), coefficients_times=math.sqrt(N))


@pytest.mark.parametrize("residual", ["y - f", "y"])
def test_moniri2024(residual: Any) -> None:
    phi, psi, alpha, lam, n, c, noise = 0.4, 0.55, 0.3, 0.02, 60, 1.7, 0.2
    d, N = 24, 44  # phi n; d / psi = 43.6, rounded
    draw = Draw.of(2, d, N, n, n)

    def sigma(x: Array) -> Array:
        return np.sin(1.2 * x + 0.6)

    def sigma_star(x: Array) -> Array:
        return x + (x**2 - 1) / math.sqrt(2)

    W0, a = draw.weights / math.sqrt(d), draw.readout / math.sqrt(N)
    X, Xt = draw.step_inputs, draw.fit_inputs
    y = sigma_star(X @ draw.direction) + noise * draw.step_noise
    yt = sigma_star(Xt @ draw.direction) + noise * draw.fit_noise
    eta = c * n**alpha

    # W = W0 - eta d/dW (1/2n) |y - sigma(X W^T) a|^2; with the residual "y" the output is smaller by sqrt(N).
    output = sigma(X @ W0.T) @ a / (1 if residual == "y - f" else math.sqrt(N))
    derivative = -(np.outer(y - output, a) * 1.2 * np.cos(1.2 * (X @ W0.T) + 0.6)).T @ X / n
    W = W0 - eta * derivative
    # a_hat = argmin (1/n) |y - F a|^2 + lam |a|^2
    F = sigma(Xt @ W.T)
    a_hat = np.linalg.solve(F.T @ F / n + lam * np.eye(N), F.T @ yt / n)
    theirs = Outcome(W, F, a_hat, sigma(draw.test_inputs @ W.T) @ a_hat)

    problem = Problem.moniri2024(
        phi=phi,
        psi=psi,
        alpha=alpha,
        lam=lam,
        n=n,
        c=c,
        noise=noise,
        activation="sin(1.2*x + 0.6)",
        teacher=f"H1 + {1 / math.sqrt(2)!r}*H2",
        residual=residual,
    )
    agree(canonical(problem, draw), theirs, features_times=1.0, coefficients_times=1.0)


def test_the_step_of_moniri2024_is_a_gradient() -> None:
    """The slides define the step by a derivative: take it numerically, through the loss as they write it."""
    phi, psi, n = 0.5, 0.5, 12
    draw = Draw.of(3, 6, 12, n, n)
    W0, a = draw.weights / math.sqrt(6), draw.readout / math.sqrt(12)
    y = draw.step_inputs @ draw.direction

    def loss(W: Array) -> float:
        return float(np.sum((y - np.sin(1.2 * (draw.step_inputs @ W.T) + 0.6) @ a) ** 2) / (2 * n))

    numerical = np.empty_like(W0)
    for index in np.ndindex(W0.shape):
        shift = np.zeros_like(W0)
        shift[index] = 1e-5
        numerical[index] = (loss(W0 + shift) - loss(W0 - shift)) / 2e-5
    problem = Problem.moniri2024(phi=phi, psi=psi, alpha=0.4, lam=0.1, n=n)
    weights = canonical(problem, draw).weights
    np.testing.assert_allclose(weights, W0 - n**0.4 * numerical, rtol=0, atol=1e-8)


@pytest.mark.parametrize("readout_values", [None, (0.5, 2.0)], ids=["constant", "vocabulary"])
def test_cui2024(readout_values: tuple[float, ...] | None) -> None:
    alpha, alpha0, beta, eta_tilde, lam, d = 2.0, 3.5, 1.5, 1.3, 0.05, 20
    n, n0, p = 40, 70, 30
    draw = Draw.of(4, d, p, n0, n)
    u = np.ones(p) if readout_values is None else np.tile(readout_values, p // 2)

    # Published code: rows on the unit sphere, a_i = u_i / sqrt(p) (u = 1 in the main text), rate eta_tilde sqrt(p).
    W0 = draw.weights / np.linalg.norm(draw.weights, axis=1, keepdims=True)
    a, eta = u / math.sqrt(p), eta_tilde * math.sqrt(p)
    Z = draw.step_inputs
    y = np.sin(Z @ draw.direction)
    f = np.tanh(Z @ W0.T) @ a / math.sqrt(p)
    G = Z.T @ (np.outer((y - f) / math.sqrt(p), a) * (1 - np.tanh(Z @ W0.T) ** 2)) / n0
    W1 = W0 + eta * math.sqrt(p) * G.T
    # a_hat = argmin sum (y - f)^2 + lam |a|^2 with f(x) = a^T sigma(W x) / sqrt(p)
    A = np.tanh(draw.fit_inputs @ W1.T) / math.sqrt(p)
    a_hat = np.linalg.solve(A.T @ A + lam * np.eye(p), A.T @ np.sin(draw.fit_inputs @ draw.direction))
    theirs = Outcome(W1, A, a_hat, np.tanh(draw.test_inputs @ W1.T) @ a_hat / math.sqrt(p))

    problem = Problem.cui2024(
        alpha=alpha,
        alpha0=alpha0,
        beta=beta,
        eta_tilde=eta_tilde,
        lam=lam,
        d=d,
        activation="tanh",
        teacher="sin",
        readout="constant" if readout_values is None else dict.fromkeys(readout_values, 0.5),
    )
    assert problem.step_size == pytest.approx(eta, rel=1e-14)
    agree(canonical(problem, draw, u), theirs, features_times=1 / math.sqrt(p), coefficients_times=math.sqrt(p))


def test_the_step_of_cui2024_is_a_gradient_times_the_width() -> None:
    """``W1 = W0 - eta_tilde p grad_W (1 / 2 n0) sum (y - f)^2``, the derivative taken numerically."""
    d, p, n0 = 6, 12, 18
    draw = Draw.of(5, d, p, n0, 6)
    W0 = draw.weights / np.linalg.norm(draw.weights, axis=1, keepdims=True)
    y = np.tanh(draw.step_inputs @ draw.direction)

    def loss(W: Array) -> float:
        return float(np.sum((y - np.tanh(draw.step_inputs @ W.T).sum(axis=1) / p) ** 2) / (2 * n0))

    numerical = np.empty_like(W0)
    for index in np.ndindex(W0.shape):
        shift = np.zeros_like(W0)
        shift[index] = 1e-5
        numerical[index] = (loss(W0 + shift) - loss(W0 - shift)) / 2e-5
    problem = Problem.cui2024(alpha=1.0, alpha0=3.0, beta=2.0, eta_tilde=0.9, lam=0.1, d=d)
    np.testing.assert_allclose(canonical(problem, draw).weights, W0 - 0.9 * p * numerical, rtol=0, atol=1e-8)
