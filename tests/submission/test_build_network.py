"""``mlbench submit build --division network``: a tree from runs whose samples travelled.

The records are of real runs over loopback, altered to ones of the official setup on machines apart; see `stored_runs`.
"""

import json
import shutil
from pathlib import Path

import pytest
from invoking import invoke
from stored_runs import DETAIL, official, official_on_nodes, store
from tree_building import build as build_tree
from tree_building import change, files_of, refused, trust_logs
from whole_tree import SYSTEM, WholeTree, detail_of, write

from mlbench.submission.checking.whole_tree import check_tree

BY_HAND = {"network_type": "Ethernet", "network_media": "copper", "network_rate": "100 Gbit/s"}
BY_HAND |= {"nic_loadgen": "X7", "number_nic_loadgen": "1", "nic_sut": "X7", "number_nic_sut": "1"}
BY_HAND |= {"network_topology": "one switch"}
"""What no run records."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return a folder with the runs of ResNet-50 and BERT over a network, their tests, and the system's description."""
    folder = tmp_path_factory.mktemp("stored")
    runs = [official_on_nodes(scenario, name) for name in ("resnet50", "bert") for scenario in ("Server", "Offline")]
    for run in runs:
        store(folder / "results", run)
    cpu = runs[0].network.nodes[0].node.environment.cpu.model
    described = {"system_name": "anvil", "number_of_nodes": "2", "host_processor_model_name": cpu, "submitter": ""}
    write(folder / "system.json", json.dumps(SYSTEM | described | BY_HAND))
    return folder


@pytest.fixture
def place(stored, tmp_path, unverified):
    """Return a copy that may be changed."""
    return Path(shutil.copytree(stored, tmp_path / "place"))


def build(place, *words):
    """Build a tree of the network division, or what else is said."""
    division = [] if "--division" in words else ["--division", "network"]
    return build_tree(place, "--category", "datacenter", *division, *words)


def of(place, workload, scenario="Offline"):
    """Return the folder of a workload's run."""
    (folder,) = (place / "results").glob(f"*-{workload}-*-{scenario}-*")
    return folder


def test_runs_over_a_network_make_a_tree_that_is_accepted(place):
    done = build(place)
    assert done.exit_code == 0, done.output
    results = place / "tree/network/Acme/results/anvil"
    models = dict.fromkeys(("resnet50", "bert-99", "bert-99.9"), ("Server", "Offline"))
    described = WholeTree(place / "described", "network").add("anvil", "datacenter", models)
    described.submitter.rename(described.submitter.with_name("Acme"))
    assert files_of(place / "tree", "anvil") == files_of(described.root, "anvil")
    checked = check_tree(place / "tree")
    assert (checked.accepted, checked.accepted_officially) == (6, 6)
    log = (results / "resnet50/Offline/performance/run_1" / DETAIL).read_text()
    assert '"sut_name", "value": "Network SUT: north, south"' in log


def test_what_runs_recorded_fills_the_description_and_what_a_person_wrote_stays(place):
    change(place / "system.json", network_protocol="TCP over a tunnel")
    assert build(place).exit_code == 0
    fields = json.loads((place / "tree/network/Acme/systems/anvil.json").read_text())
    assert (fields["division"], fields["system_type"], fields["is_network"]) == ("network", "datacenter", "true")
    assert (fields["network_protocol"], fields["number_connections"]) == ("TCP over a tunnel", "4")  # two to each node
    assert fields["net_software_stack_loadgen"].endswith("LoadGen's QDL over TCP")
    kernel = official_on_nodes("Offline").network.nodes[0].node.environment.kernel
    assert fields["net_software_stack_sut"].endswith(f"over TCP of {kernel}")
    assert {name: fields[name] for name in BY_HAND} == BY_HAND


@pytest.mark.parametrize("name", BY_HAND)
def test_a_field_that_no_run_records_is_named_for_a_person(place, name):
    change(place / "system.json", **{name: ""})
    assert refused(place, build(place), f"fields are missing or empty: {name}. `mlbench system describe`")


def test_the_readme_has_the_commands_of_nodes_and_client_and_the_code_has_the_dispatch_library(place):
    assert build(place).exit_code == 0
    submitter = place / "tree/network/Acme"
    lines = (submitter / "measurements/anvil/resnet50/Offline/README.md").read_text().splitlines()
    served = "mlbench serve resnet50 --backend onnxruntime --profile mini --weights trained --listen"
    assert f"{served} 10.0.0.2:4210 --name north" in lines
    assert f"{served} 10.0.0.3:4210 --name south" in lines
    nodes = "--network 10.0.0.2:4210 --network 10.0.0.3:4210 --connections 2"
    run = f"mlbench run resnet50 --backend onnxruntime --scenario Offline {nodes} "
    assert any(line.startswith(run) and "--division network" in line for line in lines)
    assert f"mlbench audit {of(place, 'resnet50').name} --test TEST04 {nodes}" in lines
    assert any(line.startswith("- node `south` at 10.0.0.3:4210: ") for line in lines)
    assert (submitter / "code/mlbench/mlbench/cluster/network_engine.py").is_file()
    assert (submitter / "code/mlbench/mlbench/loadgen/network.py").is_file()


