"""Engines of outside authors, right ones and broken ones: each sample is completed or failed exactly once."""

import asyncio
import random
import threading
import time

import numpy as np
import pytest

from mlbench import Decoding, Model, Prompt, UnavailableError, UsageError
from mlbench.conformance.recording import RecordingReply, make_samples
from mlbench.conformance.text_model import KitPrompts
from mlbench.toolkit import AsyncGenerationEngine
from mlbench.toolkit.language import TokenProgram

END = 2
DECODING = Decoding(end_tokens=(END,), max_new_tokens=8, longest=64)
PATIENCE_S = 60.0
LEFT = "the engine was stopped before the answer was whole"


class Counting(AsyncGenerationEngine):
    """Answers with the three numbers that follow the prompt's first; ``odd`` generates for prompts that begin at 50."""

    name = "counting"

    def __init__(self, model, odd=None, patience_s=10.0):
        super().__init__(model)
        self.odd = odd
        self.patience_s = patience_s
        self.asked = 0
        self.events = []

    async def open(self):
        self.events.append("open")

    async def close(self):
        self.events.append("close")

    def generate(self, prompt):
        self.asked += 1
        first = int(prompt.tokens[0])
        return self.odd(self) if first >= 50 and self.odd else self.count(first)

    async def count(self, first):
        for place in (1, 2, 3):
            await asyncio.sleep(0)
            yield [first + place]
        yield [END]


@pytest.fixture
def model(tmp_path):
    return Model(name="numbers", graphs={}, program=TokenProgram(DECODING), weights_fingerprint="", files=tmp_path)


def samples_of(*firsts, stop=()):
    prompts = KitPrompts([Prompt(tokens=np.array([first, 1]), stop=stop) for first in firsts])
    return make_samples(range(len(firsts)), prompts)


def wait_until(is_so):
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert is_so()


def asked(engine, samples):
    reply = RecordingReply()
    engine.submit(samples, reply)
    assert reply.wait(samples, PATIENCE_S)
    return reply


def given(reply, samples):
    """Return the one answer to each sample, or the one reason of its failure."""
    found = []
    for id_ in samples.ids:
        both = [*reply.answers.get(id_, []), *reply.failures.get(id_, [])]
        assert len(both) == 1
        found.append(both[0] if isinstance(both[0], str) else both[0].tolist())
    return found


def failure(model, odd, *, later=True):
    """Return why a sample failed; those beside it, and the next query, are answered."""
    samples = samples_of(10, 50, 20)
    with Counting(model, odd) as engine:
        before, reason, after = given(asked(engine, samples), samples)
        if later:
            assert given(asked(engine, samples_of(30)), samples_of(30)) == [[31, 32, 33, END]]
    assert (before, after) == ([11, 12, 13, END], [21, 22, 23, END])
    return reason


def test_each_sample_is_given_its_own_answer(model):
    samples = samples_of(*range(10, 40))
    with Counting(model) as engine:
        reply = asked(engine, samples)
    assert given(reply, samples) == [[first + 1, first + 2, first + 3, END] for first in range(10, 40)]
    assert [reply.token_counts[id_] for id_ in samples.ids] == [4] * 30
    assert [reply.first_reports[id_] for id_ in samples.ids] == [[first + 1] for first in range(10, 40)]
    assert engine.events == ["open", "close"]


def test_the_first_token_is_reported_while_the_next_is_computed(model):
    may_go_on, reply, samples = threading.Event(), RecordingReply(), samples_of(50)

    async def waiting(engine):
        yield [7]
        await asyncio.to_thread(may_go_on.wait)
        yield [8, END]

    with Counting(model, waiting) as engine:
        engine.submit(samples, reply)
        wait_until(lambda: reply.first_tokens)
        assert reply.first_tokens == {samples.ids[0]: 7}
        assert not reply.answers
        may_go_on.set()
        assert reply.wait(samples, PATIENCE_S)
    assert given(reply, samples) == [[7, 8, END]]


def test_answers_are_counted_since_the_last_call_and_without_the_warm_up(model):
    async def failing(engine):
        raise ValueError
        yield

    with Counting(model, failing) as engine:
        engine.warm_up(samples_of(10, 20))
        asked(engine, samples_of(10, 20, 50))
        found = engine.statistics()
        assert (found.batching, found.samples) == ("counting", 2)
        assert found.extra == {"answered": 2, "failed": 1, "answer_tokens": 8}
        assert engine.statistics().extra == {"answered": 0, "failed": 0, "answer_tokens": 0}


def test_a_prompt_that_ends_with_its_stop_sequence_is_answered_without_the_runtime(model):
    async def unasked(engine):
        engine.events.append("asked")
        yield [7]

    samples = samples_of(50, stop=(1,))
    with Counting(model, unasked) as engine:
        reply = asked(engine, samples)
    assert given(reply, samples) == [[END, END]]  # an answer of one token is not allowed, see `TokenProgram`
    assert reply.first_tokens == {samples.ids[0]: END}
    assert "asked" not in engine.events


