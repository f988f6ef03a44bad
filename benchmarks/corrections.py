"""Published formulas against measurements: ``python -m benchmarks.corrections [name ...]``.

Every entry measures on drawn networks (or drawn models) a quantity for which a paper prints a formula, and judges the
printed value and this project's. Measured entries replace those of the results file that have their name; the page
"Corrections" of the documentation shows that file. All entries take about eight minutes on one core, none more than 90
seconds.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.overlay import Overlay
from gradstep.papers import ba2022, cui2024, moniri2024
from gradstep.papers.ba2022.experiments import improvement, kernel_ridge, rank_one
from gradstep.papers.cui2024.drawn import feature_eigenvalues, fit, spiked_layer, stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate
from gradstep.papers.moniri2024.experiments import exponents, sharp_spikes, spike_shape
from gradstep.simulation.ridge import fit_rows

RESULTS = Path(__file__).parent / "results" / "corrections.json"


@dataclass(frozen=True)
class Correction:
    """A quantity with the printed value, this project's, and how to measure it on the network of a seed.

    The kind is ``formula`` where what is printed (a formula, or a number) is wrong as it stands, ``condition`` where it
    holds in a limit or a model that the network is not in.
    """

    name: str
    kind: str
    paper: str
    place: str
    quantity: str
    published: float
    corrected: float
    measure: Callable[[int], float]
    seeds: range
    settings: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Measure, and judge both values."""
        start = time.perf_counter()
        values = [self.measure(seed) for seed in self.seeds]
        published, corrected = Overlay.of(self.published, values), Overlay.of(self.corrected, values)
        return {
            "name": self.name,
            "kind": self.kind,
            "paper": self.paper,
            "place": self.place,
            "quantity": self.quantity,
            "published": self.published,
            "corrected": self.corrected,
            "mean": float(published.mean),
            "standard_error": float(published.standard_error),
            "z_published": float(published.z),
            "z_corrected": float(corrected.z),
            "seeds": len(self.seeds),
            "first_seed": self.seeds.start,
            "settings": self.settings,
            "seconds": round(time.perf_counter() - start, 1),
        }


# --- Ba et al. 2022 --------------------------------------------------------------------------------------------------


def kernel_objective() -> Correction:
    """(3.2): the minimiser of the objective that is printed adds n lam to the kernel matrix, and not lam."""
    settings = {"kernel": "exp(<x, y>/d)", "teacher": "erf", "psi1": 4.0, "d": 200, "lam": 2e-3, "sigma_eps": 0.3}
    d, lam = settings["d"], settings["lam"]
    problem = gs.Problem.ba2022(psi1=settings["psi1"], psi2=1.0, lam=1.0, sigma_eps=0.3, d=d, teacher="erf")
    n = int(problem.n)
    kernel = ba2022.inner_product_kernel(1.0, math.e, 1.0)

    def measure(seed: int) -> float:
        network = gs.Network(problem, seed)
        inputs, labels = network.fit_data()
        fresh, target = network.test_data(4000)
        weights = np.zeros((1, d))
        gram, cross = (
            kernel_ridge.kernel_matrix("inner_product", problem, weights, x, inputs) for x in (inputs, fresh)
        )
        # f = K(., X) a: the gradient of (1/n) |y - K a|^2 + lam a^T K a vanishes where (K + n lam) a = y.
        coefficients = cho_solve(cho_factor(gram + n * lam * np.eye(n)), labels)
        slope = gram @ (gram @ coefficients - labels) / n + lam * gram @ coefficients
        assert np.abs(slope).max() < 1e-9
        return float(np.mean((cross @ coefficients - target) ** 2))

    published, corrected = (
        float(
            ba2022.R_ker(
                kernel,
                "erf",
                ridge=ba2022.kernel_ridge_penalty(lam, n, published=printed),
                psi1=settings["psi1"],
                sigma_eps=settings["sigma_eps"],
            )
        )
        for printed in (True, False)
    )
    return Correction(
        "kernel_objective",
        "formula",
        "Ba et al. 2022",
        "(3.2)",
        "risk of the minimiser",
        published,
        corrected,
        measure,
        range(100, 124),
        settings,
    )


