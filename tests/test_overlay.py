"""What z is: against SciPy's laws, against chance, and at the ends of floating point."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from gradstep.overlay import FAR, Overlay, mean_and_error, normal_score
from gradstep.sweeps.progress import Running


@pytest.mark.parametrize("freedom", [1, 2, 7, 15, 100.0, 1e4])
def test_normal_scores_have_the_tail_of_student(freedom):
    t = np.array([1e-6, 0.3, 1.0, 2.5, 6.0, 20.0])
    np.testing.assert_allclose(stats.norm.sf(normal_score(t, freedom)), stats.t.sf(t, freedom), rtol=1e-11)
    np.testing.assert_array_equal(normal_score(-t, freedom), -normal_score(t, freedom))
    assert normal_score(0.0, freedom) == 0
    assert np.isnan(normal_score(np.nan, freedom))
    # Student's law has the wider tails.
    assert np.all(normal_score(t, freedom) <= t * (1 + 1e-12))


@pytest.mark.parametrize(("t", "freedom"), [(60.0, 1000.0), (40.0, 1e5), (3e4, 100.0), (1e9, 40.0), (37.0, 1e7)])
def test_far_tails_are_those_of_an_integral(t, freedom):
    # The density over its value at t, so that nothing underflows.
    density, _ = integrate.quad(
        lambda s: math.exp(-(freedom + 1) / 2 * (np.log1p(s * (2 * t + s) / (freedom + t**2)))),
        0,
        100 * (freedom + t**2) / (freedom * t),
        limit=500,
    )
    log_tail = stats.t.logpdf(t, freedom) + math.log(density)
    assert log_tail < -600
    assert stats.norm.logsf(normal_score(t, freedom)) == pytest.approx(log_tail, rel=1e-8)


def test_scores_grow_steadily_through_the_end_of_floats():
    t = np.geomspace(20, 2e9, 4001)
    for freedom in (31, 50, 500, 1e5):
        score = normal_score(t, freedom)
        assert np.all(np.isfinite(score))
        assert np.all(np.diff(score) > 0)
        # No jump where one formula takes over from the other: the slope in log t changes by little from step to step.
        slope = np.diff(score)
        assert np.max(np.abs(np.diff(slope)) / slope[1:]) < 0.02


@pytest.mark.parametrize("seeds", [2, 3, 5, 16])
def test_z_of_a_right_theory_is_standard_normal(seeds):
    draws = 2.0 + 0.3 * np.random.default_rng(seeds).standard_normal((4000, seeds))
    z = Overlay.of(2.0, draws, axis=1).z
    assert stats.kstest(z, "norm").pvalue > 1e-3
    # The plain ratio is not: the test can fail.
    mean, error, _ = mean_and_error(draws, axis=1)
    if seeds < 16:
        assert stats.kstest((mean - 2.0) / error, "norm").pvalue < 1e-4
    # A theory that is off by a standard error of 64 networks is found.
    assert stats.kstest(Overlay.of(2.0 + 0.3 / 8, draws, axis=1).z, "norm").pvalue < 1e-6


def test_means_and_errors_are_numpys():
    values = np.random.default_rng(1).standard_normal((5, 7, 3))
    mean, error, count = mean_and_error(values, axis=1)
    np.testing.assert_allclose(mean, values.mean(axis=1), rtol=1e-13)
    np.testing.assert_allclose(error, stats.sem(values, axis=1), rtol=1e-13)
    assert np.all(count == 7)
    some = np.array([1.0, np.nan, 3.0, 5.0])
    assert mean_and_error(some) == (3.0, pytest.approx(stats.sem([1.0, 3.0, 5.0])), 3)
    mean, error, count = mean_and_error([4.0])
    assert (mean, count) == (4.0, 1)
    assert np.isnan(error)
    mean, error, count = mean_and_error(np.zeros((0, 2)))
    assert np.isnan([mean, error]).all()
    np.testing.assert_array_equal(count, [0, 0])


def test_running_means_are_those_of_all_values_at_once():
    values = np.random.default_rng(2).standard_normal((6, 2))
    running = Running(1, 2)
    running.predict(0, {"test_error": [0.1, 0.2]})
    for own in values:
        running.add(0, {"test_error": own})
    overlay = Overlay.of([0.1, 0.2], values)
    np.testing.assert_allclose(running.mean[0], overlay.mean)
    np.testing.assert_allclose(running.standard_error()[0], overlay.standard_error)
    assert running.worst_z() == pytest.approx(np.max(np.abs(overlay.z)))


def test_differences():
    overlay = Overlay.of([2.0, -4.0, 0.0], [[2.1, -3.0, 1.0], [2.3, -3.4, 2.0]])
    np.testing.assert_allclose(overlay.difference, [0.2, 0.8, 1.5])
    np.testing.assert_allclose(overlay.relative_difference, [0.1, 0.2, np.nan])
    np.testing.assert_allclose(overlay.t, overlay.difference / overlay.standard_error)
    assert np.all(overlay.z > 0)
    assert np.ndim(Overlay.of(1.0, [1.0, 2.0]).z) == 0


def test_an_allowance_takes_its_share_of_the_difference():
    values = [1.0, 1.01, 1.02, 1.05]
    mean, error, _ = mean_and_error(values)
    overlay = Overlay.of(1.1, values)
    beyond = overlay.z_beyond(0.05)
    assert stats.norm.cdf(beyond) == pytest.approx(stats.t.cdf((mean - 1.1 + 0.05 * 1.1) / error, 3), rel=1e-10)
    assert overlay.z < beyond < 0
    assert overlay.z_beyond(0.1) == 0
    assert overlay.z_beyond(0.0) == overlay.z


def test_where_nothing_varies_digits_decide():
    for right in (Overlay.of(1.0, [1.0] * 4), Overlay.of(0.0, [0.0] * 4), Overlay.of(60 * (1 - 1e-11), [60.0] * 4)):
        assert abs(right.z) < 0.01
        assert right.agrees
    for seeds in (2, 4, 100):
        wrong = Overlay.of(1.0, [1.001] * seeds)
        assert FAR < wrong.z < np.inf
        assert not wrong.agrees
        assert Overlay.of(0.0, [1e-3] * seeds).z > FAR
        assert Overlay.of(1e-3, [0.0] * seeds).z < -FAR
    # What varies by more than the digits is not touched.
    values = [1.0, 1.0 + 3e-9, 1.0 - 2e-9]
    mean, error, _ = mean_and_error(values)
    t = (mean - (1.0 - 1e-8)) / error
    assert stats.norm.sf(Overlay.of(1.0 - 1e-8, values).z) == pytest.approx(stats.t.sf(t, 2), rel=1e-6)


def test_what_has_no_z_does_not_agree():
    for nothing in (
        Overlay.of(np.nan, [1.0, 2.0]),
        Overlay.of(1.0, [1.0]),
        Overlay.of(1.0, [np.nan, np.nan]),
        Overlay.of(np.inf, [1.0, 2.0]),
    ):
        assert np.isnan(nothing.z)
        assert not nothing.agrees
    np.testing.assert_array_equal(Overlay([0.0, 0.0, 0.0], [2.9, -3.1, 0.0], 1.0, 10**9).agrees, [True, False, True])
