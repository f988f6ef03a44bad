"""Results as people see them: one screen, 80 columns, the numbers, and HTML with the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.progress import progress
from gradstep.summary import Summary, wrapped
from gradstep.text_table import Table, measured

PROBLEM = gs.Problem(
    activation="tanh",
    teacher="softplus",
    d=24,
    width="1.5d",
    n_step="4d",
    n="3d",
    eta="N^0.5",
    ridge="d/64",
    noise=0.1,
    readout="constant",
)
LIMIT = PROBLEM.replace(d=float("inf"), width="1.5d", n_step="4d", n="3d", ridge="d/64")


def results():
    yield gs.predict(PROBLEM)
    yield gs.predict(LIMIT)
    yield gs.predict_spread(PROBLEM)
    yield gs.simulate(PROBLEM, 2)
    yield gs.simulate(PROBLEM, 2, ridge=np.geomspace(0.01, 100, 40))
    yield gs.compare(PROBLEM, 2)
    yield gs.compare([PROBLEM.replace(n=n) for n in range(20, 80, 3)], 2)
    yield gs.tune(PROBLEM, over="ridge")
    for of in ("features", "weights"):
        found = gs.spectrum(PROBLEM, 2, of=of)
        yield found
        yield found.theory


def test_every_result_fits_on_a_screen():
    for found in results():
        lines = str(found).splitlines()
        assert len(lines) <= 25, found
        assert max(map(len, lines)) <= 80, found
        assert repr(found) == str(found)
        assert "ScalarFunction" not in repr(found)
        html = found._repr_html_()
        assert html.count("<td") >= 2
        assert str(found).splitlines()[0].split(":")[0] in html


def test_a_spectrum_without_networks_has_its_outliers():
    found = gs.spectrum(PROBLEM, of="weights")
    assert "network" not in str(found)
    assert found.overlay.theory == pytest.approx([value for value, _ in found.outliers])
    (outlier,) = found.to_dict()["outliers"]
    assert outlier == {"singular_value": found.theory.outlier.singular_value, "label": "outlier"}
    with pytest.raises(gs.InvalidInput, match=r"seeds: got -1; allowed: an integer from 0 to 1000000, or distinct"):
        gs.spectrum(PROBLEM, -1)
    assert np.isnan(found.overlay.mean).all()
    assert "Hermite polynomial" in " ".join(str(gs.spectrum(PROBLEM.replace(n="6d"))).split())


def test_the_spectrum_of_one_network_has_no_standard_error():
    found = str(gs.spectrum(PROBLEM, 1, of="weights"))
    assert found.startswith("Spectrum of the weights, theory over 1 network\n")
    assert "nan" not in found


def test_means_have_the_digits_of_their_errors():
    assert measured(0.431558, 0.0421) == ("0.432", "0.042")
    assert measured(6.22483e-05, 1.98e-05) == ("6.2e-05", "2.0e-05")
    assert measured(126.3004, 0.027) == ("126.300", "0.027")
    assert measured(0.2, 0.0) == ("0.200000", "0")
    assert measured(0.5, float("nan"))[1] == "-"


def test_compared_problems_keep_the_form_of_their_step():
    text = str(gs.compare([PROBLEM, PROBLEM.replace(eta=1), PROBLEM.replace(eta=0)], 2))
    assert "N^0.5  test error" in text
    assert "test_error_bound" not in str(gs.simulate(PROBLEM, 2))


def test_figures_are_pictures_in_a_notebook_without_pyplot():
    assert gs.predict(PROBLEM).plot()._repr_png_().startswith(b"\x89PNG")
    assert re.findall(r"<td[^>]*>(.*?)</td>", PROBLEM._repr_html_())[:4] == [
        "activation",
        "tanh",
        "teacher",
        "softplus",
    ]


def test_html_has_the_cells_and_no_markup_of_others():
    html = Summary("a < b", ["c & d"], Table(["head_one"], [["1"], ["<b>"]], frozenset({0}))).html()
    assert "a &lt; b" in html
    assert "c &amp; d" in html
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["1", "&lt;b&gt;"]
    assert html.count("font-weight") == 1


def test_a_prediction_says_whether_the_step_beat_what_it_has_to():
    known = moments(PROBLEM.teacher)
    text = " ".join(str(gs.predict(PROBLEM.replace(activation="relu", d=200, width=300, n=600, n_step=800))).split())
    bound = known.nonlinear_second_moment
    assert f"kernel lower bound {bound:.6g}: the test error is" in text
    assert f"best linear error {bound + known.mean**2:.6g}: the test error is below it" in text
    assert "bound" not in str(gs.predict(PROBLEM.replace(teacher="H1")))


def test_a_line_does_not_end_between_a_number_and_its_error():
    assert wrapped("a gain of 0.1234 +- 0.0021", 20) == ["a gain of", "  0.1234 +- 0.0021"]
    assert wrapped("a gain of 0.1234 +- 0.0021", 80) == ["a gain of 0.1234 +- 0.0021"]


def test_wide_tables_are_broken_between_columns_and_words():
    table = Table(
        ["n", "degrees_of_freedom", *["x" * 30] * 3], [["1", "2", *["4"] * 3], ["1", "3", *["5"] * 3]], index=1
    )
    lines = table.lines(50)
    assert max(map(len, lines)) <= 50
    assert sum("degrees" in line for line in lines) == 1
    assert sum("x" * 30 in line for line in lines) == 3
    assert [line.split()[:2] for line in table.lines() if "5" in line] == [["3", "5"]]


def test_columns_come_closer_if_that_keeps_them_together():
    table = Table(["n", *["xxxxx"] * 4], [["1", *["12345"] * 4]], index=1)
    assert [len(line) for line in table.lines(29)] == [29, 29]
    assert [len(line) for line in table.lines(25)] == [25, 25]
    assert len(table.lines(24)) == 5


def test_a_table_prints_as_its_columns():
    assert str(Table(["test_error", "z"], [["0.1", "+1.00"]])).splitlines() == [
        "test error      z",
        "       0.1  +1.00",
    ]


def test_long_tables_lose_their_middle_but_not_what_is_marked_at_the_end():
    table = Table(["k"], [[str(k)] for k in range(100)], frozenset({1, 50, 99}))
    short = table.shortened(9)
    assert [row[0] for row in short.rows] == ["0", "1", "2", "3", "…", "96", "97", "98", "99"]
    assert short.emphasised == {1, 8}
    assert table.shortened(100) is table


def test_learned_is_smooth_and_right_between_the_nodes():
    for problem in (PROBLEM, PROBLEM.replace(activation="relu", eta="3*N^0.5"), LIMIT):
        rough, fine = gs.predict(problem), gs.predict(problem, refine=2).curve
        inside = np.abs(fine.kappa) < 4
        scale = np.abs(fine.learned[inside]).max()
        np.testing.assert_allclose(rough.learned(fine.kappa)[inside], fine.learned[inside], atol=2e-4 * scale)
        np.testing.assert_allclose(rough.learned(rough.curve.kappa), rough.curve.learned, rtol=1e-9, atol=1e-12)
        grid = np.linspace(-4, 4, 4001)
        assert np.abs(np.diff(rough.learned(grid), 2)).max() < 1e-4 * scale
    assert rough.learned([[0.0], [50.0]]).shape == (2, 1)
    assert float(rough.learned(50.0)) == pytest.approx(float(rough.curve.learned[-1]), rel=1e-12)
    for projections in ("1.0", None, [[1.0], [1.0, 2.0]], 10**400):
        with pytest.raises(gs.InvalidInput, match="kappa"):
            rough.learned(projections)


def test_the_figure_of_a_prediction_shows_teacher_and_network():
    found = gs.predict(PROBLEM)
    panel = found.plot().axes[0]
    assert {text.get_text() for text in panel.texts} == {"network", "teacher"}
    x, y = panel.lines[0].get_xdata(), panel.lines[0].get_ydata()
    np.testing.assert_allclose(y, found.learned(x))


def test_spectra_are_those_of_theory_and_networks():
    weights = gs.spectrum(PROBLEM, (1, 2), of="weights")
    singular = [gs.Network(PROBLEM, seed).weight_spectrum().after for seed in (1, 2)]
    np.testing.assert_allclose(weights.measured, singular)
    assert weights.overlay.mean[0] == pytest.approx(np.mean([values[-1] for values in singular]))
    features = gs.spectrum(PROBLEM.replace(n=30), 1)
    assert features.measured.shape == (1, 30)
    assert features.measured.min() > 0
    for found in (weights, features, gs.spectrum(PROBLEM.replace(eta=0))):
        panel = found.plot().axes[0]
        assert panel.get_ylabel() == "density"
        assert len(panel.patches) == bool(found.seeds)
    with pytest.raises(gs.InvalidInput, match="of: got 'weight'"):
        gs.spectrum(PROBLEM, of="weight")
    with pytest.raises(gs.InvalidInput, match=r"^d: "):
        gs.spectrum(LIMIT)


def test_the_figure_of_a_comparison_has_the_ratios():
    found = gs.compare(PROBLEM, 3)
    panel = found.plot().axes[0]
    points = np.asarray(panel.containers[0].lines[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(points, [o.mean / o.theory for o in found.overlays.values()])


def test_progress_is_silent_where_nobody_sees_it(capsys):
    with progress("problems", lines=False) as report:
        report(1, 2, "")
    assert capsys.readouterr().err == ""
    with progress("problems") as report:
        report(0.5, 2, "")
        report(2, 2, "")
    assert capsys.readouterr().err == "0/2 problems\n2/2 problems\n"


def test_a_prediction_is_named_by_its_method_alone():
    found = gs.predict(PROBLEM)
    assert str(found).splitlines()[0] == "Prediction (uniform equivalent)"
    assert found.residual < 1e-10
    assert found.iterations > 0
