"""What a run's logs come to: LoadGen's own logs of 32 samples, judged and scored."""

import dataclasses
import json
import math
import re
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlbench import BatchProgram, Decoding, GenerationProgram, InvalidRunError, Metric, Model, ReplySpec, Target
from mlbench.contracts.statistics import EngineStatistics
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode
from mlbench.measurement.judging import judge_run
from mlbench.measurement.token_answers import token_answers
from mlbench.rules.entry_demand import Division
from mlbench.rules.facts import SpotCheck
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import Tier, official_limits

LOGS = Path(__file__).parents[1] / "data" / "loadgen"


class Labels(BatchProgram):
    reply = ReplySpec(dtype="int32", shape=(1,))

    def run(self, samples, graphs):
        raise AssertionError


class Words(GenerationProgram):
    """Of the logs with tokens: three times the index of the sample."""

    reply = ReplySpec(dtype="int32", shape=(None,))
    decoding = Decoding(end_tokens=(99,), max_new_tokens=3, longest=10)

    def prompt(self, sample):
        raise AssertionError

    def answer(self, tokens):
        raise AssertionError


def model_of(program):
    return Model(name="m", graphs={}, program=program, weights_fingerprint="none")


class Right(Metric):
    """The share of samples that were answered with their index, in percent; the system of the logs always does."""

    def __init__(self, lower=50.0, wrong_bytes=None):
        self.targets = (Target(score="acc", reference=100.0, lower=lower, name="99"),)
        self.wrong_bytes = wrong_bytes

    def score(self, replies):
        numbers = []
        for reply in replies:
            if reply.data == self.wrong_bytes:
                raise InvalidRunError(f"sample {reply.index}: not a label.")
            numbers.append(struct.unpack("<i", reply.data)[0] == reply.index)
        return {"acc": 100 * sum(numbers) / len(numbers)}

    def line(self, scores):
        return f"accuracy={scores['acc']:.3f}%"

    def write_artifacts(self, replies, folder):
        (folder / "seen.txt").write_text(str(len(replies)))


def entry(number, index, value):
    return {"seq_id": number, "qsl_idx": index, "data": struct.pack("<i", value).hex().upper()}


@pytest.fixture
def folder(tmp_path):
    """Return a run folder with both tests of an Offline run; three replies were kept while measuring."""
    (tmp_path / "performance").mkdir()
    (tmp_path / "accuracy").mkdir()
    shutil.copy(LOGS / "offline.detail.txt", tmp_path / "performance" / "mlperf_log_detail.txt")
    shutil.copy(LOGS / "offline_accuracy.accuracy.json", tmp_path / "accuracy" / "mlperf_log_accuracy.json")
    keep(tmp_path, {3: 3, 4: 4, 5: 5})
    return tmp_path


def keep(folder, replies):
    """Write the log of replies that LoadGen kept while measuring."""
    entries = [entry(number, index, value) for number, (index, value) in enumerate(replies.items())]
    text = "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"
    (folder / "performance" / "mlperf_log_accuracy.json").write_text(text)


@pytest.fixture
def judged(folder):
    """Judge the run, with changes."""

    def judged(
        metric=None,
        *,
        scenario=OFFLINE,
        faults=(),
        wants_accuracy=True,
        variant="",
        division=Division.CLOSED,
        detail=None,
        spots=(None, ""),
        **more,
    ):
        limits = dataclasses.replace(
            official_limits(official_rules("resnet50"), scenario), min_duration_ms=1000, offline_min_samples=32
        )
        job = SimpleNamespace(
            folder=folder,
            workload=SimpleNamespace(name="resnet50", rules="resnet50"),
            rules=official_rules("resnet50"),
            scenario=scenario,
            tier=Tier.SMOKE,
            variant=SimpleNamespace(profile="mini", weights="trained"),
            plan=SimpleNamespace(precision="fp32"),
            division=division,
            spec=SimpleNamespace(wants_accuracy=wants_accuracy, accuracy_of="", variant=variant, network=None),
        )
        log = read_detail(folder / "performance" / "mlperf_log_detail.txt")
        log = dataclasses.replace(log, values={**log.values, **(detail or {})})
        return judge_run(
            job,
            limits,
            log,
            {Mode.PERFORMANCE: list(faults)},
            metric,
            model=model_of(Labels()),
            spots=spots,
            **{"statistics": EngineStatistics(), **more},
        )

    return judged


