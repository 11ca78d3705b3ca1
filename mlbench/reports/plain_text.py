"""External text (records, plugins, servers, file names), escaped for terminals, JSON and Markdown."""

from __future__ import annotations

import re

_ACTED_ON = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, changes of writing direction and surrogates; not tab and newline."""

_LINE_ENDS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")

_MARKDOWN = re.compile(r"[&<|\[\]`*\\]")
_SPELLED = {"&": "&amp;", "<": "&lt;"}


def terminal_text(text: str) -> str:
    r"""Return text, of one or more lines, with control characters spelled out: ``\x1b[31m``."""
    return _ACTED_ON.sub(_escape, text)


def single_line(text: str) -> str:
    """Return `terminal_text` on one line."""
    return terminal_text(_LINE_ENDS.sub(" ", text))


def json_text(text: str) -> str:
    """Return an equal JSON document without control characters."""
    return _ACTED_ON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def markdown_text(text: str) -> str:
    """Return text escaped for Markdown, on one line: no tags, links, cells or line breaks."""
    plain = _MARKDOWN.sub(lambda found: _SPELLED.get(found[0], f"\\{found[0]}"), single_line(text))
    return " ".join(plain.split())


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
