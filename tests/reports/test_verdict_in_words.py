"""A run's rules and scores in words: limits and targets that were met or missed, and what follows from them."""

import pytest

from mlbench.records.run_record import TargetRecord
from mlbench.reports.console import (
    accuracy,
    format_rule_values,
    problems,
    rule_line,
    spell_target,
)
from mlbench.reports.explanation import explain, next_step, sentence
from mlbench.reports.matrix import matrix

RULE = {"unit": "", "passed": True, "fix": "", "source": "mlperf.conf", "kind": "performance", "required": True}


def verdict_of(record, *rules, **changes):
    return record.verdict.model_dump() | {"rules": [RULE | rule for rule in rules]} | changes


LATE = {"rule": "latency_limit", "measured": 70_000_000, "limit": 50_000_000, "unit": "ns", "passed": False}
STRICT = {"rule": "accuracy.acc@99.9", "measured": 98.0, "limit": 98.3, "passed": False, "required": False}


def test_only_a_rule_that_is_required_is_a_problem(a_run):
    run = a_run(verdict=verdict_of(a_run(), LATE | {"fix": "Lower the rate."}, STRICT, is_valid=False))
    (problem,) = problems(run)
    assert problem.endswith("FAIL latency_limit: 70.0 ms, limit 50.0 ms. Lower the rate.")


def test_a_rule_is_ok_failed_or_only_missed(a_run):
    held = LATE | {"measured": 40_000_000, "passed": True, "fix": "Lower the rate."}
    run = a_run(verdict=verdict_of(a_run(), held, LATE, STRICT))
    assert [rule_line(rule).split()[0] for rule in run.verdict.rules] == ["ok", "FAIL", "miss"]
    assert "Lower the rate" not in rule_line(run.verdict.rules[0])


@pytest.mark.parametrize(
    ("rule", "measured", "limit"),
    [
        ({"measured": 58189, "limit": 2000, "unit": "ms"}, "58189 ms", "2000 ms"),
        ({"measured": None, "limit": 2000, "unit": "ms"}, "not in the log", "2000 ms"),
        ({"measured": 70_000_000, "limit": 50_000_000, "unit": "ns"}, "70.0 ms", "50.0 ms"),
        ({"measured": 50_000_001, "limit": 50_000_000, "unit": "ns"}, "50.000001 ms", "50.000000 ms"),
        ({"measured": True, "limit": True}, "True", "True"),
        ({"measured": "INVALID", "limit": "VALID"}, "INVALID", "VALID"),
        ({"measured": 22.0, "limit": "23.01 .. 23.95"}, "22", "23.01 .. 23.95"),
        ({"measured": 0.123456789, "limit": 0.5}, "0.123457", "0.5"),
    ],
)
def test_what_a_rule_measured_and_its_limit_carry_the_unit(a_run, rule, measured, limit):
    run = a_run(verdict=verdict_of(a_run(), {"rule": "r", **rule}))
    assert format_rule_values(run.verdict.rules[0]) == (measured, limit)


def target(value, lower, upper=None, **changes):
    fields = {"score": "acc", "name": "99", "reference": 98.39, "required": True, "is_met": True}
    return TargetRecord(**fields | {"value": value, "lower": lower, "upper": upper} | changes)


@pytest.mark.parametrize(
    ("found", "spelled"),
    [
        (target(98.39, 97.4), ("98.39", "97.40")),
        (target(97.3961, 97.4), ("97.396", "97.400")),
        (target(23.4, 23.01085828, 23.95007626), ("23.40", "23.01..23.95")),
        (target(None, 97.4), ("no score", "97.40")),
        (target(0.86170, 0.853083), ("0.86", "0.85")),
        (target(0.00123, 0.0011), ("0.0012", "0.0011")),
        (target(1.3e-8, None, 1e-5), ("1.3e-08", "1e-05")),
        (target(1.04e-5, None, 1e-5), ("1.04e-05", "1e-05")),
        (target(None, None, 1e-5), ("no score", "1e-05")),
    ],
)
def test_a_score_and_its_target_show_two_digits_of_each(found, spelled):
    assert spell_target(found) == spelled


def with_accuracy(a_run, *targets, **changes):
    fields = a_run().accuracy.model_dump() | {"targets": [each.model_dump() for each in targets]} | changes
    return a_run(accuracy=fields)


def test_scores_that_decide_are_reported_and_others_are_not(a_run):
    run = with_accuracy(a_run, target(98.39, 97.4), target(98.0, 98.3, name="99.9", required=False, is_met=False))
    assert accuracy(run) == "acc 98.39 >= 97.40"
    run = with_accuracy(a_run, target(90.0, 97.4, is_met=False), target(25.0, 23.0, 24.0, score="FID", is_met=False))
    assert accuracy(run) == "acc 90.00 MISSES 97.40, FID 25.00 MISSES 23.00..24.00"
    run = with_accuracy(a_run, target(23.5, 23.0, 24.0, score="FID"))
    assert accuracy(run) == "FID 23.50 in 23.00..24.00"


def test_outputs_too_far_from_the_fp32_models_are_reported_beside_the_scores(a_run):
    difference = {"value": 0.25, "bound": 0.01, "unit": "of the tokens", "samples": 9, "is_met": False, "bounds": {}}
    run = with_accuracy(a_run, target(98.39, 97.4), output_difference=difference)
    assert accuracy(run).endswith(", outputs 0.25 of the tokens from fp32 MISSES 0.01")
    run = with_accuracy(a_run, target(98.39, 97.4), output_difference=difference | {"is_met": True})
    assert "from fp32" not in accuracy(run)


def test_a_run_without_accuracy_says_so_and_may_be_good(a_run):
    run = a_run(accuracy=None, verdict=verdict_of(a_run(), is_accurate=None))
    assert accuracy(run) == "accuracy not measured"
    assert run.is_good
    assert "accuracy was not measured" in sentence(run)


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, True),
        ({"is_valid": False}, False),
        ({"is_accurate": False}, False),
        ({"is_accurate": None}, True),
        ({"is_valid": False, "is_accurate": None}, False),
    ],
)
def test_a_run_counts_where_it_is_valid_and_not_inaccurate(a_run, changes, good):
    assert a_run(verdict=verdict_of(a_run(), **changes)).is_good is good


def test_the_sentence_of_an_invalid_run_names_the_rules_that_did_not_hold(a_run):
    run = a_run(verdict=verdict_of(a_run(), LATE | {"fix": "Lower the rate."}, STRICT, is_valid=False))
    assert sentence(run).endswith("but the run is INVALID: latency_limit failed.")
    assert next_step(run) == "Lower the rate."
    assert ("INVALID", "failed: latency_limit") in list(explain(run))


def test_the_sentence_of_an_inaccurate_run_says_what_it_missed(a_run):
    run = a_run(verdict=verdict_of(a_run(), is_accurate=False))
    assert "not accurate enough: acc 98.99" in sentence(run)


def test_rules_that_held_are_counted(a_run):
    held = {"rule": "seeds", "measured": 1, "limit": 1}
    run = a_run(verdict=verdict_of(a_run(), held, held | {"rule": "min_duration"}, STRICT))
    (meaning,) = [meaning for part, meaning in explain(run) if part == "valid"]
    assert meaning.startswith("2 rules passed")


def test_the_newest_run_of_a_combination_is_the_one_that_counts(a_run):
    old, new = a_run(created="2026-11-01T00:00:00Z"), a_run(verdict=verdict_of(a_run(), is_valid=False))
    for order in ([old, new], [new, old]):
        assert "0 of 1 scenarios (Offline: INVALID)" in matrix(order)
