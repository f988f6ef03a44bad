"""Whatever has a `device` gives the numbers of NumPy: on the processor by PyTorch, and on a graphics card, if any.

On the processor PyTorch and NumPy understand each other's arrays. Here they do not, as on a card: a tensor becomes an
array only after ``.cpu()``, and new tensors have to be told their device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import scalar_function
from gradstep.host import host_errors, to_host
from gradstep.simulation import ridge
from gradstep.simulation.backend import _pinned, backend
from gradstep.simulation.population import population_risk
from gradstep.simulation.streams import BLOCK_ROWS

torch = pytest.importorskip("torch")
overrides = pytest.importorskip("torch.overrides")

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card that PyTorch can use")
FACTORIES = {
    getattr(torch, name)
    for name in ("arange", "as_tensor", "asarray", "empty", "eye", "full", "linspace", "ones", "tensor", "zeros")
}


class AsOnACard(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
    """Refuse what a card would refuse."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in FACTORIES:
            given = bool(args) and isinstance(args[0], torch.Tensor)
            assert given or kwargs.get("device") is not None, f"{function.__name__} without a device"
        else:
            assert not any(isinstance(value, np.ndarray) for value in args), f"an array of NumPy in {function}"
        return function(*args, **kwargs)


@contextmanager
def as_on_a_card() -> Iterator[None]:
    """Let tensors of the processor behave as those of a card."""
    array, cpu = torch.Tensor.__array__, torch.Tensor.cpu

    def only_from_host(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(tensor, "on_host", False):
            raise TypeError("a tensor of a card is no array of NumPy")
        return array(tensor, *args, **kwargs)

    def to_cpu(tensor: Any) -> Any:
        moved = cpu(tensor).view_as(tensor)
        moved.on_host = True
        return moved

    torch.Tensor.__array__, torch.Tensor.cpu = only_from_host, to_cpu
    try:
        with AsOnACard():
            yield
    finally:
        torch.Tensor.__array__, torch.Tensor.cpu = array, cpu


Compare = Callable[..., None]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=CUDA)])
def device(request: pytest.FixtureRequest) -> str:
    """Return the name of a device of PyTorch."""
    return str(request.param)


@pytest.fixture
def same(device: str) -> Compare:
    """Return a function that compares what a call gives for NumPy and for the device."""

    def compare(call: Callable[[str | None], Any], rtol: float = 1e-7, atol: float = 1e-11) -> None:
        expected = leaves(call(None))
        with as_on_a_card() if device == "cpu" else nullcontext():
            found = leaves(call(device))
        assert len(found) == len(expected) > 0
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=rtol, atol=atol)

    return compare


def leaves(values: Any) -> list[Any]:
    """Return all arrays in tuples, lists and dictionaries."""
    if isinstance(values, Mapping):
        values = list(values.values())
    return (
        [leaf for value in values for leaf in leaves(value)] if isinstance(values, list | tuple) else [to_host(values)]
    )


def small(**changes: Any) -> gs.Problem:
    """Return a problem that takes milliseconds."""
    settings: dict[str, Any] = {
        "activation": "tanh",
        "teacher": "sin",
        "d": 36,
        "width": 40,
        "n_step": 120,
        "n": 90,
        "eta": gs.Step(2.0, exponent=0.5),
        "ridge": 1.0,
        "noise": 0.1,
    }
    return gs.Problem(**(settings | changes))


def measured(problem: gs.Problem, device: str | None, **options: Any) -> dict[str, Any]:
    """Return all values of a simulation."""
    return dict(gs.simulate(problem, 1, device=device, **options).values)


ACTIVATIONS = (
    *("tanh", "relu", "leaky_relu", "erf", "erf_scaled", "linear", "sign", "sin", "cos", "gelu", "silu", "sigmoid"),
    *("softplus", "abs", "hardtanh", "heaviside", "H2 + 0.3*x", "exp(-x**2)", "tanh(x) + 0.1*x**2"),
)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(same: Compare, activation: str) -> None:
    same(lambda device: measured(small(activation=activation), device, test_samples=300))


