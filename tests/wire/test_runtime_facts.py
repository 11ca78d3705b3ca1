"""Facts about a runtime on their way into a record and out of it, and those of several instances as one."""

import json
from pathlib import Path

import pytest

from mlbench import RuntimeFacts
from mlbench.records.run_record import RunRecord
from mlbench.wire.runtime_facts import merge_runtimes, runtime_from_json, runtime_to_json

STORED = sorted((Path(__file__).parents[1] / "data" / "records").glob("*.json"))


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_record_that_is_read_and_written_again_has_the_same_runtime(file):
    stored = json.loads(file.read_text())
    assert json.loads(RunRecord.model_validate(stored).text())["runtime"] == stored["runtime"]


def test_what_only_a_backend_knows_stands_beside_the_fields_and_comes_back_as_extra():
    said = RuntimeFacts(device="cpu", devices=2, extra={"threads": 4})
    values = runtime_to_json(said)
    assert values == {"device": "cpu", "devices": 2, "threads": 4}
    assert runtime_from_json(values) == said


def test_what_a_backend_compiled_unasked_is_text():
    said = RuntimeFacts(compiled="prefill, decode")
    assert runtime_to_json(said) == {"compiled": "prefill, decode"}
    assert runtime_from_json({"compiled": "prefill, decode"}) == said
    assert runtime_from_json({"compiled": True}) == RuntimeFacts(extra={"compiled": True})


def test_a_number_of_devices_that_a_backend_cannot_tell_is_null_and_one_it_does_not_say_is_absent():
    assert runtime_to_json(RuntimeFacts(devices="unknown")) == {"devices": None}
    assert runtime_from_json({"devices": None}) == RuntimeFacts(devices="unknown")
    assert runtime_to_json(RuntimeFacts()) == {}
    assert runtime_from_json({}) == RuntimeFacts()


@pytest.mark.parametrize("values", [{"device": 4}, {"device": None}, {"devices": "two"}, {"devices": [1, 2]}], ids=str)
def test_a_value_of_another_form_is_kept_as_it_is(values):
    assert runtime_from_json(values) == RuntimeFacts(extra=values)
    assert runtime_to_json(runtime_from_json(values)) == values


def test_nothing_else_is_taken_for_facts():
    with pytest.raises(TypeError, match="returned a dict, not RuntimeFacts"):
        runtime_to_json({"device": "cpu"})


def test_facts_in_which_instances_differ_are_reported_by_instance():
    def facts(**values):
        return runtime_from_json(values)

    assert merge_runtimes([facts(device="cpu", b=2), facts(device="cpu", b=2)]) == facts(device="cpu", b=2)
    differing = facts(device="cpu", by_instance=[{"b": 2}, {"b": 3}])
    assert merge_runtimes([facts(device="cpu", b=2), facts(device="cpu", b=3)]) == differing
    assert merge_runtimes([]) == RuntimeFacts()
    assert merge_runtimes([facts(a=1), facts()]) == facts(by_instance=[{"a": 1}, {}])
    assert merge_runtimes([facts(device="A"), facts(device="B")]).device is None
