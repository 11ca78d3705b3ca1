"""The null backend on generation programs: empty words in the right form, at a set pace."""

import time

import numpy as np
import pytest
from counted_reply import CountedReply
from mlbench_null.backend import Null
from mlbench_null.options import NullOptions

from mlbench import Decoding, EnginePlan, GenerationProgram, Model, ReplySpec, Samples, UsageError

END = 0


class Talk(GenerationProgram):
    reply = ReplySpec(dtype="int32", shape=(None,))

    def __init__(self, **decoding):
        settings = {"end_tokens": (END,), "max_new_tokens": 50, "longest": 100}
        self.decoding = Decoding(**{**settings, **decoding})

    def prompt(self, sample):
        raise AssertionError("the null backend does not listen")

    def answer(self, tokens):
        return np.array(tokens, np.int32)


class Heard(CountedReply):
    """Notes what is said, and when."""

    def __init__(self, count):
        super().__init__(count)
        self.firsts, self.counts, self.at_ns = {}, {}, {}
        self.calls = 0

    def first_token(self, samples, tokens):
        assert len(tokens) == len(samples)
        assert tokens.dtype == np.int32
        self.firsts.update((id_, time.monotonic_ns()) for id_ in samples.ids)
        self.at_ns.update({("first", id_): token.item() for id_, token in zip(samples.ids, tokens, strict=True)})

    def complete(self, samples, outputs, token_counts=None):
        self.calls += 1
        assert not self.answers.keys() & set(samples.ids)
        self.counts.update(zip(samples.ids, token_counts, strict=True))
        self.at_ns.update(dict.fromkeys(samples.ids, time.monotonic_ns()))
        super().complete(samples, [output.tolist() for output in outputs])

    def fail(self, samples, reason):
        raise AssertionError(reason)


def engine(program=None, **options):
    model = Model(name="any", graphs={}, program=program or Talk(), weights_fingerprint="")
    return Null().with_options(NullOptions(**options)).engine(model, EnginePlan())


def heard(count, program=None, **options):
    reply = Heard(count)
    with engine(program, **options) as null:
        null.submit(Samples(list(range(count)), list(range(count)), None), reply)
        reply.wait()
    return reply


@pytest.mark.parametrize(
    ("decoding", "answer"),
    [
        ({}, [1, END]),
        ({"min_new_tokens": 3}, [1, 1, 1, END]),
        ({"end_tokens": (1, 0)}, [2, 1]),
        ({"max_new_tokens": 1}, [END]),
    ],
)
def test_an_answer_is_as_short_as_the_program_allows_and_ends_with_an_end_token(decoding, answer):
    reply = heard(3, Talk(**decoding))
    assert list(reply.answers.values()) == [answer] * 3
    assert list(reply.counts.values()) == [len(answer)] * 3


def test_answers_begin_with_the_first_token_that_was_reported():
    reply = heard(5, tokens=4)
    assert {reply.at_ns["first", id_] for id_ in range(5)} == {1}
    assert {tuple(answer) for answer in reply.answers.values()} == {(1, 1, 1, END)}
    assert reply.calls == 1


def test_beam_search_reports_no_first_token():
    assert not heard(2, Talk(beams=4)).firsts


def test_lengths_are_spread_over_the_range_and_a_samples_own_each_time():
    reply = heard(1000, tokens=10, most_tokens=19)
    lengths = np.array([len(reply.answers[id_]) for id_ in range(1000)])
    assert np.bincount(lengths, minlength=20)[10:].tolist() == pytest.approx([100] * 10, abs=10)
    assert lengths.tolist() == [
        len(answer) for _, answer in sorted(heard(1000, tokens=10, most_tokens=19).answers.items())
    ]


def test_tokens_come_at_the_set_pace():
    started_ns = time.monotonic_ns()
    reply = heard(2, tokens=5, delay_ms=20, token_ms=10)
    for id_ in range(2):
        assert reply.firsts[id_] - started_ns >= 20e6
        assert reply.at_ns[id_] - started_ns >= 60e6


def test_a_short_answer_that_came_later_is_given_before_a_long_one():
    reply = Heard(2)
    lengths = {index: len(answer) for index, answer in heard(50, tokens=2, most_tokens=50).answers.items()}
    long, short = max(lengths, key=lengths.get), min(lengths, key=lengths.get)
    with engine(tokens=2, most_tokens=50, token_ms=20) as null:
        null.submit(Samples([0], [long], None), reply)
        null.submit(Samples([1], [short], None), reply)
        reply.wait()
    assert list(reply.answers) == [1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 1}, r"backend.tokens is 1. An answer has 2 to 50 tokens"),
        ({"tokens": 51}, r"backend.tokens is 51"),
        ({"most_tokens": 60}, r"backend.most_tokens is 60"),
    ],
)
def test_a_length_that_cannot_be_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        engine(**options)