def gradient_definition() -> Correction:
    """Proposition 2 defines the gradient as (W1 - W0)/(n sqrt N); its norm belongs to (W1 - W0)/(eta sqrt N)."""
    base = {"activation": "tanh", "teacher": "sin", "psi1": 4.0, "psi2": 1.5, "sigma_eps": 0.1, "d": 300}
    problem = gs.Problem.ba2022(lam=1.0, eta=1.0, **base)
    ratios = {name: base[name] for name in ("psi1", "psi2", "sigma_eps")}
    corrected = float(ba2022.norms("tanh", "sin", **ratios).gradient)
    return Correction(
        "gradient_definition",
        "formula",
        "Ba et al. 2022",
        "Proposition 2",
        "√N ‖G_0‖",
        corrected * problem.step_size / int(problem.n),
        corrected,
        lambda seed: rank_one.measure(base, seed)["gradient"],
        range(200, 224),
        {**base, "eta": 1.0},
    )


def gain_and_noise() -> Correction:
    """Theorem 5 names mu_1*, mu_1, mu_2: the gain depends on the noise as well, through the norm of the gradient."""
    base = {"activation": "tanh", "teacher": "tanh", "psi1": 1.0, "psi2": 2.0, "lam": 0.5, "d": 300}
    ratios = {name: base[name] for name in ("psi1", "psi2", "lam")}
    width = round(base["psi2"] * base["d"])

    def gain(noise: float) -> float:
        return float(ba2022.delta("tanh", "tanh", eta=6.0, N=width, sigma_eps=noise, **ratios))

    parameters = {**base, "sigma_eps": 1.0, "etas": [6.0]}
    return Correction(
        "gain_and_noise",
        "formula",
        "Ba et al. 2022",
        "Theorem 5, parameters of (C.19)",
        "gain δ with label noise 1 (printed: that without noise)",
        gain(0.0),
        gain(1.0),
        lambda seed: improvement.measure(parameters, seed)["delta"][0],
        range(300, 348),
        {**base, "sigma_eps": 1.0, "eta": 6.0},
    )


def gain_at_finite_width() -> Correction:
    """Theorem 5 is a limit: at small width the network's own output in the residual adds to the gain."""
    base = {"activation": "tanh", "teacher": "relu", "psi1": 5.0, "psi2": 0.5, "lam": 0.01, "sigma_eps": 0.1, "d": 256}
    ratios = {name: base[name] for name in ("psi1", "psi2", "lam", "sigma_eps")}
    width = round(base["psi2"] * base["d"])
    published, corrected = (float(ba2022.delta("tanh", "relu", eta=4.0, N=N, **ratios)) for N in (None, width))
    return Correction(
        "gain_at_finite_width",
        "condition",
        "Ba et al. 2022",
        "Theorem 5, at N = 128",
        "gain δ",
        published,
        corrected,
        lambda seed: improvement.measure({**base, "etas": [4.0]}, seed)["delta"][0],
        range(400, 440),
        {**base, "eta": 4.0},
    )


# --- Moniri et al. 2024 ----------------------------------------------------------------------------------------------

ACTIVATION = "sin(1.2*x + 0.6) - 0.27484099773585186"
PUBLISHED: dict[str, Any] = {"spikes": "published", "rows": "sphere"}


def second_spike() -> Correction:
    """F_2 misses a term of its own order: the constant that the rest of the gradient gives the second spike."""
    base = {"activation": ACTIVATION, "teacher": "H1 + 0.7071067811865476*H2", "phi": 0.5, "psi": 0.4, "noise": 0.0}
    n, alpha = 1200, 0.3
    problem = gs.Problem.moniri2024(**base, lam=0.1, n=n, alpha=alpha, residual="y")
    width, v = float(problem.width), moniri2024.direction(ACTIVATION, base["teacher"], phi=0.5, residual="y")
    student = moments(problem.activation)
    square = (problem.step_size * student.linear * float(v.norm)) ** 2 / width
    table = moniri2024.spike_coefficients(problem)
    parameters = {**base, "lam": 0.1, "n": n, "alpha": alpha, "degrees": [0]}
    return Correction(
        "second_spike",
        "formula",
        "Moniri et al. 2024",
        "F_l, spike k = 2",
        "coefficient of F - F_0 along (1, a∘a), over √n",
        math.sqrt(3 * width) * student.quadratic / math.sqrt(2) * square,
        float(math.sqrt(width / 3) * (table[0, 0] + math.sqrt(2) * table[0, 2])),
        lambda seed: spike_shape.measure(parameters, seed)["coefficient"][0],
        range(500, 512),
        {**base, "n": n, "alpha": alpha, "residual": "y"},
    )


