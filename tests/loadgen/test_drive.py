"""Real LoadGen, tiny engines."""

import dataclasses
import threading
import time

import numpy as np
import pytest

from mlbench import DataError, Dataset, Engine, ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import read_accuracy, read_detail
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test, TokenRules, loadgen_settings

SEEDS = Seeds(qsl=3066443479025735752, sample_index=10688027786191513374, schedule=14962580496156340209, accuracy_log=1)
LOAD = LoadSettings(
    min_duration_ms=50,
    min_query_count=70,
    performance_sample_count=16,
    target_qps=1000,
    expected_latency_ns=20_000,
    reply_checks=8,
)


class Numbers(Dataset):
    """Sample i is the number i."""

    count = 20
    performance_count = 16
    fingerprint = "numbers"

    def __init__(self):
        self.loaded = set()

    def load(self, indices):
        self.loaded.update(indices)

    def unload(self, indices):
        self.loaded.difference_update(indices)

    def sample(self, index):
        assert index in self.loaded
        return index


class Unreadable(Numbers):
    def load(self, indices):
        raise DataError("image 3.jpg is corrupt.")


class Doubles(Engine):
    """Answers twice the sample, at once; subclasses break it."""

    def submit(self, samples, reply):
        reply.complete(samples, self.answers(samples))

    def answers(self, samples):
        return np.array([[2 * number] for number in samples.data()], dtype=np.float32)


class Watched:
    """Callbacks of a test that nobody waits for."""

    def __init__(self):
        self.stuck_with = threading.Event()

    def answered(self, count, /):
        pass

    def stuck(self, faults, /):
        self.faults = faults
        self.stuck_with.set()


NUMBER = ReplySpec(dtype="float32", shape=(1,))
ROWS = ReplySpec(dtype="float32", shape=(None, 7), may_be_empty=True)


def run(engine, folder, scenario=SINGLE_STREAM, *, mode=Mode.PERFORMANCE, dataset=None, load=LOAD, **rules):
    test = Test(
        scenario=scenario,
        mode=mode,
        load=load,
        reply=rules.pop("reply", NUMBER),
        seeds=SEEDS,
        server_latency_ms=1000,
        **rules,
    )
    return drive(test, engine, dataset or Numbers(), folder, Watched())


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda each: each.name)
def test_a_right_engine_gives_no_fault_and_loadgen_keeps_a_share_of_the_replies(tmp_path, scenario):
    traffic = run(Doubles(), tmp_path, scenario)
    assert traffic.faults == []
    assert traffic.issued == traffic.answered >= 70
    kept = read_accuracy(tmp_path / "mlperf_log_accuracy.json")
    assert kept
    assert all(np.frombuffer(reply.data, np.float32)[0] == 2 * reply.index for reply in kept)


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda each: each.name)
def test_an_accuracy_test_logs_every_sample(tmp_path, scenario):
    run(Doubles(), tmp_path, scenario, mode=Mode.ACCURACY)
    replies = read_accuracy(tmp_path / "mlperf_log_accuracy.json")
    assert {reply.index for reply in replies} == set(range(20))
    assert all(np.frombuffer(reply.data, np.float32)[0] == 2 * reply.index for reply in replies)


@pytest.mark.parametrize(("queries", "discarded"), [(662, 0), (MULTI_STREAM.settings["load.min_query_count"], 3)])
def test_the_default_number_of_queries_in_multi_stream_keeps_three_hiccups_out_of_the_result(
    tmp_path, queries, discarded
):
    """As LoadGen says; with the least that it takes, 662, the slowest query is the result."""
    load = LoadSettings(
        min_duration_ms=1, min_query_count=queries, performance_sample_count=16, expected_latency_ns=10**9
    )
    run(Doubles(), tmp_path, MULTI_STREAM, load=load)
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["result_query_count"] == queries
    assert f"Would discard {discarded} highest latency queries." in values["early_stopping_result"]
    is_slowest = values["early_stopping_latency_ms"] == values["result_max_query_latency_ns"]
    assert is_slowest or discarded


def test_the_seeds_of_the_round_are_in_force(tmp_path):
    run(Doubles(), tmp_path)
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["effective_qsl_rng_seed"] == 3066443479025735752
    assert values["effective_sample_index_rng_seed"] == 10688027786191513374
    assert values["effective_schedule_rng_seed"] == 14962580496156340209


class Fails(Doubles):
    def submit(self, samples, reply):
        reply.fail(samples, "no memory")


