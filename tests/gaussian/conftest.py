"""What several files share: SymPy, which processes that run other files need not load."""

import importlib

import pytest


@pytest.fixture(scope="session")
def sympy():
    """Return the package."""
    return importlib.import_module("sympy")
