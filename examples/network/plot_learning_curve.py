r"""
A learning curve: theory over simulation
========================================

This example shows the test error as a function of the number of samples, without a step and with a large one. Only with the
step is it smaller than that of the best linear predictor, which is a lower bound for every rotation-invariant kernel.
"""

# %%
# One problem, two step sizes
# ---------------------------

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs
from gradstep.gaussian import moments

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
steps = {"no step": 0.0, "η = 3√N": gs.Step(3.0, exponent=0.5)}

# %%
# Theory on a fine grid, the network on a coarse one
# --------------------------------------------------
# Problems that differ only in ``n`` and ``ridge`` share their tables, so that a whole curve takes little longer than a
# point. The peak is at :math:`n=N`, where the fit begins to interpolate.

fine = np.unique(np.geomspace(75, 2400, 60).astype(int))
coarse = [75, 150, 225, 450, 900, 1800]

figure, axes = plt.subplots()
for (name, eta), colour in zip(steps.items(), ("C3", "C0"), strict=True):
    curve = gs.predict_many(problem.replace(eta=eta, n=int(n)) for n in fine)
    axes.semilogx(
        fine / problem.d,
        [p.test_error for p in curve],
        colour,
        label=f"{name}, theory",
    )
    found = gs.compare([problem.replace(eta=eta, n=n) for n in coarse], seeds=8)
    axes.errorbar(
        np.array(coarse) / problem.d,
        found["test_error"].mean,
        found["test_error"].standard_error,
        fmt="o",
        color=colour,
        label=f"{name}, network",
    )
teacher = moments(problem.teacher)
axes.axhline(
    teacher.second_moment - teacher.linear**2,
    color="0.4",
    ls="--",
    lw=1,
    label="best linear predictor",
)
axes.set(xlabel="samples per dimension, n/d", ylabel="test error")
axes.legend()

# %%
# The difference between theory and network
# -----------------------------------------
# The table is about the last curve. z is the difference in standard errors, on a scale that does not depend on the number
# of seeds: z is standard normal if theory is right.

table = found.to_frame().query("quantity == 'test_error'").round(4)
print(table[["n", "theory", "mean", "standard_error", "z"]].to_string(index=False))
print(*found.notes(), sep="\n")