def rule(judgement, name):
    return next((each for each in judgement.verdict.rules if each.rule == name), None)


def test_the_run_is_held_to_the_accuracy_that_was_asked_for_and_in_open_to_none(judged):
    """The system of the logs is right in every answer; this metric wants more than all."""
    metric = Right(lower=101.0)
    assert judged(metric).verdict.is_accurate is False
    assert judged(metric, variant="99").verdict.is_accurate is False
    assert judged(metric, variant="99.9").verdict.is_accurate is None
    found = judged(metric, division=Division.OPEN)
    assert (found.verdict.is_accurate, found.accuracy.is_met) == (None, True)
    assert found.verdict.is_valid == judged(metric).verdict.is_valid
    assert [(each.value, each.is_met, each.required) for each in found.accuracy.targets] == [(100.0, False, False)]


def test_the_result_is_loadgens(judged):
    """As its own summary of this log says."""
    summary = (LOGS / "offline.summary.txt").read_text()
    judgement = judged(Right())
    assert f"Samples per second: {judgement.result.value:g}" in summary
    assert (judgement.result.unit, judgement.result.higher_is_better) == ("samples/s", True)
    assert judgement.loadgen_version.startswith("6.0.17")


def test_a_latency_is_the_better_the_lower(judged, folder):
    shutil.copy(LOGS / "single_stream.detail.txt", folder / "performance" / "mlperf_log_detail.txt")
    judgement = judged(Right(), scenario=SINGLE_STREAM)
    assert (judgement.result.value, judgement.result.unit) == (2134459, "ns")
    assert judgement.result.higher_is_better is False


def test_a_run_that_meets_its_target_is_accurate(judged):
    judgement = judged(Right())
    assert judgement.verdict.is_accurate is True
    assert judgement.accuracy.is_met
    assert judgement.accuracy.scores == {"acc": 100.0}
    assert judgement.accuracy.line == "accuracy=100.000%"
    (target,) = judgement.accuracy.targets
    assert (target.score, target.name, target.value, target.lower, target.is_met) == ("acc", "99", 100.0, 50.0, True)


def test_a_run_that_misses_its_target_is_not_accurate_and_may_be_valid(judged):
    judgement = judged(Right(lower=100.5))
    assert judgement.verdict.is_accurate is False
    assert not judgement.accuracy.is_met
    assert not rule(judgement, "accuracy.acc@99").passed
    assert judgement.verdict.is_valid == judged(Right()).verdict.is_valid


def test_the_metric_may_write_what_is_to_be_seen_beside_the_accuracy_log(judged, folder):
    judged(Right())
    assert (folder / "accuracy" / "seen.txt").read_text() == "32"


@pytest.mark.parametrize(
    ("wants_accuracy", "reason"),
    [(False, "no accuracy test was asked for"), (True, "trained weights have no accuracy to claim")],
)
def test_without_a_metric_no_accuracy_is_claimed_and_the_reason_is_reported(judged, wants_accuracy, reason):
    judgement = judged(None, wants_accuracy=wants_accuracy)
    assert judgement.accuracy is None
    assert judgement.verdict.is_accurate is None
    assert judgement.verdict.not_applied["accuracy"] == reason
    assert judgement.verdict.not_applied["replies_agree"] == reason


def test_replies_that_were_not_sound_are_not_scored_and_make_the_run_invalid(judged):
    judgement = judged(Right(), faults=["sample 7: NaN in the reply"])
    found = rule(judgement, "replies_sound")
    assert (found.measured, found.passed, judgement.verdict.is_valid) == (1, False, False)
    assert "sample 7: NaN in the reply (in the performance test)" in found.fix
    assert judgement.accuracy is None
    assert judgement.verdict.not_applied["accuracy"] == "there were invalid replies"


def test_a_reply_that_only_the_metric_knows_to_be_wrong_is_a_fault(judged):
    judgement = judged(Right(wrong_bytes=struct.pack("<i", 9)))
    found = rule(judgement, "replies_sound")
    assert (found.measured, judgement.verdict.is_valid) == (1, False)
    assert "sample 9: not a label. (in the scoring)" in found.fix
    assert judgement.verdict.not_applied["accuracy"] == "a reply cannot be scored"


