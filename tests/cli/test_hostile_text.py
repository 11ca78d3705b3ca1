"""A record whose texts are written to be taken for something else, through every command that prints what is stored."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import duckdb
import pytest
from invoking import invoke, refusal
from pydantic import ValidationError

from mlbench.records.run_record import RunRecord

MARKER = "planted"
HOSTILE = (
    "=planted()[/x][bold]\x1b]0;planted\x07\x1b[2J\x9b31m\x00\u202e\u2028<script>alert('planted')</script></pre>|"
    "[a](http://planted)![b](http://planted)`**\r\nvalid forged\n# forged\n| forged |"
)
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def is_record(document):
    try:
        RunRecord.model_validate(document)
    except ValidationError:
        return False
    return True


def plant_in(document, holder, key):
    """Put the hostile text in a value of a record, and as a key into mappings, where a record remains."""
    value = holder[key]
    if isinstance(value, str):
        holder[key] = HOSTILE
        if not is_record(document):
            holder[key] = value
        return
    places = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for place in places:
        plant_in(document, value, place)
    if isinstance(value, dict) and value:
        value[HOSTILE] = next(iter(value.values()))
        if not is_record(document):
            del value[HOSTILE]


def plant(record):
    """Return a record's JSON with hostile texts wherever the form allows one."""
    document = json.loads(record)
    for key in set(document) - {"run_id", "scenario", "tag"}:  # which these tests ask for
        plant_in(document, document, key)
    return document


@pytest.fixture(scope="module")
def results(one_run, tmp_path_factory):
    """Return a folder of hostile records: of a run that counts, of one that is INVALID, and of one that failed."""
    results = tmp_path_factory.mktemp("hostile")
    text = (one_run / "record.json").read_text()
    document = json.loads(text)
    for rule in document["verdict"]["rules"]:
        rule |= {"fix": "change it", "passed": False, "measured": "low", "limit": "high", "unit": "units"}
    document["verdict"] |= {"is_valid": False}
    failure = {"kind": "crash", "message": "it ended", "stage": "warm-up", "log_tail": "a\nb"}
    failed = {"status": "failed", "failure": failure, "result": None, "accuracy": None, "verdict": None}
    records = {
        "counts": plant(text),
        "again": plant(text),
        "invalid": plant(json.dumps(document)),
        "failed": plant(json.dumps(document | failed)),
        "offline": plant(text),
    }
    for name, record in records.items():
        record |= {"run_id": name, "tag": name, "scenario": "Offline" if name == "offline" else "SingleStream"}
        if name in ("counts", "again", "offline"):
            record["verdict"] |= {"is_valid": True, "is_accurate": True}
        if name == "offline":
            record["result"] |= {"unit": "samples/s", "higher_is_better": True}
        (results / name).mkdir()
        (results / name / "record.json").write_text(json.dumps(record))
    return results