GAINS = {"activation": ACTIVATION, "teacher": "H1 + 0.5*H2 + 0.2*H3 + 0.08*H4", "phi": 0.5, "psi": 1.0, "lam": 0.05}
GAINS |= {"noise": 0.3}
SHARP = {**GAINS, "strength": 100.0, "n": 600, "spikes": 2, "test": 4}


@lru_cache(maxsize=1024)
def _sharp(seed: int) -> dict[str, list[float]]:
    return sharp_spikes.measure(SHARP, seed)


def _gain(name: str, spike: int, place: str, printed: Callable[..., Any]) -> Correction:
    ratios = {"phi": GAINS["phi"], "psi": GAINS["psi"], "lam": GAINS["lam"], "sigma_eps": GAINS["noise"]}
    sigma, sigma_star = GAINS["activation"], GAINS["teacher"]
    gain = moniri2024.Delta if name.startswith("delta") else moniri2024.Lambda
    corrected = [float(gain(l, sigma, sigma_star, residual="y", **ratios)) for l in (spike - 1, spike)]  # noqa: E741
    error = "training loss" if name.startswith("delta") else "test error"
    return Correction(
        name,
        "formula",
        "Moniri et al. 2024",
        place,
        f"gain in {error} of spike {spike}",
        float(printed(sigma, sigma_star, **ratios)),
        corrected[1] - corrected[0],
        lambda seed: _sharp(seed)["Delta" if name.startswith("delta") else "Lambda"][spike - 1],
        range(600, 720),
        {**SHARP, "residual": "y"},
    )


def delta_2() -> Correction:
    """(2): the second spike's gain, with the spike of the network and Gaussian rows."""

    def printed(*functions: Any, **ratios: Any) -> float:
        return float(
            moniri2024.published_Delta_2(*functions, **ratios) - moniri2024.published_Delta_1(*functions, **ratios)
        )

    return _gain("delta_2", 2, "(2), second term", printed)


def lambda_1() -> Correction:
    """(3) lacks a factor."""
    return _gain("lambda_1", 1, "(3)", moniri2024.published_Lambda_1)


def lambda_2() -> Correction:
    """(4), its second term: 1/m_1^2 is there, phi/psi is not."""

    def printed(*functions: Any, **ratios: Any) -> float:
        return float(
            moniri2024.published_Lambda_2(*functions, **ratios) - moniri2024.published_Lambda_1(*functions, **ratios)
        )

    return _gain("lambda_2", 2, "(4), second term", printed)


def literal_residual() -> Correction:
    """(1) holds for a residual without the initial output; theirs is y - f with f of order one."""
    base = {"activation": ACTIVATION, "teacher": "H1", "phi": 0.5, "psi": 0.4, "lam": 0.1, "noise": 1.0}
    n, strength = 600, 100.0
    problem = gs.Problem.moniri2024(**base, n=n, alpha=0.0, residual="y - f")
    ratios = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "sigma_eps": 1.0}
    ridge = float(problem.ridge)

    def loss(rows: Any, labels: Any) -> float:
        return float(fit_rows(rows, labels, [ridge]).train_loss[0])

    def measure(seed: int) -> float:
        network = gs.Network(problem, seed)
        inputs, labels = network.fit_data()
        rows, linear = network.initial.features(inputs), network.gradient.linear
        kappa = inputs @ (linear / np.linalg.norm(linear))
        spike = strength * network.readout / np.linalg.norm(network.readout)
        return loss(rows, labels) - loss(rows + np.outer(kappa, spike), labels)

    return Correction(
        "literal_residual",
        "formula",
        "Moniri et al. 2024",
        "(1), with their residual y - f",
        "gain in training loss of spike 1",
        float(moniri2024.published_Delta_1(ACTIVATION, "H1", **ratios)),
        float(moniri2024.Delta(1, ACTIVATION, "H1", residual="y - f", **ratios)),
        measure,
        range(800, 880),
        {**base, "n": n, "strength": strength, "residual": "y - f"},
    )


