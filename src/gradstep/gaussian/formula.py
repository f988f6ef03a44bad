"""The formula language: a safe parser from text to an expression tree.

Python's ``ast`` supplies the syntax tree and nothing else: every node is checked against a whitelist and translated;
no part of the text is ever executed.
"""

from __future__ import annotations

import ast
import math
import re
import threading
import warnings

from gradstep.errors import InvalidInput
from gradstep.gaussian.elementary import ALIASES, ELEMENTARY, MAXIMUM_DEGREE
from gradstep.gaussian.expression import (
    VARIABLE,
    Constant,
    Expression,
    Variable,
    add,
    apply,
    differentiate,
    multiply,
    power,
    refuse,
    size,
)
from gradstep.gaussian.structure import degree

__all__ = ["parse"]

MAXIMUM_LENGTH = 1000
MAXIMUM_NODES = 400
MAXIMUM_DEPTH = 40
#: Variables of a function of several.
MAXIMUM_INPUTS = 4
#: Most nodes of a derivative. That of a product has one term for each factor, which holds all the other factors.
MAXIMUM_DERIVATIVE_NODES = 10_000

#: The filters of warnings belong to all threads: two that put back what each has found would leave the wrong one.
_warnings = threading.Lock()


_INPUTS = tuple(f"x{place}" for place in range(1, MAXIMUM_INPUTS + 1))


def _family(operator: ast.operator) -> str | None:
    """Return what the operator makes: operators that make the same can be written without brackets."""
    if isinstance(operator, ast.Add | ast.Sub):
        return "sum"
    return "product" if isinstance(operator, ast.Mult | ast.Div) else None


def _typed(text: str, carets: bool) -> str:
    """Return a part of a formula as it was typed, with or without carets."""
    return text.replace("**", "^") if carets else text


