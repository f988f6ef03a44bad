r"""
Moniri et al. 2024: the staircase
=================================

With a step of size :math:`n^\alpha` the features gain a spike for every power of the projection whose threshold is below
:math:`\alpha`. In the limit the errors are a staircase in :math:`\alpha`; at any finite size they are a ramp.
"""

# %%
# The limit, from the formula
# ---------------------------
# The staircase has a step at each threshold of a power that the teacher contains.

import matplotlib.pyplot as plt
import numpy as np

from gradstep.papers import moniri2024

alpha = np.linspace(0, 0.43, 400)
setting = {"phi": 0.2, "psi": 0.25, "lam": 0.1}
figure, axes = plt.subplots()
for teacher, colour in (
    ("H1", "C1"),
    ("H1 + H2/sqrt(2)", "C2"),
    ("H1 + H2/sqrt(2) + H3/sqrt(6)", "C0"),
):
    error = moniri2024.L_te(
        alpha, "sin(1.2*x + 0.6) - 0.27484099773585186", teacher, **setting
    )
    axes.plot(alpha, error, colour, label=f"teacher {teacher}".replace("*", ""))
for l in (2, 3, 4):  # noqa: E741
    axes.axvline(moniri2024.windows(l)[0], color="0.4", lw=0.8, ls=":")
axes.set(xlabel="exponent α of the step", ylabel="limit of the test error")
axes.legend(loc=(0.03, 0.6))

# %%
# The same at sizes that one can simulate
# ---------------------------------------
# The figure is drawn from its settings file, in the smallest preset.

from pathlib import Path
from tempfile import TemporaryDirectory

from gradstep.drawing import draw
from gradstep.papers.figure import load_figures, run_figure

(settings,) = load_figures(["staircase"])
with TemporaryDirectory() as cache:
    result = run_figure(settings, "quick", cache=Path(cache), workers=1)
verdict = result.verdict
print(f"largest |z| {verdict.largest_z:.2f}, criterion met: {verdict.passed}")
draw(result.outcome.panels)
