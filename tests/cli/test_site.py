"""``mlbench site``: what is written, from what, and what is refused."""

import os
import sys

import pytest
from invoking import invoke, refusal

from mlbench.records.store.run_names import RECORD_FILE

pytest.importorskip("altair", reason="the extra [report] is not installed")


@pytest.fixture
def mlbench(results, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    monkeypatch.chdir(tmp_path)
    return invoke


@pytest.fixture
def store(a_run, results):
    def store(**changes):
        run = a_run(**changes)
        (results / run.run_id).mkdir(parents=True)
        (results / run.run_id / RECORD_FILE).write_text(run.text())

    return store


def test_a_site_has_a_first_page_one_a_workload_and_one_a_newest_run(mlbench, store, tmp_path):
    store(run_id="a-1")
    store(run_id="b-2", workload="bert")
    done = mlbench("site", "public")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("public/index.html: 2 runs, ")
    found = {str(file.relative_to(tmp_path / "public")) for file in (tmp_path / "public").rglob("*.html")}
    assert found == {
        *("index.html", "workloads/resnet50.html", "workloads/bert.html", "runs/a-1.html", "runs/b-2.html")
    }
    assert sorted(os.listdir(tmp_path)) == ["public", "results"]


def test_a_later_site_replaces_the_earlier_one_and_equal_runs_make_an_equal_site(mlbench, store, tmp_path):
    store(run_id="a-1")
    texts = []
    for _ in range(2):
        assert mlbench("site", "public").exit_code == 0
        texts.append({file.name: file.read_text() for file in (tmp_path / "public").rglob("*.*")})
    assert texts[0] == texts[1]
    store(run_id="b-2", workload="bert")
    assert mlbench("site", "public").exit_code == 0
    assert (tmp_path / "public" / "workloads" / "bert.html").is_file()


def test_the_heading_is_the_title_that_was_given(mlbench, store, tmp_path):
    store()
    assert mlbench("site", "public", "--title", "Nights of <b>").exit_code == 0
    assert "<h1>Nights of &lt;b&gt;</h1>" in (tmp_path / "public" / "index.html").read_text()


def test_no_runs_are_one_clear_line_and_no_folder(mlbench, tmp_path):
    (tmp_path / "results").mkdir()
    assert refusal(mlbench("site", "public")).startswith("Error: no runs in ")
    assert os.listdir(tmp_path) == ["results"]


def test_a_folder_that_is_no_site_stays_as_it_is(mlbench, store, tmp_path):
    store()
    told = refusal(mlbench("site", "results"))
    expected = "Error: folder results is neither empty nor a site of mlbench. Name a new folder, or an older site"
    assert told.startswith(expected)
    assert len(os.listdir(tmp_path / "results")) == 1


def test_a_record_that_cannot_be_read_is_left_out_and_named(mlbench, store, results):
    store(run_id="a-1")
    (results / "b-2").mkdir()
    (results / "b-2" / RECORD_FILE).write_text("{}")
    done = mlbench("site", "public")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("public/index.html: 1 run, ")
    assert "1 run skipped" in done.stderr


@pytest.mark.parametrize("library", ["altair", "jinja2", "vl_convert"])
def test_what_is_not_installed_is_named_with_the_way_to_install_it(mlbench, store, monkeypatch, library):
    store()
    monkeypatch.setitem(sys.modules, library, None)
    told = refusal(mlbench("site", "public"))
    install = "pip install 'mlbench-inference[report]'"
    assert told == f"Error: a site needs {library}, which is not installed. Install it: {install}."
