"""What people wait for: every row is a wait with its goal, and the same wait over the bare work that is in it.

``run()`` returns rows ``{"name", "measured", "baseline", "baseline_name", "ratio", "target", "better", "unit"}``, two
for each wait: the first against the goal, the second, from the least times of all rounds, against a bare operation of
the same shapes that is timed in turn with it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from benchmarks.bench_theory import (
    BARE,
    CALLS_IN_TURN,
    Row,
    Times,
    bare_solves,
    bare_systems,
    cold,
    large_step,
    predict_module,
    problem,
    row,
    timed,
)
from scipy.linalg import lapack

import gradstep as gs
from gradstep.papers.moniri2024.finite import finite_errors
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.spectra import feature_spectrum as feature_module
from gradstep.theory.spectra import weight_spectrum as weight_module
from gradstep.theory.spectra.feature_classes import ClassEquations
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.feature_spectrum import feature_spectrum
from gradstep.theory.spectra.weight_spectrum import weight_spectrum
from gradstep.threads import one_thread

#: Largest memory of a process that answers the page's requests, in MB.
_WORKER_MEMORY = 300.0
#: Settings of the page whose curves take much memory: steep features, a strong kink, many values of a readout.
_HEAVY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tanh, steep features", {"activation": "tanh", "eta": {"coefficient": 100, "exponent": 0.5}}),
    ("relu, a strong step", {"activation": "relu", "eta": {"coefficient": 20, "exponent": 0.5}}),
    ("relu, 50 readouts", {"activation": "relu", "readout": {str(value): 0.02 for value in range(1, 51)}}),
)


def waited(label: str, measured: Times, goal: float, bare: Times, bare_name: str = BARE) -> list[Row]:
    """Return the rows of something that people wait for: against its goal, and against the bare work in it."""
    return [
        row(label, measured.median, goal, "goal", least=measured.least),
        row(label, measured.least, bare.least, bare_name, target=None),
    ]


def steps(count: int) -> list[gs.Step]:
    """Return step sizes from a tenth of the square root of the width to four times it."""
    return [gs.Step(float(size), exponent=0.5) for size in np.geomspace(0.1, 4, count)]


def posed_curves(points: int) -> Iterator[tuple[str, float, list[gs.Problem]]]:
    """Yield curves along one parameter: what they are, the goal, the problems."""
    axes: dict[str, list[Any]] = {
        "eta": list(steps(points)),
        "d": [round(d) for d in np.geomspace(200, 4000, points)],
        "n_step": [round(n) for n in np.geomspace(500, 32_000, points)],
        "n": [round(n) for n in np.geomspace(200, 20_000, points)],
        "ridge": np.geomspace(1e-2, 1e4, points).tolist(),
    }
    goals = {
        ("tanh", "gaussian"): 0.06,
        ("tanh", "constant"): 0.04,
        ("relu", "gaussian"): 0.15,
        ("relu", "constant"): 0.06,
    }
    cases = {(axis, *case): goal for axis in ("eta", "d", "n_step") for case, goal in goals.items()}
    cases |= {(axis, "relu", "gaussian"): 0.04 for axis in ("n", "ridge")}
    for (axis, activation, readout), goal in cases.items():
        posed = [problem(activation=activation, readout=readout, **{axis: value}) for value in axes[axis]]
        yield f"{points} points over {axis}, {activation}, {readout} readout, new tables", goal, posed


def curves(rounds: int, points: int = 60) -> list[Row]:
    """Time curves along one parameter, with new tables."""
    rows = []
    for label, goal, posed in posed_curves(points):
        times = timed({"curve": partial(cold, posed), "bare": bare_solves(posed)}, rounds)
        rows += waited(label, times["curve"], goal, times["bare"])
    return rows


def posed_grids(side: int) -> Iterator[tuple[str, float, list[gs.Problem]]]:
    """Yield grids with the penalty: what they are, the goal of 100 x 100, the problems."""
    ridges = np.geomspace(1e-2, 1e4, side).tolist()
    samples = [round(n) for n in np.geomspace(200, 20_000, side)]
    scaled = "" if side == 100 else f", scaled up from {side} x {side}"
    for activation, goal in (("tanh", 15.0), ("relu", 5.0)):
        posed = [problem(n=n, ridge=r, activation=activation) for n in samples for r in ridges]
        yield f"100 x 100 grid over (n, ridge), {activation}{scaled}", goal, posed
    posed = [problem(eta=e, ridge=r) for e in steps(side) for r in ridges]
    yield f"100 x 100 grid over (eta, ridge), tanh{scaled}", 1.5, posed


def grids(side: int) -> list[Row]:
    """Time `gs.predict_many` over grids with the penalty; a smaller grid is scaled up to 100 x 100."""
    rows, worst, more = [], 0.0, (100 / side) ** 2
    for label, goal, posed in posed_grids(side):
        start = time.perf_counter()
        predictions = cold(posed)
        seconds = (time.perf_counter() - start) * more
        worst = max(worst, *(prediction.residual for prediction in predictions))
        bare = timed({"bare": bare_solves(posed)}, 1)["bare"].least * more
        rows += waited(label, Times(seconds, seconds), goal, Times(bare, bare))
    return [*rows, row("largest residual of the grids", worst, 1e-10, "goal", unit="")]


def posed_limits(points: int) -> Iterator[tuple[str, float, list[gs.Problem], Callable[[], object]]]:
    """Yield points of the proportional limit: what they are, the goal, the problems, the function of the paper."""
    ratios, sizes = np.linspace(0.2, 3.0, points), np.linspace(0.5, 4.0, points)
    for label, etas in (("that share their tables", np.full(points, 3.0)), ("each with its own step", sizes)):
        posed = [
            gs.Problem.cui2024(
                activation="tanh", teacher="sin", alpha=float(alpha), alpha0=20.0, eta_tilde=float(eta), lam=0.1
            )
            for alpha, eta in zip(ratios, etas, strict=True)
        ]
        yield f"{points} points of the limit, {label}", 60e-6 * points, posed, partial(large_step, ratios, etas)


def limit_points(rounds: int, points: int = 200) -> list[Row]:
    """Time points of the proportional limit through `gs.predict_many`, against the function of the paper."""
    rows = []
    for label, goal, posed, bare in posed_limits(points):
        times = timed({"many": partial(cold, posed), "bare": bare}, rounds)
        rows += waited(label, times["many"], goal, times["bare"], "the vectorised function of Cui et al. 2024")
    return rows


#: Searches for the best parameters, with their goals.
SEARCHES: dict[tuple[str, tuple[str, ...]], float] = {
    ("tanh", ("ridge",)): 0.03,
    ("tanh", ("ridge", "eta")): 0.25,
    ("tanh", ("ridge", "eta", "split")): 0.8,
    ("relu", ("ridge", "eta")): 0.8,
    ("abs", ("ridge", "eta")): 1.5,
}
#: Two classes.
CLASSES = problem(teacher="tanh(2*x)")


def bump(x: Any) -> Any:
    """Return a function that is given as a callable."""
    return x / (1 + x**2)


#: What has no closed averages.
WITHOUT_AVERAGES: dict[str, Any] = {
    "x/(1+x**2)": "x/(1+x**2)",
    "tanh(x)*cos(x)": "tanh(x)*cos(x)",
    "a callable": bump,
}


def tuned(activation: str, over: tuple[str, ...]) -> gs.Tuned:
    """Search with new tables."""
    predict_module._prepared.cache_clear()
    return gs.tune(problem(activation=activation), over=over)


def tuning(*, quick: bool) -> list[Row]:
    """Time `gs.tune`."""
    rows = []
    for (activation, over), goal in [*SEARCHES.items()][: 2 if quick else None]:
        found = list[gs.Tuned]()

        def search(activation: str = activation, over: tuple[str, ...] = over, found: list[gs.Tuned] = found) -> None:
            found.append(tuned(activation, over))

        time_of = timed({"tune": search}, 1)["tune"]
        best = found[-1]
        bare = timed({"bare": bare_solves([best.problem])}, 3, CALLS_IN_TURN)["bare"]
        bare = Times(*(each * best.evaluations for each in bare))
        name = f"bare LAPACK solves of {best.evaluations} predictions at the best parameters"
        rows += waited(f"tune over {', '.join(over)}, {activation}", time_of, goal, bare, name)
    return rows


def posed_spectra() -> Iterator[tuple[str, float, gs.Problem]]:
    """Yield spectra of the features: what they are, the goal, the problem."""
    yield "feature_spectrum, tanh", 0.1, problem()
    large = problem(activation="relu", eta=gs.Step(10.0, exponent=0.5))
    yield "feature_spectrum, relu, a step ten times as large", 1.0, large
    inputs = gs.Inputs.power_law(0.5, 0.0, d=800)
    light = problem(activation="sin", teacher="relu", d=800, width=2432, n_step=104, n=6176, inputs=inputs)
    yield (
        "feature_spectrum, a power law with light bands",
        5.0,
        light.replace(eta=gs.Step(0.16, exponent=0.5), noise=0.5),
    )


def counted(kind: type[FeatureEquations], sizes: Counter[int]) -> Callable[..., Any]:
    """Return Newton's step of a kind of equations that also counts the systems of each size."""
    newton = kind.newton

    def step(equations: Any, z: Any, state: Any) -> Any:
        *points, size = state.shape
        # One kind may take the step of the other.
        sizes[size] += math.prod(points) if type(equations) is kind else 0
        return newton(equations, z, state)

    return step


