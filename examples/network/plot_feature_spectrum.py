r"""
The spectrum of the features, and its outliers
==============================================

After the step a few eigenvalues of :math:`F^\top F/n` stand apart from the bulk. Each belongs to a function of the
projection :math:`\kappa` of the input on the spike, which theory predicts.
"""

# %%
# Bulk and outliers
# -----------------

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs
from gradstep.theory.spectra.feature_spectrum import feature_spectrum

problem = gs.Problem(
    activation="tanh",
    teacher="tanh(2*x)",
    d=300,
    width=450,
    n_step=1800,
    n=900,
    eta=gs.Step(6.0, 0.5),
    ridge=1.0,
)
theory = feature_spectrum(problem)
network = gs.Network(problem, seed=0).feature_spectrum(leading=2)

# %%
# The histogram is from one network. The axis shows singular values of :math:`F/\sqrt n`.

figure, axes = plt.subplots()
measured = np.sqrt(network.eigenvalues)
edge = np.sqrt(theory.bulk.edge)
axes.hist(
    measured[measured < 1.05 * edge],
    bins=40,
    density=True,
    color="C3",
    alpha=0.4,
    label="network, bulk",
)
axes.plot(
    np.sqrt(theory.bulk.eigenvalue),
    2 * np.sqrt(theory.bulk.eigenvalue) * theory.bulk.density,
    "C3",
    label="theory",
)
for rank, (outlier, colour) in enumerate(
    zip(theory.outliers[:2], ("C0", "C1"), strict=False)
):
    name = f"$h_{outlier.sample_degree}(κ)$"
    axes.axvline(
        outlier.singular_value,
        color=colour,
        ls="--",
        lw=1.4,
        label=f"outlier {name}",
    )
    axes.plot(
        np.sqrt(network.leading[rank].eigenvalue),
        0.03,
        "^",
        color=colour,
        ms=8,
        mec="#22252b",
    )
axes.set(xlabel=r"singular value of $F/\sqrt{n}$", ylabel="density", xscale="log")
axes.legend(loc="upper left", bbox_to_anchor=(0.64, 1))

# %%
# The functions of the outliers
# -----------------------------
# The bars are the squared cosines of each outlier's vector over the samples with the Hermite polynomials of the projection.

for outlier, found in zip(theory.outliers, network.leading, strict=False):
    expected, measured = outlier.singular_value, np.sqrt(found.eigenvalue)
    print(f"singular value: theory {expected:.3f}, network {measured:.3f}")
    for degree in (1, 3):
        expected, measured = (o.sample_overlap[degree] for o in (outlier, found))
        print(f"  with h{degree}: theory {expected:.3f}, network {measured:.3f}")
