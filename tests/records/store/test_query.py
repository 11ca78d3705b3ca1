"""Questions about stored records, checked against the records; exports, read by readers that are not ours."""

import csv
import json
import os
import shutil

import duckdb
import pytest

from mlbench import DataError, UsageError
from mlbench.records.store import index
from mlbench.records.store.query import ask, export


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def store(results, a_run):
    """Store a record in the results folder, and return its folder."""

    def store(run_id, **changes):
        folder = results / run_id
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(a_run(run_id=run_id, **changes).text())
        return folder

    return store


def test_a_run_is_a_row_with_its_result_and_verdict(results, store):
    store("one", tag="nightly", peak_memory_bytes=5)
    columns = "run_id, workload, value, unit, is_valid, tag, peak_memory_bytes"
    answer = ask(results, f"SELECT {columns} FROM runs")
    assert answer.columns == tuple(columns.split(", "))
    assert answer.rows == (("one", "resnet50", 684.592, "samples/s", True, "nightly", 5),)


def test_energy_work_and_share_are_columns(results, store):
    energy = {"joules": 50.0, "seconds": 2.0, "source": "RAPL", "covers": "package-0", "joules_per_sample": 0.5}
    work = {"graphs": [], "operations_per_sample": 8e9, "bytes_per_sample": 1e8, "samples_per_s": 50.0}
    other_work = {"processes": 0.25, "stolen": 0.125}
    store("one", energy=energy, work={**work, "useful_share": 1.0}, other_work=other_work)
    columns = "joules, joules_per_sample, watts, operations_per_sample, bytes_per_sample, ceiling_share, other_work"
    assert ask(results, f"SELECT {columns} FROM runs").rows == ((50.0, 0.5, 25.0, 8e9, 1e8, None, 0.375),)


def test_scores_and_latencies_are_tables_of_their_own(results, store):
    store("one")
    assert ask(results, "SELECT score, value, is_met FROM accuracy").rows == (("acc", 98.99396378269617, True),)
    assert ask(results, "SELECT ns FROM latency WHERE name = '99.00_percentile_latency'").rows == ((2_286_033_966,),)


def test_a_failed_run_is_a_row_without_a_result(results, a_failure):
    (results / "bad").mkdir(parents=True)
    (results / "bad" / "record.json").write_text(a_failure.text())
    assert ask(results, "SELECT status, failure, value FROM runs").rows == (("failed", "crash", None),)


def test_settings_and_versions_can_be_asked_for(results, store, environment):
    settings = {"execution.batch": {"value": 32, "layer": "command line"}}
    store("one", settings=settings, environment=environment.model_copy(update={"libraries": {"torch": "2.15.0"}}))
    sql = "SELECT settings->'execution.batch'->>'value', libraries['torch'] FROM runs"
    assert ask(results, sql).rows == (("32", "2.15.0"),)


def test_new_runs_are_seen_and_deleted_ones_gone(results, store, monkeypatch):
    monkeypatch.setattr(index, "_KEPT_FROM", 1)
    first = store("one")
    assert ask(results, "SELECT count(*) FROM runs").rows == ((1,),)
    store("two")
    assert ask(results, "SELECT run_id FROM runs ORDER BY run_id").rows == (("one",), ("two",))
    shutil.rmtree(first)
    assert ask(results, "SELECT run_id FROM runs").rows == (("two",),)


def test_a_folder_is_looked_through_again_only_when_a_run_came_or_went(results, store, monkeypatch):
    monkeypatch.setattr(index, "_KEPT_FROM", 1)
    first = store("one")
    os.utime(results, (1, 1))  # long ago, so that the next change can be told from this
    assert ask(results, "SELECT run_id FROM runs").rows == (("one",),)
    shutil.rmtree(first)
    os.utime(results, (1, 1))
    assert ask(results, "SELECT run_id FROM runs").rows == (("one",),)  # as nothing says that it went
    store("two")
    assert ask(results, "SELECT run_id FROM runs").rows == (("two",),)


def test_published_results_are_a_table_beside_them(results, store):
    store("one")
    assert ask(results, "SELECT count(*) FROM published").rows == ((937,),)


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT count(*) FROM runs JOIN Published p ON p.benchmark = 'resnet'", 111),
        ("SELECT count(*) FROM (SHOW TABLES)", 7),
        ('SELECT sum(value) > 0 FROM (SELECT value FROM runs UNION ALL SELECT value FROM "published")', True),
    ],
)
def test_published_results_are_there_for_each_query_that_could_ask_for_them(results, store, sql, answer):
    store("one")
    assert ask(results, sql).rows[0][0] == answer


