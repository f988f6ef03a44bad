"""Single precision: every sum is that of double precision to six digits, whatever the size of features and values."""

import numpy as np
import pytest

from gradstep.learning import resolvent, rounded
from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import pool_of
from gradstep.learning.resolvent import Resolvent
from gradstep.learning.rounded import RoundedResolvent, SingleResolvent, rounded_product


@pytest.fixture(params=[1.0, 1e-60, 1e60], ids=["plain", "small", "large"])
def resolvents(rows, request):
    """Return a resolvent in double precision, and the same in single precision with the rank of its features."""
    features, targets, weights = rows()
    pool = pool_of(features * np.logspace(0, -4, 25) * request.param, targets * request.param, weights)
    own = np.random.default_rng(1).uniform(0.1, 0.9, 60)
    ridge = 1e-3 * request.param**2
    return Resolvent(pool, ridge, own), SingleResolvent(pool, ridge, own)


@pytest.mark.parametrize(("paired", "few"), [(True, 2), (True, 3), (False, 3)])
def test_sums_over_rows_are_those_of_double_precision(resolvents, paired, few, monkeypatch):
    monkeypatch.setattr(resolvent, "_MOST_PAIRED_ROWS", 4000 if paired else 0)
    monkeypatch.setattr(rounded, "_ROWS_PER_FEATURE", few)  # these rows have 2.4 for each feature
    double, single = resolvents
    columns = RoundedResolvent(single)
    random = np.random.default_rng(2)
    values = random.standard_normal((60, 2)) * np.array([1.0, 1e80])
    other = random.uniform(0, 1, (60, 1))
    for column in (0, 1):
        exact = double.others(values[:, column])
        size = np.abs(exact).max()
        np.testing.assert_allclose(columns.others(values)[:, column] / size, exact / size, atol=1e-5)
    np.testing.assert_allclose(single.others(values[:, 0]), double.others(values[:, 0]), atol=1e-4)
    np.testing.assert_allclose(columns.bare_leverage[:, 0], double.bare_leverage, rtol=1e-5)
    assert single.log_determinant == pytest.approx(double.log_determinant, abs=1e-3)
    other_moment = double.moment(other[:, 0])
    rates = np.array([0.0, 2.0]) * double.ridge
    chained = columns.chained(columns.summed(values), rates, columns.summed(other))
    for column, rate in enumerate(rates):
        moment = double.moment(values[:, column]) + rate * double.identity
        through = double.quadratic(moment @ other_moment)
        size = np.abs(through).max()
        np.testing.assert_allclose(chained[:, column] / size, through / size, atol=1e-5)
    rest = columns.chained(columns.summed(0 * values), rates, columns.summed(other))[:, 1]
    np.testing.assert_allclose(rest, rates[1] * double.quadratic(double.identity @ other_moment), rtol=1e-4)
    twice = double.quadratic(double.identity)
    np.testing.assert_allclose(columns.double()[:, 0], twice, rtol=1e-4)


def test_quadratic_forms_are_sums_over_pairs_of_columns():
    random = np.random.default_rng(4)
    vectors, matrix = random.standard_normal((9, 5)), random.standard_normal((5, 5))
    expected = np.einsum("mi,ij,mj->m", vectors, matrix, vectors)
    np.testing.assert_allclose(resolvent.quadratic_forms(vectors, matrix), expected, rtol=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_moments_of_values_of_any_sign_are_sums_over_rows(resolvents, sign):
    columns = RoundedResolvent(resolvents[1])
    values = np.random.default_rng(5).standard_normal((60, 1))
    values = sign * np.abs(values) if sign else values
    psi = columns.whitened.astype(float)
    expected = np.einsum("mi,mj,m->ij", psi, psi, values[:, 0])
    np.testing.assert_allclose(columns.moment(values)[0], expected, atol=1e-5 * np.abs(expected).max())


def test_predictions_keep_double_precision_beside_a_large_constant(rows):
    features, targets, _ = rows()
    features = np.column_stack([features, np.ones(60)])
    pool = pool_of(features, targets + 1e6)
    own = np.random.default_rng(1).uniform(0.1, 0.9, 60)
    double, single = Resolvent(pool, 1e-4, own), SingleResolvent(pool, 1e-4, own)
    drawn = own[:, None] * pool.targets
    np.testing.assert_allclose(single.predictions(drawn), double.predictions(drawn), rtol=1e-12)
    identity = single.identity
    rough = single.predictions(drawn, identity)
    np.testing.assert_allclose(rough, double.predictions(drawn, double.identity), rtol=1e-3)


def test_fits_in_single_precision_have_the_errors_of_double_precision(rows):
    features, targets, _ = rows()
    pool = pool_of(features, targets)
    for samples, ridge in ((15.0, 1e-3), (45.0, 3.0)):
        double = row_errors(weighted_fit(pool, samples, ridge))
        single = row_errors(weighted_fit(pool, samples, ridge, single=True), 1e-5, rounded=True)
        assert single.test_error == pytest.approx(double.test_error, rel=1e-4)
        assert single.training_error == pytest.approx(double.training_error, rel=1e-4)


def test_products_of_both_kinds_take_values_of_any_size():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((7, 5)).astype(np.float32)
    values = random.standard_normal((5, 3)) * np.array([1e-200, 0.0, 1e200])
    size = np.array([1e-200, 1.0, 1e200])
    np.testing.assert_allclose(rounded_product(matrix, values) / size, matrix @ (values / size), atol=1e-5)
    np.testing.assert_allclose(
        rounded_product(matrix.T.copy(), values, transposed=True) / size, matrix @ (values / size), atol=1e-5
    )
