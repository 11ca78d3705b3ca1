"""Sums checked in the head."""

from mlbench import GraphCalls
from mlbench.execution.instances.statistics import add_calls, add_statistics, alike


def test_counts_are_added_and_choices_kept_where_they_are_the_same():
    parts = [
        {"batching": "fixed", "batch": 4, "workers": 2, "samples": 10, "batches_by_size": {"4": 2, "2": 1}},
        {"batching": "fixed", "batch": 8, "workers": 2, "samples": 10, "batches_by_size": {"4": 1, "8": 3}},
    ]
    assert add_statistics(parts) == {
        "batching": "fixed",
        "workers": 2,
        "samples": 20,
        "batches_by_size": {"4": 3, "2": 1, "8": 3},
    }


def test_of_the_longest_the_longest_is_kept_and_counts_within_counts_are_added():
    parts = [
        {"longest_queue_ns": 5, "decode": {"steps": 1, "busy_ns": 10}, "cache": {"rows": 8, "columns": 64}},
        {"longest_queue_ns": 9, "decode": {"steps": 2, "busy_ns": 20}, "cache": {"rows": 8, "columns": 64}},
    ]
    assert add_statistics(parts) == {
        "longest_queue_ns": 9,
        "decode": {"steps": 3, "busy_ns": 30},
        "cache": {"rows": 16, "columns": 64},
    }


def test_equal_calls_are_one():
    def call(rows, count, graph="g"):
        return GraphCalls(graph=graph, shapes={"x": [rows, 3]}, count=count)

    found = add_calls([call(4, 1), call(8, 2), call(4, 5), call(4, 1, "h")])
    assert [(each.graph, each.shapes["x"], each.count) for each in found] == [
        ("g", (4, 3), 6),
        ("g", (8, 3), 2),
        ("h", (4, 3), 1),
    ]


def test_facts_that_differ_are_told_by_instance():
    assert alike([{"a": 1, "b": 2}, {"a": 1, "b": 2}]) == {"a": 1, "b": 2}
    assert alike([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == {"a": 1, "by_instance": [{"b": 2}, {"b": 3}]}
    assert alike([]) == {}
    assert alike([{"a": 1}, {}]) == {"by_instance": [{"a": 1}, {}]}
