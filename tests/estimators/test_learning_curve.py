"""Learning curves of the estimators against refits: of each row left out, of the whole estimator on fresh rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.estimators.alternatives import MODELS, compared_curves, verdict
from gradstep.estimators.refits import Model, left_out_errors
from gradstep.estimators.rows import Sample
from gradstep.estimators.score_curve import Levels, Score, score_curve
from gradstep.simulation.leave_one_out import copies_of


def table(seed, rows, inputs=10, noise=0.4, function=lambda x: np.tanh(2 * x[:, 0])):
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, inputs))
    return X, function(X) + noise * random.standard_normal(rows)


@pytest.fixture(scope="module")
def stepped():
    """Return a table, a model with a large step, and its learning curve."""
    X, y = table(0, 200)
    model = gs.OneStepRegressor(width=64, random_state=0).fit(X, y)
    return X, y, model, model.learning_curve(X, y, n=[100, 200, 400])


def test_where_there_is_no_estimate_no_penalty_is_the_best(stepped):
    """Nothing is said of the best penalty there, whichever place stands for it."""
    curve = stepped[3]
    errors = curve.curve.test_error.copy()
    errors[2] = math.nan
    unknown = replace(curve, curve=replace(curve.curve, test_error=errors))
    assert math.isnan(unknown.best_ridge[2])
    assert not [note for note in unknown.caveats if "400" in note and "best penalty" in note]


def test_without_a_step_it_is_leave_one_out_with_an_intercept():
    """Refits without each row, by scikit-learn, on features of which the intercept is not penalised."""
    X, y = table(1, 30, inputs=4)
    y = y + 3.0
    model = gs.OneStepRegressor(width=12, eta=0, random_state=0).fit(X, y)
    curve = model.learning_curve(X, y, n=[30], ridge=[0.3, 30.0])
    standard = model.standardisation_(X)
    features = np.maximum(standard @ model.weights_.T + model.offsets_, 0)
    for place, ridge in enumerate(curve.ridge):
        left_out = []
        for row in range(30):
            others = np.arange(30) != row
            fit = Ridge(ridge).fit(features[others], y[others])
            left_out.append((fit.predict(features[[row]])[0] - y[row]) ** 2)
        # The variance is the error with a penalty that is large, not infinite.
        assert curve.r2[0, place] == pytest.approx(1 - np.mean(left_out) / np.var(y, ddof=1), rel=1e-6)


@pytest.mark.parametrize("copies", [1, 3])
def test_a_mean_of_m_rows_scores_minus_one_over_m(copies):
    """The mean of the other rows misses a row by M / (M - 1) times its distance from the mean of all."""
    X, y = table(1, 20, inputs=4)
    model = gs.OneStepRegressor(width=12, eta=0, random_state=0).fit(X, y)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    curve = model.learning_curve(X, y, n=[20 * copies], ridge=[1e9])
    assert curve.r2[0, 0] == pytest.approx(-1 / 19, rel=1e-3)


@pytest.mark.parametrize(
    ("factor", "ridge"), [pytest.param(0.4, 20.0, marks=pytest.mark.statistical), (2.0, 20.0), (0.05, 1e-6)]
)
def test_other_sizes_are_those_of_refits_with_an_intercept(factor, ridge):
    """Plain ridge regression, many pools: what the estimates are off on average is within their scatter.

    The last are three rows that are fitted exactly: the intercept must be free beside the features, not the penalty.
    """
    random = np.random.default_rng(2)
    beta, rows = random.standard_normal(8) / 8**0.5, 60
    n = round(factor * rows)

    def drawn(count):
        z = random.standard_normal((count, 8))
        return z, (z @ beta + 0.7 * random.standard_normal(count))[:, None]

    errors = []
    for _ in range(300):
        z, y = drawn(n)
        centred = z - z.mean(axis=0)
        fit = np.linalg.solve(centred.T @ centred + ridge * np.eye(8), centred.T @ y).ravel()
        # The inputs are isotropic: the error of new rows is known.
        errors.append(np.sum((fit - beta) ** 2) + (y.mean() - z.mean(axis=0) @ fit) ** 2 + 0.49)
    found = []
    for _ in range(40):
        z, y = drawn(rows)
        weights, every = np.ones(rows), np.ones(rows, bool)
        copies = copies_of(np.arange(rows, dtype=np.uint64), y, weights)
        pool = Sample(z, y, weights, copies, every, every)

        def levels(penalties, pool=pool, every=every):
            return Levels(1.0, left_out_errors(pool, every, penalties), None)

        curve = score_curve(pool, levels, ridge, classes=False, n=[n], ridge=[ridge])
        found.append(curve.curve.test_error[0, 0])
    scatter = math.hypot(np.std(found, ddof=1) / 40**0.5, np.std(errors, ddof=1) / 300**0.5)
    assert abs(np.mean(found) - np.mean(errors)) < 3 * scatter


@pytest.mark.parametrize("split", [False, True])
def test_a_row_is_scored_by_networks_that_have_not_used_its_target(split):
    """Squared errors with three targets of one row tell the output for it: it is the same for all of them."""
    X, y = table(3, 60)
    model = gs.OneStepRegressor(width=16, eta=8.0, sample_split=split, random_state=0).fit(X, y)
    rows = Model.of(model, model._read(X, y, None), 100)
    place = int(np.flatnonzero(rows.sample.fit_rows)[7])
    penalties, squares = np.array([1.0, 10.0]), []
    for value in (-1.0, 0.0, 1.0):
        targets = rows.targets.copy()
        targets[place] = value
        fit = np.flatnonzero(rows.sample.fit_rows) == place
        found = replace(rows, targets=targets, sample=replace(rows.sample, y=targets)).levels(penalties)
        squares.append([found.most.squares[fit][0], found.half.squares[fit][0]])
        if split:  # a half of the step's rows at a time; these are averages
            squares[-1].pop()
    low, middle, high = np.array(squares)
    outputs = (low - high) / 4
    np.testing.assert_allclose(outputs**2, middle, rtol=1e-9)
    seen = replace(rows, move=rows.move._replace(scale=0.0), initial=rows.stepped)
    assert seen.levels(penalties).half is None


@pytest.mark.statistical
def test_the_whole_estimator_with_these_rows_and_with_twice_as_many(stepped):
    """Refits choose their step and penalty, and are tested on fresh rows."""
    _, _, model, curve = stepped
    fresh, truth = table(99, 20000)
    assert model.step_scale_ > 1  # a large step
    for n in (100, 200, 400):
        scores = []
        for seed in range(10):
            X, y = table(1000 + seed, n)
            scores.append(gs.OneStepRegressor(width=64, random_state=seed).fit(X, y).score(fresh, truth))
        score = curve.at(n)
        assert abs(score.value - np.mean(scores)) < 3 * math.hypot(score.standard_error, np.std(scores) / 10**0.5)
    assert curve.twice == curve.at(400)
    change = curve.change(200, 400)
    assert change.value == pytest.approx(curve.at(400).value - curve.at(200).value)
    assert change.standard_error < curve.at(200).standard_error


def test_the_fits_own_features_would_promise_too_much():
    """On noise a step writes targets into the features of its rows: only rows that it has not seen tell."""
    X, y = table(4, 150, inputs=40, function=lambda x: 0 * x[:, 0])
    model = gs.OneStepRegressor(width=48, eta=40.0, random_state=0).fit(X, y)
    rows = Model.of(model, model._read(X, y, None), 200)
    curve = model.learning_curve(X, y, n=[150], ridge=[1.0, 10.0, 100.0, 1e4])
    every = np.ones(150, bool)
    seen = 1 - left_out_errors(rows.pool(rows.stepped), every, curve.ridge).squares.mean(axis=0)
    assert seen.max() > 0.2
    assert curve.r2.max() < 3 * curve.at(150).standard_error
    assert curve.r2.max() < 0.05


def test_rows_set_aside_for_the_step(stepped):
    X, y, _, _ = stepped
    model = gs.OneStepRegressor(width=32, sample_split=0.4, random_state=0).fit(X, y)
    curve = model.learning_curve(X, y)
    assert curve.rows == model.fit_samples_ < len(X)
    assert (
        curve.n.tolist() == np.unique(np.round(np.array([0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2]) * curve.rows)).tolist()
    )
    assert len(curve.ridge) == 5
    assert model.ridge_ == pytest.approx(curve.ridge[2])


@pytest.mark.parametrize("function", [lambda x: 3 * x[:, 0] + x[:, 1], lambda x: np.tanh(x[:, 0])])
def test_what_a_dozen_rows_do_not_tell_is_unknown(function):
    """No error is known worse than that of the mean, which needs no fit; a caveat says which sizes are left."""
    X, y = table(0, 12, inputs=4, noise=0.0, function=function)
    curve = gs.OneStepRegressor(width=64, random_state=0).fit(X, y).learning_curve(X, y)
    known = np.isfinite(curve.r2)
    assert (curve.r2_standard_error[known] <= 1).all()
    left = known.any(axis=1)
    assert left.any()
    assert not left.all()
    (note,) = (note for note in curve.caveats if "above the error of predicting the mean" in note)
    assert note.endswith(f"there is one at n = {', '.join(map(str, curve.n[left]))}.")
    assert f"At n = {curve.n[~left][0]}" in note
    assert str(curve.at(int(curve.n[~left][0]))) == "unknown"
    assert np.isnan(curve.best_ridge[~left]).all()


def test_a_part_of_many_rows_is_enough():
    X, y = table(5, 360)
    model = gs.OneStepRegressor(width=32, random_state=0).fit(X, y)
    whole, part = model.learning_curve(X, y, n=[120]), model.learning_curve(X, y, n=[120], max_rows=120)
    assert (whole.rows, part.rows) == (360, 120)
    one, other = whole.at(120), part.at(120)
    assert abs(one.value - other.value) < 3 * other.standard_error
    assert one.standard_error < other.standard_error


def test_rows_of_weight_zero_and_the_order_of_rows_do_not_matter(stepped):
    X, y, model, curve = stepped
    order = np.random.default_rng(0).permutation(200)
    again = model.learning_curve(X[order], y[order], n=[100, 200, 400])
    np.testing.assert_allclose(again.r2, curve.r2, rtol=1e-7)
    more = np.concatenate([X, X + 1]), np.concatenate([y, y * 1e6])
    weights = np.repeat([1.0, 0.0], 200)
    weighted = model.learning_curve(*more, n=[100, 200, 400], sample_weight=weights)
    np.testing.assert_allclose(weighted.r2, curve.r2, rtol=1e-7)
    # Weights count against the penalty.
    double = model.learning_curve(X, y, n=[200], ridge=2 * curve.ridge, sample_weight=np.full(200, 2.0))
    np.testing.assert_allclose(double.r2[0], curve.r2[1], rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_accuracy_is_that_of_refits_without_each_row(classes):
    X, y = table(6, 40, inputs=5)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [0.0] if classes == 2 else [-0.5, 0.5])]
    model = gs.OneStepClassifier(width=12, eta=0, random_state=0).fit(X, labels)
    curve = model.learning_curve(X, labels, n=[20, 40, 80], ridge=[1.0, 10.0])
    features = np.maximum(model.standardisation_(X) @ model.weights_.T + model.offsets_, 0)
    codes = np.where(labels[:, None] == (model.classes_[1:] if classes == 2 else model.classes_), 1.0, -1.0)
    for place, ridge in enumerate(curve.ridge):
        outputs = np.empty_like(codes)
        for row in range(40):
            others = np.arange(40) != row
            outputs[row] = Ridge(ridge).fit(features[others], codes[others]).predict(features[[row]])
        r2 = 1 - ((outputs - codes) ** 2).sum() / 40 / codes.var(axis=0, ddof=1).sum()
        assert curve.r2[1, place] == pytest.approx(r2, rel=1e-6)
        right = (outputs > 0) == (codes > 0) if classes == 2 else outputs.argmax(1) == codes.argmax(1)
        assert curve.accuracy[1, place] == pytest.approx(right.mean(), rel=1e-12)
    assert (curve.accuracy[0] <= curve.accuracy[1]).all()
    assert np.isnan(curve.accuracy[2]).all()
    assert "R^2 of the codes" in curve.more_rows()
    assert "accuracy" in str(curve)


def test_a_sentence_on_more_rows_names_the_numbers_that_it_compares(stepped):
    X, y, model, _ = stepped
    text = model.learning_curve(X, y, n=[100, 300], ridge=1.0).more_rows()
    assert text.startswith("with 300 rows: R^2 ")
    assert " with 100; the change is " in text


def test_a_gain_is_over_another_curve(stepped):
    with pytest.raises(gs.InvalidInput, match="over: got 3; allowed: the curve of another model"):
        stepped[3].gain(over=3)


def test_text_table_and_figure(stepped):
    curve = stepped[3]
    text = curve.more_rows()
    assert text.startswith(f"with twice the 200 rows: R^2 {curve.twice}, from {curve.at(200)} with 200; ")
    assert text[:60] in str(curve)
    assert "<table" in curve._repr_html_()
    assert len(curve.table().rows) == 3
    frame = curve.to_frame()
    assert len(frame) == curve.r2.size
    np.testing.assert_allclose(frame["r2"], curve.r2.ravel())
    assert curve.to_dict()["r2"] == curve.r2.tolist()
    figure = curve.plot()
    assert isinstance(figure, Figure)
    assert [len(axes.lines) > 0 for axes in figure.axes] == [True, True]
    assert str(Score(0.7123, 0.0134)) == "0.71 +- 0.01"
    assert str(Score(0.7123, 0.00134)) == "0.712 +- 0.001"
    assert str(Score(math.nan, math.nan)) == "unknown"


@pytest.mark.statistical
def test_a_curve_of_few_rows_of_a_large_table_has_penalties_for_few_rows():
    """That of a fit to a thousand times as many rows says nothing of theirs; refits measure what few rows score."""
    X, y = table(7, 150_000, noise=0.2, function=lambda x: np.sin(2 * x[:, 0]) + x[:, 1])
    few = gs.OneStepRegressor(64, eta=0, random_state=0)
    curve = few.fit(X, y).learning_curve(X, y, n=[160], max_rows=160)
    assert curve.ridge[0] < curve.best_ridge[0] < curve.ridge[-1]
    starts = range(0, 3200, 160)
    scores = [few.fit(X[k : k + 160], y[k : k + 160]).score(X[8000:16000], y[8000:16000]) for k in starts]
    score = curve.at(160)
    error = math.hypot(score.standard_error, np.std(scores) / math.sqrt(len(scores)))
    assert score.value == pytest.approx(np.mean(scores), abs=3 * error)


def test_bad_questions(stepped):
    X, y, model, curve = stepped
    with pytest.raises(InvalidInput, match="2 times the 200 rows"):
        model.learning_curve(X, y, n=[401])
    with pytest.raises(gs.InvalidInput, match=r"n: got \[100, 0\]; allowed: whole numbers from 1 to 400"):
        model.learning_curve(X, y, n=[100, 0])  # what was given, without the rows that are looked at beside them
    with pytest.raises(InvalidInput, match="at least 10 rows"):
        model.learning_curve(X[:5], y[:5])
    with pytest.raises(InvalidInput, match="do not vary"):
        model.learning_curve(X, np.ones(200))
    for classes in (2, 3):
        labels = np.digitize(y, np.quantile(y, [0.4, 0.7][: classes - 1]))
        classifier = gs.OneStepClassifier(16, random_state=0).fit(X, labels)
        for rows in (28, 37, 60):  # the mean of so many equal codes is rounded
            with pytest.raises(InvalidInput, match="targets that do not vary"):
                classifier.learning_curve(X[labels == 0][:rows], labels[labels == 0][:rows])
    with pytest.raises(InvalidInput, match="inputs that do not vary"):
        model.learning_curve(np.ones_like(X), y)
    with pytest.raises(InvalidInput, match="ridge: got"):
        model.learning_curve(X, y, ridge=-1.0)
    with pytest.raises(InvalidInput, match="max_rows"):
        model.learning_curve(X, y, max_rows=3)
    with pytest.raises(InvalidInput, match=r"one of the numbers of rows of the curve, \[100, 200, 400\]"):
        curve.at(123)
    with pytest.raises(InvalidInput, match="the same 200 rows"):
        curve.gain(model.learning_curve(X[:50], y[:50], n=[50]))
    with pytest.raises(ValueError, match="not fitted"):
        gs.OneStepRegressor().learning_curve(X, y)


def test_the_models_of_the_command_line():
    """A function of one projection: the step is ahead of both others, by refits as by the curves."""
    X, y = table(7, 300, inputs=20, noise=0.2)
    steps = []
    curves = compared_curves(X, y, width=48, n=[300, 600], progress=lambda *said: steps.append(said))
    assert tuple(curves) == MODELS
    assert steps[-1][:2] == (3, 3)
    done = [step[0] for step in steps]
    assert done == sorted(done)
    assert any(0 < number < 1 for number in done)  # of a curve at work its share counts
    text = verdict(curves)
    assert text.startswith("with these 300 rows one step is clearly the best, with R^2 ")
    assert f"with twice the 300 rows: R^2 {curves['one step'].twice}" in text
    gain = curves["one step"].gain(curves["random features"])
    assert gain.value > 3 * gain.standard_error > 0
    fresh, truth = table(8, 5000, inputs=20, noise=0.2)
    real = [gs.OneStepRegressor(48, eta=eta, random_state=0).fit(X, y).score(fresh, truth) for eta in ("auto", 0)]
    assert gain.value == pytest.approx(real[0] - real[1], abs=4 * gain.standard_error)
