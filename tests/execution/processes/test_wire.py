"""Signed messages over a pipe."""

import json
import os
import subprocess
import sys

import pytest

from mlbench.execution.processes.channel import Channel, OutcomeMessage, parse_message
from mlbench.execution.processes.failures import ErrorReport
from mlbench.execution.processes.wire import Received, Receiver, Sender, Stray, new_key
from mlbench.wire.progress import ProgressMessage, Steps


@pytest.fixture
def pipe():
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)  # a test that fills it is to fail
    yield read_end, write_end
    os.close(read_end)
    os.close(write_end)


def sent(pipe, key, *messages):
    """Return the bytes of messages."""
    sender = Sender(pipe[1], key)
    for message in messages:
        sender.send(message)
    return os.read(pipe[0], 1 << 20)


def received(receiver, data, size=7):
    """Feed bytes in small parts, as a pipe may give them; return the values of messages, and what is none."""
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    arrived = [each for part in [*parts, b""] for each in receiver.feed(part)]
    return [json.loads(each.body) if isinstance(each, Received) else each for each in arrived]


MESSAGES = [{"a": 1}, {"text": "two\nlines, \u2028 and ü"}, {"long": "x" * 20_000}, {}]


FORKED = """
import os, sys
from mlbench.execution.processes.wire import Sender
sender = Sender(1, "00" * 32)
if not os.fork():
    sender.send({"from": "the copy"})
    sys.exit("it went on")
print(os.waitstatus_to_exitcode(os.wait()[1]), file=sys.stderr)
sender.send({"from": "the run"})
"""


def test_a_forked_copy_sends_nothing_and_ends():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, check=True)
    assert received(Receiver("00" * 32), done.stdout) == [{"from": "the run"}]
    assert done.stderr == b"a copy of the run's process, which was forked, ends here\n1\n"


def test_messages_arrive_in_order_however_they_are_cut(pipe):
    key = new_key()
    assert received(Receiver(key), sent(pipe, key, *MESSAGES)) == MESSAGES


def test_no_write_is_longer_than_a_pipe_takes_as_a_whole(pipe):
    assert max(map(len, sent(pipe, new_key(), {"long": "ü" * 20_000}).split(b"\n"))) < 4094


def test_what_is_written_between_lines_spoils_no_message(pipe):
    key = new_key()
    lines = sent(pipe, key, *MESSAGES).split(b"\n\n")
    arrived = received(Receiver(key), b"\nstray, \xff and no end".join(b"\n" + line + b"\n" for line in lines))
    assert [each for each in arrived if not isinstance(each, Stray)] == MESSAGES
    assert {each.content for each in arrived if isinstance(each, Stray)} == {b"stray, \xff and no end\n"}


def test_a_message_with_another_key_or_sent_again_is_none(pipe):
    key = new_key()
    genuine, forged = sent(pipe, key, {"a": 1}), sent(pipe, new_key(), {"a": 2})
    arrived = received(Receiver(key), forged + genuine + genuine)
    assert [type(each) for each in arrived] == [Stray, dict, Stray]


def test_a_line_that_was_changed_is_none(pipe):
    key = new_key()
    assert all(
        isinstance(each, Stray) for each in received(Receiver(key), sent(pipe, key, {"a": 1}).replace(b"1}", b"2}"))
    )


@pytest.mark.parametrize("size", [1, 1 << 16])
def test_an_endless_line_is_passed_on_in_parts_and_not_kept(size):
    receiver = Receiver(new_key())
    total = 0
    for _ in range(64 if size > 1 else 20_000):
        total += sum(len(each.content) for each in receiver.feed(b"x" * size))
        assert len(receiver._unfinished) <= 4096
    assert total


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_hold_is_refused_by_the_sender_and_nothing_is_written(pipe, value):
    with pytest.raises((ValueError, TypeError)):
        Sender(pipe[1], new_key()).send({"value": value})
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 1)


def test_a_lone_surrogate_arrives_as_a_question_mark(pipe):
    key = new_key()
    assert received(Receiver(key), sent(pipe, key, {"text": "\udcff"})) == [{"text": "?"}]


def test_the_pipe_is_not_inherited(pipe):
    os.set_inheritable(pipe[1], True)
    Sender(pipe[1], new_key())
    assert not os.get_inheritable(pipe[1])


def test_what_the_channel_sends_is_the_message_that_is_parsed(pipe):
    key = new_key()
    channel = Channel(Sender(pipe[1], key))
    channel.progress("compile", Steps(done=1, of=3))
    channel.outcome({"rate": 2.5})
    channel.error(ValueError("no such graph"))
    progress, outcome, error = map(parse_message, Receiver(key).feed(os.read(pipe[0], 1 << 20)))
    assert progress == ProgressMessage(stage="compile", facts={"done": 1, "of": 3})
    assert outcome == OutcomeMessage(value={"rate": 2.5})
    assert isinstance(error, ErrorReport) and error.message == "ValueError: no such graph"


@pytest.mark.parametrize(
    ("body", "logged"),
    [
        (b"{", b"{\n"),
        (b"[" * 100_000, b"[" * 100_000 + b"\n"),
        (b"[1]", b"[1]\n"),
        (b'{"kind": "outcome"}', b"{'kind': 'outcome'}"),
        (b'{"kind": "outcome", "value": [1]}', b"{'kind': 'outcome', 'value': [1]}"),
        (b'{"kind": "outcome", "value": {}, "more": 1}', b"{'kind': 'outcome', 'value': {}, 'more': 1}"),
    ],
)
def test_signed_json_that_is_no_message_is_for_the_log(body, logged):
    assert parse_message(Received(body)) == Stray(logged)
