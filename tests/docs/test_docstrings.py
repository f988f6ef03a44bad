"""Docstrings of what is public: every parameter, in order, and what is returned."""

import inspect

import pytest

import gradstep

#: Of the packages that build the documentation, which `make test` alone does not install.
validate = pytest.importorskip("numpydoc.validate").validate

#: Missing, unknown or misplaced parameters; no returned or yielded value; a summary that is no sentence.
WRONG = {"PR01", "PR02", "PR03", "PR10", "RT01", "RT04", "RT05", "SS01", "SS02", "SS03", "SS04", "SS06", "YD01"}


def public() -> list[str]:
    """Return the public functions, and the methods that public classes define themselves."""
    names = []
    for name in gradstep.__all__:
        entry = getattr(gradstep, name)
        if inspect.isfunction(entry):
            names.append(name)
        elif inspect.isclass(entry):
            methods = inspect.getmembers(entry, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
            own = {m for m, method in methods if method.__module__.startswith("gradstep.") and m in vars(entry)}
            names += [f"{name}.{m}" for m in sorted(own) if not m.startswith("_")]
    return names


@pytest.mark.parametrize("name", public())
def test_a_docstring_tells_all(name: str) -> None:
    found = validate(f"gradstep.{name}")
    # "Return the mean." needs no further section.
    enough = {"RT01"} if found["docstring"].strip().startswith("Return ") else set()
    assert not [error for error in found["errors"] if error[0] in WRONG - enough]
