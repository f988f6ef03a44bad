"""What to cite: BibTeX of the papers behind a result, a method or a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gradstep import __version__
from gradstep.errors import InvalidInput
from gradstep.problem import Problem
from gradstep.simulation import Measurement
from gradstep.theory import Prediction
from gradstep.theory.tuning import Tuned

__all__ = ["ENTRIES", "METHODS", "citation", "citation_keys", "citation_of_keys"]

_BA = {
    "title": "High-dimensional asymptotics of feature learning: How one gradient step improves the representation",
    "author": "Ba, Jimmy and Erdogdu, Murat A. and Suzuki, Taiji and Wang, Zhichao and Wu, Denny and Yang, Greg",
    "booktitle": "Advances in Neural Information Processing Systems",
    "volume": "35",
    "pages": "37932--37946",
    "year": "2022",
    "eprint": "2205.01445",
    "archiveprefix": "arXiv",
}
_MONIRI = {
    "title": "A theory of non-linear feature learning with one gradient step in two-layer neural networks",
    "author": "Moniri, Behrad and Lee, Donghwan and Hassani, Hamed and Dobriban, Edgar",
    "booktitle": "Proceedings of the 41st International Conference on Machine Learning",
    "series": "Proceedings of Machine Learning Research",
    "volume": "235",
    "publisher": "PMLR",
    "year": "2024",
    "eprint": "2310.07891",
    "archiveprefix": "arXiv",
}
_CUI = {
    "title": "Asymptotics of feature learning in two-layer networks after one gradient-step",
    "author": "Cui, Hugo and Pesce, Luca and Dandi, Yatin and Krzakala, Florent and Lu, Yue M. and "
    "Zdeborov{\\'a}, Lenka and Loureiro, Bruno",
    "booktitle": "Proceedings of the 41st International Conference on Machine Learning",
    "series": "Proceedings of Machine Learning Research",
    "volume": "235",
    "publisher": "PMLR",
    "year": "2024",
    "eprint": "2402.04980",
    "archiveprefix": "arXiv",
}
_MEI = {
    "title": "The generalization error of random features regression: Precise asymptotics and the double descent curve",
    "author": "Mei, Song and Montanari, Andrea",
    "journal": "Communications on Pure and Applied Mathematics",
    "volume": "75",
    "year": "2022",
    "eprint": "1908.05355",
    "archiveprefix": "arXiv",
}
_GRADSTEP = {
    "title": "gradstep: what one gradient step on the first layer does to a two-layer network",
    "author": "{The gradstep developers}",
    "version": __version__,
    "note": "The uniform equivalent and the corrected formulas are derivations of this project",
}

#: Key to the kind of entry and its fields; the software comes first.
ENTRIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gradstep": ("software", _GRADSTEP),
    "ba2022": ("inproceedings", _BA),
    "moniri2024": ("inproceedings", _MONIRI),
    "cui2024": ("inproceedings", _CUI),
    "mei2022": ("article", _MEI),
}

#: Method to the papers it rests on.
METHODS: Mapping[str, tuple[str, ...]] = {
    "uniform equivalent": ("ba2022", "cui2024"),
    "small step": ("ba2022", "mei2022"),
    "large step": ("cui2024",),
    "random features": ("ba2022", "mei2022"),
    "spiked random features": ("cui2024",),
    "convex loss": ("cui2024",),
    "spectrum": ("ba2022", "moniri2024"),
    "kernel lower bound": ("ba2022",),
    "simulation": (),
}


def citation(of: object = None) -> str:
    """Return the BibTeX of what a result rests on: gradstep itself, then the papers.

    Parameters
    ----------
    of : Prediction, Measurement, Tuned, Figure, FigureResult or str, optional
        A result, a figure, or the name of a method (its first words are enough), a paper or a figure. Without it:
        everything.

    Returns
    -------
    str

    Raises
    ------
    InvalidInput
        On a name that is none of these, or on another kind of object.

    Examples
    --------
    >>> import gradstep as gs
    >>> print(gs.citation("large step").splitlines()[-1])
    }
    >>> "cui2024" in gs.citation("large step"), "ba2022" in gs.citation("large step")
    (True, False)
    """
    return citation_of_keys(citation_keys(of))


def citation_keys(of: object = None) -> tuple[str, ...]:
    """Return the keys of `ENTRIES` that `citation` prints."""
    used = set(ENTRIES) if of is None else {"gradstep", *_papers(of)}
    return tuple(key for key in ENTRIES if key in used)


def citation_of_keys(keys: Iterable[str]) -> str:
    """Return the BibTeX of some keys of `ENTRIES`."""
    entries = []
    for key in keys:
        kind, fields = ENTRIES[key]
        entries.append("\n".join([f"@{kind}{{{key},", *(f"  {n} = {{{v}}}," for n, v in fields.items()), "}"]))
    return "\n\n".join(entries)


def _papers(of: object) -> set[str]:
    from gradstep.papers.figure import Figure, FigureResult

    if isinstance(of, str):
        return _named(of)
    if isinstance(of, Tuned):
        return _papers(of.prediction)
    if isinstance(of, Prediction):
        return set(METHODS[of.method.partition(",")[0]]) | _regime(of.problem)
    if isinstance(of, Measurement):
        return _regime(of.problem)
    if isinstance(of, FigureResult):
        return _papers(of.figure)
    if isinstance(of, Figure):
        return {of.paper} if of.paper in ENTRIES else {"ba2022", "moniri2024", "cui2024"}
    raise InvalidInput("of", of, "a prediction, a measurement, a tuned problem, a figure, or a name")


def _regime(problem: Problem) -> set[str]:
    """Return the papers whose convention or scaling of the step a problem uses."""
    papers = {problem.origin} & set(ENTRIES)
    if problem.eta.coefficient > 0 and 0 < problem.eta.exponent < 0.5:
        papers.add("moniri2024")
    return papers


def _named(name: str) -> set[str]:
    from gradstep.papers.figure import load_figures

    if name in ENTRIES:
        return {name}
    methods = [method for method in METHODS if name and method.startswith(name)]
    if methods:
        return {paper for method in methods for paper in METHODS[method]}
    figures = {figure.name: figure for figure in load_figures()}
    if name in figures:
        return _papers(figures[name])
    known = ", ".join(repr(known) for known in (*METHODS, *ENTRIES))
    raise InvalidInput("of", name, f"a method or paper ({known}) or the name of a figure")
