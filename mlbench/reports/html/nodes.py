"""The nodes of a run, their work in the performance test, and the speed by their number."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from mlbench.comparison.comparability import key_of
from mlbench.records.node_record import ReachedNodeRecord
from mlbench.records.run_record import RunRecord
from mlbench.reports.summary import Combination
from mlbench.reports.table import ReportTable, TableCell, table
from mlbench.reports.units import duration, number_of, quantity, three_digits

_NODES = ("execution.nodes", "execution.cluster")
"""Settings in which runs on different numbers of nodes differ."""


def nodes_table(run: RunRecord) -> ReportTable | None:
    """Return a row per node: its samples, busy time and waiting time; None without nodes."""
    if not run.nodes:
        return None
    return table(
        "Nodes in the performance test; waiting: without a sample",
        ["node", "samples#", "busy#", "waiting#", "from sending to the answer#"],
        [_node_row(node, sum(each.samples for each in run.nodes)) for node in run.nodes],
        is_stacked=True,
    )


def _node_row(node: ReachedNodeRecord, all_samples: int) -> list[TableCell | str]:
    where = [node.node.environment.processor, node.device or "", node.address]
    return [
        TableCell(node.node.name, detail=", ".join(dict.fromkeys(filter(None, where)))),
        TableCell(
            "lost" if node.ended else number_of(node.samples),
            detail=node.ended or (f"{node.samples / all_samples:.1%}" if all_samples else ""),
            tone="bad" if node.ended else "",
            order=node.samples,
        ),
        f"{node.occupied_ns / node.elapsed_ns:.1%}" if node.elapsed_ns else "",
        duration(max(0, node.elapsed_ns - node.occupied_ns)),
        duration(node.in_flight_ns / node.samples) if node.samples else "",
    ]


def scaling_table(combinations: Sequence[Combination]) -> ReportTable | None:
    """Return the speed-up of more nodes, if runs differ only in their number; else None.

    Only throughputs have a row: in Server the rate is given, and a single sample is answered by one node.
    """
    groups: dict[tuple[str, ...], list[Combination]] = {}
    for each in combinations:
        if each.newest.scenario_facts.sends_all_at_once and each.counted:
            machine = each.newest.environment.machine
            groups.setdefault((machine, *key_of(each.newest, _NODES)), []).append(each)
    rows = [row for some in groups.values() for row in _scaling_rows(some)]
    if not rows:
        return None
    return table(
        "Speed by the number of nodes. Share of linear: relative to linear scaling from the fewest nodes",
        ["runs", "nodes#", "result#", "times the fewest#", "share of linear#"],
        rows,
        is_stacked=True,
    )


def _scaling_rows(combinations: Sequence[Combination]) -> list[list[TableCell | str]]:
    """Return a row for each number of nodes of otherwise equal runs; no rows for a single number."""
    by_count = {_count(each): each for each in sorted(combinations, key=_count)}
    if len(by_count) < 2:
        return []
    fewest, base = next(iter(by_count.items()))
    rows: list[list[TableCell | str]] = []
    for count, each in by_count.items():
        times = statistics.median(each.values) / statistics.median(base.values)
        rows.append(
            [
                f"{each.newest.backend} {each.newest.precision_and_transform}, {each.scenario}",
                number_of(count),
                quantity(statistics.median(each.values), each.unit),
                f"{three_digits(times)} \N{MULTIPLICATION SIGN}",
                f"{times * fewest / count:.1%}",
            ]
        )
    return rows


def _count(combination: Combination) -> int:
    return len(combination.newest.nodes) or 1