def test_a_run_over_a_network_serves_an_open_system_that_is_reached_over_one_and_no_other(place):
    one = of(place, "resnet50").name
    assert refused(place, build(place, one, "--division", "open"), "its samples travelled over a network")
    assert refused(place, build(place, one, "--division", "closed"), "its samples travelled over a network")
    change(place / "system.json", is_network="True")
    assert refused(place, build(place, one, "--division", "closed"), "the closed division has no such system")
    done = build(place, one, "--division", "open")
    assert done.exit_code == 0, done.output
    assert check_tree(place / "tree").accepted == 1


def test_a_run_without_a_network_is_refused_beside_others_over_one(place):
    folder = store(place / "results", official("Offline"))
    done = build(place, folder.name, of(place, "resnet50", "Server").name)
    assert refused(place, done, f"run {folder.name}: its samples did not travel over a network")


def test_a_run_for_the_open_division_is_refused_in_network(place):
    folder = of(place, "resnet50")
    record = json.loads((folder / "record.json").read_text())
    change(folder / "record.json", entry=record["entry"] | {"division": "open"})
    assert refused(place, build(place, folder.name), "made for the open division")


def test_the_network_division_wants_all_scenarios_and_all_tests(place):
    (test,) = (place / "results/.audits" / of(place, "bert").name).glob("*TEST05")
    shutil.rmtree(test)
    assert refused(place, build(place), f"mlbench audit {of(place, 'bert').name} --test TEST05 --network HOST...")
    shutil.rmtree(of(place, "resnet50", "Server"))
    assert refused(place, build(place), "resnet50 lacks scenarios that its category requires: Server (no run)")


def alter_nodes(file, alter, **changes):
    """Change what a record says of its network, and of each of its nodes."""
    network = json.loads(file.read_text())["network"]
    change(file, network=network | changes | {"nodes": [alter(each) for each in network["nodes"]]})


def renamed(each):
    return each | {"node": each["node"] | {"name": f"{each['node']['name']}-2"}}


def on_one_machine(each):
    return each | {"address": f"10.0.0.2:{4210 + ord(each['node']['name'][0])}"}


def with_environment(**changes):
    """Return what alters the node south."""

    def alter(each):
        node = each["node"]
        return (
            each if node["name"] == "north" else each | {"node": node | {"environment": node["environment"] | changes}}
        )

    return alter


@pytest.mark.parametrize(
    ("alter", "changes", "reason"),
    [
        (renamed, {}, "were answered by nodes north, south and by nodes north-2, south-2."),
        (on_one_machine, {}, "were made on 2 and 1 nodes."),
        (with_environment(machine="another"), {}, "were made on different machines."),
        (dict, {"connections": 4}, "2 connections to a node without TLS and over 4 connections to a node without TLS."),
        (dict, {"is_encrypted": True}, "to a node without TLS and over 2 connections to a node with TLS."),
    ],
    ids=["names", "number", "machine", "connections", "encryption"],
)
def test_runs_by_different_nodes_or_another_way_to_them_are_no_system(place, alter, changes, reason):
    alter_nodes(of(place, "bert") / "record.json", alter, **changes)
    assert refused(place, build(place), reason)


@pytest.mark.parametrize("address", ["127.0.0.1:4210", "localhost:4210", "[::1]:4210"])
def test_a_node_on_the_machine_of_loadgen_is_refused(place, address):
    for file in place.glob("results/*/record.json"):
        alter_nodes(file, lambda each: each | ({"address": address} if each["node"]["name"] == "south" else {}))
    assert refused(place, build(place), f"answered at {address}, on LoadGen's own machine.")


def test_each_node_must_be_the_described_machine(place):
    cpu = official_on_nodes("Offline").environment.cpu.model_dump(mode="json")
    for file in place.glob("results/*/record.json"):
        alter_nodes(file, with_environment(cpu=cpu | {"model": "Another CPU"}))
    assert refused(place, build(place), "and node south of run ")


def test_the_client_need_not_be_the_described_machine(place):
    for file in place.glob("results/**/record.json"):
        environment = json.loads(file.read_text())["environment"]
        change(file, environment=environment | {"machine": "c", "cpu": environment["cpu"] | {"model": "Client CPU"}})
    assert build(place).exit_code == 0


