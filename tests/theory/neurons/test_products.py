"""Products of coordinates and the length of an input: explicit covariances, drawn inputs, and the real network."""

from dataclasses import replace

import numpy as np
import pytest
from resolved_plane import solution_of

import gradstep as gs
from gradstep.theory.equivalent.tables import stepped_networks
from gradstep.theory.neurons.bulk import isotropic
from gradstep.theory.neurons.products import OffResolved, products_of
from gradstep.theory.together import result_of


def bulk_of(variance, spike):
    """Return the bulk of rows with a covariance that is diagonal, one class for each direction."""
    d = len(variance)
    one = variance[None]
    return replace(isotropic(1), share=np.full(d, 1 / d), profile=one, spike=spike, special_profile=one)


def covariance(d=60):
    """Return variances along the axes, of mean one, and a vector."""
    generator = np.random.default_rng(3)
    variance = generator.lognormal(0, 1, d)
    variance /= variance.mean()
    return variance, generator.normal(size=d)


ALONE = np.ones(1)


def power_sums(off, *powers):
    """Return sums over all directions of powers of the mean variance of their rows."""
    gain = off.weight @ off.variance
    return [float(off.number @ gain**power) for power in powers]


def test_cells_have_the_moments_of_all_directions():
    variance, spike = covariance()
    found = OffResolved.of(ALONE, bulk_of(variance, spike / np.linalg.norm(spike)), np.empty((0, 60)), 60)
    first, second, third = power_sums(found, 1, 2, 3)
    assert first == pytest.approx(59)
    # No direction is longer than the longest, whose variance is kept.
    assert second == pytest.approx(59**2 * (variance**2).sum() / 60**2, rel=0.03)
    assert third == pytest.approx(59**3 * (variance**3).sum() / 60**3, rel=0.07)


def test_a_direction_that_is_the_spike_is_taken_out_whole():
    variance, _ = covariance()
    variance[7] = 30.0
    found = OffResolved.of(ALONE, bulk_of(variance, np.eye(60)[7]), np.eye(60)[[7]], 60)
    others = np.delete(variance, 7)
    expected = 59**2 * (others**2).sum() / others.sum() ** 2
    assert power_sums(found, 2) == pytest.approx([expected], rel=0.07)
    assert expected < 0.6 * 59**2 * (variance**2).sum() / variance.sum() ** 2


def test_rows_of_several_groups_share_the_cells():
    # Two groups are long in different directions: neurons share the mean variance of both, which is one in each.
    one = np.repeat([1.9, 0.1], 30)
    variance = np.stack([one, one[::-1]])
    bulk = replace(
        isotropic(2), share=np.full(60, 1 / 60), profile=variance, spike=np.eye(60)[0], special_profile=variance
    )
    found = OffResolved.of(np.array([0.5, 0.5]), bulk, np.empty((0, 60)), 60)
    assert power_sums(found, 1, 2, 3) == pytest.approx([59, 59**2 / 60, 59**3 / 60**2])
    # The length of an input is that of its isotropic rows.
    assert found.lengths == pytest.approx(np.full(2, np.sqrt(2 / 60)), rel=1e-3)


