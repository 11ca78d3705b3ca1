"""Baselines: records under a name that is a file's, and no hidden one's."""

import shutil

import pytest

from mlbench.errors import DataError, UsageError
from mlbench.records.run_record import read
from mlbench.records.store.baselines import FOLDER, baseline_names, read_baseline, remove_baseline, save_baseline


def test_a_baseline_is_read_as_it_was_saved(tmp_path, a_run):
    save_baseline(tmp_path, "nightly", [a_run()])
    assert read_baseline(tmp_path, "nightly").records == [a_run()]
    assert baseline_names(tmp_path) == ["nightly"]


def test_saving_again_replaces_and_removing_removes(tmp_path, a_run):
    save_baseline(tmp_path, "nightly", [a_run(), a_run()])
    save_baseline(tmp_path, "nightly", [a_run()])
    assert len(read_baseline(tmp_path, "nightly").records) == 1
    remove_baseline(tmp_path, "nightly")
    assert baseline_names(tmp_path) == []


@pytest.mark.parametrize("name", [".hidden", "..", "a/b", "", "two words", "x" * 101])
def test_a_name_that_is_hidden_or_no_file_name_is_refused(tmp_path, a_run, name):
    with pytest.raises(UsageError, match="baseline name"):
        save_baseline(tmp_path, name, [a_run()])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_refused_with_those_that_are_known(tmp_path, a_run):
    for name in ("nightly", "before"):
        save_baseline(tmp_path, name, [a_run()])
    for act in (read_baseline, remove_baseline):
        with pytest.raises(UsageError, match="unknown baseline 'nighly'; known are: before, nightly"):
            act(tmp_path, "nighly")
    with pytest.raises(UsageError, match="known are: none"):
        read_baseline(tmp_path / "nowhere", "nightly")


@pytest.fixture
def stored_text(tmp_path, a_run):
    """Save a baseline; return its text, and a function that puts another in its place."""
    file = save_baseline(tmp_path, "nightly", [a_run()])
    return file.read_text(encoding="utf-8"), lambda text: file.write_text(text, encoding="utf-8")


def test_a_baseline_of_a_newer_mlbench_is_refused_and_of_which_format_it_is_said(tmp_path, stored_text):
    text, replace = stored_text
    replace(text.replace('"format": 1', '"format": 2', 1))
    with pytest.raises(DataError, match="'nightly' is of format 2; this mlbench reads up to 1") as refused:
        read_baseline(tmp_path, "nightly")
    assert refused.value.hint == "Upgrade mlbench."


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "line"),
        (lambda text: "[]", "dictionary"),
        (lambda text: text.replace('"records"', '"recordings"', 1), "records"),
        (lambda text: text.replace('"format": 1', '"format": "1"', 1), "format"),
        (lambda text: text.replace('"status": "completed"', '"status": "perfect"', 1), "status"),
    ],
)
def test_a_damaged_baseline_is_refused_in_one_line_that_names_its_file(tmp_path, stored_text, damage, reason):
    text, replace = stored_text
    replace(damage(text))
    with pytest.raises(DataError) as refused:
        read_baseline(tmp_path, "nightly")
    assert refused.value.message.startswith(f"baseline 'nightly' cannot be read: {tmp_path / FOLDER / 'nightly.json'}")
    assert reason in refused.value.message
    assert "\n" not in refused.value.message
    assert refused.value.hint == "Save it again."


def test_only_what_can_be_a_baseline_is_listed_in_alphabetical_order(tmp_path, a_run):
    for name in ("b", "a", "c.json"):
        save_baseline(tmp_path, name, [a_run()])
    for other in ("notes.txt", "two words.json", ".json"):
        (tmp_path / FOLDER / other).write_text("{}")
    assert baseline_names(tmp_path) == ["a", "b", "c.json"]


def test_a_file_in_the_place_of_the_folder_is_refused_when_saving_and_holds_no_baselines(tmp_path, a_run):
    (tmp_path / FOLDER).write_text("not a folder")
    with pytest.raises(UsageError, match="baselines cannot be stored: "):
        save_baseline(tmp_path, "nightly", [a_run()])
    assert baseline_names(tmp_path) == []


def test_a_folder_in_the_place_of_a_baseline_cannot_be_removed_as_one(tmp_path):
    (tmp_path / FOLDER / "nightly.json").mkdir(parents=True)
    with pytest.raises(UsageError, match="baseline 'nightly' cannot be removed: "):
        remove_baseline(tmp_path, "nightly")
    with pytest.raises(DataError, match="baseline 'nightly'"):
        read_baseline(tmp_path, "nightly")


def test_a_baseline_outlives_the_folder_of_its_run(tmp_path, one_run):
    record = read(one_run)
    copy = tmp_path / record.run_id
    shutil.copytree(one_run, copy)
    save_baseline(tmp_path, "nightly", [read(copy)])
    shutil.rmtree(copy)
    assert read_baseline(tmp_path, "nightly").records == [record]