@pytest.fixture
def mlbench(results, tmp_path, monkeypatch):
    """Run a command that must end as commands end, and print nothing that acts; return what it printed."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.toml").write_text('currency = "USD"\n[per_hour]\nsmall = 1.0\n')

    def run(*arguments):
        done = invoke(*arguments)
        assert done.exit_code in (0, 1, 2), done.output
        assert isinstance(done.exception, SystemExit | None), repr(done.exception)
        for printed in (done.stdout, done.stderr):
            assert not ACTING.search(printed), ACTING.search(printed)
        if done.exit_code == 2:
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done

    return run


def test_the_records_are_hostile(results):
    """Else the others show nothing."""
    text = (results / "counts" / "record.json").read_text()
    assert text.count(MARKER) > 200
    assert {json.loads(text)[field] for field in ("workload", "backend", "precision")} == {HOSTILE}


@pytest.mark.parametrize(
    "arguments",
    [
        *(["show", name] for name in ("counts", "invalid", "failed")),
        ["table"],
        ["table", "counts", "failed"],
        ["history"],
        ["compare", "counts", "again"],
        ["compare", "counts", "invalid"],
        ["compare", "counts", "failed"],
        ["query", "SELECT workload FROM runs"],
        ["query", "SELECT 1 AS \"[/planted]\", '[/y]' AS a"],
        ["query", "SELECT * FROM accuracy"],
        ["query", "SELECT * FROM latency"],
        ["cost", "small=offline", "--price", "prices.toml"],
        ["published", "--place", "counts"],
        ["verify", "counts"],
        ["verify", "failed"],
        ["baseline", "save", "good", "counts"],
    ],
    ids=" ".join,
)
def test_what_is_printed_is_text(mlbench, arguments):
    done = mlbench(*arguments)
    printed = done.stdout + done.stderr
    assert "\nvalid forged" not in printed
    assert MARKER in printed or arguments[0] in ("baseline", "published", "verify")


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "counts", "--json"],
        ["history", "--json"],
        ["compare", "counts", "again", "--json"],
        ["query", "SELECT * FROM runs", "--json"],
    ],
    ids=" ".join,
)
def test_json_says_what_is_stored(mlbench, arguments):
    done = mlbench(*arguments)
    assert done.exit_code == 0, done.output
    assert HOSTILE in texts_of(json.loads(done.stdout))


def texts_of(value):
    if isinstance(value, dict):
        return {text for pair in value.items() for each in pair for text in texts_of(each)}
    if isinstance(value, list):
        return {text for each in value for text in texts_of(each)}
    return {value} if isinstance(value, str) else set()


def test_csv_holds_no_formula(mlbench, tmp_path):
    printed = mlbench("query", "SELECT workload, backend, -1 AS number, '@a' AS a, '-' AS b FROM runs", "--csv").stdout
    assert mlbench("export", "runs.csv").exit_code == 0
    for text in (printed, (tmp_path / "runs.csv").read_text()):
        rows = list(csv.reader(io.StringIO(text)))
        assert len(rows) == 6
        assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "@", "\t", "\r")]
    assert "'=planted()" in (tmp_path / "runs.csv").read_text()
    assert [row["number"] for row in csv.DictReader(io.StringIO(printed))] == ["-1"] * 5


def test_parquet_holds_what_is_stored(mlbench, tmp_path):
    assert mlbench("export", "runs.parquet").exit_code == 0
    assert duckdb.sql(f"SELECT DISTINCT workload FROM '{tmp_path}/runs.parquet'").fetchall() == [(HOSTILE,)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["table", "--markdown", "counts", "invalid", "failed"],
        ["compare", "counts", "again", "--markdown"],
        ["compare", "counts", "failed", "--markdown"],
        ["report", "--markdown"],
        ["report", "--markdown", "--compare", "counts", "again"],
        ["report", "--markdown", "offline", "--cost", "small=offline", "--price", "prices.toml"],
    ],
    ids=" ".join,
)
def test_markdown_holds_no_tag_link_or_line_of_theirs(mlbench, arguments):
    page = mlbench(*arguments).stdout
    assert MARKER in page
    assert "<script" not in page
    assert not re.search(r"(?<!\\)\]\(http://planted", page)
    assert not re.search(r"^(valid forged|# forged)", page, re.MULTILINE)
    tables = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in table.splitlines()}
        assert len(widths) == 1, table


class Tags(HTMLParser):
    """Counts tags."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        assert not [name for name, _ in attributes if name.startswith("on")]


@pytest.mark.slow
def test_the_page_has_no_script_but_its_own(mlbench, tmp_path):
    pytest.importorskip("jinja2")
    done = mlbench("report", "-o", "report.html", "--compare", "counts", "again")
    assert done.exit_code == 0, done.output
    tags = Tags()
    tags.feed((tmp_path / "report.html").read_text())
    assert tags.counts["script"] == 1
    assert MARKER in (tmp_path / "report.html").read_text()


def test_junit_is_xml_and_markdown_of_a_regression_is_text(mlbench, tmp_path):
    assert mlbench("baseline", "save", "good", "counts", "--results", tmp_path).exit_code == 2
    assert mlbench("baseline", "save", "good", "counts").exit_code == 0
    done = mlbench("regress", "failed", "--baseline", "good", "--junit", "j.xml", "--markdown", "s.md")
    assert done.exit_code == 1, done.output
    cases = ElementTree.parse(tmp_path / "j.xml").findall("testcase")
    assert any(MARKER in case.get("classname") for case in cases)
    assert "<script" not in (tmp_path / "s.md").read_text()
    for arguments in (["list"], ["show", "good"], ["show", "good", "--json"], ["remove", "good"]):
        assert mlbench("baseline", *arguments).exit_code == 0


def test_a_suite_that_finds_such_records_goes_on(mlbench, tmp_path):
    (tmp_path / "suite.toml").write_text(
        'name = "counts"\n[[runs]]\nworkload = "resnet50"\nbackend = "null"\nscenario = "SingleStream"\n'
        'settings = { "load.speed" = 1 }\n'
    )
    assert mlbench("run", "--suite", "suite.toml").exit_code == 2


def test_an_error_that_quotes_a_file_name_is_one_plain_line(mlbench):
    assert r"no run 'no\x1b[31m\nsuch\udcff'" in refusal(mlbench("show", "no\x1b[31m\nsuch\udcff"))
