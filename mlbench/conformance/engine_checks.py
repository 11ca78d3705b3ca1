"""Checks of any engine: each sample is answered once, in the promised form, however samples arrive.

The first line of a check's docstring is its requirement; its name is what `mlbench check` prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from mlbench.conformance.known_answers import Scoring
from mlbench.conformance.recording import (
    ALL_AT_ONCE,
    EIGHT_AT_A_TIME,
    FIXED_BATCHES,
    ONE_AT_A_TIME,
    PATTERNS,
    TRICKLE,
    RecordingReply,
    Sent,
    answer_all,
    make_samples,
    send,
    submit,
    submit_as_given,
)
from mlbench.conformance.subject import Check, Subject, demand, demand_answer
from mlbench.contracts.backend import Backend
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Samples
from mlbench.contracts.reply_spec import ReplySpec
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.errors import ConformanceError, describe_error
from mlbench.wire.engine_statistics import statistics_from_json, statistics_to_json
from mlbench.wire.runtime_facts import runtime_from_json, runtime_to_json

_LATE_S = 0.3
"""How long to wait for late replies after an engine has stopped."""

_FOR_EVER_US = 600_000_000


def answers_one_at_a_time(subject: Subject) -> None:
    """Samples that come singly, each after the answer to the last (SingleStream), are answered once each."""
    _demand_one_answer_each(send(subject, ONE_AT_A_TIME), subject)


def answers_eight_at_a_time(subject: Subject) -> None:
    """Queries of eight, each after the answer to the last (MultiStream), have every sample answered once."""
    _demand_one_answer_each(send(subject, EIGHT_AT_A_TIME), subject)


def answers_a_trickle(subject: Subject) -> None:
    """Samples that come singly without waiting for answers (Server) are answered once each."""
    _demand_one_answer_each(send(subject, TRICKLE), subject)


def answers_all_at_once(subject: Subject) -> None:
    """One query of 27 samples (Offline) has every sample answered once."""
    _demand_one_answer_each(send(subject, ALL_AT_ONCE), subject)


def answers_an_unfilled_batch(subject: Subject) -> None:
    """Fixed batches of 4 answer all of 27 samples, the three that fill no batch too, and nothing for the padding."""
    _demand_one_answer_each(send(subject, FIXED_BATCHES), subject)


def answers_a_repeated_index_each_time(subject: Subject) -> None:
    """A query that holds the same dataset index several times has each of these samples answered."""
    for pattern in (EIGHT_AT_A_TIME, ALL_AT_ONCE):
        _demand_one_answer_each(send(subject, pattern, indices=[3, 3, 5, 3, 5, 3, 3, 3]), subject)


def answers_after_flush(subject: Subject) -> None:
    """After `flush` an engine answers what it holds, however long it might have waited for a fuller batch."""
    reply = RecordingReply()
    with subject.engine("dynamic", batch=8, max_wait_us=_FOR_EVER_US) as (engine, dataset):
        samples = make_samples([4, 7, 2], dataset)
        submit(engine, samples, reply)
        engine.flush()
        in_time = reply.wait(samples, subject.patience_s)
    demand_answer(
        in_time,
        f"3 samples of a batch of 8 were not answered within {subject.patience_s:g} s of flush().",
        "flush() means that no more samples are coming: run the waiting ones.",
        is_silent=reply.is_silent,
    )


def replies_have_the_promised_form(subject: Subject) -> None:
    """Replies are NumPy arrays of the promised form, without a NaN, and never empty, also after `replay_graphs`."""
    for pattern in PATTERNS:
        _demand_promised_form(send(subject, pattern))
    with subject.engine("bucketed") as (engine, dataset):
        if engine.replay_graphs():
            return
        sent = Sent(pattern="after replay_graphs", samples=make_samples(range(dataset.count), dataset))
        answer_all(subject, engine, sent.samples, sent.reply)
    _demand_one_answer_each(sent, subject)
    _demand_promised_form(sent)


def leaves_samples_alone(subject: Subject) -> None:
    """An engine changes nothing in the `Samples` that it is given."""
    for batching in ("inline", "bucketed"):
        reply = RecordingReply()
        with subject.any_engine(batching, batch=1) as (engine, dataset):
            samples = make_samples(range(dataset.count), dataset)
            given = Samples(samples.ids, samples.indices, dataset)
            submit_as_given(engine, given, reply)
            engine.flush()
            reply.wait(samples, subject.patience_s)
        for name in ("ids", "indices", "dataset"):
            demand(
                getattr(given, name) is getattr(samples, name),
                f"`samples.{name}` was changed ({batching}).",
                "Make Samples of your own, with samples[a:b] or samples.at(positions).",
            )


def is_silent_after_exit(subject: Subject) -> None:
    """After an engine's ``__exit__`` has returned it answers nothing, even if it was stopped while working."""
    reply = RecordingReply()
    with subject.any_engine("bucketed") as (engine, dataset):
        samples = make_samples([*range(dataset.count)] * 2, dataset)
        first, second = samples[: dataset.count], samples[dataset.count :]
        answer_all(subject, engine, first, reply)
        submit(engine, second, reply)
    reply.close()
    reply.wait_for_late(_LATE_S)
    demand(
        not reply.late_ids,
        f"{len(reply.late_ids)} replies came after __exit__ had returned.",
        "Stop and join threads in __exit__, and cancel work that they have not begun.",
    )


