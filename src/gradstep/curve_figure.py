"""The figure of a curve or a map: panels with theory as lines or colours, and networks as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import flag, one_of
from gradstep.drawing import draw
from gradstep.errors import InvalidInput
from gradstep.grid import MOST_CURVES
from gradstep.label_noise import LABEL_NOISE, with_label_noise
from gradstep.panels import SCALE, Field, Guide, Line, Panel, Points
from gradstep.problem import Problem, Step
from gradstep.text_table import in_words
from gradstep.theory import QUANTITIES, Prediction, predict_each
from gradstep.theory.caveats import largest_caveats
from gradstep.theory.references import REFERENCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradstep.curves import Curve
    from gradstep.grid import Axis, Grid
    from gradstep.panels import Scale

_Drawn = TypeVar("_Drawn", Line, Points)

#: Quantities that are drawn if they vary and nothing else is asked for.
DRAWN = ("test_error", "train_error", "alignment")
#: Most curves on a scale of colours.
_MOST = 60
#: Colours of curves that are not told apart by their step.
_HUES = ("large", "small", "few", "infinite", "between", "first kind", "second kind", "third kind", "fourth kind")
#: Errors that differ by more than this factor are drawn on a logarithmic axis.
_WIDE = 30.0
_NO_STEP = "no step"
#: Half the length of the dash that stands for theory above a name.
_DASH = 0.25
#: Distance of infinity from the largest finite number, as a share of the axis, and half the length of the dash there.
_TO_INFINITY, _AT_INFINITY = 0.12, 0.03
#: Quantities beside which each reference means something: without a step there is no alignment, and the bounds are on
#: the error of new samples.
_BESIDE = {
    _NO_STEP: ("test_error", "train_error", "train_loss", "degrees_of_freedom"),
    "kernel lower bound": ("test_error",),
    "best linear error": ("test_error",),
    "label noise": ("test_error", "train_error"),
}

#: The second quantity of a panel does not stretch its logarithmic axis further below the first than by this factor.
_BELOW = 40.0
_SCALES = ("linear", "log")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Look:
    """How errors are drawn; see `gradstep.curves.Curve.plot`."""

    label_noise: str | None = None
    together: bool = False
    x_scale: Scale | None = None
    y_scale: Scale | None = None

    def check(self, names: Sequence[str], *, is_map: bool) -> None:
        """Raise `InvalidInput` if a figure of these quantities cannot look so."""
        if self.label_noise is not None:
            one_of("label_noise", self.label_noise, LABEL_NOISE)
        flag("together", self.together)
        for name in ("x_scale", "y_scale"):
            if (scale := getattr(self, name)) is not None:
                one_of(name, scale, _SCALES)
                if is_map:
                    raise InvalidInput(name, scale, "none for a map")
        if self.together and (is_map or len(names) > 2):
            raise InvalidInput("together", f"a map of {names[0]}" if is_map else names, "two quantities of curves")


def check_drawable(grid: Grid) -> None:
    """Raise `InvalidInput` if a figure cannot show as many curves."""
    count = len(grid.problems) // len(grid.axes[grid.across].values) if grid.axes else 1
    if count > _MOST and not grid.is_map:
        axes = " x ".join(axis.name for index, axis in enumerate(grid.axes) if index != grid.across)
        raise InvalidInput("plot", f"{count} curves ({axes})", f"at most {_MOST} curves, or two numbers for a map")


def draw_curve(
    curve: Curve,
    quantities: str | Sequence[str] | None,
    references: str | Sequence[str],
    look: Look,
    *,
    dark: bool,
    ax: Any,
) -> Figure:
    """Draw a curve; see `gradstep.curves.Curve.plot`.

    Raises `InvalidInput` on an unknown quantity or reference, on more curves than a figure can show, and on what a look
    does not allow.
    """
    check_drawable(curve.grid)
    named = [quantities] if isinstance(quantities, str) else quantities
    if named is not None and (not isinstance(named, Sequence) or not named):
        raise InvalidInput("quantities", quantities, "names of quantities, such as 'test_error'")
    if named is None:
        named = [name for name in DRAWN[: 1 if curve.grid.is_map else None] if curve.varies(name)] or ["test_error"]
    for name in named:
        one_of("quantity", name, QUANTITIES)
    wanted = [references] if isinstance(references, str) else references
    if not isinstance(wanted, Sequence):
        raise InvalidInput("references", references, "names of lines to compare with, such as 'kernel lower bound'")
    for name in wanted:
        one_of("reference", name, (_NO_STEP, *REFERENCES))
    if wanted and curve.grid.is_map:
        raise InvalidInput("references", references, "none with a map; a curve over one of its axes has them")
    look.check(named, is_map=curve.grid.is_map)
    if curve.grid.is_map:
        panels = [_map(curve, name, look) for name in named]
    else:
        panels = [_curves(curve, each, wanted, look) for each in ([named] if look.together else [[n] for n in named])]
    return draw(panels, note=_note(curve, look), dark=dark, ax=ax)


def _note(curve: Curve, look: Look) -> str:
    """Return what the figure is about: what is shared, what was measured, and what may be off."""
    parts, shown = [curve.shared], []
    if not curve.grid.is_map and curve.axes[curve.grid.across].numbers is None:
        shown.append("dashes: theory")
    if curve.comparison is not None:
        points = "circles" if curve.grid.is_map else "points"
        count = len(curve.comparison.seeds)
        bars = "" if curve.grid.is_map else ", bars of one standard error"
        shown += [f"{points}: mean of {count} networks{bars}", "the same seeds at all places, which move together"]
    if look.label_noise is not None:
        shown.append(f"label noise in {look.label_noise} {'errors' if look.label_noise == 'both' else 'error'}")
    parts += ["; ".join(shown)] if shown else []
    if curve.grid.is_map and (ends := [f"{axis.name} = inf" for axis in curve.axes if np.inf in (axis.numbers or ())]):
        parts.append(f"not in the map: {', '.join(ends)}")
    known = [each for each in curve.predictions if isinstance(each, Prediction)]
    caveats = largest_caveats(caveat for each in known for caveat in each.caveats)
    if caveats:
        words = [f"{caveat.name} (about {100 * caveat.size:.0f} %)" for caveat in caveats[:2]]
        parts.append(f"theory may be off at some places: {', '.join(words)}")
    return "\n".join(parts)


def _curves(curve: Curve, names: Sequence[str], references: Sequence[str], look: Look) -> Panel:
    """Return the panel of a quantity, or of two, a curve for each combination of the axes but one."""
    axis = curve.axes[curve.grid.across]
    others = [each for index, each in enumerate(curve.axes) if index != curve.grid.across]
    combinations = list(product(*(each.values for each in others)))
    labels = [", ".join(a.legend(v) for a, v in zip(others, values, strict=True)) for values in combinations]
    first = np.moveaxis(np.arange(len(curve.problems)).reshape(curve.grid.shape), curve.grid.across, -1)
    places = first.reshape(len(combinations), -1)
    regimes = _regimes([curve.problems[row[-1]] for row in places], [each.name for each in others])
    if labels == [""] and _NO_STEP in references and names[0] in _BESIDE[_NO_STEP]:
        labels = ["after the step"]
    styled = list(zip(labels, regimes, strict=True))
    lines = [_lines(curve, name, styled, look) for name in names]
    points = [_points(curve, name, styled, look) for name in names]
    more, guides = _references(curve, names[0], [name for name in references if names[0] in _BESIDE[name]], look)
    shown = np.concatenate([np.asarray(line.y, dtype=float) for line in [*lines[0], *more]] or [np.ones(1)])
    every = np.concatenate([shown, *(np.asarray(line.y, dtype=float) for own in lines[1:] for line in own)])
    y_scale: Scale = look.y_scale or ("log" if _is_wide(every) and names[0] != "alignment" else "linear")
    least = np.nanmin(shown, initial=np.inf, where=shown > 0) / _BELOW if y_scale == "log" else -np.inf
    seconds = [[_second(line, least) for line in own] for own in lines[1:]]
    # A line without a label has the colour of the one before it.
    drawn = [line for own in zip(lines[0], *seconds, strict=True) for line in own]
    hollow = [replace(_above(each, "mean", least), hollow=True) for own in points[1:] for each in own]
    ticks = () if axis.numbers is not None else tuple((float(i), axis.legend(v)) for i, v in enumerate(axis.values))
    words = [in_words(name) for name in names]
    return Panel(
        "",
        axis.label,
        words[0] if len(words) == 1 else f"{words[0]} (solid), {words[1]} (dotted)",
        x_scale=_scale_of(axis, look),
        y_scale=y_scale,
        lines=[*drawn, *more],
        points=[*points[0], *hollow],
        guides=guides,
        x_ticks=ticks,
        infinity=(max(axis.finite), _infinity(axis, look)[1]) if np.inf in (axis.numbers or ()) else None,
    )


def _is_wide(values: Array) -> bool:
    """Return whether values are positive and spread so far that they are drawn on a logarithmic axis."""
    known = values[np.isfinite(values)]
    return bool(known.size and known.min() > 0 and known.max() > _WIDE * known.min())


def _second(line: Line, least: float) -> Line:
    """Return a line as that of the second quantity of a panel, where it is not less than something."""
    return replace(_above(line, "y", least), label="", style="dotted")


def _above(drawn: _Drawn, name: str, least: float) -> _Drawn:
    """Return a line or points, with nan in place of values below something."""
    values = np.asarray(getattr(drawn, name), dtype=float)
    return replace(drawn, **{name: np.where(values < least, np.nan, values).tolist()})


def _along(curve: Curve, values: NDArray[Any]) -> Array:
    """Return values of a grid with the horizontal axis last, one row a curve."""
    return np.moveaxis(np.asarray(values, dtype=float).reshape(curve.grid.shape), curve.grid.across, -1).reshape(
        -1, curve.grid.shape[curve.grid.across]
    )


def _numbers(curve: Curve) -> Array:
    axis = curve.axes[curve.grid.across]
    return np.asarray(axis.numbers if axis.numbers is not None else range(len(axis.values)), dtype=float)


def _infinity(axis: Axis, look: Look) -> tuple[float, float, float]:
    """Return the place where infinity stands on an axis, between the ends of the dash that is theory there."""
    low, high = min(axis.finite), max(axis.finite)
    shares = _TO_INFINITY + _AT_INFINITY * np.array([-1.0, 0.0, 1.0])
    if _scale_of(axis, look) == "log":
        low = min((number for number in axis.finite if number > 0), default=0.1)
        places = high * (high / low if high > low else 10.0) ** shares
    else:
        places = high + (high - low or abs(high) or 1.0) * shares
    left, middle, right = places.tolist()
    return left, middle, right


def _broken(axis: Axis, look: Look, x: Array, y: Array) -> tuple[Array, Array]:
    """Return increasing places and the values there as a line, which ends before infinity: there it has a dash."""
    if np.isfinite(x[-1]):
        return x, y
    left, _, right = _infinity(axis, look)
    return np.array([*x[:-1], np.nan, left, right]), np.array([*y[:-1], np.nan, y[-1], y[-1]])


def _lines(curve: Curve, quantity: str, styled: Sequence[tuple[str, str]], look: Look) -> list[Line]:
    dense = curve.dense or curve
    x, theory = _numbers(dense), _along(dense, dense.overlay(quantity, look.label_noise).theory)
    if dense.axes[dense.grid.across].numbers is None:
        # Names have no order: nothing connects them.
        return [
            Line.of([place - _DASH, place + _DASH], value, "" if place else label, regime)
            for values, (label, regime) in zip(theory, styled, strict=True)
            for place, value in zip(x, values, strict=True)
        ]
    if len(x) == 1 and np.isfinite(x[0]):  # of a line there is one point
        ends = np.array([-_DASH, _DASH])
        x, theory = x * (1 + ends / 10) if x.any() else x + ends, np.repeat(theory, 2, axis=1)
    order, axis = np.argsort(x), dense.axes[dense.grid.across]
    return [
        Line.of(*_broken(axis, look, x[order], values[order]), label, regime)
        for values, (label, regime) in zip(theory, styled, strict=True)
    ]


def _points(curve: Curve, quantity: str, styled: Sequence[tuple[str, str]], look: Look) -> list[Points]:
    if curve.comparison is None:
        return []
    overlay, x = curve.overlay(quantity, look.label_noise), _numbers(curve)
    x = np.where(np.isinf(x), _infinity(curve.axes[curve.grid.across], look)[1], x)
    means, errors = _along(curve, overlay.mean), _along(curve, overlay.standard_error)
    return [
        Points(x.tolist(), means[row].tolist(), errors[row].tolist(), label, regime)
        for row, (label, regime) in enumerate(styled)
        if np.isfinite(means[row]).any()
    ]


def _references(curve: Curve, quantity: str, wanted: Sequence[str], look: Look) -> tuple[list[Line], list[Guide]]:
    """Return what a figure compares with: without the step another curve, otherwise dashed lines."""
    dense = curve.dense or curve
    x, axis = _numbers(dense), dense.axes[dense.grid.across]
    order = np.argsort(x)
    rows = np.moveaxis(np.arange(len(dense.problems)).reshape(dense.grid.shape), dense.grid.across, -1).reshape(
        -1, len(x)
    )
    lines: list[Line] = []
    guides: list[Guide] = []
    for name in wanted:
        if name == _NO_STEP:
            problems = [[dense.problems[i].replace(eta=0.0) for i in row] for row in rows]
            distinct = {tuple(each): None for each in problems}
            for each in distinct:
                found = [_shown(p, quantity, look) if isinstance(p, Prediction) else np.nan for p in predict_each(each)]
                # One name serves all: a line without a label has the colour of the one before it.
                places, values = _broken(axis, look, x[order], np.asarray(found)[order])
                lines.append(Line.of(places, values, "" if lines else _NO_STEP, "initial"))
            continue
        noisy = look.label_noise == "both" and name != "label noise"
        distinct_heights = {
            tuple(REFERENCES[name](dense.problems[i]) + noisy * dense.problems[i].noise ** 2 for i in row): None
            for row in rows
        }
        for each in distinct_heights:
            height = each[0] if len(set(each)) == 1 else None
            if height is not None:
                guides.append(Guide(name, height=height))
            else:
                places, heights = _broken(axis, look, x[order], np.asarray(each)[order])
                guides.append(Guide(name, x=places.tolist(), y=heights.tolist()))
    return lines, guides


def _shown(found: Prediction, quantity: str, look: Look) -> float:
    """Return a quantity of a prediction as it is drawn."""
    value: float = with_label_noise(quantity, found.problem, partial(getattr, found), look.label_noise)
    return value


def _regimes(problems: Sequence[Problem], names: Sequence[str]) -> list[str]:
    """Return the colour of each curve: by the size of its step if that is what differs, of many on a scale."""
    if len(problems) > MOST_CURVES:
        return [SCALE] * len(problems)
    if "eta" in names or (names == ["problem"] and len({problem.eta for problem in problems}) > 1):
        return [_regime(problem.eta) for problem in problems]
    if not names:
        return [_regime(problems[0].eta)]
    return [_HUES[index % len(_HUES)] for index in range(len(problems))]


def _regime(step: Step) -> str:
    if step.coefficient == 0:
        return "initial"
    if step.exponent >= 0.5:
        return "large"
    return "between" if step.exponent > 0 else "small"


def _map(curve: Curve, quantity: str, look: Look) -> Panel:
    """Return the panel of one quantity over two axes."""
    dense = curve.dense or curve
    across, up = curve.grid.across, 1 - curve.grid.across
    x, y, theory = _plane(dense, dense.overlay(quantity, look.label_noise).theory)
    measured = () if curve.comparison is None else _plane(curve, curve.overlay(quantity, look.label_noise).mean)
    called = in_words(quantity)
    x_scale, y_scale = (_scale(curve.axes[i]) for i in (across, up))
    labels = curve.axes[across].label, curve.axes[up].label
    field = Field(x, y, theory, called, *measured)
    return Panel(called, labels[0], labels[1], x_scale, y_scale, field=field)


def _plane(curve: Curve, values: NDArray[Any]) -> tuple[Array, Array, Array]:
    """Return the finite places across and up, and the values of a grid there, a row for each place up."""
    across = curve.grid.across
    x, y = (np.asarray(curve.axes[i].numbers, dtype=float) for i in (across, 1 - across))
    rows = np.asarray(values, dtype=float) if across == 1 else np.asarray(values, dtype=float).T
    return x[np.isfinite(x)], y[np.isfinite(y)], rows[np.ix_(np.isfinite(y), np.isfinite(x))]


def _scale(axis: Axis) -> Scale:
    return "log" if axis.is_logarithmic else "linear"


def _scale_of(axis: Axis, look: Look) -> Scale:
    return look.x_scale or _scale(axis)
