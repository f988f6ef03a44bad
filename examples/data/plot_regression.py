"""
A regression, from raw columns to the diagnosis
===============================================

This example fits a table, compares with random features and ridge regression, and diagnoses the effect of the step.
"""

# %%
# The table
# ---------
# The table has ten columns about 442 patients, and the progress of their illness a year later. The estimators keep the
# names of columns, and standardise inputs and targets, so that raw columns can be used.

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score

import gradstep as gs

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
print(X.head())

# %%
# Three fits
# ----------
# ``eta=0`` is ridge regression on random features. Under ``eta="auto"`` (the default) a small step is taken, unless
# leave-one-out errors say that a large one, none, or several rounds are clearly better.

for name, model in {
    "the default": gs.OneStepRegressor(width=256, random_state=0),
    "random features": gs.OneStepRegressor(width=256, eta=0, random_state=0),
    "ridge": RidgeCV(np.logspace(-3, 3, 13)),
}.items():
    scores = cross_val_score(model, X, y, cv=5)
    print(
        f"{name:16} R2 = {scores.mean():.3f} +- {scores.std(ddof=1) / np.sqrt(5):.3f}"
    )

# %%
# The diagnosis
# -------------
# The targets of this table depend mostly on one direction, and nearly linearly, so that a step gains little.

model = gs.OneStepRegressor(width=256, random_state=0).fit(X, y)
diagnosis = model.diagnose(X, y)
print(diagnosis)
diagnosis.plot()
