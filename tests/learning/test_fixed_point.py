"""Acceleration: linear maps end when the combined places span their factors, and columns do not disturb others."""

import numpy as np

from gradstep.learning.fixed_point import accelerated


def test_two_factors_take_four_images():
    random = np.random.default_rng(0)
    basis, _ = np.linalg.qr(random.standard_normal((30, 30)))
    matrix = basis * np.where(np.arange(30) % 2, 0.9, 0.4) @ basis.T
    end = -random.uniform(50, 60, (30, 3))
    images = []

    def image(place):
        images.append(place)
        return end + matrix @ (place - end)

    found, residual = accelerated(image, end - random.standard_normal((30, 3)), 100, 1e-9)
    assert residual <= 1e-9
    assert len(images) == 4
    np.testing.assert_allclose(found, end, atol=1e-8)


def test_a_column_at_its_fixed_point_stays_there():
    factors, end = np.array([0.5, 0.97, 0.0]), np.full((4, 3), -2.0)
    start = end + np.array([1.0, 1.0, 0.0])
    found, residual = accelerated(lambda place: end + factors * (place - end), start, 50, 1e-10)
    assert residual <= 1e-10
    np.testing.assert_array_equal(found[:, 2], end[:, 2])


def test_what_has_not_ended_is_told_by_the_residual():
    found, residual = accelerated(lambda place: place - 1.0, np.zeros((2, 1)), 5, 1e-3)
    assert residual == 1.0
    assert (found < 0).all()


def test_places_stay_at_zero_or_below():
    found, _ = accelerated(lambda place: np.minimum(0.9 * place + 0.2, 0.0), np.full((2, 1), -3.0), 60, 1e-12)
    np.testing.assert_array_equal(found, np.zeros((2, 1)))
