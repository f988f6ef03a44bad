"""Versions of the packages behind a number."""

from importlib import metadata

from gradstep import versions as module


def test_versions_are_those_installed() -> None:
    assert module.versions("pytest") == {n: metadata.version(n) for n in ("gradstep", "numpy", "scipy", "pytest")}


def test_they_are_looked_up_once() -> None:
    module.versions()
    before = module._version.cache_info().misses
    module.versions()
    assert module._version.cache_info().misses == before
