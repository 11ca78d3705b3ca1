"""When an engine is asked for content that it cannot know, for how long, and what is concluded from its answers."""

import itertools
import json
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from measured_parts import CountedSamples

from mlbench import (
    BatchProgram,
    Capacity,
    Decoding,
    Engine,
    GenerationProgram,
    LoggedReply,
    Model,
    Prompt,
    ReplySpec,
)
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.variations import VariedDataset
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE
from mlbench.measurement import spot_contents
from mlbench.measurement.running_engine import RunningEngine, typical_indices
from mlbench.measurement.spot_check import spot_check
from mlbench.measurement.spot_contents import Asked, Contents, Known, can_continue
from mlbench.measurement.spot_times import Measured, times

LOGS = Path(__file__).parents[1] / "data" / "loadgen"


def rows():
    """Return thirty-two rows of numbers."""
    return CountedSamples(np.random.default_rng(1).standard_normal((32, 4)).astype(np.float32), "rows")


class Doubled(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(4,))

    def run(self, samples, graphs):
        raise AssertionError


class Doubling(Engine):
    """Answers a row with its double, 10 ms each; notes how many it was asked for at a time."""

    cost_ns = 10_000_000

    def __init__(self, clock, in_flight=4):
        self.clock, self.in_flight, self.sizes, self.asked = clock, in_flight, [], 0

    def submit(self, samples, reply):
        self.sizes.append(len(samples))
        self.asked += len(samples)
        self.clock.now_ns += self.cost_ns * len(samples)
        reply.complete(samples, [2 * sample for sample in samples.data()])

    def capacity(self):
        return Capacity(batch=self.in_flight, in_flight=self.in_flight)


def asked_about_rows(engine, dataset):
    """What a spot check asks an engine with."""
    return Asked(
        engine=engine,
        dataset=dataset,
        vary=lambda variations: VariedDataset(dataset, variations),
        look_at=dataset.sample,
        model=Model(name="m", graphs={}, program=Doubled(), weights_fingerprint="w"),
        timeout_s=5,
        new_indices=itertools.count(32),
    )


@pytest.fixture
def found(clock, tmp_path):
    """Spot check an engine after a test in which some replies were kept."""

    def found(engine, *, kept=range(8), scenario=OFFLINE, log="offline", faults=(), min_duration_ms=1000):
        folder = tmp_path / "performance"
        folder.mkdir(exist_ok=True)
        shutil.copy(LOGS / f"{log}.detail.txt", folder / "mlperf_log_detail.txt")
        dataset = rows()
        entries = [
            {"seq_id": 0, "qsl_idx": index, "data": struct.pack("<4f", *(2 * dataset.sample(index))).hex().upper()}
            for index in kept
        ]
        lines = ",\n".join(map(json.dumps, entries))
        text = f"[\n{lines}\n]\n" if entries else "[\n]\n"
        (folder / "mlperf_log_accuracy.json").write_text(text)
        ready = RunningEngine(
            engine=engine,
            dataset=dataset,
            vary=lambda variations: VariedDataset(dataset, variations),
            runtime=dict,
            peak_memory_bytes=lambda: 0,
        )
        job = SimpleNamespace(
            spec=SimpleNamespace(is_probe=False),
            folder=tmp_path,
            scenario=scenario,
            load=LoadSettings(stall_timeout_s=5),
        )
        model = Model(name="m", graphs={}, program=Doubled(), weights_fingerprint="w")
        load = LoadSettings(min_duration_ms=min_duration_ms)
        channel = SimpleNamespace(progress=lambda stage, said=None: None)
        *outcome, _ = spot_check(ready, job, model, dataset, load, SimpleNamespace(faults=list(faults)), channel)
        assert dataset.loaded == 0, "what is loaded is unloaded"
        return tuple(outcome)

    return found


def test_an_engine_whose_replies_were_at_fault_is_not_asked(found, clock):
    engine = Doubling(clock)
    assert found(engine, faults=["sample 3: NaN"]) == (None, "there were invalid replies")
    assert engine.asked == 0