class _Parser:
    def __init__(self, source: str, several: bool, carets: bool) -> None:
        self.source = source
        self.several = several
        self.carets = carets
        self.nodes = 0

    def token(self, node: ast.AST) -> str:
        try:
            segment = ast.get_source_segment(self.source, node)
        except (ValueError, IndexError):
            segment = None
        return _typed(segment, self.carets) if segment else type(node).__name__

    def translate(self, node: ast.expr, depth: int = 0) -> Expression:
        self.nodes += 1
        if depth > MAXIMUM_DEPTH or self.nodes > MAXIMUM_NODES:
            raise refuse(self.token(node)[:40], "formula too deep or too long")
        try:
            result = self._translate(node, depth)
        except (OverflowError, ZeroDivisionError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise refuse(self.token(node), "no finite real value") from None
        if isinstance(result, Constant) and not math.isfinite(result.value):
            raise refuse(self.token(node), "no finite real value")
        return result

    def _translate(self, node: ast.expr, depth: int) -> Expression:
        match node:
            case ast.Constant(value=bool() | str() | bytes() | complex() | None):
                raise refuse(self.token(node), "not a real number")
            case ast.Constant(value=int() | float() as value):
                return Constant(float(value))
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return multiply(Constant(-1.0), self.translate(operand, depth + 1))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.translate(operand, depth + 1)
            case ast.BinOp():
                return self._binary(node, depth)
            case ast.Call():
                return self._call(node, depth)
            case _:
                raise refuse(self.token(node), "not part of the formula language")

    def _name(self, node: ast.expr, name: str) -> Expression:
        if name in ("pi", "e"):
            return Constant(math.pi if name == "pi" else math.e)
        if self.several:
            if name not in _INPUTS:
                known = ", ".join(_INPUTS)
                raise refuse(self.token(node), f"not one of {known}, beside which functions need an argument")
            return Variable(_INPUTS.index(name) + 1)
        if name == "x":
            return VARIABLE
        name = ALIASES.get(name, name)
        if name == "linear":
            return VARIABLE
        if name in ELEMENTARY:
            return apply(name, VARIABLE)
        raise refuse(self.token(node), "unknown name")

    def _binary(self, node: ast.BinOp, depth: int) -> Expression:
        # A sum (or product) of many terms is one level, however many operators Python nests to the left.
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp) and _family(chain[-1].left.op) == _family(node.op) is not None:
            chain.append(chain[-1].left)
        self.nodes += len(chain) - 1
        result = self.translate(chain[-1].left, depth + 1)
        for link in reversed(chain):
            result = self._combined(link, result, self.translate(link.right, depth + 1))
        return result

    def _combined(self, node: ast.BinOp, left: Expression, right: Expression) -> Expression:
        match node.op:
            case ast.Add():
                return add(left, right)
            case ast.Sub():
                return add(left, multiply(Constant(-1.0), right))
            case ast.Mult():
                return multiply(left, right)
            case ast.Div():
                return multiply(left, power(right, -1.0))
            case ast.Pow():
                if not isinstance(right, Constant):
                    raise refuse(self.token(node), "the exponent is not constant")
                if not isinstance(left, Constant) and abs(right.value) > MAXIMUM_DEGREE:
                    raise refuse(self.token(node), f"an exponent beyond {MAXIMUM_DEGREE}")
                return power(left, right.value)
            case _:
                raise refuse(self.token(node), "not one of the operators + - * / **")

    def _call(self, node: ast.Call, depth: int) -> Expression:
        if not isinstance(node.func, ast.Name):
            raise refuse(self.token(node.func), "only named functions can be called")
        name = ALIASES.get(node.func.id, node.func.id)
        if name not in ELEMENTARY and name not in ("linear", "max", "min"):
            raise refuse(node.func.id, "unknown function")
        count = 2 if name in ("max", "min") else 1
        if node.keywords or len(node.args) != count:
            raise refuse(self.token(node), f"{name} takes {count} argument{'s' if count > 1 else ''}")
        before = self.nodes
        first = self.translate(node.args[0], depth + 1)
        if name == "linear":
            return first
        if count == 1:
            return apply(name, first)
        # What the tree holds twice counts twice: nested, it would grow without end.
        self.nodes += self.nodes - before
        second = self.translate(node.args[1], depth + 1)
        if isinstance(second, Constant):
            # A number comes first: what is constant must be so exactly, not a difference of two that grow.
            first, second = second, first
        if name == "max":
            return add(first, apply("relu", add(second, multiply(Constant(-1.0), first))))
        difference = add(first, multiply(Constant(-1.0), second))
        return add(first, multiply(Constant(-1.0), apply("relu", difference)))


def parse(source: str, *, several: bool = False) -> Expression:
    """Translate a formula into an expression tree; nothing is executed.

    A source is for instance ``"tanh(x) + 0.3*x**2"``, where ``^`` stands for ``**``; a function's name alone stands for
    that function of x. If there may be `several` variables, they are ``x1``, ..., ``x4`` in place of ``x``, as in
    ``"x1*x2 + tanh(x1)"``. Raises `InvalidInput` on anything outside the language, naming the offending token.
    """
    stripped = source.strip()
    if not stripped:
        raise refuse(stripped, "empty")
    if len(stripped) > MAXIMUM_LENGTH:
        raise refuse(stripped[:40], f"longer than {MAXIMUM_LENGTH} characters")
    # Python's own ``^`` is not a power and binds less than a sum does.
    text, carets = stripped.replace("^", "**"), "**" not in stripped
    try:
        with _warnings, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        token = _typed((getattr(error, "text", None) or text).strip()[:80], carets)
        fault = getattr(error, "msg", type(error).__name__)
        if product := re.search(r"(?<![\w.])(\d+\.?\d*)\s*([a-zA-Z(]\w*)", token):  # Python speaks of decimal literals
            fault = f"a product needs its sign: {product[1]}*{product[2]}"
        raise refuse(token, f"not a formula ({fault})") from None
    expression = _Parser(text, several, carets).translate(tree.body)
    if (degree(expression) or 0) > MAXIMUM_DEGREE:
        raise refuse(stripped, f"a polynomial of a degree above {MAXIMUM_DEGREE}")
    if size(differentiate(expression)) > MAXIMUM_DERIVATIVE_NODES:
        raise refuse(stripped, "products of too many different factors")
    return expression
