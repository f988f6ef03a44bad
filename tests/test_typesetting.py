"""Formulas in plain text become those of Matplotlib and of a page, each symbol in one form."""

import re
from functools import cache

import pytest
from matplotlib.mathtext import MathTextParser

from gradstep.papers.figure import load_figures
from gradstep.typesetting import to_html, to_mathtext, to_plain

FORMULAS = [
    ("eta = sqrt N", r"$\eta$ = $\sqrt{N}$", '<i>η</i> = √<span class="root"><i>N</i></span>'),
    ("η = √N", r"$\eta$ = $\sqrt{N}$", '<i>η</i> = √<span class="root"><i>N</i></span>'),
    ("eta = N^alpha", r"$\eta$ = $N^{\alpha}$", "<i>η</i> = <i>N</i><sup><i>α</i></sup>"),
    ("alpha0 = inf", r"$\alpha_{0}$ = ∞", "<i>α</i><sub>0</sub> = ∞"),
    ("lam = 1e-4, sigma_eps = 0.25", r"$\lambda$ = $10^{-4}$, $\sigma_{\epsilon}$ = 0.25", None),
    ("n = 1e+06, 1e-06", r"$n$ = $10^{6}$, $10^{-6}$", "<i>n</i> = 10<sup>6</sup>, 10<sup>−6</sup>"),
    ("n^((α-1/2)k+1)", r"$n^{(\alpha -1/2)k+1}$", "<i>n</i><sup>(<i>α</i>−1/2)<i>k</i>+1</sup>"),
    ("||G0 - A|| / ||G0||", "‖$G_{0}$ − A‖ / ‖$G_{0}$‖", "‖<i>G</i><sub>0</sub> − A‖ / ‖<i>G</i><sub>0</sub>‖"),
    ("||W0||_F", r"‖$W_{0}$$\Vert_{F}$", "‖<i>W</i><sub>0</sub>‖<sub>F</sub>"),
    ("samples n0/d, from -1/2", "samples $n_0/d$, from −1/2", None),
    ("eta_tilde, F_l", r"$\tilde\eta$, $F_{l}$", "<i>η̃</i>, <i>F</i><sub><i>l</i></sub>"),
    ("F_3, H3 (exponent 3)", "$F_{3}$, $H_{3}$ (exponent 3)", None),
    ("n → ∞", "$n$ → ∞", "<i>n</i> → ∞"),
    ("R1 <= 10 tau*", r"$R_{1}$ ≤ 10 $\tau^{*}$", "<i>R</i><sub>1</sub> ≤ 10 <i>τ</i><sup>*</sup>"),
]


@pytest.mark.parametrize(("text", "mathtext", "html"), FORMULAS)
def test_forms(text, mathtext, html):
    assert to_mathtext(text) == mathtext
    assert html is None or to_html(text) == html


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("eta = sqrt N", "η = √N"),
        ("eta = N^alpha", "η = N^α"),
        ("alpha0 = inf", "α₀ = ∞"),
        ("lam = 1e-4, sigma_eps = 0.25", "λ = 10⁻⁴, σ_ε = 0.25"),
        ("1e+06, 1e-06", "10⁶, 10⁻⁶"),
        ("n^((α-1/2)k+1), H2^2, N^.45", "n^((α-1/2)k+1), H₂², N^.45"),
        ("samples n0/d, F_l, R1 <= 10 tau*, η~ = 3", "samples n₀/d, F_l, R₁ ≤ 10 τ*, η̃ = 3"),
        ("||W0||_F - 1", "‖W₀‖_F − 1"),
        ("a theta of meta data", "a theta of meta data"),
    ],
)
def test_plain_text_has_letters_of_unicode(text, plain):
    assert to_plain(text) == plain


@pytest.mark.parametrize(
    "text", ["beta is a name", "a theta, meta data, the beta-function", "5 runs at d/w", "$5 & <b>"]
)
def test_words_are_left_alone(text):
    plain = text.replace("beta", "").replace("$", "")
    assert not re.search("<i>|[$]", to_html(plain))
    assert "$" not in to_mathtext(plain)


def test_text_is_escaped():
    assert to_html("a <x> & c") == "a &lt;x&gt; &amp; c"
    assert to_mathtext("5 $") == r"5 \$"
    assert to_mathtext("$n/d$, eta") == "$n/d$, eta"


def texts(value):
    """Yield all words of the settings of a figure."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(part)


@cache
def understood(formula):
    """See that Matplotlib reads a formula, which many figures have."""
    MathTextParser("path").parse(formula)
    return True


@pytest.mark.parametrize("figure", load_figures(), ids=lambda figure: figure.name)
def test_matplotlib_understands_every_word_of_a_figure(figure):
    for text in [figure.title, figure.summary, figure.stated, figure.ours, *texts(dict(figure.settings))]:
        _, *rest = re.split(r"(?<!\\)\$", to_mathtext(text))
        # Dollars come in pairs, and what lies between two is a formula; Matplotlib takes the other parts as they are.
        assert len(rest) % 2 == 0
        assert all(understood(f"${formula}$") for formula in rest[::2])
        assert to_html(text).count("<i>") == to_html(text).count("</i>")