class Raises(Doubles):
    def submit(self, samples, reply):
        raise ValueError("bad operator")


class GivesNothing(Doubles):
    def answers(self, samples):
        return np.zeros((len(samples), 0), np.float32)


class GivesNan(Doubles):
    def answers(self, samples):
        return np.full((len(samples), 1), np.nan, np.float32)


class GivesTwoNumbers(Doubles):
    def answers(self, samples):
        return np.zeros((len(samples), 2), np.float32)


class GivesDoublePrecision(Doubles):
    def answers(self, samples):
        return np.zeros((len(samples), 1))


class GivesTooMany(Doubles):
    def answers(self, samples):
        return np.zeros((len(samples) + 1, 1), np.float32)


class AnswersTwice(Doubles):
    def submit(self, samples, reply):
        super().submit(samples, reply)
        super().submit(samples, reply)


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (Fails, "failed: no memory"),
        (Raises, "failed: ValueError: bad operator"),
        (GivesNothing, "empty reply, shape (0,)"),
        (GivesNan, "NaN in the reply"),
        (GivesTwoNumbers, "wrong shape (2,), expected (1)"),
        (GivesDoublePrecision, "wrong dtype float64, expected float32"),
        (GivesTooMany, "2 outputs for 1 samples"),
        (AnswersTwice, "answered twice, or never asked"),
    ],
)
def test_an_unsound_reply_is_a_fault_that_names_the_sample(tmp_path, engine, told):
    faults = run(engine(), tmp_path).faults
    number = faults[0].split(":")[0].removeprefix("sample ")
    assert int(number) in range(20)
    assert told in faults[0]


class GivesRows(Doubles):
    """Answers as many rows as the sample says, so sample 0 gets none; or, in one array, none to all."""

    def __init__(self, columns=7, *, in_one_array=False):
        self.columns, self.in_one_array = columns, in_one_array

    def answers(self, samples):
        if self.in_one_array:
            return np.zeros((len(samples), 0, self.columns), np.float32)
        return [np.full((number, self.columns), number, np.float32) for number in samples.data()]


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, OFFLINE], ids=lambda each: each.name)
def test_an_empty_reply_is_an_answer_where_the_workload_says_so_and_is_logged_as_no_bytes(tmp_path, scenario):
    traffic = run(GivesRows(), tmp_path, scenario, mode=Mode.ACCURACY, reply=ROWS)
    replies = {reply.index: reply.data for reply in read_accuracy(tmp_path / "mlperf_log_accuracy.json")}
    assert traffic.faults == []
    assert {index: len(data) for index, data in replies.items()} == {index: 28 * index for index in range(20)}


def test_a_whole_query_may_be_answered_with_nothing_in_one_array(tmp_path):
    traffic = run(GivesRows(in_one_array=True), tmp_path, OFFLINE, mode=Mode.ACCURACY, reply=ROWS)
    replies = read_accuracy(tmp_path / "mlperf_log_accuracy.json")
    assert traffic.faults == []
    assert [reply.data for reply in replies] == [b""] * 20


@pytest.mark.parametrize("columns", [0, 6])
def test_where_a_reply_may_be_empty_its_other_dimensions_still_count(tmp_path, columns):
    faults = run(GivesRows(columns, in_one_array=True), tmp_path, reply=ROWS).faults
    assert f"wrong shape (0, {columns}), expected (any, 7)" in faults[0]


def test_a_shape_that_varies_does_not_make_an_empty_reply_an_answer(tmp_path):
    strict = ReplySpec(dtype="float32", shape=(None, 7))
    faults = run(GivesRows(in_one_array=True), tmp_path, reply=strict).faults
    assert "empty reply, shape (0, 7)" in faults[0]


class GivesStrided(Doubles):
    """Answers with every other column of a larger array."""

    def answers(self, samples):
        wide = np.full((len(samples), 8), -1, np.float32)
        wide[:, ::2] = [[number, 2 * number, 3 * number, 4 * number] for number in samples.data()]
        return wide[:, ::2]


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, OFFLINE], ids=lambda each: each.name)
def test_a_reply_with_gaps_in_memory_is_logged_without_them(tmp_path, scenario):
    rows = ReplySpec(dtype="float32", shape=(4,))
    traffic = run(GivesStrided(), tmp_path, scenario, mode=Mode.ACCURACY, reply=rows)
    logged = {reply.index: np.frombuffer(reply.data, np.float32).tolist() for reply in read_accuracy_of(tmp_path)}
    assert traffic.faults == []
    assert logged == {index: [index, 2 * index, 3 * index, 4 * index] for index in range(20)}


