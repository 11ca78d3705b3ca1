"""What becomes of replies while real LoadGen drives tiny engines: each sound one is logged, each other a fault."""

import dataclasses
import threading
import time

import numpy as np
import pytest
from driven_engines import ROWS, Doubles, Unreadable, run

from mlbench import DataError, ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.logs import read_accuracy
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode


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


@pytest.mark.parametrize("mode", [Mode.ACCURACY, Mode.PERFORMANCE])
def test_the_last_replies_of_a_query_wait_for_no_others(tmp_path, monkeypatch, mode):
    """A test of milliseconds whose replies may wait a minute for each other: were the last to, it would take that."""
    monkeypatch.setattr("mlbench.loadgen.drive._GATHER_S", 60)
    started_s = time.monotonic()
    traffic = run(AnswersOneByOne(), tmp_path, OFFLINE, mode=mode)
    assert time.monotonic() - started_s < 40
    assert (traffic.faults, traffic.answered) == ([], traffic.issued)


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
