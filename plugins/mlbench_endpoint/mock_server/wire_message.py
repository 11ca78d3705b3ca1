"""A JSON object of the protocol."""

from __future__ import annotations

from typing import Any


class WireMessage(dict[str, Any]):
    """A request, a chunk or an answer: a JSON object that faults may change in any way."""