def read_accuracy_of(folder):
    return read_accuracy(folder / "mlperf_log_accuracy.json")


class ForgetsWhatItWasAsked(Doubles):
    """Answers, and then writes into what it was given."""

    def submit(self, samples, reply):
        super().submit(samples, reply)
        samples.ids = samples.indices = []
        samples.dataset = None


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda each: each.name)
def test_what_an_engine_does_to_its_samples_affects_no_other(tmp_path, scenario):
    traffic = run(ForgetsWhatItWasAsked(), tmp_path, scenario)
    assert traffic.faults == []
    assert traffic.issued == traffic.answered >= 70


class LosesOne(Doubles):
    """Forgets dataset sample 5."""

    def submit(self, samples, reply):
        kept = [position for position, index in enumerate(samples.indices) if index != 5]
        super().submit(samples.at(kept), reply)


@pytest.mark.parametrize("scenario", [SERVER, OFFLINE], ids=lambda each: each.name)
def test_a_lost_reply_ends_the_test_and_is_named(tmp_path, scenario):
    load = LoadSettings(
        min_duration_ms=50, min_query_count=70, performance_sample_count=16, target_qps=1000, stall_timeout_s=0.5
    )
    traffic = run(LosesOne(), tmp_path, scenario, load=load)
    assert traffic.faults
    assert all(fault.startswith("sample 5: failed: no reply within") for fault in traffic.faults)


class AnswersFromShortThreads(Doubles):
    """A thread per query, gone once it has answered: what LoadGen itself would not survive."""

    def submit(self, samples, reply):
        threading.Thread(target=super().submit, args=(samples, reply)).start()


def test_replies_may_come_from_threads_that_end_during_the_test(tmp_path):
    assert run(AnswersFromShortThreads(), tmp_path, SERVER).faults == []


class AnswersOneByOne(Doubles):
    """Answers sample by sample, from a thread of its own: in Offline such replies go through the checks together."""

    def submit(self, samples, reply):
        threading.Thread(target=self.answer_each, args=(samples, reply)).start()

    def answer_each(self, samples, reply):
        for place in range(len(samples)):
            self.answer(samples[place : place + 1], reply)

    def answer(self, sample, reply):
        reply.complete(sample, self.answers(sample))


class AnswersNanToSeven(AnswersOneByOne):
    def answers(self, samples):
        return np.array([[np.nan if number == 7 else number] for number in samples.data()], np.float32)


class AnswersSevenTwice(AnswersOneByOne):
    def answer(self, sample, reply):
        super().answer(sample, reply)
        if list(sample.indices) == [7]:
            super().answer(sample, reply)


class TakesSevenBack(AnswersOneByOne):
    """Gives the array of one reply another shape once it has handed it over."""

    def answer(self, sample, reply):
        output = self.answers(sample)
        reply.complete(sample, output)
        if list(sample.indices) == [7]:
            output.resize((1, 2), refcheck=False)


class AnswersWithNames(AnswersOneByOne):
    """Calls the samples by what no sample is called."""

    def answer(self, sample, reply):
        if list(sample.indices) == [7]:
            reply.complete(dataclasses.replace(sample, ids=["seven"]), self.answers(sample))
        super().answer(sample, reply)


class SpeaksAfterwards(AnswersOneByOne):
    """Reports a first token once it has answered."""

    def answer(self, sample, reply):
        super().answer(sample, reply)
        if list(sample.indices) == [7]:
            reply.first_token(sample, np.zeros((1, 1), np.int64))


def test_replies_that_come_one_by_one_are_each_logged_for_their_own_sample(tmp_path):
    traffic = run(AnswersOneByOne(), tmp_path, OFFLINE, mode=Mode.ACCURACY)
    logged = {reply.index: np.frombuffer(reply.data, np.float32).tolist() for reply in read_accuracy_of(tmp_path)}
    assert traffic.faults == []
    assert logged == {index: [2 * index] for index in range(20)}


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (AnswersNanToSeven, ["sample 7: NaN in the reply"]),
        (AnswersSevenTwice, ["sample 7: answered twice, or never asked"]),
        (TakesSevenBack, ["sample 7: wrong shape (2,), expected (1)"]),
        (SpeaksAfterwards, ["sample 7: first token after the reply, or never asked for"]),
        (AnswersWithNames, ["sample id is a str, expected an integer"]),
    ],
)
def test_of_replies_that_come_one_by_one_only_the_unsound_is_a_fault(tmp_path, monkeypatch, engine, told):
    monkeypatch.setattr("mlbench.loadgen.drive._GATHER_S", 0.2)  # all of them wait for each other
    traffic = run(engine(), tmp_path, OFFLINE, mode=Mode.ACCURACY)
    assert traffic.faults == told
    assert {reply.index for reply in read_accuracy_of(tmp_path)} == set(range(20))


