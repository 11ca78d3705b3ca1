"""What mlbench writes for other tools, read by other tools, with texts that a careless writer would break on."""

import csv
import io
import json
from datetime import UTC, datetime

import jsonschema
import junitparser
import pytest
from invoking import invoke
from markdown_it import MarkdownIt

from mlbench.records.schema import SCHEMA_FILE

AWKWARD = 'a|b, "c"\n<d> & é'


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def mlbench(results):
    """Run a command line that must not fail in its usage, and return what it prints."""

    def mlbench(*arguments):
        done = invoke(*arguments)
        assert done.exit_code < 2, done.output
        return done.stdout

    return mlbench


@pytest.fixture
def store(results, a_run):
    """Store runs with these throughputs under a tag."""

    def store(tag, *values, **changes):
        for number, value in enumerate(values):
            result = a_run().result.model_dump() | {"value": value}
            run = a_run(run_id=f"{tag}-{number}", tag=tag, result=result, **changes)
            (results / run.run_id).mkdir(parents=True)
            (results / run.run_id / "record.json").write_text(run.text())

    return store


@pytest.fixture
def a_slower_night(store, mlbench):
    """Store a night that got slower in one kind of run, lost another, and cannot be judged in a third."""
    backend = {"backend": "odd|name"}
    store("old", 100.0, 101.0, 99.0, **backend)
    store("new", 40.0, 41.0, 39.0, **backend)
    store("old-bert", 10.0, workload="bert")
    store("new-bert", 10.0, workload="bert")
    store("old-lost", 10.0, workload="retinanet")
    mlbench("baseline", "save", "old", "old", "old-bert", "old-lost")


def strictly(text):
    """Read JSON as the standard has it: NaN and Infinity are not JSON."""

    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def cells(markdown):
    """Return the tables of a page as a CommonMark parser sees them: rows of cells."""
    rows = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows is not None and token.level >= 4:
            rows[-1].append(token.content)
    return rows


def test_parquet_by_arrow(store, a_failure, mlbench, tmp_path, results):
    parquet = pytest.importorskip("pyarrow.parquet")
    store("night", 91.5, settings={"backend.text": {"value": AWKWARD, "layer": "command line"}})
    (results / "failed").mkdir()
    (results / "failed" / "record.json").write_text(a_failure.model_copy(update={"run_id": "failed"}).text())
    mlbench("export", tmp_path / "runs.parquet")
    failed, night = parquet.read_table(tmp_path / "runs.parquet").to_pylist()
    assert (night["run_id"], night["value"], night["is_valid"]) == ("night-0", 91.5, True)
    assert night["duration_ns"] == 53_998_030_051
    assert night["created"] == datetime(2026, 11, 22, 17, 25, 10, 693806)
    assert json.loads(night["settings"])["backend.text"]["value"] == AWKWARD
    assert (failed["run_id"], failed["value"], failed["failure"]) == ("failed", None, "crash")


def test_csv_of_an_export(store, mlbench, tmp_path):
    store("night", 91.5, settings={"backend.text": {"value": AWKWARD, "layer": "command line"}})
    mlbench("export", tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert float(row["value"]) == 91.5
    assert json.loads(row["settings"])["backend.text"]["value"] == AWKWARD


def test_csv_of_an_answer(store, mlbench):
    store("night", 91.5)
    sql = f"SELECT '{AWKWARD}' AS text, value, NULL AS nothing FROM runs"
    assert list(csv.reader(io.StringIO(mlbench("query", sql, "--csv"), newline=""))) == [
        ["text", "value", "nothing"],
        [AWKWARD, "91.5", ""],
    ]


def test_json_of_an_answer(store, mlbench):
    store("night", 91.5)
    sql = f"SELECT '{AWKWARD}' AS text, value, NULL AS nothing, created FROM runs"
    (row,) = strictly(mlbench("query", sql, "--json"))
    created = row.pop("created")
    assert row == {"text": AWKWARD, "value": 91.5, "nothing": None}
    assert datetime.fromisoformat(created).replace(tzinfo=UTC) == datetime(2026, 11, 22, 17, 25, 10, 693806, tzinfo=UTC)


def test_json_of_an_answer_that_is_no_number(store, mlbench):
    store("night", 91.5)
    (row,) = strictly(mlbench("query", "SELECT 'nan'::DOUBLE AS a, '-inf'::DOUBLE AS b FROM runs", "--json"))
    assert row == {"a": None, "b": None}


def test_a_record_by_a_reader_of_json_schema(store, mlbench):
    store("night", 91.5)
    schema = json.loads(SCHEMA_FILE.read_text())
    record = strictly(mlbench("show", "night-0", "--json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(record, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "tier": "quick"}, schema)


def test_json_of_a_comparison_has_null_for_an_unknown_end(a_slower_night, mlbench):
    content = strictly(mlbench("compare", "old-bert", "new-bert", "--json"))
    assert content["cells"][0]["speeds"][0]["effect"]["high"] is None


def test_junit_by_junitparser(a_slower_night, mlbench, tmp_path, results):
    file = tmp_path / "junit.xml"
    for old in results.glob("old*"):  # what is new is all that is left in the folder
        old.rename(tmp_path / old.name)
    mlbench("regress", results, "--baseline", "old", "--junit", file)
    suite = junitparser.JUnitXml.fromfile(str(file))
    found = {(case.classname, case.name): case.result for each in suite for case in each}
    assert (suite.tests, suite.failures, suite.skipped) == (len(found), 2, 1)
    (slower,) = found[("resnet50.odd|name.Offline.fp32", "throughput")]
    assert isinstance(slower, junitparser.Failure)
    assert slower.message.startswith("slower: 100 samples/s, then 40.0 samples/s")
    (untold,) = found[("bert.pytorch.Offline.fp32", "throughput")]
    assert isinstance(untold, junitparser.Skipped)
    (lost,) = found[("retinanet.pytorch.Offline.fp32", "present")]
    assert isinstance(lost, junitparser.Failure)
    assert found[("bert.pytorch.Offline.fp32", "accuracy, acc")] == []


def test_markdown_of_a_comparison_by_commonmark(a_slower_night, mlbench):
    header, *rows = cells(mlbench("compare", "old", "new", "--markdown"))
    assert header == ["runs", "measure", "base", "new", "change", "interval", "detectable", "verdict"]
    assert {len(row) for row in rows} == {8}
    assert rows[0][0] == "resnet50 odd|name Offline fp32"
    assert rows[0][-1] == "slower"


def test_markdown_of_what_passes_where_by_commonmark(a_slower_night, mlbench):
    header, *rows = cells(mlbench("table", "--markdown"))
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert {"bert", "resnet50", "retinanet"} <= table.keys()
    assert table["bert"]["odd|name fp32"] == "untested"
    assert table["bert"]["pytorch fp32"] == "1 of 3 scenarios (SingleStream, Server: untested)"
