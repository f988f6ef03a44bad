"""What several files share: the quick preset of every figure, measured once, and large steps that several try."""

import dataclasses
import os
import pickle
from functools import cache

import numpy as np
import pytest
from locket import lock_file

from gradstep.papers.ba2022 import Coefficients
from gradstep.papers.figure import load_figures
from gradstep.sweeps import Store, execute

#: Activation, teacher, step size, samples of the step per dimension, noise.
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


#: Places on lines. What is judged is compared at the points, which every line has, so that few places lose no check.
LINE = 2
#: What the fast preset has besides: fewer places of theory that is slow, or is many fits, and fewer points or networks.
#: Of three points or more every other figure has the first and the last.
SPARSE = {
    "convex_classes": {"points": [2.4]},
    "corrected_spikes": {"grid": 5},
    "feature_spectrum": {"grid": 3},
    "fig8_spectrum": {"grid": 3},
    "optimisers": {"points": [0.0, 1.0], "seeds": 3},
    "phase_diagram": {"columns": 2, "rows": 2, "seeds": 4},
    "proposition2": {"points": [48, 96, 192]},
    "reused_samples": {"d": 300, "points": [16.0], "seeds": 4},
    "setting1": {"grid": 5},
    "several_steps": {"line": 0, "pool": 20, "points": [4.0], "seeds": 2},
    "staircase": {"grid": 5, "points": [0.1, 0.4]},
    "tuned_curves": {"lines": 2},
    "weights_spectrum": {"grid": 5},
    "weights_spectrum_m1": {"grid": 3},
}


def fast(name, preset):
    """Return the quick preset of a figure with fewer points and places."""
    points = preset.get("points", ())
    ends = {"points": [points[0], points[-1]]} if len(points) > 2 and name not in SPARSE else {}
    return {**preset, "line": LINE, **ends, **SPARSE.get(name, {})}


def kept_by_all_processes(folder, name, make):
    """Return what `make` returns, which one of the parallel test processes calls and the others wait for."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.pickle"
    with lock_file(str(folder / f"{name}.lock")):
        if not path.exists():
            path.write_bytes(pickle.dumps(make()))
    return pickle.loads(path.read_bytes())


@pytest.fixture(scope="session")
def figures_folder(tmp_path_factory):
    """Return a folder of this run: those of parallel test processes lie in one."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "figures"


@pytest.fixture(scope="session")
def measured(figures_folder):
    """Return a function: a figure by name, and the results of its quick preset, whole or fast."""

    @cache
    def of(name, whole=False):
        (figure,) = load_figures([name])
        preset = figure.presets["quick"]
        figure = dataclasses.replace(figure, presets={"quick": preset if whole else fast(name, preset)})

        def run():
            found = dict(execute(figure.tasks("quick"), Store(figures_folder / "store"), workers=1))
            return [found[place] for place in range(len(found))]

        return figure, kept_by_all_processes(figures_folder, f"{name}-{whole}-measured", run)

    return of


@pytest.fixture(scope="session")
def quick(measured, figures_folder):
    """Return a function: the finished quick preset of a figure by name."""

    @cache
    def of(name, whole=False):
        figure, results = measured(name, whole)
        return kept_by_all_processes(figures_folder, f"{name}-{whole}", lambda: figure.assemble("quick", results))

    return of


@pytest.fixture(scope="session")
def of():
    """Return a function: the arguments of the functions of Ba et al., coefficients together; no function has a mean."""

    def together(given_=None, **others):
        every = {**(given_ or {}), **others}
        moments_ = {
            name: np.asarray(every.pop(name)) for name in ("mu1", "mu2_squared", "mu1_star", "mu2_star_squared")
        }
        return {"values": Coefficients(mu0=np.zeros(()), mu0_star=np.zeros(()), **moments_), **every}

    return together


@pytest.fixture(scope="session")
def random_settings():
    """Return a function: settings of random features by a seed, of a step too if asked, for `of`."""

    def drawn(seed, points=400, lam=(-10, 10), step=False):
        generator = np.random.default_rng(seed)

        def logarithmic(low, high):
            return 10 ** generator.uniform(low, high, points)

        found = {
            "psi1": logarithmic(-2, 2),
            "psi2": logarithmic(-2, 2),
            "lam": logarithmic(*lam),
            "mu1": logarithmic(-1, 0.5) * generator.choice([-1, 1], points),
            "mu2_squared": logarithmic(-3, 0.5),
            "mu1_star": logarithmic(-1, 0.5) * generator.choice([-1, 1], points),
            "mu2_star_squared": logarithmic(-3, 0.5),
            "sigma_eps": logarithmic(-2, 0.5),
        }
        return found | ({"eta": logarithmic(-2, 2), "psi1_step": logarithmic(-1, 3)} if step else {})

    return drawn
