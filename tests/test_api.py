"""The Python functions: what the commands store and say, as records and exceptions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from invoking import invoke

import mlbench
from mlbench.cli import main

ROOT = Path(__file__).parents[1]
NULL = {"backend": "null", "scenario": "SingleStream", "accuracy": False}
SETTINGS = {"load.min_duration_ms": 50, "load.coalesce_queries": False, "load.target_qps": 2.5}
SUITE = """
name = "{name}"
[[runs]]
workload = "resnet50"
backend = "null"
scenario = "SingleStream"
accuracy = false
settings = {{ "load.min_duration_ms" = 50, "execution.batch" = {batch} }}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def two_runs(results):
    """Two repeats on the null backend, with what the function and its callback gave."""
    heard = []
    asked = {"repeat": 2, "tag": "nightly", "settings": SETTINGS}
    given = mlbench.run("resnet50", **NULL, **asked, results=results, on_record=heard.append)
    return given, heard


def by_name(records):
    """Return runs in the order of their folders, which is any order for two that began in the same second."""
    return sorted(records, key=lambda record: record.run_id)


@pytest.mark.slow
def test_a_run_returns_the_records_that_it_stores(two_runs, results):
    given, heard = two_runs
    assert [(each.workload, each.backend, each.scenario, each.tag, each.repeat) for each in given] == [
        ("resnet50", "null", "SingleStream", "nightly", 1),
        ("resnet50", "null", "SingleStream", "nightly", 2),
    ]
    assert heard == given
    assert all(isinstance(each, mlbench.RunRecord) for each in given)
    assert by_name(given) == mlbench.load("nightly", results=results)


@pytest.mark.slow
def test_the_command_line_reads_what_a_function_measured(two_runs, results):
    shown = invoke("show", "nightly", "--json", "--results", results)
    assert json.loads(shown.stdout) == [json.loads(each.text()) for each in by_name(two_runs[0])]


@pytest.mark.slow
def test_names_and_records_compare_alike_and_as_the_command_does(two_runs, results):
    first, second = two_runs[0]
    by_record = mlbench.compare(first, [second], results=results)
    assert by_record == mlbench.compare(first.run_id, second.run_id, results=results)
    assert isinstance(by_record, mlbench.Comparison)
    names = [first.run_id, second.run_id]
    printed = json.loads(invoke("compare", *names, "--json", "--results", results).stdout)
    assert [each["name"] for each in printed["cells"]] == [each.name for each in by_record.cells]
    assert by_record.cells[0].name == "resnet50 null SingleStream fp32"


@pytest.mark.slow
def test_settings_keep_their_types_and_tell_where_they_come_from(two_runs):
    run = two_runs[0][0]
    assert {key: (run.settings[key].value, run.settings[key].layer) for key in SETTINGS} == {
        "load.min_duration_ms": (50, "command line"),
        "load.coalesce_queries": (False, "command line"),
        "load.target_qps": (2.5, "command line"),
    }
    assert not run.is_good  # 50 ms are no two seconds
    assert [rule.rule for rule in run.verdict.rules if not rule.passed] == ["min_duration"]


@pytest.mark.thorough("workloads")
def test_a_real_backend_is_good(results):
    pytest.importorskip("torch")
    (run,) = mlbench.run("resnet50", backend="pytorch", scenario="singlestream", results=results)
    assert (run.scenario, run.is_good, run.verdict.is_accurate) == ("SingleStream", True, True)
    assert run.accuracy.scores["acc"] == pytest.approx(98.99, abs=0.3)  # as its recipe measured: 492 of 497
    assert run.result.unit == "ns"
    assert run.result.value > 0


@pytest.mark.thorough("command line")
def test_a_suite_is_made_once_and_then_only_read(tmp_path):
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(name="small", batch=1))
    heard = []
    made = mlbench.run_suite(suite, results=tmp_path / "runs", on_record=heard.append)
    again = mlbench.run_suite(suite, results=tmp_path / "runs", on_record=heard.append)
    assert [each.tag for each in made] == ["small"]
    assert again == made == heard


@pytest.mark.thorough("command line")
def test_two_suites_are_measured_in_turns_and_compared_across_what_they_name_differently(tmp_path):
    for name, batch in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.toml").write_text(SUITE.format(name=name, batch=batch))
    found = mlbench.compare(tmp_path / "one.toml", tmp_path / "two.toml", run=True, results=tmp_path / "runs")
    forced = found.cells[0].differences[0]
    assert (forced.fact, forced.base, forced.new) == (
        "settings",
        '{"execution.batch": 1, "load.min_duration_ms": 50}',
        '{"execution.batch": 2, "load.min_duration_ms": 50}',
    )
    assert len(mlbench.load(results=tmp_path / "runs")) == 2


