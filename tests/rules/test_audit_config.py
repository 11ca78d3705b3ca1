"""The official configurations of the compliance tests, by hand from the published files."""

import pytest

from mlbench.loadgen import scenarios
from mlbench.rules.audit_config import TESTS, audit_config
from mlbench.rules.official import default_round, official_rules
from mlbench.rules.tiers import official_limits

BY_NAME = {each.name: each for each in scenarios.OFFICIAL}


def test_the_text_is_the_official_one_without_its_comments():
    assert audit_config("TEST04", "resnet50", default_round()).text == (
        "*.*.mode = 2\n"
        "*.*.performance_issue_unique = 0\n"
        "*.*.performance_issue_same = 1\n"
        "*.*.performance_issue_same_index = 3\n"
    )
    assert "*.*.accuracy_log_rng_seed = 720381539243781796\n" in audit_config("TEST01", "bert", default_round()).text


@pytest.mark.parametrize(
    ("workload", "target"),
    [
        *((name, 4096) for name in ("resnet50", "bert", "dlrm-v2", "one of mine")),
        *(("retinanet", 256), ("3d-unet", 64), ("stable-diffusion-xl", 128)),
    ],
)
def test_test01_logs_as_many_replies_as_the_file_of_the_workload_says(workload, target):
    assert audit_config("TEST01", workload, default_round()).sampling_target == target


def test_only_test05_has_seeds_of_its_own():
    plain = official_limits(official_rules("resnet50"), BY_NAME["Offline"])
    seeds = {test: audit_config(test, "resnet50", default_round()).limits(plain).seeds.qsl for test in TESTS}
    assert seeds == dict.fromkeys(TESTS, 3066443479025735752) | {"TEST05": 16799458546791641818}


@pytest.mark.parametrize(("scenario", "queries", "samples"), [("Server", 100, None), ("Offline", 1, 100)])
def test_test06_sends_a_hundred_samples_whatever_they_take(scenario, queries, samples):
    plain = official_limits(official_rules("llama2-70b"), BY_NAME[scenario])
    limits = audit_config("TEST06", "llama2-70b", default_round()).limits(plain)
    assert (limits.min_query_count, limits.offline_min_samples) == (queries, samples)
    assert (limits.min_duration_ms, limits.equal_issue, plain.equal_issue) == (0, False, True)
