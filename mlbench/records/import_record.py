"""Where an imported run comes from."""

from __future__ import annotations

from pydantic import JsonValue

from mlbench.records.stored import Stored


class ImportRecord(Stored):
    """A result of an official tree. mlbench read its logs, and saw neither the run nor the machine.

    What the tree does not say is null, ``unknown`` or empty in the record. ``backend`` is submitter and system;
    ``profile``, ``tier`` and ``weights`` name the rules it is judged by, the official ones.
    """

    path: str
    """The result's folder inside the tree: ``closed/AMD/results/8xMI300X/bert-99/Offline``."""
    log_sha256: str
    """Checksum of LoadGen's detail log."""
    division: str
    """``closed``, ``open`` or ``network``."""
    submitter: str
    system: str
    """Its folder's name."""
    variant: str
    """The accuracy that the result was submitted for: ``99``, ``99.9``, ``range``."""
    inferred_from: str = ""
    """Scenario whose log the result is computed from, as the rules allow on edge systems; empty: its own."""
    summary_unit: str = ""
    """Unit that the round's official summary prints, which may be wrong: ``Samples/s``; empty in older records."""
    description: dict[str, JsonValue]
    """The submitter's description of the system; empty where the tree has none."""
