import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from counted_reply import CountedReply
from mlbench_null.backend import Null
from mlbench_null.scripts import LARGEST_ANSWER_BYTES

from mlbench import BatchProgram, EnginePlan, Model, ReplySpec, Samples


class NeverRun(BatchProgram):
    def __init__(self, reply: ReplySpec) -> None:
        self.reply = reply

    def run(self, samples, graphs):
        raise AssertionError("the null backend computes nothing")


class Ledger(CountedReply):
    """Notes each answer by sample id, as often as one comes, and how many calls brought them."""

    def __init__(self, expected: int) -> None:
        super().__init__(expected)
        self.given: list[tuple[int, np.ndarray]] = []
        self.calls = 0
        self.answered_ns = 0

    def complete(self, samples: Samples, outputs, token_counts: Sequence[int] | None = None) -> None:
        self.calls += 1
        self.answered_ns = time.monotonic_ns()
        self.given += [(id_, np.array(output)) for id_, output in zip(samples.ids, outputs, strict=True)]
        super().complete(samples, outputs)

    def fail(self, samples: Samples, reason: str) -> None:
        raise AssertionError(reason)


def engine(reply: ReplySpec, delay_ms: float = 0):
    backend = Null()
    backend.options = replace(backend.options, delay_ms=delay_ms)
    model = Model(name="any", graphs={}, program=NeverRun(reply), weights_fingerprint="")
    return backend.engine(model, EnginePlan())


def samples(count: int, first: int = 0) -> Samples:
    return Samples(range(first, first + count), [0] * count, None)  # type: ignore[arg-type]  # it asks for no data


@pytest.mark.parametrize("delay_ms", [0, 1])
def test_each_sample_is_answered_once_with_zeros_of_the_form_the_model_declares(delay_ms: float):
    ledger = Ledger(12)
    with engine(ReplySpec(dtype="float32", shape=(384, 2)), delay_ms) as null:
        for first, count in ((0, 1), (1, 8), (9, 3)):
            null.submit(samples(count, first), ledger)
        ledger.wait()
    assert sorted(id_ for id_, _ in ledger.given) == list(range(12))
    for _, answer in ledger.given:
        assert (answer.shape, answer.dtype) == ((384, 2), np.float32)
        assert not answer.any()


def test_a_size_that_varies_is_answered_with_one():
    ledger = Ledger(2)
    with engine(ReplySpec(dtype="int64", shape=(None,))) as null:
        null.submit(samples(2), ledger)
    assert [(answer.shape, answer.dtype) for _, answer in ledger.given] == [((1,), np.int64)] * 2


def test_a_query_is_answered_in_one_call_before_submit_returns():
    ledger = Ledger(100_000)
    with engine(ReplySpec(dtype="float32", shape=(1,))) as null:
        null.submit(samples(100_000), ledger)
        assert (len(ledger.given), ledger.calls) == (100_000, 1)


def test_answers_too_large_for_memory_at_once_are_given_in_parts():
    quarter = ReplySpec(dtype="uint8", shape=(LARGEST_ANSWER_BYTES // 4,))
    ledger = Ledger(10)
    with engine(quarter) as null:
        null.submit(samples(10), ledger)
    assert [id_ for id_, _ in ledger.given] == list(range(10))
    assert ledger.calls == 3


def test_a_delayed_answer_comes_in_order_and_not_before_its_time():
    first, second = Ledger(1), Ledger(1)
    with engine(ReplySpec(dtype="float32", shape=(1,)), delay_ms=20) as null:
        started_ns = time.monotonic_ns()
        null.submit(samples(1), first)
        null.submit(samples(1, first=1), second)
        second.wait()
    assert started_ns + 20_000_000 <= first.answered_ns <= second.answered_ns


def test_leaving_the_engine_does_not_wait_for_what_is_not_due():
    ledger = Ledger(1)
    with engine(ReplySpec(dtype="float32", shape=(1,)), delay_ms=3_600_000) as null:
        null.submit(samples(1), ledger)
    assert not ledger.given


def test_it_is_always_available_and_never_the_default():
    probe = Null().probe()
    assert probe.is_available
    assert probe.rank < 0
