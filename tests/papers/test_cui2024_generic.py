"""Appendix C in the paper's notation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gradstep.papers.cui2024 import summary_statistics
from gradstep.papers.cui2024.generic import generic_errors

SETTING = {"eta_tilde": 1.5, "alpha0": 4.0, "alpha": 1.6, "lam": 0.1, "beta": 0.8, "sigma_eps": 0.3}


def test_square_loss_is_result_33():
    ours, result = generic_errors("tanh", "sin", **SETTING), summary_statistics("tanh", "sin", **SETTING)
    assert_allclose(ours.test_error, result.test_error, rtol=1e-9)
    assert_allclose(ours.train_error, result.train_error, rtol=1e-9)
    # |a|^2 / p of the paper is |b|^2 on the raw features.
    assert_allclose(ours.readout_norm, result.readout_norm, rtol=1e-9)


def test_splitting_a_letter_changes_nothing():
    options = {"loss": "logistic", "penalty": "l1", "channel": "sign"}
    whole = generic_errors("tanh", "linear", **SETTING, **options)
    split = generic_errors("tanh", "linear", **SETTING, **options, readout={1.0: 0.5, -1.0: 0.5})
    for quantity in ("test_loss", "classification_error", "train_loss", "active_fraction"):
        # An odd activation does not know the sign of a neuron.
        assert getattr(split, quantity) == pytest.approx(getattr(whole, quantity), rel=1e-8)


def test_more_step_samples_classify_better():
    errors = [
        generic_errors(
            "tanh", "linear", **(SETTING | {"alpha0": alpha0}), loss="squared_hinge", channel="sign"
        ).classification_error
        for alpha0 in (0.0, 2.0, 20.0)
    ]
    assert (np.diff(errors) < 0).all()
