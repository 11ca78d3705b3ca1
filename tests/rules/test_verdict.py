"""The verdict on real logs, and on what each rule is there to catch."""

import math

import pytest

from mlbench.contracts.metric import OutputDifference, Target
from mlbench.contracts.workload import Profile, Weights
from mlbench.rules.tiers import Tier
from mlbench.rules.verdict import judge


def failures(facts):
    return {result.rule: result for result in judge(facts).failed}


TOKENS = {"rules": "llama2-70b", "detail": {"effective_sample_concatenate_permutation": True}}


@pytest.mark.parametrize(
    ("log", "scenario", "more"),
    [
        ("single_stream", "SINGLE_STREAM", {}),
        ("multi_stream", "MULTI_STREAM", {}),
        ("server", "SERVER", {}),
        ("offline", "OFFLINE", {}),
        ("server_tokens", "SERVER", TOKENS | {"limits": {"server_latency_ms": None}}),
        ("offline_tokens", "OFFLINE", TOKENS | {"limits": {"min_duration_ms": 1}}),
        ("offline_equal_issue", "OFFLINE", {"rules": "3d-unet", "limits": {"min_duration_ms": 1}}),
    ],
)
def test_a_run_that_keeps_all_rules_is_valid(facts_of, log, scenario, more):
    verdict = judge(facts_of(log, scenario, **more))
    assert verdict.failed == ()
    assert verdict.is_valid
    assert all(result.fix == "" for result in verdict.results)


@pytest.mark.parametrize(
    ("log", "scenario", "rules"),
    [
        ("single_stream_ran_out", "SINGLE_STREAM", {"loadgen_result", "loadgen_errors", "min_duration"}),
        ("single_stream_too_few", "SINGLE_STREAM", {"loadgen_result", "min_duration", "min_queries", "early_stopping"}),
        ("server_overloaded", "SERVER", {"loadgen_result", "latency_limit", "early_stopping"}),
        ("server_too_few", "SERVER", {"loadgen_result", "min_queries", "early_stopping"}),
        ("offline_short", "OFFLINE", {"loadgen_result", "min_duration"}),
    ],
)
def test_a_run_that_loadgen_calls_invalid_fails_the_rules_it_broke(facts_of, log, scenario, rules):
    facts = facts_of(log, scenario)
    assert failures(facts).keys() == rules
    assert not judge(facts).is_valid


@pytest.mark.parametrize(
    ("log", "more", "rule"),
    [("server", {}, "latency_limit"), ("server_tokens", TOKENS | {"limits": {"server_latency_ms": None}}, "ttft")],
)
def test_a_latency_within_the_limit_fails_where_loadgen_says_its_constraint_was_not_met(facts_of, log, more, rule):
    detail = {**more.get("detail", {}), "result_perf_constraints_met": False}
    (failed,) = (
        result for result in judge(facts_of(log, "SERVER", **more | {"detail": detail})).failed if result.rule == rule
    )
    assert failed.measured <= failed.limit
    del detail["result_perf_constraints_met"]
    assert rule not in failures(facts_of(log, "SERVER", **more))


def test_errors_that_loadgen_counts_lose_a_run_though_no_line_of_them_was_read(facts_of):
    facts = facts_of("offline", "OFFLINE", detail={"num_errors": 2}, loadgen_errors=())
    (failed,) = failures(facts).values()
    assert (failed.rule, failed.measured) == ("loadgen_errors", 2)
    assert failed.fix == "LoadGen's first error: see the detail log"


def test_a_logged_error_loses_a_run_that_loadgen_calls_valid(facts_of):
    facts = facts_of("offline_answered_twice", "OFFLINE", limits={"min_duration_ms": 1})
    assert facts.detail["result_validity"] == "VALID"
    (failed,) = failures(facts).values()
    assert (failed.rule, failed.measured, failed.limit) == ("loadgen_errors", 32, 0)
    assert "Attempted to complete a sample twice." in failed.fix


def test_loadgens_invalid_stands_even_when_every_token_limit_is_met(facts_of):
    changed = TOKENS["detail"] | {"result_validity": "INVALID"}
    facts = facts_of("server_tokens", "SERVER", "llama2-70b", detail=changed, limits={"server_latency_ms": None})
    assert failures(facts).keys() == {"loadgen_result"}


