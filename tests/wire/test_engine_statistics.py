"""Statistics on their way into a record and out of it; what is expected comes from a run that was stored."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from mlbench import BatchStatistics, EngineStatistics, GenerationStatistics
from mlbench.contracts.statistics import InstanceStatistics
from mlbench.records.run_record import RunRecord
from mlbench.wire.engine_statistics import statistics_from_json, statistics_to_json

STORED = sorted((Path(__file__).parents[1] / "data" / "records").glob("*.json"))


@pytest.fixture(params=STORED, ids=lambda file: file.stem)
def stored(request):
    return json.loads(request.param.read_text())


def without_kinds(values):
    """Return statistics as the stored runs have them, which are of before these named their kind."""
    instances = [without_kinds(each) for each in values.get("by_instance", [])]
    return {name: value for name, value in values.items() if name != "kind"} | (
        {"by_instance": instances} if instances else {}
    )


def test_a_record_that_is_read_and_written_again_has_the_same_statistics_and_their_kind(stored):
    again = json.loads(RunRecord.model_validate(stored).text())["engine"]
    assert without_kinds(again) == stored["engine"]
    kinds = {"server": "engine", "in_flight": "generation"}
    assert again["kind"] == kinds.get(stored["engine"]["batching"], "batch")
    assert {each["kind"] for each in again.get("by_instance", [])} <= {again["kind"]}


def test_every_count_of_a_stored_run_has_a_field(stored):
    requests = {"answered", "failed", "retried", "served_model"}
    of_the_endpoint = requests | {"prompts_cut_otherwise", "answers_cut_otherwise", "longest_way_ns"}
    own = of_the_endpoint if stored["backend"] == "endpoint" else set()
    assert statistics_from_json(stored["engine"]).extra.keys() <= own


def test_what_only_a_plugin_counts_stands_beside_the_fields_and_comes_back_as_extra():
    said = EngineStatistics(batching="paged", batch=8, extra={"preempted": 3, "blocks": {"free": 12}})
    values = statistics_to_json(said)
    assert values == {"kind": "engine", "batching": "paged", "batch": 8, "preempted": 3, "blocks": {"free": 12}}
    assert statistics_from_json(values) == said


def test_a_plugins_own_name_that_another_kind_has_too_makes_it_no_other_kind():
    own = {
        "new_tokens": 40,
        "padding_samples": 2,
        "samples": 9,
        "kind": "generation",
        "ended": "late",
        "extra": {"a": 1},
    }
    for said in (EngineStatistics(batch=8, extra=own), BatchStatistics(samples=3, extra={**own, "by_instance": []})):
        back = statistics_from_json(json.loads(json.dumps(statistics_to_json(said))))
        assert (type(back), back) == (type(said), said)


def test_statistics_of_an_instance_keep_a_name_that_says_something_of_instances():
    counted = EngineStatistics(extra={"processors": 7, "ended": "no"})
    said = EngineStatistics(instances=1, by_instance=(InstanceStatistics(processors=[0], counted=counted),))
    assert statistics_from_json(json.loads(json.dumps(statistics_to_json(said)))) == said


def test_the_kind_of_an_older_record_is_known_by_any_name_of_its_own():
    assert statistics_from_json({"samples": 90, "padding_samples": 10}).useful_share == 0.9
    assert isinstance(statistics_from_json({"steps_by_size": {"2": 5}}), GenerationStatistics)
    assert type(statistics_from_json({"samples": 90})) is EngineStatistics


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batches_by_size", "many"),
        ("batches_by_size", {"x": 1}),
        ("batches_by_size", {"2": None}),
        ("samples", "12"),
        ("samples", 1.5),
        ("batch", True),
        ("decode", {"steps": "3"}),
        ("by_instance", 4),
        ("by_instance", [{"samples": 3}]),
        ("extra", 5),
    ],
)
def test_a_value_of_another_form_is_kept_and_spoils_no_other(name, value):
    values = {"batching": "fixed", "workers": 2, name: value}
    found = statistics_from_json(values)
    assert (found.batching, found.workers, found.extra) == ("fixed", 2, {name: value})
    assert statistics_from_json(statistics_to_json(found)) == found


def test_instances_say_what_they_counted_or_how_they_ended():
    said = BatchStatistics(
        samples=4,
        instances=2,
        by_instance=(
            InstanceStatistics(processors=[0], counted=BatchStatistics(samples=4, extra={"hits": 1})),
            InstanceStatistics(processors=[1], device="MIG-a", ended="instance 1 of 2 was ended by SIGSEGV"),
            InstanceStatistics(processors=[2], device="1", counted=BatchStatistics(samples=0)),
        ),
    )
    values = json.loads(json.dumps(statistics_to_json(said)))
    assert [each.keys() & {"samples", "hits", "ended"} for each in values["by_instance"]] == [
        {"samples", "hits"},
        {"ended"},
        {"samples"},
    ]
    assert [each.get("device") for each in values["by_instance"]] == [None, "MIG-a", "1"]
    assert statistics_from_json(values) == said


def test_the_useful_share_of_generation_is_of_prompts_and_answers_together(stored):
    found = statistics_from_json(stored["engine"])
    if not isinstance(found, GenerationStatistics):
        pytest.skip("no tokens were generated")
    phases = [stored["engine"][name] for name in ("prefill", "decode")]
    useful, computed = (sum(each[f"{kind}_tokens"] for each in phases) for kind in ("useful", "computed"))
    assert found.useful_share == pytest.approx(useful / computed)


def test_a_name_of_one_kind_is_of_no_other_kind():
    """By such a name the statistics of an older record are known for what they are."""
    common = {each.name for each in fields(EngineStatistics)}
    batches, generation = ({each.name for each in fields(kind)} for kind in (BatchStatistics, GenerationStatistics))
    assert batches & generation == common


def test_the_rounds_of_a_sweep_come_back_with_the_rest():
    said = BatchStatistics(batches_by_size={8: 3}, sweep_samples_per_s={8: 9.5}, sweep_rounds={4: 1, 8: 3})
    assert statistics_from_json(json.loads(json.dumps(statistics_to_json(said)))) == said


def test_nothing_else_is_taken_for_statistics():
    with pytest.raises(TypeError, match="returned a dict, not EngineStatistics"):
        statistics_to_json({"batch": 8})
