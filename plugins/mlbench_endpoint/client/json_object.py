"""A server's bytes as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mlbench_endpoint.client.failure import RequestFailed, quote


def json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that some bytes are.

    Raises:
        RequestFailed: they are not a JSON object.
    """
    with suppress(ValueError):  # it also refuses halves of characters
        if _FAST_LOADS and isinstance(found := _FAST_LOADS(data), dict):
            return found
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise RequestFailed(f"the server sent invalid JSON, bytes that are not UTF-8: {quote(data)}") from None
    except (ValueError, RecursionError):  # of integers with thousands of digits, of arrays nested by the thousand
        raise RequestFailed(f"the server sent invalid JSON: {quote(data)}") from None
    if not isinstance(found, dict):
        raise RequestFailed(f"the server sent JSON that is not an object: {quote(data)}")
    return found


def _find_fast_loads() -> Callable[[bytes], Any] | None:
    try:
        from orjson import loads
    except ImportError:
        return None
    return loads


_FAST_LOADS = _find_fast_loads()