# What a runtime may raise, and what it may yield


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no memory\nsecond line"), "no memory"),
        (OSError(), "OSError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (TimeoutError(), "TimeoutError"),
        (StopAsyncIteration(), "async generator raised StopAsyncIteration"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("tokens", [0, 2])
def test_whatever_is_raised_fails_its_sample_alone(model, error, words, tokens):
    async def raising(engine):
        for token in range(tokens):
            yield [7 + token]
        raise error

    assert failure(model, raising) == words


def test_what_is_raised_before_there_is_a_stream_fails_the_sample_too(model):
    def raising(engine):
        raise ValueError("no stream")

    assert failure(model, raising) == "no stream"


def yielding(*parts):
    async def generate(engine):
        for part in parts:
            yield part

    return generate


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "no more came after 0 tokens"),
        ([[], []], "no more came after 0 tokens"),
        ([[7], [8]], "no more came after 2 tokens"),
        ([[END]], "token 1 is an end token"),
        ([7], "'int' object is not iterable"),
        ([None], "'NoneType' object is not iterable"),
        ([[7.5]], "'float' object cannot be interpreted as an integer"),
        (["text"], "'str' object cannot be interpreted as an integer"),
        ([[2**70] * 8], "too large"),
    ],
)
def test_what_is_no_answer_fails_the_sample(model, parts, words):
    assert words in failure(model, yielding(*parts))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_what_is_no_stream_fails_the_sample(model):
    async def returning(engine):
        return [7, END]

    assert "got coroutine" in failure(model, returning)


def test_what_comes_behind_the_end_is_dropped_and_the_stream_is_closed(model):
    async def running_on(engine):
        try:
            yield [7, END, 8]
            while True:
                yield [9]
        finally:
            engine.events.append("stream closed")

    def kept(engine):  # else Python closes it, as nothing refers to it any more
        engine.stream = running_on(engine)
        return engine.stream

    samples = samples_of(50)
    with Counting(model, kept) as engine:
        reply = asked(engine, samples)
    assert given(reply, samples) == [[7, END]]
    assert engine.events == ["open", "stream closed", "close"]


def test_an_answer_without_an_end_is_as_long_as_allowed(model):
    async def endless(engine):
        while True:
            yield [7]

    samples = samples_of(50)
    with Counting(model, endless) as engine:
        assert given(asked(engine, samples), samples) == [[7] * 8]


@pytest.mark.parametrize("end", ["raise", "yield", "wait"])
def test_a_whole_answer_counts_however_its_stream_closes(model, end):
    async def closing(engine):
        try:
            yield [7, END]
        finally:
            if end == "yield":
                yield [8]
            elif end == "wait":
                await asyncio.Event().wait()
            else:
                raise ValueError("not closed")

    samples = samples_of(50, 10)
    with Counting(model, closing) as engine:
        reply = asked(engine, samples)
    assert given(reply, samples) == [[7, END], [11, 12, 13, END]]


def test_an_exit_in_a_task_of_the_runtimes_own_ends_no_other(model):
    async def leaving():
        raise SystemExit(1)

    async def starting(engine):
        engine.own = asyncio.create_task(leaving())
        await asyncio.sleep(0.01)
        yield [7, END]

    samples = samples_of(50, 10)
    with Counting(model, starting) as engine:
        assert given(asked(engine, samples), samples) == [[7, END], [11, 12, 13, END]]
        assert given(asked(engine, samples), samples) == [[7, END], [11, 12, 13, END]]
        assert isinstance(engine.own.exception(), SystemExit)


# Leaving


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


# Opening and closing


@pytest.mark.parametrize("error", [ValueError("no such model"), SystemExit("no such model")])
def test_a_runtime_that_does_not_open_is_unavailable(model, error):
    class Closed(Counting):
        async def open(self):
            raise error

    before, engine = set(threading.enumerate()), Closed(model)
    with pytest.raises(UnavailableError, match=r"^counting does not start: (SystemExit: )?no such model\. "), engine:
        pass
    assert not engine.events
    assert set(threading.enumerate()) == before


def test_an_error_that_says_what_to_do_is_passed_on_as_it_is(model):
    class Refusing(Counting):
        async def open(self):
            raise UsageError("too few devices.", hint="Add one.")

    with pytest.raises(UsageError, match=r"too few devices\. Add one\."), Refusing(model):
        pass


class NotClosing(Counting):
    async def close(self):
        raise SystemExit("device lost")


def test_a_runtime_that_does_not_close_is_an_error(model):
    with pytest.raises(UnavailableError, match="does not stop: SystemExit: device lost"), NotClosing(model) as engine:
        asked(engine, samples_of(10))


def test_what_went_wrong_before_is_not_hidden_by_a_runtime_that_does_not_close(model):
    with pytest.raises(ZeroDivisionError), NotClosing(model):
        raise ZeroDivisionError


def test_nothing_is_taken_outside_the_with_block(model):
    engine = Counting(model)
    with pytest.raises(RuntimeError, match="outside its with block"):
        engine.submit(samples_of(10), RecordingReply())
    with engine:
        pass
    with pytest.raises(RuntimeError, match="outside its with block"):
        engine.submit(samples_of(10), RecordingReply())


def test_a_prompt_that_fails_in_warm_up_is_an_error(model):
    async def failing(engine):
        raise ValueError("not compiled")
        yield

    with Counting(model, failing) as engine, pytest.raises(UnavailableError, match="not compiled"):
        engine.warm_up(samples_of(10, 50))


# What no such engine runs


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"program": object()}, "counting cannot run numbers: it is for language models."),
        (
            {"program": TokenProgram(Decoding(end_tokens=(END,), max_new_tokens=8, beams=4, longest=64))},
            "counting cannot run numbers: its 4 beams end early",
        ),
        ({"files": None}, "counting reads a model's files, and numbers has none."),
    ],
)
def test_other_models_are_refused_in_a_line(tmp_path, changed, line):
    parts = {"name": "numbers", "graphs": {}, "program": TokenProgram(DECODING), "weights_fingerprint": ""}
    with pytest.raises(UsageError) as caught:
        Counting(Model(**{**parts, "files": tmp_path, **changed}))
    assert caught.value.message.startswith(line)
    assert caught.value.hint
