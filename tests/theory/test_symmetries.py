"""Exact symmetries of the network and identities of the fit, over random problems: no simulation is needed.

Two problems that describe the same network, or the same one in other units, must have the same predictions. The
problems are drawn with a fixed seed from all that a problem can be: activations by the parity and smoothness of their
parts, teachers with and without a mean, a linear, a quadratic and a cubic part, every law of the readout, either output
scale.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.theory.convex.convex_loss import ConvexPrediction, convex_prediction
from gradstep.theory.equivalent.tables import sizes_of, stepped_networks
from gradstep.theory.neurons.groups import resolved_share
from gradstep.theory.spectra.feature_spectrum import feature_spectrum
from gradstep.theory.spectra.weight_spectrum import weight_spectrum
from gradstep.theory.step.own_output import common_share, output_constants
from gradstep.theory.step.statistics import step_statistics
from gradstep.theory.together import result_of

Array = np.ndarray

#: Functions of a variable that stands in braces, so that its sign can be turned. None has a mean but the last three.
ACTIVATIONS = (
    "tanh({x})",
    "hermite1({x}) + 0.4*hermite2({x}) + 0.2*hermite3({x})",
    "cos({x}) - exp(-0.5)",
    "abs({x}) - 0.5*{x} - sqrt(2/pi)",
    "sin({x} + 0.6) - exp(-0.5)*sin(0.6)",
    "tanh({x}) + 0.3*{x}**2",
    "log(1 + exp({x}))",
    "sign({x}) - 0.4",
)
WITHOUT_MEAN = ACTIVATIONS[:5]
TEACHERS = (
    "{x} - 1",
    "sin({x})",
    "{x} + 0.6*hermite2({x})",
    "0.5 + 0.8*{x} + 0.4*hermite2({x}) - 0.3*hermite3({x})",
    "max({x}, 0)",
    "hermite2({x})",
)
READOUTS: tuple[Any, ...] = ("gaussian", "constant", {-1.0: 0.5, 1.0: 0.5}, {0.5: 0.5, 2.0: 0.5}, {-1.0: 0.3, 2.0: 0.7})
WITH_MEAN = READOUTS[1:2] + READOUTS[3:]
STEPS = (gs.Step(0.0), gs.Step(2.0), gs.Step(1.0, 0.25), gs.Step(0.7, 0.5), gs.Step(1.2, 0.5))

Random = dict[str, Any]


def _random_problems(count: int) -> list[Random]:
    rng = np.random.default_rng(2023)
    found = []
    for number in range(count):
        # Each in turn, so that a few problems have them all; steps and readouts in every pair.
        activation, teacher = ACTIVATIONS[number % len(ACTIVATIONS)], TEACHERS[number % len(TEACHERS)]
        readout, step = READOUTS[number % 5], STEPS[(number + number // 5 + 3) % 5]
        d = int(rng.integers(60, 400))
        scale = "1/sqrt(N)" if number % 3 == 1 else "1/N"
        if scale == "1/sqrt(N)" and readout in WITH_MEAN and activation not in WITHOUT_MEAN:
            activation = WITHOUT_MEAN[number % len(WITHOUT_MEAN)]
        found.append(
            {
                "activation": f"{rng.choice([-1, 1])}*({activation})",
                "teacher": f"{rng.uniform(0.4, 1.0):.2f}*({teacher})",
                "d": d,
                **{name: int(d * rng.uniform(*limits)) for name, limits in _RATIOS.items()},
                "eta": step,
                "ridge": float(d * 10 ** rng.uniform(-2, 0)),
                "noise": float(rng.choice([0.0, 0.3])),
                "readout": readout,
                "initial_weights": str(rng.choice(["gaussian", "sphere"])),
                "output_scale": scale,
            }
        )
    return found


_RATIOS = {"width": (0.5, 3.0), "n_step": (0.5, 4.0), "n": (0.5, 3.0)}
#: Found by a wider search: where a step begins, where E sigma' passes zero, cubes along a large spike.
FOUND: list[Random] = [
    {"activation": WITHOUT_MEAN[1], "teacher": TEACHERS[0], "eta": gs.Step(0.0), "readout": "constant"},
    {"activation": WITHOUT_MEAN[2], "teacher": TEACHERS[0], "eta": gs.Step(0.5, 0.5), "readout": READOUTS[4]},
    {
        "activation": "hermite1({x}) + 0.3*hermite3({x})",
        "teacher": f"0.6*({TEACHERS[3]})",
        "eta": gs.Step(1.06, 0.5),
        "readout": "gaussian",
        "width": 402,
        "n_step": 252,
        "n": 174,
        "ridge": 51.0,
        "output_scale": "1/N",
    },
]
_SHARED = {"d": 200, "width": 200, "n_step": 400, "n": 400, "ridge": 10.0, "noise": 0.2, "initial_weights": "sphere"}
RANDOM = [*_random_problems(16), *({**_SHARED, "output_scale": "1/sqrt(N)", **random} for random in FOUND)]
NAMES = [f"{number}" for number in range(len(RANDOM))]
#: Cells of directions follow the nodes of a rule, which rounding moves: after a strong step these problems feel it.
FELT = {"5": 4e-4, "18": 4e-4}
#: Every activation once.
FEW = NAMES[:8]


def problem_of(random: Random, sign: str = "", **changes: Any) -> gs.Problem:
    """Return a problem; with the sign "-" of the inputs turned."""
    functions = {name: random[name].format(x=f"({sign}x)") for name in ("activation", "teacher")}
    return gs.Problem(**{**random, **functions, **changes})


def readout_values(random: Random, factor: float = 1.0) -> dict[float, float]:
    """Return the readout values with their weights, each value times a factor."""
    law = {1.0: 1.0} if random["readout"] == "constant" else random["readout"]
    return {factor * value: weight for value, weight in law.items()}


# --- problems that describe the same network --------------------------------------------------------------------------
# Each returns the other problem, the factor of its squared errors and that of its features.

Units = tuple[gs.Problem, float, float]


def turned_activation(random: Random) -> Units:
    """sigma -> -sigma with a -> -a: the same output, the same step."""
    readout = "gaussian" if random["readout"] == "gaussian" else readout_values(random, -1)
    return problem_of({**random, "activation": f"-({random['activation']})"}, readout=readout), 1.0, 1.0


def turned_labels(random: Random) -> Units:
    """f* -> -f* with a -> -a: a times the residual is the same."""
    readout = "gaussian" if random["readout"] == "gaussian" else readout_values(random, -1)
    return problem_of({**random, "teacher": f"-({random['teacher']})"}, readout=readout), 1.0, 1.0


def turned_inputs(random: Random) -> Units:
    """x -> -x in the data: sigma(-x) and f*(-x) on the same data."""
    return problem_of(random, "-"), 1.0, 1.0


def units_of_labels(random: Random) -> Units:
    """Labels, noise and features in other units: the step is c^2 times as large, and so is the penalty's worth."""
    c, step = 1.7, random["eta"]
    changed = {
        **random,
        "activation": f"{c}*({random['activation']})",
        "teacher": f"{c}*({random['teacher']})",
        "noise": c * random["noise"],
        "eta": gs.Step(step.coefficient / c**2, step.exponent),
        "ridge": c**2 * random["ridge"],
    }
    return problem_of(changed), c**2, c


