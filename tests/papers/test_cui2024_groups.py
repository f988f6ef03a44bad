"""Readouts of several values, spikes of larger rank and biases: identities, limits, drawn models."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from gradstep import Problem
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import gaussian_rule, moments, scalar_function
from gradstep.papers import cui2024
from gradstep.papers.cui2024 import groups as module
from gradstep.papers.cui2024.drawn import fit, sampled_error, spiked_layer
from gradstep.papers.cui2024.errors import SummaryStatistics, solve
from gradstep.papers.cui2024.groups import NeuronGroups, density_groups, group_bounds, group_statistics, stepped_groups
from gradstep.papers.cui2024.spiked import equivalent_features
from gradstep.problem import Readout
from gradstep.simulation.instance import initial_readout
from gradstep.theory import predict

FIT = {"alpha": 1.6, "lam": 0.05, "beta": 0.8, "sigma_eps": 0.2}
CASES = [("tanh", "sin", 1.4, 1.3, 0.8), ("erf", "sign", 2.5, 1.1, -0.97), ("relu", "softplus", 0.7, 1.2, 0.5)]
NAMES = [f"{sigma}-{sigma_star}" for sigma, sigma_star, *_ in CASES]


def one_group(sigma: str, sigma_star: str, r: float, c: float, gamma: float, bias: float = 0.0) -> SummaryStatistics:
    return solve(equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, b=bias), **FIT)


@pytest.mark.parametrize("bias", [0.0, 0.7])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_one_group_is_result_33(case: tuple[str, str, float, float, float], bias: float) -> None:
    """Every summary statistic: the two programs share neither the quadrature nor the closed form of the bulk."""
    sigma, sigma_star, r, c, gamma = case
    expected = one_group(*case, bias)
    found = group_statistics(
        sigma, sigma_star, NeuronGroups.of(1.0, strengths=r, variances=c, alignments=gamma, biases=bias), **FIT
    )
    for name in (
        "test_error",
        "train_error",
        "train_loss",
        "readout_mean",
        "bulk_overlap",
        "teacher_overlap",
        "bulk_norm",
        "readout_norm",
        "bulk_response",
        "readout_response",
    ):
        np.testing.assert_allclose(np.ravel(getattr(found, name))[0], float(getattr(expected, name)), rtol=2e-8)


@pytest.mark.parametrize("bulk", ["gaussian", "orthogonal"])
def test_splitting_a_group_changes_nothing(bulk: module.Bulk) -> None:
    whole = NeuronGroups.of([0.4, 0.6], strengths=[1.2, 0.3], variances=[1.3, 1.1], alignments=0.8)
    split = NeuronGroups.of([0.4, 0.25, 0.35], strengths=[1.2, 0.3, 0.3], variances=[1.3, 1.1, 1.1], alignments=0.8)
    one, two = (group_statistics("tanh", "sin", groups, bulk=bulk, **FIT) for groups in (whole, split))
    np.testing.assert_allclose(
        [two.test_error, two.train_error, two.train_loss], [one.test_error, one.train_error, one.train_loss], rtol=1e-9
    )
    assert float(two.readout_norm[1:].sum()) == pytest.approx(float(one.readout_norm[1]), rel=1e-8)
    np.testing.assert_allclose(two.teacher_overlap[1:].sum(), one.teacher_overlap[1], rtol=1e-8)


@pytest.mark.parametrize("bulk", ["gaussian", "orthogonal"])
def test_opposite_signs_do_not_matter_to_an_odd_activation(bulk: module.Bulk) -> None:
    same = NeuronGroups.of(1.0, strengths=1.2, variances=1.3, alignments=0.8)
    opposite = NeuronGroups.of([0.3, 0.7], strengths=[1.2, -1.2], variances=1.3, alignments=0.8)
    one, two = (group_statistics("tanh", "sin", groups, bulk=bulk, **FIT) for groups in (same, opposite))
    np.testing.assert_allclose([two.test_error, two.train_error], [one.test_error, one.train_error], rtol=1e-8)


@pytest.mark.parametrize("bulk", ["gaussian", "orthogonal"])
def test_a_rank_one_spike_in_rotated_coordinates(bulk: module.Bulk) -> None:
    """Two orthonormal directions with proportional strengths are one spike, whatever the rotation."""
    one = NeuronGroups.of([0.5, 0.5], strengths=[1.5, 0.4], variances=[1.2, 1.0], alignments=0.7)
    for angle in (0.0, 0.6, 2.5):
        unit = np.array([math.cos(angle), math.sin(angle)])
        two = NeuronGroups.of(
            [0.5, 0.5], strengths=np.outer([1.5, 0.4], unit), variances=[1.2, 1.0], alignments=0.7 * unit
        )
        a, b = (group_statistics("tanh", "sin", groups, bulk=bulk, **FIT) for groups in (one, two))
        np.testing.assert_allclose([b.test_error, b.train_error], [a.test_error, a.train_error], rtol=1e-7)
        np.testing.assert_allclose(b.bulk_overlap @ unit, a.bulk_overlap[:, 0], atol=1e-7)


@pytest.mark.parametrize("bulk", ["gaussian", "orthogonal"])
def test_without_a_spike_the_alignment_does_not_matter(bulk: module.Bulk) -> None:
    """The direction is then arbitrary; theta and psi trade places."""
    errors = []
    for gamma in (0.0, 0.4, 1.0):
        groups = NeuronGroups.of([0.5, 0.5], strengths=[0.0, 0.0], variances=[1.0, 1.5], alignments=gamma)
        found = group_statistics("tanh", "sin", groups, bulk=bulk, **FIT)
        errors.append([found.test_error, found.train_error])
    np.testing.assert_allclose(errors[1:], [errors[0]] * 2, rtol=1e-8)


@pytest.mark.parametrize("bulk", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("d", [60.0, math.inf])
def test_loss_satisfies_the_envelope_theorem(bulk: module.Bulk, d: float) -> None:
    groups = NeuronGroups.of([0.5, 0.5], strengths=[0.4, 1.5], variances=[1.1, 1.4], alignments=0.8, biases=[0.0, 0.5])

    def at(lam: float) -> module.GroupStatistics:
        return group_statistics("tanh", "sin", groups, bulk=bulk, d=d, **FIT | {"lam": lam})

    lam, step = FIT["lam"], 1e-4
    slope = (at(lam * (1 + step)).train_loss - at(lam * (1 - step)).train_loss) / (2 * step * lam)
    assert slope == pytest.approx(float(at(lam).readout_norm.sum()) * FIT["beta"] / FIT["alpha"], rel=1e-5)


def test_orthogonal_rows_are_independent_rows_in_a_narrow_network() -> None:
    """At fixed n/p and small beta, independent rows are orthogonal."""
    groups = NeuronGroups.of([0.5, 0.5], strengths=[0.5, 2.0], variances=[1.0, 1.3], alignments=0.8)
    gaps = []
    for beta in (1e-2, 1e-4):
        a, b = (
            group_statistics("tanh", "sin", groups, alpha=2 * beta, lam=0.1, beta=beta, bulk=bulk).test_error
            for bulk in ("gaussian", "orthogonal")
        )
        gaps.append(abs(a / b - 1))
    assert gaps[1] < 0.03 * gaps[0]
    assert gaps[1] < 1e-4


@pytest.mark.parametrize(
    ("vocabulary", "d", "tolerance"),
    [
        ({0.5: 0.5, 2.0: 0.5}, math.inf, 1e-5),
        ({-0.4: 0.3, 1.0: 0.4, 1.8: 0.3}, math.inf, 1e-4),
        ({0.3: 0.5, 1.5: 0.5}, 2000, 1e-3),
    ],
    ids=["two", "three", "finite"],
)
def test_uniform_equivalent_of_this_project(vocabulary: dict[float, float], d: float, tolerance: float) -> None:
    """An independent derivation and solver; at finite size they differ by terms of order 1/d that neither claims."""
    step = {"eta_tilde": 2.0, "alpha0": 4.0}
    groups = stepped_groups("erf", "sin", vocabulary, sigma_eps=0.1, **step)
    found = group_statistics("erf", "sin", groups, alpha=2.0, lam=0.02, beta=1.5, sigma_eps=0.1, d=d)
    problem = Problem.cui2024(
        alpha=2.0, lam=0.02, beta=1.5, noise=0.1, d=d, activation="erf", teacher="sin", readout=vocabulary, **step
    )
    expected = predict(problem, rows="isotropic")
    assert found.test_error == pytest.approx(expected.test_error, rel=tolerance)
    assert found.train_error == pytest.approx(expected.train_error, rel=tolerance)
    assert found.train_loss == pytest.approx(expected.train_loss, rel=tolerance)


def test_finite_size_tends_to_the_limit() -> None:
    groups = NeuronGroups.of([0.5, 0.5], strengths=[0.5, 1.5], alignments=0.9)
    limit = group_statistics("tanh", "sin", groups, **FIT).test_error
    gaps = [group_statistics("tanh", "sin", groups, d=d, **FIT).test_error - limit for d in (1e3, 1e4, 1e5)]
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2] > 0


def test_stepped_groups_follow_result_31() -> None:
    student, target = moments(scalar_function("tanh")), moments(scalar_function("sin"))
    groups = stepped_groups("tanh", "sin", {0.5: 3.0, 2.0: 1.0}, eta_tilde=1.5, alpha0=2.0, sigma_eps=0.3)
    labels = target.second_moment + 0.3**2
    length = math.sqrt(target.linear**2 + labels / 2)
    np.testing.assert_allclose(groups.fractions, [0.75, 0.25])
    np.testing.assert_allclose(groups.strengths[:, 0], np.array([0.5, 2.0]) * 1.5 * student.linear * length)
    added = 1.5**2 * student.derivative_variance * labels / 2
    np.testing.assert_allclose(groups.variances, 1 + np.array([0.25, 4.0]) * added)
    assert float(groups.alignments[0]) == pytest.approx(target.linear / length)


def test_density_of_the_readout() -> None:
    """Nodes of a quadrature in place of groups: a finer one changes nothing; a narrow density is one group."""
    spike = {"r": 0.8, "c": 1.2, "gamma": 0.9}
    errors = []
    for count in (4, 6):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        groups = density_groups(1 + 0.5 * nodes, weights, **spike)
        errors.append(group_statistics("tanh", "sin", groups, d=300, **FIT).test_error)
    assert errors[0] == pytest.approx(errors[1], rel=1e-4)
    nodes, weights = np.polynomial.legendre.leggauss(3)
    narrow = group_statistics("tanh", "sin", density_groups(1 + 1e-3 * nodes, weights, **spike), d=300, **FIT)
    single = group_statistics(
        "tanh", "sin", NeuronGroups.of(1.0, strengths=0.8, variances=1.2, alignments=0.9), d=300, **FIT
    )
    assert narrow.test_error == pytest.approx(single.test_error, rel=1e-5)


def test_bounds_of_one_group_are_26_and_27() -> None:
    for sigma, sigma_star, r, c, gamma in CASES:
        found = group_bounds(sigma, sigma_star, NeuronGroups.of(1.0, strengths=r, variances=c, alignments=gamma))
        assert found.upper == pytest.approx(float(cui2024.upper_bound(sigma, sigma_star, r=r, c=c, gamma=gamma)))
        assert found.lower == pytest.approx(float(cui2024.lower_bound(sigma, sigma_star, r=r, c=c, gamma=gamma)))
        assert found.dimension == 2


def test_more_groups_have_a_richer_basis_and_lower_bounds() -> None:
    found = [
        group_bounds("erf", "sin", stepped_groups("erf", "sin", dict.fromkeys(values, 1.0), eta_tilde=3, alpha0=20))
        for values in ((1.0,), (1.0, 2.0), (0.5, 1.0, 2.0))
    ]
    assert [bounds.dimension for bounds in found] == [2, 4, 6]
    assert found[0].upper > found[1].upper > found[2].upper
    assert found[0].lower > found[1].lower > found[2].lower > 0


def test_bounds_bracket_the_best_penalty_of_groups() -> None:
    groups = NeuronGroups.of([0.5, 0.5], strengths=[0.5, 2.0], variances=[1.0, 1.3], alignments=0.8)
    bounds = group_bounds("tanh", "sin", groups)
    fits = {"alpha": 3.0, "beta": 1.0}
    errors = [group_statistics("tanh", "sin", groups, lam=lam, **fits).test_error for lam in (1e-2, 1.0, 1e4, 1e6)]
    assert bounds.lower < min(errors) <= errors[-1]
    assert errors[-1] == pytest.approx(bounds.upper, rel=1e-4)


def drawn(groups: NeuronGroups, d: int, seed: int, *, orthogonal: bool) -> list[float]:
    law = Readout("vocabulary", tuple(float(k + 1) for k in range(groups.fractions.size)), tuple(groups.fractions))
    width = round(FIT["beta"] * d)
    group = initial_readout(seed, width, law).astype(int) - 1
    layer = spiked_layer(
        seed,
        width,
        d,
        r=groups.strengths[group],
        c=groups.variances[group],
        gamma=groups.alignments,
        orthogonal=orthogonal,
    )
    sizes = {"n": round(FIT["alpha"] * d), "lam": FIT["lam"], "seed": seed, "sigma_eps": FIT["sigma_eps"]}
    sigma, sigma_star = scalar_function("erf"), scalar_function("sin")
    if groups.biases.any():
        return list(sampled_error(layer, sigma, sigma_star, test_samples=10 * d, biases=groups.biases[group], **sizes))
    found = fit(layer, sigma, sigma_star, **sizes)
    return [found.test_error, found.train_error]


@pytest.mark.parametrize("orthogonal", [False, True], ids=["independent", "orthogonal"])
@pytest.mark.parametrize(
    "groups",
    [
        NeuronGroups.of([0.5, 0.5], strengths=[0.6, 2.0], variances=[1.1, 1.6], alignments=0.8),
        NeuronGroups.of([0.5, 0.5], strengths=[[1.5, 1.0], [1.5, -1.0]], alignments=[0.7, 0.6]),
        NeuronGroups.of([0.3, 0.7], strengths=[1.5, 1.5], alignments=0.9, biases=[0.0, 1.0]),
    ],
    ids=["values", "rank two", "biases"],
)
def test_drawn_models(groups: NeuronGroups, orthogonal: bool) -> None:
    d = 160
    bulk: module.Bulk = "orthogonal" if orthogonal else "gaussian"
    found = group_statistics("erf", "sin", groups, bulk=bulk, d=d, **FIT)
    rows = np.array([drawn(groups, d, seed, orthogonal=orthogonal) for seed in range(16)])
    error = rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    z = (rows.mean(axis=0) - [found.test_error, found.train_error]) / error
    assert np.abs(z).max() < 4


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(InvalidInput, match="alignments"):
        NeuronGroups.of(1.0, strengths=[[1.0, 1.0]], alignments=[0.9, 0.9])
    with pytest.raises(InvalidInput, match="strengths"):
        NeuronGroups.of([0.5, 0.5], strengths=[[1.0]])
    with pytest.raises(InvalidInput, match="fractions"):
        NeuronGroups.of([0.5, -0.5], strengths=1.0)
    groups = NeuronGroups.of(1.0, strengths=1.0)
    for field, value in (
        ("alpha", 0.0),
        ("lam", -1.0),
        ("beta", 0.0),
        ("sigma_eps", -1.0),
        ("d", 0.0),
        ("bulk", "iid"),
    ):
        with pytest.raises(InvalidInput) as caught:
            group_statistics("tanh", "sin", groups, **{"alpha": 1.0, "lam": 1.0} | {field: value})
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match="beta"):
        group_statistics("tanh", "sin", groups, alpha=1.0, lam=1.0, beta=2.0, bulk="orthogonal")


def test_failure_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = NeuronGroups.of([0.5, 0.5], strengths=[0.5, 1.5])
    monkeypatch.setattr("scipy.optimize.root", lambda _gap, start, **_options: SimpleNamespace(x=start))
    monkeypatch.setattr(module, "_WARM_UP", 2)
    with pytest.raises(NotConverged, match="groups"):
        group_statistics("tanh", "sin", groups, alpha=1.0, lam=1e-3)


@pytest.mark.parametrize(
    ("teacher", "pole"), [pytest.param("tanh(5*x)", 5, marks=pytest.mark.statistical), ("tanh(20*x)", 20)]
)
def test_a_steep_teacher_along_the_spike_is_resolved(teacher: str, pole: int) -> None:
    """At alignment one nothing smooths it: the upper bound is one average over a fine rule."""
    groups = NeuronGroups.of([1.0], strengths=0.3, alignments=1.0)
    x, weight = gaussian_rule(resolution=0.02)
    mean = np.array([gaussian_mean(lambda z, at=at: np.tanh(0.3 * at + z)) for at in x])
    target = np.tanh(pole * x)
    upper = weight @ target**2 - (weight @ (mean * target)) ** 2 / (weight @ mean**2)
    assert group_bounds("tanh", teacher, groups).upper == pytest.approx(upper, rel=1e-9)


def gaussian_mean(function) -> float:  # type: ignore[no-untyped-def]
    z, weight = gaussian_rule()
    return float(weight @ function(z))


def test_groups_are_of_odd_activations_and_finite_biases() -> None:
    with pytest.raises(InvalidInput, match="sigma"):
        stepped_groups("relu", "tanh", {1.0: 1.0}, eta_tilde=1.0, alpha0=2.0)
    with pytest.raises(InvalidInput, match="biases"):
        NeuronGroups.of([1.0], strengths=1.0, biases=math.nan)
