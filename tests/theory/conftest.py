"""Parts of the law of the rows that one description has and another leaves out, for tests that compare the two."""

from collections.abc import Iterator

import pytest

from gradstep.theory.equivalent import tables
from gradstep.theory.predict import _prepared


def forgotten(changes: pytest.MonkeyPatch) -> Iterator[None]:
    """Let predictions be made anew, with the changes and without them afterwards."""
    _prepared.cache_clear()
    yield
    changes.undo()
    _prepared.cache_clear()


@pytest.fixture
def one_direction(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Features are resolved along the spike only."""
    monkeypatch.setattr(tables, "share_along_teacher", lambda *_: 0.0)
    yield from forgotten(monkeypatch)