def staircase_at_finite_n() -> Correction:
    """The staircase is the limit of infinitely many samples: at a thousand it is a ramp far below."""
    base = {"activation": ACTIVATION, "teacher": "H1 + 0.7071067811865476*H2", "phi": 0.5, "psi": 0.4, "lam": 0.1}
    base |= {"noise": 0.0, "residual": "y"}
    n, alpha = 1000, 0.29
    ratios = {"phi": 0.5, "psi": 0.4, "lam": 0.1}
    finite = moniri2024.finite_errors([gs.Problem.moniri2024(**base, n=n, alpha=alpha)])

    def measure(seed: int) -> float:
        before, after = exponents.measure({**base, "n": n, "alpha": alpha, "test": False}, seed)["L_tr"]
        return before - after

    return Correction(
        "staircase_at_finite_n",
        "condition",
        "Moniri et al. 2024",
        "(2), at n = 1000",
        "gain in training loss at α = 0.29",
        float(moniri2024.published_Delta_2(ACTIVATION, base["teacher"], **ratios)),
        float(finite.training_gain[0]),
        measure,
        range(900, 948),
        {**base, "n": n, "alpha": alpha},
    )


# --- Cui et al. 2024 -------------------------------------------------------------------------------------------------


OVERLAP = {"activation": "tanh", "teacher": "sin", "eta_tilde": 3.0, "alpha0": 20.0, "alpha": 3.0, "lam": 0.1}
OVERLAP_D = 500


@lru_cache(maxsize=1024)
def _spiked_fit(seed: int) -> dict[str, float]:
    """Return test error and theta of drawn spiked random features, extrapolated from d/2 and d to infinite d."""
    model = cui2024.equivalent_srf("tanh", "sin", eta_tilde=OVERLAP["eta_tilde"], alpha0=OVERLAP["alpha0"])
    sigma, sigma_star = gs.scalar_function("tanh"), gs.scalar_function("sin")

    def drawn(d: int) -> dict[str, float]:
        layer = spiked_layer(seed, d, d, r=model.strength, c=model.bulk_variance, gamma=model.alignment)
        found = fit(layer, sigma, sigma_star, n=round(OVERLAP["alpha"] * d), lam=OVERLAP["lam"], seed=seed)
        return {"theta": found.bulk_overlap, "test_error": found.test_error}

    return extrapolate(drawn, OVERLAP_D)


def _overlap(name: str, quantity: str, published: float, corrected: float, key: str) -> Correction:
    return Correction(
        name,
        "formula",
        "Cui et al. 2024",
        "printed outputs of the notebook of Result 3.3",
        quantity,
        published,
        corrected,
        lambda seed: _spiked_fit(seed)[key],
        range(1000, 1100),
        {**OVERLAP, "beta": 1.0, "d": f"{OVERLAP_D // 2} and {OVERLAP_D}, extrapolated"},
    )


def _ratios() -> dict[str, Any]:
    return {name: OVERLAP[name] for name in ("eta_tilde", "alpha0", "alpha", "lam")}


#: Last line of the outputs stored in the authors' notebook: theta and test error at alpha = 3.
PRINTED_OVERLAP, PRINTED_ERROR = 2.0112583239061443e-08, 0.033340014535464826


def bulk_overlap() -> Correction:
    """The notebook's stored outputs have no theta (its source has one); drawn spiked random features do."""
    theta = float(cui2024.summary_statistics("tanh", "sin", **_ratios()).bulk_overlap)
    return _overlap("bulk_overlap", "overlap θ with the bulk along the spike", PRINTED_OVERLAP, theta, "theta")


def error_without_overlap() -> Correction:
    """The test error of the same stored outputs."""
    corrected = float(cui2024.summary_statistics("tanh", "sin", **_ratios()).test_error)
    return _overlap("error_without_overlap", "test error", PRINTED_ERROR, corrected, "test_error")


def feature_outlier() -> Correction:
    """(191) is the leading order, proportional to p; the terms of order one are many standard errors."""
    setting = {"r": 0.5, "c": 1.2, "gamma": 0.9}
    d, width, n = 200, 200, 400

    def measure(seed: int) -> float:
        return float(feature_eigenvalues(spiked_layer(seed, width, d, **setting), tanh, n=n, seed=seed)[-1])

    tanh = gs.scalar_function("tanh")
    published, corrected = (
        float(cui2024.outlier("tanh", "tanh", **setting, p=width, n=n, d=d, published=printed))
        for printed in (True, False)
    )
    return Correction(
        "feature_outlier",
        "formula",
        "Cui et al. 2024",
        "(191), at p = 200",
        "largest eigenvalue of the features' covariance",
        published,
        corrected,
        measure,
        range(1200, 1400),
        {"activation": "tanh", **setting, "d": d, "p": width, "n": n},
    )


