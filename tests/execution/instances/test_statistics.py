"""Sums checked in the head."""

from mlbench import BatchStatistics, CacheCounts, DecodeCounts, EngineStatistics, GenerationStatistics, GraphCalls
from mlbench.execution.instances.statistics import add_calls, add_statistics, alike


def test_counts_are_added_and_settings_kept_where_they_are_the_same():
    parts = [
        BatchStatistics(
            batching="fixed", batch=4, workers=2, samples=10, batches_by_size={4: 2, 2: 1}, extra={"hits": 2, "os": "a"}
        ),
        BatchStatistics(
            batching="fixed", batch=8, workers=2, samples=10, batches_by_size={4: 1, 8: 3}, extra={"hits": 3, "os": "b"}
        ),
    ]
    assert add_statistics(parts) == BatchStatistics(
        batching="fixed", workers=2, samples=20, batches_by_size={4: 3, 2: 1, 8: 3}, extra={"hits": 5}
    )


def test_of_the_longest_the_longest_is_kept_and_counts_within_counts_are_added():
    parts = [
        GenerationStatistics(
            beams=4,
            longest_queue_ns=9,
            decode=DecodeCounts(steps=1, busy_ns=10),
            cache=CacheCounts(rows=8, columns=64),
            extra={"longest_way_ns": 7},
        ),
        GenerationStatistics(
            beams=4,
            longest_queue_ns=5,
            decode=DecodeCounts(steps=2, busy_ns=20),
            cache=CacheCounts(rows=8, columns=64),
            extra={"longest_way_ns": 8},
        ),
    ]
    assert add_statistics(parts) == GenerationStatistics(
        beams=4,
        longest_queue_ns=9,
        decode=DecodeCounts(steps=3, busy_ns=30),
        cache=CacheCounts(rows=16, columns=64),
        extra={"longest_way_ns": 8},
    )


def test_what_no_instance_counts_is_not_counted_in_all():
    found = add_statistics([EngineStatistics(truncated_prompts=0), EngineStatistics()])
    assert (found.truncated_prompts, found.computed_calls) == (0, None)
    assert add_statistics([]) == EngineStatistics()


def test_equal_calls_are_one():
    def call(rows, count, graph="g"):
        return GraphCalls(graph=graph, shapes={"x": [rows, 3]}, count=count)

    found = add_calls([call(4, 1), call(8, 2), call(4, 5), call(4, 1, "h")])
    assert [(each.graph, each.shapes["x"], each.count) for each in found] == [
        ("g", (4, 3), 6),
        ("g", (8, 3), 2),
        ("h", (4, 3), 1),
    ]


def test_facts_that_differ_are_reported_by_instance():
    assert alike([{"a": 1, "b": 2}, {"a": 1, "b": 2}]) == {"a": 1, "b": 2}
    assert alike([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == {"a": 1, "by_instance": [{"b": 2}, {"b": 3}]}
    assert alike([]) == {}
    assert alike([{"a": 1}, {}]) == {"by_instance": [{"a": 1}, {}]}
