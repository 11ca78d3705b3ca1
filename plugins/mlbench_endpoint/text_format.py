"""Formats of requests with text, for a server with an unknown tokenizer, and of replies."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlbench import Prompt, UsageError
from mlbench_endpoint.api import Api, RequestField
from mlbench_endpoint.client.answer import COUNT_OTHERWISE, AnswerFormat
from mlbench_endpoint.client.messages import Answered, TurnMessage
from mlbench_endpoint.client.token_count import BY_SERVER, TokenCount
from mlbench_endpoint.loads.random_images import data_url
from mlbench_endpoint.loads.text_program import TextPrompt
from mlbench_endpoint.loads.text_sample import TextSample
from mlbench_endpoint.loads.words import WORDS

_LIMITS = ("max_tokens", "max_completion_tokens")
_NO_LIMIT = 1 << 20
"""Most tokens of an answer whose limit the server chooses."""

_QUERY_WORDS = 8

_FEWEST_TOKENS = 2
"""Fewest tokens of an answer: LoadGen divides by one less for the time per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequestFormat:
    """The fields of requests, and the reading of answers, whose tokens only the server counts."""

    common: Mapping[str, Any]
    """Fields that all requests share."""
    chosen: Collection[str]
    """Fields that the user set."""
    answer: AnswerFormat
    counter: TokenCount
    is_text: bool = True

    def fields(self, prompt: Prompt) -> dict[str, RequestField]:
        """Return the fields of one sample."""
        sample = _sample_of(prompt)
        if sample.system or sample.turns or sample.images:
            prompts = self._chat_fields(sample)
        elif not self.answer.api.makes_text:
            return self._without_chosen(_number_fields(self.answer.api, sample))
        else:
            prompts = self.answer.api.prompt_fields(text_to_send(sample))
        return self._without_chosen({"max_tokens": sample.answer_tokens, **prompts})

    def turns(self, prompt: Prompt) -> tuple[TurnMessage, ...]:
        """Return the turns of a session after the first one."""
        return tuple(
            TurnMessage(
                content=turn.text,
                think_ns=turn.think_ns,
                given=turn.given,
                fields=self._without_chosen({"max_tokens": turn.answer_tokens}),
                limit=self._limit(turn.answer_tokens),
            )
            for turn in _sample_of(prompt).turns
        )

    def _without_chosen(self, fields: Mapping[str, RequestField]) -> dict[str, RequestField]:
        return {name: value for name, value in fields.items() if name not in self.chosen}

    def _chat_fields(self, sample: TextSample) -> Mapping[str, RequestField]:
        """Return the messages of a session's first turn, or of a request with images.

        Raises:
            UsageError: the protocol has no messages, or the user set them.
        """
        if self.answer.api is not Api.CHAT or "messages" in self.chosen:
            what = "images" if sample.images else "sessions"
            raise UsageError(
                f"{what} need the messages of a chat.", hint="Give --api chat, without messages in --extra."
            )
        messages: list[dict[str, Any]] = [{"role": "system", "content": sample.system}] if sample.system else []
        content: Any = text_to_send(sample)
        if images := sample.images:
            urls = [data_url(images.width, images.height, random.Random()) for _ in range(images.count)]
            parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
            content = [*parts, {"type": "text", "text": content}]
        return {"messages": [*messages, {"role": "user", "content": content}]}

    def limit(self, prompt: Prompt) -> int:
        """Return the most tokens of an answer to a prompt: the user's field, or the sample's."""
        return self._limit(_sample_of(prompt).answer_tokens)

    def _limit(self, most: int) -> int:
        if not self.answer.api.makes_text:
            return 1 if self.answer.api is Api.EMBEDDINGS else most
        wanted = [count for name in _LIMITS if type(count := self.common.get(name)) is int]
        return min(wanted, default=_NO_LIMIT) if wanted or _LIMITS[0] in self.chosen else most

    def prompt_tokens(self, prompt: Prompt) -> None:
        """Return None: the number of tokens in a prompt is not known before it is answered."""

    def counted_prompt(self, prompt: Prompt, message: Answered) -> int | None:
        """Return the number of tokens of a prompt, given its answer; None: unknown."""
        return self.counter.prompt_tokens(_sample_of(prompt), message)

    def fewest_tokens(self, prompt: Prompt) -> int:
        """Return the fewest tokens that a server counts in a whole prompt: one."""
        return 1

    def tokens(self, answer: Any, *, is_finished: bool, first: Any = None) -> list[int]:
        """Return the bytes of an answer; ``is_finished`` and ``first`` change nothing about them."""
        return list(str(answer).encode())

    def count(self, tokens: int, message: Answered) -> int:
        """Return the number of tokens of an answer, in the way that the user chose.

        Raises:
            ValueError: too few for a time per token.
        """
        if not self.answer.api.makes_text:
            return 0
        counted = self.counter.answer_tokens(message)
        if counted is None:
            raise ValueError(f"the server does not say how many tokens the answer has: {COUNT_OTHERWISE}")
        if counted < _FEWEST_TOKENS:
            by = self.counter.by
            said = (
                f"the server counts {counted} token" if by == BY_SERVER else f"the answer has {counted} token by {by}"
            )
            raise ValueError(
                f"{said}, but a time per token needs {_FEWEST_TOKENS}: "
                "ask for longer answers, with --ignore-eos or in --extra (backend.extra)"
            )
        return counted


