"""The messages of an answer in OpenAI's form: the chunks of a stream, or one body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlbench_endpoint.mock_server.answers import PlannedAnswer
from mlbench_endpoint.mock_server.asked import AskedText
from mlbench_endpoint.mock_server.wire_message import WireMessage

DONE = b"data: [DONE]\n\n"

_HOLE = "\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMessages:
    """The messages of one answer."""

    asked: AskedText
    answer: PlannedAnswer
    model: str
    created_s: int
    cached_tokens: int
    """Tokens of the prompt that came from the prefix cache."""

    def body(self) -> WireMessage:
        """Return the whole answer as one message."""
        text = "".join(f" {word}" for word in self.answer.words)
        content = {"message": {"role": "assistant", "content": text}} if self.asked.is_chat else {"text": text}
        ids = {"token_ids": list(self.answer.ids)} if self.asked.wants_ids else {}
        choice = {"index": 0, **content, **ids, "logprobs": None, "finish_reason": self.answer.finish}
        return WireMessage(self._frame(is_chunk=False), choices=[choice], usage=self.usage())

    def role(self) -> WireMessage:
        """Return the first chunk of a chat, which has no text."""
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None)

    def token(self, text: str, ids: list[int], finish: str | None) -> WireMessage:
        """Return the chunk of a token."""
        content: dict[str, Any] = {"delta": {"content": text}} if self.asked.is_chat else {"text": text}
        return self._chunk({**content, **({"token_ids": ids} if self.asked.wants_ids else {})}, finish)

    def last(self) -> WireMessage:
        """Return the chunk with the counts of tokens."""
        return WireMessage(self._frame(is_chunk=True), choices=[], usage=self.usage())

    def usage(self) -> WireMessage:
        """Return the counts of tokens."""
        prompt, answer = len(self.asked.tokens), len(self.answer.ids)
        return WireMessage(
            prompt_tokens=prompt,
            completion_tokens=answer,
            total_tokens=prompt + answer,
            prompt_tokens_details={"cached_tokens": self.cached_tokens},
        )

    def encoded(self) -> Iterator[bytes]:
        """Yield the bytes of a faultless stream, a piece for each token."""
        begin = encode(self.role()) if self.asked.is_chat else b""
        words, ids = self.answer.words, self.answer.ids
        if self.asked.wants_ids:
            texts = [encode(self.token(f" {word}", [id_], None)) for word, id_ in zip(words[:-1], ids, strict=False)]
        else:
            head, tail = encode(self.token(_HOLE, [], None)).split(json.dumps(_HOLE)[1:-1].encode())
            texts = [b"%b %b%b" % (head, word.encode(), tail) for word in words[:-1]]
        for text in texts:
            yield begin + text
            begin = b""
        end = encode(self.token(f" {words[-1]}", [ids[-1]], self.answer.finish))
        yield begin + end + (encode(self.last()) if self.asked.wants_usage else b"") + DONE

    def _chunk(self, content: dict[str, Any], finish: str | None) -> WireMessage:
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish}
        return WireMessage(self._frame(is_chunk=True), choices=[choice])

    def _frame(self, *, is_chunk: bool) -> WireMessage:
        kind = f"chat.completion{'.chunk' if is_chunk else ''}" if self.asked.is_chat else "text_completion"
        name = f"{'chatcmpl' if self.asked.is_chat else 'cmpl'}-{self.asked.number}"
        return WireMessage(id=name, object=kind, created=self.created_s, model=self.model)


def encode(message: WireMessage) -> bytes:
    """Return a message as an event of a stream."""
    return b"data: %b\n\n" % json.dumps(message).encode()
