"""Outliers of the first layer after two steps: limits, symmetries, and real networks."""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gradstep as gs
from gradstep.overlay import Overlay
from gradstep.theory.spectra.second_step import second_step
from gradstep.theory.spectra.weight_spectrum import weight_spectrum

VALUES = {-1.5: 1 / 6, -1.0: 1 / 6, -0.5: 1 / 6, 0.5: 1 / 6, 1.0: 1 / 6, 1.5: 1 / 6}


def problem(width=600, eta=20.0, **changes):
    known = {
        "activation": "relu",
        "teacher": "sin",
        "d": round(width / 1.2),
        "width": width,
        "n_step": 2 * width,
        "n": width,
        "eta": eta,
        "ridge": 1.0,
        "noise": 0.3,
        "readout": VALUES,
    }
    return gs.Problem(**known | changes)


def after_two_steps(asked, eta, seed):
    """Return a network whose second step has new samples."""
    first = gs.Network(asked, seed)
    return dataclasses.replace(first, problem=asked.replace(eta=eta), seed=seed + 10**6, before=first.after)


def singular_values(asked, eta, seed, count):
    """Return the largest singular values after two steps, and their vectors' squared cosines with the teacher."""
    _, values, vectors = np.linalg.svd(after_two_steps(asked, eta, seed).after, full_matrices=False)
    return values[:count], vectors[:count, 0] ** 2


@pytest.mark.parametrize(
    "activation",
    [
        pytest.param("tanh", marks=pytest.mark.statistical),
        pytest.param("relu", marks=pytest.mark.statistical),
        "sin(x) + cos(x) - exp(-0.5)",
    ],
)
def test_without_a_second_step_it_is_the_spectrum_of_the_first(activation):
    # The network's own output reduces the weights along the readout, which this theory leaves out. That is a finite
    # change of a matrix whose outlier grows with the width: its effect falls like 1 / width.
    apart = []
    for width in (600, 9600):
        asked = problem(width, gs.Step(0.8, exponent=0.5), activation=activation)
        before, after = weight_spectrum(asked, rows="isotropic"), second_step(asked, 0.0)
        assert after.edge == pytest.approx(np.sqrt(before.after.edge), rel=2e-3)
        (outlier,) = after.outliers
        apart.append(outlier.singular_value / before.outlier.singular_value - 1)
        assert outlier.teacher_overlap == pytest.approx(before.outlier.teacher_overlap, abs=5 / width)
    assert abs(apart[0]) < 0.005
    assert apart[1] == pytest.approx(apart[0] / 16, rel=0.1)


def test_one_readout_value_has_one_direction_in_closed_form():
    # Linear activation and teacher: the residual after the first step is linear, and all averages are by hand.
    asked = problem(readout="constant", activation="x", teacher="x", noise=0.0, eta=30.0)
    e, phi = 30.0 / np.sqrt(600), 500 / 1200
    g = np.array([1.0, np.sqrt(phi)])  # teacher's part, and that of the samples' noise
    found = second_step(asked)
    spike = e * np.linalg.norm(g)
    gamma = g[0] / np.linalg.norm(g)
    rho = np.sqrt(1 - gamma**2)
    along, other = gamma - spike, rho  # of the residual y - f after the first step
    teacher = gamma * (spike + e * along) + rho * e * other
    rest = rho * (spike + e * along) - gamma * e * other
    noise = e * np.sqrt(phi * (along**2 + other**2))
    expected = teacher / np.sqrt(teacher**2 + rest**2 + noise**2)
    # The initial output of order N^-1/2 is noise in the first residual.
    assert found.alignment == pytest.approx(expected, rel=3e-3)
    assert np.linalg.norm(found.mean[0]) == pytest.approx(np.sqrt(teacher**2 + rest**2 + noise**2), rel=3e-3)
    assert found.variance == pytest.approx([1.0], abs=1e-12)


