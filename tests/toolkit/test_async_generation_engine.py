"""Engines of outside authors, right ones and broken ones: each sample is completed or failed exactly once."""

import asyncio
import threading

import pytest
from counting_engine import (
    DECODING,
    END,
    PATIENCE_S,
    Counting,
    asked,
    failure,
    given,
    samples_of,
    wait_until,
)

from mlbench import Decoding, Model, UnavailableError, UsageError
from mlbench.conformance.recording import RecordingReply
from mlbench.toolkit.language import TokenProgram


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
        ([], "the answer stopped after 0 tokens"),
        ([[], []], "the answer stopped after 0 tokens"),
        ([[7], [8]], "the answer stopped after 2 tokens"),
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
