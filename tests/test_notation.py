"""The documentation's table of notation: symbols of one paper in terms of another's, between independent code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradstep.papers import ba2022, cui2024, moniri2024
from gradstep.problem import Problem
from gradstep.theory.equivalent.features import conditional_features
from gradstep.theory.equivalent.leverage import linear_gain
from gradstep.theory.equivalent.tables import Tables
from gradstep.theory.equivalent.uniform import solve
from gradstep.theory.neurons.bulk import isotropic
from gradstep.theory.neurons.groups import neuron_groups
from gradstep.theory.step.statistics import step_statistics


@pytest.mark.parametrize(("phi", "psi", "lam"), [(0.4, 0.7, 0.03), (1.5, 0.5, 0.2), (0.3, 2.0, 1e-3)])
def test_traces_are_the_effective_penalty_and_the_resolvent(phi: float, psi: float, lam: float) -> None:
    traces = moniri2024.limiting_traces("tanh", phi=phi, psi=psi, lam=lam)
    initial = ba2022.random_features(ba2022.coefficients("tanh", "sin"), psi1=1 / phi, psi2=1 / psi, lam=lam)
    np.testing.assert_allclose(traces.t * initial.kappa, 1, rtol=1e-10)
    expected = initial.q * initial.g / initial.kappa
    np.testing.assert_allclose(traces.s2, expected, rtol=1e-10)
    np.testing.assert_allclose(traces.unused, phi / psi - initial.degrees_of_freedom_per_sample, rtol=1e-9)


def test_first_gain_of_moniri_is_the_limit_of_the_gain_of_ba() -> None:
    teacher, noise, phi, psi, lam = "H1 + 0.3*H3", 0.2, 0.4, 0.7, 0.03
    first = moniri2024.Lambda(1, "tanh", teacher, phi=phi, psi=psi, lam=lam, sigma_eps=noise, residual="y")
    limit = ba2022.delta_large_step(
        ba2022.coefficients("tanh", teacher), psi1=1 / phi, psi2=1 / psi, lam=lam, sigma_eps=noise
    )
    np.testing.assert_allclose(first, limit, rtol=1e-10)


def test_one_group_is_the_saddle_point_of_cui() -> None:
    setting = {"alpha": 2.0, "alpha0": 1.0, "beta": 1.5, "eta_tilde": 1.2, "lam": 0.05}
    problem = Problem.cui2024(**setting, d=10**7, noise=0.3)
    d, width, n = float(problem.d), float(problem.width), float(problem.n)
    step = step_statistics(problem, d, width, float(problem.n_step), own_output=False)
    groups = neuron_groups(replace(step, readout_shrinkage=1.0), problem.readout, d, odd=True, rows="isotropic")
    table = conditional_features(problem.activation, problem.teacher, groups, step.alignment)
    tables = Tables(table, groups, isotropic(len(groups.weight))).shared
    found = solve(
        tables,
        noise=np.array([problem.noise]),
        dimension=np.array([d]),
        width=np.array([width]),
        samples=np.array([n]),
        ridge=np.array([problem.ridge]),
    )
    v = width * groups.weight / found.point.inverse_resolvent[0]
    gain = linear_gain(tables.leverage_table.linear, found.point.sample_weight)[0, 0]
    inner = np.diag(1 / found.point.density[0]) + gain
    omega = (d - 1) * np.linalg.inv(inner).sum()

    theirs = cui2024.summary_statistics("tanh", "tanh", **setting, sigma_eps=0.3)
    c = float(theirs.spike.bulk_variance)
    np.testing.assert_allclose(v.sum(), theirs.readout_response, rtol=1e-6)
    np.testing.assert_allclose(omega, theirs.bulk_response / c, rtol=1e-6)
    np.testing.assert_allclose(found.readout_norm[0], theirs.readout_norm, rtol=1e-6)
    np.testing.assert_allclose(found.train_loss[0], theirs.train_loss, rtol=1e-6)
    kappa = table.kappa
    np.testing.assert_allclose(
        found.learned[0],
        cui2024.learned_function("tanh", theirs, kappa),
        rtol=0,
        atol=1e-6 * np.abs(found.learned).max(),
    )
    np.testing.assert_allclose(
        [step.spike, 1 + step.bulk, step.alignment],
        [getattr(theirs.spike, k) for k in ("strength", "bulk_variance", "alignment")],
        rtol=1e-12,
    )
