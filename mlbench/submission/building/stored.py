"""A stored run with all that an entry of a tree is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlbench.records.run_record import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run, its logs and its compliance tests."""

    record: RunRecord
    folder: Path
    """The run folder."""
    tests: Mapping[str, Path] = field(default_factory=dict)
    """The folder of each compliance test that was made of it, as a tree has it; the newest repeat."""
    sources: Mapping[str, Path] = field(default_factory=dict)
    """The folder of each Python package that made it, or the file of a module, by name."""
