"""The judge of a run: what the parent saw against what the process says, and answers against the model's."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from mlbench.conformance.known_answers import TokenLists, reference_scores, scoring_model, token_graph
from mlbench.contracts.metric import LoggedReply
from mlbench.execution.variations import Change, Variation, vary_sample
from mlbench.loadgen.logs import read_detail
from mlbench.measurement.evidence import Burst, BurstBegins, BurstEnds, Evidence, Overseen, TimedAnswer
from mlbench.measurement.judge import log_faults, timed_from_outside
from mlbench.measurement.timed_answers import compare_timed
from mlbench.rules.facts import SpotCheck
from mlbench.running.runner import Overseer
from mlbench.wire.load_progress import Demand, LoadProgress, SampleCounts
from mlbench.wire.progress import ProgressMessage

LOGS = Path(__file__).parents[1] / "data" / "loadgen"
DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
MS = 1_000_000


def burst(kind, lasted_ms, said_ms=0):
    return Burst(kind=kind, said_ns=int(said_ms * MS), lasted_ns=int(lasted_ms * MS))


def found(*bursts, reason="", **spots):
    """Return what the parent's times make of what a process says."""
    said = {"repeated": 1.1, "claimed": 1.2, "asked": 8, "untimed_reason": reason}
    said |= {"repeated": None, "claimed": None} if reason else {}
    evidence = Evidence(faults={}, issued=32, spots=SpotCheck(**said | spots), unspotted_reason="")
    return timed_from_outside(evidence, Overseen(bursts=bursts))


FAST = "answers come too fast to be timed"


def test_a_clock_that_stopped_in_the_runs_process_hides_no_memory():
    seen = found(burst("new", 5250), burst("again", 750), burst("new", 4250), burst("again", 750), reason=FAST)
    assert (seen.repeated, seen.claimed, seen.untimed_reason) == (4, None, "")


def test_a_clock_that_says_equal_times_hides_none_either():
    assert found(burst("new", 5250, 750), burst("again", 750, 750)).repeated == 5


@pytest.mark.parametrize("reason", ["", FAST])
def test_a_clock_that_the_parent_denies_in_little_leaves_a_run_unchecked(reason):
    seen = found(burst("new", 600), burst("again", 20), reason=reason)
    assert (seen.repeated, seen.claimed) == (None, None)
    assert seen.untimed_reason == reason or "not its parent's" in seen.untimed_reason


def test_an_honest_engine_is_timed_beside_itself_and_messages_may_be_late():
    seen = found(burst("new", 240, 100), burst("again", 20, 95))
    assert (seen.repeated, seen.claimed, seen.untimed_reason) == (1.1, 1.2, "")


def test_bursts_that_cannot_be_timed_are_not_taken_for_checked():
    seen = found(burst("new", 4, 4), burst("again", 3, 3), reason=FAST)
    assert (seen.repeated, seen.untimed_reason) == (None, FAST)


def test_the_parent_times_a_burst_between_its_messages():
    now = iter([0, 10 * MS, 30 * MS, 40 * MS])
    overseer = Overseer(lambda: next(now))
    ends = BurstEnds(kind="new", lasted_ns=7)
    for fact in (BurstBegins(kind="new"), ends, None, ends):
        overseer.note(ProgressMessage.of("spot check", fact))
    assert overseer.seen.bursts == (Burst(kind="new", said_ns=7, lasted_ns=10 * MS),)


@pytest.fixture
def logged(tmp_path):
    """Return what is wrong with real logs of Offline, the detail log changed; LoadGen sent 110 samples."""

    def logged(change=lambda text: text, *, issued=110, seen_ms=60_000, answering_ms=0):
        place = tmp_path / "performance"
        place.mkdir()
        (place / DETAIL).write_text(change((LOGS / "offline.detail.txt").read_text()))
        shutil.copy(LOGS / "offline.summary.txt", place / SUMMARY)
        detail, seen = (
            read_detail(place / DETAIL),
            Overseen(stages_ns={"performance": seen_ms * MS}, answering_ns=answering_ms * MS),
        )
        said = Evidence(faults={}, issued=issued, spots=None, unspotted_reason="")
        return list(log_faults(tmp_path, detail, said, seen))

    return logged


