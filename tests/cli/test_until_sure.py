"""Commands that measure until each cell has a verdict: what they make, print, keep and refuse."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from invoking import invoke, refusal

from mlbench import __version__
from mlbench.cli.budget import TimeBudget
from mlbench.records.environment import observe_environment
from mlbench.records.run_record import read
from mlbench.records.store.run_folder import runs_in

SPEEDS = {"pytorch": 100, "onnxruntime": 150, "null": 100}
PROCESSOR_TIME = {
    "unit": "sample",
    "covers": "all",
    "reference": "scrypt",
    "reference_ns": 1,
    "samples": 8,
    "rounds": 9,
}


@pytest.fixture
def store(a_run, tmp_path):
    """Store a run that was made on this machine."""

    def store(folder, run_id, backend, value, **changes):
        made = {"environment": observe_environment(), "mlbench_version": __version__}
        made["result"] = a_run().result.model_dump() | {"value": value}
        run = a_run(run_id=run_id, backend=backend, **made | changes)
        (folder / run_id).mkdir(parents=True)
        (folder / run_id / "record.json").write_text(run.text())
        return run

    return store


@pytest.fixture
def mlbench(store, a_run, tmp_path):
    """Run a command on a results folder with a run of each backend."""
    results = tmp_path / "results"
    for backend, value in SPEEDS.items():
        store(results, f"run-{backend}", backend, value, tag=backend)

    def mlbench(*arguments):
        return invoke(*arguments, "--results", results)

    return mlbench


@pytest.fixture
def made(monkeypatch, store):
    """Let runs be made and stored at once, at the speed of their backend, and return the backends in their order."""
    made = []

    def run_here(request, plugins, on_progress, **how):
        value = made.value(request.backend) + 0.01 * len(made)
        if made.stop_after == len(made):
            raise KeyboardInterrupt
        made.append(request.backend)
        changes = dict(made.changes)
        if relative_ns := made.processor_ns.get(request.backend):
            changes["processor_time"] = PROCESSOR_TIME | {"ns": relative_ns, "relative_ns": relative_ns + len(made)}
        if request.backend in made.broken:
            changes |= {"verdict": None, "result": None, "status": "failed"}
            changes["failure"] = {"kind": "crash", "message": "it ended", "stage": "performance", "log_tail": ""}
        created = datetime.now(UTC) + timedelta(seconds=len(made))
        run_id = created.strftime("%Y%m%dT%H%M%S%f")
        return store(request.results, run_id, request.backend, value, created=created, tag=request.tag, **changes)

    class Made(list):
        stop_after, broken = None, ()
        changes, processor_ns, value = {}, {}, staticmethod(SPEEDS.__getitem__)

    made = Made()
    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", run_here)
    return made


ASK = ("--across", "backend", "--until-sure")


def test_both_sides_are_made_in_turns_until_there_is_a_verdict_and_no_longer(mlbench, made):
    """Of runs that agree to a thousandth, three turns are too few and four enough (t of 13.8 at 1 %)."""
    done = mlbench("compare", "pytorch", "onnxruntime", *ASK)
    assert done.exit_code == 0, done.output
    assert made == ["pytorch", "onnxruntime", "onnxruntime", "pytorch"] * 2
    assert "│ faster" in done.stdout
    assert "4 and 4 runs" in done.stdout
    assert "To go on" not in done.stdout


def test_before_the_first_turn_the_command_says_what_it_can_and_after_three_what_the_budget_shows(mlbench, made):
    first, *later = mlbench("compare", "pytorch", "onnxruntime", *ASK, "--budget", "2m").stderr.splitlines()
    assert first.startswith("resnet50 onnxruntime Offline fp32: a turn takes ")
    assert "so 2 min are about" in first
    assert "No earlier runs show how much the runs of a pair differ" in first
    (told,) = (line for line in later if "the runs of a pair differ by about 0.0% (3 turns)" in line)
    assert "which show a slowdown of 4.8%, or that nothing changed by 5%" in told
    assert "To see a slowdown of 10%: about 1 turn more" in told


@pytest.mark.thorough("command line")
def test_earlier_repeats_show_what_the_budget_can_before_anything_is_made(mlbench, made, store, tmp_path, a_run):
    for number, value in enumerate((98, 100, 102)):
        created = a_run().created - timedelta(days=1, minutes=number)
        store(tmp_path / "results", f"earlier-{number}", "pytorch", value, created=created)
    first, *_ = mlbench("compare", "pytorch", "onnxruntime", *ASK).stderr.splitlines()
    assert "the runs of a pair differ by about 2.8% (3 earlier runs)" in first  # 1.414 times 2.0 %


@pytest.mark.thorough("command line")
def test_on_a_crowded_machine_the_command_ends_with_processor_time_and_says_so(mlbench, made, monkeypatch):
    """Throughput goes up and down by a third; processor time grows from 1 to 1.2 ms."""
    speeds = iter([100, 130, 80, 110] * 9)
    monkeypatch.setitem(made.changes, "other_work", {"processes": 0.5, "stolen": 0.1})
    monkeypatch.setattr(made, "value", lambda _: next(speeds))
    monkeypatch.setattr(made, "processor_ns", {"pytorch": 1e6, "onnxruntime": 1.2e6})
    done = mlbench("compare", "pytorch", "onnxruntime", *ASK)
    assert done.exit_code == 0, done.output
    assert made == ["pytorch", "onnxruntime", "onnxruntime", "pytorch"] * 2
    told = "wall time varies too much here, so processor time decided: processor time per sample is worse."
    assert told in " ".join(done.stdout.split())
    assert "To go on" not in done.stdout


def test_what_nothing_changes_is_called_the_same(mlbench, made):
    done = mlbench("compare", "pytorch", "null", *ASK, "--json")
    (speed,) = json.loads(done.stdout)["cells"][0]["speeds"]
    assert (speed["verdict"], speed["spread"]["source"]) == ("same", "turns")


@pytest.mark.thorough("command line")
def test_a_side_with_a_verdict_is_measured_no_more_and_another_goes_on(mlbench, made):
    done = mlbench("compare", "pytorch", "onnxruntime", "null", *ASK, "--json")
    verdicts = [page["cells"][0]["speeds"][0]["verdict"] for page in json.loads(done.stdout)]
    assert verdicts == ["faster", "same"]
    assert made.count("onnxruntime") == 4
    assert made.count("null") == 3


def test_an_interrupted_command_says_how_to_go_on_and_that_makes_only_what_is_missing(mlbench, made):
    made.stop_after = 5
    stopped = mlbench("compare", "pytorch", "onnxruntime", *ASK, "--budget", "1h", "--margin", "0.04")
    assert stopped.exit_code == 130
    lines = stopped.stderr.splitlines()
    place = lines.index("2 pairs are stored. This goes on with them:")
    command = lines[place + 1].split()
    assert command[:6] == ["mlbench", "compare", "pytorch", "onnxruntime", "--across", "backend"]
    assert command[6:12] == ["--margin", "0.04", "--until-sure", "--budget", "1h", "--results"]
    made.stop_after = None
    done = mlbench(*command[1:])
    assert done.exit_code == 0, done.output
    assert made[5:] == ["pytorch", "onnxruntime", "onnxruntime", "pytorch"]  # half a pair is none
    again = mlbench(*command[1:])
    assert "No turn to make" in again.stderr
    assert len(made) == 9


def test_a_side_that_always_fails_ends_and_is_named(mlbench, made):
    made.broken = ("onnxruntime",)
    done = mlbench("compare", "pytorch", "onnxruntime", *ASK)
    assert len(made) == 6, done.output
    assert "onnxruntime Offline fp32: given up: 3 turns in a row gave no pair that counts" in done.stdout
    assert "failed (crash during performance)" in done.stdout
    assert "faster" not in done.stdout


@pytest.mark.thorough("command line")
def test_rates_that_differ_are_no_question_of_more_turns(mlbench, made, monkeypatch):
    """Server sends a rate of its own in each run, unless one is set: latencies at two rates are not compared."""
    monkeypatch.setattr("mlbench.records.run_record.RunRecord.arrivals_per_s", property(lambda run: run.result.value))
    done = mlbench("compare", "pytorch", "onnxruntime", *ASK)
    assert len(made) == 2
    assert "given up: these runs were sent from 100 to 150" in done.stdout


def test_a_budget_that_is_spent_leaves_the_question_open_and_says_what_an_hour_would_show(mlbench, made):
    done = mlbench("compare", "pytorch", "onnxruntime", *ASK, "--budget", "0.001s")
    assert done.exit_code == 0
    assert made == []
    assert "no verdict after 0 turns; one more hour is about" in done.stdout
    assert "cannot tell" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("  mlbench compare pytorch onnxruntime --across backend --until-sure --budget 0.001s ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--budget", "10m"), "--budget is given without --until-sure."),
        (("--until-sure", "--budget", "soon"), "'soon' is not a time such as 90s, 10m or 1h."),
        (("--until-sure", "--budget", "0s"), "'0s' is not a time above 0, of 30 days at most."),
        (("--until-sure", "--budget", "-1m"), "'-1m' is not a time such as 90s, 10m or 1h."),
        (("--until-sure", "--budget", "999999h"), "'999999h' is not a time above 0, of 30 days at most."),
        (("--until-sure", "--measure", "3"), "--measure is given together with --until-sure."),
    ],
)
def test_what_is_no_budget_is_refused_in_one_line(mlbench, made, arguments, told):
    assert told in refusal(mlbench("compare", "pytorch", "onnxruntime", "--across", "backend", *arguments))
    assert made == []


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("2min", 120), ("3", 180)])
def test_a_budget_has_a_unit_or_is_minutes_as_for_tune(text, seconds):
    assert TimeBudget().convert(text, None, None).seconds == seconds


RUN = ("run", "resnet50", "--backend", "pytorch", "--scenario", "Offline", "--until-sure")


def test_run_of_two_backends_answers_by_interleaved_runs(mlbench, made):
    done = mlbench(*RUN, "--backend", "onnxruntime", "--backend", "null")
    assert made[:3] == ["pytorch", "onnxruntime", "null"]
    assert made[3:].count("onnxruntime") == 4
    assert made[3:].count("null") == 3
    faster, same = done.stdout.splitlines()[-2:]
    assert faster.startswith("onnxruntime is 1.50 times as fast as pytorch in Offline (1.50 to 1.50, by 4 pairs")
    assert same.startswith("null is as fast as pytorch in Offline (")


@pytest.mark.thorough("command line")
def test_run_that_is_interrupted_names_the_compare_that_goes_on(mlbench, made):
    made.stop_after = 6
    stopped = mlbench(*RUN, "--backend", "onnxruntime", "--budget", "1h")
    assert stopped.exit_code == 130
    lines = stopped.stderr.splitlines()
    command = lines[lines.index("2 pairs are stored. This goes on with them:") + 1].split()
    assert command[:2] == ["mlbench", "compare"]
    assert command[4:8] == ["--across", "backend", "--across", "precision"]
    made.stop_after = None
    done = mlbench(*command[1:])
    assert "│ faster" in done.stdout
    assert len(made) == 2 + 8


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--until-sure is given without two backends."),
        (("--backend", "pytorch"), "--until-sure is given without two backends."),
        (("--backend", "null", "--json"), "--until-sure is given together with --json, which prints records."),
        (("--backend", "null", "--network", "host"), "--until-sure is given together with --network."),
    ],
)
def test_run_refuses_what_it_cannot_measure_until_it_is_known(mlbench, made, arguments, told):
    assert told in refusal(mlbench(*RUN, *arguments))
    assert made == []


SUITE = """
name = "{name}"
repeats = 3
[[runs]]
workload = "resnet50"
backend = "null"
scenario = "SingleStream"
accuracy = false
settings = {{ "backend.delay_ms" = {delay_ms} }}
"""


@pytest.mark.thorough("command line")
def test_two_suites_are_measured_for_real_until_the_slower_one_is_known(tmp_path):
    """Of five and fifteen milliseconds: a third of the speed, whatever else the machine does."""
    files = [tmp_path / "quick.toml", tmp_path / "slow.toml"]
    for file, delay_ms in zip(files, (5, 15), strict=True):
        file.write_text(SUITE.format(name=file.stem, delay_ms=delay_ms))
    results = tmp_path / "results"
    ask = ["compare", "--run", *map(str, files), "--until-sure", "--budget", "10m", "--json"]
    done = invoke(*ask, "--results", results)
    assert done.exit_code == 0, done.stderr
    (speed,) = json.loads(done.stdout)["cells"][0]["speeds"]
    assert speed["verdict"] == "slower"
    assert 4 <= speed["spread"]["count"] <= 20
    assert 0.1 < speed["effect"]["low"] < speed["effect"]["ratio"] < 0.7
    assert speed["effect"]["ratio"] < speed["effect"]["high"] < 1
    stored = [folder for folder in results.iterdir() if not folder.name.startswith(".")]
    assert len(stored) == 2, "each file's run once, whatever its repeats; the turns are in no history"


@pytest.mark.thorough("command line")
def test_two_real_backends_are_measured_until_it_is_known_or_the_time_is_over(tmp_path):
    """Whichever is faster here: the answer is by interleaved runs, or says what more time or processor time shows."""
    results = tmp_path / "results"
    words = ["run", "resnet50", "--backend", "pytorch", "--backend", "onnxruntime", "--scenario", "SingleStream"]
    ask = [*words, "--no-accuracy", "--until-sure", "--budget", "3m", "--results", str(results)]
    done = invoke(*ask)
    assert done.exit_code == 0, done.stderr
    made = [read(folder) for folder in runs_in(results / ".in-turns")]
    turns = len(made) // 2
    beside = {run.run_id: run.processor_time.side_by_side for run in made}
    alone = {run_id for run_id, found in beside.items() if found is None}
    partners = {found.run_id for found in beside.values() if found}
    assert partners
    assert partners <= alone, "the first run of a pair has no engine beside it"
    assert turns >= 3
    assert f", by {turns} pairs of interleaved runs" in done.stdout
    if "so processor time decided" not in done.stdout:  # which says nothing about latencies
        assert ("one more hour is about" in done.stdout) == ("or not the faster one" in done.stdout)


def test_without_the_other_mlbench_regress_has_nothing_to_measure_with(mlbench):
    line = refusal(mlbench("regress", "pytorch", "--baseline", "good", "--until-sure"))
    assert "--until-sure is given without --confirm." in line
