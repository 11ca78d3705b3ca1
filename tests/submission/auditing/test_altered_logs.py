"""Real logs of TEST01, TEST05 and TEST06, altered: which verdict they get, and which one the official scripts give.

What the official scripts say is worked out by hand from them: TEST01's compares the first byte of each reply with the
accuracy test's, of a sample's later replies with the one before; it passes over samples that have no reference. The
script of TEST06 looks at the reported first token, the last two tokens, and the count of each reply.
"""

import json
import re
from pathlib import Path

import pytest
from altered_replies import counts, repeated_indices, tokens, with_entries, with_one

from mlbench.reports.audit import verdict_lines
from mlbench.submission.auditing.verdicts import AuditVerdict

pytestmark = pytest.mark.thorough("submission")

REPLIES, DETAIL = "mlperf_log_accuracy.json", "mlperf_log_detail.txt"
ONE = "0000803F"
"""The label 1 as float32; right are zeros. The lowest byte of both is 0."""
NO_LABEL = "00404244"
"""777 as float32."""
OTHER = "01000000"
"""Four bytes of which the first is not 0."""
NEVER_ASKED = 100_000


def alter_all(entries):
    for entry in entries:
        entry["data"] = ONE


def add_wrong_repeats(entries):
    known = {entry["qsl_idx"]: entry for entry in entries}
    entries.extend({**entry, "data": NO_LABEL} for entry in known.values())


def alter_a_sample_that_is_repeated(entries):
    index = entries[repeated_indices(entries)[0]]["qsl_idx"]
    for entry in entries:
        if entry["qsl_idx"] == index:
            entry["data"] = OTHER


