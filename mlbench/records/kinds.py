"""Kinds of runs: those of the same request under the same conditions."""

from __future__ import annotations

import hashlib
import json

from mlbench.records.facts import conditions_of
from mlbench.records.run_record import RunRecord


def kind_of(record: RunRecord) -> str:
    """Return a hash of all that a comparison demands to be the same, so that one record of a kind speaks for all.

    What changes from run to run is not in it, nor are versions of libraries and commits, which may differ.
    """
    return hashlib.sha256(json.dumps(conditions_of(record)).encode()).hexdigest()[:16]
