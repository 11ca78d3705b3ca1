"""Systems of a tree, and what the official checker says of their descriptions, networks and power meters.

The names of fields are those of `whole_tree`, written from the description of the tree.
"""

import shutil

import pytest
from tree_changes import VISION, describe, edit, lost, remove, rules
from whole_tree import NETWORK, SYSTEM, WholeTree, write

from mlbench.submission.checking.whole_tree import check_tree

CHANGES = [
    ("system_description", 3, 3, lambda t: remove(t.submitter / "systems/fixture_edge.json")),
    ("system_description", 3, 7, lambda t: write(t.submitter / "systems/fixture_edge.json", "{")),
    ("system_status", 3, 3, lambda t: describe(t, status="research")),
    ("system_status", 3, 7, lambda t: describe(t, status=None)),
    ("system_type", 3, 3, lambda t: describe(t, system_type="Edge")),
    ("system_fields", 3, 3, lambda t: describe(t, hw_notes=...)),
    ("system_empty_fields", 3, 3, lambda t: describe(t, accelerators_per_node=0)),
    ("system_empty_fields", 3, 3, lambda t: describe(t, cooling="")),
    ("system_submitter", 3, 3, lambda t: describe(t, submitter="Other")),
    ("system_division", 3, 3, lambda t: describe(t, division="open")),
    ("system_network", 3, 3, lambda t: describe(t, is_network="true")),
    ("system_network", 3, 7, lambda t: describe(t, is_network=True)),
    ("system_texts", 3, 7, lambda t: describe(t, sw_notes=None)),
    ("system_texts", 3, 7, lambda t: describe(t, framework=2.1)),
]


@pytest.mark.parametrize(("rule", "refused", "officially", "change"), CHANGES)
def test_each_change_of_a_description_has_its_finding_and_its_cost(tree, rule, refused, officially, change):
    change(tree)
    check = check_tree(tree.root)
    assert rule in rules(check)
    assert lost(check) == (refused, officially)


FREE = (
    *("system_type_detail", "host_processor_frequency", "host_processor_caches", "host_processor_interconnect"),
    *("accelerator_frequency", "accelerator_interconnect_topology", "accelerator_on-chip_memories"),
    *("hw_notes", "sw_notes"),
)
FIELDS = [*SYSTEM, "division", "system_type"]
TEXTS = "hw_notes sw_notes system_name host_processor_model_name accelerator_model_name framework operating_system"


@pytest.fixture
def small(tmp_path):
    """Return a tree of one result: an open system for the edge."""
    return WholeTree(tmp_path / "small", "open").add("fixture_edge", "edge", {"resnet50": ("Offline",)})


def findings(tree):
    return {(each.rule, each.official) for each in check_tree(tree.root).findings if not each.is_note}


@pytest.mark.thorough("submission", but=FIELDS[:1])
@pytest.mark.parametrize("name", FIELDS)
def test_each_of_the_35_fields_must_be_there(small, name):
    assert len(FIELDS) == 35
    describe(small, **{name: ...})
    (finding,) = (each for each in check_tree(small.root).findings if each.rule == "system_fields")
    assert name in finding.message


@pytest.mark.thorough("submission", but=["division"])
@pytest.mark.parametrize("name", [each for each in FIELDS if each not in FREE])
def test_each_of_26_fields_must_say_something(small, name):
    for nothing in ("", 0, False, None):
        describe(small, **{name: nothing})
        found = [each for each in check_tree(small.root).findings if each.rule == "system_empty_fields"]
        assert [name in each.message for each in found] == [True], nothing


def test_the_other_nine_may_be_empty(small):
    describe(small, **dict.fromkeys(FREE, ""))
    assert findings(small) == set()


@pytest.mark.thorough("submission", but=TEXTS.split()[:1])
@pytest.mark.parametrize("name", TEXTS.split())
def test_the_official_checker_crashes_over_a_number_in_seven_of_them(small, name):
    describe(small, **{name: 2})
    assert ("system_texts", "crashes") in findings(small)


@pytest.mark.parametrize("status", ["available", "Preview", "RDI"])
def test_a_status_may_be_in_capitals(small, status):
    describe(small, status=status)
    assert findings(small) == set()


@pytest.mark.parametrize("system_type", ["edge", "datacenter", "datacenter,edge", "edge,datacenter"])
def test_a_system_has_one_or_both_categories(small, system_type):
    describe(small, system_type=system_type)
    assert findings(small) == set()
    describe(small, system_type=system_type.upper())
    assert ("system_type", "refuses") in findings(small)


