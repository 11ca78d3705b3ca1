"""Reports on the command line: what is written, and what a user can get wrong."""

import json
import sys

import pytest
from invoking import refusal

from mlbench.records.store.run_names import RECORD_FILE


@pytest.fixture
def store(a_run, results):
    """Store five runs under a tag, around a throughput."""

    def store(tag, samples_per_s):
        for number, value in enumerate([0, 1, -1, 0, 0]):
            result = a_run().result.model_dump() | {"value": samples_per_s + value}
            run = a_run(run_id=f"{tag}-{number}", tag=tag, result=result)
            (results / run.run_id).mkdir(parents=True)
            (results / run.run_id / RECORD_FILE).write_text(run.text())

    return store


@pytest.fixture
def drawn():
    pytest.importorskip("altair", reason="the extra [report] is not installed")


def test_a_report_is_one_file_and_says_how_large(mlbench, store, drawn, tmp_path):
    store("good", 100)
    done = mlbench("report", "good", "-o", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert "report.html: 5 runs" in done.stdout
    assert "<h1>good</h1>" in (tmp_path / "report.html").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "results"]


READINGS = "seconds,device,clock_mhz,temperature_c,busy,power_w,strangers\n1,{0},1980,,,,\n2,{0},1780,,,,\n"


@pytest.mark.thorough("command line")
def test_a_report_draws_the_readings_of_a_run_wherever_it_lies(mlbench, a_run, drawn, tmp_path):
    """The device's name acts in a terminal, in a page, and in an expression of the library that draws."""
    telemetry = {"seconds": 1.0, "processor_share": 0.0, "devices": []}
    folder = tmp_path / "elsewhere" / "run-1"
    folder.mkdir(parents=True)
    (folder / RECORD_FILE).write_text(a_run(run_id="run-1", telemetry=telemetry).text())
    (folder / "telemetry.csv").write_text(READINGS.format("<b>\x1b[31m' + alert(1) + '"))
    for named in (folder, folder.parent):
        done = mlbench("report", named, "-o", tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text()
        assert done.exit_code == 0 and page.count("clock in MHz") > 1 and "1,880" in page
        assert "<b>" not in page and "\x1b" not in page
    outside = (folder / "telemetry.csv").rename(tmp_path / "telemetry.csv")
    (folder / "telemetry.csv").symlink_to(outside)
    done = mlbench("report", folder, "-o", tmp_path / "report.html")
    assert done.exit_code == 0 and "clock in MHz" not in (tmp_path / "report.html").read_text()
    (line,) = done.stderr.splitlines()
    assert "The devices of run 1 are not drawn" in line and "leads out of its folder" in line


def test_the_first_picture_is_a_file_of_its_own_that_needs_no_style_sheet(mlbench, store, drawn, tmp_path):
    store("good", 100)
    for suffix in ("svg", "png"):
        assert "5 runs" in mlbench("report", "good", "-o", tmp_path / f"picture.{suffix}").stdout
    drawing = (tmp_path / "picture.svg").read_text()
    assert "100 samples/s" in drawing and "var(--" not in drawing
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_on_one_run_says_which_it_is(mlbench, store):
    store("good", 100)
    assert mlbench("report", "good-3", "--markdown").stdout.startswith("# resnet50 on pytorch, Offline\n")


def test_without_names_all_runs_are_in_it(mlbench, store):
    store("good", 100)
    store("other", 90)
    assert "All 10 runs are valid and accurate." in mlbench("report", "--markdown").stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--workload", "resnet50"], ("# All runs: resnet50\n", "All 10 runs are valid")),
        (["--newest", "3"], ("# All runs: newest 3\n", "All 3 runs are valid")),
        (["good", "--scenario", "Offline", "--newest", "2"], ("# good: Offline, newest 2\n", "All 2 runs are valid")),
    ],
)
def test_a_report_takes_the_filters_of_table_and_show(mlbench, store, options, told):
    store("good", 100)
    store("other", 90)
    printed = mlbench("report", *options, "--markdown").stdout
    assert printed.startswith(told[0])
    assert told[1] in printed


def test_a_filter_that_matches_no_run_of_a_side_is_refused_in_one_line(mlbench, store, tmp_path):
    store("good", 100)
    store("bad", 90)
    file = tmp_path / "change.html"
    done = mlbench("report", "--compare", "good", "bad", "--workload", "bert", "-o", file)
    assert (done.exit_code, file.exists()) == (2, False)
    assert "none of 5 runs has workload 'bert'." in done.stderr


