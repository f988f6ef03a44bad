"""Spectra of the features of correlated inputs and after damped steps: limits, closed forms, real networks."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from resolved_plane import solution_of

import gradstep as gs
from gradstep.theory.equivalent.tables import SteppedNetwork, stepped_networks
from gradstep.theory.neurons.bulk import isotropic
from gradstep.theory.spectra import feature_spectrum as module
from gradstep.theory.spectra.feature_classes import ClassEquations, _graded_factors
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.stieltjes import Law, advance, find_law, start
from gradstep.theory.together import result_of

#: Several tests ask for the same.
feature_spectrum = cache(module.feature_spectrum)

TWO_LEVELS = gs.Inputs((1.0, 4.0), (0.7, 0.3))
VALUES = {0.5: 0.5, 2.0: 0.5}
#: A step that takes back more than the whole output of order one: the spike is along the mean row.
OWN_OUTPUT: dict[str, Any] = {"output_scale": "1/sqrt(N)", "eta": gs.Step(0.3, exponent=0.5)}


def problem(**changes: Any) -> gs.Problem:
    values: dict[str, Any] = {
        "activation": "tanh",
        "teacher": "tanh",
        "d": 300,
        "width": 400,
        "n_step": 600,
        "n": 700,
        "eta": gs.Step(1.0, exponent=0.5),
        "ridge": 1.0,
        "noise": 0.1,
        "readout": "constant",
        "inputs": TWO_LEVELS,
    }
    return gs.Problem(**{**values, **changes})


def network_of(case: gs.Problem) -> SteppedNetwork:
    (_, network), *_ = result_of(
        stepped_networks(case, fold=case.readout.kind == "gaussian", spectrum=True, products=False)
    )
    return network


def arguments(network: SteppedNetwork) -> tuple[Any, ...]:
    groups, features, sizes = network.tables.groups, network.tables.features, network.sizes
    share, direction = groups.readout_direction
    tables = features.kappa, network.tables.shared_mean, features.slope, features.variance, features.weight
    rest = direction, float(share[0]), 1 - network.step.readout_shrinkage**2
    return *tables, sizes.width * groups.weight, sizes.d - 1, sizes.n, *rest


def equations_of(case: gs.Problem) -> ClassEquations:
    network = network_of(case)
    return ClassEquations(*arguments(network), bulk=network.tables.bulk)


def largest_difference(one: Law, other: Law) -> float:
    x = np.geomspace(1e-3 * one.edge, 1.1 * one.edge, 400)
    return float(np.abs(one.cumulative(x) - other.cumulative(x)).max())


# --- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["tanh", pytest.param("relu", marks=pytest.mark.statistical)])
def test_one_class_is_an_isotropic_bulk(activation: str) -> None:
    network = network_of(problem(activation=activation, inputs=None, readout=VALUES))
    plain = FeatureEquations(*arguments(network))
    bulk = isotropic(len(network.tables.groups.weight))
    # All of the spike is along the one special direction, of which rows then have nothing that is free.
    classes = ClassEquations(*arguments(network), bulk=replace(bulk, spike=np.ones(1)))
    z = 0.4 + 0.1j
    here = advance(plain, start(plain, 1e3j), z)
    there = advance(classes, start(classes, 1e3j), z)
    # Both keep the dimensions of the slopes that their mean square needs.
    for one, other in zip(classes.transform(*there[1:3]), plain.transform(*here[1:3]), strict=True):
        assert one == pytest.approx(other, rel=1e-8)
    law = find_law(classes)
    assert largest_difference(find_law(plain), law) < 1e-6
    above = advance(classes, start(classes, 1e3 + 0j), 2 * law.edge + 0j)
    np.testing.assert_allclose(classes.spikes(above)[1][:3], plain.spikes(above)[1][:3], rtol=1e-6, atol=1e-9)


def test_equations_match_their_derivatives() -> None:
    equations = equations_of(problem(activation="tanh(x)+0.3*x**2", readout=VALUES, damping=0.5))
    z = 0.7 + 0.3j
    point = advance(equations, start(equations, 1e3j), z)
    gap, _, tangent = equations.newton(z, point.state)
    assert np.abs(gap).max() < 1e-9
    h = 1e-6
    moved = equations.newton(z + h, point.state + h * tangent)[0] - gap
    np.testing.assert_allclose(moved / h, 0, atol=1e-4)
    here = point.state + 1e-3 * np.random.default_rng(0).standard_normal(len(point.state))
    gap, step, _ = equations.newton(z, here)
    moved = equations.newton(z, here + h * step)[0] - gap
    np.testing.assert_allclose(moved / h, -gap, atol=1e-4 * np.abs(gap).max())


@pytest.mark.parametrize("changes", [{"damping": 0.1, "readout": VALUES}, {"readout": "gaussian", "inputs": None}])
def test_factors_of_the_slopes_have_the_solution_of_the_whole_tables(changes: dict[str, Any]) -> None:
    equations = equations_of(problem(activation="relu", **changes))
    assert len(equations.bulk.share) > 5
    assert len(equations._profile_factors[1]) > 1
    solutions = []
    for by_factors in (True, False):
        one_way = replace(equations)
        one_way.__dict__["_by_factors"] = by_factors
        point = advance(one_way, start(one_way, 1e3j), 0.7 + 0.3j)
        solutions.append(one_way.transform(point.state, point.tangent))
    np.testing.assert_allclose(solutions[0], solutions[1], rtol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"damping": 0.3}, {"damping": 0.3, "inputs": None, "activation": "relu"}])
def test_transform_at_negative_z_is_the_degrees_of_freedom(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N - n_dof = ridge tr (F^T F + ridge)^-1, where the prediction has other classes of directions.

    It has residuals of any size, and not those of a typical step only.
    """
    monkeypatch.setattr("gradstep.theory.step.statistics.largest_residual", lambda *_: math.inf)
    case = problem(ridge=50.0, **changes)
    equations, z = equations_of(case), -50.0 / 700
    point = advance(equations, start(equations, -1e4 + 0j), complex(z))
    value, _ = equations.transform(point.state, point.tangent)
    ((_, network),) = result_of(stepped_networks(case, products=False))
    freedom = solution_of(network, case).degrees_of_freedom[0]
    assert 400 * (1 + z * value.real) == pytest.approx(freedom, rel=1e-6)


