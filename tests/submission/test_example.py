"""``mlbench submit demo``: an example of a tree, before anything official is fetched."""

import pytest
from invoking import invoke
from stored_runs import official, store


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """Return a function that builds the example of the runs in a folder."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    words = ["submit", "demo", "--out", str(tmp_path / "tree"), "--results", str(tmp_path / "results")]
    (tmp_path / "results").mkdir()
    return lambda: invoke(*words)


def test_small_runs_make_a_tree_that_is_marked_and_refused(demo, tmp_path):
    for scenario in ("Offline", "SingleStream"):
        store(tmp_path / "results", official(scenario, profile="mini", tier="smoke"))
    done = demo()
    assert done.exit_code == 0, done.output
    results = "open/not_submittable/results/not_submittable/resnet50/Offline"
    assert f"  {results}/performance/run_1/mlperf_log_detail.txt\n" in done.stdout
    assert "Not submittable" in (tmp_path / "tree" / "NOT_SUBMITTABLE.md").read_text()
    assert f"REFUSED  {results}: " in done.stdout
    assert "0 of 2 results accepted; the official checker v4.1 would accept 0." in done.stdout
    checked = invoke("submit", "check", tmp_path / "tree")
    assert (checked.exit_code, "0 of 2 results accepted" in checked.stdout) == (1, True)


def test_nothing_is_replaced_and_without_runs_nothing_is_built(demo, tmp_path):
    store(tmp_path / "results", official("Offline", accuracy=None))
    assert "there is no run with an accuracy to make a tree of. `mlbench demo` makes one." in demo().stderr
    assert not (tmp_path / "tree").exists()
    (tmp_path / "tree").mkdir()
    done = demo()
    assert done.stderr.endswith("is there already. Name a new folder: nothing is replaced.\n")
