r"""
More values in the readout, richer features
===========================================

After a large step the spike of a neuron is proportional to its readout weight. With one readout value all neurons have the
same function of the projection; with several values they span a space of functions.
"""

# %%
# Four laws of the readout
# ------------------------
# All laws have a mean square close to one, and each is used at its best penalty, so that only the features differ.

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs

laws = {
    "one value": "constant",
    "two values": {0.45: 0.5, 1.34: 0.5},
    "three values": {0.3: 1 / 3, 0.9: 1 / 3, 1.45: 1 / 3},
    "Gaussian": "gaussian",
}
problem = gs.Problem(
    activation="tanh",
    teacher="sin(2*x)",
    d=200,
    width=400,
    n_step=4000,
    n=1200,
    eta=gs.Step(4.0, 0.5),
    ridge=1.0,
    noise=0.1,
)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9))
kappa = np.linspace(-3, 3, 200)
# Not C3, which is the colour of no step.
colours = ("C0", "C1", "C2", "C4")
for place, (name, law) in enumerate(laws.items()):
    colour = colours[place]
    best = gs.tune(problem.replace(readout=law), over="ridge")
    curve = best.prediction.curve
    left.plot(kappa, curve.smooth(curve.learned, kappa), colour, label=name)
    measured = gs.simulate(best.problem, seeds=4)
    right.plot(place, best.prediction.test_error, "_", color=colour, ms=28, mew=2)
    right.errorbar(
        place,
        measured.mean("test_error"),
        measured.standard_error("test_error"),
        fmt="o",
        color=colour,
    )
    expected, mean = best.prediction.test_error, measured.mean("test_error")
    print(f"{name:12} theory {expected:.4f}  network {mean:.4f}")
left.plot(
    kappa,
    curve.smooth(curve.target, kappa),
    "--",
    color="#22252b",
    lw=1.2,
    label="teacher, seen from the spike",
)
left.set(
    xlabel="projection κ of the input on the spike",
    ylabel="mean output",
    title="What is learned",
)
left.set_ylim(-0.7, 1.15)
left.legend(ncols=2, loc="upper left")
right.set(
    ylabel="test error at the best ridge",
    title="Theory (dashes) and network",
    xlim=(-0.6, 3.6),
)
right.set_xticks(range(len(laws)), laws)
