"""Laws of inputs estimated from tables: against the law that a table was drawn from, in standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import gradstep as gs

Array = NDArray[np.float64]


def curve(t: Array) -> Array:
    return np.asarray(np.tanh(t) + 0.3 * (t**2 - 1) / math.sqrt(2))


def table(seed: int, c: Array, part: Array, rows: int) -> tuple[Array, Array]:
    """Draw rows turned by a random rotation, and labels of `curve` with noise of 0.2."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, len(c))) * np.sqrt(c)
    labels = curve(x @ np.sqrt(part / c)) + 0.2 * random.standard_normal(rows)
    return 3 * x @ np.linalg.qr(random.standard_normal((len(c), len(c))))[0] + 7, labels


def classes_of(values: Array, law: gs.Inputs) -> list[Array]:
    return np.split(values, np.round(np.cumsum(law.share)[:-1] * len(values)).astype(int))


@pytest.mark.parametrize(
    ("d", "rows", "exponent", "teacher"),
    [
        pytest.param(60, 90, 0.5, 0.5, marks=pytest.mark.statistical),
        (60, 240, 1, 1),
        pytest.param(60, 1500, 0.5, 0, marks=pytest.mark.statistical),
        (20, 600, 1, 0),
    ],
)
def test_values_are_within_their_errors_of_the_law_that_was_drawn(
    d: int, rows: int, exponent: float, teacher: float
) -> None:
    c, part = np.arange(1, d + 1.0) ** -exponent, np.arange(1, d + 1.0) ** -teacher
    c, part = c / c.mean(), part / part.sum()
    nodes = np.random.default_rng(1).standard_normal(10**6)
    hermite = [1, nodes, (nodes**2 - 1) / math.sqrt(2), (nodes**3 - 3 * nodes) / math.sqrt(6)]
    expected = np.array([np.mean(curve(nodes) * h) for h in hermite])
    noise = math.sqrt(np.mean(curve(nodes) ** 2) - expected @ expected + 0.04)
    z: dict[str, list[float]] = {"eigenvalues": [], "teacher": [], "link": []}
    for seed in range(8):
        law = gs.Inputs.from_data(*table(seed, c, part, rows), classes=6)
        true = np.array([[own.mean() for own in classes_of(c, law)], [own.sum() for own in classes_of(part, law)]])
        z["eigenvalues"] += list((np.array(law.eigenvalues) - true[0]) / law.eigenvalue_error)
        z["teacher"] += list((np.array(law.teacher) - true[1]) / law.teacher_error)
        z["link"] += list((np.array(law.coefficients) - expected) / law.coefficient_error)
        z["link"].append((law.noise - noise) / law.noise_error)
    for name, values in z.items():
        # The errors are cautious where classes are hard to tell apart, so that there is no lower bound.
        assert np.sqrt(np.mean(np.square(values))) < 1.5, name
        assert np.abs(values).max() < 5, name


def test_the_spread_that_a_small_sample_adds_is_taken_away() -> None:
    c = np.repeat([4.0, 0.25], [12, 48])
    x, _ = table(0, c / c.mean(), np.full(60, 1 / 60), 120)
    law = gs.Inputs.from_data(x)
    centred = x - x.mean(axis=0)
    sample = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1] / (centred**2).sum() * 60
    square = np.mean((c / c.mean()) ** 2)
    # A sample's second moment has a mean square that is larger by d / n.
    assert np.mean(sample**2) == pytest.approx(square + 0.5, rel=0.05)
    assert 1 / law.effective_dimension == pytest.approx(square, rel=0.05)


def test_rotations_shifts_and_scales_change_nothing() -> None:
    x, y = table(0, np.arange(1, 31.0) ** -0.5, np.full(30, 1 / 30), 200)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((30, 30)))[0]
    one, other = gs.Inputs.from_data(x, y), gs.Inputs.from_data(1e-3 * x @ turn - 4, y)
    assert_allclose(one.eigenvalues, other.eigenvalues, rtol=1e-5)
    assert_allclose(one.teacher, other.teacher, atol=1e-5)
    assert_allclose(one.coefficients, other.coefficients, atol=1e-5)