def test_fixes_name_the_setting_and_the_number(facts_of):
    late = failures(facts_of("server_overloaded", "SERVER"))
    assert late["latency_limit"].fix == "Lower load.target_qps below 200, or answer within 100 ms."
    assert late["early_stopping"].fix == "Lower load.target_qps below 200: 453 of 459 queries were late."
    assert late["early_stopping"].limit == 50478, "459 and the 50019 more that LoadGen asks for"
    few = failures(facts_of("server_too_few", "SERVER"))
    assert few["min_queries"].fix == "Raise load.min_query_count from 100 to 459."
    assert few["early_stopping"].fix.startswith("Raise load.min_query_count to 459")
    short = failures(facts_of("offline_short", "OFFLINE"))
    assert short["min_duration"].fix.startswith("Raise load.target_qps from 100 to at least 45771:")
    assert short["min_duration"].measured == 2, "the last sample was done after 2.4 ms"
    ran_out = failures(facts_of("single_stream_ran_out", "SINGLE_STREAM"))
    assert "Lower load.expected_latency_ns to 21" in ran_out["min_duration"].fix, "a mean of 2.1 ms"


def test_a_run_shorter_than_its_tier_names_the_duration(facts_of):
    facts = facts_of("server", "SERVER", limits={"min_duration_ms": 600_000})
    (failed,) = failures(facts).values()
    assert (failed.measured, failed.limit, failed.unit) == (1000, 600_000, "ms")
    assert failed.fix == "Raise load.min_duration_ms from 1000 to 600000."


@pytest.mark.parametrize(
    ("log", "scenario", "lasted_ms"),
    [
        ("single_stream", "SINGLE_STREAM", 1003),  # 469 queries at 467.73/s; their latencies add up to 997 ms
        ("multi_stream", "MULTI_STREAM", 1425),  # from 46.885 to 48.310
        ("server", "SERVER", 2482),
    ],
)
def test_duration_is_counted_by_loadgens_clock(facts_of, log, scenario, lasted_ms):
    (duration,) = (result for result in judge(facts_of(log, scenario)).results if result.rule == "min_duration")
    assert duration.measured == pytest.approx(lasted_ms, rel=0.0005)


def test_a_stream_without_marks_lasts_as_long_as_its_queries(facts_of):
    unmarked = {"result_qps_with_loadgen_overhead": 0, "power_begin": None}
    facts = facts_of("single_stream", "SINGLE_STREAM", detail=unmarked)
    (duration,) = (result for result in judge(facts).results if result.rule == "min_duration")
    assert duration.measured == 997, "469 times 2.126554 ms"


def test_a_clock_that_was_set_back_makes_no_stream_shorter_than_its_queries(facts_of):
    facts = facts_of("multi_stream", "MULTI_STREAM", detail={"power_end": "11-21-2026 00:08:48.310"})
    (duration,) = (result for result in judge(facts).results if result.rule == "min_duration")
    assert duration.measured == 1418, "662 times 2.141878 ms"


@pytest.mark.parametrize(
    ("rule", "detail"),
    [
        ("seeds", {"effective_schedule_rng_seed": 0}),
        ("performance_sample_count", {"effective_performance_sample_count": 31}),
        ("latency_limit", {"result_99.00_percentile_latency_ns": 100_000_001}),
        ("latency_limit", {"effective_target_latency_ns": 100_000_001}),
        ("early_stopping", {"result_overlatency_query_count": 1}),
        ("early_stopping", {"early_stopping_met": False}),
        ("min_queries", {"effective_min_query_count": 458}),
        ("min_queries", {"result_min_queries_met": False}),
        ("min_duration", {"result_min_duration_met": False}),
    ],
)
def test_one_changed_fact_breaks_one_rule(facts_of, rule, detail):
    assert failures(facts_of("server", "SERVER", detail=detail)).keys() == {rule}


def test_a_latency_at_its_limit_is_within_it_but_a_token_latency_is_not(facts_of):
    assert not failures(facts_of("server", "SERVER", detail={"result_99.00_percentile_latency_ns": 100_000_000}))
    at_limit = TOKENS["detail"] | {
        "result_first_token_99.00_percentile_latency_ns": 2_000_000_000,
        "result_time_per_output_token_99.00_percentile_ns": 200_000_000,
    }
    facts = facts_of("server_tokens", "SERVER", "llama2-70b", detail=at_limit, limits={"server_latency_ms": None})
    assert failures(facts).keys() == {"ttft", "tpot"}


def test_a_token_run_that_timed_no_tokens_is_not_valid(facts_of):
    facts = facts_of("offline", "OFFLINE", **TOKENS)
    assert failures(facts).keys() == {"token_latencies"}