def test_replies_kept_while_measuring_that_differ_from_the_accuracy_tests_are_named(judged, folder):
    keep(folder, {3: 3, 4: 31, 5: 5})
    judgement = judged(Right())
    found = rule(judgement, "replies_agree")
    assert not found.passed
    assert "4" in found.fix
    assert not judgement.verdict.is_valid


def test_errors_in_loadgens_log_make_the_run_invalid(judged, folder):
    log = folder / "performance" / "mlperf_log_detail.txt"
    line = next(line for line in log.read_text().splitlines() if '"key": "num_errors"' in line)
    error = line.replace('"key": "num_errors"', '"key": "error_runtime"').replace('"value": 0', '"value": "no clock"')
    error = error.replace('"is_error": false', '"is_error": true')
    log.write_text(f"{log.read_text()}{error}\n")
    found = rule(judged(Right()), "loadgen_errors")
    assert (found.measured, found.passed) == (1, False)
    assert "no clock" in found.fix


@pytest.mark.parametrize(
    ("counted", "extra", "measured", "passed"),
    [(0, {}, 0, True), (3, {}, 3, False), (-1, {}, "-1", False), (None, {"truncated_prompts": "all"}, "'all'", False)],
)
def test_prompts_that_the_engine_cut_are_checked_against_the_run(judged, counted, extra, measured, passed):
    statistics = EngineStatistics(truncated_prompts=counted, extra=extra)
    found = rule(judged(Right(), statistics=statistics), "prompts_whole")
    assert (found.measured, found.passed) == (measured, passed)


@pytest.mark.parametrize(("late", "passed"), [(0, True), (2, False)])
def test_late_clients_of_an_engine_are_checked_against_the_run(judged, late, passed):
    found = rule(judged(Right(), statistics=EngineStatistics(late_clients=late)), "client_in_time")
    assert (found.measured, found.passed) == (late, passed)


def test_an_engine_that_does_not_count_prompts_is_not_held_to_them(judged):
    assert rule(judged(Right()), "prompts_whole") is None


def test_what_is_said_at_length_instead_of_a_count_is_cut(judged):
    statistics = EngineStatistics(extra={"truncated_prompts": "x" * 1000})
    assert rule(judged(Right(), statistics=statistics), "prompts_whole").measured == "'" + "x" * 59


@pytest.mark.parametrize(("length_across_passes", "passed"), [(0.0, True), (1.0, False)])
def test_an_engine_that_sorts_prompts_across_passes_is_invalid(judged, length_across_passes, passed):
    found = rule(judged(Right(), length_across_passes=length_across_passes), "pass_order")
    assert (found.measured, found.passed) == (length_across_passes, passed)


def test_what_was_seen_in_the_engine_afterwards_is_judged(judged):
    spots = SpotCheck(repeated=40.0, claimed=40.0, asked=4, wrong=(7, 8, 9), kind="under other indices")
    judgement = judged(Right(), spots=(spots, ""))
    assert not rule(judgement, "no_caching").passed
    assert not rule(judgement, "speed_holds").passed
    assert rule(judgement, "answers_follow_content").measured == 0.25


def test_why_nothing_was_asked_of_the_engine_is_reported(judged):
    assert "no reply was kept" in judged(Right(), spots=(None, "no reply was kept")).verdict.not_applied.values()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_measured_value_that_json_cannot_spell_is_stored_in_words(judged, value):
    spots = SpotCheck(repeated=value, claimed=None, asked=0)
    found = rule(judged(Right(), spots=(spots, "")), "no_caching")
    assert found.measured == str(value)
    assert not json.loads(found.model_dump_json())["passed"] or value < 0


def test_what_a_metric_gives_and_cannot_be_stored_ends_the_run_and_names_the_field(judged):
    class Speechless(Right):
        def line(self, scores):
            return None

    with pytest.raises(InvalidRunError, match=r"the run's accuracy cannot be stored: line: .*valid string"):
        judged(Speechless())


