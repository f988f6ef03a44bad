"""Simulate the real network: draw, step, fit, measure; one seed after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradstep.checks import bounded, flag, function_or_none, integer, one_of
from gradstep.errors import InvalidInput
from gradstep.host import host_errors
from gradstep.problem import Problem
from gradstep.simulation.arguments import MOST_TEST_SAMPLES, chosen_seeds, finite_sizes, penalties_of, threads_of
from gradstep.simulation.backend import backend
from gradstep.simulation.data_rows import DataRows
from gradstep.simulation.measurement import Measurement
from gradstep.simulation.network import Network
from gradstep.simulation.streams import block_count
from gradstep.versions import versions

Progress = Callable[[int, int], None]

#: Standard error of an expected test error, and the parts in which progress to it is told.
_EXPECTED, _PARTS = 0.01, 20


def simulate(
    problem: Problem,
    seeds: int | Sequence[int] = 16,
    *,
    ridge: float | Sequence[float] | None = None,
    fit: str = "drawn",
    rows: ArrayLike | None = None,
    replacement: bool = False,
    device: str | None = None,
    dtype: str = "float64",
    test_samples: int = 0,
    kernel_tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> Measurement:
    """Measure the network itself: random weights, one full gradient step, ridge fit on fresh samples.

    With ``fit="expected"`` the first layer is drawn and stepped as ever, and the errors are their means over all
    samples of the fit (:meth:`gradstep.Network.learning_curve`), so that they scatter less from seed to seed.

    Nothing is approximated: the gradient is the one of the actual loss (the network's own output is part of the
    residual), and the test error is the exact expectation over inputs given the weights.

    Parameters
    ----------
    problem : Problem
        Sizes, functions, step, penalty, noise and readout law; all sizes finite.
    seeds : int or sequence of int
        How many seeds (0, 1, 2, ...), or the seeds themselves. A seed gives the same numbers (up to rounding) on every
        device, and problems simulated with the same seed share their random numbers as far as their sizes allow
        (see `gradstep.simulation.streams`).
    ridge : float or sequence of float, optional
        Penalties to use instead of ``problem.ridge``; a whole sequence costs one factorisation.
    fit : {"drawn", "expected"}
        Whether the readout is fitted to samples that are drawn, or errors are expectations over them, with a standard
        error of one per cent.
    rows, replacement
        As in :class:`gradstep.Network`: a table whose rows are the inputs, and how samples are drawn from it.
    device : str, optional
        None for NumPy; ``"cpu"``, ``"cuda"`` or ``"cuda:k"`` for PyTorch.
    dtype : {"float64", "float32"}
        Precision of inputs, weights and features. Gram matrices, factorisations and expectations are in double.
    test_samples : int
        If positive, also measure the test error on that many fresh inputs, as a check of the exact one; at most 10^9.
    kernel_tolerance : float
        Accepted error of the test error, relative to ``E f*^2``, for activations whose kernel has no closed form.
    progress : callable, optional
        Called as ``progress(done, total)`` after each block of rows.

    Returns
    -------
    Measurement
        Every seed's values; shapes (seeds,), and (seeds, penalties) for the quantities of the fit when `ridge` is a
        sequence. Without a drawn fit there are no ``train_loss`` and ``degrees_of_freedom``.

    Raises
    ------
    InvalidInput
        If a size of the problem is infinite, or an option is out of range.
    NotConverged
        If the population kernel cannot reach `kernel_tolerance`.
    MemoryError
        If the arrays do not fit in memory, on the device or on the host.
    """
    sizes = finite_sizes(problem)
    chosen = chosen_seeds(seeds)
    penalties, is_path = penalties_of(problem, ridge)
    fresh = integer("test_samples", test_samples, 0, MOST_TEST_SAMPLES)
    one_of("fit", fit, ("drawn", "expected"))
    function_or_none("progress", progress, "a function of two numbers: what is done, and all there is")
    if fit == "expected" and fresh:
        raise InvalidInput("test_samples", fresh, "0 with fit='expected', where there is no one readout to test")
    if fit == "expected" and rows is not None:
        raise InvalidInput("fit", fit, "'drawn' with rows of a table, of which no expected errors are known")
    bounded("kernel_tolerance", kernel_tolerance, positive=True)
    backend(device, dtype)
    table = None if rows is None else DataRows.of(rows, flag("replacement", replacement))
    if table is not None:
        table.check(sizes.n_step, sizes.n, sizes.d)
    step_blocks = block_count(sizes.n_step) if problem.step_size > 0 else 0
    blocks = step_blocks + (_PARTS if fit == "expected" else block_count(sizes.n) + block_count(fresh) + 1)
    total, done = len(chosen) * blocks, 0

    def advance(parts: int = 1) -> None:
        nonlocal done
        done = min(done + parts, total)  # a second pass over the data is not announced
        if progress is not None:
            progress(done, total)

    with threads_of(problem), host_errors():
        draw = partial(Network, problem, rows=table, device=device, dtype=dtype, after_block=advance)
        if fit == "expected":
            each = [_expected(draw(seed), penalties, advance) for seed in chosen]
        else:
            each = [_measured(draw(seed), penalties, fresh, kernel_tolerance) for seed in chosen]
    values = {}
    for name in each[0]:
        stacked = np.stack([np.asarray(seed[name], dtype=float) for seed in each])
        values[name] = stacked[:, 0] if stacked.ndim == 2 and not is_path else stacked
    return Measurement(
        problem=problem,
        seeds=chosen,
        ridge=penalties if is_path else penalties[0],
        values=values,
        versions=versions() if device is None else versions("torch"),
    )


def _expected(network: Network, penalties: tuple[float, ...], advance: Callable[[int], None]) -> dict[str, Any]:
    spike, reached = network.spike, 0

    def share(done: int, pools: int) -> None:
        nonlocal reached
        before, reached = reached, max(reached, _PARTS * done // pools)  # the number of pools is an estimate
        advance(reached - before)

    curve = network.learning_curve(ridge=penalties, tolerance=_EXPECTED, progress=share)
    return {
        "test_error": curve.test_error[0],
        "train_error": curve.training_error[0],
        "alignment": spike.alignment,
        "spike_strength": spike.strength,
        "bulk_variance": spike.bulk_variance,
        "test_error_deviation": curve.test_standard_error[0],
    }


def _measured(
    network: Network, penalties: tuple[float, ...], test_samples: int, kernel_tolerance: float
) -> dict[str, Any]:
    spike = network.spike
    network = network.with_weights(network.after)  # lets go of what only the step needed
    fit = network.fit(penalties)
    risk = network.risk(fit.readouts, along=spike.direction, tolerance=kernel_tolerance)
    values: dict[str, Any] = {
        "test_error": risk.test_error,
        "train_error": fit.train_error,
        "train_loss": fit.train_loss,
        "degrees_of_freedom": fit.degrees_of_freedom,
        "alignment": spike.alignment,
        "spike_strength": spike.strength,
        "bulk_variance": spike.bulk_variance,
        "test_error_bound": risk.error_bound,
    }
    if test_samples:
        sampled = network.sampled_risk(fit.readouts, test_samples)
        values["sampled_test_error"], values["sampled_test_error_deviation"] = sampled
    network.after_block()
    return values