def spectra(*, quick: bool) -> list[Row]:
    """Time the spectrum of the features, against the linear systems of its Newton steps."""
    rows = []
    for label, goal, posed in [*posed_spectra()][: 1 if quick else None]:
        sizes: Counter[int] = Counter()
        with ExitStack() as patched:
            for kind in (FeatureEquations, ClassEquations):
                patched.enter_context(mock.patch.object(kind, "newton", counted(kind, sizes)))
            anew(feature_spectrum, posed)
        calls: dict[str, Callable[[], object]] = {
            "spectrum": partial(anew, feature_spectrum, posed),
            "bare": bare_systems(sizes, 1 + 0.5j),
        }
        times = timed(calls, 1)
        name = f"bare LAPACK solves of its {sizes.total()} Newton steps"
        rows += waited(label, times["spectrum"], goal, times["bare"], name)
    return rows


def others(rounds: int) -> list[Row]:
    """Time convex losses, a formula without closed averages."""
    rows = []
    posed = CLASSES
    bare = timed({"bare": bare_solves([posed])}, 3, CALLS_IN_TURN)["bare"]
    for loss in ("logistic", "hinge"):
        call = partial(convex_prediction, posed, loss=loss, channel="sign")
        lost = timed({"loss": call}, 1)["loss"]
        rows += waited(f"convex_prediction, {loss}, classes", lost, 0.3, bare, "bare LAPACK solves of a ridge fit")
    for name, activation in WITHOUT_AVERAGES.items():
        posed = problem(activation=activation)
        times = timed({"new": partial(cold, [posed]), "bare": bare_solves([posed])}, rounds)
        rows += waited(f"predict, {name}, new tables", times["new"], 6e-3, times["bare"])
    return rows


