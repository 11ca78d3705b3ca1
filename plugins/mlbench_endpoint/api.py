"""OpenAI's two protocols for text: a prompt that is continued, or a message that is answered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

PromptField = str | list[int] | list[dict[str, str | list[int]]]
"""What a field of a request holds that has a prompt in it."""


RequestField = bool | int | list[str] | PromptField
"""What a field of a request holds that is a sample's own."""


class Api(StrEnum):
    """Which of the two a server is asked by."""

    COMPLETIONS = "completions"
    CHAT = "chat"

    @property
    def path(self) -> str:
        """Where requests go, behind a target."""
        return "chat/completions" if self is Api.CHAT else "completions"

    def prompt_fields(self, prompt: str | list[int]) -> Mapping[str, PromptField]:
        """Return the fields of a request that hold a prompt: in a chat, one message of the user's."""
        if self is Api.CHAT:
            return {"messages": [{"role": "user", "content": prompt}]}
        return {"prompt": prompt}


def text_of(choice: Mapping[str, Any], api: Api, *, is_stream: bool) -> object:
    """Return the text that a choice of an answer brings, as the server sent it; in a chat a model's thoughts are text.

    Raises:
        TypeError: the message of a chat is none.
    """
    if api is Api.COMPLETIONS:
        return choice.get("text")
    message = choice.get("delta" if is_stream else "message") or {}
    if not isinstance(message, Mapping):
        raise TypeError(message)
    thought = message.get("reasoning_content") or message.get("reasoning")  # vLLM has called it by both names
    return thought or message.get("content")
