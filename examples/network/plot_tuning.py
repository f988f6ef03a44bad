r"""
The best ridge and the best step
================================

The prediction is a smooth function of penalty and step size, so that its minimum can be found and certified. The network
then confirms the minimum.
"""

# %%
# A certificate
# -------------

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
# All penalties are measured on the same networks, with one factorisation for each network. The diamond is the optimum.

curve = gs.curve(
    problem,
    over={"ridge": "0.05:500:log9", "eta": [0, "N^0.5", best.problem.eta]},
    seeds=8,
    progress=False,
)
figure = curve.plot("test_error")
place = best["ridge"].value, best.prediction.test_error
figure.axes[0].plot(*place, "D", color="C0", mec="#22252b", ms=9, zorder=30)
figure
