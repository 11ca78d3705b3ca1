"""The entry of a submission that a run was made for, as its record has it."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from mlbench.cli import main
from mlbench.comparison.comparability import differences
from mlbench.planning.repeats import request_of
from mlbench.records.facts import IDENTITY
from mlbench.records.origin_record import EntryRecord
from mlbench.records.run_record import RunRecord
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand
from mlbench.rules.round_parts import Category

RECORDS = Path(__file__).parents[1] / "data" / "records"


def entry(**changes):
    return {"model": "bert-99.9", "variant": "99.9", "category": "", "division": "closed"} | changes


def record(for_entry=None):
    """Return a stored run of BERT, made for an entry."""
    fields = json.loads((RECORDS / "bert-onnxruntime-Server.json").read_text())
    return RunRecord.model_validate(fields | ({"entry": for_entry} if for_entry else {}))


def test_a_run_is_called_by_its_workload_and_one_for_an_entry_by_the_model_of_that():
    assert record().model == "bert"
    assert record(entry()).model == "bert-99.9"


def test_a_record_is_read_back_as_it_was_stored():
    stored = record(entry(category="edge", division="open"))
    assert RunRecord.model_validate_json(stored.text()) == stored
    assert json.loads(stored.text())["entry"] == entry(category="edge", division="open")


def test_a_record_from_before_entries_has_none():
    assert record().entry is None


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"division": "none"}, "division"), ({"category": "cloud"}, "category"), ({"more": 1}, "more")],
)
def test_an_entry_that_no_run_can_be_made_for_is_no_record(changes, place):
    with pytest.raises(ValidationError, match=place):
        record(entry(**changes))


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, ["--variant", "99.9"]),
        ({"category": "datacenter"}, ["--variant", "99.9", "--category", "datacenter"]),
        ({"variant": "99", "division": "open"}, ["--variant", "99", "--division", "open"]),
    ],
)
def test_the_options_ask_for_it_again(changes, options):
    found = EntryRecord.model_validate(entry(**changes)).options
    assert found == options
    main.get_command(None, "run").make_context("run", ["bert", *found])


def test_a_repeat_of_a_run_is_made_for_the_same_entry():
    assert request_of(record()).entry is ANY_ENTRY
    wanted = EntryDemand(variant="99.9", category=Category.DATACENTER, division=Division.OPEN)
    assert request_of(record(entry(category="datacenter", division="open"))).entry == wanted


def test_runs_for_different_accuracies_are_no_repeats_of_each_other():
    found = [IDENTITY["variant"](each) for each in (record(), record(entry()), record(entry(variant="99")))]
    assert found == ["none", "99.9", "99"]


def test_a_comparison_names_the_accuracy_in_which_two_runs_differ():
    found = differences(record(), record(entry()))
    assert [(each.fact, each.base, each.new) for each in found] == [("variant", "none", "99.9")]
