"""Faults of a stream: what its events are, how they lie on the wire, and how it ends."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace

from mlbench_endpoint.mock_server.script import MockEvent, StreamEnd, StreamScript
from mlbench_endpoint.mock_server.wire_message import WireMessage

TOKENS_TOGETHER = 4
_EMOJI = "\U0001f600"
_GROUPED_NAMES = ("text", "content", "reasoning", "reasoning_content")


def change_last(name: str) -> Callable[[StreamScript], None]:
    """Return a fault of the chunk with the counts of tokens: its choices are ``missing`` or ``null``."""

    def change(script: StreamScript) -> None:
        for event in script.events:
            if event.message and event.message.get("choices") == [] and "usage" in event.message:
                event.message.pop("choices")
                if name == "null":
                    event.message["choices"] = None

    return change


def repeat_done(script: StreamScript) -> None:
    """Send the end twice."""
    script.events.append(replace(script.events[-1]))


def leave_done_out(script: StreamScript) -> None:
    """Send no ``[DONE]``."""
    script.events.pop()


def comment_after_done(script: StreamScript) -> None:
    """Send a comment after ``[DONE]``."""
    script.events.append(MockEvent(script.events[-1].due_s, lines=": bye"))


def answer_after_done(script: StreamScript) -> None:
    """Send a token after ``[DONE]``."""
    script.events.append(MockEvent(script.events[-1].due_s, script.messages.token(" more", [0], None)))


def begin_empty(script: StreamScript) -> None:
    """Send a chunk without choices first, as Azure does."""
    message = WireMessage(script.messages.last(), model="", prompt_filter_results=[{"prompt_index": 0}])
    message.pop("usage")
    script.events.insert(0, MockEvent(script.events[0].due_s, message))


def add_comments(script: StreamScript) -> None:
    """Send comments before the first and after each event."""
    events = [MockEvent(script.events[0].due_s, lines=": processing")]
    for event in script.events:
        events += [event, MockEvent(event.due_s, lines=": keep-alive")]
    script.events = events


def add_other_events(script: StreamScript) -> None:
    """Send events without data, of another name and with other fields between the answer's."""
    due_s = script.events[0].due_s
    others = ["event: ping\ndata:", "retry: 3000", "id: 7", "event: ping\ndata: {}"]
    script.events[:0] = [MockEvent(due_s, lines=each) for each in others]


def name_events(script: StreamScript) -> None:
    """Give each event a name and an id."""
    for number, event in enumerate(script.events):
        event.lines = f"event: message\nid: {number}\n{_lines(script, event)}"


def split_data(script: StreamScript) -> None:
    """Send each message on several data lines, which a client joins with line ends."""
    for event in script.events:
        if event.message:
            event.lines = _lines(script, event).replace(", ", f",\n{script.prefix}")


def count_in_each(script: StreamScript) -> None:
    """Send counts of tokens with each chunk (vLLM's ``continuous_usage_stats``)."""
    for number, event in enumerate(script.tokens, 1):
        assert event.message
        prompt = script.messages.usage()["prompt_tokens"]
        event.message["usage"] = {"prompt_tokens": prompt, "completion_tokens": number, "total_tokens": prompt + number}


def group_tokens(script: StreamScript) -> None:
    """Send several tokens in a chunk, with the last one's due time, as speculative decoding does."""
    tokens = script.tokens
    for begin in range(0, len(tokens), TOKENS_TOGETHER):
        *before, last = tokens[begin : begin + TOKENS_TOGETHER]
        _merge(script, before, last)


def send_one_chunk(script: StreamScript) -> None:
    """Send the whole answer in one chunk, at its end."""
    *before, last = script.tokens
    _merge(script, before, last)


def fail_in_stream(script: StreamScript) -> None:
    """Send an error after a token or two, and nothing more."""
    error = WireMessage(error={"message": "CUDA out of memory", "type": "InternalServerError", "code": 500})
    kept = _first_tokens(script)
    script.events = [*kept, MockEvent(kept[-1].due_s, error)]


def fail_as_event(script: StreamScript) -> None:
    """Send an error as an event named ``error``."""
    fail_in_stream(script)
    last = script.events[-1]
    last.lines = f"event: error\n{_lines(script, last)}"


def send_too_many(script: StreamScript) -> None:
    """Send twice as many tokens as were requested."""
    place = script.events.index(script.tokens[-1])
    due_s = script.events[place].due_s
    count = script.messages.asked.limit * 300  # more than characters that so many tokens may have
    more = [MockEvent(due_s, script.messages.token(" more", [0], None)) for _ in range(count)]
    script.events[place:place] = more


def add_choice(script: StreamScript) -> None:
    """Send a second answer, though one was requested."""
    for event in script.tokens:
        assert event.message
        first = event.message["choices"][0]
        event.message["choices"] = [first, {**first, "index": 1}]


