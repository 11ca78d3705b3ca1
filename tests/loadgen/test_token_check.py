"""Tokens that are reported are held against the answer, for every sample of a run that is judged by tokens."""

import threading

import numpy as np
import pytest

from mlbench import ReplySpec, Samples
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.replies import CheckedReply

TOKENS = ReplySpec(dtype="int64", shape=(None,))
ANSWERS = [np.array([5, 6, 2]), np.array([7, 2])]


class Deaf:
    """Stands for LoadGen, and hears nothing."""

    issuer = threading.get_ident()

    def complete(self, *_):
        pass

    first_token = complete_one = give_up = gather = complete


def asked(spec=TOKENS, wants_tokens=True):
    """Return a reply to two samples, the samples, and the ledger that keeps their faults."""
    ledger, samples = Ledger(), Samples((101, 102), (3, 8), None)
    ledger.open(samples.ids, samples.indices)
    return CheckedReply(spec, ledger, Deaf(), wants_tokens=wants_tokens), samples, ledger


def test_answers_that_are_what_was_said_of_them_have_no_fault():
    reply, samples, ledger = asked()
    reply.first_token(samples, np.array([[5], [7]]))
    reply.complete(samples, ANSWERS, [3, 2])
    assert ledger.faults() == []


def test_a_token_count_that_is_not_the_answers_names_the_sample():
    reply, samples, ledger = asked()
    reply.complete(samples, ANSWERS, [3, 22])
    assert ledger.faults() == ["sample 8: token count 22 for an answer of 2 tokens"]


def test_a_first_token_that_the_answer_does_not_begin_with_names_the_sample():
    reply, samples, ledger = asked()
    reply.first_token(samples, np.array([[5], [9]]))
    reply.complete(samples.at([1]), ANSWERS[1:], [2])
    reply.complete(samples.at([0]), ANSWERS[:1], [3])
    assert ledger.faults() == ["sample 8: first token 9 was reported, and the answer begins with 7"]


def test_a_faulty_answer_is_an_answer_so_that_the_test_ends():
    reply, samples, ledger = asked()
    reply.complete(samples, ANSWERS, [1, 1])
    assert ledger.answered() == 2
    assert len(ledger.faults()) == 2


@pytest.mark.parametrize(
    ("spec", "wants_tokens"),
    [
        (TOKENS, False),
        (ReplySpec(dtype="float32", shape=(None,)), True),
        (ReplySpec(dtype="uint8", shape=(None,), is_text=True), True),
    ],
)
def test_replies_that_are_no_tokens_may_have_any_count(spec, wants_tokens):
    reply, samples, ledger = asked(spec, wants_tokens)
    reply.complete(samples, [answer.astype(spec.dtype) for answer in ANSWERS], [30, 20])
    assert ledger.faults() == []
