"""Stored runs under names, compared on the command line; each output read back by a reader that is not ours."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from mlbench.cli import main
from mlbench.comparison.compare import compare
from mlbench.comparison.confirmation import confirm
from mlbench.records.store.baselines import save_baseline
from mlbench.running.runner import UnstoredRunError


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def mlbench(results, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def store(a_run, tmp_path):
    """Store a run per throughput in a folder, and return the folder."""

    def store(name, values, **changes):
        folder = tmp_path / name
        for number, value in enumerate(values):
            result = a_run().result.model_dump() | {"value": value}
            run = a_run(run_id=f"{name}-{number}", result=result, tag=name, **changes)
            (folder / run.run_id).mkdir(parents=True)
            (folder / run.run_id / "record.json").write_text(run.text())
        return folder

    return store


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


ROUNDS = ("resnet50", "bert", "gptj", "retinanet")


@pytest.fixture
def nights_of_four(a_run, results):
    """Store twenty nights of four workloads at 100, and a fifth of a percent around it."""

    def store_night(workload, days, value):
        created = a_run().created - timedelta(days=days)
        changes = {"workload": workload, "run_id": f"{workload}-{days}", "created": created}
        night = a_run(result=a_run().result.model_dump() | {"value": value}, tag=f"night-{days}", **changes)
        (results / night.run_id).mkdir(parents=True)
        (results / night.run_id / "record.json").write_text(night.text())

    for workload in ROUNDS:
        for days in range(20, 0, -1):
            store_night(workload, days, 100 * [1, 1.003, 0.997, 1.001, 0.999][days % 5])
    return store_night


def test_a_loss_of_all_cells_on_one_night_is_suspected_and_the_exit_status_is_3(mlbench, nights_of_four, tmp_path):
    mlbench("baseline", "save", "good", "night-20")
    for workload in ROUNDS:
        nights_of_four(workload, 0, 88)
    outcome = mlbench("regress", "night-0", "--baseline", "good", "--junit", tmp_path / "junit.xml")
    assert outcome.exit_code == 3, outcome.output
    assert outcome.stdout.startswith("suspected: 4 judged, 0 not judged, 4 suspected\n")  # four scores are judged
    assert "3 of 3 other cells changed by more than 5% too (median x 0.880)" in outcome.stdout
    failures = ElementTree.parse(tmp_path / "junit.xml").getroot().findall("testcase/failure")
    assert [each.get("message").partition(":")[0] for each in failures] == ["suspected"] * 4
    assert len(json.loads(mlbench("regress", "night-0", "--baseline", "good", "--json").stdout)["suspected"]) == 4


def test_a_loss_of_one_cell_alone_is_slower(mlbench, nights_of_four):
    mlbench("baseline", "save", "good", "night-20")
    for workload in ROUNDS:
        nights_of_four(workload, 0, 88 if workload == "bert" else 100)
    outcome = mlbench("regress", "night-0", "--baseline", "good")
    assert outcome.exit_code == 1, outcome.output
    assert "Interleaved runs show whether the code or the machine is the cause." in outcome.stdout


@pytest.fixture
def other_mlbench(a_run, tmp_path, monkeypatch):
    """Return a command that stores a run of a speed as another installation would; runs made here are at 88."""

    def run_here(request, plugins, on_progress, **how):
        return a_run(
            run_id=f"here-{datetime.now(UTC).isoformat()}",
            created=datetime.now(UTC),
            workload=request.workload,
            result=a_run().result.model_dump() | {"value": 88},
        )

    monkeypatch.setattr("mlbench.running.runner.run_benchmark", run_here)
    script = tmp_path / "other_mlbench.py"
    script.write_text(
        """import json, pathlib, sys, uuid
