"""The experiment behind a figure: where it measures, what theory predicts there, and which claims it checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.panels import Guide, Panel, Scale, Style
from gradstep.papers.charts import Curve, Theory, charts, grid_of, table_of
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve

__all__ = ["Curves", "Experiment"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Experiment(ABC):
    """A figure at one preset. Its class is named as its module: ``LearningCurves`` in ``learning_curves``."""

    figure: str  #: Name of the figure.
    settings: Settings  #: All settings of its file except for titles and presets.
    preset: Settings  #: Sizes, places and seeds.

    @property
    def notes(self) -> str:
        """The notes under the figure, in which ``{d}`` and other names stand for the preset's sizes."""
        return str(self.settings.get("notes", ""))

    @abstractmethod
    def places(self) -> Iterator[Place]:
        """Yield where the figure measures."""

    @abstractmethod
    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Compare theory with the samples, one for each of `places` in their order, and check the claims."""


class Curves(Experiment):
    """Curves of theory along an axis, with measurements: one function is drawn, and is compared at every place.

    Notes
    -----
    The settings are:

    - ``axis``: the ``parameter`` on the horizontal axis and its ``label``, the range of the lines (``from``, ``to``,
      ``count``; a preset may have a count of its own, ``line``), and ``scale``. With ``together`` one network is
      measured at all places: it gets a list of them.
    - ``base``: parameters of all curves.
    - ``curves``: ``label``, ``regime`` and the ``parameters`` that a curve changes. Curves of one ``panel``, a title,
      share their axes. ``theory_only`` measures nothing, ``line = false`` draws no theory; ``up_to`` is the last place
      measured.
    - ``allowance``: documented error of the theory, of all curves or of one: ``relative``, ``reason``, and ``up_to`` on
      the axis.
    - ``quantities``: what is compared, of `names` (by default all), and ``drawn``: what has axes (by default all that
      is compared).
    - ``table``: six words, the header of a table of all comparisons (by default there is none).

    Presets hold sizes and ``points`` on the axis.
    """

    #: ``measure(parameters, seed)``, a function of the module.
    measure: ClassVar[staticmethod[[Settings, int], Mapping[str, Any]]]
    #: How quantities are written, by their names in the results and in the theory.
    names: ClassVar[Mapping[str, str]] = {"test_error": "test error"}
    y_scale: ClassVar[Scale] = "log"

    def theory(self, curve: Settings, x: Array) -> Mapping[str, ArrayLike]:
        """Return the quantities of a curve at places on the axis."""
        raise NotImplementedError

    def beside(self, curve: Settings) -> Mapping[Style, Theory]:
        """Return further lines of a curve."""
        return {}

    def claims(self, found: Outcome) -> Sequence[Check]:
        """Return the checks of further claims."""
        return ()

    @property
    def curves(self) -> Sequence[Settings]:
        """The curves; a ``name`` is what places are called after, and ``called`` is for comparisons, not the label."""
        return tuple(self.settings["curves"])

    @property
    def guides(self) -> Sequence[Guide]:
        """References in all panels."""
        return ()

    @property
    def quantities(self) -> dict[str, str]:
        """Names of the compared quantities, and how they are written."""
        return {name: self.names[name] for name in self.settings.get("quantities", self.names)}

    @property
    def grid(self) -> Array:
        """Places of the lines."""
        return grid_of(self.settings["axis"], self.preset)

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of a curve, at a place on the axis if that is given."""
        sizes = {name: self.preset[name] for name in ("d", "n", "test_samples") if name in self.preset}
        place = {} if x is None else {self.settings["axis"]["parameter"]: x}
        return {**self.settings.get("base", {}), **sizes, **curve.get("parameters", {}), **place}

    def drawn(self, curve: Settings, x: Any) -> tuple[str, object] | None:
        """Return the label and the place for which seeds are drawn, if these are not the name and the place."""
        return None

    def places(self) -> Iterator[Place]:
        """Yield every curve at every point."""
        for curve in self.curves:
            if curve.get("theory_only", False):
                continue
            points = [float(x) for x in self.preset["points"] if x <= curve.get("up_to", np.inf)]
            for x in [points] if self.settings["axis"].get("together", False) else points:
                place = "" if isinstance(x, list) else x
                name = curve.get("name", curve["label"])
                yield Place(self.measure, self.parameters(curve, x), name, place, self.drawn(curve, place))

    def chart(self, curve: Settings, samples: Sequence[Sample]) -> Curve:
        """Return a curve with its theory and with what was measured on it."""
        axis, own = self.settings["axis"], on_curve(samples, curve.get("name", curve["label"]))
        if axis.get("together", False):
            own = [at for sample in own for at in sample.spread(axis["parameter"])]
        return Curve(
            curve["label"],
            curve["regime"],
            partial(self.theory, curve),
            own,
            name=curve.get("called", ""),
            beside=self.beside(curve),
            line=curve.get("line", True),
            allowance=curve.get("allowance", self.settings.get("allowance", {})),
        )

    def panels(self, title: str) -> dict[str, Panel]:
        """Return the axes of every quantity drawn, for the curves of one panel."""
        axis, drawn = self.settings["axis"], self.settings.get("drawn", [*self.quantities])
        found = {}
        for name in drawn:
            text = self.names[name]
            words = ", ".join(word for word in (text if len(drawn) > 1 else "", title) if word)
            guides, scale = self.guides, axis.get("scale", "linear")
            found[name] = Panel(words, axis["label"], text, scale, self.y_scale, guides=guides)
        return found

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw the theory and the points, panel by panel, and compare them."""
        found = Outcome()
        for title in dict.fromkeys(curve.get("panel", "") for curve in self.curves):
            own = [self.chart(curve, samples) for curve in self.curves if curve.get("panel", "") == title]
            found += charts(own, self.grid, self.panels(title), self.quantities)
        table = table_of(self.settings["table"], found.comparisons) if "table" in self.settings else None
        return found + Outcome(checks=self.claims(found), table=table)
