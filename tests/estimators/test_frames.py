"""Tables as they are: gaps, categories, extreme values."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import gradstep as gs
from gradstep.estimators.columns import Columns
from gradstep.estimators.table import standardisation, table_hashes

ODD = np.array([3, 5, 7], dtype=np.uint64)


@pytest.fixture
def frame():
    random = np.random.default_rng(0)
    n = 240
    table = pd.DataFrame(
        {
            "size": random.standard_normal(n),
            "colour": random.choice(["red", "blue", "green"], n),
            "weight": random.standard_normal(n),
            "town": [f"t{k}" for k in range(n)],
            "kind": pd.Categorical(random.choice([1, 2], n)),
        }
    )
    y = 2 * (table["colour"] == "red") + table["size"] + 0.1 * random.standard_normal(n)
    table.loc[::6, "size"] = np.nan
    table.loc[::8, "colour"] = None
    return table, y.to_numpy()


def test_categories_are_columns_of_zeros_and_ones(frame):
    table, y = frame
    code = Columns.of(table)
    matrix = code(table)
    assert code.names == (
        *("size", "weight", "colour_blue", "colour_green", "colour_red", "colour_None", "town_(rare)"),
        *("kind_1", "kind_2"),
    )
    np.testing.assert_array_equal(code.source, [0, 2, 1, 1, 1, 1, 3, 4, 4])
    np.testing.assert_array_equal(matrix[:, 5], table["colour"].isna())
    np.testing.assert_array_equal(matrix[:, 4], table["colour"] == "red")
    by_name = gs.OneStepRegressor(32, random_state=0).fit(table, y)
    by_hand = gs.OneStepRegressor(32, random_state=0).fit(matrix, y)
    np.testing.assert_array_equal(by_name.predict(table), by_hand.predict(matrix))
    assert by_name.n_features_in_ == len(by_name.feature_importances_) == 5
    np.testing.assert_allclose(by_name.feature_importances_.sum(), 1)
    assert by_name.feature_importances_[:2].sum() > 0.7
    assert "size missing" in by_name.learned_.names
    new = table.iloc[:3].assign(colour=["violet", "red", None])
    assert np.isfinite(by_name.predict(new)).all()
    assert Columns.of(table[["size", "weight"]]) is None


def test_a_category_that_is_new_is_rare_or_the_mean_of_all(frame):
    table, y = frame
    table = table[["town", "kind"]].assign(size=table["weight"])
    new = table.iloc[:2].assign(town=["t500", None], kind=[3, None])
    code = Columns.of(table)(new)
    np.testing.assert_array_equal(code[:, 1:], [[1, np.nan, np.nan]] * 2)
    model = gs.OneStepRegressor(32, random_state=0).fit(table, y)
    assert not np.isnan(Columns.of(table)(table)).any()
    known = model._columns(table)
    mean = np.column_stack([code[:, :2], np.tile(known[:, 2:].mean(axis=0), (2, 1))])
    by_hand = gs.OneStepRegressor(32, random_state=0).fit(known, y)
    np.testing.assert_allclose(model.predict(new), by_hand.predict(mean))


def test_polars_and_pandas_agree(frame):
    table, y = frame
    table = table.drop(columns="kind")
    models = [gs.OneStepRegressor(32, random_state=0).fit(X, y) for X in (table, pl.from_pandas(table))]
    np.testing.assert_array_equal(models[0].predict(table), models[1].predict(pl.from_pandas(table)))


DAYS = {
    "numpy": pd.date_range("2020-01-01", periods=240),
    "time zone": pd.date_range("2020-01-01", periods=240, tz="UTC"),
    "months": pd.period_range("2020-01", periods=240, freq="M"),
    "dates": [None] + [datetime.date(2020, 1, 1)] * 239,
    "times": [datetime.time(12)] * 240,
    "durations": [datetime.timedelta(days=1)] * 240,
}


@pytest.mark.parametrize("categories", [False, True])
def test_text_in_a_column_of_numbers_is_refused_by_its_name(categories):
    random = np.random.default_rng(0)
    X = pd.DataFrame({"width": random.standard_normal(40), "height": random.standard_normal(40)})
    X = X.assign(kind=["a", "b"] * 20) if categories else X
    model = gs.OneStepRegressor(8, random_state=0).fit(X, X.width)
    for column in (["tall"] * 40, [*random.standard_normal(39), "7,5"]):
        with pytest.raises(ValueError, match="'height' of X holds text"):
            model.predict(X.assign(height=column))


def test_numbers_in_a_column_of_words_are_refused_by_its_name(frame):
    """All of them would be unknown, and the column would count for nothing, without a word."""
    table, y = frame
    model = gs.OneStepRegressor(8, random_state=0).fit(table, y)
    for column in (np.ones(240), np.arange(240), np.arange(240) > 9):
        with pytest.raises(ValueError, match="'colour' of X holds numbers, but held text or categories such as 'blue'"):
            model.predict(table.assign(colour=column))
    # What is missing, words that are new, and numbers where the categories were numbers are as ever.
    model.predict(table.assign(colour=np.nan))
    model.predict(table.assign(colour="violet"))
    model.predict(table.assign(kind=[1.0, 7.0] * 120))
    model.predict(table.assign(kind=9))


def test_columns_without_names_of_text_have_one_name(frame):
    """The names of a frame whose columns are numbers, in directions and in columns alike."""
    table, y = frame
    table.columns = [10, 20, 30, 40, 50]
    learned = gs.OneStepRegressor(8, random_state=0).fit(table, y).learned_
    assert learned.columns == ("10", "20", "30", "40", "50")
    assert learned.names[:3] == ("10", "30", "20_blue")


def test_names_that_are_text_in_part_are_refused():
    """Numbers beside text say nothing of which column is which; the error shows the names and the way out."""
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((30, 3)), columns=[0, 1, "a"])
    y = X["a"].to_numpy()
    told = r"columns of X: got \[0, 1, 'a'\], of which only some are text; allowed: .* X.columns.astype\(str\)"
    for model in (gs.OneStepRegressor(8), gs.OneStepFeatures(8), gs.OneStepClassifier(8)):
        with pytest.raises(gs.InvalidInput, match=told):
            model.fit(X, y > 0)
    model = gs.OneStepRegressor(8, random_state=0).fit(X.to_numpy(), y)
    with pytest.raises(gs.InvalidInput, match=told):
        model.predict(X)
    renamed = X.set_axis(X.columns.astype(str), axis=1)
    assert gs.OneStepRegressor(8).fit(renamed, y).feature_names_in_.tolist() == ["0", "1", "a"]
    assert gs.OneStepRegressor(8).fit(X[[0, 1]], y).n_features_in_ == 2


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS)
def test_dates_are_refused(frame, day):
    table, y = frame
    with pytest.raises(ValueError, match="'day' holds dates or durations"):
        gs.OneStepRegressor(8).fit(table.assign(day=day), y)
    for estimator in (gs.OneStepRegressor(8), gs.OneStepFeatures(8)):
        with pytest.raises(ValueError, match="y holds dates or durations"):
            estimator.fit(table, day)


@pytest.mark.parametrize("kind", ["M8[s]", "m8[D]", object])
def test_dates_in_an_array_are_refused(kind):
    days = np.arange(40).reshape(20, 2).astype("M8[D]" if kind is object else kind).astype(kind)
    with pytest.raises(ValueError, match="X holds dates or durations"):
        gs.OneStepRegressor(8).fit(days, np.arange(20.0))


def test_masked_values_are_refused():
    X, y = np.random.default_rng(0).standard_normal((2, 40))
    X, masked = X[:, None], np.ma.masked_array(y, mask=y > 1)
    plain = gs.OneStepRegressor(8, random_state=0).fit(X, y)
    for estimator, labels in (
        (gs.OneStepRegressor(8), masked),
        (gs.OneStepFeatures(8), masked),
        (gs.OneStepClassifier(8), masked > 0),
    ):
        with pytest.raises(TypeError, match="y is a masked array"):
            estimator.fit(X, labels)
    with pytest.raises(TypeError, match="X is a masked array"):
        plain.predict(masked[:, None])
    np.testing.assert_array_equal(plain.predict(np.ma.masked_array(X)), plain.predict(X))


def test_missing_and_unknown_labels_of_a_later_table_are_refused(frame):
    table, y = frame
    model = gs.OneStepClassifier(8, random_state=0).fit(table, np.where(y > 0, "up", "down"))
    with pytest.raises(ValueError, match="missing labels"):
        model.link(table, ["up", None] * 120)
    with pytest.raises(ValueError, match=r"not in the fit: \[1, 'left'\]"):
        model.link(table, np.array(["up", 1, "left", 1] * 60, dtype=object))


def test_one_row_is_refused_with_categories_too(frame):
    table, y = frame
    for X in (table[:1], table[["size"]][:1]):
        with pytest.raises(ValueError, match="minimum of 2"):
            gs.OneStepRegressor(8).fit(X, y[:1])


def test_text_is_no_target_of_a_regressor(frame):
    table, y = frame
    for labels in (np.where(y > 0, "up", "down"), pd.Series(np.where(y > 0, "up", "down"), dtype="category")):
        with pytest.raises(ValueError, match=r"y holds '(up|down)', which is no number; OneStepClassifier"):
            gs.OneStepRegressor(8).fit(table, labels)
    numbers = [str(value) for value in y]  # scikit-learn takes these
    np.testing.assert_allclose(
        gs.OneStepRegressor(8, random_state=0).fit(table, numbers).predict(table),
        gs.OneStepRegressor(8, random_state=0).fit(table, y).predict(table),
    )


def test_what_is_no_table_of_numbers_and_categories_is_refused(frame):
    table, y = frame
    small = gs.OneStepRegressor(8, random_state=0)
    for lists in (table.assign(parts=[[1, 2]] * 240), pl.DataFrame({"parts": [[1, 2]] * 240})):
        with pytest.raises(ValueError, match="'parts' holds lists or records"):
            small.fit(lists, y)
    for waves in (np.full(240, 1j), np.array([1j, 2.0] * 120, dtype=object)):
        with pytest.raises(ValueError, match="'wave' holds complex numbers"):
            small.fit(table.assign(wave=waves), y)
    with pytest.raises(ValueError, match="Several columns of X have the name 'size'"):
        small.fit(table[["size", "colour", "size"]], y)
    with pytest.raises(TypeError, match=r"lazy frame.*X\.collect\(\)"):
        small.fit(pl.from_pandas(table[["size", "colour"]]).lazy(), y)
    with pytest.raises(TypeError, match=r"table of Arrow.*X\.to_pandas\(\)"):
        small.fit(pl.from_pandas(table[["size", "colour"]]).to_arrow(), y)
    with pytest.raises(TypeError, match="of type ndarray, but the fit had a data frame with categories"):
        small.fit(table, y).predict(table.to_numpy())


@pytest.mark.parametrize("level", [int, float, bool])
def test_a_category_is_the_same_one_in_a_table_with_gaps_and_in_one_without(frame, level):
    """With a gap, pandas turns integers and truth values into other types: a 1 becomes 1.0."""
    table, y = frame
    which = np.random.default_rng(5).integers(0, 2, 240)
    table = table[["size"]].assign(which=pd.Categorical(which.astype(level)))
    table.loc[::7, "which"] = None
    model = gs.OneStepRegressor(32, random_state=0).fit(table, y + 3 * which)
    complete = table["which"].notna()
    again = table[complete].assign(which=pd.Categorical(which[complete].astype(level)))
    np.testing.assert_allclose(model.predict(again), model.predict(table)[complete], rtol=1e-12)


def test_text_is_a_category_and_truth_values_are_numbers(frame):
    table, _ = frame
    code = np.random.default_rng(6).integers(0, 3, 240)
    known = [True, False, pd.NA] * 80
    columns = Columns.of(table[["size"]].assign(code=code.astype(str), known=pd.array(known, dtype="boolean")))
    assert columns.names == ("size", "known", "code_0", "code_1", "code_2")
    np.testing.assert_array_equal(
        columns(pd.DataFrame({"size": 0.0, "code": ["2"], "known": [None]})), [[0, np.nan, 0, 0, 1]]
    )


def test_sparse_matrices_are_refused():
    with pytest.raises(TypeError, match=r"fills a sparse matrix.*TruncatedSVD"):
        gs.OneStepRegressor(8).fit(sparse.eye(10, format="csr"), np.arange(10.0))


def test_gaps_become_the_mean_and_a_column_that_tells():
    values = np.random.default_rng(1).standard_normal((60, 3)) * [1.0, 5.0, 2.0] + 3
    values[:15, 1] = np.nan
    weights = np.random.default_rng(2).random(60)
    standard = standardisation(values, weights)
    z = standard(values)
    assert z.shape == (60, 4)
    assert len(np.unique(table_hashes(values, np.arange(3), ODD))) == 60
    share = weights[:15].sum() / weights.sum()
    np.testing.assert_allclose(standard.missing, share)
    np.testing.assert_allclose(weights @ z, 0, atol=1e-9)
    np.testing.assert_allclose(weights @ z[:, [0, 2, 3]] ** 2 / weights.sum(), 1)
    np.testing.assert_allclose(weights[15:] @ z[15:, 1] ** 2 / weights[15:].sum(), 1)
    assert (z[:15, 1] == 0).all()
    # A gap where the fit had none is the mean; an empty column is none.
    np.testing.assert_allclose(standard(np.full((1, 3), np.nan))[0, :3], 0)
    empty = standardisation(np.column_stack([values[:, 0], np.full(60, np.nan)]), weights)
    assert empty.dimension == 1
    assert empty(np.ones((2, 2))).shape == (2, 1)


def test_extreme_values_are_clipped():
    """One row of 100,000 among 10,000 does not push the others together; one farther out is the same."""
    random = np.random.default_rng(3)
    values = random.standard_normal((10_000, 1))
    plain = standardisation(values, np.ones(10_000))
    assert plain.scale == pytest.approx(values.std(), rel=1e-12)
    wild = np.append(values, 1e5)[:, None]
    clipped = standardisation(wild, np.ones(10_001))
    assert 1 < clipped.scale / plain.scale < 1.6
    np.testing.assert_array_equal(*clipped(np.array([[1e6], [1e9]])))


def test_a_heavy_tail_does_not_ruin_new_rows():
    random = np.random.default_rng(4)
    X = random.standard_normal((300, 5))
    X[:, 1] = random.standard_t(1.2, 300)
    y = np.tanh(X[:, 0]) + 0.1 * random.standard_normal(300)
    model = gs.OneStepRegressor(64, random_state=0).fit(X, y)
    fresh = random.standard_normal((500, 5))
    fresh[:, 1] = random.standard_t(1.2, 500)
    assert model.score(fresh, np.tanh(fresh[:, 0])) > 0.9
