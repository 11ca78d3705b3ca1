"""The stored form of a run: it comes back as it went, and nothing else is taken for it."""

import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError

from mlbench.errors import DataError
from mlbench.execution.processes.isolation import Failure, FailureKind
from mlbench.loadgen.logs import read_detail, result_of
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.records.run_record import FORMAT, AccuracyRecord, FailureRecord, RuleRecord, RunRecord, read
from mlbench.records.schema import SCHEMA_FILE, schema_text
from mlbench.reports.console import standing
from mlbench.rules.facts import RuleKind, RuleResult


@pytest.fixture
def stored(tmp_path):
    """Return a function that writes a record, changed, and gives its path."""

    def write(record, **changes):
        file = tmp_path / "record.json"
        file.write_text(json.dumps(json.loads(record.text()) | changes))
        return file

    return write


def test_a_record_comes_back_as_it_went(a_run, a_failure, stored):
    for record in (a_run(), a_failure):
        assert read(stored(record)) == record


def test_a_record_is_found_in_its_run_folder(a_run, stored):
    assert read(stored(a_run()).parent) == a_run()


@pytest.mark.parametrize("run_id", ["../../home", "/etc", "a/b", "..", ".", ""])
def test_an_id_leads_to_no_folder_but_one_beside_others(a_run, stored, run_id):
    """Folders are named by it: those of compliance tests, and a run's in a folder of results."""
    with pytest.raises(DataError, match=r"run_id: .* is not a name of a folder"):
        read(stored(a_run(), run_id=run_id))


def test_seeds_keep_all_their_digits(a_run):
    """They exceed what a double can hold."""
    assert '"sample_index": 10688027786191513374' in a_run().text()


def test_moments_are_stored_in_utc(a_run):
    east = datetime(2026, 11, 21, 9, 45, 1, tzinfo=timezone(timedelta(hours=9)))
    assert a_run(created=east).created == datetime(2026, 11, 21, 0, 45, 1, tzinfo=UTC)
    assert '"created": "2026-11-21T00:45:01Z"' in a_run(created=east).text()


def test_a_moment_without_a_zone_is_refused(a_run):
    with pytest.raises(ValidationError, match="timezone"):
        a_run(created=datetime(2026, 11, 21))


def test_a_score_that_is_no_number_becomes_null(a_run):
    accuracy = json.loads(a_run().text())["accuracy"] | {"scores": {"acc": math.nan}}
    accuracy["targets"][0] |= {"value": math.nan, "is_met": False}
    record = a_run(accuracy=accuracy)
    assert record.accuracy.scores == {"acc": None}
    assert "NaN" not in record.text()


FAILURE = {"kind": "crash", "message": "the process was ended by SIGSEGV", "stage": "warm-up", "log_tail": ""}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"status": "failed", "failure": FAILURE},
        {"status": "completed", "result": None},
        {"status": "completed", "verdict": None},
        {"tier": "quick"},
        {"colour": "blue"},
    ],
)
def test_a_record_that_contradicts_itself_is_refused(a_run, changes):
    with pytest.raises(ValidationError):
        a_run(**changes)


def test_a_record_never_changes(a_run):
    with pytest.raises(ValidationError, match="frozen"):
        a_run().backend = "faster"


def test_rules_are_stored_in_the_form_the_verdict_gives_them():
    late = RuleResult(
        rule="latency_limit",
        measured=120_000_000,
        limit=100_000_000,
        unit="ns",
        passed=False,
        fix="Lower load.target_qps below 200.",
        source="mlperf.conf",
    )
    missed = dataclasses.replace(late, rule="accuracy.F1", measured=None, limit=89.9, kind=RuleKind.ACCURACY)
    strict = dataclasses.replace(late, measured=True, limit="VALID", required=False)
    for result in (late, missed, strict):
        values = dataclasses.asdict(result)
        assert RuleRecord.model_validate(values).model_dump() == values


@pytest.mark.parametrize("kind", FailureKind)
def test_every_way_a_run_can_fail_is_stored(kind):
    failure = Failure(kind=kind, message="it ended", stage="warm-up", log_tail="")
    assert FailureRecord.model_validate(failure).model_dump() == dataclasses.asdict(failure)


def test_a_newer_format_asks_for_an_upgrade(a_run, stored):
    with pytest.raises(DataError, match=r"run folder of format 7; this mlbench reads up to 4.*Upgrade mlbench"):
        read(stored(a_run(), format=7, what_only_format_7_has=1))


