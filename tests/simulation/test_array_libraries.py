"""The kernels use nothing but the array standard: they run on its strictest implementation and give the same."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.backend import Backend, backend, to_host
from gradstep.simulation.instance import initial_readout, initial_weights, step_sample
from gradstep.simulation.population import population_risk
from gradstep.simulation.ridge import dual, fit_ridge, primal
from gradstep.simulation.step import gradient, measure_spike
from gradstep.simulation.training import OPTIMISERS

STRICT = Backend(array_api_strict)
NUMPY = backend(None, "float64")


def test_gradient_and_spike() -> None:
    results = []
    for engine in (NUMPY, STRICT):
        weights = engine.data(initial_weights(0, 12, 9, "gaussian"))
        readout = engine.data(initial_readout(0, 12, Readout("gaussian")))
        ((x, errors),) = step_sample(0, 40, 9).blocks()
        samples = [(engine.data(x), engine.data(np.maximum(x[:, 0], 0) + 0.1 * errors))]
        step = gradient(engine, scalar_function("tanh"), samples, weights, readout, output_factor=1 / 12)
        spike = measure_spike(weights, weights + step.rows, readout, step.linear)
        results.append((to_host(step.rows), spike.strength, spike.alignment, spike.bulk_variance))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(results[0][1:], results[1][1:], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_optimisers(name: str) -> None:
    rows, metric = np.random.default_rng(0).standard_normal((12, 9)), np.diag(np.arange(1.0, 10))
    found = []
    for engine in (NUMPY, STRICT):
        memory, directions = None, []
        for scale in (1.0, -2.0):
            moment = engine.data(metric)
            direction, memory = OPTIMISERS[name]().direction(scale * engine.data(rows), lambda m=moment: m, memory)
            directions.append(to_host(direction))
        found.append(directions)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.parametrize(("rows", "width"), [(30, 12), (12, 30)])
@pytest.mark.parametrize("penalties", [(0.1,), (0.1, 2.0), (1e-14, 2.0)])
def test_ridge(rows: int, width: int, penalties: tuple[float, ...]) -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.standard_normal((rows, width)), rng.standard_normal(rows)
    paths = []
    for engine in (NUMPY, STRICT):
        f, y = engine.data(features), engine.data(labels)
        paths.append(fit_ridge(lambda f=f, y=y: iter([(f[:8, :], y[:8]), (f[8:, :], y[8:])]), rows, width, penalties))
    np.testing.assert_allclose(to_host(paths[1].readouts), paths[0].readouts, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(paths[1].degrees_of_freedom, paths[0].degrees_of_freedom, rtol=1e-10)
    f, y = STRICT.data(features), STRICT.data(labels)
    found = primal(f.T @ f, f.T @ y, float(y @ y), (1.0,))
    assert found is not None
    np.testing.assert_allclose(to_host(found[0]), to_host(dual(f, y, (1.0,))[0]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu", "erf", "sign", "sin", "cos", "linear"])
def test_population_risk(activation: str) -> None:
    rng = np.random.default_rng(1)
    weights, readouts = rng.standard_normal((10, 40)) / 6, rng.standard_normal((10, 2))
    direction = np.eye(40)[0]
    risks = [
        population_risk(
            scalar_function(activation),
            scalar_function("softplus"),
            engine.double(weights),
            engine.double(direction),
            engine.double(direction),
            engine.double(readouts),
            tolerance=1e-9,
        ).test_error
        for engine in (NUMPY, STRICT)
    ]
    np.testing.assert_allclose(risks[0], risks[1], rtol=1e-10)
