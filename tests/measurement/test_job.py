"""A run's names and settings, as objects."""

import pytest

from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.measurement.job import Job
from mlbench.records.job_spec import JobSpec

MS_OF_LIMITS = {"resnet50": 15, "retinanet": 100, "bert": 130, "dlrm-v2": 60}
"""MLPerf Inference v4.1, section on Server of the rules: QoS constraints."""


def job_of(workload="resnet50", scenario="Server", settings=None):
    spec = JobSpec(
        workload=workload,
        backend="null",
        scenario=scenario,
        profile="full",
        tier="smoke",
        weights="random",
        precision="fp32",
        folder="/runs/1",
        settings=settings or {},
        machine="m1",
    )
    return Job.of_spec(spec, Plugins.discover())


@pytest.mark.parametrize("workload", MS_OF_LIMITS)
def test_in_server_no_batch_is_chosen_all_of_whose_samples_would_be_late(workload):
    assert job_of(workload).plan.longest_batch_ms == MS_OF_LIMITS[workload]


@pytest.mark.parametrize(
    ("scenario", "settings", "longest_ms"),
    [
        ("Offline", {}, 0),
        ("SingleStream", {}, 0),
        ("Server", {"load.latency_limit_ms": 10.0}, 10),
        ("Server", {"execution.longest_batch_ms": 7.5}, 7.5),
        ("Offline", {"execution.longest_batch_ms": 7.5}, 7.5),
    ],
    ids=["no latency is judged", "nor here", "a limit of the user's", "a length of the user's", "also without a limit"],
)
def test_a_batch_may_take_as_long_as_the_scenario_and_the_user_allow(scenario, settings, longest_ms):
    assert job_of(scenario=scenario, settings=settings).plan.longest_batch_ms == longest_ms


def test_a_limit_that_is_not_stricter_than_that_of_the_rules_is_refused():
    with pytest.raises(UsageError, match=r"load.latency_limit_ms is 20, larger than the limit of the rules"):
        job_of(settings={"load.latency_limit_ms": 20.0})
