"""Where deviations come from: two parts that add up, each with its own standard error."""

import json
from itertools import pairwise

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.sources import Sources

PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=20, width=16, n_step=40, n=70, eta=gs.Step(1.0, 0.5), ridge=0.5, noise=0.1
)


def test_parts_of_made_up_networks():
    """Layers scatter by much, fits on them by little: only the pairing sees what the fit contributes."""
    random = np.random.default_rng(0)
    layers = 1.0 + 0.1 * random.standard_normal((2, 400))
    fits = layers + 0.02 + 0.05 * random.standard_normal((2, 400))
    found = Sources.of([0.9, 1.0], layers, fits)
    np.testing.assert_allclose(found.rows.difference + found.fit.difference, fits.mean(axis=1) - [0.9, 1.0])
    np.testing.assert_allclose(found.fit.standard_error, (fits - layers).std(axis=1, ddof=1) / 20)
    assert found.rows.z[0] > 10 > 3.5 > abs(found.rows.z[1])
    assert (found.fit.z > 5).all()
    columns = found.columns()
    np.testing.assert_allclose(columns["fit_difference"], found.fit.difference / [0.9, 1.0])
    np.testing.assert_allclose(columns["rows_error"], found.rows.standard_error / [0.9, 1.0])


def test_networks_without_a_value_are_in_neither_part():
    found = Sources.of(1.0, [1.0, 2.0, np.nan, 3.0], [1.5, np.nan, 2.0, 3.5])
    assert (found.rows.mean, found.fit.theory, found.fit.mean) == (2.0, 2.0, 2.5)
    assert found.fit.seeds == 2


def test_they_are_those_of_both_kinds_of_measurement():
    problems, progress = [PROBLEM, PROBLEM.replace(n=90)], []
    found = gs.compare(problems, 2, ridge=[0.1, 1.0], sources=True, progress=lambda *at: progress.append(at))
    assert tuple(found.sources) == ("test_error", "train_error")
    drawn, expected = (gs.simulate(problems[1], 2, ridge=[0.1, 1.0], fit=fit) for fit in ("drawn", "expected"))
    for name, sources in found.sources.items():
        whole = found[name]
        np.testing.assert_allclose(sources.rows.difference + sources.fit.difference, whole.difference, atol=1e-12)
        off = np.mean(drawn[name] - expected[name], axis=0)
        np.testing.assert_allclose(sources.fit.difference[1], off, rtol=1e-6, atol=1e-9)
    assert progress[-1][0] == progress[-1][1] == 2 * len(problems) * 2
    assert all(before <= after for (before, _), (after, _) in pairwise(progress))
    table = found.source_table()
    assert [row[:3] for row in table.rows[:2]] == [["70", "0.1", "test error"], ["70", "0.1", "train error"]]
    assert len(found.to_frame()["rows_difference"].dropna()) == 8
    case = json.loads(json.dumps(found.to_dict()))["comparisons"][3]
    assert case["sources"]["test_error"]["fit_z"] == pytest.approx(found.sources["test_error"].fit.z[1, 1])


def test_a_single_problem_says_them_and_others_are_not_asked():
    found = gs.compare(PROBLEM, 3, sources=True)
    assert "by the law of the rows" in str(found)
    without = gs.compare(PROBLEM, 3)
    assert (without.sources, without.source_table().rows) == ({}, [])
    assert "law of the rows" not in str(without)
    assert "sources" not in without.to_dict()["comparisons"][0]
    with pytest.raises(InvalidInput, match="sources: got True; allowed: False with fit='expected'"):
        gs.compare(PROBLEM, 3, fit="expected", sources=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": np.ones((90, 20)), "sources": True}, "sources: got True; allowed: False with rows of a table"),
        ({"fit": "foo", "sources": True}, "fit: got 'foo'"),
    ],
)
def test_what_has_no_expected_errors_is_refused_before_anything_is_simulated(options, message, monkeypatch):
    monkeypatch.setattr("gradstep.comparison.simulate_many", lambda *_, **__: pytest.fail("simulated"))
    with pytest.raises(InvalidInput, match=message):
        gs.compare(PROBLEM, 3, **options)


@pytest.mark.statistical
def test_the_fit_is_no_source_where_its_errors_are_expectations():
    """Of 32 neurons theory may be off; the errors expected of fits are those of the fits all the same."""
    problem = PROBLEM.replace(d=40, width=32, n_step=80, n=100)
    found = gs.compare(problem, 48, sources=True).sources
    assert abs(found["test_error"].fit.z) < 3.5
    assert abs(found["train_error"].fit.z) < 3.5
