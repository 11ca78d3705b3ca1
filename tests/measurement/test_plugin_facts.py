"""Facts that a run can do without."""

import pytest

from mlbench.measurement.plugin_facts import PluginFacts
from mlbench.records.run_record import EnergyRecord

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
