r"""
Where the step pays: a phase diagram
====================================

This example shows by how much a large step lowers the test error, as a function of the samples and neurons per dimension,
each at its best penalty on a grid.
"""

# %%
# A map from theory alone
# -----------------------
# The map consists of over four thousand predictions, which take a few seconds. A larger version, with three candidates and
# with networks at some points, is ``gradstep reproduce --figure phase_diagram``.

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs

d = 1000
samples, neurons = np.geomspace(0.3, 10, 16), np.geomspace(0.3, 10, 12)
ridges = d * np.geomspace(1e-3, 10, 12)


def lowest(eta, n, width):
    base = gs.Problem(
        activation="tanh",
        teacher="sin(1.5*x)",
        d=d,
        width=round(width * d),
        n_step=round(n * d),
        n=round(n * d),
        eta=eta,
        ridge=1.0,
        noise=0.3,
        readout="constant",
    )
    return min(
        p.test_error
        for p in gs.predict_many(
            base.replace(ridge=float(ridge)) for ridge in ridges
        )
    )


gain = np.array(
    [
        [1 - lowest(gs.Step(1.0, 0.5), n, w) / lowest(0.0, n, w) for n in samples]
        for w in neurons
    ]
)

figure, axes = plt.subplots()
shown = axes.contourf(samples, neurons, 100 * gain, levels=12, cmap="Reds")
axes.grid(False)
ratios = (0.3, 0.5, 1, 2, 5, 10)
axes.set(
    xscale="log",
    yscale="log",
    xlabel="samples per dimension, n/d",
    ylabel="neurons per dimension, N/d",
    xticks=ratios,
    xticklabels=ratios,
    yticks=ratios,
    yticklabels=ratios,
)
axes.minorticks_off()
figure.colorbar(shown, label="error saved by the step, per cent")
print(f"least {100 * gain.min():.0f} %, most {100 * gain.max():.0f} %")
