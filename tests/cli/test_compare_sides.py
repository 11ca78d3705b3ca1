"""More sides than two, and the runs that are missing for a verdict: offered, asked for, and made interleaved."""

import json
from datetime import UTC, datetime, timedelta

import pluggy
import pytest
from invoking import invoke, refusal

from mlbench import __version__
from mlbench.cli import compare as compare_command
from mlbench.records.environment import observe_environment

SPEEDS = {"pytorch": 100, "onnxruntime": 150, "null": 50}


@pytest.fixture
def results(tmp_path, a_run):
    """Store a run of each of three backends, made on this machine, tagged with the backend's name."""
    results = tmp_path / "results"
    for number, (backend, value) in enumerate(SPEEDS.items()):
        result = a_run().result.model_dump() | {"value": value}
        made = {"environment": observe_environment(), "mlbench_version": __version__}
        created = a_run().created + timedelta(minutes=number)
        run = a_run(run_id=f"run-{backend}", tag=backend, created=created, backend=backend, result=result, **made)
        (results / run.run_id).mkdir(parents=True)
        (results / run.run_id / "record.json").write_text(run.text())
    return results


@pytest.fixture
def mlbench(results):
    def mlbench(*arguments, **more):
        return invoke(*arguments, "--across", "backend", "--results", results, **more)

    return mlbench


@pytest.fixture
def made(monkeypatch, a_run):
    """Let runs be made at once, at the speed of their backend, and return the requests."""
    requests = []

    def run_here(request, plugins, on_progress, **how):
        requests.append(request)
        result = a_run().result.model_dump() | {"value": SPEEDS[request.backend] + 0.01 * len(requests)}
        return a_run(
            run_id=f"made-{len(requests)}",
            created=datetime.now(UTC) + timedelta(seconds=len(requests)),
            backend=request.backend,
            result=result,
            environment=observe_environment(),
        )

    monkeypatch.setattr("mlbench.cli.run_maker.run_benchmark", run_here)
    return requests


def test_several_sides_are_one_picture_with_a_row_each(mlbench):
    done = mlbench("compare", "pytorch", "onnxruntime", "null")
    assert done.exit_code == 0, done.output
    heading, *rows = done.stdout.splitlines()[:5]
    assert heading == "resnet50 Offline fp32, throughput; higher is better"
    assert [row.split()[0] for row in rows[:3]] == ["pytorch", "onnxruntime", "null"]
    assert "x 1.500" in rows[1] and "x 0.500" in rows[2]
    assert rows[3].startswith("  acc: pytorch 98.994, onnxruntime 98.994 (as accurate), null")


def test_two_sides_are_drawn_too_above_the_table_that_judges_them(mlbench):
    heading, *rows = mlbench("compare", "pytorch", "onnxruntime").stdout.splitlines()
    assert heading == "resnet50 Offline fp32, throughput; higher is better"
    assert rows[0].count("#") == 16 and rows[1].count("#") == 24 and "x 1.500" in rows[1]
    assert rows.index(next(row for row in rows if row.startswith("nothing"))) > 1
    assert sum("98.99" in row for row in rows) == 1, "the table alone has scores"


def test_several_sides_are_an_array_in_json_and_a_page_each_in_markdown(mlbench):
    names = ("pytorch", "onnxruntime", "null")
    pages = json.loads(mlbench("compare", *names, "--json").stdout)
    ratios = [page["cells"][0]["speeds"][0]["effect"]["ratio"] for page in pages]
    assert ratios == [pytest.approx(1.5), pytest.approx(0.5)]
    assert mlbench("compare", *names, "--markdown").stdout.count("## ") == 2


def test_a_side_without_such_runs_is_named_and_not_drawn(mlbench, results, a_run):
    run = a_run(run_id="bert", tag="bert", workload="bert", environment=observe_environment())
    (results / "bert").mkdir()
    (results / "bert" / "record.json").write_text(run.text())
    done = mlbench("compare", str(results), "onnxruntime")
    assert done.exit_code == 1  # both backends are on the base's side
    done = mlbench("compare", "pytorch", "onnxruntime", "bert")
    assert "the base has resnet50 pytorch Offline fp32, the new side bert" in done.stderr


def test_one_run_each_says_what_is_missing_and_the_command_that_measures_it(mlbench, made):
    done = mlbench("compare", "pytorch", "onnxruntime", input="y\n")
    assert "A verdict needs interleaved runs of both sides." in done.stdout
    assert "  mlbench compare pytorch onnxruntime --across backend --measure 5" in done.stdout.splitlines()
    assert not made  # nobody is asked where there is no terminal


@pytest.mark.parametrize(("answer", "runs"), [("y\n", 10), ("n\n", 0), ("\n", 0)])
def test_on_a_terminal_somebody_is_asked_and_only_a_yes_measures(mlbench, made, monkeypatch, answer, runs):
    monkeypatch.setattr(compare_command, "_has_terminal", lambda: True)
    done = mlbench("compare", "pytorch", "onnxruntime", input=answer)
    assert done.exit_code == 0, done.output
    assert len(made) == runs
    assert ("faster" in done.stdout) == bool(runs)


