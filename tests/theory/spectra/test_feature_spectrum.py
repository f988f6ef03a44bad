"""Spectra from the Stieltjes transform: closed forms, the cubic of random features, moments, real networks."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from resolved_plane import solution_of
from scipy.optimize import brentq

import gradstep as gs
import gradstep.theory.spectra.feature_equations as feature_equations
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import moments, scalar_function
from gradstep.papers.ba2022 import outlier
from gradstep.papers.outcome import Judged
from gradstep.theory.equivalent.features import conditional_features
from gradstep.theory.equivalent.tables import Tables, stepped_networks
from gradstep.theory.neurons.bulk import isotropic
from gradstep.theory.neurons.groups import neuron_groups
from gradstep.theory.spectra import spike, stieltjes
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.feature_spectrum import _without_tails, feature_spectrum, outliers_above
from gradstep.theory.spectra.stieltjes import Law, advance, around, averaged_tail, find_law, mean_law, start
from gradstep.theory.spectra.weight_spectrum import weight_spectrum, whole_spectrum
from gradstep.theory.step.statistics import step_statistics
from gradstep.theory.step.weighted_samples import largest_residual
from gradstep.theory.together import result_of


def problem(**changes: Any) -> gs.Problem:
    values: dict[str, Any] = {
        "activation": "tanh",
        "teacher": "tanh",
        "d": 200,
        "width": 300,
        "n_step": 400,
        "n": 500,
        "eta": gs.Step(1.0, exponent=0.5),
        "ridge": 1.0,
        "noise": 0.1,
    }
    return gs.Problem(**{**values, **changes})


def features(neurons: float, dimension: float, samples: float, linear: float, noise: float) -> FeatureEquations:
    """Random features without a spike: one group, one node."""
    slope, variance = np.full((1, 1), math.sqrt(linear)), np.full((1, 1), noise)
    node = np.zeros(1)
    return FeatureEquations(node, slope * 0, slope, variance, np.ones(1), np.array([neurons]), dimension, samples)


def marchenko_pastur(x: np.ndarray, ratio: float) -> np.ndarray:
    """Density of the eigenvalues of Z^T Z / n for n x N normals, ratio = N / n, without the atom."""
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2
    return np.sqrt(np.maximum((high - x) * (x - low), 0)) / (2 * np.pi * ratio * x)


# --- the law -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.25, 0.9, 1.0, 3.0])
def test_pure_noise_is_marchenko_pastur(ratio: float) -> None:
    law = find_law(features(ratio, 1.0, 1.0, 1e-14, 1.0))
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2
    assert law.edge == pytest.approx(high, rel=1e-8)
    assert law.bands[0].lower == pytest.approx(low, rel=1e-8, abs=1e-14)
    assert law.atom == pytest.approx(max(0, 1 - 1 / ratio))
    np.testing.assert_allclose(law.density, marchenko_pastur(law.eigenvalue, ratio), rtol=1e-6)


def test_the_mean_of_a_law_in_other_units_is_the_law_in_the_mean_unit() -> None:
    laws = [find_law(features(0.5, 1.0, 1.0, unit * 1e-14, unit)) for unit in (1.0, 4.0, 2.0)]
    mean, expected = mean_law([(0.5, laws[0]), (0.5, laws[1])]), laws[2]
    assert mean.edge == pytest.approx(expected.edge, rel=1e-8)
    assert mean.bands[0].lower == pytest.approx(expected.bands[0].lower, rel=1e-8)
    x = np.linspace(0.2, 6.0, 20)
    np.testing.assert_allclose(mean.cumulative(x), expected.cumulative(x), atol=1e-6)
    np.testing.assert_allclose(mean.density, 0.5 * marchenko_pastur(mean.eigenvalue / 2, 0.5), rtol=1e-5)
    # A law with other bands has no mean with these.
    assert mean_law([(0.6, laws[0]), (0.4, replace(laws[1], bands=laws[1].bands * 2))]) is laws[0]


def test_random_features_solve_the_cubic() -> None:
    """One group: s = n / (1 + V) and T = m / n eliminate to a polynomial of degree three in T."""
    width, d, n, a, b = 1.3, 1.0, 2.1, 0.2, 0.4
    law = find_law(features(width, d, n, b, a))
    t = np.polynomial.Polynomial([0, 1])
    for x, density in zip(law.eigenvalue[::9], law.density[::9], strict=True):
        # n - s is the degrees of freedom, N (1 + x n T), seen from the samples and from the neurons.
        s = n - width * (1 + x * n * t)
        u = b * s * width * t / d
        equation = (1 + x * n * t - a * s * t) * (1 + u) - b * s * t
        assert np.abs(equation.roots().imag * n / np.pi - density).min() < 1e-7 * max(density, 1)


def test_linear_features_are_a_product_of_two_matrices() -> None:
    """Moments of X W^T W X^T / n with independent normal X and W: the free product of two Marchenko-Pastur laws."""
    width, d, n = 0.8, 1.0, 2.0
    law = find_law(features(width, d, n, 1.0, 0.0))
    first = float(law.weight @ law.eigenvalue)
    second = float(law.weight @ law.eigenvalue**2)
    assert first == pytest.approx(1.0, abs=1e-9)
    assert second == pytest.approx(1 + width / n + width / d, abs=1e-9)
    assert law.atom == pytest.approx(0.0)


def test_two_values_of_the_noise_split_the_bulk_into_two_bands() -> None:
    one = np.ones((2, 1))
    equations = FeatureEquations(
        np.zeros(1), 0 * one, 1e-7 * one, np.array([[1.0], [30.0]]), np.ones(1), np.array([0.05, 0.05]), 1.0, 1.0
    )
    law = find_law(equations)
    assert len(law.bands) == 2
    assert [band.mass for band in law.bands] == pytest.approx([0.5, 0.5], abs=1e-9)
    assert float(law.weight @ law.eigenvalue) == pytest.approx(15.5, abs=1e-7)
    assert float(law.cumulative(10.0)) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("shares", [np.full(2, 0.5), np.full(18, 1 / 18)])
def test_a_square_matrix_has_its_hard_edge_in_the_lowest_band(shares: np.ndarray) -> None:
    """The large noise takes half of the samples; what is left to the small one is square."""
    one, large = np.ones((len(shares), 1)), np.arange(len(shares)) % 2 == 1
    noise = np.where(large[:, None], 300.0, 1.0)
    # That the shares sum to one but for rounding must not matter.
    equations = FeatureEquations(np.zeros(1), 0 * one, 1e-7 * one, noise, np.ones(1), 200 * shares, 200.0, 200.0)
    law = find_law(equations)
    assert [band.mass for band in law.bands] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert law.bands[0].lower == 0
    assert law.bands[1].lower > 2 * law.bands[0].upper
    assert float(law.weight @ law.eigenvalue) == pytest.approx(150.5, rel=1e-6)


PROBLEMS = [
    problem(eta=0.0),
    problem(eta=0.0, n=300),
    problem(eta=2.0, activation="relu", teacher="relu"),
    problem(n=100),
    problem(eta=gs.Step(3.0, exponent=0.5)),
    problem(readout={-1.0: 0.5, 2.0: 0.5}),
    problem(readout={-1.0: 0.3, 0.5: 0.5, 2.0: 0.2}, d=100, width=200, n=200, n_step=30),
    problem(readout="constant", activation="softplus", d=20, width=80, n_step=6, n=80, eta=3.0, noise=0.3),
    problem(readout="constant", activation="erf", n_step=math.inf),
    problem(readout="constant", n=150, d=160, n_step=120, eta=gs.Step(1.8, exponent=0.5)),
]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if place in (1, 2, 4, 5, 7) else pytest.mark.statistical)
        for place, case in enumerate(PROBLEMS)
    ],
)
def test_density_integrates_to_one_and_has_the_trace_of_the_covariance(case: gs.Problem) -> None:
    spectrum = feature_spectrum(case)
    law = spectrum.bulk
    assert law.atom + law.weight.sum() == pytest.approx(1, abs=1e-6)
    assert law.residual < 1e-8
    assert (law.density > 0).all()
    gaussian = case.readout.kind == "gaussian"
    trace = 0.0
    for share, network in result_of(
        stepped_networks(case, fold=gaussian, spectrum=case.eta.coefficient != 0, products=False)
    ):
        t, groups = network.tables.features, network.tables.groups
        trace += share * (groups.weight @ (t.slope**2 + t.variance) @ t.weight)
    assert float(law.weight @ law.eigenvalue) == pytest.approx(float(trace), rel=1e-5)
    edges = [0.0, *(x for band in law.bands for x in (band.lower, band.upper))]
    values = law.cumulative(edges)
    assert values[0] == pytest.approx(law.atom)
    assert values[-1] == pytest.approx(1, abs=1e-6)
    assert (np.diff(values) >= -1e-9).all()


def _equations_of(case: gs.Problem) -> FeatureEquations:
    d, width, n_step, n, _ = case.real_sizes()
    step = step_statistics(case, d, width, n_step)
    groups = neuron_groups(step, case.readout, d, odd=False)
    t = conditional_features(case.activation, case.teacher, groups, step.alignment, dimension=d)
    sizes = width * groups.weight, d - 1, n
    shared = Tables(t, groups, isotropic(len(groups.weight))).shared_mean
    return FeatureEquations(t.kappa, shared, t.slope, t.variance, t.weight, *sizes)


def test_transform_at_negative_z_is_the_degrees_of_freedom() -> None:
    """N - n_dof = ridge tr (F^T F + ridge)^-1, from the real solver."""
    case = problem(ridge=50.0)
    equations = _equations_of(case)
    z = -50.0 / 500
    far = start(equations, -1e4 + 0j)
    value, _ = equations.transform((point := advance(equations, far, complex(z))).state, point.tangent)
    ((_, network),) = result_of(stepped_networks(case, bulk="isotropic", products=False))
    freedom = solution_of(network, case).degrees_of_freedom[0]
    assert 300 * (1 + z * value.real) == pytest.approx(freedom, rel=1e-7)


@pytest.mark.parametrize("activation", ["tanh", "H1 + 0.3*H3"])
def test_equations_match_their_derivatives(activation: str) -> None:
    equations = _equations_of(problem(n=200, readout="constant", activation=activation))
    z = 0.7 + 0.3j
    point = advance(equations, start(equations, 1e3j), z)
    gap, _, tangent = equations.newton(z, point.state)
    assert np.abs(gap).max() < 1e-10
    h = 1e-6
    # Both unknowns are kept on the equations by the tangent.
    moved = equations.newton(z + h, point.state + h * tangent)[0] - gap
    np.testing.assert_allclose(moved / h, 0, atol=1e-4)
    rng = np.random.default_rng(0)
    here = point.state + 1e-3 * rng.standard_normal(len(point.state))
    gap, step, _ = equations.newton(z, here)
    moved = equations.newton(z, here + h * step)[0] - gap
    np.testing.assert_allclose(moved / h, -gap, atol=1e-4 * np.abs(gap).max())


def test_a_tail_of_single_neurons_is_averaged() -> None:
    weight, size = np.array([0.9, 0.099, 0.0006, 0.0004]), np.array([1.0, 2.0, 30.0, 50.0])
    averaged = averaged_tail(weight, size, size, 2e-3)
    np.testing.assert_allclose(averaged, [1, 2, 38, 38])
    low = averaged_tail(weight[::-1], size, size, 2e-3)
    np.testing.assert_allclose(low, [1.6, 1.6, 30, 50])
    assert weight @ averaged == pytest.approx(weight @ size)
    assert weight_spectrum(problem(eta=gs.Step(2.0, exponent=0.5), n_step=100)).after.weight.sum() == pytest.approx(1)


def test_a_tail_of_single_inputs_is_averaged() -> None:
    """Few inputs whose features follow the bulk most have bands too light to be found, at opposite slopes too."""
    case = problem(activation="tanh(x)+0.3*x**2", d=300, width=360, n_step=210, n=500, readout="constant",
                   teacher="tanh(2*x)", eta=gs.Step(0.6, exponent=0.5))  # fmt: skip
    bulk = feature_spectrum(case).bulk
    assert bulk.weight.sum() + bulk.atom == pytest.approx(1, abs=1e-6)
    # One of an inner and two of outer inputs, whose slopes are opposite.
    inner = features(0.5, 1.0, 1.0, 0.5, 0.5)
    kappa, weight = np.array([-4.0, 0.0, 4.0]), np.array([4e-4, 0.9992, 4e-4])
    equations = replace(
        inner,
        kappa=kappa,
        weight=weight,
        shared=np.zeros((1, 3)),
        slope=np.array([[-30.0, 0.7, 40.0]]),
        variance=np.array([[0.5, 0.6, 0.1]]),
    )
    slope, variance = _without_tails(equations, np.ones(1), (5e-3, 1e-3))
    np.testing.assert_allclose(slope[0, [0, 2]], np.sqrt(1250) * np.array([-1, 1]))
    np.testing.assert_allclose(variance[0], [0.3, 0.6, 0.3])
    np.testing.assert_allclose((slope**2 + variance) @ weight, (equations.slope**2 + equations.variance) @ weight)


def test_a_singular_matrix_on_the_way_is_a_step_that_fails() -> None:
    class Singular(FeatureEquations):
        calls = 0

        def newton(self, z: complex, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            Singular.calls += 1
            if Singular.calls % 5 == 0:
                raise np.linalg.LinAlgError("Singular matrix")
            return super().newton(z, state)

    equations = features(0.5, 1.0, 1.0, 0.5, 0.5)
    expected = find_law(equations)
    found = find_law(Singular(**{field.name: getattr(equations, field.name) for field in fields(equations)}))
    assert found.edge == pytest.approx(expected.edge, rel=1e-6)


def test_bad_input_is_refused() -> None:
    limit = gs.Problem.cui2024(alpha=2, alpha0=1, eta_tilde=1, lam=0.1)
    for call in (feature_spectrum, weight_spectrum):
        with pytest.raises(InvalidInput, match="finite"):
            call(limit)
        with pytest.raises(InvalidInput, match="rows"):
            call(problem(), rows="other")  # type: ignore[operator]
        with pytest.raises(InvalidInput, match="output_scale"):
            call(problem(output_scale="1/sqrt(N)", activation="relu", readout="constant"))
    with pytest.raises(InvalidInput, match="refine"):
        feature_spectrum(problem(), refine=0)


@pytest.mark.parametrize(
    ("size", "share"),
    [
        pytest.param(size, share, marks=() if place == other else pytest.mark.statistical)
        for place, size in enumerate([1e-3, 1 / 30, 10.0])
        for other, share in enumerate([1e-5, 1e-3, 1e-4])
    ],
)
def test_a_light_band_is_found_where_mass_is_missing(size: float, share: float) -> None:
    """Few neurons with noise of another size: by exact separation their band has their share of the eigenvalues."""
    one, few = np.ones((2, 1)), np.array([[1.0], [size]])
    neurons, samples = 1000 * np.array([1 - share, share]), 20_000.0
    equations = FeatureEquations(np.zeros(1), 0 * one, 1e-6 * one, few, np.ones(1), neurons, 500.0, samples)
    law = find_law(equations, [0.12])
    assert [band.mass for band in law.bands] == pytest.approx([1 - share, share][:: 1 if size > 1 else -1], rel=1e-6)
    # Few among very many samples are near their noise, moved by the other neurons, and have a semicircle around it.
    light = law.bands[-1 if size > 1 else 0]
    moved = 1 + 1000 * (1 - share) / samples / (size - 1)
    assert light.weight @ light.eigenvalue / share == pytest.approx(size * moved, rel=2e-3)
    with pytest.raises(NotConverged, match="lightest of the bands"):
        find_law(equations, [0.12], lightest=2 * share)


def test_a_light_band_many_decades_above_the_others_is_found() -> None:
    one, sizes = np.ones((2, 1)), np.array([[1.0], [1e12]])
    equations = FeatureEquations(
        np.zeros(1), 0 * one, 1e-6 * one, sizes, np.ones(1), np.array([998.0, 2.0]), 500.0, 20_000.0
    )
    law = find_law(equations, [0.12])
    assert [band.mass for band in law.bands] == pytest.approx([0.998, 0.002], rel=1e-6)
    assert law.edge == pytest.approx(1e12 * (1 + math.sqrt(2 / 20_000)) ** 2, rel=1e-6)


@pytest.mark.parametrize("width", [400, 500, 1000, 5000])
@pytest.mark.parametrize(("faint", "counted"), [((1e-15, 1e-19), 300), ((1e-9, 1e-20), 425)])
def test_eigenvalues_next_to_nothing_count_as_zero(width: int, faint: tuple[float, ...], counted: int) -> None:
    """Of 500 rows, 300 are large and 125 are faint in the second case; by exact separation each size has its band."""
    noise = np.array([[1.0, *faint]])
    slope, shares = 1e-3 * np.sqrt(noise), np.array([0.6, 0.25, 0.15])
    law = find_law(
        FeatureEquations(np.zeros(3), 0 * noise, slope, noise, shares, np.array([float(width)]), 500.0, 500.0)
    )
    bands = np.diff([0, 300, min(counted, width)])[::-1] / width
    assert [band.mass for band in law.bands] == pytest.approx(bands[bands > 0], abs=1e-6)
    assert law.atom == pytest.approx(1 - bands.sum(), abs=1e-6)


def test_as_many_neurons_as_large_rows_have_a_band_down_to_faint_eigenvalues() -> None:
    """Large rows alone would have a hard edge. Above it the law is that of a square matrix."""
    noise, shares = np.array([[1.0, 1e-15, 1e-19]]), np.array([0.6, 0.25, 0.15])
    slope, width = 1e-3 * np.sqrt(noise), np.array([300.0])
    law = find_law(FeatureEquations(np.zeros(3), 0 * noise, slope, noise, shares, width, 500.0, 500.0))
    (band,) = law.bands
    assert 0 < band.lower < 1e-15
    assert (band.mass, law.atom) == (pytest.approx(1, abs=1e-6), 0)
    # Marchenko and Pastur's law of 300 rows over 500.
    x = np.array([0.01, 0.1, 0.6, 1.8])
    angle = np.arcsin(np.sqrt(x / 2.4))
    assert law.cumulative(x) == pytest.approx((2 * angle + np.sin(2 * angle)) / np.pi, abs=1e-5)


def test_neurons_of_next_to_nothing_count_as_zero() -> None:
    noise = np.array([[1.0], [1e-16]])
    width, slope = np.array([300.0, 200.0]), 1e-3 * np.sqrt(noise)
    law = find_law(FeatureEquations(np.zeros(1), 0 * noise, slope, noise, np.ones(1), width, 500.0, 800.0))
    assert [band.mass for band in law.bands] == pytest.approx([0.6], abs=1e-6)
    assert law.atom == pytest.approx(0.4, abs=1e-6)


@pytest.mark.parametrize("samples", [1e6, 1e8, 1e10])
def test_a_single_narrow_band_between_the_places_of_a_walk_is_found(samples: float) -> None:
    one, width = np.ones((1, 1)), np.array([100.0])
    law = find_law(FeatureEquations(np.zeros(1), 0 * one, 1e-6 * one, one, np.ones(1), width, 50.0, samples), [0.12])
    edges = [(1 - math.sqrt(100 / samples)) ** 2, (1 + math.sqrt(100 / samples)) ** 2]
    assert [(band.lower, band.upper) for band in law.bands] == [pytest.approx(edges, rel=1e-8)]


def test_three_equal_sizes_of_a_linear_activation_have_the_law_of_a_product_of_two_square_matrices() -> None:
    one, size = np.ones((1, 1)), 100.0
    law = find_law(FeatureEquations(np.zeros(1), 0 * one, one, 0 * one, np.ones(1), np.array([size]), size, size))
    (band,) = law.bands
    assert (band.lower, band.power) == (0, 3)
    assert band.upper == pytest.approx(27 / 4, rel=1e-8)
    # The moments are Fuss-Catalan numbers.
    assert [law.weight @ law.eigenvalue**k for k in range(4)] == pytest.approx([1, 1, 3, 12], rel=1e-8)


def test_missing_mass_is_an_error() -> None:
    class Half(FeatureEquations):
        def transform(self, *at: Any) -> Any:
            value, slope = super().transform(*at)
            return value / 2, slope / 2

    equations = features(0.5, 1.0, 1.0, 0.5, 0.5)
    with pytest.raises(NotConverged, match="integral"):
        find_law(Half(**{field.name: getattr(equations, field.name) for field in fields(equations)}))


# --- outliers of the features --------------------------------------------------------------------------------------


def test_an_outlier_of_neurons_that_the_step_multiplies_is_found_at_any_size() -> None:
    """Of linear features of very many samples the readout's direction has the square of what it is multiplied by."""
    one, width, factor = np.ones((1, 1)), 100.0, -300.0
    equations = FeatureEquations(
        np.zeros(1), 0 * one, one, 0 * one, np.ones(1), np.array([width]), 1e9, 1e9, np.ones(1), 1.0, 1 - factor**2
    )
    (outlier,) = outliers_above(1.01, equations, np.ones((1, 1)), alignment=1.0)
    assert outlier.eigenvalue == pytest.approx(factor**2, rel=1e-6)
    assert outlier.neuron_overlap == pytest.approx([1.0], rel=1e-6)


