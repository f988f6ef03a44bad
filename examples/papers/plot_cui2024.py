r"""
Cui et al. 2024: what a large step can learn
============================================

This example shows learning curves after a step of order :math:`\sqrt N`, with the bounds on the error that can be reached.
"""

# %%
# Learning curves, from Result 3.3
# --------------------------------
# With more samples in the step its direction is closer to the teacher's.

import matplotlib.pyplot as plt
import numpy as np

from gradstep.papers import cui2024

alpha = np.geomspace(0.2, 20, 120)
figure, axes = plt.subplots()
for alpha0, colour in ((0.5, "C3"), (2.0, "C1"), (8.0, "C2"), (np.inf, "C0")):
    error = cui2024.summary_statistics(
        "tanh", "sin", eta_tilde=2.0, alpha0=alpha0, alpha=alpha, lam=0.01
    ).test_error
    axes.semilogx(
        alpha, error, colour, label=rf"$\alpha_0$ = {alpha0:g}".replace("inf", "∞")
    )
axes.axhline(
    cui2024.best_linear("sin"),
    color="0.4",
    ls="--",
    lw=1,
    label="best linear predictor",
)
axes.set(xlabel=r"samples per dimension, $\alpha$", ylabel="test error")
axes.legend()

# %%
# Figure 1: the learned function, over the real network
# -----------------------------------------------------
# The figure is drawn from its settings file, in the smallest preset.

from pathlib import Path
from tempfile import TemporaryDirectory

from gradstep.drawing import draw
from gradstep.papers.figure import load_figures, run_figure

(settings,) = load_figures(["fig1_learned"])
with TemporaryDirectory() as cache:
    result = run_figure(settings, "quick", cache=Path(cache), workers=1)
verdict = result.verdict
print(f"largest |z| {verdict.largest_z:.2f}, criterion met: {verdict.passed}")
draw(result.outcome.panels)