@settings(max_examples=8, deadline=None)
@given(
    first=st.floats(1.0, 40.0),
    second=st.floats(0.5, 40.0),
    activation=st.sampled_from(["tanh", "relu", "sin(x) + cos(x) - exp(-0.5)"]),
    teacher=st.sampled_from(["x", "sin", "x + 0.5*(x**2 - 1)"]),
)
@example(first=35.0, second=1.0, activation="tanh", teacher="sin")
def test_the_sign_of_activation_and_readout_changes_nothing(first, second, activation, teacher):
    asked = problem(eta=first, activation=activation, teacher=teacher)
    mirrored = asked.replace(activation=f"-({activation})", readout={-value: share for value, share in VALUES.items()})
    found, again = second_step(asked, second), second_step(mirrored, second)
    assert again.edge == pytest.approx(found.edge, rel=1e-9)
    assert len(again.outliers) == len(found.outliers)
    for one, other in zip(found.outliers, again.outliers, strict=True):
        assert other.singular_value == pytest.approx(one.singular_value, rel=1e-8)
        assert one.singular_value > found.edge
        assert 0 <= one.teacher_overlap <= 1
        assert other.teacher_overlap == pytest.approx(one.teacher_overlap, abs=1e-8)


def test_values_that_are_split_change_nothing():
    found = second_step(problem(), 30.0)
    split = problem(
        readout={-1.5: 1 / 6, -1.0: 1 / 6, -0.5: 1 / 6, 0.5: 1 / 12, 0.5 + 1e-9: 1 / 12, 1.0: 1 / 6, 1.5: 1 / 6}
    )
    again = second_step(split, 30.0)
    assert [o.singular_value for o in again.outliers] == pytest.approx([o.singular_value for o in found.outliers])


def test_the_outliers_of_wide_networks_grow_by_their_powers():
    # The k-th grows like N^(a2 - (k - 1) (1/2 - a1)), Moniri and Hassani 2026.
    first, second, widths = gs.Step(1.0, exponent=0.4), gs.Step(10.0, exponent=0.45), (10**12, 10**13)
    asked = [problem(width, first, activation="sin(x) + cos(x) - exp(-0.5)") for width in widths]
    found = [[outlier.singular_value for outlier in second_step(p, second).outliers[:3]] for p in asked]
    assert np.log10(np.divide(found[1], found[0])) == pytest.approx([0.45, 0.35, 0.25], abs=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        ({"activation": "tanh", "readout": "constant"}, 15.0, 35.0),
        pytest.param({"activation": "relu"}, 25.0, 50.0, marks=pytest.mark.statistical),
    ],
)
def test_networks(changes, first, second):
    asked = problem(600, first, **changes)
    theory = second_step(asked, second).outliers
    values, cosines = zip(*(singular_values(asked, second, seed, len(theory)) for seed in range(6)), strict=True)
    for k, outlier in enumerate(theory):
        assert abs(Overlay.of(outlier.singular_value, [v[k] for v in values]).z) < 3.5
    assert abs(Overlay.of(theory[0].teacher_overlap, [c[0] for c in cosines]).z) < 3.5


def test_rows_of_networks_scatter_by_their_variance():
    asked, rows = problem(600, 25.0, activation="relu"), {value: [] for value in VALUES}
    theory = second_step(asked, 50.0)
    for seed in range(6):
        network = after_two_steps(asked, 50.0, seed)
        for value, found in rows.items():
            of_value = network.after[np.isclose(network.readout, value)]
            found.append(np.square(of_value - of_value.mean(axis=0)).sum() / (len(of_value) - 1))
    for value, variance in zip(theory.readout, theory.variance, strict=True):
        assert abs(Overlay.of(variance, rows[value]).z) < 3.5
        assert variance > 1 + 0.04 * value**2  # mostly what the second step adds


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"readout": "gaussian"}, "readout"), ({"output_scale": "1/sqrt(N)", "activation": "tanh"}, "output_scale")],
)
def test_what_it_has_no_theory_for_is_refused(changes, field):
    with pytest.raises(gs.InvalidInput, match=field):
        second_step(problem(**changes))
