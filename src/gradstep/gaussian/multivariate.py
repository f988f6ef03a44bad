"""Functions of several variables, given as formulas: teachers of several directions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian.expression import compile_expression, text, variables
from gradstep.gaussian.formula import MAXIMUM_INPUTS, parse
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.quadrature import hermite_rule
from gradstep.host import as_floats

__all__ = ["MultivariateFunction", "function_of"]

_INPUT = re.compile(r"\bx[0-9]+\b")
#: Nodes in each variable, and how far beyond them a function has to be finite.
_NODES, _BEYOND = 16, 2.0


@dataclass(frozen=True, eq=False)
class MultivariateFunction:
    """A function of ``x1, x2, ...``, made by `function_of`.

    Attributes
    ----------
    name : str
        Canonical text.
    inputs : int
        Number of variables k: the largest in the formula.

    Notes
    -----
    Functions are equal when their canonical texts are.
    """

    name: str
    inputs: int
    value: Callable[[Any], Any] = field(repr=False)

    def __call__(self, x: Any) -> Any:
        """Return f(x), shape (...), of an array of NumPy or PyTorch, or of lists of numbers, of shape (..., k).

        Raises `InvalidInput` on what is no array of real numbers, and on other shapes.
        """
        x = as_floats("x", x)
        if tuple(x.shape[-1:]) != (self.inputs,):
            raise InvalidInput("x", f"shape {tuple(x.shape)}", f"shape (..., {self.inputs}), one column a variable")
        return self.value(x)

    @property
    def second_moment(self) -> float:
        """``E f(z)^2`` for independent standard normals, by a product rule: rough where the function has kinks."""
        nodes, weights = _rule(self.inputs)
        return float(weights @ np.asarray(self(nodes)) ** 2)

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, MultivariateFunction) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return function_of, (self.name,)


@lru_cache(maxsize=MAXIMUM_INPUTS)
def _rule(inputs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes (., k) and weights of a product rule."""
    nodes, weights = hermite_rule(_NODES)
    grid = np.stack(np.meshgrid(*[nodes] * inputs, indexing="ij"), axis=-1)
    return grid.reshape(-1, inputs), reduce(np.multiply.outer, [weights] * inputs).ravel()


@lru_cache(maxsize=512)
def _from_text(source: str) -> ScalarFunction | MultivariateFunction:
    expression = parse(source, several=True)
    name, found = text(expression), variables(expression)
    if found <= {1}:
        return scalar_function(_INPUT.sub("x", name))
    function = MultivariateFunction(name, max(found), compile_expression(expression))
    nodes, _ = _rule(function.inputs)
    with np.errstate(all="ignore"):
        if not np.isfinite([function(scale * nodes) for scale in (1.0, _BEYOND, 1 / _BEYOND)]).all():
            raise InvalidInput("function", name, "a function that is finite everywhere")
    return function


def function_of(
    spec: str | Callable[..., Any] | ScalarFunction | MultivariateFunction,
) -> ScalarFunction | MultivariateFunction:
    """Return the function of one or several variables that is described by a name, a formula or a callable.

    `spec` is a formula in ``x1``, ..., ``x4``, such as ``"x1*x2 + tanh(x1)"``, or whatever `scalar_function` takes. A
    formula in ``x1`` alone is a function of one variable. Raises `InvalidInput` as `scalar_function` does.
    """
    if isinstance(spec, MultivariateFunction):
        return spec
    if isinstance(spec, str) and _INPUT.search(spec):
        return _from_text(spec)
    return scalar_function(spec)
