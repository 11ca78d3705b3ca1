"""``mlbench submit build`` of runs on a Ray cluster: nodes make a system of as many.

The records are of real runs on a local cluster of two nodes, altered to ones of the official setup.
"""

import json

import pytest
from stored_runs import official, official_on_nodes, store
from tree_building import build, change, refused, run_of
from whole_tree import SYSTEM, write

from mlbench.submission.system_fields import NETWORK_FIELDS

CLOSED = ("--category", "datacenter")


@pytest.fixture
def place(tmp_path, unverified):
    runs = [official_on_nodes(scenario, kind="cluster") for scenario in ("Server", "Offline")]
    for run in runs:
        store(tmp_path / "results", run)
    cpu = runs[0].cluster.nodes[0].node.environment.cpu.model
    described = {"system_name": "anvil", "number_of_nodes": "2", "host_processor_model_name": cpu}
    write(tmp_path / "system.json", json.dumps(SYSTEM | described | {"submitter": "Acme"}))
    return tmp_path


def test_runs_on_a_cluster_make_entries_of_a_system_of_as_many_nodes(place):
    done = build(place, *CLOSED)
    assert done.exit_code == 0, done.output
    fields = json.loads((place / "tree/closed/Acme/systems/anvil.json").read_text())
    assert (fields["number_of_nodes"], "is_network" in fields) == ("2", False)


def test_another_number_of_nodes_than_described_is_refused(place):
    change(place / "system.json", number_of_nodes="1")
    assert refused(place, build(place, *CLOSED), "number_of_nodes of the system is '1', and run ")


def test_runs_on_different_numbers_of_nodes_are_refused(place):
    folder = run_of(place)
    alone = official("Offline", cluster=None, environment=official_on_nodes("Offline", kind="cluster").environment)
    write(folder / "record.json", alone.model_copy(update={"run_id": folder.name}).text())
    assert refused(place, build(place, *CLOSED), "were made on 2 and 1 nodes.")


def test_a_compliance_test_that_was_not_made_on_the_nodes_is_refused(place):
    (file,) = place.glob("results/.audits/*-Offline-*/*TEST04/record.json")
    change(file, cluster=None)
    assert refused(place, build(place, *CLOSED), f"TEST04 of run {run_of(place).name} was made on other machines")


def test_a_node_that_is_not_the_described_machine_is_refused_by_its_name(place):
    for file in place.glob("results/*/record.json"):
        cluster = json.loads(file.read_text())["cluster"]
        environment = cluster["nodes"][1]["node"]["environment"]
        environment["cpu"]["model"] = "Another CPU"
        change(file, cluster=cluster)
    assert refused(place, build(place, *CLOSED), "and node node-")


def test_runs_on_a_cluster_do_not_travel_over_a_network(place):
    done = build(place, run_of(place).name, *CLOSED, "--division", "open")
    assert done.exit_code == 0, done.output
    change(place / "system.json", is_network="true", **dict.fromkeys(NETWORK_FIELDS, "x"))
    done = build(place, run_of(place).name, *CLOSED, "--division", "network", "-o", place / "other")
    assert (done.exit_code, (place / "other").exists()) == (2, False)
    assert "its samples did not travel over a network" in " ".join(done.output.split())
