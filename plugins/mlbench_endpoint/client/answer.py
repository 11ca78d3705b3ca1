"""Checks a server's stream against the request, and assembles the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlbench_endpoint.api import Api, has_thoughts, text_of
from mlbench_endpoint.client.failure import RequestFailed
from mlbench_endpoint.client.oddities import Oddities

LONGEST_TOKEN = 256
"""Characters of a token of text. The longest in use are runs of 128 blanks."""

COUNT_OTHERWISE = "count without it by --count tokenizer:PATH or --count chunks (backend.count)"

_FINISHES = ("stop", "length")
"""Reasons for the end of a whole answer in the protocol of completions."""

_FAULTS = ("abort", "aborted", "cancelled", "canceled", "content_filter", "error", "failed", "timeout")
"""Reasons for the end of an answer that is not whole. Other words are those of other servers and of chats."""

_LENGTHS = ("max_length", "max_new_tokens", "max_tokens", "max_output_tokens")
"""Other servers' words for ``length``; all else is taken as the model's own end."""

_FIRST_HALVES = frozenset(map(chr, range(0xD800, 0xDC00)))
"""First of the two escapes that JSON may have for a character."""

_NO_REASON = "null"
"""A word for no reason at all, which some servers send with each part of an answer."""

_THOUGHT_END = "</think>"
"""Marks the end of thoughts in a text that has them too."""

_MOST_COUNTED = 1 << 31
"""Larger counts of tokens are no server's, and too large for a column of the record."""

_USAGE_NAMES = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
"""The protocol's names of counts, and those of its successor, which some servers send."""


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
    """Whether the server's counts of tokens are required."""


