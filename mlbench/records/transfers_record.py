"""The inputs and outputs of a run's graphs, in a record."""

from __future__ import annotations

from mlbench.records.stored import Count, Stored


class GraphTransfersRecord(Stored):
    """Those of all calls of one graph."""

    graph: str
    calls: Count
    input_bytes: Count
    output_bytes: Count | None
    """Null where the data decides how many rows come out."""


class TransfersRecord(Stored):
    """Bytes that went into graphs and came out of them in the performance run, padding included.

    On a device they cross its link. State that stays in the engine, such as a language model's cache, is not in it.
    """

    graphs: list[GraphTransfersRecord]
    calls_per_sample: float
    bytes_per_sample: float | None
    """Null where the bytes of an output are."""