POWER = (
    "power_management filesystem boot_firmware_version management_firmware_version other_hardware "
    "number_of_type_nics_installed nics_enabled_firmware nics_enabled_os nics_enabled_connected network_speed_mbit "
    "power_supply_quantity_and_rating_watts power_supply_details disk_drives disk_controllers"
)


def test_fields_about_power_are_known(small):
    describe(small, **dict.fromkeys(POWER.split(), "x"))
    assert check_tree(small.root).findings == []


def test_a_network_system_is_reached_by_a_sut_of_that_name(tmp_path):
    tree = WholeTree(tmp_path, "network").add("fixture_edge", "datacenter", {"resnet50": ("Server", "Offline")})
    assert rules(check_tree(tmp_path)) == {"system_network"}
    describe(tree, is_network="True")
    (finding,) = (each for each in check_tree(tmp_path).findings if not each.is_note)
    assert finding.rule == "system_fields"
    assert all(name in finding.message for name in NETWORK)
    describe(tree, **dict.fromkeys(NETWORK, ""))
    assert rules(check_tree(tmp_path)) == set()
    tree.log(*VISION, sut_name="SUT")
    assert rules(check_tree(tmp_path)) == {"sut_name"}


@pytest.fixture
def reached(tmp_path):
    """Return a tree of two results of a system over a network."""
    tree = WholeTree(tmp_path, "network").add("fixture_edge", "datacenter", {"resnet50": ("Server", "Offline")})
    describe(tree, is_network="true", **dict.fromkeys(NETWORK, "x"))
    return tree


@pytest.mark.thorough("submission", but=["network_type"])
@pytest.mark.parametrize("name", NETWORK)
def test_a_network_system_has_each_of_twelve_fields_more(reached, name):
    assert rules(check_tree(reached.root)) == set()
    describe(reached, **{name: ...})
    (finding,) = (each for each in check_tree(reached.root).findings if not each.is_note)
    assert (finding.rule, name in finding.message) == ("system_fields", True)


@pytest.mark.parametrize("said", ["true", "false", ...])
def test_an_open_system_may_be_reached_over_a_network_or_not(small, said):
    describe(small, system_type="datacenter", is_network=said, **dict.fromkeys(NETWORK, "x"))
    assert findings(small) == set()


def test_the_checkers_slip_about_mixtral_of_both_categories_is_a_note_that_costs_officially(tmp_path):
    WholeTree(tmp_path).add("both", "datacenter,edge", {"mixtral-8x7b": ("Server", "Offline")})
    check = check_tree(tmp_path)
    assert lost(check) == (0, 2)
    assert [each.rule for each in check.findings] == ["required_scenarios"]


def test_a_system_of_both_categories_needs_the_scenarios_of_both(tmp_path):
    WholeTree(tmp_path).add("both", "datacenter,edge", {"bert-99": ("Server", "Offline")})
    (finding,) = check_tree(tmp_path).findings
    assert (finding.rule, finding.message) == ("required_scenarios", "lacks the required SingleStream.")


def metered(tree):
    performance = tree.result(*VISION) / "performance"
    for name in ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"):
        write(performance / "power" / name, "x")
    reading = "Time,07-20-2024 12:05:00.000,Watts,100.0,Volts,230\n"
    shutil.copytree(performance / "run_1", performance / "ranging")
    for folder in ("run_1", "ranging"):
        write(performance / folder / "spl.txt", reading)
    write(tree.submitter / "measurements/fixture_edge/analyzer_table.md", "x")
    write(tree.measurements(*VISION) / "power_settings.md", "x")
    return performance


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (None, lambda t, p: None),
        ("power_files", lambda t, p: remove(p / "power/server.log")),
        ("ranging_files", lambda t, p: remove(p / "ranging/spl.txt")),
        ("performance_files", lambda t, p: remove(p / "run_1/spl.txt")),
        ("power_readings", lambda t, p: edit(p / "run_1/spl.txt", "12:05", "13:05")),
        ("meter_files", lambda t, p: remove(t.measurements(*VISION) / "power_settings.md")),
    ],
)
def test_a_result_with_power_needs_the_meters_files(tree, rule, change):
    change(tree, metered(tree))
    check = check_tree(tree.root)
    assert (rule in rules(check)) is (rule is not None)
    assert lost(check) == ((1, 1) if rule else (0, 0))