def test_a_comparison_names_what_got_slower(mlbench, store, drawn, tmp_path):
    store("old", 100)
    store("new", 40)
    done = mlbench("report", "--compare", "old", "new", "-o", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert "<h1>new against old</h1>" in page
    assert "Worse than the base: resnet50 pytorch Offline fp32." in page


def test_markdown_is_printed_or_written(mlbench, store, tmp_path):
    store("good", 100)
    printed = mlbench("report", "good", "--markdown").stdout
    assert printed.startswith("# good\n")
    assert mlbench("report", "good", "--markdown", "-o", tmp_path / "report.md").exit_code == 0
    assert (tmp_path / "report.md").read_text() == printed


def test_a_folder_is_named_without_the_path_to_it(mlbench, store, results):
    store("good", 100)
    printed = mlbench("report", results, "--markdown").stdout
    assert printed.startswith("# results\n")
    assert str(results.parent) not in printed


@pytest.fixture
def here(tmp_path, drawn, monkeypatch):
    """The current folder, with an empty one in it."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["good"], "no file to write to. Name one with -o report.html"),
        (["bad", "-o", "x.html"], "no run 'bad' in"),
        (["good", "--compare", "good", "good", "-o", "x.html"], "run 'good' is given together with --compare"),
        (["good", "-o", "missing/x.html"], "file cannot be written: missing/x.html: No such file or directory"),
        (["good", "-o", "results"], "is a directory"),
        (["empty", "-o", "x.html"], "no runs in empty"),
        (["--compare", "good", "good", "--across", "taste", "-o", "x.html"], "unknown fact 'taste'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused_in_one_line(mlbench, store, here, arguments, told):
    store("good", 100)
    assert told in refusal(mlbench("report", *arguments))
    assert sorted(each.name for each in here.iterdir()) == ["empty", "results"]


def test_records_of_a_newer_format_are_left_out_and_named(mlbench, store, results, tmp_path):
    store("good", 100)
    file = results / "good-0" / RECORD_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 7}))
    done = mlbench("report", "-o", tmp_path / "x.html")
    assert done.exit_code == 0, done.output
    assert "1 run skipped: run folder of format 7" in done.stderr
    assert "run folder of format 7" in refusal(mlbench("report", "good-0", "-o", tmp_path / "x.html"))


@pytest.mark.parametrize("library", ["altair", "jinja2", "vl_convert"])
def test_what_is_not_installed_is_named_with_the_way_to_install_it(mlbench, store, tmp_path, monkeypatch, library):
    store("good", 100)
    monkeypatch.setitem(sys.modules, library, None)
    told = refusal(mlbench("report", "good", "-o", tmp_path / "x.html"))
    install = "pip install 'mlbench-inference[report]'"
    assert told == f"Error: a report needs {library}, which is not installed. Install it: {install}."
    assert mlbench("report", "good", "--markdown").exit_code == 0


@pytest.mark.thorough("command line")
def test_a_page_says_what_throughputs_cost(mlbench, store, drawn, tmp_path):
    store("good", 100)
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "USD"\nsource = "list, 2026"\n[per_hour]\nsmall = 36\n')
    given = ("report", "good", "-o", tmp_path / "report.html", "--cost", "small=good", "--price", prices)
    done = mlbench(*given)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert '<a href="#cost">' in page
    assert "10,000 samples" in page  # 36 dollars an hour are a cent a second, so a dollar buys 100 seconds
    assert "Prices: list, 2026." in page
    assert "resnet50 pytorch Offline fp32 (5)" in page
    markdown = mlbench("report", "good", "--markdown", "--cost", "small=good", "--price", prices).stdout
    assert "| resnet50 pytorch Offline fp32 (5) | small | 36 | 100 samples/s | 10,000 samples |" in markdown
    assert "\nPrices: list, 2026.\n" in markdown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cost", "small=good"], "--cost is given without --price"),
        (["--price", "prices.toml"], "--price is given without --cost"),
        (["--cost", "good", "--price", "prices.toml"], "'good' is not INSTANCE=RUNS"),
        (["--cost", "small=good", "--price", "prices.toml"], "price file cannot be read"),
    ],
)
def test_costs_that_are_unknown_are_refused_in_one_line(mlbench, store, tmp_path, arguments, told):
    store("good", 100)
    done = mlbench("report", "good", "-o", tmp_path / "report.html", *arguments)
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1), done.output
    assert told in done.stderr
    assert not (tmp_path / "report.html").exists()