def test_outlier_of_a_spike_without_bulk() -> None:
    """Noise of variance a and the rank-one mean g0(kappa) 1^T: a spiked Marchenko-Pastur matrix with a closed form."""
    width, n, strength = 400.0, 800.0, 0.09
    equations = features(width, 1e4, n, 1e-14, 1.0)
    equations = replace(equations, shared=np.full((1, 1), strength))
    law = find_law(equations)
    (found,) = outliers_above(law.edge, equations, np.ones((1, 1)), alignment=1.0)
    # Eigenvalue of (1 + theta) with theta = N strength^2 and ratio N / n, Baik and Ben Arous.
    theta, ratio = width * strength**2, width / n
    assert found.eigenvalue == pytest.approx((1 + theta) * (theta + ratio) / theta, rel=1e-9)
    # Singular vectors over the neurons and over the samples, Benaych-Georges and Nadakuditi.
    assert found.neuron_overlap[0] == pytest.approx((theta**2 - ratio) / (theta * (theta + ratio)), rel=1e-7)
    assert found.sample_overlap[0] == pytest.approx((theta**2 - ratio) / (theta * (theta + 1)), rel=1e-7)


def linear_equations(shrinkage: float, strength: float) -> FeatureEquations:
    """Rows ``strength v + w`` with ``w`` orthogonal to ``v``, seen through a linear activation by very many samples."""
    node, one = np.array([-1.0, 1.0]), np.ones((1, 2))
    return FeatureEquations(
        node, strength * node[None], one, 0 * one, np.full(2, 0.5), np.array([150.0]), 400.0, 1e8,
        np.ones(1), 1.0, 1 - shrinkage**2,
    )  # fmt: skip


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 0.8, 1.0])
def test_outlier_with_a_bulk_that_is_smaller_along_the_readout(shrinkage: float) -> None:
    # With h the resolvent of a Marchenko-Pastur bulk between readouts, Schur's complement gives at an outlier
    # x (1 - shrinkage^2) + shrinkage^2 / h = |spike|^2, and 1/h = x - 1 / (1 - h N/d).
    ratio, power = 150 / 400, 150 * 0.2**2
    equations = linear_equations(shrinkage, 0.2)
    (found,) = outliers_above(find_law(equations).edge, equations, np.ones((1, 1)), alignment=1.0)

    def schur(h: float) -> tuple[float, float]:
        x = 1 / h + 1 / (1 - ratio * h)
        return x, x * (1 - shrinkage**2) + shrinkage**2 / h

    edge = 1 / (math.sqrt(ratio) + ratio)
    h = brentq(lambda h: schur(h)[1] - power, 1e-6, edge, xtol=1e-14)
    assert found.eigenvalue == pytest.approx(schur(h)[0], rel=1e-5)
    # The overlap with the readout is the residue there: one over the slope in x of the left-hand side.
    step = 1e-5
    (low, left), (high, right) = schur(h * (1 + step)), schur(h * (1 - step))
    overlap = (high - low) / (right - left)
    assert found.neuron_overlap[0] == pytest.approx(overlap, rel=1e-4)
    assert found.sample_overlap[1] == pytest.approx(overlap * power / found.eigenvalue, rel=1e-4)


