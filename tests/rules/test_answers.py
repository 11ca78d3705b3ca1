"""Rules about speed that was computed: each is met, broken by what it is for, and left out where nobody can tell."""

import struct

import pytest

from mlbench import LoggedReply
from mlbench.contracts.metric import OutputDifference
from mlbench.contracts.precision import Precision
from mlbench.rules.facts import SpotCheck, TimedAnswers, TokenAnswers
from mlbench.rules.token_compliance import Fault, TokenForm, faults_of, is_cut
from mlbench.rules.verdict import judge

GOOD = {"repeated": 1.1, "claimed": 1.4, "asked": 16}


@pytest.fixture
def verdict_on(facts_of):
    """Return the verdict on a sound run with this spot check, or these answers of tokens."""

    def verdict_on(**known):
        spots = SpotCheck(**{**GOOD, **known.pop("spots")}) if "spots" in known else None
        answers = TokenAnswers(**known.pop("answers")) if "answers" in known else None
        return judge(facts_of("offline", "OFFLINE", spot_check=spots, token_answers=answers, **known))

    return verdict_on


def failed(verdict):
    return {result.rule: result for result in verdict.failed}


def test_an_engine_that_computes_passes_all_of_them(verdict_on):
    answers = {"checked": 100, "faults": (), "cut": (), "lengths": [(30, 30)] * 100}
    verdict = verdict_on(spots={"first_token_steps": 1.7}, answers=answers)
    assert verdict.is_valid
    assert {
        "no_caching",
        "speed_holds",
        "answers_follow_content",
        "first_token_computed",
        "token_compliance",
        "answers_whole",
        "answers_as_long",
    } <= {result.rule for result in verdict.results}


@pytest.mark.parametrize("said", [3, "-1", "'many'"])
def test_prompts_that_an_engine_cut_make_a_run_invalid(verdict_on, said):
    (rule,) = verdict_on(truncated_prompts=said).failed
    assert (rule.rule, rule.measured, rule.limit) == ("prompts_whole", said, 0)
    assert rule.fix.startswith(f"Do not truncate prompts: {said} were")


@pytest.mark.parametrize("late", [0, 1, 3])
def test_times_of_a_client_that_was_late_make_a_run_invalid(verdict_on, late):
    verdict = verdict_on(late_clients=late)
    assert [rule.rule for rule in verdict.failed] == ["client_in_time"] * bool(late)
    (rule,) = [each for each in verdict.results if each.rule == "client_in_time"]
    assert (rule.measured, rule.limit, rule.passed) == (late, 0, not late)
    assert "client_in_time" not in {each.rule for each in verdict_on().results}


def test_an_engine_that_cut_none_passes_and_one_that_does_not_tell_is_not_asked(verdict_on):
    assert "prompts_whole" in {result.rule for result in verdict_on(truncated_prompts=0).results}
    verdict = verdict_on()
    assert verdict.is_valid
    assert "prompts_whole" not in {result.rule for result in verdict.results}


@pytest.mark.parametrize(
    ("spots", "rule", "told"),
    [
        ({"repeated": 332.7}, "no_caching", "repeated content is answered 332.7 times as fast"),
        ({"repeated": 3.0}, "no_caching", "3 times as fast"),
        ({"claimed": 54.3}, "speed_holds", "new content was 54.3 times slower than measured"),
        (
            {"wrong": (9, 4, 4, 7, 1, 3, 3, 3, 3), "kind": "under other indices"},
            "answers_follow_content",
            "wrong answers to samples under other indices: 1, 3, 4, 7, 9.",
        ),
        ({"first_token_steps": 0.001}, "first_token_computed", "it came after 0.001 of a decode step"),
    ],
)
def test_what_was_found_in_a_spot_check_makes_a_run_invalid(verdict_on, spots, rule, told):
    verdict = verdict_on(spots=spots)
    assert failed(verdict).keys() == {rule}
    assert told in failed(verdict)[rule].fix


@pytest.mark.parametrize(
    "spots", [{"repeated": 2.9}, {"claimed": 9.9}, {"wrong": range(8)}, {"first_token_steps": 0.25}]
)
def test_what_a_busy_machine_does_makes_no_run_invalid(verdict_on, spots):
    assert verdict_on(spots=spots).is_valid


def test_what_could_not_be_judged_is_not_a_fault_and_says_why(verdict_on):
    spots = {"repeated": None, "claimed": None, "untimed_reason": "answers come too fast to be timed", "asked": 0}
    verdict = verdict_on(spots=spots)
    assert verdict.is_valid
    assert verdict.not_applied["no_caching"] == verdict.not_applied["speed_holds"] == spots["untimed_reason"]
    assert "answers_follow_content" in verdict.not_applied
    unasked = verdict_on(unspotted_reason="there were invalid replies").not_applied
    assert unasked["no_caching"] == unasked["speed_holds"] == "there were invalid replies"


def test_one_fault_of_test06_makes_a_run_invalid_and_is_named(verdict_on):
    answers = {"checked": 100, "faults": ["sample 7: token count 440 was reported for an answer of 40 tokens"]}
    verdict = verdict_on(answers={**answers, "cut": ()})
    assert failed(verdict).keys() == {"token_compliance"}
    assert "sample 7: token count 440" in failed(verdict)["token_compliance"].fix


