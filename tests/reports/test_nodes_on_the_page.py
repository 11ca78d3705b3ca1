"""A run's page: the nodes that answered it, what was not measured, and no line without a value."""

import pytest

from mlbench.records.node_record import NetworkRecord
from mlbench.reports.page import page
from mlbench.wire.engine_statistics import statistics_to_json


@pytest.fixture
def lines_of(a_run):
    """Return the lines about a run's nodes."""

    def lines_of(*nodes):
        network = NetworkRecord(connections=2, is_encrypted=False, nodes=list(nodes))
        lines = page(a_run(network=network.model_dump())).splitlines()
        return [line.strip() for line in lines if line.startswith("  node ")]

    return lines_of


def test_a_node_is_shown_with_what_it_did_and_how_long_samples_were_on_their_way(lines_of, reached):
    """Ten samples in two seconds, one of them idle for a quarter; nine seconds in flight are 900 ms for each."""
    (line,) = lines_of(reached())
    assert line.startswith("node north")
    assert "10.0.0.1:7100, round trip 120 us, 10 samples, busy 75.0% of the time" in line
    assert line.endswith("900 ms from sending to the answer")


def test_a_node_that_was_lost_says_how(lines_of, reached):
    (line,) = lines_of(reached(ended="it was silent for 4 s"))
    assert line.endswith("lost: it was silent for 4 s")


def test_a_node_that_answered_nothing_has_no_mean(lines_of, reached):
    (line,) = lines_of(reached(samples=0, elapsed_ns=0, in_flight_ns=0))
    assert line.endswith("0 samples")


def test_each_node_has_a_line(lines_of, reached, node):
    names = [line.split()[1] for line in lines_of(reached(), reached(of=node(name="south")))]
    assert names == ["north", "south"]


def test_what_several_things_lack_is_said_once(a_run):
    text = page(a_run(not_measured={"work": "run it once", "roofline": "run it once", "energy": "no meter"}))
    assert text.count("run it once") == 1
    assert "work, roofline         not measured: run it once" in text
    assert "energy                 not measured: no meter" in text


def test_what_an_engine_did_not_count_has_no_line(a_run):
    counted = statistics_to_json(a_run().engine)
    assert "sweep_samples_per_s" in page(a_run())
    assert "sweep_samples_per_s" not in page(a_run(engine={**counted, "sweep_samples_per_s": {}}))
