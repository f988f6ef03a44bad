"""Measured spectra against their definitions and against plain linear algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.readout import readout_polynomials
from gradstep.simulation.instance import fit_sample
from gradstep.simulation.spectra import spike_direction

PROBLEM = gs.Problem(
    activation="tanh",
    teacher="sin",
    d=30,
    width=50,
    n_step=60,
    n=40,
    eta=gs.Step(2.0, exponent=0.5),
    ridge=1.0,
    noise=0.2,
)


@pytest.mark.parametrize("n", [40, 90])
def test_features_agree_with_a_singular_value_decomposition(n: int) -> None:
    problem = PROBLEM.replace(n=n)
    layer = gs.Network(problem, 3)
    measured = layer.feature_spectrum(leading=3)
    inputs = np.concatenate([x for x, _ in fit_sample(3, n, 30).blocks()])
    left, singular, right = np.linalg.svd(np.tanh(inputs @ layer.after.T) / math.sqrt(n), full_matrices=False)
    assert len(measured.eigenvalues) == 50
    np.testing.assert_allclose(measured.eigenvalues[::-1][: len(singular)], singular**2, atol=1e-10)
    assert (measured.eigenvalues[: 50 - len(singular)] == 0).all()
    direction = spike_direction(problem, layer.before, layer.readout, layer.gradient.linear)
    kappa = inputs @ direction / np.linalg.norm(direction)
    for rank, found in enumerate(measured.leading):
        assert found.eigenvalue == pytest.approx(singular[rank] ** 2)
        for overlap, x, vector in (
            (found.sample_overlap, kappa, left[:, rank]),
            (found.teacher_overlap, inputs[:, 0], left[:, rank]),
            (found.neuron_overlap, layer.readout, right[rank]),
        ):
            for degree, values in enumerate((np.ones_like(x), x, x**2 - 1, x**3 - 3 * x)):
                expected = (values @ vector) ** 2 / (values @ values)
                assert overlap[degree] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("n", [12, 32])
def test_leading_vectors_end_at_the_rank(n: int) -> None:
    # Four inputs through linear neurons leave four eigenvalues; the rest is rounding, some of it negative.
    problem = PROBLEM.replace(activation="linear", d=4, width=16, n=n)
    measured = gs.Network(problem, 0).feature_spectrum(leading=16)
    assert len(measured.leading) == 4
    assert [found.eigenvalue for found in measured.leading] == pytest.approx(measured.eigenvalues[:-5:-1])
    np.testing.assert_allclose(measured.eigenvalues[:12], 0, atol=1e-12 * measured.eigenvalues[-1])
    assert all(found.sample_overlap.max() <= 1 + 1e-12 for found in measured.leading)
    # Neurons that say nothing at these few inputs have no direction at all.
    silent = PROBLEM.replace(activation="relu(x - 6)", d=4, width=16, n=n, eta=0.01)
    assert gs.Network(silent, 0).feature_spectrum().leading == ()


def test_spike_direction_is_free_of_the_own_output() -> None:
    # The part of the gradient along the sum of the rows is the network's own output; the labels do not know of it.
    for scale, power, eta in (("1/N", 1.0, 30.0), ("1/sqrt(N)", 0.5, 0.9), ("1/sqrt(N)", 0.5, 30.0)):
        problem = gs.Problem(activation="linear", teacher="linear", d=40, width=60, n_step=20_000, n=40, eta=eta,
                             ridge=1.0, readout="constant", output_scale=scale)  # fmt: skip
        layer = gs.Network(problem, 1)
        rows = layer.readout @ layer.before
        labels = layer.gradient.linear + rows / 60**power  # X^T X / n is the identity at so many samples
        assert abs(labels[1:]).max() < 0.05
        found = spike_direction(problem, layer.before, layer.readout, layer.gradient.linear)
        if scale == "1/N" or eta < 1:
            np.testing.assert_allclose(found, labels)
        else:
            # A step that takes back more of an output of order one than there was: this part all rows have in common.
            np.testing.assert_allclose(found, layer.readout @ layer.after / (layer.readout @ layer.readout))


def test_weights_agree_with_their_gram_matrices() -> None:
    layer = gs.Network(PROBLEM, 4)
    measured = layer.weight_spectrum(leading=2)
    for values, matrix in ((measured.before, layer.before), (measured.after, layer.after)):
        np.testing.assert_allclose(values**2, np.linalg.eigvalsh(matrix.T @ matrix), atol=1e-10)
    eigenvalues, vectors = np.linalg.eigh(layer.after.T @ layer.after)
    direction = layer.gradient.linear / np.linalg.norm(layer.gradient.linear)
    for rank, found in enumerate(measured.leading):
        vector = vectors[:, -1 - rank]
        assert found.singular_value**2 == pytest.approx(eigenvalues[-1 - rank])
        assert found.teacher_overlap == pytest.approx(vector[0] ** 2)
        assert found.gradient_overlap == pytest.approx((vector @ direction) ** 2)
        over_neurons = layer.after @ vector / found.singular_value
        expected = (over_neurons @ layer.readout) ** 2 / (layer.readout @ layer.readout)
        assert found.readout_overlap == pytest.approx(expected)


def test_readout_polynomials_are_orthonormal() -> None:
    law = PROBLEM.replace(readout={-1.0: 0.3, 0.5: 0.5, 2.0: 0.2}).readout
    readout_values = np.asarray(law.values)
    table = readout_polynomials(law, readout_values, 4)
    np.testing.assert_allclose((table * np.asarray(law.weights)) @ table.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(table[0], 1)
    assert (np.diff(table[1]) > 0).all()
    gaussian = readout_polynomials(PROBLEM.readout, np.array([0.0, 2.0]), 2)
    np.testing.assert_allclose(gaussian, [[1, 1], [0, 2], [-1 / math.sqrt(2), 3 / math.sqrt(2)]])


@pytest.mark.parametrize("measure", [gs.Network.feature_spectrum, gs.Network.weight_spectrum])
def test_numbers_that_are_none_are_refused(measure) -> None:
    with pytest.raises(InvalidInput) as raised:
        measure(gs.Network(PROBLEM, 0), leading=-1)
    assert raised.value.field == "leading"
