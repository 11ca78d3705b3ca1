"""Files of prompts and of sessions: one prompt per line, JSON lines, or ShareGPT's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlbench import DataError
from mlbench.toolkit import parse_json, printable, read_text
from mlbench_endpoint.loads.generated_prompts import think_ns
from mlbench_endpoint.loads.prompt_lengths import parse_lengths
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.text_sample import TextSample, Turn

_MOST_BYTES = 1 << 30
_MOST_PROMPTS = 1_000_000
_MOST_TURNS = 1000
_SHOWN = 60

_ROLES = {
    "system": "system",
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bing", "bard"), "assistant"),
}
"""Roles of messages, by OpenAI's names and ShareGPT's."""


def read_prompts(file: Path, options: PromptOptions) -> list[TextSample]:
    """Return the prompts or sessions of a file, blank lines left out; those that name no length have one drawn.

    Raises:
        UsageError: ``workload.tokens_out`` is no length.
        DataError: the file cannot be read, is not UTF-8, or has an invalid prompt; the message names the line.
    """
    import numpy as np

    try:
        text = read_text(file, what="prompts file", limit_bytes=_MOST_BYTES)
    except ValueError:
        raise DataError(f"prompts file is not UTF-8: {file}.", hint="Convert it: iconv -t UTF-8.") from None
    entries = list(_entries(text, file))
    if not entries or len(entries) > _MOST_PROMPTS:
        said = f"has {len(entries):,} prompts" if entries else "has no prompt"
        raise DataError(f"prompts file {said}: {file}.", hint=f"Give 1 to {_MOST_PROMPTS:,}, one on each line.")
    lengths = parse_lengths(options.tokens_out, "workload.tokens_out")
    drawn = lengths.draw(np.random.default_rng(options.seed), len(entries)).tolist()
    return [_sample_of(entry, tokens, options) for entry, tokens in zip(entries, drawn, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A prompt or a session of a file, unchecked."""

    place: str
    """Where it is, for errors."""
    prompt: object = None
    messages: object = None
    """Those of a session; None: it is a prompt."""
    max_tokens: object = None

    @classmethod
    def of_object(cls, found: object, place: str) -> _Entry:
        """Return the entry in a value of JSON; raises `DataError` where that is no object."""
        if not isinstance(found, dict):
            raise _not_prompt(found, place)
        messages = found.get("messages", found.get("conversations"))
        if messages is None and not (isinstance(found.get("prompt"), str) and found["prompt"].strip()):
            raise _not_prompt(json.dumps(found), place)
        return cls(place=place, prompt=found.get("prompt"), messages=messages, max_tokens=found.get("max_tokens"))


def _entries(text: str, file: Path) -> Iterator[_Entry]:
    """Yield the prompts or sessions of a file."""
    if file.suffix == ".json":
        yield from _conversations(text, file)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{file}, line {number}"
            yield _of_line(line, place) if file.suffix == ".jsonl" else _Entry(place=place, prompt=line.strip())


def _of_line(line: str, place: str) -> _Entry:
    try:
        found = parse_json(line)
    except ValueError:
        raise _not_prompt(line, place) from None
    return _Entry.of_object(found, place)


def _conversations(text: str, file: Path) -> Iterator[_Entry]:
    """Yield the entries of a JSON array; ShareGPT's conversations without a question are left out."""
    try:
        found = parse_json(text)
    except ValueError as error:
        said = printable(str(error)[:_SHOWN])
        raise DataError(f"{file} is not JSON: {said}.", hint="Give ShareGPT's form.") from None
    if not isinstance(found, list):
        raise DataError(f"{file} is not a JSON array.", hint="Give ShareGPT's form, or JSON lines in a .jsonl file.")
    for number, each in enumerate(found, 1):
        entry = _Entry.of_object(each, f"{file}, entry {number}")
        if not isinstance(entry.messages, list) or any(_role(message) == "user" for message in entry.messages):
            yield entry


def _not_prompt(shown: object, place: str) -> DataError:
    return DataError(
        f"{place}: {printable(str(shown)[:_SHOWN])!r} is not a prompt.",
        hint='Give a JSON object: {"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}.',
    )


def _sample_of(entry: _Entry, tokens: int, options: PromptOptions) -> TextSample:
    """Return the prompt or session of an entry; raises `DataError` for a wrong one."""
    most = tokens if entry.max_tokens is None else entry.max_tokens
    if type(most) is not int or most < 1:
        raise DataError(
            f"{entry.place}: max_tokens is {printable(str(most)[:_SHOWN])}.", hint="Give a whole number above 0."
        )
    if entry.messages is None:
        return TextSample(text=str(entry.prompt), answer_tokens=most)
    return _session(entry.messages, most, entry.place, options)


def _role(message: object) -> str:
    """Return the role of a message: ``system``, ``user``, ``assistant``, or nothing."""
    if not isinstance(message, dict):
        return ""
    name = message.get("role", message.get("from"))
    return _ROLES.get(name, "") if isinstance(name, str) else ""


def _session(messages: object, most: int, place: str, options: PromptOptions) -> TextSample:
    """Return a session: a turn for each message of the user; the assistant's messages are the given answers."""
    if not isinstance(messages, list) or len(messages) > 2 * _MOST_TURNS:
        raise _not_prompt(messages, place)
    told = [(_role(each), _content(each, place)) for each in messages]
    system = told.pop(0)[1] if told and told[0][0] == "system" else ""
    while told and told[0][0] == "assistant":  # as some of ShareGPT's begin
        told.pop(0)
    questions, answers = told[::2], told[1::2]
    if not questions or {role for role, _ in questions} != {"user"} or {role for role, _ in answers} - {"assistant"}:
        raise DataError(
            f"{place}: user and assistant do not take turns.", hint="Give a user's message, then an answer, and so on."
        )
    is_given = options.history == "given"
    turns = [
        Turn(text=text, answer_tokens=most, think_ns=think_ns(options), given=answer if is_given else None)
        for (_, text), (_, answer) in zip(questions[1:], answers, strict=False)
    ]
    return TextSample(text=questions[0][1], answer_tokens=most, system=system, turns=tuple(turns))


def _content(message: object, place: str) -> str:
    content = message.get("content", message.get("value")) if isinstance(message, dict) else None
    if not isinstance(content, str) or not content:
        raise _not_prompt(message, place)
    return content
