"""The nodes in a record: what is refused, what survives storing, and what a comparison makes of them."""

import json
from dataclasses import asdict

import pytest
from pydantic import ValidationError

from mlbench.comparison.comparability import differences
from mlbench.records.facts import CONDITIONS
from mlbench.records.job_spec import NetworkSpec
from mlbench.records.node_record import ClusterRecord, NetworkRecord
from mlbench.records.run_record import RunRecord


@pytest.fixture
def network_run(a_run, reached):
    """Return a run over some nodes."""

    def network_run(*nodes, is_encrypted=False):
        network = NetworkRecord(connections=2, is_encrypted=is_encrypted, nodes=list(nodes) or [reached()])
        return a_run(network=network.model_dump())

    return network_run


@pytest.mark.parametrize("name", ["", "two words", "a/b", "north\n", "x" * 81])
def test_the_name_of_a_node_is_a_word(node, name):
    with pytest.raises(ValidationError, match="name"):
        node(name=name)


@pytest.mark.parametrize("name", ["north", "rack-3.node_7", "10.0.0.1:7100", "a+b"])
def test_hosts_and_addresses_are_names_of_nodes(node, name):
    assert node(name=name).name == name


@pytest.mark.parametrize("field", ["samples", "round_trip_ns", "elapsed_ns", "occupied_ns", "in_flight_ns"])
def test_no_count_is_larger_than_a_database_holds(reached, field):
    with pytest.raises(ValidationError, match=field):
        reached(**{field: 2**63})


def test_a_field_that_nobody_knows_is_refused(node):
    with pytest.raises(ValidationError, match="colour"):
        node(colour="red")


def test_a_stored_run_has_its_nodes_again_when_it_is_read(network_run, reached, node):
    run = network_run(reached(), reached(of=node(name="south"), address="10.0.0.2:7100", ended="it was silent for 4 s"))
    again = RunRecord.model_validate_json(run.text())
    assert again == run
    assert [each.node.name for each in again.network.nodes] == ["north", "south"]
    assert again.network.nodes[1].ended == "it was silent for 4 s"
    assert again.network.nodes[0].node.settings == {"backend.threads": 2}


def test_a_record_without_nodes_says_so(a_run):
    assert json.loads(a_run().text())["network"] is None
    assert CONDITIONS["nodes"](a_run()) == "none"


def test_nodes_are_compared_by_how_many_machines_of_which_kind_they_are(network_run, reached, node, environment):
    here = environment.machine
    other = node(name="south", environment=environment.model_copy(update={"machine": "0123456789ab"}))
    assert CONDITIONS["nodes"](network_run(reached(), reached(of=node(name="south")))) == f"2 x {here}"
    mixed = CONDITIONS["nodes"](network_run(reached(of=other), reached()))
    assert mixed == ", ".join(sorted(["1 x 0123456789ab", f"1 x {here}"], key=lambda text: text.split()[-1]))


def test_the_order_of_nodes_is_no_difference_and_encryption_is_one(network_run, reached, node):
    north, south = reached(), reached(of=node(name="south"))
    nodes = CONDITIONS["nodes"]
    assert nodes(network_run(north, south)) == nodes(network_run(south, north))
    assert nodes(network_run(north, is_encrypted=True)) == f"{nodes(network_run(north))}, TLS"


def test_a_run_over_a_network_differs_from_one_without(network_run, a_run):
    assert "nodes" in {each.fact for each in differences(a_run(), network_run())}


def test_the_network_of_a_job_survives_json():
    spec = NetworkSpec(nodes=("a:1", "b:2"), token_file="/secret", certificate="/ca.pem", connections=3)
    assert NetworkSpec(**json.loads(json.dumps(asdict(spec)))) == spec
    assert NetworkSpec(nodes=("a:1",), token_file="/secret").certificate == ""


@pytest.mark.parametrize(
    ("number_format", "said"),
    [(None, "by its name"), ({"stores": "int4", "computes": "fp16"}, "stores int4, computes fp16")],
)
def test_what_a_precision_is_made_of_is_a_fact_where_the_backend_says_it(a_run, number_format, said):
    assert CONDITIONS["number_format"](a_run(number_format=number_format)) == said


def test_a_run_on_nodes_of_a_cluster_differs_from_one_over_a_network_and_from_one_without(network_run, reached, a_run):
    cluster = ClusterRecord(address="auto", ray_version="2.60.0", nodes=[reached()])
    on_nodes = a_run(cluster=cluster.model_dump(mode="json"))
    assert RunRecord.model_validate_json(on_nodes.text()).nodes == [reached()]
    assert "nodes" in {each.fact for each in differences(a_run(), on_nodes)}
    assert "nodes" in {each.fact for each in differences(network_run(reached()), on_nodes)}
