r"""
Ba et al. 2022: the gain of one small step
==========================================

This example computes the gain :math:`\delta=R_0-R_1` of Theorem 5 in the paper's own notation, and draws a figure from its
settings file.
"""

# %%
# The gain, from the formula
# --------------------------
# The gain grows with the step size. It is largest for few samples, because the step helps to learn the linear part of the
# teacher, which many samples determine without a step.

import matplotlib.pyplot as plt
import numpy as np

from gradstep.papers import ba2022

psi1 = np.geomspace(0.3, 30, 200)
figure, axes = plt.subplots()
for eta, colour in ((1.0, "C1"), (2.0, "C2"), (4.0, "C0")):
    gain = ba2022.delta("tanh", "softplus", eta=eta, lam=1e-2, psi1=psi1, psi2=2.0)
    axes.loglog(psi1, gain, colour, label=f"η = {eta:g}")
axes.set(xlabel=r"samples per dimension, $\psi_1$", ylabel=r"gain $\delta$")
axes.legend()

# %%
# The spectrum of the weights, over the real network
# --------------------------------------------------
# A figure is a settings file: parameters that the paper states, those that are ours,
# sizes, seeds, and a numeric criterion. ``quick`` is the smallest of its three presets.

from pathlib import Path
from tempfile import TemporaryDirectory

from gradstep.drawing import draw
from gradstep.papers.figure import load_figures, run_figure

(settings,) = load_figures(["weights_spectrum"])
with TemporaryDirectory() as cache:
    result = run_figure(settings, "quick", cache=Path(cache), workers=1)
verdict = result.verdict
print(f"largest |z| {verdict.largest_z:.2f}, criterion met: {verdict.passed}")
draw(result.outcome.panels)
