"""Requests before a sweep: they find the model's name, its count of tokens, and the time of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlbench import Engine, EnginePlan, Model, Samples, UnavailableError
from mlbench.toolkit import AwaitedReply
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.prompt_options import PromptOptions
from mlbench_endpoint.prompts import TextPrompts, open_prompts
from mlbench_endpoint.text_program import TextProgram
from mlbench_endpoint.text_sample import TextSample
from mlbench_endpoint.words import WORDS

_SHORT_WORDS = 8
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
    """Tokens of the longest prompt, by the server's count."""
    answer_s: float
    """Time of its answer, without other requests."""
    answer_tokens: int


def try_server(options: EndpointOptions, prompts: PromptOptions) -> ServerTrial:
    """Request some answers from a server, as a run does.

    Args:
        options: of the endpoint.
        prompts: options of the prompts.

    Raises:
        UsageError: an option is wrong, or the file of prompts.
        UnavailableError: the server does not answer, has no such model, refuses a prompt, or counts no tokens.
    """
    given = open_prompts(prompts)
    model = Model(
        name="prompts", graphs={}, program=TextProgram(given.longest_answer), weights_fingerprint="the server's"
    )
    engine = Endpoint().with_options(options).engine(model, EnginePlan())
    with engine:
        if not prompts.file:
            prompts = _with_counts(engine, prompts)
            given = open_prompts(prompts)
        longest = max((given.sample(index) for index in range(given.count)), key=lambda sample: len(sample.text))
        found = _ask(engine, [replace(longest, answer_tokens=given.longest_answer)])
        _ask(engine, [given.sample(index) for index in range(min(_TRIED, given.count))])
    return ServerTrial(
        model=found.model,
        prompts=prompts,
        longest_prompt_tokens=found.mean("prompt", "tokens"),
        answer_s=found.mean("answer", "ns") / 1e9,
        answer_tokens=found.mean("answer", "tokens"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    model: str
    rows: Sequence[Any]

    def mean(self, of: str, unit: str) -> int:
        """Return the mean of a quantity."""
        return int(next(row["mean"] for row in self.rows if (row["of"], row["unit"]) == (of, unit)) + 0.5)


def _with_counts(engine: Engine, prompts: PromptOptions) -> PromptOptions:
    """Return the options with the server's tokens per word, and the tokens that it adds to each prompt."""
    few, many = (
        _ask(engine, [_words(count)]).mean("prompt", "tokens") for count in (_SHORT_WORDS, _SHORT_WORDS + len(WORDS))
    )
    if many <= few:
        raise UnavailableError(
            f"the server counts {few} tokens in {_SHORT_WORDS} words, and {many} in {_SHORT_WORDS + len(WORDS)}.",
            hint="Its token counts are not available: send prompts of your own with --prompts.",
        )
    per_word = (many - few) / len(WORDS)
    return replace(
        prompts,
        tokens_per_word=round(per_word, 4),
        template_tokens=max(0, round(few - _SHORT_WORDS * per_word)),
    )


def _words(count: int) -> TextSample:
    """Return a prompt of the first words, from the first again after the last one."""
    text = " ".join(WORDS[number % len(WORDS)] for number in range(count))
    return TextSample(text=text, answer_tokens=_SHORT_TOKENS)


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
    return _Found(model=found["served_model"], rows=found["from_sending"])
