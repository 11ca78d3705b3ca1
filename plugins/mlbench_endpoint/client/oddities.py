"""Deviations of a server from the protocol that change neither text nor counts: counted, and passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlbench_endpoint.client.failure import RequestFailed, one_line

_MOST_NAMES = 20
"""Most different ones that are told apart: a server chooses their words."""

_LONGEST_NAME = 60
_OTHERS = "others"


@dataclass(slots=True)
class Oddities:
    """How often each one occurred, in an answer or in a run."""

    is_strict: bool = False
    """Whether each one fails its answer (``backend.strict``)."""
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, name: str) -> None:
        """Count one.

        Raises:
            RequestFailed: with ``is_strict``.
        """
        if self.is_strict:
            raise RequestFailed(f"the server sent {name} (backend.strict)")
        self._add(one_line(name, longest=_LONGEST_NAME), 1)

    def add(self, counts: Mapping[str, int]) -> None:
        """Add those of an answer."""
        for name, number in counts.items():
            self._add(name, number)

    def _add(self, name: str, number: int) -> None:
        if name not in self.counts and len(self.counts) >= _MOST_NAMES:
            name = _OTHERS
        self.counts[name] = self.counts.get(name, 0) + number
