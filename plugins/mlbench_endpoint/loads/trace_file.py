"""Traces: when requests arrived at some server, and how long they and their answers were.

Four forms are known by their content: Mooncake's JSON lines, Azure's and BurstGPT's CSV files, and our own JSON lines.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mlbench import DataError
from mlbench.toolkit import parse_json, printable, read_text
from mlbench_endpoint.loads.prompt_lengths import MOST_TOKENS

BLOCK_TOKENS = 512
"""Tokens of a block of Mooncake's traces; the last block of a prompt may have fewer."""

FEWEST_TOKENS_OUT = 2
"""Fewest tokens of an answer: one token has no time per token. A trace's shorter answers are lengthened."""

_MOST_BYTES = 1 << 30
_MOST_LINES = 1_000_000
_MOST_TOKENS_IN = 300_000_000
"""Most tokens of all prompts: they are kept as text until they are sent, about six bytes each."""
_LONGEST_NS = 86_400 * 10**9
_LATEST_NS = 1e21
_SHOWN = 80

FORMS = (
    'Mooncake\'s JSON lines ("timestamp" in ms, "input_length", "output_length", "hash_ids"), '
    'Azure\'s CSV (TIMESTAMP,ContextTokens,GeneratedTokens), BurstGPT\'s CSV (Timestamp, "Request tokens", "Response '
    'tokens"), or JSON lines with "at_s", "tokens_out", and "prompt" or "tokens_in"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A request of a trace."""

    at_ns: int
    """Its arrival, from the first one on."""
    tokens_in: int = 0
    """Tokens of its prompt; 0 with `prompt`."""
    tokens_out: int
    """Most tokens of its answer."""
    blocks: tuple[int, ...] = ()
    """Names of the blocks of `BLOCK_TOKENS` that its prompt begins with; equal names stand for equal text."""
    prompt: str = ""
    """Its text; empty: one is generated."""


class _WrongLineError(ValueError):
    """A line is not a request; has the reason."""


def read_trace(file: Path, speed: float) -> list[TraceRequest]:
    """Return the requests of a trace, ordered by their arrival.

    Args:
        file: in one of the four forms.
        speed: factor by which arrivals follow each other faster than in the trace.

    Raises:
        DataError: it cannot be read, is in no known form, or has a line that is wrong, which the message names; or it
            lasts longer than a day, or has too many tokens.
    """
    try:
        text = read_text(file, what="trace", limit_bytes=_MOST_BYTES)
    except ValueError:
        raise DataError(f"trace is not UTF-8: {file}.", hint="Convert it: iconv -t UTF-8.") from None
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    first = next(lines, None)
    if first is None:
        raise DataError(f"trace has no request: {file}.", hint=f"Give {FORMS}.")
    number = first[0]
    try:
        read, is_heading = _reader_of(first[1], file)
        found = []
        rest = chain(() if is_heading else (first,), lines)
        for number, line in islice(rest, _MOST_LINES + 1):  # noqa: B007 - the number is for the error
            found.append(read(line))
    except _WrongLineError as error:
        raise DataError(f"{file}, line {number}: {error}.", hint=f"Give {FORMS}.") from None
    return _shift(found, speed, file)


def _shift(found: Sequence[TraceRequest], speed: float, file: Path) -> list[TraceRequest]:
    """Return requests in order, from 0 on, at another speed; raises `DataError` where they are too many or too long."""
    if not found or len(found) > _MOST_LINES:
        raise DataError(f"trace has {len(found):,} requests: {file}.", hint=f"1 to {_MOST_LINES:,} can be sent.")
    if (tokens := sum(each.tokens_in for each in found)) > _MOST_TOKENS_IN:
        raise DataError(
            f"the prompts of {file} have {tokens:,} tokens.",
            hint=f"All are kept in memory: cut the trace to {_MOST_TOKENS_IN:,}, as with head.",
        )
    begin_ns = min(each.at_ns for each in found)
    lasts_ns = (max(each.at_ns for each in found) - begin_ns) / speed
    if lasts_ns > _LONGEST_NS:
        raise DataError(
            f"{file} lasts {lasts_ns / 1e9:.6g} s at speed {speed:g}, more than a day.",
            hint="Raise --speed, or cut the trace.",
        )
    moved = [replace(each, at_ns=round((each.at_ns - begin_ns) / speed)) for each in found]
    return sorted(moved, key=lambda each: each.at_ns)


def _reader_of(line: str, file: Path) -> tuple[Callable[[str], TraceRequest], bool]:
    """Return the function that reads a line, by the first line, and whether that one is a heading."""
    if line.lstrip("\ufeff \t").startswith("{"):
        (length,) = _values(line, "input_length")
        return (_of_own if length is None else _of_mooncake), False
    columns = [each.strip().strip("\ufeff") for each in _cells(line)]
    for names, read_s in ((_AZURE, _date_s), (_BURSTGPT, _number)):
        if set(names) <= set(columns):
            return partial(_of_cells, [columns.index(name) for name in names], read_s), True
    shown = printable(line[:_SHOWN].strip())
    raise DataError(f"{file} begins with {shown!r}, which is no known form of a trace.", hint=f"Give {FORMS}.")


_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_BURSTGPT = ("Timestamp", "Request tokens", "Response tokens")


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")]), [])
    except csv.Error as error:
        raise _WrongLineError(str(error)) from None


def _of_cells(places: Sequence[int], read_s: Callable[[str], float], line: str) -> TraceRequest:
    cells = _cells(line)
    if len(cells) <= max(places):
        raise _WrongLineError(f"{printable(line[:_SHOWN].strip())!r} has too few columns")
    at, tokens_in, tokens_out = (cells[place].strip() for place in places)
    return TraceRequest(
        at_ns=_time_ns(read_s(at), at),
        tokens_in=_tokens(_number(tokens_in), "the prompt"),
        tokens_out=_tokens_out(_number(tokens_out), "the answer"),
    )


def _date_s(text: str) -> float:
    """Return the seconds of a date and time, such as ``2023-11-16 18:15:46.6805900``."""
    whole, dot, fraction = text.partition(".")
    digits, offset = fraction, ""
    for sign in "+-Z":
        if sign in digits:
            digits, _, offset = digits.partition(sign)
            offset = sign + offset
    try:
        found = datetime.fromisoformat(f"{whole}{offset}" if dot else whole)
        seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        return seconds + (float(f"0.{digits}") if digits else 0.0)
    except (ValueError, OverflowError, OSError):
        raise _WrongLineError(f"{printable(text[:_SHOWN])!r} is not a date and time") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _WrongLineError(f"{printable(text[:_SHOWN])!r} is not a number") from None


def _values(line: str, *names: str) -> tuple[Any, ...]:
    """Return the values of a JSON object; None for each that it lacks."""
    try:
        found = parse_json(line.lstrip("\ufeff"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _WrongLineError(f"{printable(line[:_SHOWN].strip())!r} is not a JSON object")
    return tuple(map(found.get, names))


def _of_mooncake(line: str) -> TraceRequest:
    at_ms, tokens_in, tokens_out, blocks = _values(line, "timestamp", "input_length", "output_length", "hash_ids")
    tokens_in, blocks = _tokens(tokens_in, "input_length"), [] if blocks is None else blocks
    if not isinstance(blocks, list) or not all(type(each) is int for each in blocks):
        raise _WrongLineError(f"hash_ids is {printable(str(blocks)[:_SHOWN])}, not a list of whole numbers")
    if (len(blocks) - 1) * BLOCK_TOKENS >= tokens_in:
        raise _WrongLineError(f"{len(blocks)} hash_ids are more than {tokens_in} tokens in blocks of {BLOCK_TOKENS}")
    return TraceRequest(
        at_ns=_time_ns(at_ms, at_ms, unit_ns=1e6),
        tokens_in=tokens_in,
        tokens_out=_tokens_out(tokens_out, "output_length"),
        blocks=tuple(blocks),
    )


def _of_own(line: str) -> TraceRequest:
    at_s, prompt, tokens_in, tokens_out = _values(line, "at_s", "prompt", "tokens_in", "tokens_out")
    if prompt is not None and not (isinstance(prompt, str) and prompt.strip()):
        raise _WrongLineError(f"prompt is {printable(str(prompt)[:_SHOWN])!r}, not a text")
    return TraceRequest(
        at_ns=_time_ns(at_s, at_s),
        tokens_in=0 if prompt else _tokens(tokens_in, "tokens_in"),
        tokens_out=_tokens_out(tokens_out, "tokens_out"),
        prompt=prompt or "",
    )


def _time_ns(value: object, given: object, *, unit_ns: float = 1e9) -> int:
    if type(value) not in (int, float) or not abs(ns := float(value) * unit_ns) < _LATEST_NS:  # type: ignore[arg-type]
        raise _WrongLineError(f"{printable(str(given)[:_SHOWN])!r} is not a time")
    return round(ns)


def _tokens(value: object, name: str) -> int:
    if type(value) not in (int, float) or not 1 <= float(value) <= MOST_TOKENS or value % 1:  # type: ignore
        raise _WrongLineError(f"{name} is {printable(str(value)[:_SHOWN])}, not a number of tokens above 0")
    return int(value)  # type: ignore


def _tokens_out(value: object, name: str) -> int:
    """Return the length of an answer, lengthened to the fewest tokens; BurstGPT has 0 for requests that failed."""
    return FEWEST_TOKENS_OUT if value == 0 else max(FEWEST_TOKENS_OUT, _tokens(value, name))
