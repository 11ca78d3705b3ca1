"""What an instance sends for replies that its engine gets wrong: a failed sample with the reason, at once."""

import socket

import numpy as np
import pytest

from mlbench import Samples
from mlbench.execution.instances.messages import Line, numbers
from mlbench.execution.instances.serving import LineReply

SAMPLES = Samples(range(40, 42), [3, 8], None)


class Sent(list):
    """A line that keeps what is sent."""

    def send(self, kind, arrays=(), **facts):
        self.append((kind, [array.tolist() for array in arrays], facts))


@pytest.fixture
def sent():
    return Sent()


class Raising:
    def __iter__(self):
        raise RuntimeError("no items today")

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array today")


OUTPUTS = np.zeros((2, 1), np.float32)


@pytest.mark.parametrize(
    ("outputs", "counts", "reason"),
    [
        (OUTPUTS, [2.0, 3.0], "token counts are float64, expected integers"),
        (OUTPUTS, [True, True], "token counts are bool, expected integers"),
        (OUTPUTS, ["2", "3"], "token counts are <U1, expected integers"),
        (OUTPUTS, [2**70, 1], "token counts are object, expected integers"),
        (OUTPUTS.tolist(), None, "reply is a list, not a NumPy array of numbers"),
        (OUTPUTS.astype(object), None, "reply is a ndarray, not a NumPy array of numbers"),
        (Raising(), None, "complete() raised RuntimeError: no items today"),
        (5, None, "complete() raised TypeError: 'int' object is not iterable"),
    ],
)
def test_a_reply_that_cannot_be_sent_fails_its_samples(sent, outputs, counts, reason):
    LineReply(sent, 1).complete(SAMPLES, outputs, counts)
    assert sent == [("fail", [[40, 41], [3, 8]], {"test": 1, "reason": reason})]


def test_first_tokens_that_cannot_be_sent_fail_their_samples(sent):
    class Refusing(Sent):
        def send(self, kind, arrays=(), **facts):
            super().send(kind, [np.asarray(array) for array in arrays], **facts)

    line = Refusing()
    LineReply(line, 1).first_token(SAMPLES, Raising())
    assert line == [
        ("fail", [[40, 41], [3, 8]], {"test": 1, "reason": "first_token() raised RuntimeError: no array today"})
    ]


def test_a_reason_travels_as_one_printable_line(sent):
    LineReply(sent, 1).fail(SAMPLES, "caf\udce9\nand more")
    assert sent[0][2]["reason"] == "caf\\udce9"


def test_nothing_is_raised_into_an_engine_that_answers_what_are_no_samples(sent):
    reply = LineReply(sent, 1)
    reply.complete(None, OUTPUTS)
    reply.first_token([1], OUTPUTS)
    reply.fail(object(), "why")
    assert sent == []


def test_nothing_is_raised_into_an_engine_whose_client_is_gone():
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        reply = LineReply(Line(ours), 1)
        reply.first_token(SAMPLES, OUTPUTS)
        reply.complete(SAMPLES, OUTPUTS, [2, 3])
        reply.fail(SAMPLES, "why")
        reply.give_up(SAMPLES, "why")
        reply.invalidate("why")
        with pytest.raises(OSError, match="Broken pipe"):
            Line(ours).send("complete")


def test_sound_replies_are_sent_as_they_are(sent):
    LineReply(sent, 1).complete(SAMPLES, OUTPUTS, [2, 3])
    serials, indices = numbers(SAMPLES.ids).tolist(), SAMPLES.indices
    facts = {"test": 1, "is_one": True, "has_counts": True}
    assert sent == [("complete", [serials, indices, [2, 3], OUTPUTS.tolist()], facts)]
