"""Steps are compared on rows that they have not seen: against refits by hand, and on noise."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.estimators.layer import draw
from gradstep.estimators.metric import measure
from gradstep.estimators.moves import NO_STEP, Move
from gradstep.estimators.rows import FOLDS, HOST, Sample
from gradstep.estimators.step_choice import (
    CLEARLY,
    PenaltyPath,
    StepErrors,
    candidates,
    choice_width,
    score_steps,
)
from gradstep.estimators.targets import mistaken
from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.leave_one_out import PATH, copies_of


def layer_of(activation, width, d, outputs=1):
    law, random = Readout("gaussian"), np.random.RandomState(0)
    return draw(scalar_function(activation), width, d, outputs, offset=1.0, law=law, random=random)


def sample_of(n, target, d=10, repeat=None, step_share=None):
    """Return standardised rows, some of them repeated with other targets, perhaps split between step and fit."""
    random = np.random.default_rng(1)
    z = random.standard_normal((n, d))
    y = target(z, random).reshape(n, -1)
    if repeat is not None:
        z, y = np.concatenate([z, z[:repeat]]), np.concatenate([y, y[:repeat] + 0.5])
    hashes = np.arange(len(z), dtype=np.uint64) % np.uint64(n)
    z, y, w = (z - z.mean(axis=0)) / z.std(axis=0), (y - y.mean(axis=0)) / y.std(axis=0), np.ones(len(z))
    step = fit = np.ones(len(z), dtype=bool)
    if step_share is not None:
        step = hashes < step_share * n
        fit = ~step
    copies = copies_of(hashes, y, w)
    return Sample(z, y, w, copies, step, fit), hashes


def index(z, random):
    return np.tanh(2 * z[:, 0]) + 0.1 * random.standard_normal(len(z))


def two(z, random):
    return np.column_stack([z[:, 0] ** 2, index(z, random)])


@pytest.mark.parametrize("damping", [math.inf, 0.4])
@pytest.mark.parametrize(("target", "repeat", "step_share"), [(index, None, None), (two, 5, None), (two, None, 0.5)])
def test_scores_are_those_of_unseen_rows(target, repeat, step_share, damping):
    """Every fold, by hand: a step on the other folds, and for each row a ridge fit without it and its copies.

    The next fold is scored, too: its rows are left out of the same fits, but the step has seen them.
    """
    sample, hashes = sample_of(24, target, 3, repeat, step_share)
    layer = layer_of("tanh", 5, 3, sample.y.shape[1])
    metric = measure(sample)
    scores = score_steps(layer, sample, metric, [Move(2.0, damping)], 1, mistaken=mistaken)
    fitted = np.flatnonzero(sample.fit_rows)
    line, seen = np.zeros((2, len(PATH[::2]), len(fitted)))
    wrong = np.zeros(line.shape)
    after = 1 if step_share is None else 0
    for k in range(FOLDS):
        rows = sample.step_rows & ((hashes % FOLDS != k) if step_share is None else True)
        z, y = sample.z[rows], sample.y[rows]
        gradient = metric.damped(layer.gradient(HOST, [(z, y, np.ones(len(z)))]) / len(z), damping)
        eta = 2.0 / metric.movement(layer.weights, gradient) * math.sqrt(5)
        features = layer.moved(gradient, eta, metric).features(HOST, sample.z)
        penalties = PATH[::2] * np.trace(np.cov(features[fitted].T, bias=True) * len(fitted)) / 5
        scored = [(line, place) for place in np.flatnonzero(hashes[fitted] % FOLDS == k)]
        scored += [(seen, place) for place in np.flatnonzero(hashes[fitted] % FOLDS == (k + after) % FOLDS)]
        for squares, place in scored:
            i = fitted[place]
            kept = fitted[hashes[fitted] != hashes[i]]
            f, t = features[kept] - features[kept].mean(axis=0), sample.y[kept] - sample.y[kept].mean(axis=0)
            for p, penalty in enumerate(penalties):
                b = np.linalg.solve(f.T @ f + penalty * np.eye(5), f.T @ t)
                prediction = sample.y[kept].mean(axis=0) + (features[i] - features[kept].mean(axis=0)) @ b
                squares[p, place] = np.mean((sample.y[i] - prediction) ** 2)
                if squares is line:
                    signs, places = np.sign((sample.y[i], prediction)), np.argmax((sample.y[i], prediction), axis=1)
                    wrong[p, place] = places[0] != places[1] if len(prediction) > 1 else np.prod(signs) < 0
    np.testing.assert_allclose(scores.squares[0], line[line.mean(axis=1).argmin()], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(scores.wrong[0], wrong[line.mean(axis=1).argmin()])
    assert scores.of_classes.error(Move(2.0, damping)) == pytest.approx(scores.wrong.mean())
    np.testing.assert_allclose(scores.path.unseen, line.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(scores.path.seen, seen.mean(axis=1), rtol=1e-6)


def test_noise_is_noise_and_a_single_index_is_found():
    """A step that has seen the labels looks good on them: the naive leave-one-out error would take it on pure noise."""
    layer = layer_of("relu", 64, 10)
    noise, _ = sample_of(60, lambda z, random: random.standard_normal(len(z)))
    moves = [*candidates(math.inf, redraw=False), *candidates(0.1, redraw=False)[1:]]
    metric = measure(noise)
    for n_steps in (1, 3):
        assert score_steps(layer, noise, metric, moves, n_steps).errors.min() > 0.95
    signal, _ = sample_of(400, index)
    metric = measure(signal)
    errors = score_steps(layer, signal, metric, moves, 1)
    assert errors.chosen != NO_STEP
    gain, deviation = errors.gain(errors.chosen)
    assert gain > 5 * deviation > 0


def test_smooth_neurons_are_scored_as_those_of_a_layer_that_has_them():
    layer = layer_of("relu", 64, 10)
    sample, _ = sample_of(200, index)
    metric = measure(sample)
    moves = candidates(math.inf, redraw=True, smooth=True)
    found = score_steps(layer, sample, metric, moves, 1)
    smooth = [move for move in moves if move.smooth]
    assert [move._replace(smooth=False) for move in smooth] == [moves[0], moves[3]]
    of_tanh = score_steps(layer.smooth(), sample, metric, [moves[0], moves[3]], 1)
    np.testing.assert_allclose(found.squares[[moves.index(move) for move in smooth]], of_tanh.squares, rtol=1e-12)
    assert not np.allclose(found.squares[moves.index(smooth[0])], found.squares[0])


@pytest.mark.parametrize(
    ("none", "large", "spread", "chosen"),
    [
        (1.1, 0.9, 0.0, 6.0),
        (1.1, 0.89, 1.0, 6.0),  # 400 rows: a standard error of 0.05
        (1.1, 0.95, 1.0, 0.25),
        (0.95, 0.95, 1.0, 0.25),
        (0.85, 0.88, 1.0, 0.0),
        (1.0, 1.0, 0.0, 0.0),
    ],
)
def test_the_small_step_yields_to_what_is_clearly_better(none, large, spread, chosen):
    sign = np.where(np.arange(400) % 2, 1.0, -1.0)
    squares = np.stack([none + spread * sign, np.ones(400), large + spread * sign])
    moves = (NO_STEP, Move(0.25, 1.0), Move(6.0, 1.0))
    assert StepErrors(moves, squares, np.ones(400), np.arange(400), (None,) * 3).chosen.scale == chosen


@pytest.mark.parametrize(
    ("n", "d"),
    [
        pytest.param(300, 100, marks=pytest.mark.statistical),
        (200, 20),
        pytest.param(1000, 50, marks=pytest.mark.statistical),
    ],
)
def test_noise_is_not_fitted_through_the_step(n, d):
    for seed in range(4):
        random = np.random.default_rng(seed)
        X, y = random.normal(size=(n, d)), random.normal(size=n)
        model = gs.OneStepRegressor(512, random_state=seed).fit(X, y)
        # The mean alone loses 1/n against the truth; the errors of the fit itself ask for a penalty of no use.
        assert np.mean(model.predict(random.normal(size=(2000, d))) ** 2) < 8 / n + 0.02
        by_fit = model.ridge_path_[np.argmin(model.ridge_errors_)]
        leaky = gs.OneStepRegressor(512, random_state=seed, ridge=by_fit).fit(X, y)
        assert leaky.ridge_ <= model.ridge_
    assert np.mean(leaky.predict(random.normal(size=(2000, d))) ** 2) > 0.05


def test_what_the_step_saves_is_added_to_the_errors_of_the_fit():
    penalties = np.array([0.01, 0.1, 1.0, 10.0])
    errors = np.array([0.5, 0.4, 0.45, 0.9])
    unseen = np.array([0.9, 0.6, 0.5, 1.0])

    def best(unseen, seen, errors=errors, least=1):
        return PenaltyPath(penalties, unseen, np.asarray(seen)).best(penalties, errors, least)

    assert best(unseen, unseen) == 1  # nothing saved, although these errors ask for the next one
    assert best(unseen, [0.5, 0.4, 0.45, 1.0]) == 2  # 0.2 saved against 0.05
    assert best(unseen, [0.1, 0.6, 0.5, 1.0], errors=np.array([0.3, 0.4, 0.45, 0.9])) == 1
    assert best(np.array([1.3, 1.2, 1.1, 1.0]), [1.3, 1.2, 1.1, 1.0]) == 3  # hardly any fit is better: noise
    assert best(unseen, unseen, errors=np.ones(4)) == 3


def test_the_penalty_is_not_that_of_a_smaller_network():
    """The narrow network after steps on fewer rows needs a penalty with which the fit would lose a tenth of all."""
    random = np.random.default_rng(101)
    X, fresh = random.standard_normal((400, 8)), random.standard_normal((3000, 8))
    y, truth = (np.sin(2 * inputs[:, :4]).sum(axis=1) for inputs in (X, fresh))
    y = y + 0.3 * random.standard_normal(400)
    auto = gs.OneStepRegressor(512, n_steps=1, random_state=1).fit(X, y)
    given = (auto.set_params(ridge=ridge) for ridge in auto.ridge_path_[10:25:3])
    chosen = auto.score(fresh, truth)
    assert max(model.fit(X, y).score(fresh, truth) for model in given) < chosen + 0.03


def test_a_clear_signal_keeps_the_penalty_of_the_fit():
    random = np.random.default_rng(1)
    X = random.normal(size=(400, 20))
    y = np.tanh(2 * X @ random.normal(size=20) / 20**0.5) + 0.2 * random.normal(size=400)
    model = gs.OneStepRegressor(random_state=0).fit(X, y)
    assert model.step_scale_ > 0
    assert model.ridge_ == model.ridge_path_[np.argmin(model.ridge_errors_)]


def test_one_distinct_row_is_not_stepped_on():
    z, y, w, rows = np.zeros((2, 10)), np.array([[-1.0], [1.0]]), np.ones(2), np.ones(2, dtype=bool)
    same = Sample(z, y, w, copies_of(np.zeros(2, np.uint64), y, w), rows, rows)
    metric = measure(same)
    assert score_steps(layer_of("relu", 8, 10), same, metric, candidates(math.inf, redraw=False), 2).chosen == NO_STEP


def test_choice_width():
    assert choice_width(8, 1000) == 8
    assert choice_width(512, 10_000) == 128
    assert choice_width(10_000, 10_000) == 256
    assert choice_width(512, 100) == 50


@pytest.mark.parametrize("rows", [40, 150, 3000])
def test_few_rows_of_other_classes_are_no_clear_gain(rows):
    """Rows that only one of two moves gets right are heads or tails by chance; one in twenty or so is clear."""

    def gain(better, worse):
        wrong = np.zeros((2, rows))
        wrong[0, :better], wrong[1, better : better + worse] = 1.0, 1.0
        moves, path = (NO_STEP, Move(0.25, math.inf)), (None, None)
        steps = StepErrors(moves, 2 * wrong, np.ones(rows), np.arange(rows), path, wrong)
        return steps.of_classes.gain(moves[1])

    for different in range(1, 19):
        gains = [gain(better, different - better) for better in range(different + 1)]
        clear = [math.comb(different, k) for k, (found, error) in enumerate(gains) if abs(found) >= CLEARLY * error]
        assert sum(clear) / 2**different < 0.07
    # And what is clear remains so.
    assert gain(6, 0)[0] == pytest.approx(6 / rows)
    assert gain(6, 0)[0] > CLEARLY * gain(6, 0)[1]
    assert gain(0, 0)[1] == pytest.approx(math.sqrt(2) / rows)