def _number_fields(api: Api, sample: TextSample) -> Mapping[str, RequestField]:
    """Return the fields of a request for an embedding, or for the scores of documents.

    A query has the first words, and the documents share the rest; ``answer_tokens`` is their number.
    """
    if api is Api.EMBEDDINGS:
        return api.prompt_fields(text_to_send(sample))
    words = text_to_send(sample).split()
    cut = min(_QUERY_WORDS, len(words) // 2)
    rest, count = words[cut:], sample.answer_tokens
    ends = [len(rest) * number // count for number in range(count + 1)]
    documents = [" ".join(rest[begin:end]) or words[0] for begin, end in pairwise(ends)]
    return {"query": " ".join(words[:cut]) or words[0], "documents": documents}


def text_to_send(sample: TextSample) -> str:
    """Return the text of a sample, after its prefix and as many new words as it needs."""
    chance = random.Random(sample.seed) if sample.seed else random
    parts = (sample.prefix, *chance.choices(WORDS, k=sample.new_words), sample.text)
    return " ".join(filter(None, parts))


def text_format(*, api: Api, extra: Mapping[str, Any], count: str) -> TextRequestFormat:
    """Return the request format for text.

    Args:
        api: the protocol.
        extra: fields that the user adds or replaces; None removes a field.
        count: who counts tokens; see `EndpointOptions.count`.

    Raises:
        UsageError: ``count`` has another form, or the fields ask for several answers.
    """
    usual = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}} if api.makes_text else {}
    common = usual | dict(extra)
    if not common.get("stream"):
        common.pop("stream_options", None)  # servers refuse it then
    common = {name: value for name, value in common.items() if value is not None}
    if type(answers := common.get("n")) is int and answers > 1:
        raise UsageError(
            f"backend.extra asks for {answers} answers to a prompt (n), whose tokens servers count together.",
            hint="Leave n out, and send more requests.",
        )
    is_stream = bool(common.get("stream"))
    counter = TokenCount.of_option(count, has_usage=not is_stream or bool(common.get("stream_options")))
    form = AnswerFormat(
        is_text=True, is_stream=is_stream, api=api, vocabulary=0, choices=1, has_usage=counter.by == BY_SERVER
    )
    return TextRequestFormat(common=common, chosen=extra.keys(), answer=form, counter=counter)


def _sample_of(prompt: Prompt) -> TextSample:
    assert isinstance(prompt, TextPrompt)
    return prompt.sample
