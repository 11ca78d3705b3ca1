"""What a run's process hands back."""

import json
import math

import pytest
from pydantic_core import to_jsonable_python

from mlbench.errors import InvalidRunError
from mlbench.records.run_outcome import RunOutcome
from mlbench.records.run_record import RunRecord


@pytest.fixture
def values(a_run):
    """Return the values of a good outcome."""
    record = a_run(loadgen_version="5.0", peak_memory_bytes=2**30, samples={"dataset": 8, "issued": 64})
    return {name: getattr(record, name) for name in RunOutcome.model_fields}


def test_every_field_is_one_of_the_records_under_the_same_name():
    assert RunOutcome.model_fields.keys() <= RunRecord.model_fields.keys()


def test_it_arrives_as_it_was_sent_and_a_record_takes_it(values, a_run):
    sent = RunOutcome.of_values(values)
    arrived = RunOutcome.of_values(json.loads(json.dumps(to_jsonable_python(sent), allow_nan=False)))
    assert arrived == sent
    assert RunRecord(**{**dict(a_run()), **dict(arrived)}).samples == {"dataset": 8, "issued": 64}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"forged": 1}, "forged"),
        ({"engine": {"rate": math.nan}}, "engine"),
        ({"engine": {"rate": object()}}, "engine"),
        ({"result": None}, "result"),
        ({"samples": {"issued": "many"}}, "samples.issued"),
        ({"fingerprints": {"data": None}}, "fingerprints.data"),
        ({"peak_memory_bytes": 1.5}, "peak_memory_bytes"),
    ],
)
def test_one_that_cannot_be_stored_is_refused_by_the_field(values, changes, place):
    with pytest.raises(InvalidRunError, match=f"the run's outcome cannot be stored: {place}") as caught:
        RunOutcome.of_values(values | changes)
    assert "\n" not in str(caught.value)