@pytest.mark.parametrize("shrinkage", [0.0, 0.5, 1.0])
def test_threshold_of_a_spike_grows_with_the_bulk_that_it_replaces(shrinkage: float) -> None:
    root = math.sqrt(150 / 400)
    threshold = (1 + root) ** 2 * (1 - shrinkage**2) + shrinkage**2 * (root + root**2)
    for factor, count in ((0.97, 0), (1.03, 1)):
        equations = linear_equations(shrinkage, math.sqrt(factor * threshold / 150))
        assert len(outliers_above(find_law(equations).edge, equations, np.ones((1, 1)), alignment=1.0)) == count


@pytest.mark.parametrize(("removed", "activation"), [(0.0, "tanh"), (0.9, "tanh"), (-2.0, "tanh"), (0.0, "relu")])
def test_slope_of_a_strength_is_its_derivative(removed: float, activation: str) -> None:
    rng = np.random.default_rng(3)
    equations = _equations_of(problem(readout="constant", activation=activation))
    assert equations.shared.shape != equations.mean.shape
    direction = rng.standard_normal(len(equations.neurons))
    equations = replace(equations, direction=direction / np.linalg.norm(direction), resolved_share=0.7, removed=removed)
    edge = find_law(equations).edge
    far = start(equations, complex(100 * edge))
    z, h = 2 * edge, 1e-5 * edge
    below, here, above = (around(equations, far, x) for x in (z - h, z, z + h))
    numeric = (equations.spikes(above)[1][0] - equations.spikes(below)[1][0]) / (2 * h)
    assert equations.slope_of_strength(here, equations.spikes(here)[0][:, 0]) == pytest.approx(numeric, rel=1e-6)


