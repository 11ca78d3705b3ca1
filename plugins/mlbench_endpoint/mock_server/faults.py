"""The faults of a mock server by name, and the requests that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from mlbench import UsageError
from mlbench_endpoint.mock_server import fault_messages as messages
from mlbench_endpoint.mock_server import fault_streams as streams
from mlbench_endpoint.mock_server.fault_messages import MockRefusal
from mlbench_endpoint.mock_server.script import StreamEnd, StreamScript
from mlbench_endpoint.mock_server.wire_message import WireMessage

NO_MODELS = "no-models"
NOT_STREAMED = "not-streamed"
NEEDS_QUERY = "needs-query"
DIFFERS = "differs-under-load"

_Refuse = Callable[[WireMessage], MockRefusal | None]
_ChangeMessage = Callable[[WireMessage], None]
_ChangeStream = Callable[[StreamScript], None]


@dataclass(frozen=True, slots=True)
class MockFault:
    """A fault, or an oddity that servers have; it does one thing at one stage."""

    name: str
    about: str
    """The server's behaviour, as a verb phrase."""
    refuse: _Refuse | None = None
    """Returns the refusal of a request, given its body."""
    message: _ChangeMessage | None = None
    """Changes each message."""
    events: _ChangeStream | None = None
    """Changes the events of a stream."""
    pieces: _ChangeStream | None = None
    """Changes the bytes of a stream, and its end."""


