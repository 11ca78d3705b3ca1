"""What a record keeps of its scenario, and what older records meant."""

import json

import pytest

from mlbench.loadgen.scenarios import OFFICIAL
from mlbench.records.run_record import RunRecord
from mlbench.records.scenario_record import ScenarioRecord


def read_older(a_run, name):
    """Return a record of format 2, in which a scenario is a name, as it is read."""
    fields = json.loads(a_run(scenario=name).text())
    del fields["scenario_facts"]
    return RunRecord.model_validate({**fields, "format": 2})


@pytest.mark.parametrize("scenario", OFFICIAL, ids=lambda scenario: scenario.name)
def test_an_older_record_means_the_official_scenario_of_its_name(a_run, scenario):
    assert read_older(a_run, scenario.name).scenario_facts == ScenarioRecord.of(scenario)


def test_of_an_older_record_in_a_scenario_of_a_plugin_nothing_is_made_up(a_run):
    facts = read_older(a_run, "Spikes").scenario_facts
    assert (str(facts), facts.loadgen, facts.percentile, facts.compared_by) == ("unknown", "unknown", None, "result")


def test_facts_are_stored_and_read_back(a_run):
    record = a_run(scenario="Server")
    assert RunRecord.model_validate_json(record.text()).scenario_facts == record.scenario_facts
