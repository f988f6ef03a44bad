"""The one immutable value that goes in everywhere: sizes, functions, step, penalty, noise, readout law.

Canonical convention (every other one is translated into it at construction):

* data ``x ~ N(0, C)``, ``C = I_d`` unless `inputs` are given and ``tr C = d`` always, labels
  ``y = f*(<x, beta*>) + noise * N(0, 1)``, ``Var <x, beta*> = 1``;
* network ``f(x) = (1/N) sum_i a_i sigma(<w_i, x>)`` with ``a_i`` of order one and ``|w_i| ~ 1``;
* step ``w_i <- w_i + (eta / sqrt(N)) G_i`` with
  ``G_i = (1/n_step) sum_mu a_i (y_mu - f(x_mu)) sigma'(<w_i, x_mu>) x_mu``; with a finite `damping` delta every
  row of G is multiplied by ``(1 + delta) (X^T X / n_step + delta)^-1`` of the step's inputs;
* readout fit on ``n`` fresh samples:
  ``min_b sum_mu (y_mu - sum_i b_i sigma(<w_i, x_mu>))^2 + ridge * |b|^2``;
* test error ``E (f_hat - f*)^2`` (label noise not included), training error the mean square on the fit's own
  labels, training loss ``train_error + (ridge / n) |b|^2``. No factor 1/2 anywhere.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

from gradstep.checks import LARGEST_NUMBER, bounded, is_infinite, is_real, one_of, plain_number, read_number, real, size
from gradstep.errors import MISSING, InvalidInput
from gradstep.gaussian import MultivariateFunction, ScalarFunction, function_of, moments, scalar_function
from gradstep.inputs import Inputs
from gradstep.reading import parsed_toml, read_toml
from gradstep.resolution import NOTHING
from gradstep.sizes import Proportional, Sizes, at_dimension, extent, read_size
from gradstep.summary import Summary
from gradstep.text_table import Table

CONVENTION = (
    "canonical: w += (eta/sqrt N) G with G averaged over n_step samples; ridge on the sum of squares over raw "
    "features; errors are mean squares without 1/2; the test error excludes label noise"
)

CONVENTION_IN_FULL = """\
data     x ~ N(0, I_d), labels y = f*(<x, beta*>) + noise * N(0, 1) with
         |beta*| = 1; with inputs x ~ N(0, C), tr C = d, Var <x, beta*> = 1
network  f(x) = (1/N) sum_i a_i sigma(<w_i, x>), a_i of order one, |w_i| ~ 1
step     w_i += (eta / sqrt(N)) G_i with
         G_i = (1/n_step) sum_mu a_i (y_mu - f(x_mu)) sigma'(<w_i, x_mu>) x_mu;
         with damping D times (1 + D) (X^T X / n_step + D)^-1
fit      min_b sum_mu (y_mu - sum_i b_i sigma(<w_i, x_mu>))^2 + ridge |b|^2
         on n fresh samples
