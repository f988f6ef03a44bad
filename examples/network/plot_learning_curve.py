r"""
A learning curve: theory over simulation
========================================

This example shows the test error as a function of the number of samples, without a step and with a large one. Only with the
step is it smaller than that of the best linear predictor, which is a lower bound for every rotation-invariant kernel.
"""

# %%
# Theory as lines, the network as points
# --------------------------------------
# Problems that differ only in ``n`` and ``ridge`` share their tables, so that a whole curve takes little longer than a
# point. The peak is at :math:`n=N`, where the fit begins to interpolate.

import gradstep as gs

problem = gs.Problem(
    activation="tanh",
    teacher="sin(1.5*x)",
    d=150,
    width=225,
    n_step=1200,
    n=600,
    eta=0.0,
    ridge=2.0,
    noise=0.1,
)
curve = gs.curve(
    problem,
    over={"n": "0.5d:12d:log7", "eta": [0, "3*N^0.5"]},
    seeds=8,
    progress=False,
)
curve.plot("test_error", references="best linear error")

# %%
# The difference between theory and network
# -----------------------------------------
# z is the difference in standard errors, on a scale that does not depend on the number of seeds: it is standard normal if
# theory is right. The same seeds are used at all places, so that the z of one curve move together.

print(curve)
