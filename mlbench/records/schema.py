"""The JSON Schema of the run record. ``python -m mlbench.records.schema`` writes the file beside this module."""

from __future__ import annotations

from pathlib import Path

from mlbench.records.run_record import RunRecord
from mlbench.system.field_docs import json_schema_of

SCHEMA_FILE = Path(__file__).with_name("run_record.schema.json")


def schema_text() -> str:
    """Return the schema of what is stored, as JSON."""
    return json_schema_of(RunRecord, "serialization")


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
