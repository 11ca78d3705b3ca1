"""Requests before a sweep: they find the model's name, its count of tokens, and the time of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlbench import Engine, EnginePlan, Model, Samples, UnavailableError
from mlbench.toolkit import AwaitedReply
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.client.token_count import BY_SERVER
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import TextPrompts, open_prompts
from mlbench_endpoint.loads.text_program import TextProgram, VectorProgram
from mlbench_endpoint.loads.text_sample import TextSample
from mlbench_endpoint.loads.words import WORDS
from mlbench_endpoint.loads.workload import for_vectors
from mlbench_endpoint.options import EndpointOptions

_SHORT_WORDS = 8
_FEWER_WORDS = 40
"""For a server whose context does not hold all words once."""
_SHORT_TOKENS = 16
"""Most tokens of answers that are only needed for the count of the prompt's tokens."""

_TRIED = 8
"""Number of prompts tried besides the longest: too short an answer to one would fail a run."""

_HINT = "Nothing was measured."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrial:
    """The result of a trial."""

    model: str
    """Name of the model on the server."""
    prompts: PromptOptions
    """The requested options, with the server's tokens per word."""
    longest_prompt_tokens: int
    """Tokens of the longest prompt, by the server's count or a tokenizer's; 0: unknown."""
    counted_by: str
    """``the server's count``, or that of others."""
    answer_s: float
    """Time of its answer, without other requests."""
    answer_tokens: int
    session_s: float
    """Time of the longest session, with its thinking, as fast as that answer; of single requests ``answer_s``."""

    @property
    def longest_prompt(self) -> str:
        """Return the length of the longest prompt, as the beginning of a sentence."""
        if not self.longest_prompt_tokens:
            return "the tokens of prompts are not counted, so lengths are in words"
        return f"the longest prompt has {self.longest_prompt_tokens} tokens by {self.counted_by}"


def try_server(options: EndpointOptions, prompts: PromptOptions) -> ServerTrial:
    """Request some answers from a server, as a run does.

    Args:
        options: of the endpoint.
        prompts: options of the prompts.

    Raises:
        UsageError: an option is wrong, or the file of prompts.
        UnavailableError: the server does not answer, has no such model, refuses a prompt, or counts no tokens.
    """
    if not options.api.makes_text:
        prompts = for_vectors(prompts)
    given = open_prompts(prompts)
    with open_engine(options, given.longest_answer) as engine:
        if not prompts.file:
            prompts = _with_counts(engine, prompts, _SHORT_TOKENS if options.api.makes_text else 1)
            given = open_prompts(prompts)
        longest = max((given.sample(index) for index in range(given.count)), key=lambda sample: sample.size)
        most = max(given.sample(index).longest_answer for index in range(given.count))
        further = max((given.sample(index).turns for index in range(given.count)), key=len)
        found = _ask(engine, [longest.for_trial(answer_tokens=most)])
        _ask(engine, [given.sample(index).for_trial() for index in range(min(_TRIED, given.count))])
    answer_s = found.mean("answer", "ns") / 1e9
    return ServerTrial(
        model=found.model,
        prompts=prompts,
        counted_by=found.counted_by,
        longest_prompt_tokens=found.mean("prompt", "tokens"),
        answer_s=answer_s,
        session_s=answer_s * (1 + len(further)) + sum(turn.think_ns for turn in further) / 1e9,
        answer_tokens=found.mean("answer", "tokens"),
    )


def open_engine(options: EndpointOptions, longest_answer: int) -> Engine:
    """Return an engine for answers of up to a number of tokens, outside of a run; it samples no metrics by itself."""
    program = (TextProgram if options.api.makes_text else VectorProgram)(longest_answer)
    model = Model(name=options.api.workload, graphs={}, program=program, weights_fingerprint="the server's")
    quiet = replace(options, metrics="none") if options.metrics == "auto" else options
    return Endpoint().with_options(quiet).engine(model, EnginePlan())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    model: str
    rows: Sequence[Any]
    counted_by: str

    def mean(self, of: str, unit: str) -> int:
        """Return the mean of a quantity."""
        return int(next(row["mean"] for row in self.rows if (row["of"], row["unit"]) == (of, unit)) + 0.5)


def _with_counts(engine: Engine, prompts: PromptOptions, answer_tokens: int) -> PromptOptions:
    """Return the options with the server's tokens per word, and the tokens that it adds to each prompt."""
    few = _ask(engine, [_words(_SHORT_WORDS, answer_tokens)]).mean("prompt", "tokens")
    if not few:
        return prompts  # not counted
    words, many = _count_many(engine, answer_tokens)
    if many <= few:
        raise UnavailableError(
            f"the server counts {few} tokens in {_SHORT_WORDS} words, and {many} in {_SHORT_WORDS + words}.",
            hint="Its token counts are not available: send prompts of your own with --prompts.",
        )
    per_word = (many - few) / words
    return replace(
        prompts,
        tokens_per_word=round(per_word, 4),
        template_tokens=max(0, round(few - _SHORT_WORDS * per_word)),
    )


def _count_many(engine: Engine, answer_tokens: int) -> tuple[int, int]:
    """Return a number of words besides the first ones, and the server's count of tokens in all of them.

    Raises:
        UnavailableError: the server refuses a short prompt, too.
    """

    def count(words: int) -> tuple[int, int]:
        return words, _ask(engine, [_words(_SHORT_WORDS + words, answer_tokens)]).mean("prompt", "tokens")

    try:
        return count(len(WORDS))
    except UnavailableError:  # perhaps its context is short
        return count(_FEWER_WORDS)


def _words(count: int, answer_tokens: int) -> TextSample:
    """Return a prompt of the first words, from the first again after the last one."""
    text = " ".join(WORDS[number % len(WORDS)] for number in range(count))
    return TextSample(text=text, answer_tokens=answer_tokens)


def _ask(engine: Engine, samples: list[TextSample]) -> _Found:
    """Return the engine's measurements of the answers to some samples.

    Raises:
        UnavailableError: one was not answered.
    """
    engine.statistics()
    indices = list(range(len(samples)))
    reply = AwaitedReply(len(samples))
    engine.submit(Samples(indices, indices, TextPrompts(samples, "")), reply)
    reply.wait()
    if reply.failure:
        raise UnavailableError(f"{reply.failure}.", hint=_HINT)
    found = engine.statistics().extra
    by = found.get("counted_by", BY_SERVER)
    said = "the server's count" if by == BY_SERVER else f"the count of {by}"
    return _Found(model=found["served_model"], rows=found["from_sending"], counted_by=said)
