"""Widths that cannot be held are refused at once."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.estimators.parameters import check_memory


@pytest.mark.parametrize("estimator", [gs.OneStepFeatures, gs.OneStepRegressor, gs.OneStepClassifier])
def test_too_many_neurons(estimator):
    X, y = np.random.default_rng(0).standard_normal((442, 500)), np.arange(442) % 2
    with pytest.raises(InvalidInput, match=r"width: got 1000000000; .*fit in memory .* need .* GiB of") as caught:
        estimator(width=10**9).fit(X, y)
    assert "\n" not in str(caught.value)


def test_what_is_needed(monkeypatch):
    """On a machine of one GiB: 2^27 doubles."""
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 2**20, "SC_PAGE_SIZE": 2**10}.get)
    check_memory(6000, 100, 1, 10**9)
    with pytest.raises(InvalidInput, match=r"1000000000 rows, 100 inputs and width = 7000 need 1\.11 GiB of 1 GiB"):
        check_memory(7000, 100, 1, 10**9)  # the scatter matrix and its factors
    check_memory(100_000, 100, 1, 300)
    with pytest.raises(InvalidInput, match=r"need 1\.35 GiB"):
        check_memory(100_000, 100, 1, 503)  # features, centred and projected
    check_memory(400_000, 100, 10, 0)
    with pytest.raises(InvalidInput, match=r"\(100 inputs and width = 500000 need 1\.15 GiB"):
        check_memory(500_000, 100, 10, 0)  # the first layer