def same(one: module.Spectrum, other: module.Spectrum, accuracy: float) -> None:
    assert largest_difference(one.bulk, other.bulk) < accuracy
    assert one.bulk.edge == pytest.approx(other.bulk.edge, rel=10 * accuracy)
    assert len(one.outliers) == len(other.outliers)
    for first, second in zip(one.outliers, other.outliers, strict=True):
        assert first.eigenvalue == pytest.approx(second.eigenvalue, rel=10 * accuracy)
        for name in ("sample_overlap", "neuron_overlap", "teacher_overlap"):
            np.testing.assert_allclose(getattr(first, name), getattr(second, name), atol=10 * accuracy)


@pytest.mark.parametrize(
    ("activation", "readout", "scale"),
    [
        pytest.param("tanh", "constant", "1/N", marks=pytest.mark.statistical),
        pytest.param("tanh", "gaussian", "1/N", marks=pytest.mark.statistical),
        pytest.param("relu", "constant", "1/N", marks=pytest.mark.statistical),
        ("relu", VALUES, "1/N"),
        pytest.param("relu", "gaussian", "1/N", marks=pytest.mark.statistical),
        ("tanh", "constant", "1/sqrt(N)"),
        # Five times as long as all others together.
        pytest.param("tanh(x)+0.3*(x**2-1)", VALUES, "1/sqrt(N)", marks=pytest.mark.statistical),
    ],
)
def test_equal_eigenvalues_are_isotropic_inputs(activation: str, readout: Any, scale: str) -> None:
    """A step on the whole population adds no samples to the rows: then all directions off the spike are alike."""
    d = 20_000
    case = problem(activation=activation, readout=readout, d=d, width=4 * d // 3, n_step=math.inf, n=2 * d,
                   eta=3.0, teacher="tanh", output_scale=scale)  # fmt: skip
    flat = gs.Inputs((1.0, 1.0 + 1e-9), (0.5, 0.5))
    same(feature_spectrum(case.replace(inputs=flat)), feature_spectrum(case.replace(inputs=None)), 1e-4)


@pytest.mark.parametrize("activation", [pytest.param("tanh", marks=pytest.mark.statistical), "relu"])
def test_a_very_large_damping_is_the_plain_step(activation: str) -> None:
    case = problem(activation=activation)
    same(feature_spectrum(case.replace(damping=1e7)), feature_spectrum(case), 1e-5)


# --- closed forms --------------------------------------------------------------------------------------------------


