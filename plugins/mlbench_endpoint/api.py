"""Protocols for text: a prompt that is continued, a message that is answered, an embedding, scores of documents."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

PromptField = str | list[int] | list[str] | list[dict[str, str | list[int]]]
"""Value of a request field that contains a prompt."""


RequestField = bool | int | list[str] | PromptField
"""Value of a request field that is specific to a sample."""


class Api(StrEnum):
    """The protocol of requests."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"

    @property
    def path(self) -> str:
        """Path of requests, after a target's URL."""
        return "chat/completions" if self is Api.CHAT else str(self)

    @property
    def makes_text(self) -> bool:
        """Whether answers are generated text; else they are numbers, in one piece."""
        return self in (Api.COMPLETIONS, Api.CHAT)

    @property
    def workload(self) -> str:
        """Name of the workload for a server's own model."""
        return "prompts" if self.makes_text else "vectors"

    def prompt_fields(self, prompt: str | list[int]) -> Mapping[str, PromptField]:
        """Return the fields of a request that hold a prompt: in a chat, one message of the user's."""
        if self is Api.CHAT:
            return {"messages": [{"role": "user", "content": prompt}]}
        if self is Api.EMBEDDINGS:
            return {"input": prompt}
        if self is Api.RERANK:
            return {"query": prompt, "documents": ["a"]}
        return {"prompt": prompt}


def text_of(choice: Mapping[str, Any], api: Api) -> str:
    """Return the text of a choice of an answer, unchanged.

    In a chat all that a model generates counts as text, in this order: its thoughts, its answer or refusal, the
    arguments of calls of tools.

    Raises:
        TypeError: a part of it has another type; its value is the argument.
    """
    if api is Api.COMPLETIONS:
        return _text(choice.get("text"))
    delta = choice.get("delta")  # some servers repeat the whole message beside the last one, which is empty
    message = _object(choice.get("message") if delta is None else delta)
    thought = _thought_of(message)
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_text(_object(part).get("text")) for part in content)
    text = _text(thought) + _text(content) + _text(message.get("refusal"))
    calls = message.get("tool_calls") or ([{"function": call}] if (call := message.get("function_call")) else [])
    if not isinstance(calls, list):
        raise TypeError(calls)
    for each in calls:
        called = _object(_object(each).get("function"))
        text += _text(called.get("name")) + _text(called.get("arguments"))
    return text


def has_thoughts(choice: Mapping[str, Any]) -> bool:
    """Return whether a choice, which `text_of` can read, has text of the model's thoughts."""
    return bool(_thought_of(choice.get("delta") or choice.get("message") or {}))


def _thought_of(message: Mapping[str, Any]) -> object:
    return message.get("reasoning_content") or message.get("reasoning")  # vLLM has called it by both names


def _text(value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value or ""


def _object(value: object) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(value)
    return value or {}
