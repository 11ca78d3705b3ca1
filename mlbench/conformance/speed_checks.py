"""Checks against speed without computation: no cached answers, and correct tokens.

A run checks the same of the measured engine (`mlbench.rules.answers`); the kit finds it beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from mlbench.conformance.known_answers import Scoring, draw_seed
from mlbench.conformance.known_generation import ANSWER_TOKENS
from mlbench.conformance.recording import RecordingReply, answer_all, make_samples
from mlbench.conformance.subject import Check, Subject, demand, demand_answer
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.graph import Executable
from mlbench.execution.variations import Change, Variation, VariedDataset

_MOST_REPEATED = 3.0
_ROUNDS = 5
_LEAST_ROUNDS = 3
_LEAST_NS = 2_000_000
"""Shorter times cannot be distinguished from noise."""

_CALLS = 16
"""Graph calls per sample: enough for skipped calls to show in the time."""

_LEAST_CONTINUED = 0.5


class Laborious(Scoring):
    """Calls the graph many times for each sample, with its tokens shifted, and returns the first scores."""

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the scores of each list."""
        scores = []
        for sample in samples:
            scores.append(super().run([sample], graphs))
            for shift in range(1, _CALLS):
                super().run([np.roll(sample, shift)], graphs)
        return np.concatenate(scores)


def answers_content_not_indices(subject: Subject) -> None:
    """A dataset index that comes with other content is answered for the content."""
    with subject.engine("bucketed") as (engine, dataset):
        indices = list(range(dataset.count))
        right = _answers(subject, engine, dataset, indices)
        moved = {index: Variation(base=(index + 1) % dataset.count) for index in indices}
        found = _answers(subject, engine, VariedDataset(dataset, moved), indices)
    for index in indices:
        own, other = right.get(index), right.get(moved[index].base)
        answer = found.get(index)
        if own is None or other is None or answer is None or answer.shape != other.shape:
            continue  # the checks of engines say so
        demand(
            bool(np.abs(answer - other).sum() <= np.abs(answer - own).sum()),
            f"sample {index} with the content of sample {moved[index].base} was answered as sample {index}.",
            "Compute an answer from what `samples.dataset.sample(index)` returns; do not cache it by index.",
        )


def computes_each_answer(subject: Subject) -> None:
    """Content that was answered before takes as long as new content of the same make, the quickest of each compared.

    Whatever else the machine does only adds to a time, so the quickest of several rounds is nearest to the work itself.
    """
    new_ns, known_ns = [], []
    drawn = draw_seed()  # what an earlier process was asked may lie on a disk
    with subject.engine("inline", batch="auto", program=Laborious()) as (engine, dataset):
        known = list(range(dataset.count))
        _answers(subject, engine, dataset, known)
        for number in range(_ROUNDS):
            new = {
                dataset.count * (number + 1) + index: Variation(base=index, change=Change.STRONG, seed=drawn + number)
                for index in known
            }
            new_ns.append(_time_answers_ns(subject, engine, VariedDataset(dataset, new), list(new)))
            known_ns.append(max(1, _time_answers_ns(subject, engine, dataset, known)))
            ratio = min(new_ns) / min(known_ns)
            if number + 1 >= _LEAST_ROUNDS and ratio < _MOST_REPEATED:
                break
    demand(
        ratio < _MOST_REPEATED or max(new_ns) < _LEAST_NS,
        f"new content takes {ratio:.3g} times as long as content that was answered before.",
        "Remember no answers, neither by index nor by content, in the engine or in an executable.",
    )


def counts_the_tokens_it_gives(subject: Subject) -> None:
    """The token count of an answer is the number of its tokens."""
    with subject.generating_engine() as (engine, dataset):
        reply, samples = _generate(subject, engine, dataset)
    for id_, index, answer in _collect_answers(reply, samples):
        count = reply.token_counts.get(id_)
        demand(
            type(count) is not bool and isinstance(count, int | np.integer),
            f"prompt {index}: token count {count!r} is a {type(count).__name__}, expected an integer.",
            "Give reply.complete() the lengths of the outputs as token_counts.",
        )
        demand(
            count == len(answer),
            f"prompt {index}: token count {count} for an answer of {len(answer)} tokens.",
            "Give reply.complete() the lengths of the outputs as token_counts.",
        )