def use_emoji(script: StreamScript) -> None:
    """Send characters beyond ASCII, as they are, in place of spaces."""
    script.is_ascii = False
    _replace_spaces(script, _EMOJI + "\u00ef\u65e5")


def escape_emoji(script: StreamScript) -> None:
    """Send the same characters as JSON escapes."""
    _replace_spaces(script, _EMOJI + "\u00ef\u65e5")


def split_surrogates(script: StreamScript) -> None:
    r"""Send the two escapes of an emoji (``\ud83d\ude00``) in two chunks, half a character each."""
    tokens = script.tokens
    for first, second in zip(tokens[::2], tokens[1::2], strict=False):
        _replace_text(first, "\ud83d")
        _replace_text(second, "\ude00")


def end_lines_with(line_end: str) -> Callable[[StreamScript], None]:
    """Return a fault of the line ends."""

    def change(script: StreamScript) -> None:
        script.line_end = line_end

    return change


def leave_blank_out(script: StreamScript) -> None:
    """Send no blank after ``data:``."""
    script.prefix = "data:"
    for event in script.events:
        event.lines = event.lines.replace("data: ", "data:")


def send_bytewise(script: StreamScript) -> None:
    """Send each byte for itself."""
    script.pieces = [(due_s, data[at : at + 1]) for due_s, data in script.pieces for at in range(len(data))]


def split_in_escapes(script: StreamScript) -> None:
    """Send each piece in two, cut within an escape or a character, where it has one."""
    pieces = []
    for due_s, data in script.pieces:
        place = data.find(b"\\u")
        if place < 0:
            place = next((number for number, byte in enumerate(data) if byte >= 0x80), len(data) // 2 - 2)
        pieces += [(due_s, data[: place + 2]), (due_s, data[place + 2 :])]
    script.pieces = pieces


def buffer_all(script: StreamScript) -> None:
    """Send the whole stream at its end, as a proxy that collects it."""
    script.pieces = [(script.pieces[-1][0], b"".join(data for _, data in script.pieces))]


def begin_with_mark(script: StreamScript) -> None:
    """Send a byte order mark first."""
    due_s, data = script.pieces[0]
    script.pieces[0] = (due_s, b"\xef\xbb\xbf" + data)


def compress(script: StreamScript) -> None:
    """Send the stream compressed, without a request for it."""
    buffer_all(script)
    due_s, data = script.pieces[0]
    script.pieces = [(due_s, gzip.compress(data))]
    script.headers["Content-Encoding"] = "gzip"


def speak_http10(script: StreamScript) -> None:
    """Answer in HTTP 1.0, whose end is the connection's."""
    script.is_http10 = True


def say_plain_text(script: StreamScript) -> None:
    """Call the stream plain text."""
    script.content_type = "text/plain"


def end_with(ending: StreamEnd) -> Callable[[StreamScript], None]:
    """Return a fault that ends a stream after a token or two."""

    def change(script: StreamScript) -> None:
        script.events, script.ending = _first_tokens(script), ending

    return change


def say_nothing(script: StreamScript) -> None:
    """Send nothing after the headers."""
    script.pieces, script.ending = [], StreamEnd.HANG


def _lines(script: StreamScript, event: MockEvent) -> str:
    if event.lines:
        return event.lines
    encoded = StreamScript(messages=script.messages, events=[event], prefix=script.prefix, is_ascii=script.is_ascii)
    encoded.encode()
    return encoded.pieces[0][1].decode("utf-8", "surrogatepass").rstrip("\n")


def _first_tokens(script: StreamScript) -> list[MockEvent]:
    """Return the events up to the second token, or to the only one."""
    tokens = script.tokens
    return script.events[: script.events.index(tokens[min(1, len(tokens) - 1)]) + 1]


def _merge(script: StreamScript, before: list[MockEvent], last: MockEvent) -> None:
    """Put the texts and token ids of some events into the one after them, and leave the former out."""
    kept = [event for event in [*before, last] if event.message]
    choices = [event.message["choices"][0] for event in kept if event.message]
    final = choices[-1]
    holders = [choice.get("delta", choice) for choice in choices]
    for name in _GROUPED_NAMES:
        if name in holders[-1]:
            holders[-1][name] = "".join(each[name] for each in holders)
    if "token_ids" in final:
        final["token_ids"] = [id_ for choice in choices for id_ in choice["token_ids"]]
    dropped = set(map(id, before))
    script.events = [event for event in script.events if id(event) not in dropped]


def _replace_text(event: MockEvent, text: str) -> None:
    assert event.message
    choice = event.message["choices"][0]
    holder = choice.get("delta", choice)
    holder["content" if "delta" in choice else "text"] = text


def _replace_spaces(script: StreamScript, text: str) -> None:
    for event in script.tokens:
        assert event.message
        choice = event.message["choices"][0]
        holder = choice.get("delta", choice)
        for name in _GROUPED_NAMES:
            if name in holder:
                holder[name] = holder[name].replace(" ", text)
