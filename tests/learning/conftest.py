"""Pools of rows for the tests of learning curves."""

import numpy as np
import pytest


@pytest.fixture
def rows():
    """Return a function that draws features, targets of two outputs and weights, with leverages that differ by much."""

    def draw(count=60, width=25, outputs=2, seed=0):
        random = np.random.default_rng(seed)
        features = random.standard_normal((count, width)) * random.choice([0.5, 1.0, 2.0], count)[:, None]
        targets = features[:, :outputs] + random.standard_normal((count, outputs))
        return features, targets, random.uniform(0.5, 2.0, count)

    return draw
