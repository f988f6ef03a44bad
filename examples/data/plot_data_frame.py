"""
A data frame with names, gaps and categories
============================================

This example fits a table as it comes, and asks the fit what it has learned and how sure it is.
"""

# %%
# The table
# ---------
# The rents of flats are drawn by a rule that we know: size matters, distance matters less in summer towns, and one
# of the districts is dear. Some values are missing, and one size is a typing error.

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import gradstep as gs

random = np.random.default_rng(0)
n = 900
flats = pd.DataFrame(
    {
        "size": random.normal(70, 20, n),
        "distance": random.exponential(5, n),
        "district": random.choice(["north", "south", "harbour"], n),
        "year": random.integers(1900, 2020, n).astype(float),
        "floor": random.integers(0, 6, n).astype(float),
    }
)
rent = (
    10 * flats["size"]
    - 400 * np.tanh(flats["distance"] / 4)
    + 300 * (flats["district"] == "harbour")
    + 0.08 * (flats["year"] - 1960) ** 2
    + 60 * random.standard_normal(n)
)
flats.loc[random.random(n) < 0.1, "year"] = np.nan
flats.loc[random.random(n) < 0.05, "district"] = None
flats.loc[3, "size"] = 7000
print(flats.head())

# %%
# A fit
# -----
# The frame is passed as it is. Old and new houses are dear, so that the rent depends on several directions.

train, test, rent_train, rent_test = train_test_split(flats, rent, random_state=0)
model = gs.OneStepRegressor(random_state=0).fit(train, rent_train)
print(
    f"R2 on new rows: {model.score(test, rent_test):.3f}; rounds: {model.rounds_}"
)
low, high = model.predict_interval(test, coverage=0.9).T
print(
    f"90 % intervals hold {np.mean((rent_test >= low) & (rent_test <= high)):.0%} of them"
)

# %%
# What was learned
# ----------------
# The importances are those of the columns of the table. The floor has none.

print(model.learned_)
print(pd.Series(model.feature_importances_, train.columns).round(3))
model.learned_.plot()

# %%
# The rent along the first direction:

model.link(train, rent_train).plot()

# %%
# A classifier has probabilities
# ------------------------------

dear = np.where(rent > rent.median(), "dear", "cheap")
classifier = gs.OneStepClassifier(class_weight="balanced", random_state=0)
classifier.fit(train, dear[train.index])
print(
    pd.DataFrame(
        classifier.predict_proba(test)[:4], columns=classifier.classes_
    ).round(3)
)
print(f"accuracy on new rows: {classifier.score(test, dear[test.index]):.3f}")

# %%
# The diagnosis
# -------------
# The line *learned* has standard errors of the importances, and the line *more rows* says what more flats would bring.

diagnosis = model.diagnose(train, rent_train)
print(diagnosis)
diagnosis.plot()