def test_a_question_reads_nothing_but_the_tables(results, store, tmp_path):
    store("one")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM '{tmp_path}/secret.csv'",
        f"COPY runs TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/other.duckdb'",
        "SET enable_external_access = true",
        "DELETE FROM stored.records",
        "CREATE TABLE mine AS SELECT * FROM runs",
    ):
        with pytest.raises(UsageError, match="the query failed"):
            ask(results, sql)
    assert not (tmp_path / "out.csv").exists()
    assert ask(results, "SELECT count(*) FROM runs").rows == ((1,),)


@pytest.mark.parametrize("sql", ["SELCT 1", "SELECT colour FROM runs", "SELECT * FROM rums", ""])
def test_a_malformed_question_names_the_tables(results, store, sql):
    store("one")
    with pytest.raises(UsageError, match="Tables are runs, accuracy, latency, telemetry, published"):
        ask(results, sql)


def test_an_empty_folder_and_a_corrupt_record_are_reported(results, store):
    with pytest.raises(UsageError, match="no runs in"):
        ask(results, "SELECT 1")
    (store("one") / "record.json").write_text("{")
    with pytest.raises(DataError, match=r"no run in .* can be read: 1 run found: .*corrupt: .*one/record\.json"):
        ask(results, "SELECT 1")


def test_csv_holds_a_line_per_run(results, store, tmp_path):
    store("one")
    store("two", workload="bert")
    assert export(results, tmp_path / "runs.csv", "csv") == 2
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run_id"], row["workload"], float(row["value"])) for row in rows] == [
        ("one", "resnet50", 684.592),
        ("two", "bert", 684.592),
    ]


def test_parquet_keeps_types(results, store, tmp_path):
    store("one")
    export(results, tmp_path / "runs.parquet", "parquet")
    rows = duckdb.sql(f"SELECT run_id, value, duration_ns, is_valid FROM '{tmp_path}/runs.parquet'").fetchall()
    assert rows == [("one", 684.592, 53_998_030_051, True)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results", "runs.parquet"]


def test_a_file_that_cannot_be_written_is_reported_and_nothing_is_left(results, store, tmp_path):
    store("one")
    with pytest.raises(UsageError, match="cannot be written"):
        export(results, tmp_path / "nowhere" / "runs.csv", "csv")
    assert json.loads((results / "one" / "record.json").read_text())["run_id"] == "one"


PUBLISHED = [
    ("SELECT count(*) FROM published", 937),
    ("SELECT count(*) FROM nvidia_tables", 70),
    ("SELECT count(*) FROM claims", 187),
    ("SELECT value FROM published WHERE result_id = '4.1-0074' AND accuracy_variant = '99' LIMIT 1", 11264.4),
    ("WITH previews AS (SELECT * FROM published WHERE availability = 'preview') SELECT count(*) FROM previews", 50),
    (
        "SELECT official_value FROM Nvidia_Tables WHERE official_result_id = '4.1-0074' AND scenario = 'Offline'",
        11264.4,
    ),
    ("SELECT \"check\" FROM claims WHERE claim_id = 'C128'", "misses its 99% limit by 0.0009"),
]


@pytest.mark.parametrize(
    ("folder", "sql", "answer"),
    [*(("missing", *each) for each in PUBLISHED), ("empty", *PUBLISHED[0]), ("with a run", *PUBLISHED[0])],
)
def test_what_was_published_can_be_asked_for_before_a_first_run(results, store, folder, sql, answer):
    if folder == "empty":
        results.mkdir()
    if folder == "with a run":
        store("one")
    assert ask(results, sql).rows == ((answer,),)


@pytest.mark.parametrize("sql", ["SELECT * FROM runs", "SELECT * FROM runs, published", "SELECT 1", "SELCT published"])
def test_other_questions_need_a_run(results, sql):
    with pytest.raises(UsageError, match="no runs in"):
        ask(results, sql)


def test_a_wrong_question_about_what_was_published_is_reported_without_a_run(results):
    with pytest.raises(UsageError, match="colour"):
        ask(results, "SELECT colour FROM published")