@pytest.mark.parametrize("exponent", [900, 20, -40, -900])
def test_labels_of_any_size_have_the_same_law(exponent: int) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 5))
    y, unit = 0.5 + np.tanh(x[:, 0]) + 0.1 * random.standard_normal(60), 2.0**exponent
    plain, scaled = gs.Inputs.from_data(x, y), gs.Inputs.from_data(x, unit * y)
    assert scaled.teacher == plain.teacher
    assert scaled.teacher_error == plain.teacher_error
    for name in ("coefficients", "coefficient_error", "noise", "noise_error"):
        np.testing.assert_array_equal(getattr(scaled, name), unit * np.array(getattr(plain, name)))
    first, *others = scaled.link.split()  # the constant, and the terms after it
    assert float(first) == unit * plain.coefficients[0]
    assert len(others) == len(plain.link.split()) - 1


def test_an_estimate_is_a_law_for_problems_and_its_link_a_teacher() -> None:
    x, y = table(0, np.arange(1, 31.0) ** -0.7, np.full(30, 1 / 30), 300)
    law = gs.Inputs.from_data(x, y)
    sizes: dict[str, Any] = {"d": 30, "width": 40, "n_step": 100, "n": 100, "eta": 1.0, "ridge": 1.0}
    problem = gs.Problem(activation="tanh", teacher=law.link, noise=law.noise, inputs=law, **sizes)
    assert type(problem.inputs) is gs.Inputs
    assert gs.Problem.from_dict(problem.to_dict()) == problem
    assert "H2" in law.link
    assert len(str(law.summary()).splitlines()) <= 24
    assert gs.simulate(problem, 1)["test_error"][0] > 0


def test_without_labels_the_teacher_is_drawn_at_random() -> None:
    law = gs.Inputs.from_data(np.random.default_rng(0).standard_normal((60, 10)) * np.arange(1, 11))
    assert law.teacher == pytest.approx(np.array(law.share) * law.eigenvalues)
    assert law.teacher_error == ()
    assert "nan" in str(law.summary()) or "-" in str(law.summary())
    with pytest.raises(gs.InvalidInput, match=r"^y: "):
        _ = law.link


@pytest.mark.parametrize("rows", [25, 200])
def test_tables_of_low_rank_and_labels_that_are_constant(rows: int) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 4)) @ random.standard_normal((4, 40))
    law = gs.Inputs.from_data(x, np.ones(rows))
    assert law.effective_dimension < 0.2
    assert law.coefficients == ()
    assert np.isfinite(law.eigenvalue_error).all()
    # Labels without noise: nothing but the rank tells the ridge regressions of the link from plain ones.
    exact = gs.Inputs.from_data(x, x[:, 0])
    assert exact.alignment == pytest.approx(1, abs=0.05)  # that of few numbers with normal scores
    assert exact.coefficients[1] == pytest.approx(np.std(x[:, 0]), rel=0.05)


def test_columns_that_are_constant_or_copies_change_no_link() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 3))
    y = x[:, 0] + 0.1 * random.standard_normal(60)
    for more in (np.ones((60, 1)), x[:, :1]):
        law = gs.Inputs.from_data(np.column_stack([x, more]), y)
        assert law.coefficients[1] == pytest.approx(np.std(y), rel=0.1)


@pytest.mark.parametrize(
    ("x", "y", "field"),
    [
        (np.ones((30, 4)), None, "X"),
        (np.zeros((19, 4)), None, "X"),
        (np.zeros(30), None, "X"),
        (np.full((30, 4), np.nan), None, "X"),
        (np.eye(30), np.ones(29), "y"),
        (np.eye(30), np.full(30, np.inf), "y"),
        (np.eye(30), ["a"] * 30, "y"),
    ],
)
def test_tables_that_are_none_are_refused(x: Any, y: Any, field: str) -> None:
    with pytest.raises(gs.InvalidInput, match=f"^{field}: "):
        gs.Inputs.from_data(x, y)


