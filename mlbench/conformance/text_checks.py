"""Checks of engines for language models: every answer is the model's own, however requests arrive and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from mlbench.conformance.recording import RecordingReply, make_samples, submit
from mlbench.conformance.subject import Check, Subject, demand, demand_answer
from mlbench.conformance.text_model import (
    END_TOKEN,
    ENDING,
    FULL,
    MAX_NEW_TOKENS,
    POSITIONS,
    TWINS,
    KitPrompts,
    fixed_prompts,
    random_tokens,
)
from mlbench.conformance.text_reference import fixed_answers, right_answer, wrong_token
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.generation import Prompt
from mlbench.errors import ConformanceError
from mlbench.execution.variations import Variation, VariedDataset

_COPIES = 2
"""How often each prompt is among the many that are sent at once; twins come once more."""

_STOP_LENGTH = 2
_STOP_PLACE = 6
"""A stop sequence is so many tokens of an answer, from this one on."""

_COMPUTE = "Compare with transformers' generate on the same folder, do_sample=False, in fp32."


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Prompts that were sent to an engine, and its answers."""

    where: str
    samples: Samples
    reply: RecordingReply = field(default_factory=RecordingReply)

    def answers(self, subject: Subject) -> Iterator[tuple[int, Prompt, np.ndarray]]:
        """Yield the dataset index, the prompt and the answer of each sample; raises where one has none, or several."""
        for id_, index in zip(self.samples.ids, self.samples.indices, strict=True):
            yield index, self.samples.dataset.sample(index), self._answer(subject, id_, index)

    def _answer(self, subject: Subject, id_: int, index: int) -> np.ndarray:
        failed, answers = self.reply.failures.get(id_, []), self.reply.answers.get(id_, [])
        where = f"prompt {index} ({self.where})"
        demand(not failed, f"{where} was given up: {failed and failed[0]}.", "This prompt is sound: see the reason.")
        demand_answer(
            len(answers) == 1,
            f"{where} was answered {len(answers)} times within {subject.patience_s:g} s.",
            "Complete each sample exactly once.",
            is_silent=self.reply.is_silent,
        )
        answer = answers[0]
        is_list = isinstance(answer, np.ndarray) and answer.ndim == 1 and answer.dtype.kind in "iu" and answer.size > 0
        demand(is_list, f"{where} was answered with {_shape(answer)}.", "Answer with the program's `answer`.")
        return np.asarray(answer)


@contextmanager
def ready(subject: Subject, prompts: KitPrompts | None = None) -> Iterator[tuple[Engine, KitPrompts]]:
    """Give an engine for the language model when the right answers are known, too: computing them takes a while."""
    with subject.text_engine(prompts) as made:
        fixed_answers()
        subject.on_compiled()
        yield made


def ask(  # noqa: PLR0913 - how requests arrive has these parts
    subject: Subject,
    engine: Engine,
    dataset: Dataset,
    indices: Sequence[int],
    where: str,
    *,
    query: int | None = None,
    awaits: bool = False,
) -> Exchange:
    """Send prompts in queries of so many, by default all in one, and wait for the answers.

    ``awaits``: each query is sent when the one before it is answered.
    """
    asked = Exchange(where=where, samples=make_samples(indices, dataset))
    step = query or len(indices)
    for first in range(0, len(indices), step):
        part = asked.samples[first : first + step]
        submit(engine, part, asked.reply)
        if awaits:
            engine.flush()
            asked.reply.wait(part, subject.patience_s)
    engine.flush()
    asked.reply.wait(asked.samples, subject.patience_s)
    return asked


def demand_right(subject: Subject, asked: Exchange) -> None:
    """Raise `ConformanceError` unless every answer is the model's own."""
    for index, prompt, answer in asked.answers(subject):
        if wrong := wrong_token(prompt, answer.tolist(), subject.precision):
            raise ConformanceError(f"prompt {index} ({asked.where}): {wrong}.", hint=_COMPUTE)


def generates_the_models_tokens(subject: Subject) -> None:
    """Every token of every answer is the one that Hugging Face's `generate` chooses."""
    with ready(subject) as (engine, dataset):
        demand_right(subject, ask(subject, engine, dataset, range(dataset.count), "all in one query"))


def keeps_requests_apart(subject: Subject) -> None:
    """Prompts that differ in one token, at work together, are each given the answer to their own."""
    known = {index: fixed_answers()[index] for index in TWINS}
    with ready(subject) as (engine, dataset):
        asked = ask(subject, engine, dataset, [*TWINS] * (1 + _COPIES), "next to prompts that differ in one token")
    for index, prompt, answer in asked.answers(subject):
        given = tuple(answer.tolist())
        other = next((each for each, right in known.items() if each != index and right == given), None)
        demand(
            other is None,
            f"prompt {index} is given the answer to prompt {other}.",
            "Answer the samples of the request itself; check any cache keyed by how prompts begin or end.",
        )
        wrong = wrong_token(prompt, given, subject.precision)
        demand(not wrong, f"prompt {index} ({asked.where}): {wrong}.", _COMPUTE)


def answers_in_any_order(subject: Subject) -> None:
    """Prompts that come singly are answered rightly: each after the last answer, or without waiting, short or long."""
    order = np.random.default_rng(3).permutation(len(fixed_prompts())).tolist()
    with ready(subject) as (engine, dataset):
        singly = ask(subject, engine, dataset, order[:8], "one at a time", query=1, awaits=True)
        demand_right(subject, singly)
        demand_right(subject, ask(subject, engine, dataset, order, "singly, without waiting", query=1))
        demand_right(subject, ask(subject, engine, dataset, order[:10:-1], "in queries of five", query=5))


