"""Manifests in JSON, or in YAML as older programs write them."""

from __future__ import annotations

from typing import Any

from mlbench.system.documents import parse_json
from mlbench.system.documents.door import Meter


def parse_manifest(content: bytes, meter: Meter) -> Any:
    """Parse JSON or YAML; raises `ValueError`, or what a parser raises."""
    try:
        return parse_json(content.decode())
    except ValueError:
        if content.startswith(b"{"):  # YAML knows that form too, and takes minutes for what is damaged
            raise
    return parse_yaml(content.decode(), meter)


def parse_yaml(text: str, meter: Meter) -> Any:
    """Parse YAML whose values, each alias as often as it stands there, are counted before any is made.

    Raises:
        BudgetSpentError: there are too many, or they nest too deep.
        ValueError: a value holds itself.
        Exception: whatever the library raises.
    """
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    count = _NodeCount(meter)
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            count.repeat(event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            count.open(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            count.close()
        elif isinstance(event, yaml.ScalarEvent):
            count.add(event.anchor)
    return yaml.load(text, Loader=loader)


class _NodeCount:
    """Counts the values of a YAML document as they come."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._open: list[list[Any]] = []
        """For each collection that is open: its anchor, how many values it has, and how deep they nest."""
        self._anchors: dict[str, tuple[int, int]] = {}

    def open(self, anchor: str | None) -> None:
        self._open.append([anchor, 1, 1])
        self._meter.reach(len(self._open))
        self._meter.spend("nodes")
        self._anchors.pop(anchor or "", None)  # a name that is used again

    def close(self) -> None:
        anchor, count, height = self._open.pop()
        self._hold(anchor, count, height)

    def add(self, anchor: str | None) -> None:
        self._meter.spend("nodes")
        self._hold(anchor, 1, 0)

    def repeat(self, anchor: str) -> None:
        if anchor not in self._anchors:
            raise ValueError(f"its value {anchor!r} contains itself, or is not there")
        count, height = self._anchors[anchor]
        self._meter.spend("nodes", count)
        self._meter.reach(len(self._open) + height)
        self._hold(None, count, height)

    def _hold(self, anchor: str | None, count: int, height: int) -> None:
        """Count a value that is complete as part of the collection around it."""
        if anchor:
            self._anchors[anchor] = count, height
        if self._open:
            around = self._open[-1]
            around[1] += count
            around[2] = max(around[2], height + 1)