def forget_spectra() -> None:
    """Forget the spectra that are kept."""
    for module in (feature_module, weight_module):
        module.whole_spectrum.cache_clear()


def anew(spectrum: Callable[[gs.Problem], object], problem: gs.Problem) -> None:
    """Find a spectrum of which nothing is known."""
    forget_spectra()
    spectrum(problem)


def along_curves(points: int = 8) -> list[Row]:
    """Time what a curve can ask for besides errors, next to its places one by one with nothing known."""
    rows = []
    axes: dict[str, list[Any]] = {"eta": steps(points), "n": [round(n) for n in np.geomspace(300, 10_000, points)]}
    axes["ridge"] = np.geomspace(1e-2, 1e3, points).tolist()
    curves = {axis: [problem(**{axis: value}) for value in values] for axis, values in axes.items()}
    calls: dict[str, tuple[Callable[[gs.Problem], object], str]] = {
        "feature_spectrum": (feature_spectrum, "ridge"),
        "weight_spectrum": (weight_spectrum, "n"),
    }
    for name, (call, axis) in calls.items():

        def curve(call: Callable[[gs.Problem], object] = call, posed: list[gs.Problem] = curves[axis]) -> None:
            forget_spectra()
            for one in posed:
                call(one)

        def alone(call: Callable[[gs.Problem], object] = call, posed: list[gs.Problem] = curves[axis]) -> None:
            for one in posed:
                anew(call, one)

        rows.append(at_places(f"{name} at {points} places over {axis}, tanh", curve, alone))
        # Over the step every place has its own.
        time_of = timed({name: partial(curve, call, curves["eta"])}, 1)[name]
        bare = timed({"bare": bare_solves(curves["eta"])}, 3, CALLS_IN_TURN)["bare"]
        label = f"{name} at {points} places over eta, tanh"
        rows.append(row(label, time_of.least, bare.least, "bare LAPACK solves of a ridge fit at each", target=None))
    for axis, posed in curves.items():

        def each(posed: list[gs.Problem] = posed) -> None:
            for one in posed:
                gs.predict_spread(one)

        label = f"predict_spread_many at {points} places over {axis}, tanh"
        rows.append(at_places(label, partial(gs.predict_spread_many, posed), each))
    return rows


