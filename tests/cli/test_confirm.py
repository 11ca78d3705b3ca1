"""What is slower, suspected or cannot be told is measured again, interleaved with the old installation."""

import json
import sys
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from mlbench.comparison.compare import compare
from mlbench.comparison.confirmation import confirm
from mlbench.running.runner import UnstoredRunError

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

    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", run_here)
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


@pytest.mark.thorough("command line")
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


@pytest.mark.thorough("command line")
def test_a_run_in_turns_that_cannot_be_stored_ends_with_one_line(
    mlbench, nights_of_four, other_mlbench, a_run, monkeypatch
):
    def refuse(request, plugins, on_progress, **how):
        raise UnstoredRunError("run folder cannot be stored: No space left on device.", hint="", record=a_run())

    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", refuse)
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