def test_with_json_no_question_is_asked(mlbench, made, monkeypatch):
    monkeypatch.setattr(compare_command, "_has_terminal", lambda: True)
    json.loads(mlbench("compare", "pytorch", "onnxruntime", "--json", input="y\n").stdout)
    assert not made


def test_measure_makes_all_sides_in_turns_and_judges_by_these_runs(mlbench, made):
    done = mlbench("compare", "pytorch", "onnxruntime", "null", "--measure", "3", "--json")
    assert done.exit_code == 0, done.output
    assert [request.backend for request in made] == [
        *("pytorch", "onnxruntime", "null"),
        *("null", "onnxruntime", "pytorch"),
        *("pytorch", "onnxruntime", "null"),
    ]
    assert not any(request.wants_accuracy for request in made)
    cells = [each["cells"][0] for each in json.loads(done.stdout)]
    assert [(cell["speeds"][0]["verdict"], cell["speeds"][0]["spread"]["source"]) for cell in cells] == [
        ("faster", "turns"),
        ("slower", "turns"),
    ]
    assert [cell["scores"][0]["new"] for cell in cells] == [98.99396378269617] * 2  # of the stored runs


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("then", "now", "reason"),
    [
        (
            {"commits": {"acme": "a" * 40}},
            {"acme": "b" * 40},
            "acme of commit aaaaaaaaaaaa, and commit bbbbbbbbbbbb is",
        ),
        ({"commits": {"acme": "a" * 40}}, {}, "acme of commit aaaaaaaaaaaa, and an unknown commit is"),
        ({"libraries": {"acme": "1.0"}}, {"acme": "b" * 40}, "acme of an unknown commit, and commit bbbbbbbbbbbb is"),
        ({"libraries": {"pluggy": "0.1"}}, {}, f"pluggy 0.1, and {pluggy.__version__} is"),
    ],
)
def test_another_commit_of_the_same_version_is_not_measured_in_its_place(
    mlbench,
    results,
    a_run,
    monkeypatch,
    *,
    then,
    now,
    reason,
):
    here = observe_environment()
    libraries = here.libraries | then.get("libraries", {})
    was = here.model_copy(update={"libraries": libraries, "commits": here.commits | then.get("commits", {})})
    older = {"mlbench_version": __version__, "environment": was}
    run = a_run(run_id="run-onnxruntime", tag="onnxruntime", backend="onnxruntime", **older)
    (results / "run-onnxruntime" / "record.json").write_text(run.text())
    monkeypatch.setattr(
        "mlbench.running.turns.observe_environment", lambda: here.model_copy(update={"commits": here.commits | now})
    )
    line = refusal(mlbench("compare", "pytorch", "onnxruntime", "--measure", "3"))
    assert f"run-onnxruntime: it was made with {reason} installed." in line


def test_what_was_installed_since_keeps_no_run_from_being_made_again(mlbench, made, monkeypatch):
    here = observe_environment()
    now = here.model_copy(update={"commits": here.commits | {"acme": "b" * 40}})
    monkeypatch.setattr("mlbench.running.turns.observe_environment", lambda: now)
    assert mlbench("compare", "pytorch", "onnxruntime", "--measure", "3").exit_code == 0
    assert len(made) == 6


def test_a_run_of_another_mlbench_is_not_offered_to_be_measured_here(mlbench, results, a_run):
    older = {"mlbench_version": "0.0.9", "environment": observe_environment()}
    run = a_run(run_id="run-onnxruntime", tag="onnxruntime", backend="onnxruntime", **older)
    (results / "run-onnxruntime" / "record.json").write_text(run.text())
    done = mlbench("compare", "pytorch", "onnxruntime")
    assert (
        "A verdict needs runs that cannot be repeated here: run-onnxruntime: it was made by mlbench 0.0.9."
        in " ".join(done.stdout.split())
    )
    assert "--measure" not in done.stdout
    line = refusal(mlbench("compare", "pytorch", "onnxruntime", "--measure", "3"))
    assert "no run can be repeated here: run-onnxruntime: it was made by mlbench 0.0.9" in line


def test_suite_files_say_themselves_how_often(mlbench):
    assert mlbench("compare", "a.toml", "b.toml", "--run", "--measure", "3").exit_code == 2


def test_a_release_that_only_fixes_faults_keeps_no_run_from_being_made_again(mlbench, made, monkeypatch):
    here = observe_environment()
    major, minor, *_ = here.libraries["pydantic"].split(".")
    libraries = here.libraries | {"pydantic": f"{major}.{minor}.999"}
    monkeypatch.setattr(
        "mlbench.running.turns.observe_environment", lambda: here.model_copy(update={"libraries": libraries})
    )
    assert mlbench("compare", "pytorch", "onnxruntime", "--measure", "3").exit_code == 0
    assert len(made) == 6