def at_places(label: str, curve: Callable[[], object], alone: Callable[[], object]) -> Row:
    """Return the row of a curve next to its places."""
    times = timed({"curve": curve, "alone": alone}, 1)
    return row(label, times["curve"].least, times["alone"].least, "its places one by one", target=None)


def moniri_problem() -> gs.Problem:
    """Return a problem whose initial output has a constant of order one."""
    return problem(
        activation="tanh(x+0.6)", teacher="x+(x**2-1)/2", eta=gs.Step(1.0, exponent=0.2), output_scale="1/sqrt(N)"
    )


def finite_moniri(rounds: int) -> list[Row]:
    """Time the errors of Moniri et al. 2024 at finite n, with five output constants."""
    posed = moniri_problem()
    z = np.linspace(-7.6, 7.6, 100)
    products = np.multiply.outer(z, z[:50])
    matrix = np.eye(24)

    def bare() -> None:
        # A formula on its grid and one least-squares problem, for each of the constants.
        for _ in range(5):
            np.tanh(products) * np.exp(-products)
            np.linalg.qr(matrix)

    times = timed({"errors": lambda: finite_errors([posed]), "bare": bare}, rounds)
    name = "a hyperbolic tangent and an exponential on its grids, and five QR"
    return waited("moniri2024 errors at finite n, five output constants", times["errors"], 8e-3, times["bare"], name)


def small_network(activation: str) -> gs.Problem:
    """Return the problem of a small network."""
    return problem(activation=activation, d=128, width=192, n_step=384, n=384)


def bare_network(d: int, width: int, samples: int) -> Callable[[], None]:
    """Return the matrix products, factorisation and random numbers of one seed."""
    step, fit = np.ones((samples, d)), np.ones((width, d))

    @one_thread()
    def bare() -> None:
        rng = np.random.default_rng(0)
        for shape in ((samples, d), (samples, d), (width, d)):
            rng.standard_normal(shape)
        forward = step @ fit.T  # of the step
        forward.T @ step  # its gradient
        features = step @ fit.T  # of the fit
        features.T @ features
        factor, _ = lapack.dpotrf(np.eye(width), lower=1)
        lapack.dpotri(factor, lower=1)
        fit @ fit.T  # covariances of the population kernel

    return bare


