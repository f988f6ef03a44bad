"""Citations: the entries agree with the references of the project, and every result knows its papers."""

import json
import math
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gradstep as gs
from gradstep.citations import ENTRIES, METHODS, citation_keys
from gradstep.cli import app
from gradstep.errors import InvalidInput
from gradstep.papers.figure import load_figures

ROOT = Path(__file__).parents[1]
PROBLEM = gs.Problem(
    activation="tanh", teacher="sin", d=20, width=16, n_step=40, n=30, eta=gs.Step(1.0, 0.5), ridge=1.0, noise=0.1
)
LIMIT = PROBLEM.replace(
    d=math.inf,
    width=gs.Proportional(1.0),
    n_step=gs.Proportional(2.0),
    n=gs.Proportional(2.0),
    ridge=gs.Proportional(0.1),
)


def parse(text):
    """Return the entries of BibTeX text as {key: {field: value}}."""
    found = {}
    for _, key, body in re.findall(r"@(\w+)\{(\w+),\n(.*?)\n\}", text, re.DOTALL):
        found[key] = dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, re.MULTILINE))
    return found


def surnames(authors):
    return [author.split(",")[0] for author in authors.split(" and ")]


def test_all_of_it_is_balanced_bibtex():
    text = gs.citation()
    assert list(parse(text)) == list(ENTRIES)
    assert text.count("{") == text.count("}")
    assert parse(text)["gradstep"]["version"] == gs.__version__
    for key, fields in parse(text).items():
        assert fields["title"]
        assert fields["author"]
        if key != "gradstep":
            assert re.fullmatch(r"20\d\d", fields["year"])
            assert fields["year"] in key
            assert re.fullmatch(r"\d{4}\.\d{5}", fields["eprint"])


def test_papers_agree_with_the_citation_file_and_the_references():
    entries = parse(gs.citation())
    file = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("references:")[1]
    references = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    references = " ".join(references.split())
    for key in ("ba2022", "moniri2024", "cui2024"):
        title = entries[key]["title"]
        assert title.lower() in file.lower()
        part = file.lower().split(title.lower())[1].split("title:")[0]
        names = re.findall(r"family-names: (\S+)\}", part)
        bibtex = [name.lower().replace("{\\'a}", "á") for name in surnames(entries[key]["author"])]
        assert bibtex == names
    for key in ("ba2022", "moniri2024", "cui2024", "mei2022"):
        assert entries[key]["title"].lower() in references.lower()


def test_results_name_the_papers_behind_them():
    assert citation_keys(gs.predict(PROBLEM)) == ("gradstep", "ba2022", "cui2024")
    between = gs.predict(PROBLEM.replace(eta=gs.Step(1.0, 0.25)))
    assert citation_keys(between) == ("gradstep", "ba2022", "moniri2024", "cui2024")
    limit = LIMIT.replace(readout="constant")
    assert citation_keys(gs.predict(limit)) == ("gradstep", "ba2022", "cui2024")
    model = gs.predict(limit, rows="isotropic", bulk="isotropic")
    assert citation_keys(model) == ("gradstep", "cui2024")
    assert citation_keys(gs.predict(limit, bulk="isotropic")) == ("gradstep", "ba2022", "cui2024")
    own = gs.Problem.moniri2024(phi=0.5, psi=0.8, alpha=0.2, lam=0.1, n=40)
    assert citation_keys(gs.simulate(own, seeds=1)) == ("gradstep", "moniri2024")
    assert citation_keys(gs.simulate(PROBLEM, seeds=1)) == ("gradstep",)
    assert citation_keys(gs.tune(PROBLEM, over="ridge")) == citation_keys(gs.predict(PROBLEM))
    assert gs.citation(model) == gs.citation("large step")


def test_every_figure_and_method_has_its_papers():
    for figure in load_figures():
        keys = citation_keys(figure.name)
        assert keys == citation_keys(figure)
        assert keys[0] == "gradstep"
        assert figure.paper in keys if figure.paper != "beyond" else len(keys) == 4
    for method, papers in METHODS.items():
        assert set(citation_keys(method)) == {"gradstep", *papers}
    for paper in ("ba2022", "moniri2024", "cui2024", "mei2022"):
        assert citation_keys(paper) == ("gradstep", paper)


@pytest.mark.parametrize("subject", ["", "no such thing", 3, [PROBLEM]])
def test_what_has_no_citation_is_refused(subject):
    with pytest.raises(InvalidInput) as raised:
        gs.citation(subject)
    assert raised.value.field == "of"


def run(*arguments):
    return CliRunner().invoke(app, ["citation", *arguments])


def test_command():
    assert run().stdout.strip() == gs.citation()
    assert run("large step", "fig3a").stdout.strip() == "\n\n".join(gs.citation().split("\n\n")[k] for k in (0, 3, 1))
    shown = run("predict", "--convention", "moniri2024", "--set", "phi=0.5", "--set", "psi=0.8", "--set", "lam=0.1",
                "--set", "alpha=0", "--set", "residual=y", "--json")  # fmt: skip
    assert list(json.loads(shown.stdout)["entries"]) == ["gradstep", "ba2022", "moniri2024", "cui2024"]
    refused = run("no such thing")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: of: got 'no such thing'; allowed: ")


def test_version_is_that_of_the_package():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert ENTRIES["gradstep"][1]["version"] == pyproject["project"].get("version", gs.__version__)