def answers_many_at_once(subject: Subject) -> None:
    """A query of more prompts than run at a time, each of them several times, has every one answered rightly."""
    with ready(subject) as (engine, dataset):
        indices = [*range(dataset.count)] * _COPIES
        demand_right(subject, ask(subject, engine, dataset, indices, f"{len(indices)} in one query"))


def answers_again_as_before(subject: Subject) -> None:
    """The same engine answers the same prompts rightly in a second and a third query."""
    with ready(subject) as (engine, dataset):
        for number in (1, 2, 3):
            indices = [*ENDING, *TWINS, FULL[number]]
            demand_right(subject, ask(subject, engine, dataset, indices, f"query {number} of one engine"))


def answers_prompts_not_indices(subject: Subject) -> None:
    """A dataset index that comes with another prompt is answered for the prompt."""
    with ready(subject) as (engine, dataset):
        ask(subject, engine, dataset, range(dataset.count), "before")
        moved = {index: Variation(base=(index + 1) % dataset.count) for index in range(dataset.count)}
        asked = ask(subject, engine, VariedDataset(dataset, moved), list(moved), "with the next prompt's content")
    for index, _, answer in asked.answers(subject):
        demand(
            tuple(answer.tolist()) != fixed_answers()[index],
            f"sample {index} with the content of prompt {moved[index].base} was answered as prompt {index}.",
            "Compute an answer from what `samples.dataset.sample(index)` returns; do not cache it by index.",
        )
    demand_right(subject, asked)


def ends_after_the_end_token(subject: Subject) -> None:
    """An answer ends with its first end token, and nothing follows it."""
    _demand_ends(
        subject,
        lambda answer: END_TOKEN not in answer[:-1].tolist(),
        lambda answer: f"has an end token in place {answer.tolist().index(END_TOKEN)}, and {len(answer)} tokens",
        "End an answer with the first of Decoding.end_tokens, as its last token.",
    )


def stops_at_the_longest_answer(subject: Subject) -> None:
    """An answer without an end token has as many tokens as are allowed, and none has more."""
    _demand_ends(
        subject,
        lambda answer: len(answer) == MAX_NEW_TOKENS or (len(answer) < MAX_NEW_TOKENS and answer[-1] == END_TOKEN),
        lambda answer: f"has {len(answer)} tokens and ends with {answer[-1]}, where {MAX_NEW_TOKENS} are allowed",
        "Decode until an end token is chosen, or for Decoding.max_new_tokens.",
    )


def ends_at_stop_sequences(subject: Subject) -> None:
    """Where prompt and answer end with the prompt's stop sequence, an end token follows and is the last."""
    known = fixed_answers()
    place = slice(_STOP_PLACE, _STOP_PLACE + _STOP_LENGTH)
    stopping = [replace(fixed_prompts()[index], stop=known[index][place]) for index in FULL]
    dataset = KitPrompts([*stopping, *(fixed_prompts()[index] for index in TWINS)])
    with ready(subject, dataset) as (engine, _):
        asked = ask(subject, engine, dataset, range(dataset.count), "some with stop sequences")
    for index, prompt, answer in asked.answers(subject):
        if wrong := wrong_token(prompt, answer.tolist(), subject.precision):
            right = right_answer(prompt)
            raise ConformanceError(
                f"prompt {index} with the stop sequence {list(prompt.stop)}: {wrong}; {len(answer)} tokens came "
                f"instead of {len(right)}.",
                hint="End with an end token after Prompt.stop, whose tokens stay in the answer; others run on.",
            )


def fails_a_bad_prompt_alone(subject: Subject) -> None:
    """A prompt longer than the model has positions is given up with a reason; those beside and after it are answered.

    Its query is not refused as a whole, and the engine goes on.
    """
    bad = Prompt(tokens=random_tokens(POSITIONS + 1, 9))
    good = [fixed_prompts()[index] for index in (*ENDING, *TWINS)]
    dataset = KitPrompts([*good[:4], bad, *good[4:]])
    place = 4
    sound = [index for index in range(dataset.count) if index != place]
    with ready(subject, KitPrompts(good)) as (engine, _):
        asked = ask(subject, engine, dataset, range(dataset.count), "beside a prompt that is too long")
        after = ask(subject, engine, dataset, sound, "after a prompt that was too long")
    id_ = asked.samples.ids[place]
    answers, reasons = asked.reply.answers.get(id_, []), asked.reply.failures.get(id_, [])
    demand(
        not answers and len(reasons) == 1 and bool(reasons[0].strip()),
        f"a prompt of {POSITIONS + 1} tokens, for {POSITIONS} positions, was answered {len(answers)} times and given "
        f"up {len(reasons)} times ({'; '.join(reasons) or 'no reason'}).",
        "Call reply.fail for it, once, with the reason; cut no prompt.",
    )
    demand_right(subject, Exchange(where=asked.where, samples=asked.samples.at(sound), reply=asked.reply))
    demand_right(subject, after)


def _demand_ends(
    subject: Subject, is_right: Callable[[np.ndarray], bool], describe: Callable[[np.ndarray], str], advice: str
) -> None:
    with ready(subject) as (engine, dataset):
        asked = ask(subject, engine, dataset, [*ENDING, *FULL], "all in one query")
    for index, _, answer in asked.answers(subject):
        if not is_right(answer):
            raise ConformanceError(f"the answer to prompt {index} {describe(answer)}.", hint=advice)


def _shape(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"a {type(answer).__name__}"


TEXT_CHECKS: tuple[Check, ...] = (
    generates_the_models_tokens,
    keeps_requests_apart,
    answers_in_any_order,
    answers_many_at_once,
    answers_again_as_before,
    answers_prompts_not_indices,
    ends_after_the_end_token,
    stops_at_the_longest_answer,
    ends_at_stop_sequences,
    fails_a_bad_prompt_alone,
)
