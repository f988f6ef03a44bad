"""The numbered equations of the theory's pages, and the code that computes them, name each other."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from named_equations import PAGES, ROOT, SOURCE, Citation, citations, cited, file_of, numbers_of

NUMBERS = {page.stem: numbers_of(page) for page in sorted(PAGES.glob("*.md"))}


@cache
def cited_by_code() -> list[Citation]:
    """Return what the source names: it is read once, and not while tests are collected."""
    return list(citations())


def order(number: str) -> tuple[int, str]:
    """Return what numbers of one page are sorted by: 9 before 10, 10 before 10a."""
    digits, suffix = re.fullmatch(r"[A-Z](\d+)([a-z]?)", number).groups()
    return int(digits), suffix


def test_every_equation_that_code_names_is_on_its_page() -> None:
    assert cited_by_code()
    assert [named for named in cited_by_code() if named.number not in NUMBERS.get(named.page, ())] == []


def test_every_numbered_equation_is_named_by_code() -> None:
    found = {(named.page, named.number) for named in cited_by_code()}
    assert [
        (page, number) for page, numbers in NUMBERS.items() for number in numbers if (page, number) not in found
    ] == []


def test_numbers_are_unique_and_ascend_with_one_letter_a_page() -> None:
    letters = {page: {number[0] for number in numbers} for page, numbers in NUMBERS.items() if numbers}
    assert all(len(found) == 1 for found in letters.values())
    assert max(Counter(letter for found in letters.values() for letter in found).values()) == 1
    for numbers in NUMBERS.values():
        assert sorted(set(numbers), key=order) == numbers


def test_the_notation_lists_the_letter_of_each_page() -> None:
    table = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| \(([A-Z])1\) \| .*\(theory/(\w+)\.md\)", table, re.MULTILINE))
    assert listed == {numbers[0][0]: page for page, numbers in NUMBERS.items() if numbers}


def test_titles_of_pages_hold_the_words_by_which_code_names_them() -> None:
    for page in {named.page for named in cited_by_code()}:
        title = (PAGES / f"{page}.md").read_text(encoding="utf-8").splitlines()[0]
        assert page.replace("_", " ") in title.lower()


def test_every_label_and_every_citation_has_the_form_that_is_read() -> None:
    for page, numbers in NUMBERS.items():
        text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        assert len(re.findall(r"^\$\$ *\(", text, re.MULTILINE)) == len(numbers), page
    source = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    read = {(name.name, name.page) for name in cited_by_code()}
    assert len(re.findall(r'Docs,\s+"', source)) == len(read)


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ('Solve.\n\n    Docs, "Uniform equivalent", equation (E9).', [("uniform_equivalent", "E9")]),
        ('Docs,\n"Large\nstep", equations (L2),\n(L3a) and (L7).', [("large_step", n) for n in ("L2", "L3a", "L7")]),
        ("(C.19) of the paper, (25)", []),
    ],
)
def test_citations_are_read_across_lines(docstring: str, found: list[tuple[str, str]]) -> None:
    assert list(cited(docstring)) == found


def test_modules_classes_methods_and_functions_are_read(tmp_path: Path) -> None:
    text = '"""Docs, "P q", equation (P1)."""\nclass A:\n    def f(self):\n        """Docs, "P q", equation (P2)."""\n'
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    assert list(citations(tmp_path)) == [Citation("m", "p_q", "P1"), Citation("m.A.f", "p_q", "P2")]
    assert file_of("P  q") == "p_q"


def test_the_api_links_to_equations_and_equations_to_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    equations = pytest.importorskip("equations")
    monkeypatch.setattr(equations, "citations", cited_by_code)  # the source is read once
    lines = ['Docs, "Uniform', 'equivalent", equations (E9)', "and (E10). See (25)."]
    equations.link_to_equations(None, "function", "solve", None, None, lines)
    page, numbers = "Docs, :doc:`Uniform equivalent </theory/uniform_equivalent>`", "equations :eq:`E9`\nand :eq:`E10`"
    assert "\n".join(lines) == f"{page}, {numbers}. See (25)."
    assert "gradstep.predict" in equations.code_of_equations()["E9"]


def test_no_page_takes_the_name_of_one_that_sphinx_writes() -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages.isdisjoint({"genindex", "modindex", "py-modindex", "search"})
