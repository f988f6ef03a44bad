r"""
The best ridge and the best step
================================

The prediction is a smooth function of penalty and step size, so that its minimum can be found and certified. The network
then confirms the minimum.
"""

# %%
# A certificate
# -------------

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs

problem = gs.Problem(
    activation="tanh",
    teacher="sin(1.5*x)",
    d=150,
    width=225,
    n_step=600,
    n=600,
    eta=gs.Step(1.0, 0.5),
    ridge=2.0,
    noise=0.2,
)
best = gs.tune(problem, over=("ridge", "eta"))
print(best)

# %%
# Around the optimum
# ------------------
# All penalties are measured on the same networks, with one factorisation for each network.

figure, axes = plt.subplots()
ridges = np.geomspace(0.05, 500, 40)
for coefficient, colour in ((0.0, "C3"), (1.0, "C1"), (best["eta"].value, "C0")):
    stepped = problem.replace(eta=gs.Step(float(coefficient), 0.5))
    curve = gs.predict_many(stepped.replace(ridge=float(ridge)) for ridge in ridges)
    axes.loglog(
        ridges,
        [p.test_error for p in curve],
        colour,
        label=f"η = {coefficient:.3g}√N" if coefficient else "no step",
    )
    path = gs.simulate(stepped, seeds=8, ridge=ridges[::6].tolist())
    axes.errorbar(
        ridges[::6],
        path.mean("test_error"),
        path.standard_error("test_error"),
        fmt="o",
        color=colour,
    )
axes.plot(
    best["ridge"].value,
    best.prediction.test_error,
    "D",
    color="C0",
    mec="#22252b",
    ms=9,
    label="gs.tune",
)
axes.set(xlabel="ridge", ylabel="test error")
axes.legend()