@dataclass(slots=True)
class Answer:
    """The received part of an answer.

    Its methods raise `RequestFailed` for data that is not an answer to the request.
    """

    format: AnswerFormat
    limit: int
    """Most tokens of the answer."""
    model: str = ""
    """Name of the requested model; empty: not known yet."""
    oddities: Oddities = field(default_factory=Oddities)
    parts: list[Any] = field(default_factory=list)
    finish: str | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    size: int = 0
    """Tokens so far; of text, characters."""
    is_done: bool = False
    """Whether the server said that nothing follows."""
    _thoughts: int = 0
    """Tokens of thoughts, by the server's count."""
    _has_thoughts: bool = False
    """Whether their text was sent."""
    _half: str = ""
    """The first half of a character whose second half is in the next message."""

    def add(self, message: Mapping[str, Any]) -> list[int] | str | None:
        """Handle a message of the server; return its tokens or text."""
        choices = message.get("choices")
        if message.get("error") or message.get("object") == "error":
            raise RequestFailed(f"the server sent {json.dumps(message)}")
        if choices is not None and not isinstance(choices, list):
            raise RequestFailed(f"the server sent {json.dumps(message)}")
        self._take_usage(message.get("usage"))
        self._check_name(message)
        if choices is None:
            self.oddities.count("usage without choices" if message.get("usage") else "a message without choices")
        brought = None
        for place, choice in enumerate(choices or ()):
            if not isinstance(choice, Mapping):
                raise RequestFailed(f"the server sent {json.dumps(choice)} as a choice")
            if self._index(choice, place) == 0:  # further ones are beams that lost
                brought = self._take_choice(choice)
        if self.is_done:
            self.oddities.count("a message after [DONE]")
        return brought

    def end(self) -> None:
        """Handle the end of the stream by the server's word, ``[DONE]``."""
        if self.is_done:
            self.oddities.count("a second [DONE]")
        self.is_done = True

    def check(self) -> None:
        """Raise `RequestFailed` unless the answer is complete, and as long as the server says."""
        self._check_end()
        is_kept_to_itself = self.finish == "stop" and bool(self.answer_tokens)
        if not self.parts and not is_kept_to_itself:
            raise RequestFailed("the server ended the answer without a token")
        if self.format.has_usage and (self.prompt_tokens is None or self.answer_tokens is None):
            raise RequestFailed(
                "the server sent no usage, so mlbench cannot check that it read the whole prompt",
                advice=COUNT_OTHERWISE,
            )
        counted, sent = self.answer_tokens, self.size
        if counted is None or self.format.choices > 1:
            return
        if counted > self.limit:
            raise RequestFailed(f"the server counts {counted} tokens in an answer that may have {self.limit}")
        if not self.format.is_text and counted != sent and not (self.finish == "stop" and counted == sent + 1):
            raise RequestFailed(f"the server counts {counted} tokens in an answer of {sent}")
        self._leave_thoughts_out(counted)

    def _leave_thoughts_out(self, counted: int) -> None:
        """Leave thoughts that were not sent out of the count: they passed before the first token that was."""
        sent = counted - self._thoughts
        if self._thoughts > 0 and not self._has_thoughts and 0 < len(self.parts) <= sent:
            if self.format.is_text and not any(_THOUGHT_END in part for part in self.parts):
                self.oddities.count("thoughts that are counted and not sent")
                self.answer_tokens = sent

    def _check_end(self) -> None:
        if self._half:
            raise RequestFailed(f"the server sent text that is not Unicode: {json.dumps(self._half)}")
        if self.finish is None and not self.is_done:
            raise RequestFailed(f"the server cut the answer off after {len(self.parts)} parts")
        if self.finish is None:
            self.oddities.count("an answer without finish_reason")
        if not self.is_done:
            self.oddities.count("an answer without [DONE]")

    def _check_name(self, message: Mapping[str, Any]) -> None:
        """Count another name of the model; some servers add a revision behind an ``@``."""
        name = str(message.get("model") or self.model)
        if self.model and name != self.model and not name.startswith(f"{self.model}@"):
            self.oddities.count(f"the model's name {name!r}")

    def _take_usage(self, usage: object) -> None:
        if usage is None:
            return
        if not isinstance(usage, Mapping):
            raise RequestFailed(f"the server sent {json.dumps(usage)} as usage")
        counts: list[int | None] = []
        for name, other in _USAGE_NAMES.items():
            count = usage.get(name)
            if count is None and (count := usage.get(other)) is not None:
                self.oddities.count(f"{other} for {name}")
            if type(count) is float and count.is_integer():
                self.oddities.count(f"a fraction for {name}")
                count = int(count)
            if count is not None and (type(count) is not int or not 0 <= count < _MOST_COUNTED):
                raise RequestFailed(f"the server counts {json.dumps(count)} as {name}")
            counts.append(count)
        prompt_tokens, answer_tokens = counts
        self.prompt_tokens = self.prompt_tokens if prompt_tokens is None else prompt_tokens
        self.answer_tokens = self.answer_tokens if answer_tokens is None else answer_tokens
        details = usage.get("completion_tokens_details")
        if isinstance(details, Mapping) and type(thoughts := details.get("reasoning_tokens")) is int:
            self._thoughts = thoughts

    def _index(self, choice: Mapping[str, Any], place: int) -> int:
        index = choice.get("index")
        index = place if index is None else index
        if type(index) is not int or not 0 <= index < self.format.choices:
            raise RequestFailed(f"the server sent choice {json.dumps(index)}, but {self.format.choices} were requested")
        return index

    def _take_choice(self, choice: Mapping[str, Any]) -> list[int] | str | None:
        part = self._text(choice) if self.format.is_text else self._token_ids(choice)
        if part or self._half:
            if self.is_done:
                raise RequestFailed(f"the server sent more after [DONE]: {json.dumps(part)}")
            if self.finish is not None:
                raise RequestFailed(f"the server sent tokens after it had ended the answer with {self.finish!r}")
        if part:
            self.size += len(part)
            if self.size > self.limit * (LONGEST_TOKEN if self.format.is_text else 1):
                raise RequestFailed(f"the server sent more than the maximum of {self.limit} tokens")
            self.parts.append(part)
        if (finish := choice.get("finish_reason")) == _NO_REASON:
            self.oddities.count(f"finish_reason {finish!r}")
        elif finish:
            if not isinstance(finish, str) or finish in _FAULTS:
                raise RequestFailed(f"the server ended the answer with {json.dumps(finish)}")
            if finish not in _FINISHES:
                self.oddities.count(f"finish_reason {finish!r}")
                finish = "length" if finish.lower() in _LENGTHS else "stop"
            self.finish = finish
        return part or None

    def _text(self, choice: Mapping[str, Any]) -> str:
        try:
            text = self._half + text_of(choice, self.format.api)
            self._has_thoughts = self._has_thoughts or has_thoughts(choice)
        except TypeError as error:
            raise RequestFailed(f"the server sent {json.dumps(error.args[0])} as text") from None
        self._half = ""
        try:
            text.encode()
        except UnicodeEncodeError:  # halves of characters, as JSON may escape them
            if text[-1:] in _FIRST_HALVES:
                text, self._half = text[:-1], text[-1]
                self.oddities.count("a character divided between two messages")
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise RequestFailed(f"the server sent text that is not Unicode: {json.dumps(text)}") from None
        return text

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
