"""
Does my data have single-index structure?
=========================================

This example has two tables with the same linear part. In one the targets are a function of one projection of the inputs, in
the other of two. The diagnosis distinguishes them.
"""

# %%
# Two tables
# ----------

import numpy as np

import gradstep as gs

random = np.random.default_rng(0)
X = random.standard_normal((1000, 20))
noise = 0.1 * random.standard_normal(1000)
tables = {
    "one index": np.tanh(2 * X[:, 0]) + noise,
    "two indices": np.tanh(2 * X[:, 0]) + (X[:, 1] ** 2 - 1) / 2 + noise,
}

# %%
# Two diagnoses
# -------------
# With one index, a function of the direction along which the network varies most explains as much as the network, or
# more, because the network has to learn more than a function of one variable. With two indices it explains less, because
# the network has learned more than one direction.

figures = []
for name, y in tables.items():
    model = gs.OneStepRegressor(width=256, random_state=0).fit(X, y)
    diagnosis = model.diagnose(X, y)
    print(
        f"{name}: one direction explains {diagnosis.single_index:.0%}, the network {diagnosis.network:.0%}"
    )
    print(model.learned_)
    print(diagnosis, end="\n\n")
    figures.append(diagnosis.plot())
figures

# %%
# In the conventions of the theory
# --------------------------------
# Without offsets and damping, and with separate rows for the step, the network is the one that `gradstep.predict`
# describes. On data like these the prediction can be compared with the measurement.

y = tables["one index"]
model = gs.OneStepRegressor(
    width=256,
    activation="tanh",
    n_steps=1,
    offset=0,
    damping=float("inf"),
    sample_split=True,
    random_state=0,
).fit(X, y)
before, after = model.diagnose(X, y).theory.unexplained
print(
    f"theory: share of the variance not explained {before:.3f} without the step, {after:.3f} with it"
)
