"""Rows of a table as inputs: scaling, samples that share no row, errors on the rest or on the whole table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradstep as gs

RNG = np.random.default_rng(0)
TABLE = RNG.exponential(size=(400, 12)) @ RNG.standard_normal((12, 12)) + 3.0
SETTINGS: dict[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 12,
    "width": 20,
    "n_step": 100,
    "n": 120,
    "eta": gs.Step(1.5, exponent=0.5),
    "ridge": 0.4,
    "noise": 0.3,
}


def small(**changes: Any) -> gs.Problem:
    return gs.Problem(**(SETTINGS | changes))


def sorted_rows(*tables: Any) -> Any:
    return np.sort(np.concatenate(tables)[:, 0])


def test_every_row_is_in_one_sample_in_the_eigenvectors_of_the_covariance() -> None:
    network = gs.Network(small(noise=0.0), 3, rows=TABLE)
    parts = [network.step_data()[0], network.fit_data()[0], network.test_data(180)[0]]
    x = np.concatenate(parts)
    assert len(x) == len(np.unique(x[:, 0])) == 400
    assert_allclose(x.mean(axis=0), 0, atol=1e-12)
    centred = TABLE - TABLE.mean(axis=0)
    c = np.linalg.eigvalsh(centred.T @ centred / 400)[::-1]
    assert_allclose(x.T @ x / 400, np.diag(c * 12 / c.sum()), atol=1e-12)
    # Distances of the table, in one scale.
    assert_allclose(np.sort((x**2).sum(axis=1)), np.sort((centred**2).sum(axis=1)) * 12 / c.sum())
    u = network.law.teacher_input(network.labels.mean, x)
    assert_allclose([u.mean(), (u**2).mean()], [0, 1], atol=1e-12)
    assert_allclose(network.fit_data()[1], np.sin(u[100:220]), atol=1e-12)


def test_the_error_is_that_on_the_rows_left() -> None:
    network = gs.Network(small(), 3, rows=TABLE)
    fit = network.fit()
    x, targets = network.test_data(180)
    misses = (network.features(x) @ fit.readouts[:, 0] - targets) ** 2
    found = network.risk(fit.readouts)
    assert_allclose(found.test_error, misses.mean())
    assert_allclose(found.error_bound, misses.std() / math.sqrt(180))
    measured = gs.simulate(small(), [3], rows=TABLE)
    assert_allclose(measured["test_error"], misses.mean())


def test_with_replacement_the_error_is_that_on_the_whole_table() -> None:
    network = gs.Network(small(), 3, rows=TABLE, replacement=True)
    readouts = network.fit().readouts
    x, targets = network.test_data(400)
    assert_allclose(network.risk(readouts).test_error, ((network.features(x) @ readouts[:, 0] - targets) ** 2).mean())
    assert network.risk(readouts).error_bound == 0
    assert len(np.unique(network.fit_data()[0][:, 0])) < 120
    assert np.abs(network.train(2).after - network.train(2, fresh=False).after).max() > 1e-3


def test_gaussian_rows_have_the_errors_of_gaussian_inputs() -> None:
    law = gs.Inputs([4, 1], share=[0.25, 0.75], teacher=[0.3, 0.7])
    problem = small(inputs=law, damping=0.5)
    c = np.repeat([4.0, 1.0], [3, 9])
    table = np.random.default_rng(5).standard_normal((10_000, 12)) * np.sqrt(c)
    table, exact = gs.simulate(problem, 24, rows=table), gs.simulate(problem, 24)
    for name in ("test_error", "train_error", "alignment", "bulk_variance"):
        deviation = math.hypot(table.standard_error(name), exact.standard_error(name))
        assert abs(table.mean(name) - exact.mean(name)) < 4 * deviation, name


def test_the_teacher_lies_where_the_inputs_say() -> None:
    network = gs.Network(small(inputs=gs.Inputs([4, 1], share=[0.25, 0.75], teacher=[0.3, 0.7])), 0, rows=TABLE)
    axes = network.law.directions(network.labels.mean, 12)
    assert_allclose([(axes[0, :3] ** 2).sum(), (axes[0, 3:] ** 2).sum()], [0.3, 0.7])
    several = gs.Network(small(teacher="x1*x2"), 0, rows=TABLE)
    axes = several.law.directions(several.labels.mean, 12)
    assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)


def test_directions_in_which_a_table_does_not_vary_stay_zero() -> None:
    flat = np.concatenate([TABLE[:, :6], np.ones((400, 6))], axis=1)
    network = gs.Network(small(damping=0.1), 0, rows=flat)
    assert np.abs(network.test_data(10)[0][:, 6:]).max() == 0
    assert np.isfinite(network.test_error())


@pytest.mark.parametrize(
    ("rows", "changes", "options"),
    [
        (TABLE[:200], {}, {}),
        (TABLE[:, :11], {}, {}),
        (TABLE[0], {}, {}),
        (TABLE * math.nan, {}, {}),
        (np.ones((400, 12)), {}, {}),
        ([["a"]], {}, {}),
        (np.concatenate([TABLE[:, :1], np.ones((400, 11))], axis=1), {"teacher": "x1*x2"}, {}),
        (TABLE, {}, {"test_samples": 181}),
    ],
)
def test_tables_that_do_not_fit_are_refused(rows: Any, changes: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(gs.InvalidInput, match=r"^rows"):
        gs.simulate(small(**changes), 1, rows=rows, **options)


def test_what_a_table_has_no_more_rows_for_is_refused() -> None:
    network = gs.Network(small(), 0, rows=TABLE)
    with pytest.raises(gs.InvalidInput, match=r"^fresh"):
        network.train(2)
    assert np.isfinite(network.train(2, fresh=False).test_error())
    with pytest.raises(gs.InvalidInput, match=r"^rows"):
        network.learning_curve()


def test_a_comparison_lays_gaussian_theory_over_rows() -> None:
    found = gs.compare(small(), 3, rows=TABLE)
    assert_allclose(found["test_error"].mean, gs.simulate(small(), 3, rows=TABLE).mean("test_error"))
    assert_allclose(found["test_error"].theory, gs.predict(small()).test_error)