def test_a_compliance_test_by_other_nodes_or_none_is_refused(place):
    run = of(place, "resnet50")
    (file,) = (place / "results/.audits" / run.name).glob("*TEST04/record.json")
    alter_nodes(file, renamed)
    assert refused(
        place, build(place), f"TEST04 of run {run.name} was answered by nodes north-2, south-2, and the run by"
    )
    change(file, network=None)
    assert refused(place, build(place), f"TEST04 of run {run.name} was answered by LoadGen's own machine, and the run")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"number_of_nodes": "3"}, "number_of_nodes of the system is '3', and run"),
        ({"is_network": "false"}, "is_network is 'false', but 'true' is requested"),
        ({"is_network": True}, "is_network is true"),
        ({"division": "closed"}, "division is 'closed', but 'network' is requested"),
        ({"system_type": "edge"}, "system_type is 'edge', but 'datacenter' is requested"),
        ({"nic_sut": None}, "fields are missing or empty: nic_sut"),
        ({"nic_sut": ["X7"]}, 'nic_sut is ["X7"]'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_description_that_would_not_pass_is_refused(place, changes, reason):
    change(place / "system.json", **changes)
    assert refused(place, build(place), reason)


def test_only_datacenters_have_a_network_division(place):
    done = build_tree(place, "--category", "edge", "--division", "network")
    assert refused(place, done, "system_type is 'edge', and a system over a network is for a datacenter.")


def test_without_a_category_it_is_that_of_the_division(place):
    given = ["--submitter", "Acme", "--system", place / "system.json", "--results", place / "results"]
    words = [*given, "--division", "network", "-o", place / "tree"]
    assert invoke("submit", "build", *words).exit_code == 0


ENTRY = "network/Acme/results/anvil/resnet50/Offline"
TEST = "network/Acme/compliance/anvil/resnet50/Offline/TEST01"
TREE_CHANGES = [
    ("sut_name", 1, 1, lambda t: write(t / ENTRY / "performance/run_1" / DETAIL, detail_of(*CELL, sut_name="SUT"))),
    ("sut_name", 1, 0, lambda t: write(t / ENTRY / "accuracy" / DETAIL, accuracy_of(sut_name="SUT"))),
    ("sut_name", 1, 1, lambda t: write(t / TEST / "performance/run_1" / DETAIL, detail_of(*CELL, sut_name="SUT"))),
    ("system_network", 6, 6, lambda t: describe(t, is_network="false")),
    ("system_network", 6, 6, lambda t: describe(t, is_network=...)),
    ("system_network", 6, 6, lambda t: describe(t, is_network=True)),
    ("system_fields", 6, 6, lambda t: describe(t, number_connections=...)),
    ("system_division", 6, 6, lambda t: describe(t, division="closed")),
    ("network_category", 6, 4, lambda t: describe(t, system_type="datacenter,edge")),
    ("compliance_tests", 1, 1, lambda t: shutil.rmtree(t / TEST)),
    ("required_scenarios", 1, 1, lambda t: shutil.rmtree(t / ENTRY)),
    ("accuracy.acc@99", 1, 1, lambda t: write(t / ENTRY / "accuracy/accuracy.txt", "accuracy=70.0%\n")),
]
CELL = ("resnet50", "Offline")


def accuracy_of(**changes):
    return detail_of(*CELL, effective_test_mode="AccuracyOnly", **changes)


def describe(tree, **fields):
    """Change fields of the description; ... removes one."""
    file = tree / "network/Acme/systems/anvil.json"
    found = json.loads(file.read_text()) | fields
    file.write_text(json.dumps({name: value for name, value in found.items() if value != ...}))


@pytest.fixture(scope="module")
def built(stored):
    """Return a tree that was built."""
    with pytest.MonkeyPatch.context() as patch:
        trust_logs(patch, stored.with_name("cache"))
        assert build(stored).exit_code == 0
    return Path(shutil.move(stored / "tree", stored.with_name("built")))


@pytest.mark.thorough("submission", first_of="rule")
@pytest.mark.parametrize(("rule", "refused_here", "officially", "alter"), TREE_CHANGES)
def test_each_change_of_the_built_tree_is_refused(  # noqa: PLR0917 - one per column
    built, tmp_path, rule, refused_here, officially, alter
):
    tree = Path(shutil.copytree(built, tmp_path / "tree"))
    alter(tree)
    checked = check_tree(tree)
    assert rule in {each.rule for each in checked.findings if not each.is_note}
    count = len(checked.entries)
    assert (count - checked.accepted, count - checked.accepted_officially) == (refused_here, officially)