from datetime import UTC, datetime
file, value, _, workload, *rest = sys.argv[1:]
record = json.loads(pathlib.Path(file).read_text())
record |= {"run_id": uuid.uuid4().hex, "created": datetime.now(UTC).isoformat(), "workload": workload}
record["result"]["value"] = float(value)
folder = pathlib.Path(rest[rest.index("--results") + 1]) / record["run_id"]
folder.mkdir(parents=True)
(folder / "record.json").write_text(json.dumps(record))
"""
    )
    (tmp_path / "template.json").write_text(a_run(accuracy=None).text())
    return lambda value: f"{sys.executable} {script} {tmp_path / 'template.json'} {value}"


@pytest.mark.thorough("command line", but=["100-1"])
@pytest.mark.parametrize(("again", "status"), [(88, 0), (100, 1)])
def test_what_is_slower_than_before_is_confirmed_in_turns_with_the_old_installation(
    mlbench, nights_of_four, other_mlbench, again, status
):
    """The machine got slower, or the new product did: the old one, made again, tells which."""
    mlbench("baseline", "save", "good", "night-20")
    for workload in ROUNDS:
        nights_of_four(workload, 0, 88)
    arguments = ("regress", "night-0", "--baseline", "good", "--pairs", "3", "--json")
    outcome = mlbench(*arguments, "--confirm", other_mlbench(again))
    assert outcome.exit_code == status, outcome.output
    speeds = [cell["speeds"][0] for cell in json.loads(outcome.stdout)["cells"]]
    assert {(each["verdict"], each["spread"]["source"]) for each in speeds} == {
        ("slower" if status else "same", "turns")
    }
    assert len(json.loads(mlbench("query", "SELECT run_id FROM runs", "--json").stdout)) == 84  # nights alone


@pytest.mark.parametrize(("again", "status"), [(88, 0), (100, 1)])
def test_what_cannot_be_told_is_measured_again_and_the_command_says_so(mlbench, store, other_mlbench, again, status):
    mlbench("baseline", "save", "good", store("old", [100, 101]))
    new = store("new", [88])
    arguments = ("regress", new, "--baseline", "good")
    assert "cannot tell" in mlbench(*arguments).stdout
    outcome = mlbench(*arguments, "--confirm", other_mlbench(again), "--pairs", "3")
    assert outcome.exit_code == status, outcome.output
    assert (
        "measured again, interleaved, 3 runs of each side (throughput cannot tell)\n6 runs to make, " in outcome.stderr
    )
    now = "slower" if status else "same"
    assert f"3 runs of each side: cannot tell, now {now}." in " ".join(outcome.stdout.split())


@pytest.mark.parametrize(("again", "status", "now"), [(88, 0, "same"), (100, 1, "slower")])
def test_what_cannot_be_told_is_measured_again_until_it_has_a_verdict(
    mlbench, store, other_mlbench, *, again, status, now
):
    """Pairs that are equal to the last digit: three show that nothing changed, and four that something did."""
    mlbench("baseline", "save", "good", store("old", [100, 101]))
    arguments = ("regress", store("new", [88]), "--baseline", "good", "--confirm", other_mlbench(again))
    outcome = mlbench(*arguments, "--until-sure", "--budget", "1h", "--json")
    assert outcome.exit_code == status, outcome.output
    (confirmed,) = json.loads(outcome.stdout)["confirmed"]
    assert (confirmed["before"], confirmed["after"], confirmed["runs"]) == ("cannot tell", now, 3 if again == 88 else 4)
    assert "measured again, interleaved, until it has a verdict (throughput cannot tell)" in outcome.stderr


def test_what_cannot_be_told_and_cannot_be_measured_again_stays_as_it_was(mlbench, store):
    mlbench("baseline", "save", "good", store("old", [100, 101]))
    failing = f"{sys.executable} -c exit(3)"
    arguments = ("regress", store("new", [88]), "--baseline", "good", "--confirm", failing)
    until = mlbench(*arguments, "--until-sure")
    assert "could not be measured again, so the old result stays: " in until.stderr
    assert "cannot tell" in until.stdout
    assert "given up: " in until.stdout
    outcome = mlbench(*arguments, "--pairs", "3")
    assert "could not be measured again, so the old result stays: " in outcome.stderr
    assert "left 0 runs, not one (status 3)" in outcome.stderr
    assert "cannot tell" in outcome.stdout


def test_where_no_number_can_be_measured_again_none_is_said_to_have_a_verdict(mlbench, store, other_mlbench):
    settings = {"execution.batch": {"value": None, "layer": "suite"}}  # no command line can say it
    mlbench("baseline", "save", "good", store("old", [100, 101], settings=settings))
    new = store("new", [88], settings=settings)
    outcome = mlbench("regress", new, "--baseline", "good", "--confirm", other_mlbench(88), "--pairs", "3")
    assert "could not be measured again, so the old result stays: execution.batch is None" in outcome.stderr
    assert "no run to repeat" not in outcome.stderr


def test_a_run_in_turns_that_cannot_be_stored_ends_with_one_line(
    mlbench, nights_of_four, other_mlbench, a_run, monkeypatch
):
    def refuse(request, plugins, on_progress, **how):
        raise UnstoredRunError("run folder cannot be stored: No space left on device.", hint="", record=a_run())

    monkeypatch.setattr("mlbench.running.runner.run_benchmark", refuse)
    mlbench("baseline", "save", "good", "night-20")
    for workload in ROUNDS:
        nights_of_four(workload, 0, 88)
    outcome = mlbench("regress", "night-0", "--baseline", "good", "--confirm", other_mlbench(88), "--pairs", "3")
    assert outcome.exit_code == 1, outcome.output
    assert outcome.stderr.splitlines()[-1].startswith("Error: an interleaved run cannot be stored")
    assert "run 1 of 3 with the baseline's mlbench" in outcome.stderr


def test_a_loss_that_turns_cannot_be_sure_of_stays_suspected(a_run):
    nights = [a_run(run_id=f"{n}", created=a_run().created - timedelta(days=30 - n)) for n in range(20)]
    result = a_run().result.model_dump()
    tonight = [a_run(run_id="tonight", result=result | {"value": 0.8 * result["value"]})]
    night = compare(nights[:1], tonight, history=nights)
    assert night.is_worse
    turns = [(f"{n}", timedelta(minutes=n), value) for n, value in enumerate((100, 75, 90, 100, 100, 70))]
    runs = [
        a_run(run_id=name, created=a_run().created + later, result=result | {"value": value})
        for name, later, value in turns
    ]
    confirmed = confirm(night, compare(nights[:1], runs[1::4] + runs[2:3], again=[runs[0], runs[3], runs[4]]))
    (judged,) = confirmed.cells[0].speeds
    assert judged.verdict == "suspected"
    assert judged.reason.startswith("interleaved x 0.")
    assert not confirmed.is_worse


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
