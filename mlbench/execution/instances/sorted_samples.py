"""Samples with like lengths behind one another in the queue of several engines."""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.contracts.engine import Reply, Samples
from mlbench.execution.batching import by_length, passes
from mlbench.execution.instances.dispatcher import Dispatcher


def put_sorted(
    sharing: Dispatcher, samples: Samples, reply: Reply, lengths: Mapping[int, int], *, by_pass: bool
) -> None:
    """Queue samples, the shortest first; with ``by_pass`` each pass over the dataset by itself.

    Args:
        sharing: the queue.
        samples: a query.
        reply: takes the answers.
        lengths: by dataset index; what is missing counts as 0.
        by_pass: whether to sort and give out each pass over the dataset in the query apart from the others.
    """
    parts = passes(samples.indices) if by_pass else [range(len(samples))]
    for each in parts:
        part = samples if len(parts) == 1 else samples[each.start : each.stop]
        part = by_length(part, [lengths.get(index, 0) for index in part.indices])
        sharing.put(part, reply, is_apart=len(parts) > 1)