def units_of_features(random: Random) -> Units:
    """sigma -> c sigma with a -> a / c: only the features of the fit are larger."""
    c = 0.4
    changed = {**random, "activation": f"{c}*({random['activation']})", "ridge": c**2 * random["ridge"]}
    return problem_of(changed, readout=readout_values(random, 1 / c)), 1.0, c


def split_readout_value(random: Random) -> Units:
    """One readout value becomes two that differ by 2e-9 of it and have its mean, in another order."""
    law, shift = readout_values(random), 1e-9
    value, weight = law.popitem()
    law = {value * (1 + shift): weight / 2, **law, value * (1 - shift): weight / 2}
    return problem_of(random, readout=law), 1.0, 1.0


def step_in_numbers(random: Random) -> Units:
    """c N^alpha as a number."""
    return problem_of(random, eta=random["eta"].size(random["width"])), 1.0, 1.0


SYMMETRIES: dict[str, Callable[[Random], Units]] = {
    f.__name__: f
    for f in (
        turned_activation,
        turned_labels,
        turned_inputs,
        units_of_labels,
        units_of_features,
        split_readout_value,
        step_in_numbers,
    )
}


#: Symmetries of readouts that have values.
OF_VALUES = ("units_of_features", "split_readout_value")
#: An even teacher, whose features are resolved along two directions: it takes as long as eight others.
SLOW = "5"