def test_linear_features_are_a_free_product() -> None:
    """Moments of ``W C^1/2 S C^1/2 W^T`` with Gaussian W, of variance 1/d, and S a sample covariance."""
    d, c_square = 100_000, float(np.array([0.7, 0.3]) @ np.array([1.0, 16.0]) / 1.9**2)
    case = problem(activation="x", d=d, width=3 * d // 2, n=2 * d, n_step=2 * d, eta=0.0)
    spectrum = feature_spectrum(case)
    law = spectrum.bulk
    assert spectrum.outliers == ()
    assert law.atom == pytest.approx(1 / 3, abs=1e-4)
    assert float(law.weight @ law.eigenvalue) == pytest.approx(1, abs=1e-4)
    assert float(law.weight @ law.eigenvalue**2) == pytest.approx(1 + 1.5 * (c_square + 0.5), rel=1e-4)


def test_leading_directions_of_linear_features_are_spikes_of_a_free_product() -> None:
    """Two maps of a spike: that of the sample covariance, and that of the rows in its law."""
    d, width, n = 20_000, 30_000, 40_000
    inputs = gs.Inputs.spiked([9.0, 6.0], d=d)
    spectrum = feature_spectrum(problem(activation="x", d=d, width=width, n=n, n_step=n, eta=0.0, inputs=inputs))
    assert len(spectrum.outliers) == 2
    eigenvalue, share = np.array(inputs.at_dimension(d).eigenvalues), np.array(inputs.at_dimension(d).share)
    least, ratio = float(eigenvalue.min()), d / n
    for outlier, c in zip(spectrum.outliers, sorted(eigenvalue[share < 1e-3])[::-1], strict=True):
        theta = c * (1 + ratio * least / (c - least))
        # Marchenko-Pastur: the mean of s / (theta - s) over the bulk of the sample covariance.
        x = theta / least
        root = math.sqrt((x - 1 - ratio) ** 2 - 4 * ratio)
        mean = x * (x - 1 + ratio - root) / (2 * ratio * x) - 1
        assert outlier.eigenvalue == pytest.approx(width / d * theta * (1 + d / width * mean), rel=2e-3)
        assert outlier.of_inputs
        assert 0.5 < outlier.linear_overlap < 1


@pytest.mark.parametrize(
    ("readout", "damping"),
    [
        ("constant", math.inf),
        (VALUES, 0.1),
        ("gaussian", 0.1),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [("constant", 0.1), (VALUES, math.inf), ("gaussian", math.inf)]
        ),
    ],
)
def test_without_a_step_there_is_no_outlier(readout: Any, damping: float) -> None:
    """The direction of the spike has the rows' variance of no class, and must not be one more direction."""
    inputs = gs.Inputs((1.0, 6.0), (0.9, 0.1))
    spectrum = feature_spectrum(problem(eta=0.0, readout=readout, damping=damping, inputs=inputs))
    assert spectrum.outliers == ()


@pytest.mark.parametrize(
    "changes",
    [{}, pytest.param({"damping": 0.1, "activation": "relu", "readout": VALUES}, marks=pytest.mark.statistical)],
)
def test_density_integrates_to_one_and_has_the_trace_of_the_covariance(changes: dict[str, Any]) -> None:
    case = problem(**changes)
    law, equations = feature_spectrum(case).bulk, equations_of(case)
    assert law.atom + law.weight.sum() == pytest.approx(1, abs=1e-6)
    mean = equations.bulk.profile @ equations.bulk.share
    trace = equations.neurons @ (mean[:, None] * equations.slope**2 + equations.variance) @ equations.weight
    assert float(law.weight @ law.eigenvalue) == pytest.approx(float(trace) / 400, rel=1e-5)


def test_models_of_isotropic_inputs_are_refused() -> None:
    for changes in ({}, {"inputs": None, "damping": 1.0}):
        with pytest.raises(gs.InvalidInput, match="rows"):
            feature_spectrum(problem(**changes), rows="isotropic")


# --- networks ------------------------------------------------------------------------------------------------------


def compared(case: gs.Problem, seeds: range, *, degrees: tuple[int | None, ...]) -> list[float]:
    """Return z-scores of the outliers' singular values, and of their overlaps with given functions of kappa."""
    spectrum = feature_spectrum(case)
    resolved = len(degrees)
    runs = [gs.Network(case, seed).feature_spectrum(leading=resolved).leading for seed in seeds]
    found = []
    for rank, degree in enumerate(degrees):
        outlier = spectrum.outliers[rank]
        pairs = [(outlier.singular_value, [math.sqrt(run[rank].eigenvalue) for run in runs])]
        if degree is not None:
            pairs.append((outlier.teacher_overlap[degree], [run[rank].teacher_overlap[degree] for run in runs]))
        for theory, values in pairs:
            found.append((np.mean(values) - theory) / (np.std(values, ddof=1) / math.sqrt(len(values))))
    return found


