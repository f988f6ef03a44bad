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
# Every quantity has a mean, a standard error and a prediction, with names that begin with that of the quantity. The
# networks are points. Between them `gs.curve` predicts at many more places, which takes less than a second; it counts
# samples that are given as multiples of d in units of d.

over = {"n": "0.5d:8d:log120", "ridge": [0.01, 1.0, 100.0]}
dense = gs.curve(problem, over=over).to_xarray()
figure, axes = plt.subplots()
for ridge, colour in zip(data.ridge.values, ("C3", "C1", "C0"), strict=True):
    theory, line = dense.sel(ridge=ridge), data.sel(ridge=ridge)
    label = f"ridge = {ridge:g}"
    axes.loglog(problem.d * theory.n, theory.test_error_theory, colour, label=label)
    axes.errorbar(
        line.n,
        line.test_error_mean,
        line.test_error_standard_error,
        fmt="o",
        color=colour,
    )
axes.set(xlabel="samples of the fit, n", ylabel="test error")
axes.set_xticks(data.n.values, data.n.values)
axes.set_xticks([], minor=True)
axes.legend()