def stops_without_work(subject: Subject) -> None:
    """An engine that was never given a sample starts, flushes and stops."""
    with subject.any_engine("dynamic") as (engine, _):
        engine.flush()


def runs_again_after_exit(subject: Subject) -> None:
    """A backend makes a second engine after the first was stopped, and it answers as well."""
    for number in (1, 2):
        with subject.any_engine("bucketed") as (engine, dataset):
            indices = [place % dataset.count for place in range(27)]
            sent = Sent(pattern=f"engine {number} of the backend", samples=make_samples(indices, dataset))
            answer_all(subject, engine, sent.samples, sent.reply)
        _demand_one_answer_each(sent, subject)


def reports_facts_as_json(subject: Subject) -> None:
    """`Engine.statistics` and `Backend.observe` return what JSON can hold, `calls` and `capacity` what they promise.

    Statistics are `EngineStatistics`, facts `RuntimeFacts`, each field of the type that it says; ``truncated_prompts``
    is not negative.
    """
    with subject.any_engine("fixed") as (engine, dataset):
        reply = RecordingReply()
        samples = make_samples(range(dataset.count), dataset)
        answer_all(subject, engine, samples, reply)
        _demand_runtime_facts(subject.backend)
        _demand_statistics(engine)
        _demand_promised_kinds(engine)


def _demand_runtime_facts(backend: Backend) -> None:
    _demand_json("Backend.observe", lambda: runtime_to_json(backend.observe()))
    extra = runtime_from_json(runtime_to_json(backend.observe())).extra
    odd = sorted({each.name for each in fields(RuntimeFacts)}.intersection(extra))
    demand(
        not odd,
        f"Backend.observe() returns {odd and extra[odd[0]]!r} as {odd and odd[0]}.",
        "Return RuntimeFacts with values of the declared types, and other facts in its extra.",
    )


def _demand_statistics(engine: Engine) -> None:
    _demand_json("Engine.statistics", lambda: statistics_to_json(engine.statistics()))
    statistics = statistics_from_json(statistics_to_json(engine.statistics()))
    odd = sorted({each.name for each in fields(statistics)}.intersection(statistics.extra))
    demand(
        not odd,
        f"Engine.statistics() returns {odd and statistics.extra[odd[0]]!r} as {odd and odd[0]}.",
        f"Return each field as {type(statistics).__name__} describes it, and anything else in its extra.",
    )
    count = statistics.truncated_prompts or 0
    demand(
        count >= 0,
        f"Engine.statistics() returns {count!r} as truncated_prompts.",
        "Count the samples whose prompt was cut, or leave it out.",
    )


