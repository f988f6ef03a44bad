"""Files that appear whole or not at all."""

import os
import stat
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


def test_what_is_no_plain_file_is_written_to_and_stays(tmp_path):
    """A pipe here; /dev/full and other devices may be replaced, too, by whoever may write to their folder."""
    path = tmp_path / "pipe.png"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(path, b"picture")
    assert os.read(reader, 100) == b"picture"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe.png"]
