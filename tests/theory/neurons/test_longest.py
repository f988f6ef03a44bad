"""The longest of all directions: what each class gives, and the poles of this part."""

import numpy as np
import pytest

from gradstep.theory.neurons.longest import Longest


def test_the_longest_direction_is_taken_whole_or_from_all_alike():
    share, longest = np.array([0.01, 0.04, 0.95]), Longest(0.01, 1.0)
    # A direction that is far longer than all others; several that are as long, of which each gives the same part.
    assert longest.part(share, np.array([50.0, 2.0, 0.5])) == pytest.approx([1, 0, 0], abs=1e-3)
    assert longest.part(share, np.array([50.0, 50.0, 0.5])) == pytest.approx([0.2, 0.2, 0], abs=1e-6)
    # Nothing jumps where two classes change places.
    near = [longest.part(share, np.array([2.0 + by, 2.0 - by, 0.5])) for by in (-1e-6, 1e-6)]
    assert near[0] == pytest.approx(near[1], abs=1e-5)


def test_the_part_of_a_class_is_a_sum_over_its_poles():
    share, variance = np.array([0.01, 0.02, 0.07, 0.9]), np.array([40.0, 25.0, 6.0, 0.4])
    longest, mean = Longest.of_classes(0.015, share, variance), share @ variance
    poles, part = longest.poles, longest.part(share, variance)
    assert share @ part == pytest.approx(0.015)
    # The level of the classes is that of their poles.
    assert np.abs(poles) == pytest.approx(longest.level)
    assert 1 / (1 + (longest.level * mean / variance) ** 8) == pytest.approx(part, abs=1e-9)
    apart = variance[:, None] / mean - poles
    assert 1 + (poles / apart).real.sum(axis=1) / 4 == pytest.approx(part, abs=1e-9)
    # The squares of what is left, which the norm of the other directions has.
    assert -(mean**2) * (poles**3 / apart).real.sum(axis=1) / 4 == pytest.approx((1 - part) * variance**2)
