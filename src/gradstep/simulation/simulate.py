"""Simulate the real network: draw, step, fit, measure; one seed after another."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradstep.errors import InvalidInput, within_range
from gradstep.problem import Problem
from gradstep.simulation.arguments import chosen_seeds, count, finite_sizes, threads_of
from gradstep.simulation.backend import Array, Backend, backend, to_host
from gradstep.simulation.instance import (
    TEACHER_AXIS,
    Sample,
    check_sample,
    fit_sample,
    initial_readout,
    initial_weights,
    step_sample,
)
from gradstep.simulation.measurement import Measurement
from gradstep.simulation.population import population_risk
from gradstep.simulation.ridge import fit_ridge
from gradstep.simulation.rowwise import for_rows
from gradstep.simulation.step import gradient, measure_spike
from gradstep.simulation.streams import block_count
from gradstep.versions import versions

Progress = Callable[[int, int], None]

_RIDGE = "a finite number > 0, or a non-empty sequence of them"

_OF_THE_FIT = {
    "test_error",
    "train_error",
    "train_loss",
    "degrees_of_freedom",
    "test_error_bound",
    "sampled_test_error",
    "sampled_test_error_deviation",
}


def simulate(
    problem: Problem,
    seeds: int | Sequence[int] = 16,
    *,
    ridge: float | Sequence[float] | None = None,
    device: str | None = None,
    dtype: str = "float64",
    test_samples: int = 0,
    kernel_tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> Measurement:
    """Measure the network itself: random weights, one full gradient step, ridge fit on fresh samples.

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
    device : str, optional
        None for NumPy; ``"cpu"``, ``"cuda"`` or ``"cuda:k"`` for PyTorch.
    dtype : {"float64", "float32"}
        Precision of inputs, weights and features. Gram matrices, factorisations and expectations are in double.
    test_samples : int
        If positive, also measure the test error on that many fresh inputs, as a check of the exact one.
    kernel_tolerance : float
        Accepted error of the test error, relative to ``E f*^2``, for activations whose kernel has no closed form.
    progress : callable, optional
        Called as ``progress(done, total)`` after each block of rows.

    Returns
    -------
    Measurement
        Every seed's values; shapes (seeds,), and (seeds, penalties) for the quantities of the fit when `ridge` is a
        sequence.

    Raises
    ------
    InvalidInput
        If a size of the problem is infinite, or an option is out of range.
    NotConverged
        If the population kernel cannot reach `kernel_tolerance`.
    """
    sizes = finite_sizes(problem)
    chosen = chosen_seeds(seeds)
    penalties, is_path = _penalties(problem, ridge)
    fresh = count("test_samples", test_samples)
    is_number = isinstance(kernel_tolerance, numbers.Real) and not isinstance(kernel_tolerance, bool)
    if not is_number or not 0 < kernel_tolerance < math.inf:
        raise InvalidInput("kernel_tolerance", kernel_tolerance, "a finite number > 0")
    engine = backend(device, dtype)
    step_blocks = block_count(sizes["n_step"]) if problem.step_size > 0 else 0
    total = len(chosen) * (step_blocks + block_count(sizes["n"]) + block_count(fresh) + 1)
    done = 0

    def advance() -> None:
        nonlocal done
        done = min(done + 1, total)  # a second pass over the data is not announced
        if progress is not None:
            progress(done, total)

    with threads_of(problem), within_range("the simulation"):
        each = [_one_seed(problem, seed, penalties, engine, fresh, kernel_tolerance, advance) for seed in chosen]
    values = {}
    for name in each[0]:
        stacked = np.stack([np.asarray(seed[name], dtype=float) for seed in each])
        values[name] = stacked[:, 0] if name in _OF_THE_FIT and not is_path else stacked
    return Measurement(
        problem=problem,
        seeds=chosen,
        ridge=penalties if is_path else penalties[0],
        values=values,
        versions=versions() if device is None else versions("torch"),
    )


def _one_seed(
    problem: Problem,
    seed: int,
    penalties: tuple[float, ...],
    engine: Backend,
    test_samples: int,
    kernel_tolerance: float,
    advance: Callable[[], None],
) -> dict[str, Any]:
    sizes = finite_sizes(problem)
    d, width, n = sizes["d"], sizes["width"], sizes["n"]
    activation, teacher = problem.activation, problem.teacher

    before = engine.double(initial_weights(seed, width, d, problem.initial_weights))
    readout = engine.double(initial_readout(seed, width, problem.readout))
    if problem.step_size > 0:
        step = gradient(
            engine,
            activation,
            teacher,
            step_sample(seed, sizes["n_step"], d),
            _as_data(engine, before),
            _as_data(engine, readout),
            noise=problem.noise,
            output_factor=problem.output_factor,
            after_block=advance,
        )
        after = before + (problem.step_size / math.sqrt(width)) * step.rows
        spike = measure_spike(before, after, readout, step.linear)
        del step
    else:
        after = before
        spike = measure_spike(before, after, readout, None)
    del before

    weights = _as_data(engine, after)

    def features(sample: Sample, noise: float) -> Iterator[tuple[Array, Array]]:
        for inputs, errors in sample.blocks():
            x = engine.data(inputs)
            labels = teacher(x[:, TEACHER_AXIS]) + noise * engine.data(errors)
            values = x @ weights.T  # pre-activations, then features

            def activate(part: slice, u: Array = values) -> None:
                u[part, :] = activation(u[part, :])

            for_rows(activate, x.shape[0], engine.threads)
            yield engine.double(values), engine.double(labels)
            advance()

    fresh = fit_sample(seed, n, d)
    fit = fit_ridge(lambda: features(fresh, problem.noise), n, width, penalties)
    teacher_direction = engine.zeros((d,))
    teacher_direction[TEACHER_AXIS] = 1.0
    risk = population_risk(
        activation,
        teacher,
        engine.double(weights),
        teacher_direction,
        spike.direction,
        fit.readouts,
        tolerance=kernel_tolerance,
    )
    values: dict[str, Any] = {
        "test_error": risk.test_error,
        "train_error": fit.squared_residual / n,
        "train_loss": (fit.squared_residual + np.asarray(penalties) * fit.squared_norm) / n,
        "degrees_of_freedom": fit.degrees_of_freedom,
        "alignment": spike.alignment,
        "spike_strength": spike.strength,
        "bulk_variance": spike.bulk_variance,
        "test_error_bound": risk.error_bound,
    }
    if test_samples:
        sample = check_sample(seed, test_samples, d)
        square_sum, fourth_sum = np.zeros(len(penalties)), np.zeros(len(penalties))
        for block, labels in features(sample, 0.0):
            squares = to_host((block @ fit.readouts - labels[:, None]) ** 2)
            square_sum += squares.sum(axis=0)
            fourth_sum += (squares**2).sum(axis=0)
        mean = square_sum / test_samples
        values["sampled_test_error"] = mean
        values["sampled_test_error_deviation"] = np.sqrt(
            np.maximum(fourth_sum / test_samples - mean**2, 0.0) / test_samples
        )
    advance()
    return values


def _as_data(engine: Backend, values: Array) -> Array:
    return engine.xp.astype(values, getattr(engine.xp, engine.dtype), copy=False)


def _penalties(problem: Problem, ridge: float | Sequence[float] | None) -> tuple[tuple[float, ...], bool]:
    given: Any = problem.ridge if ridge is None else ridge
    is_path = not isinstance(given, numbers.Real)
    if is_path and (
        isinstance(given, (str, bytes)) or not isinstance(given, (Sequence, np.ndarray)) or np.ndim(given) != 1
    ):
        raise InvalidInput("ridge", ridge, _RIDGE)
    penalties = tuple(given) if is_path else (given,)
    for value in penalties:
        if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < float(value) < math.inf:
            raise InvalidInput("ridge", ridge, _RIDGE)
    if not penalties:
        raise InvalidInput("ridge", ridge, _RIDGE)
    return tuple(float(value) for value in penalties), is_path
