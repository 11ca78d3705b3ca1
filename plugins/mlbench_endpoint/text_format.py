"""Formats of requests with text, for a server with an unknown tokenizer, and of replies."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mlbench import Prompt
from mlbench_endpoint.answer import AnswerFormat
from mlbench_endpoint.api import Api, RequestField
from mlbench_endpoint.text_program import TextPrompt
from mlbench_endpoint.text_sample import TextSample
from mlbench_endpoint.words import WORDS

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
    is_text: bool = True

    def fields(self, prompt: Prompt) -> dict[str, RequestField]:
        """Return the fields of one sample."""
        sample = _sample_of(prompt)
        fields: dict[str, RequestField] = {
            "max_tokens": sample.answer_tokens,
            **self.answer.api.prompt_fields(text_to_send(sample)),
        }
        return {name: value for name, value in fields.items() if name not in self.chosen}

    def limit(self, prompt: Prompt) -> int:
        """Return the most tokens of an answer to a prompt, by the sample and the user."""
        wanted, most = self.common.get("max_tokens"), _sample_of(prompt).answer_tokens
        return min(most, wanted) if type(wanted) is int else most

    def prompt_tokens(self, prompt: Prompt) -> None:
        """Return None: the number of tokens in a prompt is not known."""

    def fewest_tokens(self, prompt: Prompt) -> int:
        """Return the fewest tokens that a server counts in a whole prompt: one."""
        return 1

    def tokens(self, answer: Any, *, is_finished: bool, first: Any = None) -> list[int]:
        """Return the bytes of an answer; ``is_finished`` and ``first`` change nothing about them."""
        return list(str(answer).encode())

    def count(self, tokens: int, counted: int | None) -> int:
        """Return the number of tokens of an answer, by the server's count.

        Raises:
            ValueError: too few for a time per token.
        """
        if counted is None or counted < _FEWEST_TOKENS:
            said = "does not say how many tokens the answer has" if counted is None else f"counts {counted} token"
            raise ValueError(
                f"the server {said}, but a time per token needs {_FEWEST_TOKENS}: "
                "ask for longer answers, with --ignore-eos or in --extra (backend.extra)"
            )
        return counted


def text_to_send(sample: TextSample) -> str:
    """Return the text of a sample, after as many new words as it needs."""
    return " ".join([*random.choices(WORDS, k=sample.new_words), *([sample.text] if sample.text else [])])


def text_format(*, api: Api, extra: Mapping[str, Any]) -> TextRequestFormat:
    """Return the request format for text.

    Args:
        api: the protocol.
        extra: fields that the user adds or replaces; None removes a field.
    """
    common = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}} | dict(extra)
    if not common.get("stream"):
        common.pop("stream_options", None)  # servers refuse it then
    common = {name: value for name, value in common.items() if value is not None}
    form = AnswerFormat(
        is_text=True, is_stream=bool(common.get("stream")), api=api, vocabulary=0, choices=1, has_usage=True
    )
    return TextRequestFormat(common=common, chosen=extra.keys(), answer=form)


def _sample_of(prompt: Prompt) -> TextSample:
    assert isinstance(prompt, TextPrompt)
    return prompt.sample
