"""An initial output of order one on correlated inputs and before damped steps: identities, limits, real networks."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.spectra.weight_spectrum import weight_spectrum

INPUTS = gs.Inputs([3, 0.5], [0.2, 0.8], [0.5, 0.5])
NOT_ODD = "tanh(x)+0.3*(x**2-1)"
BASE = gs.Problem(
    activation="tanh", teacher="x+0.3*(x**2-1)", d=150, width=180, n_step=300, n=300, eta=gs.Step(0.3, 0.5), ridge=4.0,
    noise=0.2, readout="constant", inputs=INPUTS, output_scale="1/sqrt(N)",
)  # fmt: skip
#: So large that terms of finite size are rounding.
LARGE = BASE.replace(**{name: 10**6 * getattr(BASE, name) for name in ("d", "width", "n_step", "n")}, ridge=4e6)


def alike(one: gs.Prediction, other: gs.Prediction, rel: float) -> None:
    for name in ("test_error", "train_error", "alignment"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=rel), name


# Below q = 1, near it, and far above.
@pytest.mark.parametrize("eta", [1.5, gs.Step(0.3, 0.5), gs.Step(1.5, 0.5)])
@pytest.mark.parametrize(
    "changes",
    [{}, {"readout": {0.5: 0.5, 2.0: 0.5}}, {"activation": NOT_ODD}, {"activation": "sin(2*x)", "n_step": 75 * 10**6}],
)
def test_nearly_equal_eigenvalues_have_the_errors_of_isotropic_inputs(eta, changes):
    problem = LARGE.replace(eta=eta, **changes)
    found = gs.predict(problem.replace(inputs=gs.Inputs([1 + 1e-9, 1 - 1e-9])))
    alike(found, gs.predict(problem.replace(inputs=None)), 1e-6)


@pytest.mark.parametrize(
    ("inputs", "eta", "changes"),
    [
        pytest.param(inputs, eta, change, marks=pytest.mark.statistical if (i + j + k) % 2 else ())
        for i, inputs in enumerate([None, INPUTS])
        for j, eta in enumerate([1.5, gs.Step(0.3, 0.5), gs.Step(1.5, 0.5)])
        for k, change in enumerate([{}, {"readout": {0.5: 0.5, 2.0: 0.5}}, {"activation": NOT_ODD}])
    ],
)
def test_a_hardly_damped_step_has_the_errors_of_the_plain_one(inputs, eta, changes):
    plain = LARGE.replace(inputs=inputs, eta=eta, **changes)
    alike(gs.predict(plain.replace(damping=1e7)), gs.predict(plain), 1e-6)


@pytest.mark.parametrize(("inputs", "damping"), [(INPUTS, math.inf), (INPUTS, 0.5), (None, 0.5)])
class TestIdentities:
    """Of problems that are the same but for signs and units."""

    def of(self, inputs, damping, **changes):
        return BASE.replace(inputs=inputs, damping=damping, readout={-0.5: 0.5, 2: 0.5}, activation=NOT_ODD, **changes)

    def test_without_a_step_the_scale_makes_no_difference(self, inputs, damping):
        problem = self.of(inputs, damping, eta=0.0)
        one, other = gs.predict(problem), gs.predict(problem.replace(output_scale="1/N"))
        assert one.test_error == pytest.approx(other.test_error, rel=1e-9)
        assert one.train_error == pytest.approx(other.train_error, rel=1e-9)

    def test_the_opposite_features_and_readouts_are_the_same_network(self, inputs, damping):
        opposite = {"activation": "-tanh(x)-0.3*(x**2-1)", "readout": {0.5: 0.5, -2: 0.5}}
        # They round differently. At a damping of .5 this changes the choice of directions, by 1e-7; otherwise 4e-12.
        alike(gs.predict(self.of(inputs, damping)), gs.predict(self.of(inputs, damping).replace(**opposite)), 1e-6)

    def test_the_opposite_rows_are_the_same_network(self, inputs, damping):
        opposite = self.of(inputs, damping).replace(activation="-tanh(x)+0.3*(x**2-1)")
        # Rounding decides which poles a rule has, and nodes then differ by 1e-3: this moves errors by 2e-6, and the
        # change of a damping by 1e-9 moves them by 7e-6.
        alike(gs.predict(self.of(inputs, damping)), gs.predict(opposite), 1e-5)

    def test_labels_and_readouts_of_three_times_the_size(self, inputs, damping):
        once = gs.predict(self.of(inputs, damping))
        larger = {
            "teacher": "3*x+0.9*(x**2-1)",
            "noise": 0.6,
            "readout": {-1.5: 0.5, 6: 0.5},
            "eta": gs.Step(0.3 / 9, 0.5),
        }
        found = gs.predict(self.of(inputs, damping).replace(**larger))
        assert found.test_error == pytest.approx(9 * once.test_error, rel=1e-5)
        assert found.train_error == pytest.approx(9 * once.train_error, rel=1e-5)


@pytest.mark.parametrize("damping", [math.inf, 0.5])
def test_a_population_gradient_is_that_of_very_many_samples(damping):
    problem = BASE.replace(damping=damping, n_step=math.inf)
    alike(gs.predict(problem), gs.predict(problem.replace(n_step=10**9)), 1e-6)


@pytest.mark.parametrize("damping", [math.inf, 0.5])
def test_the_limit_is_that_of_large_sizes(damping):
    limit = BASE.replace(
        d=math.inf, width="1.2d", n_step="2d", n="2d", ridge="0.0266666666666667d", damping=damping, eta=1.5
    )
    alike(gs.predict(limit), gs.predict(LARGE.replace(damping=damping, eta=1.5)), 1e-6)


def test_the_square_loss_of_convex_losses_is_the_prediction():
    for damping in (math.inf, 0.5):
        problem = BASE.replace(damping=damping)
        assert convex_prediction(problem).test_error == pytest.approx(gs.predict(problem).test_error, rel=1e-8)


@pytest.mark.statistical
@pytest.mark.parametrize("damping", [pytest.param(math.inf, marks=pytest.mark.statistical), 0.5])
def test_tuned(damping):
    found = gs.tune(BASE.replace(damping=damping), over="eta")
    assert found.prediction.test_error <= found.before.test_error
    assert found.prediction.test_error == gs.predict(found.problem).test_error


def test_the_mean_over_the_constant_of_a_gaussian_readout_is_symmetric():
    # The constant has a symmetric law, and an even problem does not know its sign.
    problem = BASE.replace(activation="relu", readout="gaussian", teacher="sin(x)")
    errors = [gs.predict(problem.replace(teacher=teacher)).test_error for teacher in ("sin(x)", "sin(-x)")]
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)
    assert (
        gs.predict(problem).test_error
        > 1.005 * gs.predict(problem.replace(activation="relu(x)-0.3989422804")).test_error
    )


SETTINGS = [
    {"activation": NOT_ODD, "readout": {0.5: 0.5, 2: 0.5}},
    {"readout": {0.5: 0.5, 2: 0.5}, "damping": 1.0, "inputs": "power_law(0.25)"},
    {"activation": "erf", "readout": {0.5: 0.5, 2: 0.5}},
    {"activation": "relu", "readout": {-1: 0.5, 1: 0.5}, "inputs": "power_law(0.25)", "eta": gs.Step(1.0, 0.5)},
    {"activation": "relu", "readout": "gaussian", "damping": 0.1},
    {"readout": "gaussian", "damping": 1.0, "eta": gs.Step(0.1, 0.5)},
    {"damping": 0.1, "inputs": None, "eta": gs.Step(1.0, 0.5)},
    {"activation": "tanh(x)+0.3*x**2", "readout": "gaussian", "eta": gs.Step(1.0, 0.5)},
    {"inputs": "power_law(0.5)", "eta": gs.Step(0.12, 0.5)},
]


@pytest.mark.parametrize(
    "changes", [SETTINGS[0], *(pytest.param(s, marks=pytest.mark.statistical) for s in SETTINGS[1:])]
)
def test_errors_are_those_of_networks(changes):
    problem = BASE.replace(d=300, width=360, n_step=600, n=600, ridge=8.0, **changes)
    theory, found = gs.predict(problem), gs.simulate(problem, seeds=16)
    for name, allowed in (("test_error", 0.015), ("train_error", 0.025)):
        mean, error = float(found.mean(name)), float(found.standard_error(name))
        assert abs(getattr(theory, name) - mean) < 3 * error + allowed * mean, name
    # With an output of order N^-1/2, or without the turn that it gives the step, errors are others.
    small = gs.predict(problem.replace(output_scale="1/N"))
    assert abs(small.test_error / theory.test_error - 1) > 0.01


@pytest.mark.parametrize("inputs", [None, pytest.param("power_law(0.5)", marks=pytest.mark.statistical)])
def test_spread_after_a_damped_step_is_near_that_of_a_large_damping(inputs):
    # The law of the samples of a draw has to keep both projections of a residual uncorrelated and of mean square one.
    problem = BASE.replace(inputs=inputs)
    plain, damped = gs.predict_spread(problem), gs.predict_spread(problem.replace(damping=1e4))
    for name in ("test_error", "train_error"):
        assert getattr(damped, name) == pytest.approx(getattr(plain, name), rel=0.01), name


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes", [{"damping": 1.0, "inputs": "power_law(0.5)"}, {"eta": gs.Step(1.0, 0.5)}, {"readout": "gaussian"}]
)
def test_spread_is_that_of_networks(changes):
    problem, seeds = BASE.replace(**changes), 400
    theory, found = gs.predict_spread(problem), gs.simulate(problem, seeds=seeds)
    for name in ("test_error", "train_error"):
        values = found.values[name].ravel()
        spread = values.std(ddof=1)
        error = spread * math.sqrt((np.mean((values - values.mean()) ** 4) / spread**4 - 1) / (4 * seeds))
        # The leading order is off by several per cent at this size, for isotropic inputs too.
        assert abs(getattr(theory, name) - spread) < 3 * error + 0.08 * spread, name


@pytest.mark.parametrize(
    ("changes", "seeds"),
    [
        # Once 21 and 32 % below the networks, and 17 % for the third.
        ({}, 40),
        ({"damping": 5.0, "eta": 20.0, "inputs": gs.Inputs([8.0, 12 / 19], [0.05, 0.95], [0.3, 0.7])}, 40),
        pytest.param(
            {"eta": gs.Step(0.2, 0.5), "inputs": gs.Inputs([8.0, 12 / 19], [0.05, 0.95], [0.3, 0.7])},
            64,
            marks=pytest.mark.statistical,
        ),
        pytest.param(
            {"eta": gs.Step(0.5, 0.5), "output_scale": "1/N", "readout": "constant"}, 64, marks=pytest.mark.statistical
        ),
    ],
)
def test_rows_that_the_quadratic_output_stretches_unequally_fit_as_those_of_networks(changes, seeds):
    problem = BASE.replace(
        activation=NOT_ODD, teacher="sin(x)", d=200, width=240, n_step=800, n=400, ridge=5.0, eta=4.73,
        inputs=gs.Inputs.power_law(0.75, d=200),
    ).replace(**changes)  # fmt: skip
    theory, drawn = gs.predict(problem), []
    for seed in range(seeds):
        network = gs.Network(problem, seed, dtype="float32")
        fit = network.fit()
        drawn.append([*network.sampled_risk(fit.readouts, 4 * problem.d)[0], *np.atleast_1d(fit.train_error)])
    for name, values in zip(("test_error", "train_error"), np.array(drawn).T, strict=True):
        mean, error = values.mean(), values.std(ddof=1) / math.sqrt(seeds)
        # The largest eigenvalue is a twelfth of the dimension, or its square three tenths.
        assert abs(getattr(theory, name) - mean) < 3 * error + 0.06 * mean, name


OF_LAYER = ("singular_value", "gradient_overlap", "teacher_overlap", "readout_overlap")


@pytest.mark.parametrize(
    "changes", [{}, pytest.param({"activation": NOT_ODD, "readout": {0.5: 0.5, 2: 0.5}}, marks=pytest.mark.statistical)]
)
def test_the_first_layer_of_isotropic_inputs_and_of_a_hardly_damped_step(changes):
    problem = BASE.replace(inputs=None, eta=gs.Step(1.0, 0.5), **changes)
    plain = weight_spectrum(problem).outlier
    flat = weight_spectrum(problem.replace(inputs=gs.Inputs([1 + 1e-9, 1 - 1e-9]))).outlier
    damped = weight_spectrum(problem.replace(damping=1e8)).outlier
    for name in OF_LAYER:
        assert getattr(flat, name) == pytest.approx(getattr(plain, name), rel=1e-8), name
        assert getattr(damped, name) == pytest.approx(getattr(plain, name), rel=1e-6), name


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        {"damping": 0.3, "activation": NOT_ODD},
        pytest.param({}, marks=pytest.mark.statistical),
        pytest.param({"activation": "relu", "readout": {-1: 0.5, 1: 0.5}}, marks=pytest.mark.statistical),
    ],
)
def test_the_largest_outlier_of_the_first_layer_is_that_of_networks(changes):
    problem, seeds = BASE.replace(d=300, width=360, n_step=600, eta=gs.Step(1.0, 0.5), **changes), 16
    theory = weight_spectrum(problem).outlier
    layers = [gs.Network(problem, seed).weight_spectrum(leading=1).leading[0] for seed in range(seeds)]
    for name, allowed in zip(OF_LAYER, (0.01, 0.002, 0.01, 0.003), strict=True):
        values = np.array([getattr(layer, name) for layer in layers])
        error = values.std(ddof=1) / math.sqrt(seeds)
        assert abs(values.mean() - getattr(theory, name)) < 3 * error + allowed * values.mean(), name
    small = weight_spectrum(problem.replace(output_scale="1/N")).outlier
    assert abs(small.teacher_overlap / theory.teacher_overlap - 1) > 0.1