@pytest.mark.statistical
def test_the_errors_of_a_link_are_those_of_other_tables() -> None:
    c, part = np.arange(1, 31.0) ** -0.5, np.full(30, 1 / 30)
    laws = [gs.Inputs.from_data(*table(seed, c / c.mean(), part, 600), classes=3) for seed in range(40)]
    found = np.array([[*law.coefficients, law.noise] for law in laws])
    told = np.array([[*law.coefficient_error, law.noise_error] for law in laws])
    ratio = np.sqrt(np.mean(told**2, axis=0)) / found.std(axis=0, ddof=1)
    # Forty tables know a standard deviation to a ninth; a jackknife of ten blocks errs upwards.
    assert np.all((ratio > 0.7) & (ratio < 1.6)), ratio


def test_labels_that_no_linear_prediction_follows_have_no_link() -> None:
    links = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        x = random.standard_normal((300, 20))
        law = gs.Inputs.from_data(x, x[:, 0] ** 2)
        if law.coefficients:
            links += 1
            # What little of the labels looks linear; it is no more than they vary.
            assert 0 <= law.coefficients[1] < math.sqrt(2)
            assert law.alignment > 0.01
            continue
        assert math.isnan(law.noise)
        with pytest.raises(gs.InvalidInput, match="labels that linear predictions follow"):
            _ = law.link
        assert not law.teacher_error or "no link" in str(law.summary())
    assert links < 20


def test_a_constant_in_the_labels_changes_their_mean_only():
    random = np.random.default_rng(0)
    X = random.standard_normal((300, 10)) * np.arange(1, 11) ** -0.5
    y = np.tanh(2 * X[:, 0]) + 0.2 * random.standard_normal(300)
    found, moved = gs.Inputs.from_data(X, y), gs.Inputs.from_data(X, y + 50)
    assert moved.coefficients[0] == pytest.approx(found.coefficients[0] + 50)
    np.testing.assert_allclose(moved.coefficients[1:], found.coefficients[1:], atol=1e-9)
    np.testing.assert_allclose(moved.coefficient_error[1:], found.coefficient_error[1:], atol=1e-9)
    assert moved.noise == pytest.approx(found.noise, abs=1e-9)


def laws_of(links: Any, rows: int, c: Array, noise: float, seeds: int) -> list[tuple[Any, float]]:
    """Return laws and variances of labels that are such a function of a projection that is drawn at random."""
    laws = []
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        z, direction = random.standard_normal((rows, len(c))), random.standard_normal(len(c)) * np.sqrt(c)
        labels = links(z @ direction / np.linalg.norm(direction)) + noise * random.standard_normal(rows)
        laws.append((gs.Inputs.from_data(z * np.sqrt(c), labels), float(labels.var())))
    return laws


def test_a_straight_line_has_no_third_coefficient_in_few_rows() -> None:
    laws = laws_of(lambda t: t, 150, np.ones(5), 0.0, 40)
    third = np.array([law.coefficients[3] for law, _ in laws])
    # Sums over 150 normal scores lack .05, the mean is known to .006.
    assert abs(third.mean()) < 0.025


def test_little_noise_is_told_from_a_signal_that_is_uneven_within_its_classes() -> None:
    laws = laws_of(lambda t: t, 360, np.arange(1, 61.0) ** -1.5, 0.1, 8)
    assert np.mean([law.noise for law, _ in laws]) == pytest.approx(0.1, rel=0.05)


def test_what_the_formula_of_the_link_leaves_out_is_noise() -> None:
    left_out = 0
    for law, variance in laws_of(curve, 200, np.arange(1, 21.0) ** -0.5, 0.6, 6):
        told = [law.coefficients[k] ** 2 for k in (1, 2, 3) if f"H{k}" in law.link]
        left_out += 3 - len(told)
        assert law.noise == pytest.approx(math.sqrt(variance - sum(told)), rel=0.01)
    assert left_out > 2


def test_a_noise_that_is_found_to_be_zero_has_an_error() -> None:
    for law, _ in laws_of(lambda t: t, 50, np.ones(100), 0.5, 12):
        assert abs(law.noise - 0.5) < 2.5 * law.noise_error
