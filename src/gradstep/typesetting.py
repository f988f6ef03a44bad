"""Formulas in the words of a figure, typeset: for Matplotlib and for a page, each symbol in one form.

Settings files are plain text: they write ``eta_tilde``, ``sqrt N``, ``N^alpha``, and some of them Greek letters.
"""

from __future__ import annotations

import re
from html import escape

__all__ = ["to_html", "to_mathtext", "to_plain"]

_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eta": "η",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "phi": "φ",
    "psi": "ψ",
    "sigma": "σ",
    "tau": "τ",
    "Delta": "Δ",
    "Lambda": "Λ",
}
_NAME = {letter: name for name, letter in _GREEK.items()}
#: Names of several parts: the symbol, and what stands below it.
_PARTS = {
    "n_step": ("n", "0"),
    "sigma_eps": ("sigma", "epsilon"),
    "eta_tilde": ("eta_tilde", ""),
    "lam": ("lambda", ""),
}
_NAMES = "|".join(sorted([*_GREEK, *_PARTS], key=len, reverse=True))
#: Letters of the Latin alphabet are symbols in ratios, beside a relation, and with an index or an exponent.
_FORMULA = re.compile(
    rf"""
    (?P<plain>\|\|(?!_F)|<=|>=|(?<![\w.])inf(?!\w)|(?<![\w.])sqrt(?=\([^()]{{2}}))
    | \|\|_(?P<norm>F) | (?<![\w.])1e\+?(?P<ten>-?\d+)(?!\w)
    | (?P<minus>(?<![\w)\]])-(?=[\d.])|(?<=\s)-(?=\s))
    | (?<![\w.])sqrt\((?P<in_brackets>\w)\) | (?<![\w.])sqrt\s(?P<behind>\w)(?!\w) | √(?P<root>[A-Za-z\d])
    | (?<![\w/.])(?P<above>n0|[ndNp])/(?P<under>[dn])(?![\w/])
    | (?<![A-Za-z_.'])(?P<symbol>{_NAMES}|η~|[{"".join(_NAME)}]|[dnNGW](?=\^)|[cmhHFGWCR](?=_?[\dl](?![A-Za-z0-9(])))
      _?(?P<index>\d|(?<=_)l)?(?P<star>\*)?
      (?:\^(?:\((?P<long>(?:[^()]|\([^()]*\))*)\)|(?P<short>-?[\w./]+)))?(?![A-Za-z0-9_])
    | (?<![\w.'])(?P<alone>[dnNrlbz])(?=\s?[=<>≤≥→]\s)
    | (?<=[=<>≤≥]\s)(?P<last>[dnN])(?![\w(/^])
    """,
    re.VERBOSE,
)
_RAISED, _LOWERED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"), str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_PLAIN = {"||": "‖", "<=": "≤", ">=": "≥", "inf": "∞", "sqrt": "√", "-": "−"}


def to_mathtext(text: str) -> str:
    """Return text in which Matplotlib typesets the formulas; text that has some between dollars stays as it is."""
    if text.count("$") > 1:
        return text
    return _FORMULA.sub(_mathtext, text.replace("$", r"\$"))


def to_html(text: str) -> str:
    """Return text as HTML, escaped, with the formulas typeset."""
    parts, end = [], 0
    for match in _FORMULA.finditer(text):
        parts += [escape(text[end : match.start()]), _html(match)]
        end = match.end()
    return "".join([*parts, escape(text[end:])])


def to_plain(text: str) -> str:
    """Return text with the formulas in the letters of Unicode, for what holds no markup: names in lists and titles."""
    return _FORMULA.sub(_plain, text)


def _symbol(match: re.Match[str]) -> tuple[str, str, str]:
    """Return a symbol by its name, what stands below it, and what stands above it, with Greek letters."""
    if alone := match["alone"] or match["last"]:
        return alone, "", ""
    found = match["symbol"]
    name, below = _PARTS.get(found, ({"η~": "eta_tilde"}.get(found, _NAME.get(found, found)), ""))
    above = (match["star"] or "") + (match["long"] or match["short"] or "")
    for word, letter in _GREEK.items():
        above = re.sub(rf"\b{word}\b", letter, above)
    return name, below or match["index"] or "", above


def _mathtext(match: re.Match[str]) -> str:
    if plain := match["plain"] or match["minus"]:
        return _PLAIN[plain]
    if match["norm"]:
        return r"$\Vert_{F}$"
    if ten := match["ten"]:
        return f"$10^{{{int(ten)}}}$"
    if root := match["in_brackets"] or match["behind"] or match["root"]:
        return rf"$\sqrt{{{root}}}$"
    if above := match["above"]:
        return f"${above.replace('n0', 'n_0')}/{match['under']}$"
    name, below, above = _symbol(match)
    for word, letter in _GREEK.items():
        above = above.replace(letter, rf"\{word} ")
    written = {"eta_tilde": r"\tilde\eta"}.get(name, rf"\{name}" if name in _GREEK else name)
    written += rf"_{{{chr(92) if len(below) > 1 else ''}{below}}}" if below else ""
    return f"${written}^{{{above.strip()}}}$" if above else f"${written}$"


def _html(match: re.Match[str]) -> str:
    if plain := match["plain"] or match["minus"]:
        return _PLAIN[plain]
    if match["norm"]:
        return "‖<sub>F</sub>"
    if ten := match["ten"]:
        return f"10<sup>{int(ten)}</sup>".replace("-", "−")
    if root := match["in_brackets"] or match["behind"] or match["root"]:
        return f'√<span class="root">{_italic(root)}</span>'
    if above := match["above"]:
        return f"{'<i>n</i><sub>0</sub>' if above == 'n0' else _italic(above)}/{_italic(match['under'])}"
    name, below, above = _symbol(match)
    written = _italic("η̃" if name == "eta_tilde" else _GREEK.get(name, name))
    written += f"<sub>{_italic('ε' if below == 'epsilon' else below)}</sub>" if below else ""
    # A letter alone is a symbol; several are a word, such as exp.
    above = re.sub(r"(?<![\w&])[^\W\d_](?!\w)", lambda symbol: _italic(symbol[0]), escape(above))
    return written + (f"<sup>{above.replace('-', '−')}</sup>" if above else "")


def _plain(match: re.Match[str]) -> str:
    if plain := match["plain"] or match["minus"]:
        return _PLAIN[plain]
    if match["norm"]:
        return "‖_F"
    if ten := match["ten"]:
        return f"10{str(int(ten)).translate(_RAISED)}"
    if root := match["in_brackets"] or match["behind"] or match["root"]:
        return f"√{root}"
    if above := match["above"]:
        return f"{above.replace('0', '₀')}/{match['under']}"
    name, below, above = _symbol(match)
    written = "η̃" if name == "eta_tilde" else _GREEK.get(name, name)
    if below:
        written += below.translate(_LOWERED) if below.isdigit() else f"_{'ε' if below == 'epsilon' else below}"
    if not above or above == "*":
        return written + above
    if re.fullmatch(r"-?\d+", above):
        return written + above.translate(_RAISED)
    return f"{written}^{above.replace('-', '−') if len(above) == 1 or match['short'] else f'({above})'}"


def _italic(text: str) -> str:
    return text if text.isdigit() else f"<i>{text}</i>"
