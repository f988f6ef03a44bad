"""A problem of which both directions are resolved, for the tests of the plane."""

import numpy as np

import gradstep as gs
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.equivalent.uniform import solve

#: An even teacher, of which one direction alone sees nothing but the norm.
EVEN = gs.Problem(
    activation="x+.3*hermite2",
    teacher="x**2-1",
    d=100,
    width=150,
    n_step=300,
    n=250,
    eta=gs.Step(1.5, 0.5),
    ridge=1.0,
    noise=0.3,
    readout="constant",
)


def solution_of(network, problem):
    """Return the solution for a network that is described in one way."""
    sizes = sizes_of(problem)
    return solve(
        network.tables.shared,
        noise=np.array([problem.noise]),
        dimension=np.array([sizes.d]),
        width=np.array([sizes.width]),
        samples=np.array([sizes.n]),
        ridge=np.array([sizes.ridge]),
    )


def errors_of(network, problem):
    """Return test and training error of a network that is described in one way."""
    found = solution_of(network, problem)
    return np.array([found.test_error[0], found.train_error[0]])