def reports_the_first_token_it_gives(subject: Subject) -> None:
    """The first token is reported once, before the answer, and is its first."""
    with subject.generating_engine() as (engine, dataset):
        reply, samples = _generate(subject, engine, dataset)
    for id_, index, answer in _collect_answers(reply, samples):
        first = reply.first_tokens.get(id_)
        demand(
            first is not None and first == answer[0],
            f"prompt {index}: first token {first} was reported, and the answer begins with {answer[0]}.",
            "Call reply.first_token() once the first token is computed, with that token.",
        )
        reports = reply.first_reports[id_]
        demand(
            len(reports) == 1,
            f"prompt {index}: {len(reports)} first tokens were reported, {reports[:3]}, and an answer has one.",
            "Call reply.first_token() once for each sample.",
        )


def continues_its_answers(subject: Subject) -> None:
    """A prompt with the beginning of its answer behind it is answered with the rest, in half of all cases at least."""
    with subject.generating_engine() as (engine, dataset):
        reply, samples = _generate(subject, engine, dataset)
        answers = {index: answer.tolist() for _, index, answer in _collect_answers(reply, samples)}
        given = {index: 1 + index % (len(answer) - 1) for index, answer in answers.items() if len(answer) > 1}
        longer = {
            dataset.count + index: Variation(base=index, continuation=tuple(answers[index][:count]))
            for index, count in given.items()
        }
        reply, samples = _generate(subject, engine, VariedDataset(dataset, longer), list(longer))
    wanted = {dataset.count + index: answers[index][count] for index, count in given.items()}
    wrong = [index for _, index, answer in _collect_answers(reply, samples) if answer[0] != wanted[index]]
    demand(
        len(wrong) <= (1 - _LEAST_CONTINUED) * len(wanted),
        f"{len(wrong)} of {len(wanted)} prompts that hold the beginning of an answer are not answered with its rest.",
        "Put nothing before an answer that the model did not choose, and answer the whole prompt.",
    )


def gives_whole_answers(subject: Subject) -> None:
    """Answers to which the model finds no end have as many tokens as are allowed."""
    with subject.generating_engine() as (engine, dataset):
        reply, samples = _generate(subject, engine, dataset)
    for _, index, answer in _collect_answers(reply, samples):
        demand(
            len(answer) == ANSWER_TOKENS,
            f"the answer to prompt {index} has {len(answer)} tokens, expected {ANSWER_TOKENS}.",
            "Decode until an end token is chosen, or for Decoding.max_new_tokens; put no end token of your own.",
        )


def _generate(
    subject: Subject, engine: Engine, dataset: Dataset, indices: Sequence[int] | None = None
) -> tuple[RecordingReply, Samples]:
    reply = RecordingReply()
    samples = make_samples(range(dataset.count) if indices is None else indices, dataset)
    answer_all(subject, engine, samples, reply)
    return reply, samples


def _collect_answers(reply: RecordingReply, samples: Samples) -> list[tuple[int, int, np.ndarray]]:
    """Return id, index and answer of each sample; all must have one, with a token at least."""
    found = []
    for id_, index in zip(samples.ids, samples.indices, strict=True):
        answers = reply.answers.get(id_, [])
        demand_answer(
            bool(answers) and np.ndim(answers[0]) == 1 and len(answers[0]) > 0,
            f"prompt {index} was not answered with tokens: {reply.failures.get(id_, ['no answer'])[0]}.",
            "Answer each prompt with one array of tokens.",
            is_silent=reply.is_silent,
        )
        found.append((id_, index, answers[0]))
    return found


def _answers(subject: Subject, engine: Engine, dataset: Dataset, indices: Sequence[int]) -> dict[int, np.ndarray]:
    reply, samples = _generate(subject, engine, dataset, indices)
    names = dict(zip(samples.ids, samples.indices, strict=True))
    return {names[id_]: answers[0] for id_, answers in reply.answers.items() if id_ in names}


def _time_answers_ns(subject: Subject, engine: Engine, dataset: Dataset, indices: Sequence[int]) -> int:
    started_ns = time.perf_counter_ns()
    _answers(subject, engine, dataset, indices)
    return time.perf_counter_ns() - started_ns


SPEED_CHECKS: tuple[Check, ...] = (answers_content_not_indices, computes_each_answer)
"""For any engine of batches, one too that computes nothing and hides nothing; likewise the next of prompts."""

TOKEN_CHECKS: tuple[Check, ...] = (counts_the_tokens_it_gives, reports_the_first_token_it_gives)

GENERATION_CHECKS: tuple[Check, ...] = (continues_its_answers, gives_whole_answers)
"""For an engine that generates what a model says."""