@pytest.mark.parametrize(
    ("changes", "degrees"),
    [
        pytest.param({"inputs": gs.Inputs.spiked([9.0], d=300)}, (1, None), marks=pytest.mark.statistical),
        ({"damping": 0.1, "activation": "relu", "readout": VALUES}, (0, 1)),
        pytest.param({"damping": 1.0, "inputs": None, "readout": "gaussian"}, (1,), marks=pytest.mark.statistical),
        pytest.param(OWN_OUTPUT, (1,), marks=pytest.mark.statistical),
        pytest.param(
            {**OWN_OUTPUT, "activation": "tanh(x)+0.3*(x**2-1)", "readout": VALUES}, (1,), marks=pytest.mark.statistical
        ),
        pytest.param(
            {**OWN_OUTPUT, "damping": 0.5, "inputs": None, "readout": "gaussian"}, (1,), marks=pytest.mark.statistical
        ),
    ],
)
def test_outliers_are_those_of_networks(changes: dict[str, Any], degrees: tuple[int | None, ...]) -> None:
    assert np.abs(compared(problem(**changes), range(16), degrees=degrees)).max() < 3.5


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.statistical),
        pytest.param({"damping": 0.1}, marks=pytest.mark.statistical),
        pytest.param({"activation": "tanh(x)+0.3*x**2"}, marks=pytest.mark.statistical),
        {"damping": 1.0, "inputs": None, "readout": "gaussian"},
    ],
)
def test_the_bulk_is_that_of_networks(changes: dict[str, Any]) -> None:
    """As many eigenvalues below a place as in networks, but for the outliers and two."""
    case = problem(**changes)
    spectrum = feature_spectrum(case)
    x = np.quantile(spectrum.bulk.eigenvalue, [0.2, 0.4, 0.6, 0.8])
    values = np.array([gs.Network(case, seed).feature_spectrum(leading=0).eigenvalues for seed in range(8)])
    number = (values[:, None] < x[:, None]).sum(axis=2).mean(axis=0)
    expected = (400 - len(spectrum.outliers)) * spectrum.bulk.cumulative(x)
    assert np.abs(number - expected).max() < 3.5
    top = values[:, -1 - len(spectrum.outliers)].mean()
    assert 0.9 < top / spectrum.bulk.edge < 1.02


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changes", "degrees"),
    [
        ({"activation": "tanh(x)+0.3*x**2"}, (1,)),
        ({"damping": 0.1, "activation": "relu", "readout": VALUES}, (0, 1)),
        ({"damping": 1.0, "activation": "tanh(x)+0.3*x**2", "readout": "gaussian"}, (0, 1, 2)),
        ({"damping": 1.0, "activation": "relu", "inputs": gs.Inputs.power_law(0.5, d=600)}, (0, None, None)),
        ({"damping": 0.1, "activation": "relu", "inputs": None, "readout": "gaussian"}, (0,)),
        ({"inputs": gs.Inputs.spiked([9.0, 6.0], d=600)}, (1, None, None)),
    ],
)
def test_outliers_are_those_of_larger_networks(changes: dict[str, Any], degrees: tuple[int | None, ...]) -> None:
    case = problem(**changes).replace(d=600, width=800, n_step=1200, n=1400)
    assert np.abs(compared(case, range(24), degrees=degrees)).max() < 4


def test_factors_of_slopes_of_many_sizes_are_right_in_each_column_without_differences_of_large_numbers() -> None:
    kappa, rate = np.linspace(-7, 7, 60), np.linspace(3, 4, 20)[:, None]
    slope = np.exp(rate * kappa) / (1 + kappa**2)
    left, right = _graded_factors(slope)
    size = np.linalg.norm(slope, axis=0)
    assert left.shape[1] < len(slope)
    assert (np.linalg.norm(left @ right - slope, axis=0) < 0.03 * size).all()
    rows = slope.max(axis=1, keepdims=True)
    terms = np.abs(left / rows) @ np.abs(right)
    assert (np.linalg.norm(terms, axis=0) < 10 * np.linalg.norm(slope / rows, axis=0)).all()