def pairs(names: list[str], symmetries: list[str]) -> pytest.MarkDecorator:
    """Parametrise by the problems, and by the symmetries that apply to them.

    Of every symmetry each third problem is fast, and of every problem each third symmetry, or each second where there
    are two problems; the slow problem has one.
    """
    every = min(len(names), 3)
    found = [
        pytest.param(
            RANDOM[int(name)],
            symmetry,
            id=f"{symmetry}-{name}",
            marks=pytest.mark.statistical if (place + int(name)) % every or (name == SLOW and place != 1) else (),
        )
        for place, symmetry in enumerate(symmetries)
        for name in names
        if symmetry not in OF_VALUES or RANDOM[int(name)]["readout"] != "gaussian"
    ]
    return pytest.mark.parametrize(("random", "symmetry"), found)


def classes_of(problem: gs.Problem) -> ConvexPrediction:
    return convex_prediction(problem, loss="logistic", channel="sign")


#: What is compared with several others is computed once.
predicted, spread_of, features_of, weights_of, classes_known = map(
    cache, (gs.predict, gs.predict_spread, feature_spectrum, weight_spectrum, classes_of)
)


def errors(prediction: Any) -> Array:
    return np.array([prediction.test_error, prediction.train_error, prediction.train_loss])


@pairs(NAMES, list(SYMMETRIES))
def test_predictions(random: Random, symmetry: str) -> None:
    changed, square, _ = SYMMETRIES[symmetry](random)
    expected, found = predicted(problem_of(random)), gs.predict(changed)
    tolerance = FELT.get(f"{RANDOM.index(random)}", 1e-6)
    assert_allclose(errors(found), square * errors(expected), rtol=tolerance)
    assert_allclose(found.degrees_of_freedom, expected.degrees_of_freedom, rtol=tolerance)
    assert_allclose(found.bulk_variance, expected.bulk_variance, rtol=1e-6)
    assert_allclose(found.spike_strength, expected.spike_strength, rtol=1e-6, atol=1e-6)
    assert_allclose(abs(found.alignment), abs(expected.alignment), rtol=1e-6)


@pairs(["4", "7"], list(SYMMETRIES))
def test_deviations_over_draws(random: Random, symmetry: str) -> None:
    changed, square, _ = SYMMETRIES[symmetry](random)
    expected, found = spread_of(problem_of(random)), gs.predict_spread(changed)
    # Differences of losses stand for derivatives there.
    for quantity in ("test_error", "train_error", "squared_error"):
        assert_allclose(getattr(found, quantity), square * getattr(expected, quantity), rtol=1e-4)


@pairs(["4", "7"], ["turned_activation", "turned_inputs", "units_of_labels"])
def test_spectra_of_features(random: Random, symmetry: str) -> None:
    changed, _, features = SYMMETRIES[symmetry](random)
    expected, found = features_of(problem_of(random)), feature_spectrum(changed)
    assert_allclose(found.bulk.edge, features**2 * expected.bulk.edge, rtol=1e-5)
    assert len(found.outliers) == len(expected.outliers)
    for one, two in zip(found.outliers, expected.outliers, strict=True):
        assert_allclose(one.eigenvalue, features**2 * two.eigenvalue, rtol=1e-5)
        assert_allclose(one.teacher_overlap, two.teacher_overlap, atol=1e-5)


