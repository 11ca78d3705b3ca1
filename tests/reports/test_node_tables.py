"""What a report tells of a run's nodes, and of runs that differ in their number: of stored runs on a Ray cluster."""

import json
from pathlib import Path

import pytest

from mlbench.records.run_record import RunRecord
from mlbench.reports.html.nodes import nodes_table, scaling_table
from mlbench.reports.html.page import html_page
from mlbench.reports.summary import Content, summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")

STORED = Path(__file__).parents[1] / "data" / "records" / "nodes"


@pytest.fixture
def on_two_nodes():
    """Return the stored run of ResNet-50 on two nodes: 14,592 and 12,416 samples in 6.97 s."""
    return RunRecord.model_validate_json((STORED / "resnet50-onnxruntime-Offline-cluster.json").read_text())


@pytest.fixture
def on_one_node(on_two_nodes):
    """Return the same as if one node had answered, at 55 % of the speed."""
    fields = json.loads(on_two_nodes.text())
    fields["run_id"] = "on-one-node"
    fields["settings"]["execution.nodes"]["value"] = 1
    fields["settings"].pop("execution.cluster")
    fields["cluster"]["nodes"] = fields["cluster"]["nodes"][:1]
    fields["result"]["value"] *= 0.55
    return RunRecord.model_validate(fields)


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_a_node_has_its_samples_and_how_long_it_was_busy_and_waited(on_two_nodes):
    """6.716 s of 6.972 s with a sample are 96.3 %, and leave 256 ms; 14,592 of 27,008 samples are 54.0 %."""
    first, second = nodes_table(on_two_nodes).rows
    assert [cell.text for cell in first[:4]] == ["node-1aeed701", "14,592", "96.3%", "256 ms"]
    assert first[1].detail == "54.0%"
    assert [cell.text for cell in second[:4]] == ["node-c20b9a65", "12,416", "96.2%", "268 ms"]


def test_a_lost_node_is_named_as_lost(on_two_nodes):
    one, other = on_two_nodes.cluster.nodes
    nodes = [one, other.model_copy(update={"ended": "it was silent for 4 s"})]
    lost = on_two_nodes.model_copy(update={"cluster": on_two_nodes.cluster.model_copy(update={"nodes": nodes})})
    cell = nodes_table(lost).rows[1][1]
    assert (cell.text, cell.detail, cell.tone) == ("lost", "it was silent for 4 s", "bad")


def test_a_run_on_this_machine_alone_has_no_nodes(a_run):
    assert nodes_table(a_run()) is None


def test_more_nodes_are_held_against_as_many_times_the_fewest(on_one_node, on_two_nodes):
    """1 / 0.55 is 1.82 times as fast, 90.9 % of twice."""
    table = scaling_table(summarise({"": [on_two_nodes, on_one_node]}).combinations)
    assert texts(table) == [
        ["onnxruntime fp32, Offline", "1", "2,210 samples/s", "1.00 ×", "100.0%"],
        ["onnxruntime fp32, Offline", "2", "4,018 samples/s", "1.82 ×", "90.9%"],
    ]


def test_runs_that_differ_in_more_than_their_nodes_are_not_held_against_each_other(on_one_node, on_two_nodes):
    other = on_one_node.model_copy(update={"precision": "bf16"})
    assert scaling_table(summarise({"": [on_two_nodes, other]}).combinations) is None
    assert scaling_table(summarise({"": [on_two_nodes]}).combinations) is None


def test_the_page_shows_both(on_one_node, on_two_nodes):
    page = html_page(Content(title="nodes", summary=summarise({"": [on_two_nodes, on_one_node]})))
    assert "node-1aeed701" in page and "Share of linear" in page