def test_outliers_at_a_vanishing_step_need_no_readout() -> None:
    # A Gaussian readout of which the groups tell nothing: the mean of the features is the only outlier.
    for activation in ("relu", "softplus"):
        case = problem(activation=activation, eta=0.0)
        (found,) = feature_spectrum(case).outliers
        nearly = feature_spectrum(case.replace(eta=1e-6)).outliers[0]
        assert found.eigenvalue == pytest.approx(nearly.eigenvalue, rel=1e-6)


def test_the_length_of_an_input_moves_the_outlier_of_the_real_network() -> None:
    """Neurons that share a sign feel it alike; without it the outlier would be 11.9, seven standard errors lower."""
    case = gs.Problem(activation="H1 + 0.8*H2", teacher="x", d=200, n=1200, width=400, n_step=800, ridge=1.0, noise=0.1,
                      readout="constant", eta=2.0)  # fmt: skip
    runs = [gs.Network(case, seed).feature_spectrum(leading=1).leading[0] for seed in range(16)]
    first = feature_spectrum(case).outliers[0]
    for theory, values in (
        (first.eigenvalue, [run.eigenvalue for run in runs]),
        (first.sample_overlap[1], [run.sample_overlap[1] for run in runs]),
        (first.neuron_overlap[0], [run.neuron_overlap[0] for run in runs]),
    ):
        assert abs(Judged.at(float(theory), values, curve="", place=0).z) < 3.5


