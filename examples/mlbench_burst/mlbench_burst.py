"""Burst, a scenario of mlbench: LoadGen's Server, with overdue samples in one call, and its 95th percentile latency."""

from mlbench import Scenario, hookimpl

BURST = Scenario(
    name="Burst",
    title="samples arrive at random, overdue ones together; the 95th percentile latency",
    loadgen="Server",
    result_key="result_completed_samples_per_sec",
    result_unit="samples/s",
    percentile=0.95,
    early_stopping=True,
    settings={"execution.batching": "dynamic", "load.coalesce_queries": True},
)


@hookimpl
def mlbench_scenarios() -> list[Scenario]:
    """Return the scenario."""
    return [BURST]
