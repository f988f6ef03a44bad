"""
A classification in a pipeline
==============================

This example classifies handwritten digits. There are ten classes with one output each, and the step finds directions for
them.
"""

# %%
# A pipeline with a grid
# ----------------------
# The classifier is an ordinary scikit-learn estimator.

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

import gradstep as gs

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0, stratify=y
)

search = GridSearchCV(
    gs.OneStepClassifier(width=256, random_state=0),
    {"eta": [0, "auto"], "n_steps": [1, "auto"]},
    cv=3,
)
search.fit(X_train, y_train)
print(search.best_params_)

for eta in (0, "auto"):
    model = gs.OneStepClassifier(width=256, eta=eta, random_state=0).fit(
        X_train, y_train
    )
    print(
        f"eta = {eta}: {1 - model.score(X_test, y_test):.3f} of the test digits are wrong"
    )

# %%
# The directions of the network
# -----------------------------
# Every class has a readout of its own, so that neurons turn towards several directions: about seven count in the network
# (the line ``learned``). The first panel shows the shares of the features' variance. Those of a step on shuffled targets
# are as large, so that none of them counts as an outlier.

diagnosis = model.diagnose(X_train, y_train)
print(diagnosis)
diagnosis.plot()