class LosesAWorker(Doubles):
    def submit(self, samples, reply):
        super().submit(samples, reply)
        reply.invalidate("an idle worker has died\nTraceback")


def test_a_run_is_invalid_for_a_reason_that_belongs_to_no_sample_and_all_are_answered(tmp_path):
    traffic = run(LosesAWorker(), tmp_path, OFFLINE)
    assert traffic.faults == ["an idle worker has died"]
    assert traffic.answered == traffic.issued


class AnswersLate(Doubles):
    """Keeps a query, to answer it once more when all is over."""

    def submit(self, samples, reply):
        super().submit(samples, reply)
        self.last = samples, reply


def test_a_reply_after_the_test_is_a_fault_and_does_not_reach_loadgen(tmp_path):
    engine = AnswersLate()
    traffic = run(engine, tmp_path)
    assert traffic.faults == []
    samples, reply = engine.last
    reply.complete(samples, np.zeros((1, 1), np.float32))  # LoadGen would bring the process down
    assert traffic.faults == [f"sample {samples.indices[0]}: answered after the test had ended"]


def test_a_sample_that_cannot_be_loaded_is_an_error_with_its_reason(tmp_path):
    with pytest.raises(DataError, match=r"image 3\.jpg is corrupt"):
        run(Doubles(), tmp_path, dataset=Unreadable())


class Speaks(Engine):
    """Two tokens a sample, the first at once."""

    def submit(self, samples, reply):
        reply.first_token(samples, np.full((len(samples), 1), 7, np.int64))
        time.sleep(0.001)
        reply.complete(samples, np.full((len(samples), 1), 9, np.float32), token_counts=[2] * len(samples))


def test_token_latencies_reach_loadgens_log(tmp_path):
    assert run(Speaks(), tmp_path, SERVER, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults == []
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["result_time_per_output_token_99.00_percentile_ns"] >= 1_000_000
    assert 0 < values["result_first_token_99.00_percentile_latency_ns"] < 2_000_000_000


class Counts(Doubles):
    """Reports the token counts it was made with."""

    def __init__(self, *counts):
        self.counts = counts

    def submit(self, samples, reply):
        reply.first_token(samples, np.full((len(samples), 1), 7, np.int64))
        reply.complete(samples, self.answers(samples), token_counts=self.counts or None)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((0,), "token counts missing or below 1"),
        ((-3,), "token counts missing or below 1"),
        ((2, 2), "token counts missing or below 1"),
        ((), "no token count, and this workload is judged by tokens"),
    ],
)
def test_a_count_of_tokens_that_no_reply_can_have_is_a_fault(tmp_path, counts, told):
    faults = run(Counts(*counts), tmp_path, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults
    assert told in faults[0]


def test_an_accuracy_test_samples_no_replies_since_it_logs_them_all():
    test = Test(scenario=OFFLINE, mode=Mode.ACCURACY, load=LOAD, reply=NUMBER, seeds=SEEDS)
    assert loadgen_settings(test, 20).accuracy_log_sampling_target == 0
    measuring = dataclasses.replace(test, mode=Mode.PERFORMANCE)
    assert loadgen_settings(measuring, 20).accuracy_log_sampling_target == LOAD.reply_checks == 8


def test_inferred_tokens_are_counted_for_every_sample(tmp_path):
    run(Doubles(), tmp_path, OFFLINE, inferred_tokens=69)
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    ratio = values["result_inferred_tokens_per_second"] / values["result_samples_per_second"]
    assert ratio == pytest.approx(69, rel=1e-4)


class SpeaksLate(Speaks):
    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32), token_counts=[2] * len(samples))
        reply.first_token(samples, np.zeros((len(samples), 1), np.int64))


def test_a_first_token_after_the_reply_is_a_fault(tmp_path):
    faults = run(SpeaksLate(), tmp_path, OFFLINE, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults
    assert "first token after the reply" in faults[0]


def test_a_workload_judged_by_tokens_needs_token_counts(tmp_path):
    faults = run(Doubles(), tmp_path, OFFLINE, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults
    assert "no token count" in faults[0]
