"""Questions about stored runs that cannot be answered: one line that says what, and exit status 2."""

import json

import pytest
from invoking import invoke, refusal


@pytest.fixture
def results(tmp_path, monkeypatch, a_run):
    """Return a results folder with one run."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    folder = tmp_path / "results" / "one"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(a_run(run_id="one").text())
    return tmp_path / "results"


def assert_refused(arguments, told):
    assert told in refusal(invoke(*arguments))


READERS = [
    ["query", "SELECT * FROM runs"],
    ["export", "runs.csv"],
    ["table"],
    ["show", "one"],
    ["verify", "one"],
    ["history"],
    ["compare", "one", "one"],
    ["baseline", "save", "good", "one"],
    ["published", "--place", "one"],
]


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_a_record_of_a_newer_format_is_refused_by_every_reader(results, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = results / "one" / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    assert_refused(command, "run folder of format 99; this mlbench reads up to 4")
    assert not (tmp_path / "runs.csv").exists()


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_a_record_that_is_no_json_is_refused_by_every_reader(results, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (results / "one" / "record.json").write_text('{"format": 1, ')
    assert_refused(command, str(results / "one" / "record.json"))


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_an_empty_folder_is_refused_by_every_reader(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_refused([*command, "--results", empty], str(empty))
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELCT 1", 'syntax error at or near "SELCT"'),
        ("SELECT colour FROM runs", 'Referenced column "colour" not found'),
        ("SELECT * FROM rums", "Table with name rums does not exist"),
        ("SELECT 1/'x' FROM runs", "Could not convert string 'x'"),
        ("", "the query is empty"),
        (
            "SELECT * FROM read_csv('/etc/passwd')",
            "telemetry, published, nvidia_tables, claims; the query 'describe runs' lists the columns of one.",
        ),
    ],
)
def test_malformed_sql_is_refused(results, sql, told):
    assert_refused(["query", sql], told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["regress", "--baseline", "goood"], "unknown baseline 'goood'; known are: none."),
        (["baseline", "show", "goood"], "unknown baseline 'goood'"),
        (["baseline", "remove", "goood"], "unknown baseline 'goood'"),
        (["compare", "one", "two"], "It is not a folder, a baseline or a tag either."),
        (["export", "runs.xlsx"], "has neither the extension .parquet nor .csv"),
        (["export", "nowhere/runs.csv"], "cannot be written"),
        (["history", "two"], "no run 'two'"),
        (["table", "two"], "no run 'two'"),
        (["table", "resnet50"], "It is a workload: `mlbench table --workload resnet50` lists its runs."),
        (["show", "pytorch"], "It is a backend: `mlbench table --backend pytorch` lists its runs."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_not_there_is_named(results, arguments, told):
    assert_refused(arguments, told)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "resnet50", "--backend", "cuda"], "pytorch, onnxruntime, tensorrt and vllm use an NVIDIA GPU"),
        (["serve", "resnet50", "--port", "80"], "No such option '--port'. Use --listen HOST:PORT."),
        (["history", "--workload", "resnet"], "No run has workload 'resnet'. Did you mean 'resnet50'?"),
        (["show"], "no run is named. The newest is `mlbench show one`"),
        (["settings", "bert", "pytorch", "--set", "backend.compile=always"], "it takes true, false, auto."),
    ],
)
def test_what_another_tool_would_take_is_answered_with_what_to_type(results, words, hint):
    assert_refused(words, hint)