def keep_a_tenth(entries):
    del entries[len(entries) // 10 :]


def with_times(text, factor):
    """Return a detail log whose latencies are longer by a factor."""
    return re.sub(
        r'("result_[^"]*latency_ns", "value": )(\d+)', lambda found: f"{found[1]}{int(factor * int(found[2]))}", text
    )


CLASSIFIER = {
    "as it was": ("TEST01", REPLIES, lambda text: text + "\n"),
    "all labels wrong": ("TEST01", REPLIES, with_entries(alter_all)),
    "later labels wrong": ("TEST01", REPLIES, with_entries(add_wrong_repeats)),
    "a repeated sample": ("TEST01", REPLIES, with_entries(alter_a_sample_that_is_repeated)),
    "an absent sample": ("TEST01", REPLIES, with_one(0, qsl_idx=NEVER_ASKED)),
    "a tenth": ("TEST01", REPLIES, with_entries(keep_a_tenth)),
    "an old digest": ("TEST01", REPLIES, lambda text: text + "\n"),
    "halved times, an old digest": ("TEST04", DETAIL, lambda text: with_times(text, 0.5)),
    "halved times": ("TEST04", DETAIL, lambda text: with_times(text, 0.5)),
    "other seeds": ("TEST05", DETAIL, lambda text: text.replace("16799458546791641818", "3066443479025735752")),
}


@pytest.fixture(scope="module")
def label_verdicts(audited, judge_altered):
    return judge_altered(audited, CLASSIFIER)


@pytest.fixture(scope="module")
def entries(audited):
    return json.loads(Path(audited.made["TEST01"]["folder"], "performance", REPLIES).read_text())


def both(verdict):
    """Return the official verdict on the replies, and ours."""
    return verdict["replies"]["official_passed"], verdict["replies"]["passed"]


def test_what_was_not_altered_passes_both(label_verdicts):
    assert both(label_verdicts["as it was"]) == (True, True)


def test_wrong_labels_whose_first_byte_is_right_pass_the_official_script_alone(label_verdicts, entries):
    found = label_verdicts["all labels wrong"]
    assert both(found) == (True, False)
    assert counts(found["replies"]["text"])["num_perf_log_data_mismatch"] == 0
    assert f"{len(entries)} differ from the accuracy test's" in found["replies"]["findings"][0]


def test_so_do_wrong_labels_in_a_samples_later_replies(label_verdicts, entries):
    found = label_verdicts["later labels wrong"]
    assert both(found) == (True, False)
    distinct = len({entry["qsl_idx"] for entry in entries})
    assert f"{len(entries) + distinct} replies, {distinct} differ " in found["replies"]["findings"][0]


def test_the_official_script_counts_a_sample_that_is_always_wrong_once(label_verdicts, entries):
    index = entries[repeated_indices(entries)[0]]["qsl_idx"]
    wrong = sum(entry["qsl_idx"] == index for entry in entries)
    assert wrong > 1
    found = label_verdicts["a repeated sample"]
    assert counts(found["replies"]["text"])["num_perf_log_data_mismatch"] == 1
    assert f"{wrong} differ " in found["replies"]["findings"][0]


def test_a_sample_that_the_accuracy_test_never_asked_passes_the_official_script_alone(label_verdicts):
    found = label_verdicts["an absent sample"]
    assert both(found) == (True, False)
    assert counts(found["replies"]["text"])["num_missing_qsl_idxs"] == 1
    assert any(line.endswith(f"never answered: {NEVER_ASKED}") for line in found["replies"]["findings"])


def test_so_does_a_log_with_a_tenth_of_the_replies(label_verdicts):
    assert both(label_verdicts["a tenth"]) == (True, False)
    assert re.search(r"at least \d+ replies must be logged", str(label_verdicts["a tenth"]["replies"]["findings"]))


def test_scores_of_an_entry_of_99_9_may_be_a_tenth_as_far_apart(label_verdicts, audited, judge_altered):
    alterations = {"all labels wrong": CLASSIFIER["all labels wrong"]}
    found = judge_altered(audited, alterations, "--variant", "99.9")["all labels wrong"]
    assert found["replies"]["findings"][-1].endswith("limit 0.1 %")
    assert label_verdicts["all labels wrong"]["replies"]["findings"][-1].endswith("limit 1 %")


@pytest.mark.parametrize("name", ["an old digest", "halved times, an old digest", "halved times"])
def test_a_test_whose_log_is_not_its_records_does_not_pass(label_verdicts, name):
    found = label_verdicts[name]
    assert not found["passed"]
    assert any(line.startswith("the test's record differs from its logs: ") for line in found["problems"])


def test_a_record_that_says_all_is_well_does_not_decide(label_verdicts):
    """The first problem of a log with other times is not its digest, which was forged as well."""
    assert not any("logs." in line for line in label_verdicts["halved times"]["problems"])


def test_the_script_and_the_checker_each_have_their_word(tmp_path):
    """The checker accepts replies that the script finds to differ, where they score alike."""
    fields = {"test": "TEST01", "run_id": "a", "repeat": 1, "folder": tmp_path}
    line, *_ = verdict_lines(AuditVerdict(**fields, official_passed=False, checker_passed=True), "ns")
    assert "official script: fails, official checker: passes" in line
    line, *_ = verdict_lines(AuditVerdict(**fields, official_passed=True), "ns")
    assert "official script: passes)" in line


def test_a_test_under_other_seeds_does_not_pass(label_verdicts):
    found = label_verdicts["other seeds"]
    assert not found["passed"]
    assert "effective_qsl_rng_seed is 3066443479025735752, not 16799458546791641818" in found["problems"]


EIGHT = tokens(0, 0, 0, 0, 0, 0, 0, 2)
"""An answer of the null backend."""

CHAT = {
    "as it was": (lambda text: text + "\n", (True, True), (True, True, True)),
    "no first token": (with_one(3, token_data=""), (True, False), (False, True, True)),
    "another first token": (with_one(3, token_data=tokens(5)), (False, False), (False, True, True)),
    "one end token": (with_one(3, data=tokens(0, 2), token_count=2), (True, True), (True, True, True)),
    "two end tokens": (with_one(3, data=tokens(0, 2, 2), token_count=3), (False, False), (True, False, True)),
    "only two": (with_one(3, data=tokens(2, 2), token_data=tokens(2), token_count=2), (True, True), (True, True, True)),
    "a count of nine": (with_one(3, token_count=9), (False, False), (True, True, False)),
    "a token less": (with_one(3, data=EIGHT[16:]), (False, False), (True, True, False)),
    "a tenth": (with_entries(keep_a_tenth), (True, False), (True, True, True)),
}
"""By name: the alteration; what the official script says and what we say; which of our checks pass: of the first
token, of the end, of the length."""


@pytest.fixture(scope="module")
def token_verdicts(audited_chat, judge_altered):
    alterations = {name: ("TEST06", REPLIES, change) for name, (change, _, _) in CHAT.items()}
    return judge_altered(audited_chat, alterations)


@pytest.mark.parametrize("name", CHAT)
def test_an_altered_log_gets_the_verdicts_that_the_rules_give_by_hand(token_verdicts, name):
    _, passed, (first, end, length) = CHAT[name]
    found = token_verdicts[name]["replies"]
    assert (found["official_passed"], found["passed"]) == passed
    checks = re.findall(r"check pass: (\w+)", found["text"])
    assert checks == [str(first), str(end), str(length)]
    assert token_verdicts[name]["passed"] is passed[1]


def test_more_end_tokens_pass_the_official_script_that_is_given_the_token(token_verdicts):
    findings = token_verdicts["two end tokens"]["replies"]["findings"]
    assert "the official script passes them where the end token is given on its command line" in findings
    said = [
        name
        for name, each in token_verdicts.items()
        if any("command line" in line for line in each["replies"]["findings"])
    ]
    assert said == ["two end tokens"]


def test_a_fault_is_named_with_its_sample(token_verdicts, audited_chat):
    entries = json.loads(Path(audited_chat.made["TEST06"]["folder"], "performance", REPLIES).read_text())
    index = entries[3]["qsl_idx"]
    findings = token_verdicts["a count of nine"]["replies"]["findings"]
    assert f"sample {index}: token count 9 was reported for an answer of 8 tokens" in findings
