"""OpenAI's two protocols for text: a prompt that is continued, or a message that is answered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

PromptField = str | list[int] | list[dict[str, str | list[int]]]
"""Value of a request field that contains a prompt."""


RequestField = bool | int | list[str] | PromptField
"""Value of a request field that is specific to a sample."""


class Api(StrEnum):
    """The protocol of requests."""

    COMPLETIONS = "completions"
    CHAT = "chat"

    @property
    def path(self) -> str:
        """Path of requests, after a target's URL."""
        return "chat/completions" if self is Api.CHAT else "completions"

    def prompt_fields(self, prompt: str | list[int]) -> Mapping[str, PromptField]:
        """Return the fields of a request that hold a prompt: in a chat, one message of the user's."""
        if self is Api.CHAT:
            return {"messages": [{"role": "user", "content": prompt}]}
        return {"prompt": prompt}


def text_of(choice: Mapping[str, Any], api: Api, *, is_stream: bool) -> object:
    """Return the text of a choice of an answer, unchanged; in a chat a model's thoughts count as text.

    Raises:
        TypeError: a chat's message is not an object.
    """
    if api is Api.COMPLETIONS:
        return choice.get("text")
    message = choice.get("delta" if is_stream else "message") or {}
    if not isinstance(message, Mapping):
        raise TypeError(message)
    thought = message.get("reasoning_content") or message.get("reasoning")  # vLLM has called it by both names
    return thought or message.get("content")