@pairs(["4", "7"], list(SYMMETRIES))
def test_spectra_of_weights(random: Random, symmetry: str) -> None:
    expected, found = weights_of(problem_of(random)), weight_spectrum(SYMMETRIES[symmetry](random)[0])
    assert_allclose(found.after.edge, expected.after.edge, rtol=1e-6)
    assert (found.outlier is None) == (expected.outlier is None)
    if found.outlier is not None and expected.outlier is not None:
        assert_allclose(found.outlier.singular_value, expected.outlier.singular_value, rtol=1e-6)
        assert_allclose(found.outlier.teacher_overlap, expected.outlier.teacher_overlap, rtol=1e-6, atol=1e-9)


@pairs(["4", "7"], ["turned_activation", "turned_inputs", "units_of_features", "split_readout_value"])
def test_fits_of_classes(random: Random, symmetry: str) -> None:
    changed, *_ = SYMMETRIES[symmetry](random)
    expected, found = classes_known(problem_of(random)), classes_of(changed)
    for quantity in ("test_error", "train_error", "train_loss", "classification_error"):
        assert_allclose(getattr(found, quantity), getattr(expected, quantity), rtol=1e-6)


# --- identities of the fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEW)
@pytest.mark.usefixtures("one_direction")
def test_the_square_loss_is_the_prediction(name: str) -> None:
    problem = problem_of(RANDOM[int(name)])
    assert_allclose(errors(convex_prediction(problem)), errors(gs.predict(problem)), rtol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.statistical if name == SLOW else ()) for name in NAMES]
)
def test_the_penalty(name: str) -> None:
    """The loss is a minimum: concave in the ridge, its derivative is |b|^2 / n, and doing nothing is no better."""
    problem = problem_of(RANDOM[int(name)])
    hair = 1e-3
    factors = np.array([1e-3, 0.1, 1 - hair, 1.0, 1 + hair, 10.0, 1e3, 1e14])
    sizes = problem.real_sizes()
    path = gs.predict_many([problem.replace(ridge=sizes.ridge * f) for f in factors])
    test, train, loss = np.array([errors(p) for p in path]).T
    teacher = moments(problem.teacher)
    power = teacher.second_moment + problem.noise**2
    assert np.all(np.diff(train) > 0)
    assert np.all(np.diff(loss) > 0)
    slopes = np.diff(loss) / np.diff(factors)
    assert np.all(np.diff(slopes) <= 1e-9 * slopes[:-1])
    assert_allclose((loss[4] - loss[2]) / (2 * hair), loss[3] - train[3], rtol=10 * hair**2)
    assert np.all(loss <= power * (1 + 1e-9))
    assert np.all(train <= loss)
    assert np.all(test > 0)
    # Nothing is learned in the end.
    assert_allclose([test[-1], train[-1], loss[-1]], [teacher.second_moment, power, power], rtol=1e-6)
    most = min(sizes.n, sizes.width)
    freedom = np.array([p.degrees_of_freedom for p in path])
    assert np.all(np.diff(freedom) < 0)
    assert freedom[0] < most


CHANGES: dict[str, Callable[[Random, float], Random]] = {
    "ridge": lambda r, h: {"ridge": r["ridge"] * (1 + h)},
    "noise": lambda r, h: {"noise": r["noise"] + h},
    "step": lambda r, h: {"eta": gs.Step(r["eta"].coefficient + h, r["eta"].exponent)},
    "exponent": lambda r, h: {"eta": gs.Step(r["eta"].coefficient, r["eta"].exponent + h)},
    "activation": lambda r, h: {"activation": f"(1+{h})*({r['activation']}) + {h}*{{x}} + {h}*hermite3({{x}})"},
    "parity": lambda r, h: {"activation": f"{r['activation']} + {h}*hermite2({{x}}) - {h}*hermite4({{x}})"},
    "teacher": lambda r, h: {"teacher": f"{r['teacher']} + {h}*({{x}} + hermite2({{x}}) + 1)"},
    "readout values": lambda r, h: {"readout": readout_values(r, 1 + h)},
}


