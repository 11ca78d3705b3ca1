import errno
import fcntl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mlbench.execution.export.compile_cache import build_once


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    return tmp_path


def writes(text: str):
    return lambda folder: (folder / "made.txt").write_text(text)


def test_what_was_made_is_not_made_again():
    first = build_once("shelf", {"weights": "a"}, writes("first"))
    again = build_once("shelf", {"weights": "a"}, lambda folder: pytest.fail("made a second time"))
    assert again == first
    assert (again / "made.txt").read_text() == "first"


def test_other_ingredients_make_another_folder():
    first = build_once("shelf", {"weights": "a"}, writes("first"))
    other = build_once("shelf", {"weights": "b"}, writes("other"))
    assert other != first
    assert (other / "made.txt").read_text() == "other"


def test_what_fails_half_way_leaves_nothing_behind(cache: Path):
    def fail(folder: Path) -> None:
        (folder / "half.txt").write_text("half")
        raise ValueError("no more ink")

    with pytest.raises(ValueError, match="no more ink"):
        build_once("shelf", {}, fail)
    assert list((cache / "shelf").iterdir()) == []


def test_of_two_at_once_one_waits_for_what_the_other_makes(cache: Path):
    is_filling, may_end = threading.Event(), threading.Event()

    def fill(folder: Path) -> None:
        is_filling.set()
        assert may_end.wait(30)
        (folder / "made.txt").write_text("first")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(build_once, "shelf", {}, fill)
        assert is_filling.wait(30)
        second = threads.submit(build_once, "shelf", {}, lambda folder: pytest.fail("made a second time"))
        with pytest.raises(TimeoutError):
            second.result(0.2)
        may_end.set()
        assert first.result(30) == second.result(30)
    assert list((cache / "shelf").iterdir()) == [first.result()]


def test_one_that_waited_for_another_that_failed_makes_it(cache: Path):
    is_filling, may_fail = threading.Event(), threading.Event()

    def fail(folder: Path) -> None:
        is_filling.set()
        assert may_fail.wait(30)
        raise ValueError("no more ink")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(build_once, "shelf", {}, fail)
        assert is_filling.wait(30)
        second = threads.submit(build_once, "shelf", {}, writes("second"))
        may_fail.set()
        assert (second.result(30) / "made.txt").read_text() == "second"
    assert isinstance(first.exception(), ValueError)


def test_where_there_are_no_locks_the_first_to_finish_wins_and_both_get_it(cache: Path, monkeypatch):
    def refuse(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks on this file system")

    monkeypatch.setattr(fcntl, "flock", refuse)

    def is_overtaken(folder: Path) -> None:
        (folder / "made.txt").write_text("slow")
        build_once("shelf", {}, writes("quick"))

    folder = build_once("shelf", {}, is_overtaken)
    assert (folder / "made.txt").read_text() == "quick"
    assert list((cache / "shelf").iterdir()) == [folder]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "made.txt").write_text("fir"),
        lambda folder: (folder / "made.txt").unlink(),
        lambda folder: [path.write_text("") for path in folder.iterdir()],
    ],
    ids=["a file is cut", "a file is missing", "all is empty"],
)
def test_what_is_damaged_is_made_again(damage, caplog: pytest.LogCaptureFixture):
    damage(build_once("shelf", {}, writes("first")))
    folder = build_once("shelf", {}, writes("again"))
    assert (folder / "made.txt").read_text() == "again"
    assert f"{folder} in the cache was damaged, and is made again" in caplog.text


def test_what_is_added_later_is_kept():
    folder = build_once("shelf", {}, writes("first"))
    (folder / "later.txt").write_text("later")
    assert build_once("shelf", {}, lambda folder: pytest.fail("made a second time")) == folder
    assert (folder / "later.txt").read_text() == "later"
