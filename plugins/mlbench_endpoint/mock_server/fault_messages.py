"""Faults of messages, of a chunk as of a whole answer; and refusals."""

from __future__ import annotations

import email.utils
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from mlbench_endpoint.mock_server.wire_message import WireMessage

KNOWN_FIELDS = {
    *("model", "messages", "prompt", "max_tokens", "max_completion_tokens", "stream", "temperature", "stop", "n"),
    *("top_p", "seed", "logprobs", "presence_penalty", "frequency_penalty", "user"),
    *("input", "query", "documents"),
}
"""Fields that a strict server takes."""

RETRY_AFTER_S = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MockRefusal:
    """An answer that is an error."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


def refusal(status: int, message: str, kind: str = "invalid_request_error") -> MockRefusal:
    """Return a refusal in OpenAI's form."""
    return MockRefusal(
        status=status, text=json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}})
    )


def refuse_busy(status: int, form: str) -> Callable[[WireMessage], MockRefusal]:
    """Return a refusal of a busy server, with Retry-After in ``seconds``, as a ``date``, or without it (``bare``)."""

    def refuse(body: WireMessage) -> MockRefusal:
        headers = {}
        if form == "seconds":
            headers = {"Retry-After": str(RETRY_AFTER_S)}
        elif form == "date":
            due = datetime.now(UTC) + timedelta(seconds=RETRY_AFTER_S + 1)  # a date has whole seconds
            headers = {"Retry-After": email.utils.format_datetime(due, usegmt=True)}
        text = refusal(status, "Rate limit reached" if status == 429 else "Service overloaded", "busy").text
        return MockRefusal(status=status, text=text, headers=headers)

    return refuse


def refuse_fields(body: WireMessage) -> MockRefusal | None:
    """Refuse a field that OpenAI's first protocol has not."""
    unknown = sorted(set(body) - KNOWN_FIELDS)
    return refusal(400, f"Unrecognized request argument supplied: {unknown[0]}") if unknown else None


def refuse_field(name: str, instead: str) -> Callable[[WireMessage], MockRefusal | None]:
    """Return a refusal of one field."""

    def refuse(body: WireMessage) -> MockRefusal | None:
        told = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
        return refusal(400, told) if name in body else None

    return refuse


def refuse_with(
    status: int, text: str, content_type: str = "application/json", **headers: str
) -> Callable[..., MockRefusal]:
    """Return a refusal that is always the same."""
    found = MockRefusal(status=status, text=text, headers=headers, content_type=content_type)
    return lambda body: found


def rename_model(suffix: str, name: str | None = None) -> Callable[[WireMessage], None]:
    """Return a fault of the model's name: with a suffix, or another one."""

    def change(message: WireMessage) -> None:
        if "model" in message:
            message["model"] = message["model"] + suffix if name is None else name

    return change


def leave_out(name: str) -> Callable[[WireMessage], None]:
    """Return a fault that removes a field."""

    def change(message: WireMessage) -> None:
        message.pop(name, None)

    return change


def count_wrong(name: str, factor: int) -> Callable[[WireMessage], None]:
    """Return a fault that multiplies a count of tokens."""

    def change(message: WireMessage) -> None:
        if name in (message.get("usage") or {}):
            message["usage"] = {**message["usage"], name: message["usage"][name] * factor}

    return change


def add_fields(message: WireMessage) -> None:
    """Add fields that the protocol has not."""
    message.update(system_fingerprint=None, x_groq={"id": "req"}, timings=[1, 2.5])
    for choice in message.get("choices") or ():
        choice |= {"stop_reason": None, "content_filter_results": {}, "matched_stop": 7}


def finish_with(reason: str) -> Callable[[WireMessage], None]:
    """Return a fault of the reason for the end."""

    def change(message: WireMessage) -> None:
        for choice in message.get("choices") or ():
            if choice.get("finish_reason"):
                choice["finish_reason"] = reason

    return change


def think(name: str) -> Callable[[WireMessage], None]:
    """Return a fault that sends a chat's text as a thought, in a field of this name."""

    def change(message: WireMessage) -> None:
        for choice in message.get("choices") or ():
            holder = choice.get("delta") or choice.get("message") or {}
            if holder.get("content"):
                holder[name] = holder.pop("content")

    return change


def call_tool(message: WireMessage) -> None:
    """Send a chat's text as the arguments of a tool."""
    for choice in message.get("choices") or ():
        holder = choice.get("delta") or choice.get("message") or {}
        if holder.get("content"):
            called = {"name": "look_up", "arguments": holder.pop("content")}
            holder["tool_calls"] = [{"index": 0, "id": "call", "type": "function", "function": called}]
