"""The result of a simulation: every seed's values, with their means and standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import one_of
from gradstep.overlay import mean_and_error
from gradstep.plain import plain
from gradstep.problem import CONVENTION, Problem
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, in_words, measured, number

#: The quantity that bounds the error of another one.
_BOUND = "test_error_bound"
#: Share of a test error above which the bound of its own error is worth a line.
_FELT = 1e-5
#: Quantities of a path of penalties that are printed.
_OF_A_PATH = ("test_error", "train_error", "degrees_of_freedom")


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(Summarised):
    """Numbers measured on the real network, one per seed.

    Quantities (per seed; those of the fit also per penalty when a path of penalties was asked for):

    ``test_error``
        ``E (f_hat - f*)^2``, exact given the weights and the readout; label noise not included. With
        ``fit="expected"`` also its mean over samples of the fit, as the training error then is.
    ``train_error``
        ``(1/n) sum_mu (y_mu - f_hat(x_mu))^2`` on the sample of the fit.
    ``train_loss``, only of drawn fits
        ``train_error + (ridge / n) |b|^2``.
    ``degrees_of_freedom``, only of drawn fits
        Trace of the hat matrix of the ridge fit, in [0, min(n, width)].
    ``alignment``
        ``<g, beta*> / |g|`` with ``g = X^T (y - f(X)) / n_step``; nan for a zero step.
    ``spike_strength``
        Operator norm of the rank-one part of the change of the weights (see
        `gradstep.simulation.step.Spike`); zero for a zero step.
    ``bulk_variance``
        Mean over neurons of ``|w_i - <w_i, v> v|^2 d / (d - 1)`` with ``v = g / |g|``.
    ``test_error_bound``
        Bound on the error that the truncated population kernel makes in ``test_error``; rounding not included.
    ``test_error_deviation``
        Only with ``fit="expected"``, in place of the bound: the standard error of the expected test error.
    ``sampled_test_error``, ``sampled_test_error_deviation``
        Only with ``test_samples``: the test error on fresh inputs, and the standard error of that average.

    Parameters
    ----------
    problem : Problem
        The problem that was simulated.
    seeds : tuple of int
        The seeds, in the order of the first axis of the values.
    ridge : float or tuple of float
        Penalty, or the path of penalties: the second axis of the quantities of the fit.
    values : mapping of str to ndarray
        Shape (seeds,) or (seeds, penalties); read-only.
    versions : mapping of str to str
        Versions of the packages that computed them.
    convention : str
        The convention all quantities are in.
    """

    problem: Problem
    seeds: tuple[int, ...]
    ridge: float | tuple[float, ...]
    values: Mapping[str, NDArray[np.float64]]
    versions: Mapping[str, str]
    convention: str = CONVENTION

    def __post_init__(self) -> None:
        frozen: dict[str, NDArray[np.float64]] = {}
        for name, value in self.values.items():
            array = np.array(value, dtype=np.float64)
            array.flags.writeable = False
            frozen[name] = array
        object.__setattr__(self, "values", MappingProxyType(frozen))
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the constructor, because read-only views of mappings cannot be pickled or copied."""
        return (
            type(self),
            (self.problem, self.seeds, self.ridge, dict(self.values), dict(self.versions), self.convention),
        )

    def __getitem__(self, quantity: str) -> NDArray[np.float64]:
        """Return every seed's values of a quantity."""
        return self.values[one_of("quantity", quantity, sorted(self.values))]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the quantities."""
        return iter(self.values)

    def mean(self, quantity: str) -> NDArray[np.float64]:
        """Return the mean over seeds: a scalar array, or one value per penalty.

        Parameters
        ----------
        quantity : str
            Name of the quantity.

        Raises
        ------
        InvalidInput
            If there is no such quantity.
        """
        return np.asarray(mean_and_error(self[quantity])[0])

    def standard_error(self, quantity: str) -> NDArray[np.float64]:
        """Return the standard error of the mean over seeds; nan for a single seed.

        Parameters
        ----------
        quantity : str
            Name of the quantity.

        Raises
        ------
        InvalidInput
            If there is no such quantity.
        """
        return np.asarray(mean_and_error(self[quantity])[1])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, fit for JSON (a value that is not a number becomes None)."""
        return {
            "problem": self.problem.to_dict(),
            "seeds": list(self.seeds),
            "ridge": plain(self.ridge),
            "values": plain(self.values),
            "convention": self.convention,
            "versions": dict(self.versions),
        }

    def texts(self) -> dict[str, tuple[str, str]]:
        """Return mean and standard error of every quantity as text, without bounds, at one penalty."""
        return {
            name: measured(float(self.mean(name)), float(self.standard_error(name)))
            for name in self.values
            if name != _BOUND
        }

    def notes(self) -> list[str]:
        """Return a line that says how exact the test errors are, where that can be felt."""
        bound = float(np.max(self.values[_BOUND])) if _BOUND in self.values else 0.0
        least = float(np.min(np.abs(self.values["test_error"])))
        return [f"the test errors of networks are exact to {bound:.1e}"] if bound > _FELT * least else []

    def summary(self) -> Summary:
        """Return the summary that is printed: every quantity, or at each penalty those of the fit."""
        count = f"{len(self.seeds)} networks" if len(self.seeds) > 1 else "1 network"
        if not isinstance(self.ridge, tuple):
            rows = [[in_words(name), *texts] for name, texts in self.texts().items()]
            table = Table(["quantity", "mean", "standard error"], rows)
            return Summary(f"Measurement of {count}", [str(self.problem)], table, self.notes())
        path = [name for name, value in self.values.items() if value.ndim == 2 and name in _OF_A_PATH]
        columns = [[number(float(ridge)) for ridge in self.ridge]]
        for name in path:
            pairs = zip(self.mean(name).tolist(), self.standard_error(name).tolist(), strict=True)
            columns += map(list, zip(*(measured(mean, error) for mean, error in pairs), strict=True))
        header = ["ridge", *(head for name in path for head in (in_words(name), "+-"))]
        title = f"Measurement of {count} at {len(self.ridge)} penalties"
        about = [self.problem.described(["ridge"])]
        return Summary(title, about, Table(header, list(zip(*columns, strict=True)), index=1))