def test_the_very_next_format_asks_for_an_upgrade_too(a_run, stored):
    with pytest.raises(DataError, match=rf"run folder of format {FORMAT + 1}; this mlbench reads up to {FORMAT}"):
        read(stored(a_run(), format=FORMAT + 1))


@pytest.mark.parametrize("score", [math.inf, -math.inf, math.nan])
def test_a_score_that_is_no_number_is_stored_as_null(a_run, score):
    accuracy = a_run().accuracy.model_dump() | {"scores": {"acc": score, "f1": 90.5}}
    record = RunRecord.model_validate_json(a_run(accuracy=accuracy).text())
    assert record.accuracy.scores == {"acc": None, "f1": 90.5}


@pytest.mark.parametrize("text", ["", "{", '{"format": 1', "\x80"])
def test_broken_json_is_one_clear_line(tmp_path, text):
    (tmp_path / "record.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"run record is (corrupt|not text): .*record\.json") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "1"}', '{"format": true}', '{"format": 0}'])
def test_json_of_something_else_is_no_record(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(DataError, match="no run record"):
        read(tmp_path)


def test_a_wrong_field_is_named(a_run, stored):
    with pytest.raises(DataError, match=r"corrupt: .*: duration_ns: .*valid integer") as caught:
        read(stored(a_run(), duration_ns="long"))
    assert "\n" not in str(caught.value)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read: .*record\.json: No such file"):
        read(tmp_path / "record.json")


def test_the_schema_beside_the_code_is_that_of_the_code():
    """Write it anew with ``python -m mlbench.records.schema``."""
    assert SCHEMA_FILE.read_text() == schema_text()


def test_the_schema_describes_every_field(a_run):
    schema = json.loads(SCHEMA_FILE.read_text())
    assert schema["properties"].keys() == json.loads(a_run().text()).keys() == RunRecord.model_fields.keys()


def test_a_result_of_loadgen_fits_the_record(a_run):
    log = Path(__file__).parents[1] / "data" / "loadgen" / "offline.detail.txt"
    result = dataclasses.asdict(result_of(read_detail(log), OFFLINE))
    assert a_run(result=result).result.value == 91.6286


def test_the_scores_of_an_older_record_get_the_submission_checkers_names(a_run, stored):
    target = {"name": "99", "reference": 99.0, "lower": 98.0, "upper": None, "required": True, "value": 98.9}
    rule = {"measured": 98.9, "limit": 98.0, "unit": "", "passed": True, "required": True, "fix": "", "source": ""}
    old = stored(
        a_run(),
        format=2,
        workload="resnet50",
        accuracy={
            "scores": {"top1": 98.9, "good": 492},
            "targets": [{"score": "top1", "is_met": True, **target}],
            "line": "accuracy=98.900%",
            "is_met": True,
        },
        verdict={
            **a_run().verdict.model_dump(),
            "rules": [{"rule": "accuracy.top1@99", "kind": "accuracy", **rule}],
        },
    )
    record = read(old)
    assert record.accuracy.scores == {"acc": 98.9, "good": 492}
    assert [each.score for each in record.accuracy.targets] == ["acc"]
    assert [each.rule for each in record.verdict.rules] == ["accuracy.acc@99"]


def test_a_workload_from_outside_keeps_its_names_of_scores(a_run, stored):
    scores = {"scores": {"top1": 91.3}, "targets": [], "line": "", "is_met": True}
    assert read(stored(a_run(), format=2, workload="digits", accuracy=scores)).accuracy.scores == {"top1": 91.3}


def test_a_valid_and_accurate_run_whose_speed_could_not_be_checked_says_so(a_run):
    record = a_run()
    assert record.unchecked == []
    fields = {"is_valid": True, "is_accurate": True, "not_applied": {"timed_answers": "no torch"}}
    accuracy = AccuracyRecord(scores={}, targets=[], line="", is_met=True)
    unchecked = {"verdict": record.verdict.model_copy(update=fields), "accuracy": accuracy, "format": 4}
    assert record.model_copy(update=unchecked).unchecked == ["timed_answers"]
    assert standing(record.model_copy(update=unchecked)) == "not checked"
    assert record.model_copy(update=unchecked | {"format": 3}).unchecked == []
