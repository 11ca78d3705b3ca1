"""An engine over an asynchronous runtime that is left while requests are under way: nothing hangs, nothing is lost."""

import asyncio
import gc
import logging
import random
import threading
import time

import pytest
from counting_engine import (
    END,
    LEFT,
    PATIENCE_S,
    Counting,
    asked,
    given,
    samples_of,
    wait_until,
)

from mlbench import UnavailableError
from mlbench.conformance.recording import RecordingReply


def left(model, odd, patience_s=10.0):
    """Return the engine, the reply and the samples, once the engine was left while two requests were under way."""
    reply, samples = RecordingReply(), samples_of(50, 51)
    engine = Counting(model, odd, patience_s)
    with engine:
        engine.submit(samples, reply)
        wait_until(lambda: engine.asked == 2)
    reply.close()
    return engine, reply, samples


async def waiting(engine):
    try:
        yield [7]
        await asyncio.Event().wait()
    finally:
        engine.events.append("stream closed")


def test_requests_under_way_are_cancelled_and_failed_before_the_runtime_closes(model):
    engine, reply, samples = left(model, waiting)
    assert given(reply, samples) == [LEFT, LEFT]
    assert engine.events == ["open", "stream closed", "stream closed", "close"]
    assert not reply.late_ids


async def stubborn(engine):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield []


def test_requests_that_go_on_when_cancelled_are_left_after_a_while(model, caplog):
    engine, reply, samples = left(model, stubborn, patience_s=2)
    assert given(reply, samples) == [LEFT, LEFT]
    assert "2 requests go on after they were cancelled" in caplog.text
    assert engine.events == ["open", "close"]


def test_a_call_in_a_thread_ends_before_the_runtime_closes(model):
    reply, samples, has_begun = RecordingReply(), samples_of(50), threading.Event()

    async def stepping(engine):
        await asyncio.to_thread(step, engine)
        yield [7, END]

    def step(engine):
        has_begun.set()
        time.sleep(0.3)
        engine.events.append("stepped")

    with Counting(model, stepping) as engine:
        engine.submit(samples, reply)
        assert has_begun.wait(PATIENCE_S)
    assert given(reply, samples) == [LEFT]
    assert engine.events == ["open", "stepped", "close"]


@pytest.mark.parametrize("where", ["in the loop", "in a thread"])
def test_an_engine_that_a_request_blocks_is_left_with_an_error_and_nothing_is_closed_beneath_it(model, where):
    has_begun, may_go_on, reply, samples = threading.Event(), threading.Event(), RecordingReply(), samples_of(50, 10)

    def block():
        has_begun.set()
        may_go_on.wait()

    async def blocking(engine):
        if where == "in the loop":
            block()
        else:
            await asyncio.to_thread(block)
        yield [7, END]

    engine = Counting(model, blocking, patience_s=0.5)
    try:
        with pytest.raises(UnavailableError, match=r"counting does not stop: a request has blocked it"), engine:
            engine.submit(samples, reply)
            assert has_begun.wait(PATIENCE_S)
        reply.close()
        assert given(reply, samples)[0] == LEFT
    finally:
        may_go_on.set()
    reply.wait_for_late(0.3)
    assert not reply.late_ids
    assert "close" not in engine.events


def test_no_thread_is_left(model):
    before = set(threading.enumerate())

    async def stepping(engine):
        await asyncio.to_thread(lambda: None)
        yield [7, END]

    with Counting(model, stepping) as engine:
        asked(engine, samples_of(50, 51))
    wait_until(lambda: not set(threading.enumerate()) - before)


@pytest.mark.parametrize("seed", range(10))
def test_each_sample_is_completed_or_failed_once_whenever_the_engine_is_left(model, seed):
    drawn = random.Random(seed)

    async def moody(engine):
        for _ in range(4):
            await asyncio.sleep(drawn.random() / 50)
            if drawn.random() < 0.1:
                raise drawn.choice([ValueError, SystemExit, asyncio.CancelledError])
            yield [drawn.randrange(3, 50)]
        yield [END]

    reply, samples = RecordingReply(), samples_of(*drawn.choices([10, 50], k=60))
    with Counting(model, moody) as engine:
        for start in range(0, 60, 6):
            engine.submit(samples[start : start + 6], reply)
            time.sleep(drawn.random() / 200)
        time.sleep(drawn.random() / 20)
    reply.close()
    found = given(reply, samples)
    assert {type(each) for each in found} == {list, str}
    assert reply.first_tokens.keys() >= reply.answers.keys()
    assert not reply.late_ids


def test_what_outlasts_its_engine_says_nothing_when_it_is_freed(model, caplog):
    left(model, stubborn, patience_s=0.5)
    gc.collect()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
