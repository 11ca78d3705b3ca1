"""Which stored run contradicts the rate that a search found."""

from pathlib import Path

import pytest

from mlbench.records.run_record import RunRecord, SettingRecord
from mlbench.tuner.find_rate import highest_run_above
from mlbench.version import __version__

STORED = Path(__file__).parents[1] / "data" / "records" / "resnet50-pytorch-Server.json"


@pytest.fixture
def a_run_at():
    """Return a stored Server run at another rate, with changes of its verdict and of settings by hand."""
    stored = RunRecord.model_validate_json(STORED.read_text(encoding="utf-8"))

    def run(rate_per_s, *, verdict=None, settings=None, **changes):
        by_hand = {"load.target_qps": rate_per_s, **(settings or {})}
        update = {
            "load": {**stored.load, "target_qps": rate_per_s},
            "settings": {key: SettingRecord(value=value, layer="command line") for key, value in by_hand.items()},
            "verdict": stored.verdict.model_copy(update={"is_valid": True, "is_accurate": True, **(verdict or {})}),
            "mlbench_version": __version__,
        }
        return stored.model_copy(update={**update, **changes})

    return run


def test_of_the_runs_at_higher_rates_it_is_the_one_at_the_highest(a_run_at):
    highest = a_run_at(900.0)
    assert highest_run_above(a_run_at(700.0), [a_run_at(800.0), highest, a_run_at(600.0), a_run_at(700.0)]) is highest


def test_a_run_whose_rate_mlbench_chose_counts(a_run_at):
    """Its setting is 0; what it sent is in its load."""
    chosen = a_run_at(900.0, settings={"load.target_qps": 0.0})
    assert highest_run_above(a_run_at(700.0, settings={"load.end_at_late_share": 0.01}), [chosen]) is chosen


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": {"is_valid": False}},
        {"verdict": {"is_accurate": False}},
        {"settings": {"execution.workers": 2}},
        {"settings": {"load.latency_limit_ms": 50.0}},
        {"tier": "smoke"},
        {"precision": "bf16"},
        {"mlbench_version": "0.0.1"},
        {"status": "failed"},
    ],
    ids=str,
)
def test_a_run_that_does_not_hold_or_had_other_conditions_says_nothing(a_run_at, changes):
    assert highest_run_above(a_run_at(700.0, tier="dev"), [a_run_at(900.0, **{"tier": "dev", **changes})]) is None


def test_without_a_higher_run_there_is_none(a_run_at):
    assert highest_run_above(a_run_at(700.0), [a_run_at(700.0), a_run_at(500.0)]) is None