LAWS: dict[str, dict[str, Any]] = {
    "fewer samples than features": {"n": 30},
    "no step": {"eta": 0.0},
    "damped": {"damping": 0.3},
    "correlated": {"inputs": gs.Inputs.power_law(0.5)},
    "correlated and damped": {"inputs": gs.Inputs.power_law(0.5), "damping": 0.3},
    "two directions": {"teacher": "x1*x2 + x1"},
    "two directions, correlated": {"teacher": "x1*x2 + x1", "d": 400, "inputs": gs.Inputs.power_law(0.5)},
    "small output": {"output_scale": "1/N"},
    "rows on a sphere, equal readouts": {"initial_weights": "sphere", "readout": "constant"},
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ridge", [None, (0.1, 1.0)])
def test_laws(same: Compare, law: str, ridge: tuple[float, ...] | None) -> None:
    same(lambda device: measured(small(**LAWS[law]), device, ridge=ridge, test_samples=200))


@pytest.mark.parametrize("n", [30, 90])
@pytest.mark.parametrize("penalties", [1e-12, (1e-12, 1.0)])
def test_penalties_that_a_gram_matrix_loses(same: Compare, n: int, penalties: float | tuple[float, ...]) -> None:
    same(lambda device: measured(small(n=n), device, ridge=penalties), rtol=1e-5)


def test_single_precision(same: Compare) -> None:
    same(lambda device: measured(small(), device, dtype="float32"), rtol=1e-3)


def test_more_than_one_block(same: Compare) -> None:
    """The blocks of a card are drawn ahead, by several threads."""
    problem = small(d=5, width=8, n_step=9000, n=9000, damping=0.3)
    same(lambda device: measured(problem, device, test_samples=5000))


def test_expected_errors_and_rows_of_a_table(same: Compare) -> None:
    same(lambda device: measured(small(d=10, width=12), device, fit="expected"))
    rows = np.random.default_rng(0).standard_normal((700, 36))
    for replacement in (False, True):
        same(partial(measured, small(), rows=rows, replacement=replacement))


def test_comparison_and_sweep(same: Compare, tmp_path: Any) -> None:
    same(lambda device: [measured.values for measured in gs.compare(small(), 3, device=device).measurements])
    pytest.importorskip("xarray")

    def swept(device: str | None) -> Any:
        options = {"theory": False, "device": device, "store": tmp_path / str(device), "workers": 1}
        data = gs.sweep(small(), {"n": [30, 90]}, seeds=2, **options)
        return [values.to_numpy() for name, values in data.items() if values.dtype == np.float64]

    same(swept)


def network(device: str | None, **changes: Any) -> gs.Network:
    """Return a network on a device."""
    return gs.Network(small(**changes), 2, device=device)


def moments(device: str | None) -> list[Any]:
    """Return what a network measures other than errors of fits."""
    own = network(device)
    features, weights = own.feature_spectrum(), own.weight_spectrum()
    return [own.spike.direction, own.spike.strength, features.eigenvalues, weights.before, weights.after]


def test_networks(same: Compare) -> None:
    random = np.random.default_rng(1)
    inputs, readouts, weights = (random.standard_normal(shape) / 6 for shape in ((5, 36), (40, 3), (40, 36)))
    same(moments)
    same(lambda device: [network(device).fit_data(), network(device).step_data(), network(device).test_data(50)])
    same(lambda device: network(device).features(inputs))
    same(lambda device: network(device).risk(readouts).test_error)
    same(lambda device: network(device).risk(readouts[:, 0], along=np.eye(36)[1]).test_error)
    same(lambda device: network(device).with_weights(weights).test_error([0.1, 2.0]))
    same(lambda device: network(device).sampled_risk(network(device).fit().readouts, 500))
    same(lambda device: network(device).learning_curve([30, 60], [1.0], pool=2000).test_error)
    same(lambda device: network(device).fit_convex().readout, rtol=1e-5, atol=1e-8)
    for n in (30, 90):
        same(lambda device, n=n: network(device, n=n).leave_one_out([0.1, 1.0]))


@pytest.mark.parametrize("optimiser", ["gradient", "damped", "sign", "adam", "spectral"])
def test_training(same: Compare, optimiser: str) -> None:
    for fresh in (True, False):
        same(lambda device, fresh=fresh: network(device).train(2, fresh=fresh, optimiser=optimiser).test_error())


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    """Return inputs and targets."""
    X = np.random.default_rng(0).standard_normal((300, 8))
    return X, np.tanh(2 * X[:, 0] + X[:, 1])


@pytest.mark.parametrize(
    "options", [{}, {"eta": 2.0, "n_steps": 2}, {"sample_split": True}, {"eta": 1.0, "damping": 0.5}]
)
def test_estimators(same: Compare, table: tuple[Any, Any], options: dict[str, Any]) -> None:
    pytest.importorskip("sklearn")
    X, y = table
    settings = {"width": 64, "random_state": 0, **options}
    same(lambda device: gs.OneStepRegressor(device=device, **settings).fit(X, y).predict(X), rtol=1e-6, atol=1e-9)


def test_what_estimators_say(same: Compare, table: tuple[Any, Any]) -> None:
    pytest.importorskip("sklearn")
    X, y = table

    def said(device: str | None) -> list[Any]:
        model = gs.OneStepRegressor(width=64, random_state=0, device=device).fit(X, y)
        model.diagnose(X, y)
        return [model.link(X, y).explained, model.learning_curve(X, y).curve.test_error, model.directions_[:1] ** 2]

    same(said, rtol=1e-5, atol=1e-8)
    settings = {"width": 64, "random_state": 0}
    same(lambda device: gs.OneStepClassifier(device=device, **settings).fit(X, y > 0).predict_proba(X), rtol=1e-5)
    same(lambda device: gs.OneStepFeatures(device=device, **settings).fit(X, y).transform(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("rows", "classes"), [(60, False), (200, True), (5000, False)])
def test_learning_curves_of_tensors(same: Compare, rows: int, classes: bool) -> None:
    random = np.random.default_rng(0)
    features, noise, weights = random.standard_normal((rows, 12)), random.standard_normal(rows), random.random(rows)
    targets = np.sign(features[:, 0] + 0.1 * noise) if classes else features[:, 0] + 0.1 * noise

    def curve(device: str | None) -> Any:
        given = [values if device is None else torch.asarray(values, device=device) for values in (features, weights)]
        return gs.learning_curve(given[0], targets, n=[15, rows, 90], ridge=[0.5, 5.0], sample_weight=given[1])

    def errors(device: str | None) -> list[Any]:
        found = curve(device)
        return [found.test_error, found.training_error, found.classification_error if classes else 0.0]

    same(errors)
    # These are sums of single-precision numbers.
    same(lambda device: curve(device).test_standard_error, rtol=1e-5)


def test_cholesky_by_both_libraries(device: str) -> None:
    random = np.random.default_rng(0)
    features, labels = random.standard_normal((50, 20)), random.standard_normal(50)
    gram, moment = features.T @ features, features.T @ labels
    where = partial(torch.asarray, device=device)
    solution, freedom = ridge._cholesky(where(gram), where(moment), 0.3) or (None, math.nan)
    values = np.linalg.eigvalsh(gram)
    np.testing.assert_allclose(to_host(solution), np.linalg.solve(gram + 0.3 * np.eye(20), moment), rtol=1e-11)
    assert freedom == pytest.approx(float((values / (values + 0.3)).sum()), rel=1e-12)
    lost = where(np.ones((20, 20)))
    assert ridge._cholesky(lost, where(moment), 1e-9) is None
    assert ridge._cholesky(-lost, where(moment), 1e-9) is None


def test_arrays_that_are_given_are_left_alone(device: str) -> None:
    """A tensor may share the memory of an array of NumPy."""
    random, engine = np.random.default_rng(0), backend(device, "float64")
    weights, readouts = random.standard_normal((40, 36)) / 6, random.standard_normal((40, 2))
    kept = weights.copy(), readouts.copy()
    for activation in ("linear", "erf", "tanh"):
        axes = engine.double(np.eye(36)[0])
        given = engine.double(weights), axes, axes, engine.double(readouts)
        population_risk(scalar_function(activation), scalar_function("sin"), *given, tolerance=1e-9)
    network = gs.Network(small(), 0, before=weights, readout=readouts[:, 0], device=device)
    network.test_error()
    network.train(2, optimiser="adam")
    np.testing.assert_array_equal(weights, kept[0])
    np.testing.assert_array_equal(readouts, kept[1])


def test_failures_are_those_of_numpy(device: str) -> None:
    with pytest.raises(np.linalg.LinAlgError), host_errors():
        torch.linalg.cholesky(-torch.eye(3, dtype=torch.float64, device=device))

    with pytest.raises(MemoryError), host_errors():
        torch.empty(2**50, device=device)
    with pytest.raises(RuntimeError, match="something else"), host_errors():
        raise RuntimeError("something else")


def test_whatever_has_a_device_says_when_memory_is_short(device: str, table: tuple[Any, Any]) -> None:
    pytest.importorskip("sklearn")

    def greedy(u: Any) -> Any:
        if isinstance(u, torch.Tensor):
            torch.empty(2**50, device=device)
        return np.tanh(u)

    def model(**settings: Any) -> gs.OneStepRegressor:
        return gs.OneStepRegressor(activation=greedy, width=8, random_state=0, **settings)

    teacher, activation = (gs.Network(small(**{name: greedy}), 0, device=device) for name in ("teacher", "activation"))
    calls = [teacher.fit_data, lambda: teacher.after, activation.fit, lambda: activation.features(np.zeros((1, 36)))]
    calls += [lambda: gs.simulate(small(activation=greedy), 1, device=device)]
    fitted = model().fit(*table).set_params(device=device)
    calls += [lambda: model(device=device).fit(*table), lambda: fitted.predict(table[0])]
    for call in calls:
        with pytest.raises(MemoryError):
            call()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("law", ["gaussian", "sphere"])
def test_what_is_drawn_is_the_same_to_the_last_digit(device: str, law: str, dtype: str) -> None:
    problem = gs.Problem(
        activation="relu",
        teacher="tanh",
        d=40,
        width=BLOCK_ROWS + 3,
        n_step=6,
        n=2 * BLOCK_ROWS + 3,
        eta=0,
        ridge=1,
        initial_weights=law,
        inputs=gs.Inputs.power_law(0.5),
    )
    ours, theirs = (gs.Network(problem, 0, device=where, dtype=dtype) for where in (None, device))
    for own, other in ((ours.before, theirs.before), (ours.fit_data()[0], theirs.fit_data()[0])):
        np.testing.assert_array_equal(own, to_host(other))


def test_memory_and_threads_of_a_device(device: str) -> None:
    engine = backend(device, "float64")
    assert engine.on_card == (device == "cuda")
    assert (engine.memory or 0) > (2**30 if engine.on_card else -1)
    assert engine.on_card or engine.memory is None
    assert engine.on_card or engine.drawing.threads == 1
    block = torch.from_numpy(engine.drawing.empty((3, 2)))
    assert tuple(block.shape) == (3, 2)
    assert block.is_pinned() == engine.on_card
    # Where memory cannot be pinned, other memory does.
    assert _pinned((3, 2)).shape == (3, 2)
