"""Computations side by side: each gets its own values, by as few calls as there are shapes."""

from importlib import import_module

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.theory.neurons import rational_rule
from gradstep.theory.together import asked, result_of, together

# The package has a function of this name.
predict_module = import_module("gradstep.theory.predict")


def test_calls_of_one_function_with_arrays_of_one_shape_are_one_call():
    calls = []

    def sums(rows):
        calls.append(rows.shape)
        return rows.sum(axis=1)

    def products(rows, factor):
        calls.append(rows.shape)
        return [row * by for row, by in zip(rows, factor, strict=True)]

    def computation(row, *, first):
        # Some are a call behind the others.
        if first:
            row = yield from asked(products, row, np.array(2.0), work=1)
        return (yield from asked(sums, row, work=1))

    rows = [np.arange(3.0), np.arange(3.0) + 10, np.arange(2.0), np.arange(3.0) + 20]
    found = dict(together(computation(row, first=place == 1) for place, row in enumerate(rows)))
    assert found == {0: 3.0, 1: 66.0, 2: 1.0, 3: 63.0}
    assert sorted(calls) == [(1, 2), (1, 3), (1, 3), (2, 3)]
    assert result_of(computation(rows[1], first=True)) == 66.0


def test_what_asks_for_nothing_has_its_result_at_once_and_errors_are_raised():
    def computation(number):
        if number:
            yield from asked(np.reciprocal, np.array(number), work=1)
        return number

    def fails(_):
        raise ValueError("no")

    def failing():
        yield from asked(fails, np.ones(2), work=1)

    assert [*together([])] == []
    assert [*together(map(computation, [1.0, 0.0, 2.0]))] == [(1, 0.0), (0, 1.0), (2, 2.0)]
    with pytest.raises(ValueError, match="no"):
        result_of(failing())


def test_computations_with_large_arrays_are_started_when_others_have_ended():
    started, ended, most = [], [], []

    def computation(number, work):
        started.append(number)
        most.append(len(started) - len(ended))
        yield from asked(np.negative, np.ones(1), work=work)
        # What it has may be kept while it needs little.
        yield from asked(np.reciprocal, np.ones(1), work=1)
        ended.append(number)

    for work, allowed in ((2**22, 1), (2**20, 2), (1, 9)):
        most.clear()
        assert len([*together(computation(number, work) for number in range(9))]) == 9
        assert max(most) == allowed


BASE = gs.Problem(
    activation="relu", teacher="tanh", d=100, width=120, n=200, n_step=150, noise=0.3, ridge=0.1, eta=gs.Step(1.0, 0.5),
    readout={0.5: 0.5, 2.0: 0.5},
)  # fmt: skip
KINDS = [
    {},
    {"readout": "constant"},
    {"readout": "gaussian"},
    {"activation": "tanh", "readout": "gaussian"},
    {"activation": "erf", "readout": "constant", "output_scale": "1/sqrt(N)"},
    {"inputs": gs.Inputs([2.0, 0.5], [0.4, 0.6])},
    {"inputs": gs.Inputs([2.0, 0.5], [0.4, 0.6]), "damping": 0.5},
]


def test_tables_made_together_are_those_made_alone():
    # The samples of the step, its size and the number of directions differ: each law has its own numbers in a call.
    points = [{}, {"n_step": 200}, {"eta": gs.Step(1.5, 0.5)}, {"d": 130}]
    pairs = [(kind, point) for place, kind in enumerate(KINDS) for point in (points[0], points[1 + place % 3])]
    problems = [BASE.replace(**kind, **point) for kind, point in sorted(pairs, key=lambda pair: len(pair[1]))]
    alone = []
    for problem in problems:
        predict_module._prepared.cache_clear()
        alone.append(gs.predict(problem))
    predict_module._prepared.cache_clear()
    found = predict_module.predict_many(problems)
    assert predict_module._prepared.cache_info().hits == 0
    for one, other in zip(found, alone, strict=True):
        for name in ("test_error", "train_error", "bulk_variance", "degrees_of_freedom"):
            # Cells of directions follow the nodes of a rule, which are right to its tolerance.
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-6)


def test_a_failure_in_a_call_of_several_leaves_the_others_as_they_are(monkeypatch):
    problems = [BASE.replace(eta=gs.Step(size, 0.5)) for size in (0.5, 1.0, 1.5)]
    alone = [gs.predict(problem).test_error for problem in problems]
    true, first, several = rational_rule.sparse_rules, [], []

    def noting(points, *others):
        first.append(points[0])
        return true(points, *others)

    monkeypatch.setattr(rational_rule, "sparse_rules", noting)
    predict_module._prepared.cache_clear()
    gs.predict(problems[1])

    def failing(points, *others):
        several.append(len(points))
        if any(np.allclose(each, first[0], rtol=1e-12) for each in points if each.shape == first[0].shape):
            raise NotConverged("a rule", 1.0, 0.1, "Try another one.")
        return true(points, *others)

    monkeypatch.setattr(rational_rule, "sparse_rules", failing)
    predict_module._prepared.cache_clear()
    one, failed, other = predict_module.predict_each(problems)
    assert max(several) == 3
    assert isinstance(failed, NotConverged)
    assert [one.test_error, other.test_error] == pytest.approx([alone[0], alone[2]], rel=1e-9)
    assert predict_module._prepared.cache_info().kept == 2