@pytest.mark.parametrize(
    ("log", "scenario", "rule", "detail"),
    [
        ("multi_stream", "MULTI_STREAM", "samples_per_query", {"effective_samples_per_query": 4}),
        ("multi_stream", "MULTI_STREAM", "early_stopping", {"result_query_count": 661}),
        ("offline", "OFFLINE", "offline_samples", {"effective_samples_per_query": 31}),
    ],
)
def test_what_a_scenario_fixes_is_checked(facts_of, log, scenario, rule, detail):
    assert rule in failures(facts_of(log, scenario, detail=detail))


def test_equal_issue_is_asked_of_four_workloads_only(facts_of):
    assert failures(facts_of("offline", "OFFLINE", "3d-unet")).keys() == {"equal_issue"}
    assert not failures(facts_of("offline", "OFFLINE", "bert"))


@pytest.mark.parametrize(
    ("configured", "unknown", "failed"),
    [
        (None, "", True),  # a run of one's own: what the log does not say was not done
        (None, "an old log", None),
        (True, "an old log", False),
        (False, "an old log", True),
    ],
)
def test_a_log_that_is_silent_about_equal_issue_is_judged_by_its_configuration(facts_of, configured, unknown, failed):
    facts = facts_of(
        "offline_equal_issue",
        "OFFLINE",
        "3d-unet",
        detail={"effective_sample_concatenate_permutation": None},
        equal_issue_configured=configured,
        equal_issue_unknown=unknown,
    )
    verdict = judge(facts)
    found = {result.rule: not result.passed for result in verdict.results}
    assert found.get("equal_issue") is failed
    assert verdict.not_applied.get("equal_issue") == (unknown if failed is None else None)


def test_an_engine_that_sorts_across_passes_over_the_dataset_is_named(facts_of):
    found = failures(facts_of("offline", "OFFLINE", length_across_passes=0.51))
    assert found.keys() == {"pass_order"}
    assert found["pass_order"].fix.startswith("The engine sorts prompts by length across passes")
    assert not failures(facts_of("offline", "OFFLINE", length_across_passes=0.5))
    assert "pass_order" not in {result.rule for result in judge(facts_of("offline", "OFFLINE")).results}


@pytest.mark.parametrize("scenario", ["SINGLE_STREAM", "MULTI_STREAM", "SERVER", "OFFLINE"])
def test_an_empty_log_passes_nothing(facts_of, limits_for, scenario):
    facts = facts_of("offline", scenario, rules="llama2-70b" if scenario == "OFFLINE" else "resnet50")
    empty = {
        key: getattr(facts, key) for key in ("workload", "rules", "scenario", "tier", "profile", "weights", "limits")
    }
    passed = {result.rule for result in judge(type(facts)(detail={}, **empty)).results if result.passed}
    assert passed == {"loadgen_errors", "replies_sound"}, "of these two the log of the run is not the witness"


def test_a_faulty_reply_makes_the_run_invalid_and_is_named(facts_of):
    facts = facts_of("offline", "OFFLINE", reply_faults=["sample 7: no reply", "sample 9: NaN"])
    (failed,) = failures(facts).values()
    assert (failed.rule, failed.measured) == ("replies_sound", 2)
    assert "sample 7: no reply" in failed.fix


def test_one_reply_in_a_hundred_may_differ_from_the_accuracy_run(facts_of):
    assert judge(facts_of("offline", "OFFLINE", replies_checked=100, replies_differing=[7])).is_valid
    failed = failures(facts_of("offline", "OFFLINE", replies_checked=100, replies_differing=[9, 7]))["replies_agree"]
    assert failed.measured == 0.98
    assert "7, 9" in failed.fix


def test_replies_may_be_no_further_off_on_average_than_the_metric_allows(facts_of):
    checked = {"replies_checked": 100, "reply_difference_limit": 0.002}
    assert judge(facts_of("offline", "OFFLINE", reply_difference=0.002, **checked)).is_valid
    (failed,) = failures(facts_of("offline", "OFFLINE", reply_difference=0.0021, **checked)).values()
    assert (failed.rule, failed.measured, failed.limit) == ("reply_difference", 0.0021, 0.002)
    assert "0.0021" in failed.fix
    assert "100 replies" in failed.fix


def test_checking_no_reply_is_not_agreement(facts_of):
    assert failures(facts_of("offline", "OFFLINE", replies_checked=0, reply_difference=0.0)).keys() == {"replies_agree"}


def test_what_could_not_be_judged_says_why(facts_of):
    facts = facts_of("offline", "OFFLINE", unchecked_reason="random weights", unscored_reason="random weights")
    verdict = judge(facts)
    assert verdict.not_applied == {"replies_agree": "random weights", "accuracy": "random weights"}
    assert verdict.is_valid
    assert verdict.is_accurate is None


