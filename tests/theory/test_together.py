"""Computations side by side: each gets its own values, by as few calls as there are shapes."""

import numpy as np
import pytest

from gradstep.theory.together import asked, result_of, together


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
