"""Checks a server's stream against the request, and assembles the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlbench_endpoint.api import Api, text_of
from mlbench_endpoint.failure import RequestFailed

LONGEST_TOKEN = 256
"""Characters of a token of text. The longest in use are runs of 128 blanks."""

_FINISHES = ("stop", "length")
"""Reasons for the end of a whole answer; others mean a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFormat:
    """The format of all answers of a run."""

    is_text: bool
    """Whether answers are text, not token ids."""
    api: Api = Api.COMPLETIONS
    is_stream: bool
    vocabulary: int
    """Size of the vocabulary: token ids are below it."""
    choices: int
    """Number of answers requested per prompt (beams); the first one counts."""
    has_usage: bool
    """Whether requests ask for the server's counts of tokens."""


@dataclass(slots=True)
class Answer:
    """The received part of an answer.

    Its methods raise `RequestFailed` for data that is not an answer to the request.
    """

    format: AnswerFormat
    limit: int
    """Most tokens of the answer."""
    parts: list[Any] = field(default_factory=list)
    finish: str | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    size: int = 0
    """Tokens so far; of text, characters."""

    def add(self, message: Mapping[str, Any]) -> list[int] | str | None:
        """Handle a message of the server; return its tokens or text."""
        choices = message.get("choices")
        if message.get("error") or not isinstance(choices, list):
            raise RequestFailed(f"the server sent {json.dumps(message)}")
        self._take_usage(message.get("usage"))
        brought = None
        for place, choice in enumerate(choices):
            if not isinstance(choice, Mapping):
                raise RequestFailed(f"the server sent {json.dumps(choice)} as a choice")
            if self._index(choice, place) == 0:  # further ones are beams that lost
                brought = self._take_choice(choice)
        return brought

    def check(self) -> None:
        """Raise `RequestFailed` unless the answer is complete, and as long as the server says."""
        if self.finish is None:
            raise RequestFailed(f"the server cut the answer off after {len(self.parts)} parts")
        if self.format.has_usage and (self.prompt_tokens is None or self.answer_tokens is None):
            raise RequestFailed("the server sent no usage, so mlbench cannot check that it read the whole prompt")
        is_kept_to_itself = self.finish == "stop" and bool(self.answer_tokens)
        if not self.parts and not is_kept_to_itself:
            raise RequestFailed("the server ended the answer without a token")
        counted, sent = self.answer_tokens, self.size
        if counted is None or self.format.choices > 1:
            return
        if counted > self.limit:
            raise RequestFailed(f"the server counts {counted} tokens in an answer that may have {self.limit}")
        if not self.format.is_text and counted != sent and not (self.finish == "stop" and counted == sent + 1):
            raise RequestFailed(f"the server counts {counted} tokens in an answer of {sent}")

    def _take_usage(self, usage: object) -> None:
        if usage is None:
            return
        if not isinstance(usage, Mapping):
            raise RequestFailed(f"the server sent {json.dumps(usage)} as usage")
        for name in ("prompt_tokens", "completion_tokens"):
            if type(count := usage.get(name, 0)) is not int or count < 0:
                raise RequestFailed(f"the server counts {json.dumps(count)} as {name}")
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self.answer_tokens = usage.get("completion_tokens", self.answer_tokens)

    def _index(self, choice: Mapping[str, Any], place: int) -> int:
        index = choice.get("index")
        index = place if index is None else index
        if type(index) is not int or not 0 <= index < self.format.choices:
            raise RequestFailed(f"the server sent choice {json.dumps(index)}, but {self.format.choices} were requested")
        return index

    def _take_choice(self, choice: Mapping[str, Any]) -> list[int] | str | None:
        part = self._text(choice) if self.format.is_text else self._token_ids(choice)
        if part:
            if self.finish is not None:
                raise RequestFailed(f"the server sent tokens after it had ended the answer with {self.finish!r}")
            self.size += len(part)
            if self.size > self.limit * (LONGEST_TOKEN if self.format.is_text else 1):
                raise RequestFailed(f"the server sent more than the maximum of {self.limit} tokens")
            self.parts.append(part)
        if finish := choice.get("finish_reason"):
            if finish not in _FINISHES:
                raise RequestFailed(f"the server ended the answer with {json.dumps(finish)}")
            self.finish = finish
        return part or None

    def _text(self, choice: Mapping[str, Any]) -> str:
        try:
            text = text_of(choice, self.format.api, is_stream=self.format.is_stream)
        except TypeError as error:
            raise RequestFailed(f"the server sent {json.dumps(error.args[0])} as a message") from None
        if text is not None and not isinstance(text, str):
            raise RequestFailed(f"the server sent {json.dumps(text)} as text")
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise RequestFailed(f"the server sent text that is not Unicode: {json.dumps(text)}") from None
        return text or ""

    def _token_ids(self, choice: Mapping[str, Any]) -> list[int]:
        ids = choice.get("token_ids")
        if ids is None and choice.get("text"):
            raise RequestFailed("the server sent text, not token ids")
        if ids is not None and not isinstance(ids, list):
            raise RequestFailed(f"the server sent {json.dumps(ids)} as token ids")
        for each in ids or ():
            if type(each) is not int:
                raise RequestFailed(f"the server sent {json.dumps(each)} as a token id")
            if not 0 <= each < self.format.vocabulary:
                raise RequestFailed(f"the server sent token id {each}, but ids are 0 to {self.format.vocabulary - 1}")
        return ids or []
