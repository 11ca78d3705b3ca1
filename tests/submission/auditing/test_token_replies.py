"""The verdict on TEST06 of Llama 2: expected values are the table of the rules on logs of a few replies, by hand."""

import json
import re
from pathlib import Path

import pytest
from altered_replies import tokens

from mlbench.errors import DataError
from mlbench.loadgen.scenarios import OFFLINE, SERVER
from mlbench.records.run_record import RunRecord
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.submission.auditing.plan import AuditPlan
from mlbench.submission.auditing.reply_tests import judge_tokens

RECORD = Path(__file__).parents[2] / "data/records/llama2-70b-onnxruntime-Server.json"
DETAIL = """:::MLLOG {{"key": "generated_query_count", "value": {queries}}}
:::MLLOG {{"key": "generated_samples_per_query", "value": {samples}}}
:::MLLOG {{"key": "effective_test_mode", "value": "PerformanceOnly"}}
:::MLLOG {{"key": "result_query_count", "value": {queries}}}
:::MLLOG {{"key": "result_validity", "value": "VALID"}}
"""
SENT = 100

ANSWER = {"data": tokens(5, 6, 2), "token_data": tokens(5), "token_count": 3}


@pytest.fixture
def judge(plugins, tmp_path):
    """Return a function that judges a log of some replies, the others of which are sound."""

    def judge(replies, scenario=SERVER, count=SENT, **changes):
        folder = tmp_path / "performance"
        folder.mkdir()
        entries = [ANSWER | changed for changed in (*replies, *[{}] * (count - len(replies)))]
        lines = (json.dumps({"seq_id": place, "qsl_idx": 7 * place} | each) for place, each in enumerate(entries))
        (folder / "mlperf_log_accuracy.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        sent = {"queries": 1, "samples": SENT} if scenario is OFFLINE else {"queries": SENT, "samples": 1}
        (folder / "mlperf_log_detail.txt").write_text(DETAIL.format(**sent))
        record = RunRecord.model_validate(
            json.loads(RECORD.read_text())
            | {"scenario": scenario.name, "scenario_facts": ScenarioRecord.of(scenario).model_dump()}
            | changes
        )
        plan = AuditPlan(record=record, folder=tmp_path, place=tmp_path, tests=())
        return judge_tokens(plan, tmp_path, plugins)

    return judge


@pytest.mark.parametrize(
    ("reply", "checks", "passes_official", "passes"),
    [
        ({}, (True, True, True), True, True),
        ({"token_data": ""}, (False, True, True), True, False),
        ({"token_data": tokens(6)}, (False, True, True), False, False),
        ({"token_data": tokens(5, 6)}, (True, True, True), True, True),
        ({"data": tokens(5, 2, 2)}, (True, False, True), False, False),
        ({"data": tokens(2, 2), "token_data": tokens(2), "token_count": 2}, (True, True, True), True, True),
        ({"data": tokens(2, 2, 2), "token_data": tokens(2)}, (True, False, True), False, False),
        ({"data": tokens(5, 2, 6)}, (True, True, True), True, True),
        ({"token_count": 4}, (True, True, False), False, False),
        ({"token_count": 0}, (True, True, False), False, False),
        ({"data": tokens(5, 6, 2) + "00"}, (True, True, False), False, False),
    ],
    ids=[
        "sound",
        "no first token",
        "another first token",
        "two tokens as the first",
        "two end tokens",
        "nothing but two end tokens",
        "three end tokens",
        "an end token inside",
        "a count too high",
        "no count",
        "a byte too many",
    ],
)
def test_one_reply_of_a_hundred_decides(judge, reply, checks, passes_official, passes):
    found = judge([reply])
    assert re.findall(r"check pass: (\w+)", found.text) == [str(each) for each in checks]
    assert (found.official_passed, found.passed) == (passes_official, passes)
    assert found.text.endswith(f"TEST06 verification {'complete' if passes else 'failed'}\n")


def test_first_tokens_are_not_asked_for_where_all_samples_are_sent_at_once(judge):
    found = judge([{"token_data": ""}], OFFLINE)
    assert found.text.startswith("First token check pass: Skipped\n")
    assert (found.official_passed, found.passed) == (True, True)


def test_the_script_that_is_given_the_end_token_as_text_passes_five_of_them_and_that_is_said(judge):
    found = judge([{"data": tokens(5, 2, 2, 2, 2, 2), "token_count": 6}])
    assert not found.passed
    assert "the official script passes them where the end token is given on its command line" in found.findings


@pytest.mark.parametrize(("count", "passes"), [(50, True), (49, False)])
def test_half_of_what_was_sent_must_be_logged_and_the_script_takes_any_log(judge, count, passes):
    found = judge([], count=count)
    assert (found.official_passed, found.passed) == (True, passes)
    assert ("at least 50 replies must be logged" in found.findings) is not passes


def test_three_faults_are_named_and_all_counted(judge):
    found = judge([{"token_count": 9}] * 5)
    assert found.findings[0] == "100 replies, 5 faults"
    assert [line.partition(":")[0] for line in found.findings[1:]] == ["sample 0", "sample 7", "sample 14"]


def test_a_model_that_answers_with_text_is_refused(judge):
    with pytest.raises(DataError, match="prompts answers with text here"):
        judge([], workload="prompts", settings={})
