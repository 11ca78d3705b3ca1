from datetime import timedelta

import pytest

from mlbench.comparison.compare import compare

QUIET_NIGHTS = [1, 1.003, 0.997, 1.001, 0.999] * 4
"""Means of sessions, over their level: they differ by 0.2 % where nothing changed."""


def repeat_earlier(record, nights=QUIET_NIGHTS):
    """Return a run a night, up to the day before this one, and like it but for the speed."""
    made = []
    for days, factor in enumerate(reversed(nights), 1):
        result = record.result.model_copy(
            update={
                "value": record.result.value * factor,
                "latency_ns": {name: round(ns * factor) for name, ns in record.result.latency_ns.items()},
            }
        )
        energy = record.energy and record.energy.model_copy(
            update={"joules_per_sample": record.energy.joules_per_sample * factor}
        )
        night = {"run_id": f"{days}-days-ago", "created": record.created - timedelta(days=days)}
        made.append(record.model_copy(update={**night, "result": result, "energy": energy}))
    return made[::-1]


@pytest.fixture
def earlier():
    """Make a run a night before a run."""
    return repeat_earlier


@pytest.fixture
def compare_after_quiet_nights():
    """Compare, knowing from earlier nights of both kinds of run how little sessions differ."""

    def compare_after_quiet_nights(base, new, **more):
        completed = [record for record in (*base, *new) if record.status == "completed"]
        kinds = {(record.workload, record.backend, str(record.settings)): record for record in completed[::-1]}
        history = [night for kind in kinds.values() for night in repeat_earlier(kind)]
        return compare(base, new, history=history, **more)

    return compare_after_quiet_nights


@pytest.fixture
def runs(a_run):
    """Make a run per value."""

    def runs(values, *, unit="samples/s", higher_is_better=True, **changes):
        made = []
        for number, value in enumerate(values):
            result = {
                "value": value,
                "unit": unit,
                "higher_is_better": higher_is_better,
                "latency_ns": {},
                "counts": {"queries": 1},
            }
            made.append(a_run(run_id=f"run-{number}", result=result, **changes))
        return made

    return runs
