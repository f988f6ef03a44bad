"""A problem of which both directions are resolved, for the tests of the plane."""

import gradstep as gs

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