def small_networks(rounds: int) -> list[Row]:
    """Time one seed of a small network, over the bare work of its shapes."""
    rows = []
    for activation in ("tanh", "relu"):
        posed = small_network(activation)
        d, width, _, samples, _ = map(int, posed.real_sizes())
        calls = {"simulate": partial(gs.simulate, posed, seeds=[1]), "bare": bare_network(d, width, samples)}
        times = timed(calls, rounds)
        label = f"simulate {activation}, d = {d}, N = {width}, n = n_step = {samples}"
        name = "bare BLAS, LAPACK and random numbers"
        rows.append(row(label, times["simulate"].least, times["bare"].least, name, target=2.0))
    return rows


#: What a new interpreter runs.
FIRST_PREDICTION = (
    "import gradstep as gs; gs.predict(gs.Problem(activation='tanh', teacher='sin', d=1000, width=2000, "
    "n_step=4000, n=2000, eta=gs.Step(1.0, exponent=0.5), ridge=2.0))"
)


def from_the_shell(rounds: int) -> list[Row]:
    """Time a new interpreter that imports the package and predicts, next to one that imports NumPy.

    Modules are compiled before, as they are wherever Python may write what it has compiled.
    """
    with tempfile.TemporaryDirectory() as compiled:
        allowed = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**allowed, "PYTHONPYCACHEPREFIX": compiled}

        def interpreter(code: str) -> Callable[[], object]:
            return partial(subprocess.run, [sys.executable, "-c", code], check=True, env=environment)

        calls = {"predict": interpreter(FIRST_PREDICTION), "bare": interpreter("import numpy")}
        for call in calls.values():
            call()
        times = timed(calls, rounds)
    return waited("import and one prediction from the shell", times["predict"], 0.35, times["bare"], "import numpy")


def tiny_sweep(tasks: int) -> list[Row]:
    """Time a task of a sweep of tiny networks on one process, next to the networks alone."""
    posed = gs.Problem(activation="erf", teacher="erf", d=20, width=20, n_step=20, n=20, eta=1.0, ridge=0.1)
    places = tasks // 20
    samples = list(range(20, 20 + places))

    def swept() -> None:
        with tempfile.TemporaryDirectory() as name:
            gs.sweep(posed, {"n": samples}, seeds=20, theory=False, store=Path(name), workers=1)

    def alone() -> None:
        for n in samples:
            gs.simulate(posed.replace(n=n), seeds=20)

    start = time.perf_counter()
    swept()
    middle = time.perf_counter()
    alone()
    whole, bare = middle - start, time.perf_counter() - middle
    label, name = f"sweep of {20 * places} tiny tasks, a task", "the networks alone, one after the other"
    each, alone_each = (Times(seconds / (20 * places), seconds / (20 * places)) for seconds in (whole, bare))
    return waited(label, each, 6e-3, alone_each, name)


def worker_memory() -> list[Row]:
    """Measure what a process of the page holds after the curves of each of its heavy settings, in a new process."""
    rows = []
    for place, (name, _) in enumerate(_HEAVY):
        code = (
            "import psutil; from benchmarks.bench_waits import heavy_curves; "
            f"heavy_curves({place}); print(psutil.Process().memory_info().rss / 2**20)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        label = f"memory of a process of the page after its curves, {name}"
        rows.append(row(label, float(done.stdout), _WORKER_MEMORY, "goal", unit="MB"))
    return rows


def heavy_curves(place: int) -> None:
    """Answer what a process of the page is asked for in one of the heavy settings."""
    from gradstep.app import answers, settings

    setting = {**settings.DEFAULT, **_HEAVY[place][1]}
    for axis in ("n", "eta"):
        answers.curve_part({"problem": setting, "axis": {"name": axis}}, 0, 1)


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything: about six minutes on two cores, half a minute if `quick`."""
    return [
        *curves(3 if quick else 7, 15 if quick else 60),
        *grids(10 if quick else 100),
        *limit_points(3 if quick else 7),
        *tuning(quick=quick),
        *spectra(quick=quick),
        *others(3 if quick else 11),
        *along_curves(2 if quick else 8),
        *finite_moniri(3 if quick else 21),
        *small_networks(3 if quick else 21),
        *from_the_shell(3 if quick else 7),
        *tiny_sweep(100 if quick else 2000),
        *worker_memory(),
    ]
