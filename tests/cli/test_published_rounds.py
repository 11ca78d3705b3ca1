"""`mlbench published` of other rounds, and of all."""

import json

from invoking import invoke, refusal

H200 = ["published", "llama2-70b", "--scenario", "Offline", "--accelerator", "H200", "--rounds", "all"]


def test_results_of_a_round_are_listed():
    rows = json.loads(invoke("published", "llama2-70b", "--round", "v6.0", "--json").stdout)
    assert {(row["round"], row["result_id"], row["scenario"]) for row in rows} == {
        ("v6.0", "6.0-0021", "Interactive"),
        ("v6.0", "6.0-0021", "Offline"),
    }


def test_a_round_without_results_is_refused_in_one_line():
    assert "no results of round 'v6.1' are here." in refusal(invoke("published", "--round", "v6.1"))


def test_all_rounds_are_a_row_per_accelerator():
    shown = invoke(*H200).stdout
    assert "4,016 (4.1-0021)" in shown
    assert "4,380 (5.1-0048)" in shown
    assert "1.091 x" in shown


def test_all_rounds_are_a_picture(tmp_path):
    file = tmp_path / "h200.svg"
    assert invoke(*H200, "-o", file).exit_code == 0
    drawn = file.read_text()
    assert all(text in drawn for text in ("NVIDIA H200-SXM-141GB", "v5.1", "tokens/s per accelerator"))
    assert "var(--" not in drawn


def test_a_picture_is_of_one_unit_and_of_several_rounds(tmp_path):
    for words in (["published", "--rounds", "all"], ["published", "llama2-70b"]):
        done = invoke(*words, "-o", tmp_path / "x.svg")
        assert (done.exit_code, done.stdout) == (2, "")
    assert not list(tmp_path.iterdir())


def test_a_round_is_refused_where_it_would_not_be_read():
    for words in (["--claims"], ["--nvidia"], ["--place", "x"], ["--rounds", "all"]):
        done = invoke("published", "--round", "v6.0", *words)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
        assert "--round" in done.stderr


def test_a_filter_that_nothing_passes_leads_to_the_list_of_the_round():
    done = invoke("published", "resnet50", "--round", "v6.0", "--scenario", "Server")
    assert "`mlbench published --round v6.0` lists all of it." in done.stderr
