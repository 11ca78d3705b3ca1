"""Stored runs under names, compared on the command line; each output read back by a reader that is not ours."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from mlbench.records.store.baselines import save_baseline


@pytest.fixture
def quiet_nights(a_run, results):
    """Store a run a night up to the day before those of `store`: they differ by 0.2 %."""
    for days in range(20, 0, -1):
        value = 100 * [1, 1.003, 0.997, 1.001, 0.999][days % 5]
        night = a_run(
            run_id=f"{days:02}-days-ago",
            created=a_run().created - timedelta(days=days),
            result=a_run().result.model_dump() | {"value": value},
        )
        (results / night.run_id).mkdir(parents=True)
        (results / night.run_id / "record.json").write_text(night.text())


@pytest.fixture
def old(store):
    return store("old", [100, 101, 99, 100, 100])


@pytest.fixture
def slow(store):
    return store("slow", [90, 91, 89, 90, 90])


@pytest.mark.usefixtures("quiet_nights")
def test_comparing_a_few_repeats_does_not_load_scipys_statistics(old, slow, tmp_path, results):
    """They take longer to load than all the rest takes."""
    script = "import contextlib, sys; from mlbench.cli import main\nwith contextlib.suppress(SystemExit): main()\n"
    script += "sys.exit('scipy.stats' in sys.modules)"
    run = [sys.executable, "-c", script, "compare", str(old), str(slow), "--results", str(results)]
    done = subprocess.run(run, env={**os.environ, "MLBENCH_CACHE": str(tmp_path)}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"slower" in done.stdout


@pytest.mark.usefixtures("quiet_nights")
def test_a_slower_backend_is_named_and_the_exit_status_is_1(mlbench, old, slow):
    assert mlbench("baseline", "save", "nightly", old).exit_code == 0
    outcome = mlbench("regress", slow, "--baseline", "nightly")
    assert outcome.exit_code == 1, outcome.output
    assert outcome.stdout.startswith("worse: 2 judged, 0 not judged\n")
    (row,) = (line for line in outcome.stdout.splitlines() if "│ slower" in line)
    assert "resnet50 pytorch Offline fp32" in row
    assert "x 0.900" in row


@pytest.mark.usefixtures("quiet_nights")
@pytest.mark.parametrize("command", [("regress", "{}", "--baseline", "good"), ("compare", "good", "{}")])
def test_runs_of_the_baseline_are_not_new_ones_though_the_name_of_the_new_ones_finds_them_too(
    mlbench, old, slow, command
):
    mlbench("baseline", "save", "good", old)
    for run in list(slow.iterdir()):
        run.rename(old / run.name)  # made an hour later under the same tag
    outcome = mlbench(*(word.format(old) for word in command), "--json")
    ((speed,),) = (cell["speeds"] for cell in json.loads(outcome.stdout)["cells"])
    assert (sorted(speed["base"]), sorted(speed["new"])) == ([99, 100, 100, 100, 101], [89, 90, 90, 90, 91])
    assert speed["verdict"] == "slower"


def test_a_baseline_is_not_judged_by_its_own_runs(mlbench, old, tmp_path):
    mlbench("baseline", "save", "good", old)
    outcome = mlbench("regress", old, "--baseline", "good", "--junit", tmp_path / "junit.xml")
    assert_refused(outcome, "nothing to compare: all of these runs belong to baseline 'good'. Run the suite again.")
    assert not (tmp_path / "junit.xml").exists()


@pytest.mark.usefixtures("quiet_nights")
def test_the_junit_file_counts_cases_and_failures(mlbench, old, slow, tmp_path):
    mlbench("baseline", "save", "nightly", old)
    mlbench("regress", slow, "--baseline", "nightly", "--junit", tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "0")
    assert [case.get("name") for case in suite] == ["throughput", "accuracy, acc", "valid runs"]
    assert "slower: 100 samples/s" in suite.find("testcase/failure").get("message")


@pytest.mark.usefixtures("quiet_nights")
def test_the_markdown_file_is_a_table_that_says_worse(mlbench, old, slow, tmp_path):
    mlbench("baseline", "save", "nightly", old)
    mlbench("regress", slow, "--baseline", "nightly", "--markdown", tmp_path / "summary.md")
    text = (tmp_path / "summary.md").read_text()
    assert "**worse**" in text
    header, rule, row, *_ = (line for line in text.splitlines() if line.startswith("|"))
    assert header.count("|") == rule.count("|") == row.count("|")
    assert "not reviewed by MLCommons" in text


@pytest.mark.usefixtures("quiet_nights")
def test_the_json_tells_each_verdict(mlbench, old, slow):
    content = json.loads(mlbench("compare", old, slow, "--json").stdout)
    assert content["is_worse"] is True
    assert content["cells"][0]["speeds"][0]["verdict"] == "slower"


def test_a_tag_names_the_runs_that_carry_it(mlbench, old, slow, results):
    results.mkdir()
    for folder in (old, slow):
        for run in folder.iterdir():
            run.rename(results / run.name)
    outcome = mlbench("compare", "old", "slow", "--json")
    assert json.loads(outcome.stdout)["cells"][0]["speeds"][0]["base"] == [100, 101, 99, 100, 100]


def test_a_baseline_outlives_its_run_folders_and_is_listed_shown_and_removed(mlbench, old):
    mlbench("baseline", "save", "nightly", old)
    shutil.rmtree(old)
    assert "nightly" in mlbench("baseline", "list").stdout
    assert "5 runs" in mlbench("baseline", "list").stdout
    assert len(json.loads(mlbench("baseline", "show", "nightly", "--json").stdout)["records"]) == 5
    assert mlbench("baseline", "remove", "nightly").exit_code == 0
    assert mlbench("baseline", "list").stdout == ""


def test_runs_made_since_the_baseline_are_the_new_side(mlbench, results, a_run):
    save_baseline(results, "nightly", [a_run(run_id="before")])
    later = a_run(run_id="later", created=datetime.now(UTC) + timedelta(seconds=1))
    (results / "later").mkdir()
    (results / "later" / "record.json").write_text(later.text())
    (results / "before").mkdir()
    (results / "before" / "record.json").write_text(a_run(run_id="before", tier="dev").text())
    outcome = mlbench("regress", "--baseline", "nightly", "--json")
    assert outcome.exit_code == 0, outcome.output
    assert len(json.loads(outcome.stdout)["cells"][0]["speeds"][0]["new"]) == 1


def test_only_the_newest_session_is_judged_and_earlier_ones_show_the_spread(mlbench, results, store):
    baseline = store("good", [100, 101, 99, 100, 100])
    mlbench("baseline", "save", "good", baseline)
    created = datetime(2026, 11, 22, tzinfo=UTC)
    for day in range(12):
        values = [80, 80.5, 79.5] if day == 11 else [100 + day % 3, 101, 99.5]
        for run in store(f"night-{day}", values, created=created + timedelta(days=day)).iterdir():
            results.mkdir(exist_ok=True)
            run.rename(results / run.name)
    outcome = mlbench("regress", "--baseline", "good", "--json", "--margin", "0.1")
    speed = json.loads(outcome.stdout)["cells"][0]["speeds"][0]
    assert (outcome.exit_code, sorted(speed["new"]), speed["verdict"]) == (1, [79.5, 80, 80.5], "slower")
    assert (speed["spread"]["source"], speed["spread"]["count"]) == ("sessions", 12)  # eleven nights and the baseline


def test_strict_fails_where_something_could_not_be_judged(mlbench, store, tmp_path):
    mlbench("baseline", "save", "good", store("good", [100, 101, 99]))
    tonight = store("tonight", [100, 101, 99], created=datetime(2026, 11, 22, tzinfo=UTC), accuracy=None)
    arguments = ("regress", tonight, "--baseline", "good")
    outcome = mlbench(*arguments, "--junit", tmp_path / "junit.xml", "--markdown", tmp_path / "summary.md")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.startswith(
        "no regression (0 judged, 2 not judged); detectable today: speed, losses of 29% or more\n"
    )
    assert (
        "no regression (0 judged, 2 not judged); detectable today: speed, losses of 29% or more"
        in (tmp_path / "summary.md").read_text()
    )
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    skipped = {
        case.get("name"): case.find("skipped").get("message") for case in suite if case.find("skipped") is not None
    }
    assert skipped["accuracy, acc"] == "accuracy was not run"
    assert "1 of 10 sessions are known" in skipped["throughput"]
    assert mlbench(*arguments, "--strict").exit_code == 1


def test_a_guard_that_can_judge_nothing_fails(mlbench, store, a_run, tmp_path):
    broken = a_run().verdict.model_dump() | {"is_valid": False}
    mlbench("baseline", "save", "broken", store("broken", [100] * 3, verdict=broken, accuracy=None))
    arguments = ("regress", store("tonight", [100] * 3, accuracy=None), "--baseline", "broken")
    outcome = mlbench(*arguments, "--junit", tmp_path / "junit.xml")
    assert outcome.exit_code == 1
    assert outcome.stdout.startswith("nothing could be judged: 0 judged, 1 not judged\n")
    case, judged = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert case.find("skipped").get("message").startswith("valid runs: the base has none")
    assert judged.find("error").get("message") == "nothing could be judged: 0 judged, 1 not judged"


def test_a_fall_of_accuracy_within_the_target_fails_unless_the_margin_allows_it(mlbench, store, a_run, tmp_path):
    def scored(value):
        return a_run().accuracy.model_dump() | {"scores": {"acc": value}}

    mlbench("baseline", "save", "good", store("good", [100] * 3, accuracy=scored(98.99)))
    arguments = ("regress", store("tonight", [100] * 3, accuracy=scored(98.01)), "--baseline", "good")
    outcome = mlbench(*arguments, "--junit", tmp_path / "junit.xml")
    assert outcome.exit_code == 1
    assert "│ less accurate │" in outcome.stdout
    failure = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testcase[@name='accuracy, acc']/failure")
    assert failure.get("message") == "worse by 0.99%: 98.99, then 98.01"
    assert mlbench(*arguments, "--accuracy-margin", "0.02").exit_code == 0


def test_some_invalid_repeats_are_counted_and_fail_when_strict(mlbench, store, a_run, tmp_path):
    mlbench("baseline", "save", "good", store("good", [100] * 3))
    tonight = store("tonight", [100] * 3)
    for run in store("broken", [1], verdict=a_run().verdict.model_dump() | {"is_valid": False}).iterdir():
        run.rename(tonight / run.name)
    outcome = mlbench("regress", tonight, "--baseline", "good", "--junit", tmp_path / "junit.xml")
    assert outcome.exit_code == 0
    assert "valid runs: 1 of 4 failed or are INVALID." in outcome.stdout
    skipped = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testcase[@name='valid runs']/skipped")
    assert "1 of 4 failed or are INVALID; broken-0: INVALID" in skipped.get("message")
    assert mlbench("regress", tonight, "--baseline", "good", "--strict").exit_code == 1


def test_hidden_baselines_are_refused(mlbench, old, results):
    outcome = mlbench("baseline", "save", ".good", old)
    assert_refused(outcome, "baseline name '.good'")
    assert not results.exists()


def assert_refused(outcome, told, status=2):
    assert outcome.exit_code == status, outcome.output
    assert len(outcome.stderr.strip().splitlines()) == 1
    assert told in outcome.stderr


def test_bad_input_gets_one_line(mlbench, old, tmp_path, store):
    (tmp_path / "empty").mkdir()
    assert_refused(mlbench("regress", old, "--baseline", "nope"), "unknown baseline 'nope'; known are: none.")
    assert_refused(mlbench("compare", old, tmp_path / "empty"), "no runs in")
    assert_refused(mlbench("compare", old, "nothing"), "It is not a folder, a baseline or a tag either.")
    assert_refused(mlbench("compare", old, old, "--across", "colour"), "unknown fact 'colour'")
    assert_refused(mlbench("compare", old, old, "--margin", "2"), "--margin")
    assert_refused(mlbench("baseline", "save", "../x", old), "baseline name '../x'")
    assert_refused(mlbench("compare", old, store("other", [1], tier="dev")), "tier differs: smoke, then dev", status=1)
    mlbench("baseline", "save", "nightly", old)
    assert_refused(
        mlbench("regress", store("new", [1]), "--baseline", "nightly", "--junit", tmp_path / "nowhere" / "j.xml"),
        "file cannot be written",
    )


def test_a_record_of_a_newer_format_is_left_out_and_named_once(mlbench, old):
    file = old / "old-1" / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    done = mlbench("compare", old, old)
    assert (done.exit_code, len(done.stderr.splitlines())) == (0, 1)
    assert "1 run skipped: run folder of format 99" in done.stderr
    assert "4 and 4 runs" in done.stdout
    assert_refused(mlbench("compare", old / "old-1", old), "run folder of format 99")


def test_a_corrupt_baseline_is_refused(mlbench, old, results):
    mlbench("baseline", "save", "nightly", old)
    (results / ".baselines" / "nightly.json").write_text('{"format": 1}')
    assert_refused(mlbench("regress", old, "--baseline", "nightly"), "baseline 'nightly' cannot be read")
    listed = mlbench("baseline", "list")
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "baseline 'nightly' cannot be read" in listed.stderr