@pytest.mark.statistical
def test_second_outlier_where_the_step_takes_back_more_than_all() -> None:
    # Along the readout the bulk is then larger, with the other sign.
    case = gs.Problem(activation="tanh", teacher="tanh", d=200, n=600, width=200, n_step=400, ridge=0.1, noise=0.1,
                      readout={0.5: 0.5, 2.0: 0.5}, eta=gs.Step(4.0, exponent=0.5))  # fmt: skip
    first, second = feature_spectrum(case).outliers[:2]
    runs = [gs.Network(case, seed).feature_spectrum(leading=2).leading for seed in range(12)]
    for predicted, rank, most in ((first, 0, 0.02), (second, 1, 0.05)):
        measured = np.mean([run[rank].eigenvalue ** 0.5 for run in runs])
        assert abs(predicted.singular_value / measured - 1) < most


@pytest.mark.statistical
@pytest.mark.parametrize("scale", ["1/N", "1/sqrt(N)"])
@pytest.mark.parametrize("readout", ["gaussian", "constant"])
def test_own_output_moves_the_outlier_of_the_real_network(scale: str, readout: str) -> None:
    case = gs.Problem(activation="tanh", teacher="tanh", d=200, n=600, width=200, n_step=600, ridge=0.1, noise=0.1,
                      readout=readout, eta=6.0, output_scale=scale)  # fmt: skip
    (predicted,) = feature_spectrum(case).outliers
    runs = [gs.Network(case, 100 + seed).feature_spectrum(leading=1).leading[0] for seed in range(60)]
    for theory, values in (
        (predicted.singular_value, [run.eigenvalue**0.5 for run in runs]),
        (predicted.teacher_overlap[1], [run.teacher_overlap[1] for run in runs]),
    ):
        assert abs(Judged.at(float(theory), values, curve="", place=0).z) < 3.5
    # No outlier where the spike alone would make one.
    assert not feature_spectrum(case.replace(eta=3.0)).outliers


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("case", "resolved"),
    [
        (problem(readout="constant"), 1),
        (gs.Problem.moniri2024(phi=0.5, psi=0.4, alpha=0.36, lam=0.1, n=400, noise=0.5), 1),
        (problem(activation="erf", teacher="sin", eta=gs.Step(0.6, exponent=0.5)), 1),
        (problem(readout={-1.0: 0.25, 2.0: 0.75}, activation="tanh"), 1),
        (
            gs.Problem.moniri2024(
                phi=0.5,
                psi=0.4,
                alpha=0.42,
                lam=0.1,
                n=400,
                noise=1.0,
                residual="y",
                activation="sin(1.2*x + 0.6) - 0.27484099773585186",
            ),
            2,
        ),
    ],
)
def test_histogram_and_outliers_of_the_real_network(case: gs.Problem, resolved: int) -> None:
    spectrum = feature_spectrum(case)
    runs = [gs.Network(case, 40 + seed).feature_spectrum(leading=resolved) for seed in range(12)]
    eigenvalues = np.sort(np.concatenate([run.eigenvalues for run in runs]))
    eigenvalues = eigenvalues[eigenvalues > 1e-9]
    law = spectrum.bulk
    empirical = law.atom + (1 - law.atom) * (np.arange(len(eigenvalues)) + 0.5) / len(eigenvalues)
    assert np.abs(law.cumulative(eigenvalues) - empirical).max() < 0.012
    assert len(spectrum.outliers) >= resolved
    for rank, predicted in enumerate(spectrum.outliers[:resolved]):
        p, q = predicted.sample_degree, predicted.neuron_degree
        found = [run.leading[rank] for run in runs]
        for theory, values in (
            (predicted.singular_value, [f.eigenvalue**0.5 for f in found]),
            (predicted.sample_overlap[p], [f.sample_overlap[p] for f in found]),
            (predicted.neuron_overlap[q], [f.neuron_overlap[q] for f in found]),
        ):
            # Overlaps have corrections of order 1/d.
            comparison = Judged.at(float(theory), values, curve="", place=rank, allowance=0.02, reason="finite size")
            assert abs(comparison.excess_z) < 4


# --- single samples of the step ---


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_half_of_all_draws_have_a_larger_residual_than_the_typical_one(noise: float) -> None:
    teacher, count, draws = scalar_function("x + x**2 - 1"), 300, 400
    rng = np.random.default_rng(0)
    residual = teacher(rng.standard_normal((draws, count))) - 0.3 + noise * rng.standard_normal((draws, count))
    larger = np.abs(residual).max(axis=1) > largest_residual(teacher, 0.3, noise**2, count)
    assert abs(np.sum(larger) - draws / 2) < 3.5 * math.sqrt(draws) / 2


