"""
What would more rows bring?
===========================

From a data frame to the score with twice its rows in five lines. Collecting data is expensive: this example says
before you do it whether it pays, and for which model.
"""

# %%
# Five lines
# ----------
# The table has ten columns about 442 patients, and the progress of their illness a year later. The curve is measured on
# all rows, but no row is scored by a network that has used it.

from sklearn.datasets import load_diabetes

import gradstep as gs

table = load_diabetes(as_frame=True, scaled=False).frame
X, y = table.drop(columns="target"), table["target"]
model = gs.OneStepRegressor(width=128, random_state=0).fit(X, y)
curve = model.learning_curve(X, y)
print(f"with twice the rows: R^2 {curve.twice}")

# %%
# The whole curve
# ---------------
# Every number of rows has its own best penalty. The change from the rows there are to twice as many is known better than
# either score, because both rest on the same rows.

print(curve)
curve.plot()

# %%
# Is it the model, or the rows?
# -----------------------------
# The same curve for random features, without the step, and the difference between the two models with the rows there
# are: row by row, so that it is known far better than either score. Nothing here pays: twice the patients would add less than
# the standard error of the score itself. Better columns are needed, not more rows.

plain = gs.OneStepRegressor(width=128, eta=0, random_state=0).fit(X, y)
other = plain.learning_curve(X, y)
print(f"random features, with twice the rows: R^2 {other.twice}")
print(
    f"the step gains {curve.gain(over=other)} with the {curve.rows} rows there are"
)

# %%
# Where rows are worth something
# ------------------------------
# Handwritten digits, of which a model has 400. Its curve promises that 400 more will help, and here they exist: the promise can
# be checked. Scores of a classifier's curve are R^2 of its codes +1 and -1; the accuracy is known up to the rows there are.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import r2_score

X, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
few, more, rest = order[:400], order[:800], order[800:]
model = gs.OneStepClassifier(width=128, random_state=0).fit(X[few], digit[few])
curve = model.learning_curve(X[few], digit[few], n=[100, 200, 400, 800])
print(curve)

again = gs.OneStepClassifier(width=128, random_state=0).fit(X[more], digit[more])
for name, fitted in {"400 digits": model, "800 digits": again}.items():
    codes = np.where(digit[rest, None] == fitted.classes_, 1.0, -1.0)
    outputs = fitted.decision_function(X[rest])
    r2 = r2_score(codes, outputs, multioutput="variance_weighted")
    print(
        f"{name}, on the rest: R^2 of the codes {r2:.2f}, accuracy {fitted.score(X[rest], digit[rest]):.3f}"
    )
