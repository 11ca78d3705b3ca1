"""Baselines: records under a name that is a file's, and no hidden one's."""

import pytest

from mlbench.errors import UsageError
from mlbench.records.baselines import baseline_names, read_baseline, remove_baseline, save_baseline


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
