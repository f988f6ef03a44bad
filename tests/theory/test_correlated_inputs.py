"""Predictions for correlated inputs: random features in closed form, isotropic inputs as a limit, real networks."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.theory.caveats import indicators
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.damped import damped_direction
from gradstep.theory.spectra.feature_spectrum import feature_spectrum
from gradstep.theory.step.statistics import step_statistics

LIMIT = gs.Problem(
    activation="tanh", teacher="sin(1.5*x)", d=math.inf, width="1.3d", n="2d", n_step="1.5d", eta=0.0, ridge="0.02d",
    noise=0.3, readout="constant",
    inputs={"eigenvalues": [6, 1, 0.2], "share": [0.1, 0.5, 0.4], "teacher": [0.5, 0.2, 0.3]},
)  # fmt: skip
LEVELS = gs.Inputs([4, 2, 1, 0.5, 0.25], [0.05, 0.15, 0.25, 0.35, 0.2], [0.2, 0.3, 0.2, 0.2, 0.1])
FINITE = gs.Problem(
    activation="tanh", teacher="sin(x)", d=120, width=160, n=280, n_step=120, eta=gs.Step(1.0, 0.5), ridge=2.0,
    noise=0.2, readout="constant",
)  # fmt: skip
TWO_LEVELS = gs.Inputs([4, 1], [0.25, 0.75], [0.6, 0.4])


def random_features(problem: gs.Problem) -> tuple[float, float]:
    """Return test and training error of ridge regression on random features of Gaussian inputs with a covariance.

    The Gaussian covariate model: features of covariance ``mu_1^2 W C W^T + mu_rest^2`` have an effective ridge
    ``kappa``, and the error is that of the population's ridge regression over what the degrees of freedom leave. The
    spectrum of ``W C W^T`` is that of a sample covariance (Silverstein). All sizes are in units of d.
    """
    law, sigma, link = problem.inputs, moments(problem.activation), moments(problem.teacher)
    c, share, teacher = (np.array(x) for x in (law.eigenvalues, law.share, law.teacher))
    width, n, ridge = problem.width.ratio, problem.n.ratio, problem.ridge.ratio
    slope, rest = sigma.linear, math.sqrt(sigma.nonlinear_second_moment)

    def damping(zeta: float) -> float:
        """Return ``1 + delta`` of the matrix ``(om^T om + zeta)^-1 = (zeta + width C / (1 + delta))^-1``."""
        return brentq(lambda x: x - 1 - share @ (c / (zeta + width * c / x)), 1, 1 + 1 / zeta, xtol=1e-15, rtol=1e-15)

    def spectral(kappa: float) -> tuple[float, float]:
        """Return ``tr Omega (Omega + kappa)^-1`` and ``phi^T (Omega + kappa)^-1 phi``."""
        zeta = (rest**2 + kappa) / slope**2
        left = 1 / (1 + width * c / (zeta * damping(zeta)))  # zeta (om^T om + zeta)^-1
        trace = ((width - 1) / zeta + share @ left / zeta) / slope**2
        return width - kappa * trace, link.linear**2 * float(teacher @ (1 - left))

    kappa = brentq(lambda k: n - spectral(k)[0] - ridge / k, ridge / n, 1e3, xtol=1e-16, rtol=1e-15)
    h = 1e-3 * kappa
    near = np.array([spectral(kappa + k * h) for k in (-2, -1, 1, 2)])
    slopes = np.array([1, -8, 8, -1]) @ near / (12 * h)
    freedom, known = spectral(kappa)
    square = link.second_moment + problem.noise**2
    whole = (square - known + kappa * slopes[1]) / (1 - (freedom + kappa * slopes[0]) / n)
    return whole - problem.noise**2, (ridge / (n * kappa)) ** 2 * whole


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"readout": "gaussian"},
        {"activation": "erf(x)+0.2*x", "ridge": "0.3d", "n": "0.7d"},
        {"width": "4d", "ridge": "1e-3d"},
    ],
)
def test_without_a_step_errors_are_those_of_random_features(changes):
    problem = LIMIT.replace(**changes)
    found = gs.predict(problem)
    expected = random_features(problem)
    np.testing.assert_allclose([found.test_error, found.train_error], expected, rtol=1e-8)


@pytest.mark.parametrize("readout", ["constant", "gaussian"])
@pytest.mark.parametrize("n_step", [60, 240])
@pytest.mark.parametrize("eta", [0.0, gs.Step(1.5, 0.5)])
def test_nearly_equal_eigenvalues_have_the_errors_of_isotropic_inputs(readout, n_step, eta):
    problem = FINITE.replace(readout=readout, n_step=n_step, eta=eta)
    isotropic, found = gs.predict(problem), gs.predict(problem.replace(inputs=gs.Inputs([1 + 1e-7, 1 - 1e-7])))
    # Beside the same leading order there are terms of order 1/N of the step that correlated inputs leave out.
    tolerance = 5e-3 if eta else 1e-7
    assert found.test_error == pytest.approx(isotropic.test_error, rel=tolerance)
    assert found.train_error == pytest.approx(isotropic.train_error, rel=tolerance)
    assert found.alignment == pytest.approx(isotropic.alignment, rel=1e-6)


def test_what_all_rows_have_in_common_pulls_alike_with_nearly_equal_eigenvalues():
    """An output of order one and readouts of both signs: without the pull, both errors would be two per cent larger."""
    problem = FINITE.replace(
        activation="tanh(x)+0.3*(x**2-1)", teacher="x-1", d=200, width=240, n_step=500, n=400, eta=gs.Step(0.75, 0.5),
        readout={-1: 0.3, 2: 0.7}, output_scale="1/sqrt(N)",
    )  # fmt: skip
    isotropic, found = gs.predict(problem), gs.predict(problem.replace(inputs=gs.Inputs([1 + 1e-7, 1 - 1e-7])))
    assert found.test_error == pytest.approx(isotropic.test_error, rel=5e-3)
    assert found.train_error == pytest.approx(isotropic.train_error, rel=5e-3)


@pytest.mark.parametrize(
    ("activation", "teacher"), [("relu", "x"), ("softplus", "tanh(x)"), ("relu", "x+0.3*(x**2-1)")]
)
@pytest.mark.parametrize("n_step", [60, 240])
def test_rows_stretched_by_the_samples_are_those_of_isotropic_inputs(activation, teacher, n_step):
    # One law for both. At finite d those of isotropic inputs have terms of order 1/d more.
    problem = FINITE.replace(activation=activation, teacher=teacher, n_step=n_step, eta=gs.Step(1.5, 0.5))
    sizes = {name: 10**6 * getattr(problem, name) for name in ("d", "width", "n_step", "n")}
    large = problem.replace(**sizes, ridge=1e6 * problem.ridge)
    for of, tolerance in ((problem, 0.015), (large, 1e-6)):
        isotropic, found = gs.predict(of), gs.predict(of.replace(inputs=gs.Inputs([1 + 1e-9, 1 - 1e-9])))
        assert found.test_error == pytest.approx(isotropic.test_error, rel=tolerance)
        assert found.train_error == pytest.approx(isotropic.train_error, rel=tolerance)


@pytest.mark.parametrize("n_step", [0.5, 2.0])
def test_norms_tell_of_the_rows_as_they_do_for_isotropic_inputs(n_step):
    """A third Hermite coefficient and a mean of the residual: what the norm tells changes the error by 3 %."""
    problem = LIMIT.replace(
        inputs=None, activation="tanh(x)+0.3*(x**2-1)", teacher="x-1", eta=gs.Step(1.5, 0.5), n_step=f"{n_step}d"
    )
    # With finer rules, which do not depend on the last digits of the inputs.
    near = problem.replace(inputs=gs.Inputs([1 + 1e-9, 1 - 1e-9]))
    isotropic, found = (gs.predict(each, refine=2) for each in (problem, near))
    assert found.test_error == pytest.approx(isotropic.test_error, rel=1e-7)
    assert found.train_error == pytest.approx(isotropic.train_error, rel=1e-7)


@pytest.mark.parametrize(
    ("activation", "teacher", "finest"),
    [
        ("tanh", 0.0, 2),
        *(
            pytest.param(activation, teacher, 3, marks=pytest.mark.statistical)
            for activation in ("tanh", "relu")
            for teacher in (0.0, 2.0)
        ),
    ],
)
def test_errors_do_not_depend_on_the_nodes(activation, teacher, finest):
    # Of many classes each has a band of its own in the law of the rows. A Gaussian readout asks where in it a node is.
    inputs = gs.Inputs.power_law(0.5, teacher, d=120)
    problem = FINITE.replace(activation=activation, readout="gaussian", eta=gs.Step(1.5, 0.5), inputs=inputs)
    *errors, last = (gs.predict(problem, refine=refine).test_error for refine in range(1, finest + 1))
    # Rows that a ReLU stretches have directions that are chosen, and a finer rule has more of them to choose from.
    tolerance = 5e-5 if activation == "tanh" else 1e-4
    assert errors == pytest.approx([last] * len(errors), rel=tolerance)


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({"n_step": 460, "eta": gs.Step(0.75, 0.5), "output_scale": "1/sqrt(N)"}, [0.3, 0.12, 0.15, 0.43]),
        ({"n_step": 530, "eta": gs.Step(0.32, 0.5)}, [0.14, 0.64, 0.05, 0.17]),
    ],
)
def test_directions_of_hardly_any_variance_are_as_good_as_none(changes, share):
    levels, power = [3, 0.6, 0.35], 3 * share[0] + 0.6 * share[1] + 0.35 * share[2]

    def errors(least):
        inputs = gs.Inputs([*levels, least * power], share)
        problem = gs.Problem(
            activation="H1+0.4*H2", teacher="2*tanh(2*x)", d=400, width=320, n=860, ridge=160.0, noise=0.4,
            readout="constant", inputs=inputs, **changes,
        )  # fmt: skip
        found = gs.predict(problem)
        return [found.test_error, found.train_error]

    none = errors(0)
    for least in (1e-12, 1e-9, 1e-7):
        # Cells of directions follow the nodes of the rule, which are others.
        np.testing.assert_allclose(errors(least), none, rtol=2e-5)


def test_inputs_of_one_eigenvalue_are_isotropic():
    assert FINITE.replace(inputs=gs.Inputs([2.0, 2.0])).inputs is None


@pytest.mark.parametrize(
    "changes",
    [
        {"eta": 0.0},
        {"eta": gs.Step(1.5, 0.5)},
        {"activation": "softplus", "eta": gs.Step(1.5, 0.5)},
        {"activation": "softplus", "eta": gs.Step(1.5, 0.5), "damping": 0.3},
    ],
)
def test_the_loss_is_the_one_whose_slope_in_the_ridge_is_the_norm_of_the_readout(changes):
    problem = FINITE.replace(inputs=TWO_LEVELS, **changes)
    norm = [(gs.predict(problem.replace(ridge=2.0 + h)).train_loss, h) for h in (-1e-3, 1e-3)]
    found = gs.predict(problem)
    slope = problem.n * (norm[1][0] - norm[0][0]) / 2e-3
    assert slope == pytest.approx(problem.n * (found.train_loss - found.train_error) / 2.0, rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"n_step": 240, "inputs": TWO_LEVELS}, marks=pytest.mark.statistical),
        pytest.param({"n_step": 60, "readout": "gaussian", "inputs": TWO_LEVELS}, marks=pytest.mark.statistical),
        pytest.param(
            {"activation": "relu", "teacher": "x", "readout": "gaussian", "inputs": TWO_LEVELS},
            marks=pytest.mark.statistical,
        ),
        {"activation": "softplus", "teacher": "tanh(x)", "n_step": 360, "inputs": gs.Inputs([9, 1], [0.1, 0.9])},
        pytest.param({"damping": 0.1}, marks=pytest.mark.statistical),
        pytest.param(
            {"damping": 0.1, "activation": "softplus", "teacher": "sin(1.5*x) + 0.5", "inputs": TWO_LEVELS},
            marks=pytest.mark.statistical,
        ),
        {"damping": 1.0, "activation": "relu", "teacher": "x", "readout": "gaussian", "inputs": TWO_LEVELS},
        {"damping": 0.3, "activation": "relu", "teacher": "sin(x) + 0.5", "readout": {1: 0.5, 2: 0.5}, "n_step": 240},
        *(
            pytest.param(changes, marks=pytest.mark.statistical)
            for changes in [
                {"damping": 1.0, "n_step": 60, "readout": "gaussian"},
                {"damping": 0.1, "inputs": TWO_LEVELS, "n_step": 240},
                {"damping": 1.0, "inputs": TWO_LEVELS, "readout": "gaussian"},
            ]
        ),
    ],
)
def test_real_networks(changes):
    problem = FINITE.replace(**changes)
    theory, network = gs.predict(problem), gs.simulate(problem, seeds=32)
    for name in ("test_error", "train_error", "alignment"):
        mean, error = float(network.mean(name)), float(network.standard_error(name))
        # Of 120 directions one has up to 3 per cent of a row.
        assert abs(getattr(theory, name) - mean) < 3 * error + 0.03 * mean, name


@pytest.mark.statistical
def test_real_networks_whose_readouts_have_both_signs_and_a_mean():
    # With the diagonals of the covariances alone test errors would be 8 % too small, at every size.
    problem = gs.Problem(
        activation="H1+0.4*H2", teacher="x", d=400, width=900, n_step=1400, n=2000, eta=gs.Step(0.33, 0.5), ridge=80.0,
        noise=0.07, readout={-1.0: 0.3, 2.0: 0.7}, inputs=LEVELS,
    )  # fmt: skip
    theory, network = gs.predict(problem), gs.simulate(problem, seeds=40)
    for name in ("test_error", "train_error"):
        mean, error = float(network.mean(name)), float(network.standard_error(name))
        assert abs(getattr(theory, name) - mean) < 3 * error + 0.01 * mean, name


def test_readouts_of_both_signs_with_an_output_of_order_one():
    """Twenty-four networks. With the diagonals alone the errors would be 16 and 26 % too small, at every size."""
    problem = gs.Problem(
        activation="H1+0.4*H2", teacher="1.01*x", d=800, width=1792, n_step=2816, n=960, eta=gs.Step(0.328, 0.5),
        ridge=180.0, noise=0.07, readout={-1.0: 0.3, 2.0: 0.7}, inputs=LEVELS, output_scale="1/sqrt(N)",
    )  # fmt: skip
    theory = gs.predict(problem)
    assert abs(theory.test_error - 1.418) < 3 * 0.026
    assert abs(theory.train_error - 0.0087) < 3 * 0.0002


@pytest.mark.parametrize("activation", ["H1+0.4*H2", "tanh(x)+0.3*x**2"])
@pytest.mark.parametrize("inputs", [LEVELS, gs.Inputs.power_law(0.5, 0.7)])
def test_opposite_features_and_readouts_with_a_mean_are_the_same_network(activation, inputs):
    problem = gs.Problem(
        activation=activation, teacher="x", d=400, width=800, n_step=1200, n=800, eta=gs.Step(0.4, 0.5), ridge=40.0,
        noise=0.2, readout={-1.0: 0.3, 2.0: 0.7}, inputs=inputs,
    )  # fmt: skip
    opposite = problem.replace(activation=f"-({activation})", readout={1.0: 0.3, -2.0: 0.7})
    one, other = gs.predict_many([problem, opposite])
    assert one.test_error == pytest.approx(other.test_error, rel=1e-9)
    assert one.train_error == pytest.approx(other.train_error, rel=1e-9)


def test_quadratic_features_of_nearly_equal_eigenvalues_have_the_errors_of_equal_ones():
    # With equal eigenvalues the covariances of all readouts commute, and the isotropic theory leaves nothing out.
    equal = gs.Problem(
        activation="H1+0.4*H2", teacher="x", d=10**5, width=2 * 10**5, n_step=3 * 10**5, n=2 * 10**5, ridge=1e4,
        eta=gs.Step(0.4, 0.5), noise=0.2, readout={-1.0: 0.3, 2.0: 0.7},
    )  # fmt: skip
    one, other = gs.predict_many([equal, equal.replace(inputs=gs.Inputs([1 + 1e-6, 1 - 1e-6]))])
    assert other.test_error == pytest.approx(one.test_error, rel=1e-3)
    assert other.train_error == pytest.approx(one.train_error, rel=3e-3)


def test_isotropic_theory_is_far_off_where_this_one_is_right():
    # The comparison above can fail.
    problem = FINITE.replace(n_step=240, inputs=gs.Inputs([4, 1], [0.25, 0.75], [0.05, 0.95]))
    found, isotropic = gs.predict(problem), gs.predict(problem.replace(inputs=None))
    assert abs(found.alignment - isotropic.alignment) > 0.05
    assert abs(found.test_error / isotropic.test_error - 1) > 0.2


@pytest.mark.parametrize(
    ("function", "changes", "field"),
    [
        (gs.predict, {"damping": 1.0, "inputs": None, "d": 7}, "d"),
        (lambda problem: gs.predict(problem, rows="isotropic"), {"damping": 1.0, "inputs": None}, "rows"),
        (gs.predict, {"output_scale": "1/sqrt(N)", "activation": "relu"}, "output_scale"),
        (lambda problem: gs.predict(problem, rows="isotropic"), {}, "rows"),
        (lambda problem: gs.predict(problem, bulk="isotropic"), {}, "bulk"),
        (lambda problem: feature_spectrum(problem, rows="isotropic"), {}, "rows"),
        (gs.predict, {"inputs": gs.Inputs.spiked([200.0], 120)}, "inputs"),
    ],
)
def test_what_there_is_no_theory_of_is_refused(function, changes, field):
    with pytest.raises(gs.InvalidInput) as refused:
        function(FINITE.replace(**{"inputs": TWO_LEVELS, **changes}))
    assert refused.value.field == field


def test_rows_along_one_direction_are_a_caveat():
    # Without a step the part of a row along one direction is the largest eigenvalue over d. A large step follows it.
    name, still = "rows along one direction", FINITE.replace(eta=0.0)
    large, power_law = gs.Inputs.spiked([10.0], 120), gs.Inputs.power_law(0.5)
    assert indicators(gs.predict(still.replace(inputs=large)))["direction"] == pytest.approx(
        max(large.eigenvalues) / 120
    )
    relu = gs.Problem(
        activation="relu", teacher="x-1", d=400, width=520, n_step=1000, n=800, eta=0.0, ridge=8.0, inputs=power_law
    )
    steep = gs.Inputs.power_law(0.7, d=400)
    for problem, expected in (
        # The network has 2.0(1.1) per cent less test error.
        (still.replace(inputs=large), False),
        (still.replace(inputs=TWO_LEVELS), False),
        (relu, False),
        (relu.replace(eta=gs.Step(1.2, 0.5), readout="constant", inputs=steep), True),
    ):
        assert (name in {caveat.name for caveat in gs.predict(problem).caveats}) == expected


def test_rows_that_follow_the_leading_directions_have_a_caveat_of_the_size_of_the_deviation():
    # In per cent of the test error of networks at d = 400 (docs, "Leading directions").
    for changes, deviation in (
        ({"readout": "constant"}, 4.8),
        ({"inputs": gs.Inputs.power_law(0.8)}, 40.1),
        ({"activation": "tanh(x)+0.3*x**2"}, 14.0),
    ):
        problem = gs.Problem(
            d=400, width=520, n_step=1000, n=800, eta=gs.Step(1.2, 0.5), ridge=8.0, noise=0.2, teacher="x-1",
            **{"activation": "relu", "readout": {0.5: 0.5, 2: 0.5}, "inputs": gs.Inputs.power_law(0.5), **changes},
        )  # fmt: skip
        found = {caveat.name: caveat.size for caveat in gs.predict(problem).caveats}
        assert deviation / 3 < 100 * found["rows stretched along leading directions"] < 3 * deviation


def test_rows_stretched_along_leading_directions_are_a_caveat():
    name, problem = "rows stretched along leading directions", FINITE.replace(activation="relu", teacher="x")
    problem = problem.replace(d=300, width=400, n=700, n_step=90, eta=gs.Step(1.5, 0.5), ridge=5.0)
    inputs, values = gs.Inputs([9, 1], [0.1, 0.9]), {0.5: 0.5, 1.5: 0.5}
    for changes, expected in (
        ({"inputs": inputs, "readout": values}, True),
        ({"inputs": inputs}, True),
        ({"inputs": inputs, "readout": values, "activation": "tanh"}, False),
        ({"inputs": inputs, "readout": "gaussian"}, False),
        ({"inputs": None, "readout": values}, False),
        ({"inputs": None, "readout": values, "damping": 1e9}, False),
    ):
        assert (name in {caveat.name for caveat in gs.predict(problem.replace(**changes)).caveats}) == expected


def test_an_even_teacher_after_a_damped_step_has_the_error_of_networks():
    # The spike's direction alone would have 3.6 after the damped step.
    for damping, measured in ((math.inf, 2.64), (0.3, 2.57)):
        problem = gs.Problem(
            activation="tanh(x)+0.3*x**2", teacher="x**2-1", d=120, width=150, n_step=960, n=240, eta=gs.Step(1.0, 0.5),
            ridge=6.0, noise=0.1, readout={0.5: 0.5, 2: 0.5}, damping=damping,
        )  # fmt: skip
        assert gs.predict(problem).test_error == pytest.approx(measured, abs=0.05 + 2 * 0.07)


@pytest.mark.statistical
def test_rows_of_which_a_diagonal_is_below_zero_have_an_answer():
    problem = gs.Problem(
        activation="relu", teacher="x-1", d=120, width=150, n_step=300, n=240, eta=gs.Step(0.7, 0.5), ridge=10.0,
        noise=0.2, readout={0.5: 0.5, 2: 0.5}, inputs=gs.Inputs.power_law(0.8, 2.0, d=120),
    )  # fmt: skip
    errors = [gs.predict(problem.replace(ridge=ridge)).test_error for ridge in (2.0, 10.0, 50.0)]
    assert errors[0] > errors[1] > errors[2] > 0


def test_few_directions_of_correlated_inputs_are_a_caveat():
    # With products of coordinates the benchmark's setting, the second one, is right to a per cent.
    name, problem = "few step samples after a strong step", FINITE.replace(activation="relu", teacher="x")
    sizes = {"d": 300, "width": 400, "n": 700, "n_step": 90}
    inputs = gs.Inputs([9, 1], [0.1, 0.9])
    problem = problem.replace(eta=gs.Step(1.5, 0.5), ridge=5.0, inputs=inputs, **sizes)
    for changes, expected in (
        ({"eta": gs.Step(3.0, 0.5), "n_step": 40}, True),
        ({}, False),
        ({"inputs": None}, False),
        ({"activation": "softplus", "teacher": "tanh(x)"}, False),
        ({"n_step": 2400}, False),
        ({name: 8 * size for name, size in sizes.items()}, False),
    ):
        assert (name in {caveat.name for caveat in gs.predict(problem.replace(**changes)).caveats}) == expected


def test_a_spike_that_differs_between_draws_is_a_caveat():
    # The benchmark has the first one off by 10 per cent at this size, and by less than 3 at larger ones.
    name = "spike that differs between draws"
    problem = FINITE.replace(activation="sin", teacher="x+0.2*(x**3-3*x)", eta=gs.Step(1.5, 0.5))
    sizes = {"d": 300, "width": 400, "n": 700, "n_step": 90, "inputs": gs.Inputs.power_law(0.25, d=300)}
    problem = problem.replace(**sizes)
    for changes, expected in (
        ({}, True),
        ({"activation": "tanh"}, False),
        ({"teacher": "tanh(2*x)"}, False),
        ({"readout": "gaussian"}, False),
        # With signs of the readout features have signs, which a fit does not feel.
        ({"readout": {-1: 0.5, 1: 0.5}}, True),
        ({"readout": {0.5: 0.3, 1: 0.4, 1.5: 0.3}}, False),
        ({"n_step": 2400}, False),
        ({name: 4 * sizes[name] for name in ("d", "width", "n", "n_step")}, False),
        # In isotropic inputs networks are off as well, by 3.7 +- .8 per cent.
        ({"inputs": None}, True),
        ({"inputs": None, "n_step": 2400}, False),
    ):
        assert (name in {caveat.name for caveat in gs.predict(problem.replace(**changes)).caveats}) == expected


@pytest.mark.parametrize(
    ("damping", "inputs"),
    [
        (math.inf, TWO_LEVELS),
        pytest.param(1.0, TWO_LEVELS, marks=pytest.mark.statistical),
        (math.inf, None),
    ],
)
def test_the_spike_of_many_draws_varies_as_the_caveat_says(damping, inputs):
    # With few samples of large labels; what else varies is of higher order.
    problem = FINITE.replace(teacher="x+0.2*(x**3-3*x)", n_step=480, width=20, n=10, inputs=inputs, noise=0.0)
    problem = problem.replace(damping=damping)
    strength = np.array([gs.Network(problem, seed).spike.strength for seed in range(200)]) ** 2
    d, width, n_step, *_ = problem.real_sizes()
    step = step_statistics(problem, d, width, n_step)
    expected = (step.correlated or step.samples).relative_variance_of_square / n_step
    found = strength.var(ddof=1) / strength.mean() ** 2
    assert found == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.statistical),
        pytest.param({"inputs": gs.Inputs.power_law(0.5, 2.0, d=120)}, marks=pytest.mark.statistical),
        {"activation": "relu", "teacher": "x+0.4*(x**2-1)", "readout": "gaussian"},
    ],
)
def test_spread_without_a_step(changes):
    problem = FINITE.replace(eta=0.0, inputs=TWO_LEVELS, n_step=240, noise=0.3).replace(**changes)
    theory, network = gs.predict_spread(problem), gs.simulate(problem, seeds=200)
    for name in ("test_error", "train_error"):
        values = np.asarray(network[name])
        found = values.std(ddof=1)
        fourth = np.mean((values - values.mean()) ** 4) / found**4
        error = found * math.sqrt((fourth - 1) / (4 * len(values)))
        # The leading order is off by a few per cent at this size, for isotropic inputs too.
        assert abs(getattr(theory, name) - found) < 3 * error + 0.05 * found, name


def test_spread_of_nearly_equal_eigenvalues_is_that_of_isotropic_inputs():
    problem = FINITE.replace(eta=0.0)
    isotropic, found = (gs.predict_spread(problem.replace(inputs=x)) for x in (None, gs.Inputs([1 + 1e-7, 1 - 1e-7])))
    assert found.test_error == pytest.approx(isotropic.test_error, rel=1e-5)
    assert found.train_error == pytest.approx(isotropic.train_error, rel=1e-5)


def test_the_square_loss_of_convex_losses_is_the_prediction():
    problem = FINITE.replace(inputs=TWO_LEVELS)
    assert convex_prediction(problem).test_error == pytest.approx(gs.predict(problem).test_error, rel=1e-8)


@pytest.mark.parametrize(
    "inputs", [gs.Inputs([1 + 1e-7, 1 - 1e-7]), pytest.param(TWO_LEVELS, marks=pytest.mark.statistical)]
)
def test_a_convex_loss_after_a_hardly_damped_step_has_the_error_of_the_plain_one(inputs):
    problem, labels = FINITE.replace(inputs=inputs), {"loss": "logistic", "channel": "sign"}
    plain, damped = convex_prediction(problem, **labels), convex_prediction(problem.replace(damping=1e7), **labels)
    assert damped.test_error == pytest.approx(plain.test_error, rel=1e-5)


#: In the limit there is nothing that one of three sets of equations has and another leaves out.
THREE_ARE_ONE = pytest.mark.parametrize(
    ("activation", "readout"),
    [("tanh", "constant"), ("tanh", "gaussian"), ("tanh", {-1: 0.3, 0.5: 0.3, 2: 0.4}), ("softplus", "constant")],
)


def assert_one(activation, readout, **changes):
    """Check that a problem with and without changes has the same errors in the limit."""
    problem = LIMIT.replace(inputs=None, eta=gs.Step(1.0, 0.5), readout=readout, activation=activation)
    one, other = gs.predict(problem), gs.predict(problem.replace(**changes))
    assert other.test_error == pytest.approx(one.test_error, rel=1e-7)
    assert other.train_error == pytest.approx(one.train_error, rel=1e-7)


@THREE_ARE_ONE
def test_in_the_limit_isotropic_and_correlated_steps_are_one(activation, readout):
    assert_one(activation, readout, inputs=gs.Inputs([1 + 1e-7, 1 - 1e-7]))


@THREE_ARE_ONE
def test_in_the_limit_isotropic_and_hardly_damped_steps_are_one(activation, readout):
    assert_one(activation, readout, damping=1e9)


@pytest.mark.parametrize("n_step", [0.4, 3.0, math.inf])
@pytest.mark.parametrize(
    ("activation", "damping"),
    [("tanh", math.inf), ("tanh", 1.0), ("tanh", 0.05), ("relu", math.inf), ("relu", 1.0), ("softplus", 0.05)],
)
def test_directions_in_which_inputs_do_not_vary_are_not_there(activation, damping, n_step):
    # Without them there are fewer directions, whose eigenvalues have the mean one: the unit of inputs, of the damping
    # and of the step changes.
    left, known = 0.6, {"activation": activation}
    with_them = {"inputs": gs.Inputs([3, 1, 0], [0.2, 0.4, 0.4], [0.5, 0.5, 0]), "damping": damping}
    factor = 1 / left if math.isinf(damping) else (1 + damping) / (1 + left * damping)
    without = {"inputs": gs.Inputs([3, 1], [1, 2], [0.5, 0.5]), "damping": left * damping}

    def predicted(unit: float, eta: float, **changes: object) -> gs.Prediction:
        sizes = {
            name: value / unit for name, value in (("width", 1.2), ("n", 1.8), ("n_step", n_step), ("ridge", 0.01))
        }
        sizes = {name: value if math.isinf(value) else f"{value}d" for name, value in sizes.items()}
        return gs.predict(LIMIT.replace(**{**known, **sizes, **changes, "eta": gs.Step(eta, 0.5)}))

    one, other = predicted(1.0, 1.0, **with_them), predicted(left, factor, **without)
    for name in ("test_error", "train_error", "alignment"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-7), name


@pytest.mark.parametrize("least", [0.0, 1e-12, 1e-8, 1e-6])
@pytest.mark.parametrize("damping", [1e-6, 1.0])
def test_damped_steps_on_the_whole_population(least, damping):
    problem = FINITE.replace(inputs=gs.Inputs([3, 1, least], [0.2, 0.4, 0.4], [0.5, 0.5, 0]), damping=damping)
    errors = [gs.predict(problem.replace(n_step=n_step)).test_error for n_step in (10**8, 10**10, math.inf)]
    # What is missing falls like one over the samples.
    assert errors[0] == pytest.approx(errors[2], rel=1e-4)
    assert errors[1] == pytest.approx(errors[2], rel=1e-6)


def test_without_a_step_there_is_nothing_to_damp():
    problem = FINITE.replace(eta=0.0, inputs=TWO_LEVELS)
    assert gs.predict(problem.replace(damping=1.0)).test_error == gs.predict(problem).test_error


LAWS = (None, "power_law(1, d=240)", "power_law(0.5, 2, d=240)")
DAMPED = ((960, 0.1), (960, 1.0), (160, 0.1))


@pytest.mark.parametrize(
    ("inputs", "n_step", "damping"),
    [
        # Each law and each step once; the other pairs are statistical.
        pytest.param(inputs, *step, marks=() if LAWS.index(inputs) == DAMPED.index(step) else pytest.mark.statistical)
        for inputs in LAWS
        for step in DAMPED
    ],
)
def test_direction_of_a_damped_step(inputs, n_step, damping):
    problem = FINITE.replace(d=240, width=100, n=50, n_step=n_step, damping=damping, inputs=inputs, noise=0.3)
    theory, network = damped_direction(problem), gs.simulate(problem, seeds=12)
    strength = theory.spike * math.sqrt(problem.width)
    for name, value in (("alignment", theory.alignment), ("spike_strength", strength)):
        mean, error = float(network.mean(name)), float(network.standard_error(name))
        assert abs(value - mean) < 3 * error + 0.01 * mean, name


@pytest.mark.parametrize("inputs", [None, TWO_LEVELS])
def test_a_large_damping_is_none(inputs):
    # At a size at which the second degree adds nothing to the spike of a prediction.
    problem = FINITE.replace(inputs=inputs, d=10**8, width=10**8, n_step=2 * 10**8, n=10**8)
    plain, damped = gs.predict(problem), damped_direction(problem.replace(damping=1e9))
    assert damped.alignment == pytest.approx(plain.alignment, rel=1e-6)
    assert damped.spike * math.sqrt(problem.width) == pytest.approx(plain.spike_strength, rel=1e-6)


def test_a_small_damping_of_many_samples_finds_the_teacher():
    # Ridge regression of the whole population is without error.
    problem = FINITE.replace(n_step=10**9, damping=1e-9, inputs="power_law(1, d=120)", width=10**9)
    assert damped_direction(problem).alignment == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("changes", [{}, {"damping": 1.0, "output_scale": "1/sqrt(N)", "activation": "relu"}])
def test_direction_is_refused(changes):
    with pytest.raises(gs.InvalidInput):
        damped_direction(FINITE.replace(**changes))


def test_direction_with_an_own_output_of_order_one_is_that_of_the_prediction():
    problem = FINITE.replace(inputs=TWO_LEVELS, damping=0.5, output_scale="1/sqrt(N)")
    found, prediction = damped_direction(problem), gs.predict(problem)
    assert found.alignment == pytest.approx(prediction.alignment, rel=1e-12)
    # The own output turns the gradient away from the teacher.
    assert found.alignment < 0.95 * damped_direction(problem.replace(output_scale="1/N")).alignment


@pytest.mark.parametrize("inputs", [None, TWO_LEVELS])
@pytest.mark.parametrize("changes", [{}, {"readout": "gaussian"}])
def test_errors_after_a_hardly_damped_step_are_those_of_the_plain_one(inputs, changes):
    problem = FINITE.replace(inputs=inputs, **changes)
    plain, damped = gs.predict(problem), gs.predict(problem.replace(damping=1e7))
    # Terms of order 1/N of the own output are for isotropic inputs and the plain step alone.
    tolerance = 3e-3 if inputs is None else 1e-5
    for name in ("test_error", "train_error", "alignment", "bulk_variance"):
        assert getattr(damped, name) == pytest.approx(getattr(plain, name), rel=tolerance), name


@pytest.mark.parametrize(
    ("over", "damping"),
    [
        ("ridge", math.inf),
        ("ridge", 0.3),
        pytest.param("eta", math.inf, marks=pytest.mark.statistical),
        pytest.param("split", 0.3, marks=pytest.mark.statistical),
        pytest.param("eta", 0.3, marks=pytest.mark.statistical),
        pytest.param("split", math.inf, marks=pytest.mark.statistical),
    ],
)
def test_tuned(over, damping):
    problem = FINITE.replace(inputs=TWO_LEVELS, damping=damping)
    found = gs.tune(problem, over=over)
    assert found.prediction.test_error <= found.before.test_error
    assert found.prediction.test_error == gs.predict(found.problem).test_error