def test_an_engine_of_which_no_reply_was_kept_is_not_asked(found, clock):
    engine = Doubling(clock)
    assert found(engine, kept=()) == (None, "no reply of the performance run was kept")
    assert engine.asked == 0


def test_the_latest_of_several_first_tokens_is_what_is_judged(found, clock, monkeypatch):
    """Of sets whose first token took a hundredth, nine tenths and half of a step, the second is the honest one."""
    answered = Contents(steps=[0.01, 0.9, 0.5])
    monkeypatch.setattr("mlbench.measurement.spot_check.contents", lambda *arguments, **more: answered)
    check, _ = found(Doubling(clock))
    assert check.first_token_steps == 0.9


def test_an_honest_engine_is_found_to_be_one(found, clock):
    check, reason = found(Doubling(clock))
    assert reason == ""
    assert (check.asked > 0, check.wrong, check.first_token_steps) == (True, (), None)
    assert check.repeated < 1.5


def test_an_engine_that_answers_new_content_with_nothing_is_accused_of_what_it_did_not_answer(found, clock):
    class Refusing(Doubling):
        def submit(self, samples, reply):
            if len(samples) > 4 and max(samples.indices) >= 32:
                reply.fail(samples, "never seen")
            else:
                super().submit(samples, reply)

    engine = Refusing(clock, in_flight=16)
    check, _ = found(engine)
    assert check.kind == "changed"
    assert check.asked == len(check.wrong) > 0
    assert check.untimed_reason == "new content was not answered"


@pytest.mark.parametrize(("min_duration_ms", "most"), [(1000, 91), (100_000, 183)])
def test_a_burst_takes_two_percent_of_the_test_or_a_second(found, clock, min_duration_ms, most):
    """91.6 samples/s: a second has 91, two have 183."""
    engine = Doubling(clock, in_flight=10_000)
    found(engine, min_duration_ms=min_duration_ms)
    assert max(engine.sizes) == most


def test_where_queries_are_sent_one_by_one_so_is_new_content(found, clock):
    """MultiStream's queries have eight samples."""
    engine = Doubling(clock)
    found(engine, scenario=MULTI_STREAM, log="multi_stream")
    times_of_new_content = [size for size in engine.sizes if size == 8]
    assert len(times_of_new_content) > 3


class Talk(GenerationProgram):
    reply = ReplySpec(dtype="int64", shape=(None,))
    decoding = Decoding(end_tokens=(3,), max_new_tokens=20, longest=40)

    def prompt(self, sample):
        return sample

    def answer(self, tokens):
        return np.array(tokens, np.int64)


class Dressed(Talk):
    def prompt(self, sample):
        return Prompt(tokens=np.concatenate([[1], sample.tokens]))


def asked_of(program, prompt_length):
    sample = Prompt(tokens=np.arange(4, 4 + prompt_length))
    return Asked(
        engine=None,
        dataset=None,
        vary=None,
        look_at=lambda index: sample,
        model=Model(name="m", graphs={}, program=program, weights_fingerprint="w"),
        timeout_s=1,
        new_indices=itertools.count(),
    )


def answer_of(length):
    return LoggedReply(index=0, data=np.arange(length, dtype=np.int64).tobytes())


@pytest.mark.parametrize(
    ("prompt_length", "answer_length", "can"),
    [(6, 4, True), (6, 3, False), (6, 14, True), (6, 15, False), (16, 4, True), (17, 4, False)],
)
def test_an_answer_of_four_tokens_or_more_is_continued_where_the_model_has_positions(prompt_length, answer_length, can):
    """Forty positions: the prompt, its answer, and twenty new tokens."""
    assert can_continue(asked_of(Talk(), prompt_length), answer_of(answer_length)) is can


def test_a_sample_that_is_no_prompt_itself_is_not_continued():
    assert not can_continue(asked_of(Dressed(), 6), answer_of(8))


def known(kind, asked, wrong):
    return Known(kind=kind, asked=asked, wrong=list(range(wrong)))


