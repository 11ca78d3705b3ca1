"""Sites are written completely or not at all, and replace nothing but sites."""

import os
import signal
import subprocess
import sys

import pytest

from mlbench.errors import UsageError
from mlbench.records.store.whole_folder import MARKER, write_site

PAGES = [("index.html", "one"), ("runs/a.html", "two")]


def texts(folder):
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.html")}


def test_a_site_is_a_folder_of_pages_and_says_how_large_it_is(tmp_path):
    assert write_site(tmp_path / "site", PAGES) == 6
    assert texts(tmp_path / "site") == dict(PAGES)
    assert os.listdir(tmp_path) == ["site"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_older_site_is_replaced_by_the_very_folder_that_was_written_beside_it(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr("mlbench.records.store.whole_folder._exchange", lambda one, other: False)
    write_site(tmp_path / "site", PAGES)
    beside = []

    def pages():
        beside.extend(folder.stat().st_ino for folder in tmp_path.glob(".site.*"))
        yield "index.html", "new"

    write_site(tmp_path / "site", pages())
    assert texts(tmp_path / "site") == {"index.html": "new"}
    assert [(tmp_path / "site").stat().st_ino] == beside
    assert os.listdir(tmp_path) == ["site"]


def test_an_empty_folder_is_filled_and_a_link_is_followed(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    write_site(tmp_path / "link", PAGES)
    assert (tmp_path / "link").is_symlink()
    assert texts(tmp_path / "empty") == dict(PAGES)


def test_a_page_that_fails_leaves_the_older_site_and_nothing_beside_it(tmp_path):
    write_site(tmp_path / "site", PAGES)

    def pages():
        yield "index.html", "new"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_site(tmp_path / "site", pages())
    assert texts(tmp_path / "site") == dict(PAGES)
    assert os.listdir(tmp_path) == ["site"]


WRITING = """
import sys
from pathlib import Path
from mlbench.records.store.whole_folder import write_site

def pages():
    yield "index.html", "half"
    print("half", flush=True)
    sys.stdin.read()

write_site(Path(sys.argv[1]), pages())
"""


def test_a_killed_process_leaves_the_older_site_and_the_next_one_tidies_up(tmp_path):
    write_site(tmp_path / "site", PAGES)
    command = [sys.executable, "-c", WRITING, tmp_path / "site"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half\n"
        write_site(tmp_path / "other", PAGES)
        (beside,) = tmp_path.glob(".site.*")
        write_site(tmp_path / "site", PAGES)
        assert (beside / "index.html").read_text() == "half", "it is still being written"
        process.send_signal(signal.SIGKILL)
    assert texts(tmp_path / "site") == dict(PAGES)
    write_site(tmp_path / "site", PAGES)
    assert sorted(os.listdir(tmp_path)) == ["other", "site"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"thesis.txt": "mine"}, "is neither empty nor a site of mlbench"),
        ({MARKER: "{}"}, "is neither empty nor a site of mlbench"),
        ({MARKER: "no JSON"}, "is neither empty nor a site of mlbench"),
        (
            {MARKER: '{"files": ["index.html"]}', "index.html": "", "CNAME": "a.b"},
            "is a site that also contains 'CNAME'",
        ),
        ({MARKER: '{"files": []}', "deep/er/file": ""}, "is a site that also contains 'deep/er/file'"),
    ],
    ids=["files", "empty marker", "broken marker", "a file of the user's", "a file deeper down"],
)
def test_what_is_not_ours_is_neither_replaced_nor_read(tmp_path, content, told):
    for name, text in content.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    with pytest.raises(UsageError, match=told):
        write_site(tmp_path / "site", PAGES)
    assert {name: (tmp_path / "site" / name).read_text() for name in content} == content


def test_a_file_and_a_place_without_a_folder_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match=r"site cannot be written: .*file: Not a directory"):
        write_site(tmp_path / "file", PAGES)
    with pytest.raises(UsageError, match="missing is not a folder"):
        write_site(tmp_path / "missing" / "site", PAGES)
