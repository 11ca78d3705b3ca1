"""Facts that a run can do without."""

import pytest

from mlbench.contracts.statistics import EngineStatistics
from mlbench.measurement.plugin_facts import PluginFacts
from mlbench.records.work_record import EnergyRecord

ENERGY = {"joules": 100.0, "seconds": 2.0, "source": "steady", "covers": "a heater"}


def fail():
    raise RuntimeError("no counters")


def test_entries_that_can_be_stored_are_kept_and_the_others_named():
    facts = PluginFacts()
    assert facts.entries("engine", lambda: {"batch": 8, "rate": float("nan")}) == {"batch": 8}
    assert facts.missing == {"engine": "not all can be stored: rate is nan"}


def test_a_question_that_raises_has_its_reason_kept():
    facts = PluginFacts()
    assert facts.entries("engine", fail) == {}
    assert facts.answer("peak_memory", fail, otherwise=None) is None
    assert facts.missing == dict.fromkeys(("engine", "peak_memory"), "RuntimeError: no counters")


def test_a_section_is_there_or_has_a_reason():
    facts = PluginFacts()
    assert facts.section("energy", lambda: EnergyRecord(**ENERGY), lambda: "").joules == 100
    assert facts.missing == {}


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (lambda: None, "no meter"),
        (fail, "RuntimeError: no counters"),
        (
            lambda: EnergyRecord(**ENERGY | {"joules": float("nan")}),
            "it cannot be stored: joules: Input should be a finite number",
        ),
        (
            lambda: EnergyRecord(**ENERGY | {"joules": "many"}),
            "it cannot be stored: joules: Input should be a valid number",
        ),
        (EnergyRecord, "it cannot be stored: joules: Field required"),
    ],
)
def test_a_section_that_is_not_there_says_why(question, reason):
    facts = PluginFacts()
    assert facts.section("energy", question, lambda: "no meter") is None
    assert facts.missing["energy"].startswith(reason)


def test_the_reason_of_a_failure_is_kept_and_not_replaced_by_a_general_one():
    facts = PluginFacts()
    assert facts.section("energy", fail, lambda: "no meter") is None
    assert facts.missing == {"energy": "RuntimeError: no counters"}


def test_reasons_of_one_fact_are_reported_together():
    facts = PluginFacts()
    facts.answer("work", fail, otherwise=None)
    facts.entries("work", lambda: {"rate": float("inf")})
    assert facts.missing == {"work": "RuntimeError: no counters; not all can be stored: rate is inf"}


def test_statistics_that_cannot_be_stored_leave_those_that_can():
    facts = PluginFacts()
    found = facts.statistics(lambda: EngineStatistics(batch=8, extra={"rate": float("nan"), "kept": 3}))
    assert (found.batch, dict(found.extra)) == (8, {"kept": 3})
    assert facts.missing == {"engine": "not all can be stored: rate is nan"}


def test_an_engine_that_cannot_say_what_it_counted_has_counted_nothing():
    facts = PluginFacts()
    assert facts.statistics(fail) == EngineStatistics()
    assert facts.missing == {"engine": "RuntimeError: no counters"}
