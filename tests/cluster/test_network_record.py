"""What a record keeps of nodes, and who reads it."""

import networked
import pytest

from mlbench.comparison.comparability import differences
from mlbench.records.node_record import NetworkRecord, ReachedNodeRecord
from mlbench.records.run_record import RunRecord
from mlbench.reports.page import page


@pytest.fixture
def over_network(a_run, environment):
    """Return a run that one node answered."""
    node = ReachedNodeRecord(
        address="10.0.0.2:4210",
        round_trip_ns=123_000,
        node=networked.facts(environment, "north"),
        ended="",
        samples=2000,
        elapsed_ns=4_000_000_000,
        occupied_ns=1_000_000_000,
        in_flight_ns=6_000_000_000,
    )
    network = NetworkRecord(connections=2, is_encrypted=True, nodes=[node])
    return a_run(network=network.model_dump(mode="json"))


def test_a_record_with_nodes_is_read_as_it_was_written(over_network):
    assert RunRecord.model_validate_json(over_network.text()) == over_network


def test_a_page_says_what_each_node_did(over_network):
    [line] = [line for line in page(over_network).split("\n") if line.startswith("  node north")]
    assert "10.0.0.2:4210, round trip 123 us, 2,000 samples, busy 25.0% of the time" in line
    assert line.endswith("3.00 ms from sending to the answer")


def test_a_run_over_a_network_is_no_repeat_of_one_without(over_network, a_run):
    assert [each.fact for each in differences(a_run(), over_network)] == ["nodes"]
    assert "TLS" in differences(a_run(), over_network)[0].new