@pytest.mark.parametrize(
    ("parameter", "name"),
    [
        pytest.param(
            parameter,
            name,
            # Each parameter is moved at every third problem, and at the slow one only the activation.
            marks=pytest.mark.statistical
            if (place + int(name)) % 3 or (name == SLOW and parameter != "activation")
            else (),
        )
        for place, parameter in enumerate(CHANGES)
        for name in NAMES
        if parameter != "readout values" or RANDOM[int(name)]["readout"] != "gaussian"
    ],
)
def test_no_jumps(name: str, parameter: str) -> None:
    """A billionth of change in any real parameter changes no error by a millionth, or by what rounding is felt."""
    random = RANDOM[int(name)]
    changed = {**random, **CHANGES[parameter](random, 1e-9)}
    expected = errors(predicted(problem_of(random)))
    assert_allclose(errors(gs.predict(problem_of(changed))), expected, rtol=FELT.get(name, 1e-6))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.statistical if name == SLOW else ()) for name in NAMES]
)
def test_the_discretisation(name: str) -> None:
    """Twice the nodes change a prediction by less than the tenth of a per cent that the docs allow."""
    problem = problem_of(RANDOM[int(name)])
    assert_allclose(errors(gs.predict(problem, refine=2)), errors(predicted(problem)), rtol=1e-3)