UNBOUNDED = gs.Problem(activation="sin", teacher="x + x**2 - 1", d=200, width=300, n_step=300, n=1000, ridge=1.0,
                       eta=gs.Step(1.2, 0.5))  # fmt: skip


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changes", "share"),
    [
        pytest.param(
            {"activation": "log(1+exp(x))", "readout": "constant", "eta": gs.Step(2, 0.5)},
            0.025,
            marks=pytest.mark.statistical,
        ),
        ({"activation": "tanh", "readout": "constant", "eta": gs.Step(2, 0.5)}, 0.005),
        pytest.param({"activation": "relu", "eta": gs.Step(1, 0.5)}, 0.012, marks=pytest.mark.statistical),
    ],
)
def test_samples_of_a_strong_step_place_the_eigenvalues_of_the_real_network(
    changes: dict[str, Any], share: float
) -> None:
    """Counted where all directions were taken as alike: 8.8, 1.2 and 2.5 per cent were in the wrong place."""
    case = gs.Problem(
        teacher="x + 0.7*H2", d=200, width=380, n_step=470, n=680, ridge=1.0, noise=0.5,
        **{"readout": "gaussian", **changes},
    )  # fmt: skip
    spectrum = feature_spectrum(case)
    measured = [gs.Network(case, seed).feature_spectrum().eigenvalues for seed in range(6)]
    places = np.quantile(np.concatenate(measured), np.linspace(0.02, 0.98, 49))
    counted = np.mean([np.searchsorted(values, places) for values in measured], axis=0) / 380
    assert np.abs(spectrum.bulk.cumulative(places) * (1 - len(spectrum.outliers) / 380) - counted).max() < share


def test_few_dimensions_have_a_spectrum() -> None:
    spectrum = feature_spectrum(problem(d=5, width=7, n_step=9, n=8))
    assert spectrum.bulk.weight.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.statistical
def test_the_bulk_ends_at_the_largest_residual_of_a_typical_step() -> None:
    """The third eigenvalue of networks is along a single sample; it was 2.0 above an edge of 1.6."""
    spectrum = feature_spectrum(UNBOUNDED)
    assert len(spectrum.outliers) == 2
    third = [gs.Network(UNBOUNDED, seed).feature_spectrum(leading=3).leading[2].eigenvalue for seed in range(10)]
    assert np.quantile(third, 0.1) < spectrum.bulk.edge < np.max(third)


@pytest.mark.statistical
@pytest.mark.parametrize("teacher", ["sign(x)", pytest.param("1+0*x", marks=pytest.mark.statistical)])
def test_residuals_that_are_as_large_as_each_other(teacher: str) -> None:
    problem = UNBOUNDED.replace(activation="relu", teacher=teacher, eta=gs.Step(3, 0.5), n=400, readout="constant")
    spectrum = feature_spectrum(problem)
    assert len(spectrum.outliers) == 1
    second = np.mean([gs.Network(problem, seed).feature_spectrum().eigenvalues[-2] for seed in range(4)])
    # A network of this size ends a tenth below.
    assert 0.85 < second / spectrum.bulk.edge < 1.02


def test_a_readout_that_is_missing_at_some_points_only_is_no_error() -> None:
    problem = UNBOUNDED.replace(
        activation="sin(2*x)", teacher="1+0*x", eta=gs.Step(3, 0.5), n=400, readout="constant", noise=0.5
    )
    assert feature_spectrum(problem).outliers == ()


# --- search ---


