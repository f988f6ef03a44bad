"""Large steps that several files try: activation, teacher, step size, samples of the step per dimension, noise."""

import numpy as np
import pytest

CASES = {
    "tanh-sin": ("tanh", "sin", 3.0, 20.0, 0.0),
    "tanh-tanh": ("tanh", "tanh", 1.0, 0.5, 0.3),
    "erf-sign": ("erf", "sign", 2.0, np.inf, 0.1),
    "tanh-relu": ("tanh", "relu", 1.5, 3.0, 0.2),
    "relu-softplus": ("relu", "softplus", 0.7, 4.0, 0.2),
    "linear-sin": ("linear", "sin", 1.0, 2.0, 0.1),
    "sin-tanh": ("sin", "tanh", 6.0, 2.0, 0.0),
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[str, str, float, float, float]:
    """Return each of them."""
    return request.param


@pytest.fixture(params=list(CASES.values())[:5], ids=list(CASES)[:5])
def common_case(request: pytest.FixtureRequest) -> tuple[str, str, float, float, float]:
    """Return each but those of a linear and of an oscillating activation."""
    return request.param