def test_features_have_all_their_power_whatever_the_length():
    # What products take of the noise is what they have in short inputs and in long ones.
    problem = gs.Problem(activation="relu", **SIZES, eta=gs.Step(1.5, 0.5))
    ((_, network),) = result_of(stepped_networks(problem))
    tables = network.tables.shared
    table, features = tables.leverage_table, tables.features
    power = table.variance.copy()
    pairs, triples = table.kinds[1:3]
    for kind in (pairs, triples):
        of_class = np.einsum("bc,bcg,bcl->bgl", kind.share, kind.profile, np.square(kind.stretch))
        power += kind.slope**2 * np.tile(of_class, power.shape[-1] // 2)
    # Slopes are kept to five digits, and a little noise remains where there would be none.
    np.testing.assert_allclose(power, features.variance, rtol=1e-4, atol=3e-5)
    assert features.variance.max() > 0.1


def test_cells_have_the_power_of_each_group():
    generator = np.random.default_rng(5)
    variance = generator.lognormal(0, [[0.3], [1.5], [2.5]], (3, 60))
    variance /= variance.mean(axis=1, keepdims=True)
    bulk = replace(
        isotropic(3), share=np.full(60, 1 / 60), profile=variance, spike=np.eye(60)[0], special_profile=variance
    )
    found = OffResolved.of(np.array([0.2, 0.5, 0.3]), bulk, np.empty((0, 60)), 60)
    assert found.variance @ found.number == pytest.approx([59, 59, 59])
    for degree in (2, 3):
        products = products_of(found, degree)
        assert products.profile @ products.share == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("degree", [2, 3])
def test_products_have_the_moments_of_all_products(degree):
    # Sums over all choices with repetition: complete symmetric polynomials of the variances, by Newton's identities.
    variance, _ = covariance()
    found = OffResolved.of(ALONE, bulk_of(variance, np.zeros(60)), np.empty((0, 60)), 60)

    def of_powers(power):
        one, two, three = power_sums(found, power, 2 * power, 3 * power)
        return {2: (one**2 + two) / 2, 3: (one**3 + 3 * one * two + 2 * three) / 6}[degree]

    classes = products_of(found, degree)
    assert classes.share @ classes.profile[0] == pytest.approx(1)
    expected = of_powers(2) / of_powers(1) ** 2 * 59
    assert classes.share @ classes.profile[0] ** 2 == pytest.approx(expected, rel=1e-4)


def test_products_of_rows_are_those_of_a_wishart_law():
    """The matrices ``w w^T`` of Gaussian rows fluctuate by ``2 tr^2 S^2 + 2 tr S^4``."""
    variance = covariance()[0] ** 0.3
    variance /= variance.mean()
    one, other = np.random.default_rng(8).standard_normal((2, 200_000, 60)) * np.sqrt(variance)
    # Without the mean of all rows, two rows have the product <w w^T - S, v v^T - S>.
    product = np.vecdot(one, other) ** 2 - np.square(one) @ variance - np.square(other) @ variance
    squares = np.square(product + (variance**2).sum())
    second, fourth = (variance**2).sum(), (variance**4).sum()
    expected = 2 * second**2 + 2 * fourth
    assert squares.mean() == pytest.approx(expected, abs=4 * squares.std() / np.sqrt(len(squares)))
    classes = products_of(OffResolved.of(ALONE, bulk_of(variance, np.zeros(60)), np.empty((0, 60)), 61), 2)
    scale = (variance.sum() ** 2 + second) / 60
    assert 60 * scale**2 * (classes.share @ classes.profile[0] ** 2) == pytest.approx(expected, rel=0.02)


def test_isotropic_rows_have_one_class():
    off = OffResolved.of(ALONE, isotropic(1), np.empty((0, 1)), 101)
    pairs, triples = products_of(off, 2), products_of(off, 3)
    assert pairs.share == pytest.approx([50.5])
    assert pairs.profile[0] == pytest.approx([1 / 50.5])
    assert triples.share * 100 == pytest.approx([100 * 101 * 102 / 6])
    assert off.lengths == pytest.approx([np.sqrt(2 / 100)], rel=1e-3)


def test_a_great_many_directions_are_no_limit():
    off = OffResolved.of(ALONE, isotropic(1), np.empty((0, 1)), 1e12)
    assert products_of(off, 3).profile[0] == pytest.approx([6e-24])


def test_coordinates_of_long_inputs_are_those_of_drawn_ones():
    # Docs, "Uniform equivalent", (E8c): regressions on the length of Gaussian inputs.
    variance = covariance()[0] ** 0.5
    variance /= variance.mean()
    off = OffResolved.of(ALONE, bulk_of(variance, np.zeros(60)), np.empty((0, 60)), 60)
    x = np.random.default_rng(4).standard_normal((400_000, 60))
    length = x**2 @ variance
    length = (length - length.mean()) / length.std()
    change = (off.stretch(variance)[:, 1] - off.stretch(variance)[:, 0]) / 2
    drawn = (x**2 * length[:, None]).mean(axis=0)
    error = np.sqrt(2 + 10 * drawn**2) / np.sqrt(len(x))
    small = change < 0.5  # larger ones are bounded
    assert np.abs((drawn - change) / error)[small].max() < 4.5
    seen = (x**2 @ variance).std() / variance.sum()
    assert off.lengths[0] == pytest.approx(seen, rel=0.02)


def test_products_in_long_inputs_are_those_of_drawn_ones():
    # To first order the variance of a product follows the length like the sum of those of its coordinates.
    variance = np.repeat([2.0, 0.5], [50, 100])
    off = OffResolved.of(ALONE, bulk_of(variance, np.zeros(150)), np.empty((0, 150)), 150)
    classes = products_of(off, 2)
    assert np.mean(classes.stretch**2, axis=1) == pytest.approx(np.ones(3))
    x = np.random.default_rng(6).standard_normal((100_000, 150))
    length = x**2 @ variance
    length = (length - length.mean()) / length.std()
    pairs = [x[:, 50:100] * x[:, 100:], x[:, :50] * x[:, 50:100], x[:, :25] * x[:, 25:50]]  # from the shortest on
    drawn = np.array([((pair**2).mean(axis=1) * length).mean() for pair in pairs])
    assert (classes.stretch[:, 1] ** 2 - classes.stretch[:, 0] ** 2) / 2 == pytest.approx(drawn, abs=0.015)


@pytest.mark.parametrize("activation", ["relu", "x+.3*(x**2-1)", "tanh"])
def test_cells_of_few_samples_are_those_of_drawn_rows(activation):
    """Traces of powers of the rows' covariance off the gradient's direction, after steps of 24 samples each."""
    problem = gs.Problem(activation=activation, **{**SIZES, "n_step": 24}, eta=gs.Step(1.5, 0.5))
    ((_, network),) = result_of(stepped_networks(problem))
    tables = network.tables
    off = OffResolved.of(tables.groups.weight, tables.bulk, tables.bulk.spike[None], 150)
    slope = {"relu": lambda z: z > 0, "tanh": lambda z: np.cosh(z) ** -2.0}.get(activation, lambda z: 1 + 0.6 * z)
    drawn = []
    for seed in range(24):
        generator = np.random.default_rng(seed)
        x, w = generator.standard_normal((24, 150)), generator.standard_normal((3000, 150)) / np.sqrt(150)
        y = x[:, 0] + 0.2 * generator.standard_normal(24)
        change = 1.5 * (slope(w @ x.T) * y) @ x / 24
        gradient = y @ x / np.linalg.norm(y @ x)
        mean = sum(np.cov((w + a * change).T) for a in (-1, 1)) / 2
        mean -= np.outer(gradient, gradient @ mean)
        mean -= np.outer(mean @ gradient, gradient)
        square = mean @ mean
        traces = np.trace(mean), np.trace(square), np.vdot(mean, square)
        drawn.append([149 * traces[1] / traces[0] ** 2, 149**2 * traces[2] / traces[0] ** 3])
    mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / np.sqrt(24)
    first, *others = power_sums(off, 1, 2, 3)
    found = np.array(others) / first
    assert np.all(np.abs(found - mean) < 3 * error + 0.03 * mean)


def test_a_linear_feature_has_no_products():
    ((_, network),) = result_of(stepped_networks(gs.Problem(activation="linear", **SIZES, eta=0.0)))
    assert network.tables.products == ()
    ((_, network),) = result_of(stepped_networks(gs.Problem(activation="x+.3*hermite2", **SIZES, eta=0.0)))
    assert len(network.tables.products) == 1


SIZES = {
    "teacher": "x", "readout": {-1: 0.5, 1: 0.5}, "noise": 0.2,
    "d": 150, "width": 200, "n": 350, "n_step": 30, "ridge": 2.5,
}  # fmt: skip


def off_networks(problem, seeds):
    """Return the z-score and the relative deviation of a test error, and the deviation without products."""
    networks = gs.simulate(problem, seeds=seeds)
    mean, error = float(networks.mean("test_error")), float(networks.standard_error("test_error"))
    described = result_of(stepped_networks(problem, plane=True, products=False))
    without = sum(share * float(solution_of(network, problem).test_error[0]) for share, network in described)
    predicted = gs.predict(problem).test_error
    return (predicted - mean) / error, predicted / mean - 1, without / mean - 1


def test_few_samples_of_a_strong_step():
    problem = gs.Problem(activation="relu", eta=gs.Step(1.5, 0.5), **SIZES)
    z, off, without = off_networks(problem, 64)
    assert abs(z) < 3 or abs(off) < 0.04
    assert without > 0.07


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"activation": "relu"}, 0.02),
        ({"activation": "relu", "readout": "constant"}, 0.02),
        ({"activation": "relu", "readout": "gaussian"}, 0.02),
        ({"activation": "x+.3*(x**2-1)"}, 0.02),
        ({"activation": "relu", "inputs": gs.Inputs([9, 1], [0.1, 0.9]), "n_step": 90}, 0.02),
        ({"activation": "relu", "teacher": "sign(x)", "noise": 0.0}, 0.02),
        # The degree above three counts here.
        ({"activation": "tanh"}, 0.035),
    ],
)
def test_errors_of_networks_in_few_directions(changes, part):
    sizes = {"d": 300, "width": 400, "n": 700, "n_step": 30, "ridge": 5.0}
    problem = gs.Problem(**{**SIZES, **sizes, "eta": gs.Step(1.5, 0.5), **changes})
    z, off, without = off_networks(problem, 64)
    assert abs(off) < part + 3 * abs(off / z)
    assert abs(without) > abs(off)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        {"damping": 1.0},
        {"damping": 0.1, "n_step": 90},
        {"damping": 1.0, "readout": "gaussian"},
        {"damping": 0.3, "activation": "tanh"},
        {"damping": 1.0, "activation": "x+.3*(x**2-1)", "eta": gs.Step(1.0, 0.5)},
        {"inputs": gs.Inputs.power_law(0.4), "n_step": 90},
        {"inputs": gs.Inputs.power_law(0.4), "n_step": 90, "damping": 1.0},
        {"inputs": gs.Inputs([4, 0.5], [0.15, 0.85]), "n_step": 90, "readout": "gaussian"},
    ],
)
def test_errors_of_damped_steps_and_correlated_inputs_in_few_directions(changes):
    sizes = {"d": 300, "width": 400, "n": 700, "n_step": 30, "ridge": 5.0, "activation": "relu"}
    problem = gs.Problem(**{**SIZES, **sizes, "eta": gs.Step(1.5, 0.5), **changes})
    networks, predicted = gs.simulate(problem, seeds=64), gs.predict(problem)
    for name in ("test_error", "train_error"):
        mean, error = float(networks.mean(name)), float(networks.standard_error(name))
        assert abs(getattr(predicted, name) - mean) < 0.01 * mean + 2.5 * error


@pytest.mark.statistical
@pytest.mark.parametrize("inputs", [None, gs.Inputs([3, 0.5], [0.2, 0.8], [0.6, 0.4])])
def test_products_and_lengths_balance_at_the_peak_of_an_even_feature(inputs):
    # With products alone the error would be 3 % too small, with lengths alone as much too large.
    problem = gs.Problem(
        activation="H2", teacher="x", d=200, width=358, n=358, n_step=108, eta=0.0, ridge=2.2, noise=0.1, inputs=inputs
    )
    z, off, _ = off_networks(problem, 400)
    assert abs(z) < 3
    assert abs(off) < 0.03