@pytest.mark.parametrize("damping", [0.5, math.inf])
@pytest.mark.parametrize("activation", ["tanh", "erf", "relu"])
def test_no_jump_where_some_neurons_stay_on_the_sphere(activation: str, damping: float) -> None:
    """A readout of zero leaves its neuron as it was: all of these have the norm one, which tells nothing of them."""
    sizes = {"d": 100, "width": 156, "n_step": 58, "n": 294}
    still = gs.Problem(
        activation=activation, teacher="x+1", **sizes, eta=gs.Step(1.0, 0.5), ridge=9.0, noise=0.1,
        readout={0.0: 0.4, 1.0: 0.3, -1.0: 0.3}, initial_weights="sphere", damping=damping,
    )  # fmt: skip
    moved = still.replace(readout={1e-6: 0.4, 1.0: 0.3, -1.0: 0.3})
    one, other = gs.predict_many([still, moved])
    # Cells of directions follow the nodes of a rule.
    assert_allclose(errors(one), errors(other), rtol=2e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_without_a_step_only_the_features_matter(activation: str) -> None:
    """Neither the readout at initialisation, nor the samples of a step that is none, nor the scale of the output.

    Terms of order 1/d that are left out depend on the direction that features are resolved along.
    """
    d = 10**7
    sizes = {"d": d, "width": 2 * d, "n": 3 * d, "n_step": d, "ridge": 0.1 * d}
    still = {**RANDOM[0], **sizes, "activation": activation, "teacher": TEACHERS[3], "eta": gs.Step(0.0)}
    expected = errors(gs.predict(problem_of(still)))
    for changes in (
        {"n_step": d // 3},
        *({"readout": readout} for readout in READOUTS),
        {"output_scale": "1/sqrt(N)", "readout": READOUTS[2]},
        {"eta": gs.Step(0.0, 0.5)},
        {"n_step": math.inf},
    ):
        assert_allclose(errors(gs.predict(problem_of(still, **changes))), expected, rtol=1e-6, err_msg=str(changes))


@pytest.mark.parametrize(
    "activation",
    # An odd one and one that is neither odd nor even; the latter has all parts of the others.
    [pytest.param(each, marks=pytest.mark.statistical if place % 4 else ()) for place, each in enumerate(ACTIVATIONS)],
)
def test_at_small_dimensions_too(activation: str) -> None:
    """What only a step has is not felt without one, to the last digits, and a step of nothing is none."""
    law = {-1.0: 0.5, 1.0: 0.5}
    still = {**RANDOM[0], "d": 30, "width": 70, "n": 90, "n_step": 40, "ridge": 3.0, "noise": 0.2, "readout": law}
    still |= {"activation": activation, "teacher": "max({x}, 0) + 0.3*hermite2({x})", "eta": gs.Step(0.0)}
    for readout, others in (("gaussian", ()), (law, ({-3.0: 0.5, 3.0: 0.5}, {0.5: 0.2, 2.0: 0.8}, "constant"))):
        expected = errors(gs.predict(problem_of(still, readout=readout)))
        for changes in (
            *({"readout": other} for other in others),
            *({"n_step": n_step} for n_step in (1, 10**6, math.inf)),
            {"output_scale": "1/sqrt(N)", "n_step": 7},
            # The network's own output makes the errors linear in the step.
            {"eta": gs.Step(1e-9)},
            {"eta": gs.Step(1e-9), "output_scale": "1/sqrt(N)"},
        ):
            found = errors(gs.predict(problem_of(still, **{"readout": readout, **changes})))
            assert_allclose(found, expected, rtol=1e-9, err_msg=f"{readout}, {changes}")


@pytest.mark.parametrize(
    ("teacher", "output_scale"),
    [
        ("max({x}, 0)", "1/N"),
        pytest.param("max({x}, 0)", "1/sqrt(N)", marks=pytest.mark.statistical),
        ("{x}**2 - 1", "1/N"),
        ("{x}**2 - 1", "1/sqrt(N)"),
        ("-0.1*{x} + sin(3*{x})", "1/N"),
        pytest.param("-0.1*{x} + sin(3*{x})", "1/sqrt(N)", marks=pytest.mark.statistical),
    ],
)
def test_where_a_step_begins_to_be_felt(teacher: str, output_scale: str) -> None:
    """Nothing jumps where the step begins to count nor where it counts wholly, nor on the way."""
    small = {"d": 20, "width": 40, "n": 50, "n_step": 60, "ridge": 2.0, "output_scale": output_scale}
    random = {**RANDOM[0], **small, "activation": "log(1 + exp({x}))", "teacher": teacher, "readout": "gaussian"}

    def problem(eta):
        return problem_of(random, eta=float(eta))

    def influence(eta):
        # Each constant of the initial output has edges of its own: those of the middle one, which counts most.
        constants = output_constants(problem(eta))
        return step_statistics(problem(eta), 20.0, 40.0, 60.0, constants[len(constants) // 2][1]).influence

    steps = [*_edges(influence, 1e-4, 3.0), (3e-3, 3e-3 + 1e-9)]
    for below, above in steps:
        one, other = (errors(found) for found in gs.predict_many([problem(below), problem(above)]))
        assert_allclose(other, one, rtol=1e-6, err_msg=f"{below}")


def _edges(share, low, high):
    """Return step sizes on either side of where `share`, which rises from zero to one, begins and where it ends."""
    sizes = np.geomspace(low, high, 60)
    for inside in (lambda value: value > 0, lambda value: value == 1):
        first = bisect_left(sizes, True, key=lambda size, inside=inside: inside(share(size)))
        below, above = sizes[first - 1], sizes[first]
        while (middle := (below + above) / 2) not in (below, above):
            below, above = (below, middle) if inside(share(middle)) else (middle, above)
        yield below, above


def _readout_share(problem):
    sizes = sizes_of(problem)
    step = step_statistics(problem, sizes.d, sizes.width, sizes.n_step)
    return resolved_share(step.resolved, problem.readout, sizes.d, "network")


def _common_share(problem):
    sizes = sizes_of(problem)
    return common_share(problem, step_statistics(problem, sizes.d, sizes.width, sizes.n_step), sizes.width)


@pytest.mark.parametrize(
    ("share", "changes", "low", "high"),
    [
        pytest.param(_readout_share, {"activation": "relu", "n_step": 100}, 5, 200, marks=pytest.mark.statistical),
        pytest.param(
            _readout_share,
            {"activation": "tanh(x)+0.3*x**2", "teacher": "x-1", "n_step": 60},
            1,
            20,
            marks=pytest.mark.statistical,
        ),
        (_common_share, {"activation": "1.5*sign(x)-x", "output_scale": "1/sqrt(N)", "n_step": 600}, 1, 20),
    ],
)
def test_no_jump_where_one_description_gives_way_to_another(share, changes, low, high):
    def problem(size):
        options = {"activation": "relu", "teacher": "sin", "n_step": 100, **changes}
        return gs.Problem(d=200, width=300, n=500, eta=size, ridge=1.0, noise=0.1, **options)

    edges = list(_edges(lambda size: share(problem(size)), low, high))
    for below, above in edges:
        # Beside rounding, which also moves errors away from an edge: cells of directions follow the nodes of a rule.
        for solved in (gs.predict, gs.predict_spread):
            one, other = (solved(problem(size)).test_error for size in (below, above))
            assert one == pytest.approx(other, rel=1e-5)
    # Between the edges the two descriptions differ: without the mean over both there would be a jump.
    middle = problem(float(np.sqrt(edges[0][1] * edges[1][0])))
    (_, first), (_, second) = result_of(stepped_networks(middle))
    assert first.tables.groups.weight.shape != second.tables.groups.weight.shape or first.step != second.step


def test_no_jump_of_a_spectrum():
    def problem(size):
        return gs.Problem(
            activation="sign(x)-0.3*x", teacher="sin", readout="constant", output_scale="1/sqrt(N)", d=200, width=600,
            n_step=4000, n=1500, eta=float(size), ridge=0.1, noise=0.1,
        )  # fmt: skip

    middle = brentq(lambda size: _common_share(problem(size)) - 0.5, 6.0, 8.0, xtol=1e-12)
    alone = [network.step.alignment for _, network in result_of(stepped_networks(problem(middle), spectrum=True))]
    assert abs(alone[0] - alone[1]) > 0.4
    below, above = (feature_spectrum(problem(middle * (1 + change))) for change in (-1e-9, 1e-9))
    assert below.alignment == pytest.approx(above.alignment, rel=1e-6)
    assert below.alignment == pytest.approx(np.mean(alone), rel=1e-6)
    for read in (
        lambda found: found.bulk.edge,
        lambda found: found.bulk.bands[0].lower,
        lambda found: found.bulk.cumulative(np.linspace(0.1, 2.5, 9)),
        lambda found: [outlier.eigenvalue for outlier in found.outliers],
        lambda found: found.outliers[0].sample_overlap[1],
        lambda found: found.outliers[0].neuron_overlap[0],
    ):
        assert_allclose(read(below), read(above), rtol=1e-6)


def test_no_jump_of_a_fit_whose_penalty_needs_finer_groups():
    def problem(size):
        return gs.Problem(
            activation="1.5*sign(x)-x", teacher="sin", readout={-1.0: 0.5, 1.0: 0.5}, output_scale="1/sqrt(N)",
            d=200, width=300, n_step=600, n=500, eta=size, ridge=1.0, noise=0.1,
        )  # fmt: skip

    below, above = 1.0, 20.0
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (below, middle) if _common_share(problem(middle)) > 0.5 else (middle, above)
    sizes = below * (1 - 1e-9), above * (1 + 1e-9)
    one, other = (convex_prediction(problem(size), penalty="l1") for size in sizes)
    assert one.test_error == pytest.approx(other.test_error, rel=1e-7)
    assert one.active_fraction == pytest.approx(other.active_fraction, rel=1e-7)
