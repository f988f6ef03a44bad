"""The uniform equivalent against the real network: a sharp part always, the whole table with the statistical marker."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from scipy import stats
from validation import TABLE, compare

import gradstep as gs

SHARP = ("odd-fixed", "odd-quarter", "odd-half", "odd-half-constant", "sigmoid-half")


@cache
def sharp(name):
    return compare(name, seeds=12, dtype="float32")  # whose errors are those of double precision to seven digits


def test_a_sharp_part_of_the_table():
    results = [sharp(name) for name in SHARP]
    z = np.array([result.z("test_error") for result in results])
    assert np.max(np.abs(z)) < 4, z
    # Independent settings: the sum of squares is a chi-square.
    assert stats.chi2.sf(np.sum(z**2), len(z)) > 1e-4, z
    assert all(result.largest_z < 4 for result in results)


def test_a_theory_off_by_a_tenth_would_be_caught():
    z = []
    for name in SHARP[1:3]:
        found = sharp(name)
        (honest,) = found.comparison.predictions
        shifted = dataclasses.replace(honest, test_error=1.1 * honest.test_error)
        wrong = dataclasses.replace(found.comparison, predictions=(shifted,))
        z.append(dataclasses.replace(found, comparison=wrong).z("test_error"))
    z = np.array(z)
    assert stats.chi2.sf(np.sum(z**2), len(z)) < 1e-4


def test_the_table_covers_what_it_claims():
    entries = [{**TABLE["default"], **entry} for entry in TABLE["settings"].values()]
    assert len(entries) >= 24
    assert {entry.get("exponent", 0.0) for entry in entries} == {0.0, 0.125, 0.25, 0.375, 0.5}
    assert {str(type(entry["readout"]).__name__) for entry in entries} == {"str", "dict"}
    parities = {gs.scalar_function(entry["activation"]).parity for entry in entries}
    assert parities == {"odd", None}
    assert any(gs.scalar_function(entry["activation"]).kinks for entry in entries)


@pytest.mark.statistical
@pytest.mark.parametrize("name", list(TABLE["settings"]))
def test_setting(name):
    result = compare(name)
    overlay = result.comparison["test_error"]
    assert overlay.standard_error < 0.0125 * overlay.mean
    # Thirty settings with three quantities each: beyond 4 by chance once in some 200 runs.
    assert result.largest_z < 4, result


@pytest.mark.statistical
def test_distribution_of_z_over_the_table():
    exact = [name for name, entry in TABLE["settings"].items() if "allowance" not in entry]
    z = np.array([compare(name, seeds=16).z("test_error") for name in exact])
    assert np.median(np.abs(z)) < 1.2
    assert stats.chi2.sf(np.sum(z**2), len(z)) > 1e-5
