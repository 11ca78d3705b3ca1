"""A client's request, as the mock server reads it: a token is a word."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from mlbench_endpoint.mock_server.wire_message import WireMessage

DEFAULT_LIMIT = 16
"""Most tokens of an answer where the request gives none, as in OpenAI's completions."""

IMAGE_TOKENS = 256
"""Tokens of an image in a chat."""

_LONGEST_ANSWER = 1_000_000


class BadRequestError(Exception):
    """A request that the server refuses; has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedText:
    """A request for text."""

    number: int
    """Counts requests from 0."""
    is_chat: bool
    tokens: list[str]
    """Tokens of the prompt; of a chat with its template's."""
    limit: int
    """Most tokens of the answer."""
    is_stream: bool
    wants_usage: bool
    wants_ids: bool
    """Whether the answer's token ids are requested too (vLLM's ``return_token_ids``)."""
    ignores_end: bool
    """Whether the answer shall have full length (``ignore_eos``)."""


def read_request(body: WireMessage, number: int, *, is_chat: bool) -> AskedText:
    """Return the request of a body.

    Raises:
        BadRequestError: it lacks a prompt, or a field has an invalid value.
    """
    limit = body.get("max_completion_tokens", body.get("max_tokens", DEFAULT_LIMIT))
    if type(limit) is not int or not 1 <= limit <= _LONGEST_ANSWER:
        raise BadRequestError(f"max_tokens is {limit!r}")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise BadRequestError(f"stream_options is {options!r}")
    return AskedText(
        number=number,
        is_chat=is_chat,
        tokens=_chat_tokens(body.get("messages")) if is_chat else _prompt_tokens(body.get("prompt")),
        limit=limit,
        is_stream=bool(body.get("stream")),
        wants_usage=bool((options or {}).get("include_usage")),
        wants_ids=bool(body.get("return_token_ids")),
        ignores_end=bool(body.get("ignore_eos")),
    )


def _prompt_tokens(prompt: object) -> list[str]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt.split()
    if isinstance(prompt, list) and prompt and all(type(each) is int for each in prompt):
        return list(map(str, prompt))
    raise BadRequestError("prompt must be a text or a list of token ids")


def _chat_tokens(messages: object) -> list[str]:
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages must be a list")
    tokens: list[str] = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequestError("each of messages must be an object with a role")
        tokens += [f"<|{message['role']}|>", *_content_tokens(message.get("content")), "<|end|>"]
    return [*tokens, "<|assistant|>"]


def _content_tokens(content: object) -> list[str]:
    if content is None or isinstance(content, str):
        return (content or "").split()
    if not isinstance(content, list):
        raise BadRequestError("content must be a text or a list of parts")
    tokens: list[str] = []
    for part in content:
        match part:
            case {"type": "text", "text": str(text)}:
                tokens += text.split()
            case {"type": "image_url", "image_url": {"url": str(url)}} if url.startswith("data:image/"):
                key = zlib.crc32(url.encode("utf-8", "surrogatepass"))
                tokens += [f"<|image {key} {number}|>" for number in range(IMAGE_TOKENS)]
            case _:
                raise BadRequestError("a part must be text, or an image_url with a data:image/ URL")
    return tokens
