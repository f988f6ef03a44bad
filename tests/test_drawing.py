"""Figures on paper: labels that can be read, ticks with room, colours that mean something."""

import numpy as np
import pytest

from gradstep.drawing import _spread, draw
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
    assert _spread([0.1, 0.5, 0.9]) == [0.1, 0.5, 0.9]
    close = _spread([0.5, 0.5, 0.5])
    assert np.mean(close) == pytest.approx(0.5)
    assert min(np.diff(close)) > 0.05
    high = _spread([0.99, 1.0, 1.0])
    assert max(high) <= 1
    assert min(np.diff(high)) > 0.05


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
    marks = [Mark(x, name, "large") for x, name in ((2.0, "h1"), (2.02, "h2"))] + [Mark(2.01, "h1", "large", True)]
    bulk = Histogram([0.0, 0.5, 1.0], [1.2, 0.8], "network", "initial")
    (axes,) = drawn(Panel("", "s", "density", histograms=[bulk], marks=marks)).axes
    names = [text for text in axes.texts if text.get_text() in ("h1", "h2")]
    assert len(names) == 2
    assert not overlapping(boxes(axes.texts))
    for text, x in zip(names, (2.0, 2.02), strict=True):
        assert text.get_window_extent().x1 < axes.transData.transform((x, 0))[0]


@pytest.mark.parametrize("span", [(48, 192), (0.5, 10), (1, 900), (0.14, 0.29), (3, 3.5)])
def test_ticks_of_logarithmic_axes_have_room(span):
    values = list(span)
    (axes, *_) = drawn(*3 * [Panel("", "x", "y", "log", "log", lines=[Line(values, values, "a", "small")])]).axes
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        shown = [t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
        assert len(shown) >= 2 or span == (3, 3.5)
        assert not overlapping(boxes(shown))


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
