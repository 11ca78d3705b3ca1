"""A file is there whole, or not at all, and nothing is left beside it."""

import os
from pathlib import Path

import pytest

from mlbench.errors import UsageError
from mlbench.records.store.whole_file import write_whole


@pytest.mark.parametrize("content", ["text", b"bytes"])
def test_a_file_is_written_over_the_one_before(tmp_path, content):
    (tmp_path / "file").write_text("before")
    write_whole(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_at_the_end_leaves_no_partial_file(tmp_path):
    (tmp_path / "file").mkdir()  # the rename onto a folder fails, when all is written
    with pytest.raises(UsageError, match="file cannot be written"):
        write_whole(tmp_path / "file", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_missing_is_reported(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        write_whole(tmp_path / "none" / "file", "text")


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_text("before")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="it is not a regular file"):
        write_whole(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("name", ["", ".", "/", "x" * 255, "x" * 300])
def test_a_path_that_names_no_file_is_refused_and_leaves_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="file cannot be written"):
        write_whole(Path(name), "text")
    assert list(tmp_path.iterdir()) == []