F1 = Target(score="F1", reference=90.874, lower=89.96526, name="99")
STRICT_F1 = Target(score="F1", reference=90.874, lower=90.783126, name="99.9", required=False)


@pytest.mark.parametrize(
    ("scores", "is_accurate"),
    [({"F1": 89.96526}, True), ({"F1": 89.96525}, False), ({"F1": math.nan}, False), ({}, False)],
)
def test_a_required_target_decides_and_a_strict_one_is_only_reported(facts_of, scores, is_accurate):
    verdict = judge(facts_of("offline", "OFFLINE", scores=scores, targets=[F1, STRICT_F1]))
    assert verdict.is_accurate is is_accurate
    assert verdict.is_valid, "accuracy and performance are judged apart"
    assert [result.passed for result in verdict.results if result.kind == "accuracy"] == [is_accurate, False]


def test_an_upper_limit_is_a_limit_too(facts_of):
    target = Target(score="TOKENS_PER_SAMPLE", reference=294.45, lower=265.005, upper=323.895)
    assert judge(facts_of("offline", "OFFLINE", scores={"TOKENS_PER_SAMPLE": 323.895}, targets=[target])).is_accurate
    assert failures(facts_of("offline", "OFFLINE", scores={"TOKENS_PER_SAMPLE": 324.0}, targets=[target])).keys() == {
        "accuracy.TOKENS_PER_SAMPLE"
    }


OFFICIAL = {
    "tier": Tier.VALID,
    "profile": Profile.FULL,
    "weights": Weights.TRAINED,
    "scores": {"F1": 90.9},
    "targets": [F1],
}


def test_only_a_valid_full_trained_accurate_run_is_conformant(facts_of):
    assert judge(facts_of("offline", "OFFLINE", "bert", **OFFICIAL)).is_conformant
    for change in (
        {"workload": "somebody's-bert"},
        {"tier": Tier.DEV},
        {"profile": Profile.MINI},
        {"weights": Weights.RANDOM},
        {"scores": {"F1": 80.0}},
        {"scores": None},
        {"reply_faults": ["sample 7: no reply"]},
        {"unspotted_reason": "no reply of the performance run was kept"},
    ):
        assert not judge(facts_of("offline", "OFFLINE", "bert", **OFFICIAL | change)).is_conformant, change
    undefined = facts_of("multi_stream", "MULTI_STREAM", "bert", **OFFICIAL)
    assert judge(undefined).is_valid
    assert not judge(undefined).is_conformant, "v4.1 has no MultiStream for bert"


def difference(value, precision="fp32"):
    bounds = {"fp32": 1e-4, "bf16": 0.03, "int8": 0.1}
    return OutputDifference(value=value, precision=precision, bounds=bounds, unit="in logits", samples=9)


def judged_outputs(facts_of, found):
    facts = facts_of("offline", "OFFLINE", scores={"F1": 90.0}, targets=[F1], output_difference=found)
    verdict = judge(facts)
    return verdict, next((each for each in verdict.results if each.rule == "output_difference"), None)


def test_outputs_within_the_bound_of_their_precision_pass(facts_of):
    for value, precision in ((1e-4, "fp32"), (0.03, "bf16")):
        verdict, result = judged_outputs(facts_of, difference(value, precision))
        assert result.passed
        assert result.kind == "accuracy"
        assert verdict.is_accurate


def test_bf16_that_is_called_fp32_is_named_though_its_score_is_met(facts_of):
    verdict, result = judged_outputs(facts_of, difference(0.013))
    assert verdict.is_accurate is False
    assert verdict.is_valid, "accuracy and performance are judged apart"
    assert (result.measured, result.limit, result.unit) == (0.013, 1e-4, "in logits")
    assert "as expected of bf16 or int8" in result.fix
    assert "--precision bf16" in result.fix


def test_a_difference_that_no_precision_brings_is_a_wrong_model(facts_of):
    _, result = judged_outputs(facts_of, difference(0.5, "int8"))
    assert not result.passed
    assert "more than any precision explains" in result.fix


def test_a_difference_that_is_no_number_fails(facts_of):
    _, result = judged_outputs(facts_of, difference(math.nan))
    assert not result.passed
    assert result.measured is None


def test_a_precision_without_a_bound_is_not_judged_and_says_so(facts_of):
    verdict, result = judged_outputs(facts_of, difference(0.5, "fp8"))
    assert result is None
    assert verdict.not_applied["output_difference"] == "no bound is known for fp8"
    assert verdict.is_accurate


def test_without_reference_outputs_nothing_is_said_of_them(facts_of):
    verdict, result = judged_outputs(facts_of, None)
    assert result is None
    assert "output_difference" not in verdict.not_applied
