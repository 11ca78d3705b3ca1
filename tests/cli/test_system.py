"""``mlbench system describe``."""

import json

import pytest
from invoking import invoke

OWN = {"division": "closed", "submitter": "Acme", "status": "available", "system_type": "edge", "system_name": "anvil"}
OWN |= {"host_memory_configuration": "DDR5", "host_networking": "10 GbE", "host_networking_topology": "N/A"}
OWN |= {"host_storage_capacity": "1 TB", "host_storage_type": "SSD", "host_network_card_count": 1, "cooling": "air"}
OWN |= {"host_processors_per_node": 1, "host_processor_core_count": 2, "framework": "ONNX Runtime 1.31"}


def describe(*words):
    return invoke("system", "describe", *words)


def test_the_description_goes_to_stdout_and_what_is_left_to_stderr():
    done = describe()
    assert done.exit_code == 1
    fields = json.loads(done.stdout)
    assert fields["cooling"] == ""
    assert "fields: division, submitter, status" in " ".join(done.stderr.split())


def test_own_fields_replace_those_found_and_the_last_file_counts(tmp_path):
    (tmp_path / "own.json").write_text(json.dumps(OWN))
    (tmp_path / "late.json").write_text('{"cooling": "water", "hw_notes": "two fans"}')
    done = describe("--from", tmp_path / "own.json", "--from", tmp_path / "late.json", "-o", tmp_path / "system.json")
    fields = json.loads((tmp_path / "system.json").read_text())
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert (fields["cooling"], fields["hw_notes"], fields["submitter"]) == ("water", "two fans", "Acme")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "own.json"),
        ("{", "own.json"),
        ('{"cooling": null}', "cooling is null. Write it as text in quotes."),
        ('{"system_name": 7}', "system_name is 7. Write it as text in quotes."),
    ],
)
def test_fields_that_no_checker_could_read_are_refused_in_one_line(tmp_path, text, problem):
    (tmp_path / "own.json").write_text(text)
    done = describe("--from", tmp_path / "own.json", "-o", tmp_path / "system.json")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert problem in done.stderr
    assert not (tmp_path / "system.json").exists()


NETWORK = {"network_type": "Ethernet", "network_media": "copper", "network_rate": "100 Gbit/s", "nic_loadgen": "X"}
NETWORK |= {"number_nic_loadgen": "1", "number_connections": "2", "nic_sut": "X", "number_nic_sut": "1"}
NETWORK |= {"network_topology": "one switch", "division": "network", "system_type": "datacenter"}


def test_a_system_of_the_network_division_has_thirteen_fields_more_and_all_must_be_filled(tmp_path):
    plain, found = (json.loads(describe(*words).stdout) for words in ((), ("--network",)))
    assert len(found.keys() - plain.keys()) == 13
    assert (found["is_network"], found["network_protocol"], found["network_media"]) == ("true", "TCP", "")
    assert (plain["system_type"], found["system_type"]) == ("", "datacenter")  # the only ones with that division
    (tmp_path / "own.json").write_text(json.dumps(OWN))
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    assert describe("--network", "--from", tmp_path / "own.json").exit_code == 1
    assert describe("--network", "--from", tmp_path / "own.json", "--from", tmp_path / "network.json").exit_code == 0