def _demand_json(method: str, report: Callable[[], Mapping[str, Any]]) -> None:
    try:
        values = dict(report())
        json.dumps(values, allow_nan=False, ensure_ascii=False).encode()
    except Exception as error:  # a plugin's method, and values of any kind
        raise ConformanceError(
            f"{method}() returns values that JSON cannot represent: {describe_error(error)}.",
            hint="Convert to str, int, float, list or dict; JSON has no NaN, no infinities and no bytes.",
        ) from None
    odd = [key for key in values if type(key) is not str]
    demand(not odd, f"{method}() has the key {odd and odd[0]!r}, expected text.", "Keys of JSON objects are text.")


def _demand_promised_kinds(engine: Engine) -> None:
    capacity, calls = engine.capacity(), engine.calls()
    demand(
        capacity is None or isinstance(capacity, Capacity),
        f"capacity() returns a {type(capacity).__name__}.",
        "Return a Capacity, or None.",
    )
    odd = [type(call).__name__ for call in calls if not isinstance(call, GraphCalls)]
    demand(not odd, f"calls() returns a {odd and odd[0]}.", "Return GraphCalls.")
    _demand_json("Engine.calls", lambda: {str(place): asdict(call) for place, call in enumerate(calls)})


def _demand_one_answer_each(sent: Sent, subject: Subject) -> None:
    reply, names = sent.reply, dict(zip(sent.samples.ids, sent.samples.indices, strict=True))
    demand(
        not reply.invalidated,
        f"the engine made the run invalid: {reply.invalidated and reply.invalidated[0]} ({sent.pattern}).",
        "These samples are sound: see the reason.",
    )
    demand(
        not reply.refused,
        f"a reply is to something that is not Samples: {reply.refused and reply.refused[0]} ({sent.pattern}).",
        "Answer with the Samples that were submitted, or with parts of them.",
    )
    strangers = sorted(reply.answers.keys() - names.keys())
    demand(
        not strangers,
        f"ids {strangers} were answered and never submitted ({sent.pattern}).",
        "Answer with the ids of the samples submitted; dataset indices are not ids.",
    )
    for id_, index in names.items():
        where = f"sample {index} ({sent.pattern})"
        failed, count = reply.failures.get(id_, []), len(reply.answers.get(id_, []))
        demand(not failed, f"{where} was given up: {failed and failed[0]}.", "This sample is sound: see the reason.")
        demand_answer(
            count > 0,
            f"{where} was not answered within {subject.patience_s:g} s.",
            "Complete or fail each sample, those of a batch that is not full too.",
            is_silent=reply.is_silent,
        )
        demand(count == 1, f"{where} was answered {count} times.", "Complete each sample id exactly once.")


def _demand_promised_form(sent: Sent) -> None:
    for id_, index in zip(sent.samples.ids, sent.samples.indices, strict=True):
        for answer in sent.reply.answers.get(id_, []):
            if wrong := _wrong_form(answer, Scoring.reply):
                raise ConformanceError(
                    f"sample {index} ({sent.pattern}): {wrong}.",
                    hint="Give reply.complete() the program's outputs as they are: one row per sample.",
                )


def _wrong_form(answer: Any, spec: ReplySpec) -> str:
    """Return what is wrong with the form of one answer; empty when nothing is."""
    if not isinstance(answer, np.ndarray):
        return f"the reply is a {type(answer).__name__}, expected a NumPy array"
    if answer.size == 0:
        return f"the reply is empty, of shape {answer.shape}, expected {spec.shape}"
    if answer.shape != spec.shape:
        return f"the reply has shape {answer.shape}, expected {spec.shape}"
    if answer.dtype != np.dtype(spec.dtype):
        return f"the reply is {answer.dtype}, expected {spec.dtype}"
    if np.isnan(answer).any():
        return "NaN in the reply"
    return ""


LIFE_CHECKS: tuple[Check, ...] = (
    stops_without_work,
    leaves_samples_alone,
    is_silent_after_exit,
    runs_again_after_exit,
    reports_facts_as_json,
)
"""For any engine, of batches or of prompts."""

ENGINE_CHECKS: tuple[Check, ...] = (
    answers_one_at_a_time,
    answers_eight_at_a_time,
    answers_a_trickle,
    answers_all_at_once,
    answers_an_unfilled_batch,
    answers_a_repeated_index_each_time,
    answers_after_flush,
    replies_have_the_promised_form,
)
"""For an engine of batches."""
