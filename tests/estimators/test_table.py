"""Tables: scales of any size, hashes of rows, inputs that are only sliced."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.estimators import table
from gradstep.estimators.table import cell_hashes, has_factors_only, is_only_sliced, row_hashes, standardisation

MULTIPLIERS = np.array([3, 5, 7], dtype=np.uint64)


class OnlySliced:
    """A table on disk, as HDF5 or zarr give it; reading it as a whole is an error."""

    def __init__(self, values, most):
        self.values, self.most = values, most
        self.shape, self.dtype = values.shape, values.dtype

    def __getitem__(self, part):
        assert isinstance(part, slice)
        assert part.stop - part.start <= self.most
        return self.values[part]

    def __len__(self):
        return len(self.values)


@pytest.fixture
def values():
    return np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 5.0, 0.1] + [0.0, 100.0, -3.0]


def test_standardised_inputs_have_mean_zero_and_variance_one(values):
    weights = np.random.default_rng(1).uniform(0.5, 2, 40)
    standard = standardisation(values, weights)
    z = standard(values)
    np.testing.assert_allclose(weights @ z / weights.sum(), 0, atol=1e-12)
    np.testing.assert_allclose(weights @ z**2 / weights.sum(), 1)
    np.testing.assert_allclose(standard.centre, weights @ values / weights.sum())


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e-12, 1.0])
def test_columns_of_any_size(values, size):
    plain = standardisation(values, np.ones(40))
    scaled = standardisation(values / 1e3 * size, np.ones(40))
    np.testing.assert_allclose(scaled(values / 1e3 * size), plain(values), atol=1e-9)


def test_the_smallest_number_may_stand_for_a_missing_one(values):
    values[::10, 0] = np.finfo(np.float64).min
    z = standardisation(values, np.ones(40))(values)  # nothing even warns
    assert len(np.unique(z[:, 0])) == 2
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)


def test_columns_that_do_not_vary_are_left_out(values):
    values[:, 1] = 0.1 + np.arange(40) % 2 * 1e-17
    values[:, 2] = 1e16 + np.arange(40) % 2 * 2.0  # one unit in the last place
    standard = standardisation(values, np.ones(40))
    np.testing.assert_array_equal(standard(values), standardisation(values[:, :1], np.ones(40))(values[:, :1]))
    assert standard.dimension == 1
    nothing = standardisation(np.full((40, 3), 7.0), np.ones(40))
    assert nothing.dimension == 1
    assert not nothing(values).any()


def test_hashes_tell_rows_apart_and_nothing_else(values):
    hashes = row_hashes(values, MULTIPLIERS)
    assert len(set(hashes.tolist())) == 40
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(row_hashes(values[order], MULTIPLIERS), hashes[order])
    np.testing.assert_array_equal(row_hashes(np.zeros((1, 3)), MULTIPLIERS), row_hashes(-np.zeros((1, 3)), MULTIPLIERS))


def test_hashes_are_even_on_tables_of_small_integers():
    grid = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), axis=-1).reshape(-1, 3)
    hashes = row_hashes(
        grid, np.random.RandomState(0).randint(2**62, size=3, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    )
    assert len(np.unique(hashes)) == 1000
    for bits in (0, 30, 62):  # four boxes of 250 each, within four standard deviations
        counts = np.bincount(((hashes >> np.uint64(bits)) & np.uint64(3)).astype(int), minlength=4)
        assert np.abs(counts - 250).max() < 4 * 14


def test_a_table_on_disk_is_only_sliced(values, monkeypatch):
    monkeypatch.setattr(table, "BLOCK_BYTES", 16 * 8 * 20)
    values = np.tile(values, (4, 1)) + np.arange(160)[:, None] / 100
    y = np.sin(values[:, 0])
    disk = OnlySliced(values, most=16 * 20 // 3)
    assert is_only_sliced(disk)
    assert not is_only_sliced(values)
    whole = gs.OneStepRegressor(width=20, random_state=0).fit(values, y)
    sliced = gs.OneStepRegressor(width=20, random_state=0).fit(disk, y)
    np.testing.assert_allclose(sliced.predict(disk), whole.predict(values), atol=1e-9)
    values[3, 1] = np.inf
    with pytest.raises(ValueError, match="contains infinity"):
        sliced.fit(disk, y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_memmap_is_not_copied(values, dtype, tmp_path, monkeypatch):
    path = tmp_path / "X.npy"
    np.save(path, values.astype(dtype))
    mapped = np.load(path, mmap_mode="r")
    seen = []
    blocks = table.raw_blocks
    monkeypatch.setattr("gradstep.estimators.table.raw_blocks", lambda X, rows: seen.append(X) or blocks(X, rows))
    model = gs.OneStepRegressor(width=20, eta=1.0, random_state=0).fit(mapped, values[:, 0])
    assert all(np.shares_memory(X, mapped) for X in seen if X.shape[1] == 3)
    expected = gs.OneStepRegressor(width=20, eta=1.0, random_state=0).fit(values.astype(dtype), values[:, 0])
    np.testing.assert_allclose(model.predict(mapped), expected.predict(values.astype(dtype)), atol=1e-9)


def test_blocks_do_not_change_the_fit(monkeypatch):
    random = np.random.default_rng(0)
    X = random.standard_normal((150, 5))
    y = np.tanh(2 * X[:, :2])
    whole = gs.OneStepRegressor(width=30, sample_split=True, random_state=0).fit(X, y)
    monkeypatch.setattr(table, "BLOCK_BYTES", 8 * 30 * 16)
    blocks = gs.OneStepRegressor(width=30, sample_split=True, random_state=0).fit(X, y)
    np.testing.assert_allclose(blocks.predict(X), whole.predict(X), atol=1e-9)


def test_a_fit_is_the_same_whether_rows_or_columns_lie_together(values):
    y = np.tanh(2 * values[:, 0])
    by_rows, by_columns = (
        gs.OneStepRegressor(width=16, random_state=0).fit(X, y).predict(X)
        for X in (np.ascontiguousarray(values), np.asfortranarray(values))
    )
    np.testing.assert_array_equal(by_rows, by_columns)


@pytest.mark.parametrize("size", [1e306, -1.7e308])
@pytest.mark.parametrize("given", [{}, {"sample_split": True}])
def test_rows_of_weight_zero_may_hold_any_number(values, size, given):
    """The first row, where a pilot or a first element would be read, and one in the middle; nothing even warns."""
    y, weights = np.sin(values[:, 0]), np.ones(40)
    weights[[0, 7]] = 0
    usual = gs.OneStepRegressor(width=12, random_state=0, **given).fit(values, y, weights)
    wild, targets = values.copy(), y.copy()
    wild[0, 1], wild[7, 2], targets[0], targets[7] = size, -size, size, -size
    model = gs.OneStepRegressor(width=12, random_state=0, **given).fit(wild, targets, weights)
    np.testing.assert_array_equal(model.predict(values), usual.predict(values))
    assert str(model.diagnose(wild, targets, weights)) == str(usual.diagnose(values, y, weights))


@pytest.mark.parametrize("kind", [gs.OneStepRegressor, gs.OneStepClassifier, gs.OneStepFeatures])
def test_the_index_of_a_series_does_not_matter(values, kind):
    pd = pytest.importorskip("pandas")
    y, weights = np.sin(values[:, 0]), np.arange(40.0)
    y = y if kind is gs.OneStepRegressor else np.where(y > 0, "a", "b")
    labels = np.random.default_rng(2).permutation(40) + 3  # none is 0
    usual = kind(width=12, random_state=0)
    other = kind(width=12, random_state=0)
    fitted = {"sample_weight": pd.Series(weights, index=labels[::-1])}
    usual.fit(values, y, weights)
    other.fit(pd.DataFrame(values, index=labels).to_numpy(), pd.Series(y, index=labels), **fitted)
    np.testing.assert_array_equal(other.weights_, usual.weights_)
    if kind is not gs.OneStepFeatures:
        series = pd.Series(y, index=labels)
        assert str(other.diagnose(values, series, **fitted)) == str(usual.diagnose(values, y, weights))


def test_rows_of_a_common_input_with_several_targets_are_observations_of_their_own():
    random = np.random.default_rng(0)
    hashes = np.arange(200, dtype=np.uint64)
    hashes[:9], hashes[12:30], hashes[30:48] = 1000, 2000, 3000
    targets = random.standard_normal((200, 1))
    targets[12:30] = 7.0  # copies
    targets[30:33] = 5.0  # three rows that agree in everything
    found = cell_hashes(hashes, targets, np.ones(200), lambda: False)
    assert len(np.unique(found[30:48])) == 18
    np.testing.assert_array_equal(np.delete(found, np.s_[30:48]), np.delete(hashes, np.s_[30:48]))
    order = random.permutation(200)
    again = cell_hashes(hashes[order], targets[order], np.ones(200), lambda: False)
    np.testing.assert_array_equal(np.sort(again), np.sort(found))
    # Nine rows are too few, and so is less than a twentieth of them.
    for rows, total in ((9, 60), (12, 300)):
        hashes = np.maximum(np.arange(total, dtype=np.uint64), np.uint64(rows - 1))
        targets = random.standard_normal((total, 1))
        np.testing.assert_array_equal(cell_hashes(hashes, targets, np.ones(total), lambda: False), hashes)
    # New rows have the levels of a factor, however many there are.
    assert len(np.unique(cell_hashes(hashes, targets, np.ones(300), lambda: True))) == 300


def test_columns_of_two_values_are_those_of_factors(values, monkeypatch):
    monkeypatch.setattr(table, "BLOCK_BYTES", 1)  # 16 rows at a time
    columns, weights = np.arange(3), np.ones(40)
    assert not has_factors_only(values, weights, columns)
    two = np.where(values > np.median(values, axis=0), 7.0, -3.0)
    two[::5, 0] = np.nan
    assert has_factors_only(two, weights, columns)
    two[35, 1] = 0.0
    assert not has_factors_only(two, weights, columns)
    assert has_factors_only(two, weights, np.array([0, 2]))
    weights[35] = 0
    assert has_factors_only(two, weights, columns)


def test_left_out_errors_where_many_rows_have_no_values_are_those_of_fresh_rows():
    def draw(random, n):
        X, empty = random.standard_normal((n, 4)), random.random(n) < 0.4
        y = np.where(empty, 3.0, np.tanh(2 * X[:, 0])) + 0.3 * random.standard_normal(n)
        return np.where(empty[:, None], np.nan, X), y

    left_out, fresh = [], []
    for seed in range(12):
        random = np.random.default_rng(seed)
        (X, y), (new, targets) = draw(random, 120), draw(random, 4000)
        model = gs.OneStepRegressor(width=64, eta=0.0, random_state=seed).fit(X, y)
        left_out.append(model.ridge_errors_.min() * y.var())
        fresh.append(np.mean((targets - model.predict(new)) ** 2))
    difference = np.subtract(left_out, fresh)
    assert abs(difference.mean()) < 3 * difference.std(ddof=1) / np.sqrt(12) < 0.03