_BUSY = {
    f"{status}-{form}": (f"refuses with {status}, {told}", messages.refuse_busy(status, form))
    for status in (429, 503)
    for form, told in (
        ("seconds", "Retry-After in seconds"),
        ("date", "Retry-After as a date"),
        ("bare", "without Retry-After"),
    )
}
_REFUSALS: Mapping[str, tuple[str, _Refuse]] = {
    "500": ("refuses with 500", messages.refuse_with(500, '{"error": "out of memory"}')),
    "error-page": (
        "answers 502 with a page of HTML",
        messages.refuse_with(502, "<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    ),
    "error-under-200": (
        "answers 200 with an error as JSON",
        messages.refuse_with(200, '{"error": {"message": "out of memory", "code": 500}}'),
    ),
    "redirect": ("redirects each request to /elsewhere", messages.refuse_with(307, "", Location="/elsewhere")),
    "strict-fields": ("refuses fields beyond OpenAI's first ones, as stream_options", messages.refuse_fields),
    "no-stream-options": ("refuses stream_options", messages.refuse_field("stream_options", "")),
    "no-max-tokens": (
        "refuses max_tokens, and names max_completion_tokens",
        messages.refuse_field("max_tokens", " Use 'max_completion_tokens' instead."),
    ),
}
_MESSAGES: Mapping[str, tuple[str, _ChangeMessage]] = {
    "model-dated": ("answers as NAME-2026-01-01", messages.rename_model("-2026-01-01")),
    "model-other": ("answers as another model", messages.rename_model("", "another-model")),
    "model-empty": ("answers with an empty model's name", messages.rename_model("", "")),
    "model-missing": ("answers without a model's name", messages.leave_out("model")),
    "usage-missing": ("sends no counts of tokens", messages.leave_out("usage")),
    "usage-wrong": ("counts twice as many tokens in an answer", messages.count_wrong("completion_tokens", 2)),
    "usage-wrong-prompt": ("counts twice as many tokens in a prompt", messages.count_wrong("prompt_tokens", 2)),
    "unknown-fields": ("adds fields that the protocol has not", messages.add_fields),
    "finish-other": ("ends answers with 'eos_token'", messages.finish_with("eos_token")),
    "finish-filter": ("ends answers with 'content_filter'", messages.finish_with("content_filter")),
    "reasoning": ("sends a chat's text as reasoning_content", messages.think("reasoning_content")),
    "reasoning-new": ("sends a chat's text as reasoning", messages.think("reasoning")),
    "tool-calls": ("sends a chat's text as a call of a tool", messages.call_tool),
}
_STREAMS: Mapping[str, tuple[str, _ChangeStream]] = {
    "done-twice": ("sends [DONE] twice", streams.repeat_done),
    "done-missing": ("sends no [DONE]", streams.leave_done_out),
    "done-comment": ("sends a comment after [DONE]", streams.comment_after_done),
    "done-token": ("sends a token after [DONE]", streams.answer_after_done),
    "usage-without-choices": ("sends the counts of tokens without choices", streams.change_last("missing")),
    "usage-null-choices": ("sends the counts of tokens with choices null", streams.change_last("null")),
    "usage-in-each": ("sends counts of tokens with each chunk", streams.count_in_each),
    "empty-first": ("sends a chunk without choices first", streams.begin_empty),
    "comments": ("sends comments between events", streams.add_comments),
    "other-events": ("sends pings and fields without data first", streams.add_other_events),
    "several-tokens": ("sends 4 tokens in a chunk", streams.group_tokens),
    "one-chunk": ("sends all tokens in one chunk, at the end", streams.send_one_chunk),
    "error-in-stream": ("sends an error after two tokens", streams.fail_in_stream),
    "error-event": ("sends an event named error after two tokens", streams.fail_as_event),
    "too-many-tokens": ("sends far more tokens than requested", streams.send_too_many),
    "second-choice": ("sends a second answer, though one was requested", streams.add_choice),
    "emoji": ("sends characters beyond ASCII", streams.use_emoji),
    "escapes": ("sends characters beyond ASCII as JSON escapes", streams.escape_emoji),
    "split-surrogates": ("sends the two escapes of an emoji in two chunks", streams.split_surrogates),
    "named-events": ("names and numbers each event", streams.name_events),
    "several-lines": ("sends each message on several data lines", streams.split_data),
    "no-blank": ("sends no blank after data:", streams.leave_blank_out),
    "crlf": ("ends lines with CR LF", streams.end_lines_with("\r\n")),
    "cr": ("ends lines with CR", streams.end_lines_with("\r")),
    "cut-off": ("ends the stream after two tokens", streams.end_with(StreamEnd.WHOLE)),
    "hang-up": ("closes the connection after two tokens", streams.end_with(StreamEnd.CUT)),
    "reset": ("resets the connection after two tokens", streams.end_with(StreamEnd.RESET)),
    "stall": ("sends two tokens, then nothing more", streams.end_with(StreamEnd.HANG)),
}
_WIRE: Mapping[str, tuple[str, _ChangeStream]] = {
    "byte-order-mark": ("begins with a byte order mark", streams.begin_with_mark),
    "bytewise": ("sends each byte in a chunk of its own", streams.send_bytewise),
    "split-escapes": ("cuts each event within an escape or a character", streams.split_in_escapes),
    "buffered": ("sends the whole stream at its end", streams.buffer_all),
    "gzip": ("compresses the stream", streams.compress),
    "plain-type": ("calls the stream text/plain", streams.say_plain_text),
    "http10": ("answers in HTTP 1.0", streams.speak_http10),
    "silent": ("sends headers, and never an event", streams.say_nothing),
}
_OTHERS = {
    NO_MODELS: "has no /models",
    NEEDS_QUERY: "answers 404 without ?api-version= in the URL, as Azure",
    NOT_STREAMED: "answers in one piece, though a stream is requested",
    DIFFERS: "gives other answers to requests that run beside others",
}

FAULTS: Mapping[str, MockFault] = {
    **{name: MockFault(name, about, refuse=refuse) for name, (about, refuse) in {**_BUSY, **_REFUSALS}.items()},
    **{name: MockFault(name, about, message=change) for name, (about, change) in _MESSAGES.items()},
    **{name: MockFault(name, about, events=change) for name, (about, change) in _STREAMS.items()},
    **{name: MockFault(name, about, pieces=change) for name, (about, change) in _WIRE.items()},
    **{name: MockFault(name, about) for name, about in _OTHERS.items()},
}
"""All faults by name."""


@dataclass(slots=True)
class ChosenFault:
    """A fault that a share of requests has."""

    fault: MockFault
    share: float
    rng: Random

    def strikes(self) -> bool:
        """Draw whether the next request has it."""
        return self.rng.random() < self.share


@dataclass(slots=True, kw_only=True)
class FaultPlan:
    """The chosen faults of a server."""

    chosen: Sequence[ChosenFault]
    calm: int
    """Number of requests at the beginning without faults."""
    _requests: int = field(default=0, init=False)

    def draw(self) -> list[MockFault]:
        """Return the faults of the next request."""
        self._requests += 1
        if self._requests <= self.calm:
            return []
        return [each.fault for each in self.chosen if each.strikes()]

    def has(self, name: str) -> bool:
        """Return whether a fault was chosen."""
        return any(each.fault.name == name for each in self.chosen)


def parse_faults(texts: Sequence[str], *, seed: int, calm: int) -> FaultPlan:
    """Return the faults that texts choose, each ``NAME`` or ``NAME:SHARE``.

    Raises:
        UsageError: there is no such fault, or a share is not above 0 and at most 1.
    """
    chosen = []
    for text in texts:
        name, _, share = text.partition(":")
        if name not in FAULTS:
            raise UsageError(f"--fault is {text!r}.", hint="See: mlbench mock-server --list-faults")
        chosen.append(ChosenFault(FAULTS[name], _share(share, text), Random(f"{seed} {name}")))
    return FaultPlan(chosen=chosen, calm=calm)


def _share(text: str, fault: str) -> float:
    try:
        share = float(text or "1")
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--fault is {fault!r}.", hint="Give a share of requests above 0, up to 1, as cut-off:0.05.")
    return share