def test_stored_runs_are_loaded_by_name_and_filter(a_run, tmp_path):
    for number, backend in enumerate(("pytorch", "onnxruntime", "pytorch")):
        run = a_run(run_id=f"2026110{number + 1}T000000Z-000{number}", backend=backend)
        (tmp_path / run.run_id).mkdir()
        (tmp_path / run.run_id / "record.json").write_text(run.text())
    assert [each.run_id[-4:] for each in mlbench.load(results=tmp_path)] == ["0000", "0001", "0002"]
    assert [each.run_id[-4:] for each in mlbench.load(backend="pytorch", results=str(tmp_path))] == ["0000", "0002"]
    assert [each.run_id[-4:] for each in mlbench.load(tmp_path / "20261102T000000Z-0001")] == ["0001"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mlbench.run("resnet5"), "unknown workload 'resnet5'. Did you mean 'resnet50'?"),
        (lambda: mlbench.run("resnet50", backend=["null", "nul"]), "unknown backend 'nul'. Did you mean 'null'?"),
        (lambda: mlbench.run("resnet50", tier="long"), "tier is 'long'. It is one of: smoke, dev, valid."),
        (lambda: mlbench.run("resnet50", profile="big"), "profile is 'big'. It is one of: mini, full."),
        (lambda: mlbench.run("resnet50", weights="my"), "weights is 'my'. It is one of: trained, random."),
        (lambda: mlbench.run("resnet50", **NULL, repeat=0), "repeat is 0. It lies from 1 to 10000."),
        (
            lambda: mlbench.run("resnet50", **NULL, tag="a\nb"),
            "tag is 'a\\nb'. It is plain text of up to 200 characters.",
        ),
        (
            lambda: mlbench.run("resnet50", **NULL, settings={"execution.bach": 1}),
            "unknown setting 'execution.bach' (command line). Did you mean 'execution.batch'?",
        ),
        (
            lambda: mlbench.run("gptj", backend="null", scenario="MultiStream"),
            "gptj MultiStream: the rules do not define this combination. `mlbench list` prints the scenarios of "
            "each workload.",
        ),
        (
            lambda: mlbench.run("resnet50", results="a\0b"),
            "'a\\x00b': it contains a null character. Name another folder.",
        ),
        (lambda: mlbench.load(results="nowhere"), "no runs in nowhere."),
        (lambda: mlbench.load("nothing", results="nowhere"), "no run 'nothing' in nowhere."),
        (lambda: mlbench.load(newest=0), "newest is 0. It is at least 1."),
        (lambda: mlbench.compare([], "x"), "base has no runs."),
        (lambda: mlbench.compare([], [], run=True), "base is not a suite file."),
        (lambda: mlbench.run_suite("no.toml"), "no.toml"),
    ],
)
def test_what_is_asked_for_wrongly_is_a_usage_error_in_one_line(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mlbench.UsageError) as found:
        call()
    assert said in str(found.value)
    assert "\n" not in str(found.value)
    assert not list(tmp_path.iterdir())


def test_a_margin_that_is_no_share_is_refused(a_run):
    for margin in (-0.1, 1.0, float("nan")):
        with pytest.raises(mlbench.UsageError, match="margin is"):
            mlbench.compare(a_run(), a_run(), margin=margin)


def test_runs_of_other_workloads_are_incomparable(a_run, tmp_path):
    with pytest.raises(mlbench.IncomparableRunsError, match="the base has resnet50"):
        mlbench.compare(a_run(), a_run(workload="bert"), results=tmp_path)


def test_a_combination_that_the_rules_do_not_define_is_warned_of(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("mlbench.running.runner.run_benchmark", lambda *_, **__: None)
    assert mlbench.run(["resnet50", "gptj"], backend="null", scenario="MultiStream", results=tmp_path) == []
    assert caplog.messages == ["gptj MultiStream: the rules do not define this combination."]


def test_the_functions_have_the_defaults_of_the_commands():
    """A default that is written down twice is held against the other."""
    defaults = {
        name: {each.name: each.default for each in main.get_command(None, name).params} for name in ("run", "compare")
    }
    run, compare = mlbench.run.__kwdefaults__, mlbench.compare.__kwdefaults__
    assert (run["profile"], run["tier"], run["weights"]) == tuple(
        defaults["run"][name] for name in ("profile", "tier", "weights")
    )
    assert (run["accuracy"], run["repeat"], run["power"], run["tag"]) == tuple(
        defaults["run"][name] for name in ("wants_accuracy", "repeats", "power", "tag")
    )
    assert ((compare["margin"],), compare["accuracy_margin"]) == tuple(
        defaults["compare"][name] for name in ("margin", "accuracy_margin")
    )


def test_importing_the_package_imports_nothing_that_only_the_functions_need():
    heavy = "{'pydantic', 'click', 'logging', 'mlbench.running.runner', 'mlbench.records.run_record'}"
    script = f"import sys, mlbench; mlbench.run; mlbench.compare; print(sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert mlbench.RunRecord.__name__ == "RunRecord"
    with pytest.raises(AttributeError, match="has no attribute 'Runs'"):
        _ = mlbench.Runs