errors   test error E (f_hat - f*)^2, label noise not included; train error:
         mean square on the labels of the fit; train loss: train error
         + (ridge/n) |b|^2; no factor 1/2 anywhere"""
"""The scaling of the numbers in a result, as it is printed."""

TRANSLATION = {
    "ba2022": {"eta": "their eta", "ridge": "lambda n"},
    "moniri2024": {"eta": "their eta = c n^alpha; their network: sqrt(N) times ours", "ridge": "lambda n"},
    "cui2024": {"eta": "eta_tilde sqrt(N)", "ridge": "lambda N"},
}
"""The step size and the penalty of the papers, in this convention."""

FunctionLike = str | Callable[..., Any] | ScalarFunction
#: A step size as text: a coefficient times a power of the width, 1.5*N^0.5, or its square root, 1.5*sqrt(N).
_POWER_OF_WIDTH = re.compile(
    r"(?:(?P<coefficient>[^*N√s]+?)\s*\*?\s*)?"
    r"(?:(?P<root>sqrt\(\s*N\s*\)|√N)|N(?:\s*(?:\^|\*\*)\s*(?P<exponent>[^N*^]+))?)"
)
_STEPS = "a number, or a coefficient times a power of N: '1.5*N^0.5', 'N^0.25', '2*sqrt(N)'"

_Constructor = TypeVar("_Constructor", bound=Callable[..., Any])
InitialWeights = Literal["gaussian", "sphere"]
OutputScale = Literal["1/N", "1/sqrt(N)"]


@dataclass(frozen=True)
class Step:
    """Step size ``eta = coefficient * width**exponent``.

    Parameters
    ----------
    coefficient : float
        Finite, >= 0; zero leaves the first layer as it was drawn.
    exponent : float, optional
        In [0, 1]. Zero is the small step of Ba et al. 2022 (eta of order one), 1/2 the large step (every neuron
        gets a spike of order one), the range between them is that of Moniri et al. 2024.

    Raises
    ------
    InvalidInput
        If a value is outside its range.
    """

    coefficient: float
    exponent: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficient", bounded("eta.coefficient", self.coefficient))
        exponent = real("eta.exponent", self.exponent, "a number in [0, 1]", lambda value: 0 <= value <= 1)
        object.__setattr__(self, "exponent", exponent)

    @classmethod
    def parse(cls, value: object) -> Step:
        """Read a step size in any of its forms.

        Parameters
        ----------
        value : float, str, mapping or Step
            A number; text such as ``"0.3"``, ``"1.5*N^0.5"``, ``"N^0.25"`` or ``"2*sqrt(N)"``, where ``N`` is the
            width; or ``{"coefficient", "exponent"}``.

        Raises
        ------
        InvalidInput
            On anything else, and as the constructor.
        """
        if isinstance(value, Step):
            return value
        if isinstance(value, Mapping):
            if set(value) - {"coefficient", "exponent"} or "coefficient" not in value:
                raise InvalidInput("eta", dict(value), "a number or {coefficient = ..., exponent = ...}")
            return cls(**value)
        if not isinstance(value, str):
            return cls(bounded("eta", value, "a finite number >= 0, text such as '2*N^0.5', a Step, or a mapping"))
        power = _POWER_OF_WIDTH.fullmatch(value.strip())
        if power is None:
            return cls(read_number("eta", value.strip(), _STEPS))
        exponent = "0.5" if power["root"] else power["exponent"] or "1"
        try:
            return cls(*(read_number("eta", part.strip()) for part in (power["coefficient"] or "1", exponent)))
        except InvalidInput:
            raise InvalidInput("eta", value, f"{_STEPS}, the coefficient >= 0 and the exponent in [0, 1]") from None

    def __str__(self) -> str:
        if not self.exponent:
            return f"{self.coefficient:.6g}"
        power = "N" if self.exponent == 1 else f"N^{self.exponent:.6g}"
        return power if self.coefficient == 1 else f"{self.coefficient:.6g}*{power}"

    def __repr__(self) -> str:
        return f"Step({self.coefficient!r}{f', exponent={self.exponent!r}' if self.exponent else ''})"

    def size(self, width: float) -> float:
        """Return ``coefficient * width**exponent``.

        Parameters
        ----------
        width : float
            Number of neurons. An infinite one gives infinity if the exponent is positive.
        """
        width = real("width", width, "a number > 0", lambda number: number > 0)
        return float(self.coefficient * width**self.exponent) if self.coefficient else 0.0


def readout_weights(text: str) -> dict[float, float]:
    """Return the weight of each value of a readout that is written as ``"-1:0.5,1:0.5"``.

    Raises `InvalidInput` on anything else, and if a value is there twice.
    """
    law: dict[float, float] = {}
    for pair in text.split(","):
        try:
            value, weight = map(float, pair.split(":"))
        except ValueError:
            allowed = "gaussian, constant, or VALUE:WEIGHT pairs such as -1:0.5,1:0.5"
            raise InvalidInput("readout", text, allowed) from None
        if value in law:
            raise InvalidInput("readout", text, "every value once")
        law[value] = weight
    return law


@dataclass(frozen=True)
class Readout:
    """Law of the readout weights ``a_i`` at initialisation.

    Parameters
    ----------
    kind : {"gaussian", "vocabulary"}
        Standard normal, or a finite set of values.
    values, weights : tuple of float
        For a vocabulary: distinct finite values and their positive proportions (normalised to sum to one).
        Empty for the Gaussian law.

    Raises
    ------
    InvalidInput
        On unknown kinds, empty, repeated, non-finite or all-zero values, non-positive weights.
    """

    kind: Literal["gaussian", "vocabulary"]
    values: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        one_of("readout.kind", self.kind, ("gaussian", "vocabulary"))
        if self.kind == "gaussian":
            if self.values or self.weights:
                raise InvalidInput("readout", self.values, "no values or weights for the Gaussian law")
            return
        for name in ("values", "weights"):
            if not isinstance(getattr(self, name), tuple):
                raise InvalidInput(f"readout.{name}", getattr(self, name), "a tuple of numbers")
        values = tuple(real("readout value", v) for v in self.values)
        weights = tuple(bounded("readout weight", w, positive=True) for w in self.weights)
        if not values or len(values) != len(weights):
            raise InvalidInput("readout", self.values, "one positive weight for each of at least one value")
        if len(set(values)) != len(values) or not all(abs(v) <= LARGEST_NUMBER for v in values):
            raise InvalidInput("readout", self.values, "distinct finite values")
        if not any(values):
            raise InvalidInput("readout", self.values, "at least one value that is not zero")
        total = math.fsum(weights)
        # Weights that were normalised before stay what they are.
        total = 1.0 if math.isclose(total, 1.0, rel_tol=1e-15) else total
        order = sorted(range(len(values)), key=values.__getitem__)
        object.__setattr__(self, "values", tuple(values[i] for i in order))
        object.__setattr__(self, "weights", tuple(weights[i] / total for i in order))

    @classmethod
    def parse(cls, value: object) -> Readout:
        """Read a law in any of its forms.

        Parameters
        ----------
        value : str, mapping or Readout
            ``"gaussian"``, ``"constant"`` (all weights one), ``{value: weight}``, or the same as text,
            ``"-1:0.5,1:0.5"``. The values of a mapping may be text, as the keys of a settings file are.

        Returns
        -------
        Readout

        Raises
        ------
        InvalidInput
            On anything else, and as the constructor.
        """
        if isinstance(value, Readout):
            return value
        if isinstance(value, str) and value == "gaussian":
            return cls("gaussian")
        if isinstance(value, str) and value == "constant":
            return cls("vocabulary", (1.0,), (1.0,))
        if isinstance(value, str) and ":" in value:
            value = readout_weights(value)
        if isinstance(value, Mapping):
            try:  # a settings file has text for keys
                values = tuple(float(v) if isinstance(v, str) else v for v in value)
            except ValueError:
                raise InvalidInput("readout", value, "numeric values as keys, for instance {-1: 0.5, 1: 0.5}") from None
            return cls("vocabulary", values, tuple(value.values()))
        raise InvalidInput("readout", value, "'gaussian', 'constant', a mapping {value: weight} or '-1:0.5,1:0.5'")

    @property
    def mean(self) -> float:
        """Mean of the law."""
        return math.fsum(w * v for v, w in zip(self.values, self.weights, strict=True))

    @property
    def second_moment(self) -> float:
        """Mean square of the law."""
        if self.kind == "gaussian":
            return 1.0
        return math.fsum(w * v * v for v, w in zip(self.values, self.weights, strict=True))

    def to_plain(self) -> str | dict[str, float]:
        """Return the form a settings file holds."""
        if self.kind == "gaussian":
            return "gaussian"
        if self.values == (1.0,):
            return "constant"
        return {repr(v): w for v, w in zip(self.values, self.weights, strict=True)}

    def __str__(self) -> str:
        plain = self.to_plain()
        return plain if isinstance(plain, str) else ",".join(f"{float(v):g}:{w:g}" for v, w in plain.items())


def _spelled(constructor: _Constructor) -> _Constructor:
    """Make a constructor refuse a parameter that it does not have with a guess at the one that is meant."""
    known = [name for name in inspect.signature(constructor).parameters if name not in ("self", "cls")]

    @wraps(constructor)
    def spelled(*args: Any, **given: Any) -> Any:
        _check_names(given, known)
        return constructor(*args, **given)

    return cast(_Constructor, spelled)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A two-layer network, its data, its one gradient step and its ridge fit, in the canonical convention.

    Parameters
    ----------
    activation, teacher : str, callable or ScalarFunction
        A registered name, a formula such as ``"tanh(x) + 0.3*x**2"``, or a callable. A teacher may depend on up to four
        orthogonal directions, ``"x1*x2 + tanh(x1)"``: such a network can be simulated, and theory refuses it.
    d : int or math.inf
        Input dimension, at least 2. With ``math.inf`` (the proportional limit) `width`, `n_step`, `n` and `ridge`
        are multiples of it.
    width : int, str or Proportional
        Number of neurons ``N``. Here, in `n_step`, `n` and `ridge` text may be a multiple of the dimension: ``"1.5d"``
        is the same as ``Proportional(1.5)``; at a finite `d` sizes are rounded to integers.
    n_step : int, math.inf, str or Proportional
        Samples of the gradient step; ``math.inf`` is the population gradient (theory only).
    n : int, str or Proportional
        Fresh samples of the ridge fit.
    eta : float, str, Step or mapping
        Step size; a float is a fixed eta, ``Step(c, exponent)`` or ``"c*N^exponent"`` is ``c * width**exponent``.
    ridge : float, str or Proportional
        Penalty on ``|b|^2`` against the SUM of squares over raw features; finite and positive.
    noise : float, optional
        Standard deviation of the label noise.
    readout : str, mapping or Readout, optional
        ``"gaussian"``, ``"constant"`` (all ones) or ``{value: weight}``.
    initial_weights : {"gaussian", "sphere"}, optional
        Rows ``N(0, I_d / d)``, or uniform on the unit sphere.
    output_scale : {"1/N", "1/sqrt(N)"}, optional
        Prefactor of the network in the residual of the step. ``"1/N"`` (all papers but Moniri et al. 2024) makes the
        initial output small; with ``"1/sqrt(N)"`` it is of order one and is part of the residual.
    inputs : Inputs, str or mapping, optional
        Spectrum of the inputs' covariance and of the teacher in it, in any form that `Inputs.parse` reads. None is
        isotropic inputs, and so are ``"isotropic"`` and inputs of which all eigenvalues are equal.
    damping : float, optional
        ``delta > 0`` of a step in the metric of the inputs, whose rows of the gradient are multiplied by
        ``(1 + delta) (X^T X / n_step + delta)^-1``. At most 1e30; infinity, the default, is the plain gradient.
    origin : str, optional
        Which constructor made the value; a label only, which equality does not look at.

    Raises
    ------
    InvalidInput
        Naming the field, the value and the allowed range.
    """

    activation: ScalarFunction
    teacher: ScalarFunction | MultivariateFunction
    d: int | float
    width: int | Proportional
    n_step: int | float | Proportional
    n: int | Proportional
    eta: Step
    ridge: float | Proportional
    noise: float = 0.0
    readout: Readout = field(default_factory=lambda: Readout("gaussian"))
    initial_weights: InitialWeights = "gaussian"
    output_scale: OutputScale = "1/N"
    inputs: Inputs | None = None
    damping: float = math.inf
    origin: str = field(default="canonical", compare=False)

    @_spelled
    def __init__(  # explicit, so that type checkers see what may be given rather than what is stored
        self,
        *,
        activation: FunctionLike,
        teacher: FunctionLike | MultivariateFunction,
        d: float | str,
        width: float | str | Proportional,
        n_step: float | str | Proportional,
        n: float | str | Proportional,
        eta: float | str | Step | Mapping[str, float],
        ridge: float | str | Proportional,
        noise: float = 0.0,
        readout: str | Mapping[Any, float] | Readout = "gaussian",
        initial_weights: str = "gaussian",
        output_scale: str = "1/N",
        inputs: str | Mapping[str, Any] | Inputs | None = None,
        damping: float | str = math.inf,
        origin: str = "canonical",
    ) -> None:
        dimension = _dimension(d)
        object.__setattr__(self, "d", dimension)
        given: dict[str, object] = {
            "activation": activation,
            "teacher": teacher,
            "width": width,
            "n_step": n_step,
            "n": n,
            "eta": eta,
            "ridge": ridge,
            "noise": noise,
            "readout": readout,
            "inputs": inputs,
            "damping": damping,
            "initial_weights": initial_weights,
            "output_scale": output_scale,
            "origin": origin,
        }
        self._set(given)

    def _set(self, given: Mapping[str, Any]) -> None:
        """Set fields other than the dimension, which is known, to validated values."""
        for name, value in given.items():
            object.__setattr__(self, name, _FIELDS[name](plain_number(value), self.d))
        if not self.is_limit and self.step_size > LARGEST_NUMBER:
            allowed = f"a step of at most {LARGEST_NUMBER:g}, after the factor width**exponent"
            raise InvalidInput("eta", given.get("eta", self.eta), allowed)

    @property
    def link(self) -> ScalarFunction:
        """The teacher as a function of one direction, which theory needs.

        Raises
        ------
        InvalidInput
            If the teacher depends on several directions, or if there is no theory for the inputs or the step.
        """
        check_isotropic(self)
        return link_of(self.teacher)

    @property
    def output_factor(self) -> float:
        """Prefactor of the sum over neurons in the step's residual, at a finite width: ``1/N`` or ``1/sqrt(N)``."""
        width = self.real_sizes().width
        return 1 / width if self.output_scale == "1/N" else 1 / math.sqrt(width)

    # --- the conventions of the papers ---------------------------------------------------------------------------

    @classmethod
    @_spelled
    def ba2022(
        cls,
        *,
        psi1: float,
        psi2: float,
        eta: float | Step = 0.0,
        lam: float,
        sigma_eps: float = 0.0,
        d: float = math.inf,
        activation: FunctionLike = "tanh",
        teacher: FunctionLike = "softplus",
        psi1_step: float | None = None,
        centre_teacher: bool = True,
    ) -> Self:
        """Build a problem in the parameters of Ba et al. 2022.

        Their network ``(1/sqrt N) sum a_i sigma(<x, w_i>)`` with ``a_i ~ N(0, 1/N)`` and step
        ``W1 = W0 + eta sqrt(N) G0`` (2.1) is the canonical one with the same `eta`; their penalty
        ``(lam/N) |a|^2`` on ``(1/n) |y - sigma(X W)a / sqrt N|^2`` is ``ridge = lam * n``.

        Parameters
        ----------
        psi1, psi2 : float
            ``n/d`` and ``N/d``.
        eta : float or Step
            Learning rate of (2.1).
        lam : float
            Their ridge penalty.
        sigma_eps : float
            Standard deviation of the label noise.
        d : int or math.inf
            Input dimension; sizes are rounded to integers.
        activation, teacher : str, callable or ScalarFunction
            Student nonlinearity and link of the teacher (defaults: Fig. 3a).
        psi1_step : float, optional
            ``n_step/d`` when the step uses another number of samples than the fit.
        centre_teacher : bool
            Subtract ``E f*`` from the teacher, as the assumption ``mu0* = 0`` of the paper asks.

        Raises
        ------
        InvalidInput
            On a parameter outside its range.
        """
        psi1, psi2 = bounded("psi1", psi1, positive=True), bounded("psi2", psi2, positive=True)
        lam = bounded("lam", lam, positive=True)
        if psi1_step is None:
            psi1_step = psi1
        elif not is_infinite(psi1_step):
            psi1_step = bounded("psi1_step", psi1_step, "a number > 0 or infinity", positive=True)
        sizes = _sizes(d, width=psi2, n=psi1, n_step=psi1_step)
        link = named_function("teacher", teacher)
        return cls(
            activation=activation,
            teacher=_centred(link) if centre_teacher else link,
            **sizes,
            eta=eta,
            ridge=_scaled(lam, sizes["n"]),
            noise=bounded("sigma_eps", sigma_eps),
            readout="gaussian",
            origin="ba2022",
        )

    @classmethod
    @_spelled
    def moniri2024(
        cls,
        *,
        phi: float,
        psi: float,
        alpha: float,
        lam: float,
        n: float = math.inf,
        c: float = 1.0,
        noise: float = 0.0,
        activation: FunctionLike = "sin(1.2*x + 0.6)",
        teacher: FunctionLike = "H1",
        residual: Literal["y - f", "y"] = "y - f",
    ) -> Self:
        """Build a problem in the parameters of Moniri et al. 2024.

        Their network ``a^T sigma(W x)`` with ``a ~ N(0, I/N)`` is ``sqrt(N)`` times the canonical one, so its output
        at initialisation is of order one and enters the residual (``output_scale = "1/sqrt(N)"``); ``eta = c n^alpha``
        and ``ridge = lam * n``.

        Parameters
        ----------
        phi, psi : float
            ``d/n`` and ``d/N``.
        alpha : float
            Exponent of the step size in the number of samples, in [0, 1].
        lam : float
            Their ridge penalty (on ``|a|^2`` against the mean of squares).
        n : int or math.inf
            Samples of the step and of the fit; ``d = phi n`` and ``N = d / psi`` are rounded.
        c : float
            Prefactor of the step size.
        noise : float
            Standard deviation of the label noise.
        activation, teacher : str, callable or ScalarFunction
            The activation is used as given (subtract its mean for a centred one).
        residual : {"y - f", "y"}
            Their literal residual, or the one in which the initial output is negligible: smaller by ``sqrt(N)``, as
            in the canonical network. Their formulas for the step are for the second.

        Raises
        ------
        InvalidInput
            On a parameter outside its range.
        """
        phi, psi = bounded("phi", phi, positive=True), bounded("psi", psi, positive=True)
        lam, c = bounded("lam", lam, positive=True), bounded("c", c)
        real("alpha", alpha, "a number in [0, 1]", lambda value: 0 <= value <= 1)
        one_of("residual", residual, ("y - f", "y"))
        sizes: dict[str, Any]
        if is_infinite(n):
            sizes = _sizes(math.inf, width=1 / psi, n=1 / phi, n_step=1 / phi)
            samples_per_neuron = psi / phi
        else:
            samples = size("n", n)
            d = max(2, round(phi * samples))
            width = max(1, round(phi * samples / psi))
            sizes = {"d": d, "width": width, "n": samples, "n_step": samples}
            samples_per_neuron = samples / width
        return cls(
            activation=activation,
            teacher=teacher,
            **sizes,
            eta=Step(c * samples_per_neuron**alpha, alpha),
            ridge=_scaled(lam, sizes["n"]),
            noise=noise,
            readout="gaussian",
            output_scale="1/sqrt(N)" if residual == "y - f" else "1/N",
            origin="moniri2024",
        )

    @classmethod
    @_spelled
    def cui2024(
        cls,
        *,
        alpha: float,
        alpha0: float,
        beta: float = 1.0,
        eta_tilde: float,
        lam: float,
        d: float = math.inf,
        activation: FunctionLike = "tanh",
        teacher: FunctionLike = "tanh",
        noise: float = 0.0,
        readout: str | Mapping[Any, float] | Readout = "constant",
    ) -> Self:
        """Build a problem in the parameters of Cui et al. 2024 (those of their published code).

        Rows of the first layer start on the unit sphere, the readout is constant,
        ``W1 = W0 - eta_tilde p grad_W (1/2 n0) sum (y - f)^2`` is ``eta = eta_tilde sqrt(N)``, and the penalty
        ``lam |a|^2`` against the sum of squares of features divided by ``sqrt(p)`` is ``ridge = lam * N``.

        Parameters
        ----------
        alpha, alpha0, beta : float
            ``n/d``, ``n_step/d`` and ``p/d`` (``p`` is the width). ``alpha0 = 0`` means no step;
            ``alpha0 = math.inf`` the population gradient.
        eta_tilde : float
            Their rescaled learning rate.
        lam : float
            Their ridge penalty.
        d : int or math.inf
            Input dimension; sizes are rounded.
        activation, teacher : str, callable or ScalarFunction
            Student and target nonlinearity.
        noise : float
            Standard deviation of the label noise (zero in the paper).
        readout : str, mapping or Readout
            Constant in the main text, a finite vocabulary in their Appendix D.

        Raises
        ------
        InvalidInput
            On a parameter outside its range.
        """
        lam, beta = bounded("lam", lam, positive=True), bounded("beta", beta, positive=True)
        eta_tilde = bounded("eta_tilde", eta_tilde)
        alpha0 = real("alpha0", alpha0, "a number >= 0 or infinity")
        if alpha0 < 0:
            raise InvalidInput("alpha0", alpha0, "a number >= 0 or infinity")
        no_step = alpha0 == 0
        sizes = _sizes(d, width=beta, n=bounded("alpha", alpha, positive=True), n_step=1.0 if no_step else alpha0)
        return cls(
            activation=activation,
            teacher=teacher,
            **sizes,
            eta=Step(0.0 if no_step else eta_tilde, 0.5),
            ridge=_scaled(lam, sizes["width"]),
            noise=noise,
            readout=readout,
            initial_weights="sphere",
            origin="cui2024",
        )

    # --- reading and writing -------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Build a problem from plain values, in the convention named by the key ``convention``.

        Parameters
        ----------
        settings : mapping
            ``convention`` is ``"canonical"`` (default), ``"ba2022"``, ``"moniri2024"`` or ``"cui2024"``; the other
            keys are the parameters of the constructor of that name. Infinity may be written ``"inf"``.

        Raises
        ------
        InvalidInput
            On unknown, missing or invalid keys.
        """
        if not isinstance(settings, Mapping):
            raise InvalidInput("settings", settings, "a mapping of parameter names to values")
        values = dict(settings)
        convention = values.pop("convention", "canonical")
        constructor = cls._constructor(convention)
        known, required = _parameters(constructor)
        _check_names(values, known)
        for name in required:
            if name not in values:
                raise InvalidInput(name, None, f"a value (the convention {convention!r} needs one)", MISSING)
        for name in ("d", "n", "psi1_step", "alpha0", "damping"):
            if values.get(name) in ("inf", "infinity"):
                values[name] = math.inf
        return constructor(**values)

    @classmethod
    def check_names(cls, settings: Mapping[str, Any]) -> None:
        """Refuse settings with a key that `from_dict` does not know, whatever the values are.

        Parameters
        ----------
        settings : mapping
            As of `from_dict`; a value may be a list or a range that is still to be read.

        Raises
        ------
        InvalidInput
            On an unknown convention, and on keys that are no parameters of it.
        """
        values = dict(settings)
        _check_names(values, _parameters(cls._constructor(values.pop("convention", "canonical")))[0])

    @classmethod
    def _constructor(cls, convention: object) -> Callable[..., Self]:
        constructors: dict[str, Callable[..., Self]] = {
            "canonical": cls,
            "ba2022": cls.ba2022,
            "moniri2024": cls.moniri2024,
            "cui2024": cls.cui2024,
        }
        if not isinstance(convention, str) or convention not in constructors:
            raise InvalidInput("convention", convention, ", ".join(map(repr, constructors)))
        return constructors[convention]

    @classmethod
    def from_toml(cls, source: str | Path) -> Self:
        """Build a problem from a TOML file (a path) or TOML text.

        If the file has a ``[problem]`` table, such as that of a sweep, only this table is read.

        Parameters
        ----------
        source : str or Path
            A string with a line break, or with an equals sign and no ``.toml`` at its end, is text.

        Raises
        ------
        InvalidInput
            On a file that cannot be read, on invalid TOML, on parameters outside the table, and as `from_dict`.
        """
        if not isinstance(source, str | Path):
            raise InvalidInput("settings file", source, "a path or TOML text")
        is_text = isinstance(source, str) and ("\n" in source or ("=" in source and not source.endswith(".toml")))
        try:
            settings = parsed_toml(str(source)) if is_text else read_toml(Path(source))
        except OSError as error:
            raise InvalidInput("settings file", str(source), f"a readable TOML file ({error.strerror})") from None
        except ValueError as error:  # not TOML, not text, or not even the name of a file
            raise InvalidInput("settings file", str(source), f"valid TOML ({error})") from None
        problem = settings.get("problem", settings)
        stray = [name for name, value in settings.items() if not isinstance(value, dict | list)]
        if problem is not settings and stray:
            raise InvalidInput("settings file", ", ".join(stray), "parameters below [problem], not above it")
        return cls.from_dict(problem)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back to an equal problem.

        Raises
        ------
        InvalidInput
            If the activation or the teacher is a plain callable, which no text can describe.
        """
        for name in ("activation", "teacher"):
            function = getattr(self, name)
            try:
                same = function_of(function.name) == function
            except InvalidInput:
                same = False
            if not same:
                raise InvalidInput(name, function.name, "a registered name or a formula, to be written down")

        def plain(value: object) -> object:
            if isinstance(value, Proportional):
                return {"per_d": value.ratio}
            return "inf" if value == math.inf else value

        # Only where they are not the default, so that the names of stored results stay what they were.
        of_inputs = {} if self.inputs is None else {"inputs": self.inputs.to_plain()}
        of_step = {} if self.damping == math.inf else {"damping": self.damping}
        return {
            "convention": "canonical",
            "activation": self.activation.name,
            "teacher": self.teacher.name,
            "d": plain(self.d),
            "width": plain(self.width),
            "n_step": plain(self.n_step),
            "n": plain(self.n),
            "eta": {"coefficient": self.eta.coefficient, "exponent": self.eta.exponent},
            "ridge": plain(self.ridge),
            "noise": self.noise,
            "readout": self.readout.to_plain(),
            "initial_weights": self.initial_weights,
            "output_scale": self.output_scale,
            **of_inputs,
            **of_step,
            "origin": self.origin,
        }

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, which are validated.

        Parameters
        ----------
        **changes : Any
            New values of fields, in any form that the constructor takes.

        Returns
        -------
        Problem

        Raises
        ------
        InvalidInput
            On an unknown field, and as the constructor.
        """
        for name, value in changes.items():
            check_field(name, value)
        if "d" in changes:
            return type(self)(**{**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)}, **changes})
        # The other fields were validated when this problem was made, for the same dimension.
        changed = object.__new__(type(self))
        vars(changed).update(vars(self))
        changed._set(changes)
        return changed

    def at_dimension(self, d: int) -> Self:
        """Return the problem with sizes ``ratio * d`` (rounded) in place of a proportional limit.

        Parameters
        ----------
        d : int
            Input dimension, at least 2.

        Returns
        -------
        Problem

        Raises
        ------
        InvalidInput
            If the problem is not in the proportional limit, or on a bad dimension.
        """
        if not self.is_limit:
            raise InvalidInput("d", self.d, "a problem in the proportional limit (d = inf)")
        return self.replace(d=size("d", d, 2))

    # --- derived ---------------------------------------------------------------------------------------------------

    @property
    def is_limit(self) -> bool:
        """Whether this is the proportional limit itself (infinite `d`)."""
        return self.d == math.inf

    @property
    def step_size(self) -> float:
        """The step size ``eta`` as a number (infinite in the limit when the exponent is positive)."""
        return self.eta.size(self.real_sizes().width)

    @property
    def is_damped(self) -> bool:
        """Whether the step multiplies the gradient by something: the damping is finite, and there is a step."""
        return self.damping < math.inf and self.eta.coefficient != 0

    @property
    def sizes(self) -> Sizes[int]:
        """The sizes as integers and the penalty as a number, of a network that can be drawn.

        Raises
        ------
        InvalidInput
            In the proportional limit, and with the population gradient.
        """

        def whole(name: str) -> int:
            value = getattr(self, name)
            if not isinstance(value, int):
                raise InvalidInput(name, value, "a finite integer: only errors can be predicted in a limit")
            return value

        return Sizes(whole("d"), whole("width"), whole("n_step"), whole("n"), self.real_sizes().ridge)

    def real_sizes(self, limit: float = math.inf) -> Sizes[float]:
        """Return sizes and penalty as real numbers.

        Parameters
        ----------
        limit : float, optional
            Dimension that stands for the proportional limit. By default the sizes of a limit are infinite.

        Returns
        -------
        Sizes
            With an infinite `n_step` for the population gradient.
        """
        d = limit if self.is_limit else float(self.d)
        width, n_step, n, ridge = (at_dimension(value, d) for value in (self.width, self.n_step, self.n, self.ridge))
        return Sizes(d, width, n_step, n, ridge)

    @property
    def ratios(self) -> Sizes[float]:
        """Sizes and penalty divided by `d`: finite in the proportional limit, too (but for the population gradient)."""
        d, width, n_step, n, ridge = self.real_sizes(1.0)
        return Sizes(1.0, width / d, n_step / d, n / d, ridge / d)

    def ratio(self, name: Literal["width", "n_step", "n", "ridge"]) -> float:
        """Return a size (or the ridge) divided by ``d``: one of the `ratios`, by its name.

        Parameters
        ----------
        name : {"width", "n_step", "n", "ridge"}

        Returns
        -------
        float
            Finite in the proportional limit, too (``n_step`` may be infinite).

        Raises
        ------
        InvalidInput
            On any other name.
        """
        one_of("name", name, ("width", "n_step", "n", "ridge"))
        return float(getattr(self.ratios, name))

    def described(self, omit: Collection[str] = ()) -> str:
        """Return the problem in one line: functions, sizes, step and fit, and what is not the default.

        Parameters
        ----------
        omit : collection of str, optional
            Names of fields that are left out, for instance because they vary.
        """

        def show(name: str) -> str:
            value = getattr(self, name)
            if isinstance(value, Proportional):
                return f"{name} = {value.ratio:g} d"
            return f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"

        functions = [f"{name} {getattr(self, name).name}" for name in ("activation", "teacher") if name not in omit]
        numbers = ("d", "width", "n_step", "n", "eta", "ridge", "noise")
        parts = [show(name) for name in numbers if name not in omit]
        if self.readout.kind != "gaussian" and "readout" not in omit:
            parts.append(f"readout {self.readout}")
        if self.initial_weights != "gaussian":
            parts.append(f"initial weights on the {self.initial_weights}")
        if self.output_scale != "1/N":
            parts.append(f"output scale {self.output_scale}")
        if self.damping != math.inf and "damping" not in omit:
            parts.append(f"damping = {self.damping:g}")
        if self.inputs is not None and "inputs" not in omit:
            parts.append(f"inputs {self.inputs}")
        return "; ".join(", ".join(each) for each in (functions, parts) if each)

    def __str__(self) -> str:
        return self.described()

    def _arguments(self) -> dict[str, str]:
        """Return the arguments that build the problem again as code, without those that are the default."""
        defaults: dict[str, object] = {"noise": 0.0, "readout": Readout("gaussian"), "initial_weights": "gaussian"}
        defaults |= {"output_scale": "1/N", "inputs": None, "damping": math.inf}
        arguments = {}
        for name in [f.name for f in dataclasses.fields(self) if f.compare]:
            value = getattr(self, name)
            if name in defaults and value == defaults[name]:
                continue
            if isinstance(value, ScalarFunction):
                value = value.name
            elif isinstance(value, Proportional):
                value = f"{value.ratio!r}d"
            elif isinstance(value, Readout):
                value = "constant" if value.values == (1.0,) else dict(zip(value.values, value.weights, strict=True))
            arguments[name] = "math.inf" if value == math.inf else repr(value)
        return arguments

    def __repr__(self) -> str:
        # A break between two arguments, not inside one.
        parts = ", ".join(f"{name}={text}".replace(" ", "\0") for name, text in self._arguments().items())
        indented = ("\n" + 8 * " ").join(textwrap.wrap(parts, 70, break_long_words=False))
        return f"Problem({indented})".replace("\0", " ")

    def _repr_html_(self) -> str:
        shown = self._arguments() | {"eta": str(self.eta)}
        rows = [[name, text.strip("'")] for name, text in shown.items()]
        return Summary("Problem", table=Table(["parameter", "value"], rows)).html()


def _refuse_change(problem: object, name: str, value: object) -> None:
    """Say how a problem is made that differs in one field."""
    raise dataclasses.FrozenInstanceError(f"a problem does not change: use problem.replace({name}=...)")


Problem.__setattr__ = _refuse_change  # type: ignore[method-assign]  # a frozen class may not have one of its own


def named_function(name: str, value: FunctionLike) -> ScalarFunction:
    """Return the function of a field, or raise an error that names the field."""
    try:
        return scalar_function(value)
    except InvalidInput as error:
        raise InvalidInput(f"{name} ({error.field})", error.value, error.allowed, error.reason) from None


def _teacher(value: FunctionLike | MultivariateFunction, d: float) -> ScalarFunction | MultivariateFunction:
    if not isinstance(value, MultivariateFunction | str):
        return _moderate("teacher", named_function("teacher", value))
    try:
        function = function_of(value)
    except InvalidInput as error:
        raise InvalidInput(f"teacher ({error.field})", error.value, error.allowed, error.reason) from None
    if isinstance(function, ScalarFunction):
        return _moderate("teacher", function)
    if not function.second_moment <= LARGEST_NUMBER**2:
        raise InvalidInput(
            "teacher", function.name, f"a function that is at most {LARGEST_NUMBER:g} in root mean square"
        )
    if d < function.inputs:
        raise InvalidInput("d", d, f"at least {function.inputs}, the number of directions of the teacher")
    return function


@dataclass(frozen=True)
class _Shifted:
    """A callable less a constant, as a value that can be pickled."""

    function: ScalarFunction
    shift: float

    def __call__(self, x: Any) -> Any:
        return self.function(x) - self.shift


def link_of(teacher: ScalarFunction | MultivariateFunction) -> ScalarFunction:
    """Return a teacher of one direction, and refuse one of several in everything that has no answer for it."""
    if isinstance(teacher, MultivariateFunction):
        allowed = (
            "a teacher of one direction, for which there is theory: gradstep.Network(problem, seed).learning_curve() "
            "and gradstep.simulate(problem, fit='expected') answer for several"
        )
        raise InvalidInput("teacher", teacher.name, allowed)
    return teacher


def check_isotropic(problem: Problem) -> None:
    """Refuse correlated inputs and a damped step in everything that has no answer for them."""
    if problem.inputs is not None:
        allowed = "None, isotropic inputs: gradstep.predict, gradstep.simulate, compare and Network answer for others"
        raise InvalidInput("inputs", str(problem.inputs), allowed)
    check_plain_step(problem)


def check_plain_step(problem: Problem) -> None:
    """Refuse a damped step in everything that has no answer for it."""
    if problem.is_damped:
        answers = "gradstep.predict, gradstep.simulate and Network answer for others"
        allowed = f"inf, the plain step: {answers}"
        raise InvalidInput("damping", problem.damping, allowed)


def check_problem(value: object) -> None:
    """Refuse what is no `Problem`, in everything that takes one."""
    if not isinstance(value, Problem):
        raise InvalidInput("problem", value, "a gradstep.Problem")


def check_field(name: object, value: object) -> None:
    """Refuse what is no field of a problem, with a guess at the one that is meant."""
    known = {f.name for f in dataclasses.fields(Problem)}
    if name not in known:
        raise InvalidInput(str(name), value, f"one of the fields {', '.join(sorted(known))}")


def differences(problems: Iterable[Problem]) -> list[str]:
    """Return the names of the fields in which problems differ."""
    listed, names = list(problems), [f.name for f in dataclasses.fields(Problem) if f.compare]
    return [name for name in names if any(getattr(each, name) != getattr(listed[0], name) for each in listed[1:])]


def _moderate(name: str, function: ScalarFunction) -> ScalarFunction:
    """Refuse a function that is too large; where that is not so, its moments are known from now on."""
    try:
        known = moments(function)
        square = max(known.second_moment, known.derivative_second_moment)
    except InvalidInput:
        square = math.inf
    if not square <= LARGEST_NUMBER**2:
        allowed = f"a function that is at most {LARGEST_NUMBER:g} in root mean square under N(0, 1), as is its slope"
        raise InvalidInput(name, function.name, allowed)
    return function


def _varying(activation: ScalarFunction) -> ScalarFunction:
    known = moments(activation)
    # Not as a difference: a large mean would hide what varies.
    if known.linear**2 + known.nonlinear_second_moment <= 1e-28 * max(known.second_moment, NOTHING):
        raise InvalidInput("activation", activation.name, "a function that is not constant")
    return activation


def _centred(link: ScalarFunction) -> ScalarFunction:
    mean = float(moments(link).mean)
    # A mean at rounding level is zero for every purpose; leave an odd teacher alone.
    if abs(mean) < 1e-14:
        return link
    if link.expression is None:
        return ScalarFunction.from_callable(
            _Shifted(link, mean), derivative=link.slope, kinks=link.kinks, name=f"{link.name} - {mean:.6g}"
        )
    body = f"{link.name}(x)" if link.name.isidentifier() else f"({link.name})"
    return scalar_function(f"{body} - {mean!r}" if mean > 0 else f"{body} + {-mean!r}")


def _inputs(value: object, d: float) -> Inputs | None:
    """Return the law of the inputs, None where it is isotropic; every class that needs a direction must get one."""
    isotropic = value is None or (isinstance(value, str) and value.strip() == "isotropic")
    law = None if isotropic else Inputs.parse(value)
    if law is not None and type(law) is not Inputs:  # an estimate, of which a problem has no errors
        law = Inputs(law.eigenvalues, law.share, law.teacher)
    if law is None or law.is_isotropic:
        return None
    if not is_infinite(d):
        law.counts(int(d))
    return law


def _damping(value: object) -> float:
    value = read_number("damping", value) if isinstance(value, str) else value
    allowed = f"a number > 0, at most {LARGEST_NUMBER:g}, or infinity: the plain gradient"
    return real("damping", value, allowed, lambda number: 0 < number <= LARGEST_NUMBER or number == math.inf)


def _sizes(d: float, *, width: float, n: float, n_step: float) -> dict[str, Any]:
    ratios = {"width": bounded("width/d", width, positive=True), "n": bounded("n/d", n, positive=True)}
    infinite_step = is_infinite(n_step)
    if not infinite_step:
        ratios["n_step"] = bounded("n_step/d", n_step, positive=True)
    sizes: dict[str, Any]
    if is_infinite(d):
        sizes = {"d": math.inf} | {name: Proportional(ratio) for name, ratio in ratios.items()}
    else:
        whole = size("d", d, 2)
        sizes = {"d": whole} | {name: max(1, round(ratio * whole)) for name, ratio in ratios.items()}
    return sizes | ({"n_step": math.inf} if infinite_step else {})


def _ridge(value: object, d: float) -> float | Proportional:
    """Return a penalty as a problem holds it: proportional to `d` if that is infinite, and otherwise a number."""
    value = read_size("ridge", value)
    if isinstance(value, Proportional):
        return value if is_infinite(d) else bounded("ridge", value.ratio * d, positive=True)
    if is_real(value) and value == 0:
        allowed = "a number > 0; for the min-norm fit (ridge -> 0) use a small one such as '1e-6d'"
        raise InvalidInput("ridge", value, allowed)
    if is_infinite(d):
        raise InvalidInput("ridge", value, "a multiple of d such as '0.1d' or Proportional(0.1): d is infinite")
    return bounded("ridge", value, positive=True)


def _dimension(value: object) -> int | float:
    dimension = read_size("d", plain_number(value))
    return math.inf if is_infinite(dimension) else size("d", dimension, 2)


def _n_step(value: object, d: float) -> int | float | Proportional:
    samples = read_size("n_step", value)
    return math.inf if is_infinite(samples) else extent("n_step", samples, d)


def _origin(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput("origin", value, "a string")
    return value


#: Fields of a problem but its dimension, to what reads them: a function of what is given and of the dimension.
_FIELDS: dict[str, Callable[[Any, float], object]] = {
    "activation": lambda value, d: _varying(_moderate("activation", named_function("activation", value))),
    "teacher": _teacher,
    "width": lambda value, d: extent("width", value, d),
    "n_step": _n_step,
    "n": lambda value, d: extent("n", value, d),
    "eta": lambda value, d: Step.parse(value),
    "ridge": _ridge,
    "noise": lambda value, d: bounded("noise", value),
    "readout": lambda value, d: Readout.parse(value),
    "inputs": _inputs,
    "damping": lambda value, d: _damping(value),
    "initial_weights": lambda value, d: one_of("initial_weights", value, ("gaussian", "sphere")),
    "output_scale": lambda value, d: one_of("output_scale", value, ("1/N", "1/sqrt(N)")),
    "origin": lambda value, d: _origin(value),
}


def _scaled(penalty: float, size: int | Proportional) -> float | Proportional:
    return Proportional(penalty * size.ratio) if isinstance(size, Proportional) else penalty * size


def _check_names(given: Mapping[str, object], known: Collection[str]) -> None:
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(name, value, f"one of the parameters {', '.join(sorted(known))}")


@lru_cache  # reading a signature takes longer than all checks of its values
def _parameters(constructor: Callable[..., object]) -> tuple[frozenset[str], tuple[str, ...]]:
    parameters = [p for p in inspect.signature(constructor).parameters.values() if p.name != "self"]
    return frozenset(p.name for p in parameters), tuple(p.name for p in parameters if p.default is p.empty)