def test_a_log_as_loadgen_wrote_it_agrees_with_what_was_seen(logged):
    assert logged() == []


def test_a_log_of_more_samples_than_were_sent_is_no_measurement(logged):
    assert "and the SUT was sent 16" in logged(issued=16)[-1]


def test_a_log_of_more_time_than_passed_for_the_parent_is_no_measurement(logged):
    def began_earlier(text):
        return re.sub(r'("power_begin", "value": "\d\d-\d\d-)\d{4}', r"\g<1>2020", text)

    assert "by the parent's clock" in logged(began_earlier)[-1]


def test_a_log_of_less_time_than_samples_were_answered_in_is_no_measurement(logged):
    assert "samples were answered for 60.000 s" in logged(answering_ms=60_000)[-1]


def test_the_parent_notes_from_when_to_when_samples_were_answered():
    now = iter(MS * each for each in (0, 10, 20, 30, 40, 50))
    overseer = Overseer(lambda: next(now))
    for answered in (0, 5, 9, 9, 2, 7):  # the test is made again
        counts = SampleCounts(elapsed_s=1.0, issued=answered, answered=answered)
        test = LoadProgress(counts=counts, demand=Demand(least_s=0.0, least_samples=1))
        overseer.note(ProgressMessage.of("performance", test))
    assert overseer.seen.answering_ns == 10 * MS


def test_a_log_that_was_rewritten_to_twice_the_speed_contradicts_itself(logged):
    def doubled(text):
        return re.sub(r'("result_samples_per_second", "value": )([\d.]+)', lambda m: f"{m[1]}{2 * float(m[2]):g}", text)

    assert len(logged(doubled)) >= 2


@pytest.fixture(scope="module")
def compared():
    """Return how many answers to changed samples are right, of how many, by what an engine answers."""
    dataset = TokenLists()
    dataset.load(range(dataset.count))
    scores = reference_scores()

    def compute(sample):
        return token_graph().compute_outputs({"ids": sample[None], "mask": np.ones_like(sample[None])})["scores"][0]

    def compared(answer, known=lambda row: row):
        timed = []
        for base in range(dataset.count):
            variation = Variation(base=base, change=Change.STRONG, seed=base)
            data = np.asarray(answer(compute, vary_sample(dataset.sample(base), variation), base), "float32")
            timed.append(TimedAnswer(base=base, change="strong", seed=base, continuation=(), data=data.tobytes().hex()))
        kept = {index: LoggedReply(index=index, data=known(row).tobytes()) for index, row in enumerate(scores)}
        found = list(compare_timed(timed, kept, scoring_model(), dataset, lambda: None))
        return len(found), sum(each.is_right for each in found), sum(each.is_known_right for each in found)

    return compared


def test_computed_answers_to_timed_content_are_the_models(compared):
    told, right, known = compared(lambda compute, sample, base: compute(sample))
    assert told == right == known >= 6


@pytest.mark.parametrize("digits", [7, 2], ids=["bf16", "int8"])
def test_coarse_answers_are_as_right_as_they_are_on_known_content(compared, digits):
    def coarse(row):
        step = np.abs(row).max() * 2.0**-digits / 4
        return (np.round(row / step) * step).astype("float32")

    told, right, known = compared(lambda compute, sample, base: coarse(compute(sample)), coarse)
    assert right >= known / 2
    assert told >= 6


def test_the_answer_of_the_nearest_known_sample_is_wrong_on_timed_content(compared):
    told, right, known = compared(lambda compute, sample, base: reference_scores()[base])
    assert (right, known) == (0, told)


def test_an_answer_that_was_made_up_is_wrong_on_timed_content(compared):
    told, right, known = compared(lambda compute, sample, base: np.zeros(10))
    assert (right, known) == (0, told)