def test_the_kind_with_the_fewest_right_answers_is_judged():
    contents = Contents(moved=known("moved", 8, 2), changed=known("changed", 8, 6), continued=known("continued", 0, 0))
    assert contents.worst.kind == "changed"
    assert contents.worst.share == 0.25
    assert not contents.is_good


def test_of_kinds_that_are_right_alike_the_one_that_was_asked_most_is_judged():
    contents = Contents(moved=known("moved", 2, 1), changed=known("changed", 8, 4), continued=known("continued", 0, 0))
    assert contents.worst.kind == "changed"


@pytest.mark.parametrize(("wrong", "is_good"), [(4, True), (5, False)])
def test_half_of_the_answers_must_be_right(wrong, is_good):
    assert Contents(moved=known("moved", 8, wrong)).is_good is is_good


@pytest.mark.parametrize(("steps", "is_good"), [([], True), ([0.25], True), ([0.24], False), ([0.01, 0.9], True)])
def test_a_first_token_may_be_late_once_and_is_judged_by_its_latest(steps, is_good):
    assert Contents(steps=steps).is_good is is_good


def test_an_engine_is_asked_three_times_before_it_is_accused_and_once_if_all_is_well(clock):
    """Wrong on the first set of samples only; two sets of right answers make up for it."""
    dataset = rows()

    class Waking(Doubling):
        sets = 0

        def submit(self, samples, reply):
            self.sets += 1
            right = [2 * sample for sample in samples.data()]
            reply.complete(samples, right if self.sets > self.wrong_sets else [-each for each in right])

    def contents_of(wrong_sets):
        engine = Waking(clock)
        engine.wrong_sets = wrong_sets
        asked = asked_about_rows(engine, dataset)
        kept = {
            index: LoggedReply(index=index, data=(2 * dataset.sample(index)).astype("<f4").tobytes())
            for index in range(8)
        }
        return engine, spot_contents.contents(asked, kept, list(kept), most=8)

    engine, found = contents_of(wrong_sets=0)
    assert (engine.sets, found.is_good) == (1, True)
    engine, found = contents_of(wrong_sets=1)
    assert (engine.sets, found.is_good) == (2, True)
    engine, found = contents_of(wrong_sets=3)
    assert (engine.sets, found.is_good) == (3, False)


def timed(clock, costs_ns, *, in_flight=4):
    """Time an engine that takes so long for a sample of each query in turn, the last for all further ones."""
    dataset = rows()

    class Varying(Doubling):
        def submit(self, samples, reply):
            self.cost_ns = costs_ns[min(len(self.sizes), len(costs_ns) - 1)]
            super().submit(samples, reply)

    engine = Varying(clock, in_flight)
    asked = asked_about_rows(engine, dataset)
    kept = {0: LoggedReply(index=0, data=bytes(16)), 1: LoggedReply(index=1, data=bytes(16))}
    return engine, times(asked, Measured(samples_per_s=100.0, query=None, budget_s=1.0), kept, [0, 1])


SLOW, FAST = 20_000_000, 1_000_000


def test_an_honest_engine_is_timed_once(clock):
    engine, found = timed(clock, [SLOW])
    assert len(engine.sizes) == 2
    assert found.repeated == 1
    assert found.claimed == pytest.approx(100 * 0.020)


def test_a_round_in_a_busy_moment_accuses_nobody(clock):
    """New content is slow in the first round alone; the best round counts."""
    engine, found = timed(clock, [SLOW, FAST, SLOW, SLOW])
    assert len(engine.sizes) == 4
    assert found.repeated == 1


def test_an_engine_that_is_slow_on_new_content_in_every_round_is_accused_after_seven(clock):
    engine, found = timed(clock, [SLOW, FAST] * 7)
    assert len(engine.sizes) == 14
    assert found.repeated == 20


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(10, 64, list(range(10))), (100, 4, [0, 25, 50, 75]), (1000, 1000, None), (3, 1, [0])],
)
def test_an_engine_is_warmed_up_on_samples_from_all_of_the_dataset(count, most, expected):
    found = typical_indices(SimpleNamespace(count=count), most)
    if expected is None:
        assert (len(found), found[1], found[-1]) == (64, 15, 984)
    else:
        assert found == expected
