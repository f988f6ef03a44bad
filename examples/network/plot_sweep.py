r"""
A sweep, as one labelled dataset
================================

This example computes theory and simulation on a grid of problems and returns an `xarray.Dataset`. With a ``store`` a sweep
can be interrupted and resumed; here it is small and stays in memory.
"""

# %%
# Run it
# ------

import matplotlib.pyplot as plt

import gradstep as gs

problem = gs.Problem(
    activation="tanh",
    teacher="tanh(2*x)",
    d=100,
    width=150,
    n_step=400,
    n=300,
    eta=gs.Step(1.0, 0.5),
    ridge=1.0,
    noise=0.2,
)
data = gs.sweep(
    problem,
    over={"n": [50, 100, 200, 400, 800], "ridge": [0.01, 1.0, 100.0]},
    seeds=6,
    workers=1,
)
print(data)

# %%
# Draw it
# -------
# Every quantity has a mean, a standard error and a prediction, with names that begin with that of the quantity.

figure, axes = plt.subplots()
for ridge, colour in zip(data.ridge.values, ("C3", "C1", "C0"), strict=True):
    line = data.sel(ridge=ridge)
    axes.loglog(line.n, line.test_error_theory, colour, label=f"ridge = {ridge:g}")
    axes.errorbar(
        line.n,
        line.test_error_mean,
        line.test_error_standard_error,
        fmt="o",
        color=colour,
    )
axes.set(xlabel="samples of the fit, n", ylabel="test error")
axes.legend()
