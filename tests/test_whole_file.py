"""Files that appear whole or not at all."""

from pathlib import Path

import pytest

from gradstep.whole_file import replace_file


@pytest.mark.parametrize("interruption", [OSError, KeyboardInterrupt])
def test_what_interrupts_a_file_leaves_the_one_before_and_nothing_else(tmp_path, monkeypatch, interruption):
    path = tmp_path / "result.json"
    replace_file(path, b"before")

    def interrupted(self, target):
        raise interruption

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(interruption):
        replace_file(path, b"after")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("result.json", b"before")]
