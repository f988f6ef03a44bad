"""Figures on paper: labels that can be read, ticks with room, colours that mean something."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from gradstep.drawing import HUES, _spread, draw
from gradstep.panels import Guide, Histogram, Line, Mark, Panel, Points
from gradstep.papers.figure import load_figures


def drawn(*panels, dark=False):
    canvas = draw(panels, dark=dark)
    canvas.draw_without_rendering()
    return canvas


def boxes(texts):
    return [text.get_window_extent() for text in texts if text.get_text()]


def overlapping(found):
    return any(a.overlaps(b) for i, a in enumerate(found) for b in found[:i])


def test_labels_move_no_more_than_they_have_to():
    assert _spread([0.1, 0.5, 0.9], [1, 1, 1]) == pytest.approx([0.1, 0.5, 0.9], abs=1e-12)
    close = _spread([0.5, 0.5, 0.5], [1, 1, 1])
    assert np.mean(close) == pytest.approx(0.5)
    assert min(np.diff(close)) > 0.05
    low, middle, high = _spread([0.5, 0.5, 0.5], [1, 3, 1])  # three lines take the room of two more labels
    assert high - middle == pytest.approx(middle - low) == pytest.approx(2 * (close[1] - close[0]))
    high = _spread([0.99, 1.0, 1.0], [1, 1, 1])
    assert max(high) <= 1
    assert min(np.diff(high)) > 0.05


def test_long_labels_are_broken_at_their_commas():
    long = ", ".join(["tanh(x) + 0.3*x**2", "x + 0.2*x**3", "eta = sqrt N", "noise 0.3"])
    lines = [Line([1.0, 2.0], [0.5, 0.5 + 0.01 * k], f"{long}, {k}", "small") for k in range(2)]
    canvas = drawn(Panel("", "x", "y", lines=lines))
    (axes,) = canvas.axes
    assert all("\n" in text.get_text() and r"$\eta$ = $\sqrt{N}$" in text.get_text() for text in axes.texts)
    assert not overlapping(boxes(axes.texts))
    assert axes.get_position().width > 0.5


def test_labels_of_close_lines_and_guides_do_not_overlap():
    x = [1.0, 2.0]
    lines = [Line(x, [0.5, 0.500 + 0.001 * k], f"line {k}", "small") for k in range(6)]
    guides = [Guide("bound", height=0.5), Guide("rate", x=x, y=[0.7, 0.5])]
    (axes,) = drawn(Panel("", "x", "y", lines=lines, guides=guides)).axes
    assert {text.get_text() for text in axes.texts} == {*(f"line {k}" for k in range(6)), "bound", "rate"}
    assert not overlapping(boxes(axes.texts))
    # Beside the axes, where neither lines nor points are.
    assert all(box.x0 >= axes.get_window_extent().x1 for box in boxes(axes.texts))


def test_outliers_are_named_beside_their_lines():
    marks = [Mark(x, name, "large") for x, name in ((2.0, "first"), (2.02, "second"))] + [
        Mark(2.01, "first", "large", True)
    ]
    bulk = Histogram([0.0, 0.5, 1.0], [1.2, 0.8], "network", "initial")
    (axes,) = drawn(Panel("", "s", "density", histograms=[bulk], marks=marks)).axes
    names = [text for text in axes.texts if text.get_text() in ("first", "second")]
    assert len(names) == 2
    assert not overlapping(boxes(axes.texts))
    for text, x in zip(names, (2.0, 2.02), strict=True):
        assert text.get_window_extent().x1 < axes.transData.transform((x, 0))[0]


@pytest.mark.parametrize(
    "span",
    [
        (1, 900),
        (0.14, 0.29),
        (3, 3.5),
        *(pytest.param(span, marks=pytest.mark.statistical) for span in [(48, 192), (0.5, 10)]),
    ],
)
def test_ticks_of_logarithmic_axes_have_room(span):
    values = list(span)
    (axes, *_) = drawn(*3 * [Panel("", "x", "y", "log", "log", lines=[Line(values, values, "a", "small")])]).axes
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        shown = [t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
        assert len(shown) >= 2 or span == (3, 3.5)
        assert not overlapping(boxes(shown))


@pytest.mark.parametrize(("places", "whole"), [((1.0, 2.0, 3.0, 4.0), True), ((1.0, 2.5, 4.0), False)])
def test_steps_have_ticks_at_whole_numbers(places, whole):
    panel = Panel("", "steps", "error", points=[Points(places, [1.0] * len(places), None, "", "small")])
    figure = draw((panel,))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    shown = [label.get_text() for label in axes.get_xticklabels() if label.get_text()]
    assert all("." not in text for text in shown) == whole
    assert len(shown) >= 3


def test_equal_axes():
    planes = [Panel("", "x", "y", points=[Points([0, k], [0, 1], None, "a", "small")], span=(-1, 5)) for k in (1, 4)]
    for axes in drawn(*planes).axes:
        assert axes.get_xlim() == axes.get_ylim() == (-1, 5)
        assert axes.get_aspect() == 1


def test_every_colour_named_by_a_figure_is_known():
    known = {"initial", "small", "between", "few", "large", "infinite", "teacher"}
    known |= {f"{which} kind" for which in ("first", "second", "third", "fourth")}
    for figure in load_figures():
        listed = [*figure.settings.get("curves", ()), *figure.settings.get("regimes", ())]
        listed += [c for chart in figure.settings.get("maps", ()) for c in chart["candidates"]]
        for entry in listed:
            regime = entry if isinstance(entry, str) else entry.get("regime", "teacher")
            assert regime in known, (figure.name, regime)


def test_dark_and_light_differ_in_ink_alone():
    panel = Panel("", "x", "y", lines=[Line([0, 1], [0, 1], "a", "small")], guides=[Guide("bound", height=0.5)])
    colours = [
        {text.get_text(): text.get_color() for text in drawn(panel, dark=dark).axes[0].texts} for dark in (False, True)
    ]
    assert colours[0]["a"] == colours[1]["a"]
    assert colours[0]["bound"] != colours[1]["bound"]


#: What an eye without one kind of cone makes of linear RGB (Machado, Oliveira and Fernandes 2009, full severity).
WITHOUT_A_CONE = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


@pytest.mark.parametrize("vision", ["all cones", *WITHOUT_A_CONE])
@pytest.mark.parametrize("kinds", [False, True])
def test_hues_are_told_apart_by_colour_blind_eyes(vision, kinds):
    hues = [HUES[name] for name in HUES if name.endswith("kind") == kinds]
    rgb = np.array([to_rgb(hue) for hue in hues])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(WITHOUT_A_CONE.get(vision, np.eye(3))).T, 0, 1)
    oklab = np.cbrt(seen @ np.array(TO_CONES).T) @ np.array(TO_OKLAB).T
    apart = np.linalg.norm(oklab[:, None] - oklab, axis=-1)[~np.eye(len(hues), dtype=bool)]
    # Two hundredths can just be seen side by side.
    assert apart.min() > 0.1
