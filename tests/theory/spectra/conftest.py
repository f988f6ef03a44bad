"""Spectra are kept, and a test that changes how they are found must not be handed one of another test."""

from collections.abc import Iterator

import pytest

from gradstep.theory.spectra import feature_spectrum, weight_spectrum


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    for cache in (feature_spectrum.whole_spectrum, weight_spectrum.whole_spectrum):
        cache.cache_clear()
    yield
    for cache in (feature_spectrum.whole_spectrum, weight_spectrum.whole_spectrum):
        cache.cache_clear()