def tokens_found(folder, scenario, rules="llama2-70b"):
    limits = official_limits(official_rules(rules), scenario)
    job = SimpleNamespace(folder=folder, scenario=scenario, rules=official_rules(rules))
    return token_answers(job, model_of(Words()), limits)


@pytest.fixture
def token_folder(tmp_path):
    """Return a run folder with the accuracy test's tokens; while measuring two replies were kept."""
    (tmp_path / "performance").mkdir()
    (tmp_path / "accuracy").mkdir()
    shutil.copy(LOGS / "server_tokens_accuracy.accuracy.json", tmp_path / "accuracy" / "mlperf_log_accuracy.json")
    shutil.copy(LOGS / "server_tokens_accuracy.detail.txt", tmp_path / "accuracy" / "mlperf_log_detail.txt")
    return tmp_path


def keep_tokens(folder, *entries):
    text = "[\n" + ",\n".join(json.dumps({"seq_id": 0, **each}) for each in entries) + "\n]\n"
    (folder / "performance" / "mlperf_log_accuracy.json").write_text(text)


WHOLE = {"qsl_idx": 2, "data": "020000000200000002000000", "token_data": "02000000", "token_count": 3}


def test_answers_of_both_tests_are_compared_with_what_was_reported_of_them(token_folder):
    keep_tokens(token_folder, WHOLE)
    found = tokens_found(token_folder, SERVER)
    assert (found.checked, found.faults, found.cut) == (33, [], [])
    assert found.lengths == [(3, 3)]


@pytest.mark.parametrize(
    ("change", "fault"), [({"token_count": 4}, "token count 4"), ({"token_data": "07000000"}, "first token")]
)
def test_a_count_or_first_token_that_is_not_the_answers_is_a_fault(token_folder, change, fault):
    keep_tokens(token_folder, WHOLE | change)
    (found,) = tokens_found(token_folder, SERVER).faults
    assert found.startswith("sample 2: ")
    assert fault in found


def test_offline_reports_no_first_tokens_and_counts_all_the_same(token_folder):
    keep_tokens(token_folder, WHOLE | {"token_data": "07000000"})
    assert tokens_found(token_folder, OFFLINE).faults == []
    keep_tokens(token_folder, WHOLE | {"token_count": 4})
    assert len(tokens_found(token_folder, OFFLINE).faults) == 1


def test_a_workload_whose_tokens_are_inferred_reports_neither(token_folder):
    keep_tokens(token_folder, WHOLE | {"token_count": 4, "token_data": "07000000"})
    assert tokens_found(token_folder, SERVER, rules="gptj").faults == []


def test_an_accuracy_test_of_offline_need_not_have_first_tokens_where_the_run_has(token_folder):
    keep_tokens(token_folder, WHOLE)
    log = token_folder / "accuracy" / "mlperf_log_accuracy.json"
    log.write_text(re.sub(r'"token_data" : "[0-9A-F]*", ', "", log.read_text()))
    assert len(tokens_found(token_folder, SERVER).faults) == 32
    shutil.copy(LOGS / "offline_accuracy.detail.txt", token_folder / "accuracy" / "mlperf_log_detail.txt")
    assert tokens_found(token_folder, SERVER).faults == []
    keep_tokens(token_folder, WHOLE | {"token_data": "07000000"})
    assert len(tokens_found(token_folder, SERVER).faults) == 1, "of its own replies"


def test_answers_kept_while_measuring_are_looked_at_where_there_was_no_accuracy_test(token_folder):
    (token_folder / "accuracy" / "mlperf_log_accuracy.json").unlink()
    keep_tokens(token_folder, WHOLE)
    found = tokens_found(token_folder, SERVER)
    assert (found.checked, found.lengths) == (1, [])


def test_an_answer_that_neither_ends_nor_is_as_long_as_allowed_is_cut(token_folder):
    keep_tokens(token_folder, WHOLE | {"data": "0200000002000000", "token_count": 2})
    assert tokens_found(token_folder, SERVER).cut == [2]


def test_a_model_that_generates_no_tokens_has_no_such_answers(folder):
    limits = official_limits(official_rules("resnet50"), OFFLINE)
    job = SimpleNamespace(folder=folder, scenario=OFFLINE)
    assert token_answers(job, model_of(Labels()), limits) is None