def spike_and_width() -> Correction:
    """C.8: wider networks have smaller spikes only at a learning rate in units of d; Result 3.1 has no width."""
    setting = {"eta_tilde": 1.0, "alpha0": 4.0}
    strength = float(cui2024.equivalent_srf("tanh", "tanh", **setting).strength)

    def problem(beta: float) -> gs.Problem:
        return gs.Problem.cui2024(alpha=1.0, beta=beta, lam=1.0, d=300, **setting)

    def measure(seed: int) -> float:
        narrow, wide = (stepped_layer(problem(beta), seed).spike.mean() for beta in (0.5, 2.0))
        return float(wide / narrow)

    assert strength > 0
    return Correction(
        "spike_and_width",
        "condition",
        "Cui et al. 2024",
        "C.8, effect of the width",
        "spike of a neuron at β = 2 over that at β = 1/2, same η̃",
        0.25,
        1.0,
        measure,
        range(1500, 1516),
        {"activation": "tanh", "teacher": "tanh", **setting, "d": 300},
    )


def few_step_samples() -> Correction:
    """Result 3.1 makes the bulk isotropic; the network's is made of the step's own samples."""
    setting = {"eta_tilde": 3.0, "alpha0": 0.5, "alpha": 3.0, "lam": 0.01}
    problem = gs.Problem.cui2024(**setting, d=200)
    return Correction(
        "few_step_samples",
        "condition",
        "Cui et al. 2024",
        "Results 3.1 and 3.3 as a model of the network, few samples in the step",
        "test error of the network",
        float(cui2024.summary_statistics("tanh", "tanh", **setting).test_error),
        gs.predict(problem).test_error,
        lambda seed: float(gs.simulate(problem, seeds=[seed])["test_error"][0]),
        range(1700, 1800),
        {"activation": "tanh", "teacher": "tanh", **setting, "beta": 1.0, "d": 200},
    )


def lower_bound() -> Correction:
    """(27) bounds spiked random features; the norms of the network's rows fluctuate and offer one function more."""
    setting = {"eta_tilde": 3.0, "alpha0": 50.0}
    d, alpha, beta, lam = 50, 500.0, 10.0, 0.001
    model = cui2024.equivalent_srf("erf", "sign", **setting)
    problem = gs.Problem.cui2024(alpha=alpha, beta=beta, lam=lam * d, d=d, activation="erf", teacher="sign", **setting)
    bound = cui2024.lower_bound("erf", "sign", r=model.strength, c=model.bulk_variance, gamma=model.alignment)
    return Correction(
        "lower_bound",
        "condition",
        "Cui et al. 2024",
        "(27) as a bound on the network",
        "test error of the network (printed: a lower bound)",
        float(bound),
        gs.predict(problem).test_error,
        lambda seed: float(gs.simulate(problem, seeds=[seed])["test_error"][0]),
        range(1600, 1616),
        {"activation": "erf", "teacher": "sign", **setting, "alpha": alpha, "beta": beta, "lam": lam * d, "d": d},
    )


CORRECTIONS: tuple[Callable[[], Correction], ...] = (
    kernel_objective,
    gradient_definition,
    gain_and_noise,
    gain_at_finite_width,
    second_spike,
    delta_2,
    lambda_1,
    lambda_2,
    literal_residual,
    staircase_at_finite_n,
    bulk_overlap,
    error_without_overlap,
    feature_outlier,
    spike_and_width,
    few_step_samples,
    lower_bound,
)


def main() -> None:
    """Measure the corrections that are named, or all."""
    known = {make.__name__: make for make in CORRECTIONS}
    names = sys.argv[1:] or list(known)
    rows = {row["name"]: row for row in json.loads(RESULTS.read_text())["rows"]} if RESULTS.exists() else {}
    for name in names:
        with threadpool_limits(1):
            row = rows[name] = known[name]().row()
        print(
            f"{name:24} published {row['published']:.5g} (z {row['z_published']:+.1f})  corrected "
            f"{row['corrected']:.5g} (z {row['z_corrected']:+.1f})  measured {row['mean']:.5g} +- "
            f"{row['standard_error']:.2g}  {row['seconds']} s",
            flush=True,
        )
        content = {
            "settings": {"command": "python -m benchmarks.corrections", "gradstep": gs.__version__},
            "rows": [rows[name] for name in known if name in rows],
        }
        RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
