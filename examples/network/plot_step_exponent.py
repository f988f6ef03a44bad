r"""
From small to large steps
=========================

The step size is :math:`\eta=N^\alpha`. One set of equations covers every exponent, from the kernel regime at 0 to
feature learning at 1/2.
"""

# %%
# One curve, three regimes
# ------------------------
# The powers of the teacher are learned one after the other, in the limit from :math:`\alpha=(k-1)/2k` on. A tanh network
# with a Gaussian readout learns the odd ones: the line from 0 on and the cubic from 1/3 on. The steps are sharp only at
# sizes that cannot be simulated. At smaller sizes theory and network agree on a smooth ramp.

import matplotlib.pyplot as plt
import numpy as np

import gradstep as gs

exponents = np.linspace(0, 0.5, 41)


def problem(d, exponent):
    return gs.Problem(
        activation="tanh",
        teacher="sin(1.5*x)",
        d=d,
        width=2 * d,
        n_step=8 * d,
        n=4 * d,
        eta=gs.Step(1.0, exponent),
        ridge=0.1 * d,
        noise=0.1,
    )


figure, axes = plt.subplots()
for d, line in ((150, "-"), (10**6, "--"), (10**15, ":")):
    curve = gs.predict_many(problem(d, exponent) for exponent in exponents)
    name = "theory, d = " + (f"{d}" if d < 1000 else f"$10^{{{np.log10(d):.0f}}}$")
    axes.plot(exponents, [p.test_error for p in curve], "C2", ls=line, label=name)

simulated = exponents[::8]
networks = [gs.simulate(problem(150, exponent), seeds=8) for exponent in simulated]
mean = [m.mean("test_error") for m in networks]
axes.errorbar(
    simulated,
    mean,
    [m.standard_error("test_error") for m in networks],
    fmt="oC2",
    label="network, d = 150",
)
axes.axvline(1 / 3, color="0.4", lw=0.8, ls=":")
axes.set(xlabel="exponent α of the step size", ylabel="test error")
axes.legend()