def test_answers_that_break_off_make_a_run_invalid(verdict_on):
    assert verdict_on(answers={"checked": 100, "faults": (), "cut": range(5)}).is_valid
    verdict = verdict_on(answers={"checked": 100, "faults": (), "cut": range(6)})
    assert failed(verdict).keys() == {"answers_whole"}
    assert "samples 0, 1, 2, 3, 4, 5 are" in failed(verdict)["answers_whole"].fix


def test_answers_cut_to_a_third_while_measuring_make_a_run_invalid(verdict_on):
    lengths = [(length // 3, length) for length in range(20, 60)]
    verdict = verdict_on(answers={"checked": 40, "faults": (), "cut": (), "lengths": lengths})
    assert failed(verdict).keys() == {"answers_as_long"}
    assert "0.32 of the accuracy test's tokens" in failed(verdict)["answers_as_long"].fix


@pytest.mark.parametrize(
    "lengths",
    [
        [(30, 30)] * 20 + [(90, 30), (5, 40)],  # some answers took another turn
        [(30, 30)] * 7 + [(2, 300)],  # one answer of many tokens is not a proof
        [(28, 30)] * 40,  # less than a tenth
    ],
)
def test_answers_that_took_another_turn_are_no_proof(verdict_on, lengths):
    assert verdict_on(answers={"checked": 40, "faults": (), "cut": (), "lengths": lengths}).is_valid


FORM = TokenForm(end_tokens=(2, 13), most=10)


def reply(*tokens, first=None, count=None):
    data = struct.pack(f"<{len(tokens)}q", *tokens)
    shown = tokens[0] if first is None else first
    return LoggedReply(
        index=5, data=data, token_data=struct.pack("<q", shown), token_count=len(tokens) if count is None else count
    )


def test_a_sound_answer_has_no_fault():
    for answer in (reply(5, 6, 2), reply(2, 2), reply(5, 6, 13), reply(*range(20, 30))):
        assert not faults_of(answer, FORM)
        assert not is_cut(answer, FORM)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (reply(5, 6, 2, first=7), Fault.FIRST_TOKEN),
        (reply(5, 6, 2, 2), Fault.END),
        (reply(5, 6, 13, 2), Fault.END),
        (reply(5, 6, 2, count=33), Fault.LENGTH),
    ],
)
def test_each_fault_of_an_answer_is_seen(answer, fault):
    assert faults_of(answer, FORM).keys() == {fault}


def test_what_a_workload_does_not_report_is_not_asked_for():
    form = TokenForm(end_tokens=(2,), most=10, is_counted=False, has_first=False)
    bare = LoggedReply(index=5, data=struct.pack("<3q", 5, 6, 2))
    assert not faults_of(bare, form)


def test_an_answer_is_cut_that_neither_ends_nor_is_nearly_as_long_as_allowed():
    assert is_cut(reply(5, 6, 7), FORM)
    assert is_cut(reply(*range(20, 28)), FORM)
    assert not is_cut(reply(*range(20, 29)), FORM)
    assert is_cut(LoggedReply(index=1, data=b""), FORM)


@pytest.mark.parametrize(("right", "known_right", "passes"), [(6, 6, True), (3, 6, True), (2, 6, False), (0, 3, False)])
def test_timed_content_is_answered_right_at_least_half_as_often_as_known_content(
    verdict_on, right, known_right, passes
):
    timed = TimedAnswers(checked=6, right=right, known_right=known_right)
    verdict = verdict_on(spots={}, timed_answers=timed)
    assert ("timed_answers" in failed(verdict)) is not passes
    assert "timed_answers" not in verdict.not_applied


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (TimedAnswers(reason="no torch here"), "no torch here"),
        (TimedAnswers(checked=6, right=0, known_right=2), "2 of 6 known samples have the fp32 model's answer"),
    ],
)
def test_timed_answers_that_cannot_be_scored_accuse_nobody_and_are_not_checked(verdict_on, found, reason):
    verdict = verdict_on(spots={}, timed_answers=found)
    assert verdict.is_valid
    assert verdict.not_applied["timed_answers"] == reason


def test_logs_that_contradict_what_was_seen_make_a_run_invalid(verdict_on):
    (rule,) = verdict_on(log_faults=["it counts 64 samples, and the SUT was sent 32"]).failed
    assert (rule.rule, rule.measured) == ("logs_agree", 1)
    assert "the SUT was sent 32" in rule.fix
    assert "logs_agree" in {each.rule for each in verdict_on(log_faults=[]).results}


def apart(value, bounds=None):
    bounds = bounds or {Precision.FP32: 0.001, Precision.BF16: 0.05}
    return OutputDifference(value=value, precision=Precision.FP32, bounds=bounds, unit="in logits", samples=9)


@pytest.mark.parametrize(
    ("measured", "scored", "passes"),
    [(1e-6, 1e-6, True), (0.02, 1e-6, False), (0.0015, 0.0009, True), (0.02, 0.02, True)],
    ids=["the same", "bf16 while measured", "a little farther than few samples say", "bf16 in both"],
)
def test_a_coarser_precision_in_the_performance_test_alone_is_seen_in_its_replies(verdict_on, measured, scored, passes):
    """Where both tests are too far from the model, that is a matter of accuracy."""
    verdict = verdict_on(differences_measured=(apart(measured), apart(scored)))
    assert ("output_difference_measured" in failed(verdict)) is not passes
    assert verdict.is_valid is passes