@pytest.mark.parametrize("activation", ["H1 + 0.3*H3", "x + 0.3*x**2", "x**4 - x"])
def test_factors_of_polynomials_give_the_step_of_the_whole_matrix(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    equations = _equations_of(problem(activation=activation, readout={-1.0: 0.3, 0.5: 0.5, 2.0: 0.2}))
    equations = replace(equations, slope=np.repeat(equations.slope, 4, axis=0) * np.linspace(1, 2, 72)[:, None],
                        variance=np.repeat(equations.variance, 4, axis=0), neurons=np.repeat(equations.neurons, 4) / 4,
                        shared=np.repeat(equations.shared, 4, axis=0))  # fmt: skip
    assert equations._factors is not None
    z = equations.top / 50 * (1 + 0.2j)
    state = advance(equations, start(equations, 1e3j * equations.top), z).state * (1 + 0.01j)
    found = equations.newton(z, state)
    monkeypatch.setattr(FeatureEquations, "_factors", None)
    for one, expected in zip(found, equations.newton(z, state), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("changes", [{}, {"activation": "x + 0.3*x**2", "readout": {-1.0: 0.3, 0.5: 0.5, 2.0: 0.2}}])
def test_newton_at_several_points_is_that_at_each(changes: dict[str, Any]) -> None:
    equations = _equations_of(problem(**changes))
    if changes:
        equations = replace(equations, **{name: np.repeat(getattr(equations, name), 12, axis=0)
                                          for name in ("slope", "variance", "neurons", "shared")})  # fmt: skip
    assert (equations._factors is not None) == bool(changes)
    z = equations.top / np.array([5.0, 20.0, 50.0]) * (1 + 0.2j)
    far = start(equations, 1e3j * equations.top)
    states = np.stack([advance(equations, far, each).state * (1 + 0.01j) for each in z])
    together = equations.newton(z, states)
    alone = zip(*(equations.newton(complex(each), state) for each, state in zip(z, states, strict=True)), strict=True)
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-9, atol=1e-10 * np.abs(found).max())


def test_panels_solved_together_are_those_of_a_walk() -> None:
    calls = 0

    class Counted(FeatureEquations):
        def newton(self, z: Any, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            nonlocal calls
            calls += 1
            return super().newton(z, state)

    class Walked(Counted):
        at_once = 1

    equations = _equations_of(problem())
    values = {field.name: getattr(equations, field.name) for field in fields(equations)}
    laws, counts = [], []
    for kind in (Counted, Walked):
        calls = 0
        laws.append(find_law(kind(**values)))
        counts.append(calls)
    found, expected = laws
    np.testing.assert_allclose(found.eigenvalue, expected.eigenvalue, rtol=1e-10)
    np.testing.assert_allclose(found.density, expected.density, rtol=1e-8)
    assert counts[0] < 0.7 * counts[1]


def test_a_guess_that_leads_nowhere_is_walked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    equations = features(0.5, 1.0, 1.0, 0.5, 0.5)
    expected = find_law(equations)
    monkeypatch.setattr(stieltjes, "_TO_HALVES", 1e3 * stieltjes._TO_HALVES)
    np.testing.assert_allclose(find_law(equations).density, expected.density, rtol=1e-8)


def test_spectra_are_shared_by_fits_that_they_do_not_depend_on() -> None:
    case = problem(eta=0.3)
    features, weights = feature_spectrum(case), weight_spectrum(case)
    assert feature_spectrum(case.replace(ridge=30.0)) is features
    assert weight_spectrum(case.replace(ridge=30.0, n=900)) is weights
    assert feature_spectrum(case.replace(n=900)).bulk.edge != pytest.approx(features.bulk.edge, rel=0.01)
    assert weight_spectrum(case.replace(eta=30.0)).outlier is not None
    assert weights.outlier is None


def test_edges_of_marchenko_and_pastur_have_twelve_digits() -> None:
    (band,) = weight_spectrum(problem(eta=0.0, width=500)).before.bands
    ends = 500 / 200 * (1 + np.array([-1, 1]) * math.sqrt(200 / 500)) ** 2
    np.testing.assert_allclose([band.lower, band.upper], ends, rtol=1e-11)


@pytest.mark.statistical
def test_a_polynomial_after_a_large_step_takes_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands of five decades, with gaps that long strides miss: 10^5 evaluations of the whole matrix once."""
    calls = 0
    original = FeatureEquations._newton_of_factors

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*arguments)

    def whole(*_: Any) -> Any:
        raise AssertionError("evaluates the whole matrix")

    monkeypatch.setattr(FeatureEquations, "_newton_of_factors", counted)
    monkeypatch.setattr(feature_equations, "evaluate", whole)
    law = feature_spectrum(problem(activation="H1 + 0.3*H3", teacher="x")).bulk
    assert law.weight.sum() == pytest.approx(1, abs=1e-6)
    assert max(band.upper / band.lower for band in law.bands) > 1e4
    assert calls < 10_000


@pytest.mark.parametrize("case", [problem(n=200, readout="constant"), problem(eta=0.0, n=300)])
def test_slope_of_the_distribution_is_the_density(case: gs.Problem) -> None:
    law = feature_spectrum(case).bulk
    x = law.eigenvalue[5:-5:7]
    h = 1e-5 * x
    numeric = (law.cumulative(x + h) - law.cumulative(x - h)) / (2 * h)
    np.testing.assert_allclose(numeric, law.density[5:-5:7], rtol=1e-4)


# --- weights -------------------------------------------------------------------------------------------------------


def test_initial_weights_are_marchenko_pastur() -> None:
    for width in (100, 200, 500):
        law = weight_spectrum(problem(eta=0.0, width=width)).before
        ratio = 200 / width
        x = law.eigenvalue / (width / 200)
        np.testing.assert_allclose(law.density * width / 200, marchenko_pastur(x, ratio), rtol=1e-6)
        assert law.atom == pytest.approx(max(0.0, 1 - width / 200))


@pytest.mark.parametrize("eta", [pytest.param(1.0, marks=pytest.mark.statistical), 3.0, 8.0, 20.0])
def test_small_step_is_the_spiked_law_of_ba(eta: float) -> None:
    settings: dict[str, Any] = {"psi1": 5, "psi2": 2, "sigma_eps": 0.1}
    d = 10**8
    case = gs.Problem.ba2022(activation="erf", teacher="erf", d=d, lam=1e-3, eta=eta, **settings)
    found = weight_spectrum(case).outlier
    limit = outlier("erf", "erf", eta=eta, **settings)
    if eta < outlier("erf", "erf", eta=0.0, **settings).threshold:
        assert found is None
        return
    assert found is not None
    assert found.singular_value == pytest.approx(float(limit.singular_value), rel=1e-3)
    assert found.teacher_overlap == pytest.approx(float(limit.teacher_overlap), rel=2e-3)
    assert found.readout_overlap == pytest.approx(float(limit.readout_overlap), rel=2e-3)


def test_finite_width_correction_of_ba() -> None:
    """With a population gradient the bulk is exactly initial, and the shrinkage is that of the spiked law."""
    settings: dict[str, Any] = {"psi1": math.inf, "psi2": 2}
    case = problem(activation="erf", teacher="erf", d=200, width=400, n_step=math.inf, eta=8.0, noise=0.0)
    found = weight_spectrum(case).outlier
    limit = outlier("erf", "erf", eta=8.0, N=400, **settings)
    assert found is not None
    assert found.singular_value == pytest.approx(float(limit.singular_value), rel=1e-6)
    assert found.teacher_overlap == pytest.approx(float(limit.teacher_overlap), rel=1e-6)
    assert found.readout_overlap == pytest.approx(float(limit.readout_overlap), rel=1e-6)


@pytest.mark.parametrize("eta", [1.0, pytest.param(4.0, marks=pytest.mark.statistical), 12.0])
def test_own_output_of_order_one_in_a_population_gradient(eta: float) -> None:
    """One row, ``b`` as it was less its part of the gradient, on a Marchenko-Pastur bulk of all others."""
    case = problem(
        activation="erf", teacher="linear", width=400, n_step=math.inf, noise=0.0, eta=eta, output_scale="1/sqrt(N)"
    )
    gain = eta * moments(case.activation).linear
    # Readouts of variance one: b, of length one, and the teacher's direction, in units of N^(-1/2).
    own = 1 - gain * moments(case.activation).linear
    power = own**2 + gain**2
    found = weight_spectrum(case).outlier
    ratio = 400 / 200
    if (power - 1) ** 2 <= ratio:
        assert found is None
        return
    assert found is not None
    assert found.singular_value**2 == pytest.approx(power + power * ratio / (power - 1), rel=1e-6)
    share = 1 - ratio / (power - 1) ** 2
    assert found.teacher_overlap == pytest.approx(gain**2 / power * share, rel=1e-5)
    # The gradient is along the teacher's direction less mu_1 b.
    slope = moments(case.activation).linear
    with_gradient = (gain - own * slope) ** 2 / (power * (1 + slope**2))
    assert found.gradient_overlap == pytest.approx(with_gradient * share, rel=1e-5)


def test_trace_of_the_weights() -> None:
    """E tr W^T W / d = N/d (1 + tau E a^2), for the bulk, whichever the law of the rest."""
    case = problem(eta=gs.Step(1.0, exponent=0.5), readout="constant", n_step=150)
    student, teacher = moments(case.activation), moments(case.teacher)
    tau = 200 / 150 * (teacher.second_moment + 0.01) * student.derivative_variance
    # The network's output is noise to the step.
    more = 200 / 150 * student.second_moment / 300 * student.derivative_variance
    for rows, tau in (("network", tau + more), ("isotropic", tau)):  # noqa: B020
        law = weight_spectrum(case, rows=rows).after  # type: ignore[arg-type]
        assert float(law.weight @ law.eigenvalue) == pytest.approx(1.5 * (1 + tau), rel=1e-5)
        # Variance profile (1 + tau lambda_j) / d: E x^2 = mean profile^2 terms, with the second moment of S.
    isotropic = weight_spectrum(case, rows="isotropic").after
    expected = (1 + tau) ** 2 * (1.5**2 + 1.5)
    assert float(isotropic.weight @ isotropic.eigenvalue**2) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "activation", ["relu", *(pytest.param(name, marks=pytest.mark.statistical) for name in ("cos", "softplus"))]
)
def test_rows_that_the_step_stretches(activation: str) -> None:
    """The mean residual of a teacher with a mean scales a row by what its readout is: bands of single readouts."""
    case = problem(activation=activation, teacher="sin(x)+1", d=128, width=192)
    law = weight_spectrum(case).after
    drift = step_statistics(case, 128.0, 192.0, 400.0)
    stretched = 1 + drift.drift**2 + drift.bulk
    assert float(law.weight @ law.eigenvalue) == pytest.approx(1.5 * stretched, rel=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "case",
    [
        problem(activation="erf", teacher="erf", width=400, n_step=1000, eta=8.0),
        problem(readout="constant", n_step=100, eta=gs.Step(2.0, exponent=0.5)),
        problem(n_step=200, eta=gs.Step(1.0, exponent=0.5), width=150),
        problem(eta=10.0, output_scale="1/sqrt(N)"),
        problem(activation="relu", teacher="sin", eta=gs.Step(0.5, exponent=0.5), output_scale="1/sqrt(N)"),
        problem(n_step=100, eta=gs.Step(1.0, exponent=0.5), output_scale="1/sqrt(N)", readout={0.5: 0.5, 2.0: 0.5}),
    ],
)
def test_singular_values_of_real_weights(case: gs.Problem) -> None:
    spectrum = weight_spectrum(case)
    assert spectrum.outlier is not None
    runs = [gs.Network(case, 70 + seed).weight_spectrum() for seed in range(24)]
    law: Law
    for law, name in ((spectrum.before, "before"), (spectrum.after, "after")):
        values = np.sort(np.concatenate([getattr(run, name) for run in runs])) ** 2
        empirical = law.atom + (1 - law.atom) * (np.arange(len(values)) + 0.5) / len(values)
        assert np.abs(law.cumulative(values) - empirical).max() < 0.012
    for name in ("singular_value", "teacher_overlap", "readout_overlap", "gradient_overlap"):
        values = [getattr(run.leading[0], name) for run in runs]
        # At large steps the deficits 1 - overlap are of order 1/d, and so are their corrections.
        theory = getattr(spectrum.outlier, name)
        assert abs(Judged.at(theory, values, curve="", place=0, allowance=0.005, reason="finite size").excess_z) < 4


UNBOUNDED_STEPS = [
    {"teacher": "x+x**2-1", "n_step": 200, "eta": gs.Step(1.5, exponent=0.5)},
    {"teacher": "exp(x)", "activation": "relu", "n_step": 200, "eta": gs.Step(1.5, exponent=0.5), "noise": 0.0},
    {"teacher": "x**3", "activation": "erf", "n_step": 800, "eta": gs.Step(1.5, exponent=0.5), "readout": "constant"},
]


@pytest.mark.parametrize(
    "changes",
    [UNBOUNDED_STEPS[0], *(pytest.param(step, marks=pytest.mark.statistical) for step in UNBOUNDED_STEPS[1:])],
)
def test_edge_of_the_weights_does_not_hang_on_the_rule_for_unbounded_residuals(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docs, "Spectra", "The first layer": the edge is that of as many residuals as the step has samples."""
    case, edges = problem(**changes), []
    for shrink in (1.0, 0.75):
        for name in ("_PANEL", "_PANEL_WITH_NOISE"):
            monkeypatch.setattr(spike, name, shrink * getattr(spike, name))
        whole_spectrum.cache_clear()
        edges.append(weight_spectrum(case).after.edge)
    assert edges[1] == pytest.approx(edges[0], rel=0.005)
    assert edges[1] != edges[0]


@pytest.mark.statistical
@pytest.mark.parametrize("changes", UNBOUNDED_STEPS)
def test_edge_of_the_weights_is_a_typical_largest_one_for_unbounded_residuals(changes: dict[str, Any]) -> None:
    """It lies between the tenth and the ninth decile of the network's largest singular value beside the outlier."""
    case = problem(**changes)
    edge = math.sqrt(weight_spectrum(case).after.edge)
    second = [np.sort(gs.Network(case, 30 + seed).weight_spectrum().after)[-2] for seed in range(60)]
    assert 0.1 < np.mean(np.asarray(second) > edge) < 0.9


@pytest.mark.statistical
def test_the_structure_of_the_rest_is_seen() -> None:
    """The isotropic model of the rest misses the histogram of a step with few samples; its covariance does not."""
    case = problem(readout="constant", n_step=100, eta=gs.Step(2.0, exponent=0.5))
    values = gs.Network(case, 5).weight_spectrum().after ** 2
    empirical = (np.arange(len(values)) + 0.5) / len(values)
    distances = {}
    for rows in ("network", "isotropic"):
        law = weight_spectrum(case, rows=rows).after  # type: ignore[arg-type]
        distances[rows] = np.abs(law.cumulative(values) - empirical).max()
    assert distances["network"] < 0.02 < distances["isotropic"]


def test_labels_of_zero_move_the_weights_by_the_networks_own_output_only():
    silent = problem(teacher="0*x", noise=0.0, eta=gs.Step(1.0, exponent=0.5))
    still = weight_spectrum(silent)
    assert still.outlier is None
    # It is noise of variance 1/N to the step, and all of its labels.
    assert still.before.edge < still.after.edge < still.before.edge * 1.001
    assert weight_spectrum(silent.replace(output_scale="1/sqrt(N)")).outlier is not None


def test_features_that_grow_fast_have_the_spectrum_of_typical_inputs_and_neurons() -> None:
    """Those that no network has would hold all but a hundred thousandth of the features' mean square."""
    inputs = gs.Inputs.spiked([10.0], d=200)
    setting = problem(activation="exp(x)/(1+x**2)", teacher="sin", n_step=800, n=600, inputs=inputs)
    law = feature_spectrum(setting)
    values = np.array([gs.Network(setting, seed).feature_spectrum(leading=0).eigenvalues for seed in range(3)])
    assert law.outliers[0].eigenvalue == pytest.approx(values[:, -1].mean(), rel=0.1)
    assert values[:, -3].mean() < law.outliers[1].eigenvalue < values[:, -2].max()
    share = np.arange(0.05, 1, 0.1)
    assert law.bulk.cumulative(np.quantile(values, share)) == pytest.approx(share, abs=0.01)
