r"""
The function that the network learns
====================================

This example shows the mean output of the trained network given the projection :math:`\kappa` of the input on the spike, for
four sizes of the step. Without a step it is a line; after a large step it has the shape of the teacher.
"""

# %%
# Along the spike
# ---------------
# `Prediction.curve` contains the function, and the mean of the teacher at the same projection. This mean is flatter than
# the teacher itself, because the spike comes from finitely many samples and its direction is not exactly the teacher's.

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs

problem = gs.Problem(
    activation="erf",
    teacher="sin(2*x)",
    d=300,
    width=600,
    n_step=6000,
    n=1800,
    eta=0.0,
    ridge=1.0,
    noise=0.1,
)

kappa = np.linspace(-3, 3, 200)
figure, axes = plt.subplots()
for coefficient, colour in ((0.0, "C3"), (1.0, "C1"), (3.0, "C2"), (9.0, "C0")):
    prediction = gs.predict(problem.replace(eta=gs.Step(coefficient, 0.5)))
    axes.plot(
        kappa,
        prediction.learned(kappa),
        colour,
        label=rf"$\eta={coefficient:g}\sqrt{{N}}$" if coefficient else "no step",
    )
    error, alignment = prediction.test_error, prediction.alignment
    print(
        f"η = {coefficient:g}√N: test error {error:.4f}, alignment {alignment:.3f}"
    )
curve = prediction.curve
axes.plot(
    kappa,
    curve.smooth(curve.target, kappa),
    "--",
    color="#22252b",
    lw=1.2,
    label="teacher, seen from the spike",
)
axes.set(xlabel="projection κ of the input on the spike", ylabel="mean output")
axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
