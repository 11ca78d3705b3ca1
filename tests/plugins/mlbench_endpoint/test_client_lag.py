"""The client's own lag: what was due while its event loop stood still was late, and times are not the server's then."""

import asyncio
import dataclasses
import time

import pytest

pytest.importorskip("aiohttp")  # of the package

from mlbench_endpoint.client.lag import ClientLag, explain_lateness, lags_since, watch_lag
from mlbench_endpoint.client.messages import ClientPulse, of_line, to_line
from mlbench_endpoint.client.remarks import remarks_on
from mlbench_endpoint.engine import EndpointCounts
from mlbench_endpoint.sweep.results import results_of
from mlbench_endpoint.sweep.service_limits import ServiceLimits
from timed_answer import timed_answer

from mlbench.wire.engine_statistics import statistics_to_json

MS = 1_000_000
ANSWER = timed_answer([*range(20 * MS, 36 * MS, MS)])
"""16 tokens that came within 36 ms, the first one after 20."""


def test_a_lag_counts_for_all_that_was_due_during_it():
    assert lags_since(0, 36 * MS) == [35 * MS, 25 * MS, 15 * MS, 5 * MS]
    assert lags_since(0, MS) == lags_since(5, 0) == [0]
    assert len(lags_since(0, 10**15)) == 1000


def test_a_loop_that_is_blocked_is_late_and_the_processor_time_is_its_own():
    pulses = []

    async def block():
        watch = asyncio.create_task(watch_lag(lambda: True, pulses.append))
        await asyncio.sleep(0)
        for _ in range(8):
            end_s = time.monotonic() + 0.05
            while time.monotonic() < end_s:
                pass
            await asyncio.sleep(0)
        watch.cancel()

    asyncio.run(block())
    lag = ClientLag()
    for pulse in pulses:
        lag.add(of_line(to_line(pulse)))
    facts = lag.facts()
    assert facts["longest_median_lag_ns"] >= 10 * MS
    assert 0 < facts["processor_share"] <= 1.1


def test_nothing_is_reported_while_no_request_runs():
    pulses = []

    async def idle():
        watch = asyncio.create_task(watch_lag(lambda: False, pulses.append))
        await asyncio.sleep(0.1)
        watch.cancel()

    asyncio.run(idle())
    assert pulses == []
    assert ClientLag().facts() == {}


@pytest.mark.parametrize(
    ("lag_ms", "report_ms", "ttft_ms", "is_late"),
    [
        (0, 0, 20, False),
        (1.9, 0, 5, False),
        (2.1, 0, 5, True),
        (9, 0, 100, False),
        (11, 0, 100, True),
        (0, 11, 100, True),
    ],
)
def test_a_client_is_late_beyond_two_milliseconds_and_a_tenth_of_the_time_to_the_first_token(
    lag_ms, report_ms, ttft_ms, is_late
):
    lag = ClientLag()
    lag.add(ClientPulse(lags_ns=[round(lag_ms * MS)] * 3, busy_ns=9 * MS, wall_ns=10 * MS))
    lag.add_report(round(report_ms * MS))
    found = explain_lateness(lag.facts(), ttft_ms * MS)
    assert bool(found) is is_late
    assert not found or (found.startswith("client late") and "90% of a processor" in found)


@pytest.mark.parametrize(("late_ms", "is_said"), [(9, False), (11, True)])
def test_a_client_that_was_late_in_the_tail_alone_leaves_a_remark(late_ms, is_said):
    lag = ClientLag()
    lag.add(ClientPulse(lags_ns=[0] * 90 + [late_ms * MS] * 10, busy_ns=MS, wall_ns=10 * MS))
    engine = {"client": lag.facts(), "from_sending": [{"of": "first token", "p99": 100 * MS}]}
    assert not explain_lateness(lag.facts(), 20 * MS)
    words = f"the client was {late_ms} ms late at the 99th percentile, so the highest times may be its own"
    assert (words in list(remarks_on(engine))) is is_said


@pytest.fixture
def counts():
    """Counts of 50 answers with 20 ms to the first token."""
    found = EndpointCounts()
    for _ in range(50):
        found.times.add(ANSWER, 16)
    return found


@pytest.mark.parametrize(("lag_ms", "late"), [(1, 0), (3, 1)])
def test_an_engine_says_whether_its_client_was_late(counts, lag_ms, late):
    counts.client.add(ClientPulse(lags_ns=[lag_ms * MS] * 9, busy_ns=MS, wall_ns=10 * MS))
    assert counts.statistics("m", ServiceLimits(), knows_prompts=False).late_clients == late
    assert EndpointCounts().statistics("m", ServiceLimits(), knows_prompts=False).late_clients is None


@pytest.mark.parametrize("is_late", [False, True])
def test_a_client_is_late_that_makes_requests_more_slowly_than_they_are_answered(is_late):
    """Two at once, and answers take 36 ms; all requests are there from the beginning, or one comes every 40 ms."""
    counts, answer = EndpointCounts(), ANSWER
    counts.times.begin_query(2)
    for number in range(50):
        sent_ns = (40 if is_late else 18) * MS * number
        moved = [sent_ns + each for each in answer.chunk_ns]
        times = {"sent_ns": sent_ns, "asked_ns": sent_ns if is_late else 1}
        times |= {"first_ns": moved[0], "at_ns": moved[-1], "chunk_ns": moved}
        counts.times.add(dataclasses.replace(answer, **times), 16)
    assert counts.statistics("m", ServiceLimits(), knows_prompts=False).late_clients == is_late
    counts.times.begin_query(2)  # a second query: requests keep coming
    assert counts.statistics("m", ServiceLimits(), knows_prompts=False).late_clients == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_times_of_a_client_that_was_late_are_not_shown_and_its_run_does_not_count(counts, is_late):
    lag_ns = 3 * MS if is_late else 0
    counts.client.add(ClientPulse(lags_ns=[lag_ns] * 9, busy_ns=98 * MS, wall_ns=100 * MS))
    engine = statistics_to_json(counts.statistics("m", ServiceLimits(), knows_prompts=False))
    rules = [{"rule": "client_in_time", "required": True, "passed": not is_late, "fix": ""}]
    record = {
        "run_id": "a",
        "repeat": 1,
        "workload": "prompts",
        "scenario": "Concurrency",
        "settings": {"backend.connections": {"value": 4}},
        "result": {"value": 100.0},
        "engine": engine,
        "failure": None,
        "verdict": {"rules": rules},
    }
    (found,) = results_of([record])
    assert (found.requests, found.answer_tokens) == (50, 16)
    shown = [bool(each.ns) for each in (found.ttft, found.tpot, found.itl, found.e2e)]
    assert shown == [not is_late] * 4
    assert found.problem.startswith("INVALID by client_in_time: client late: its median lag is 3 ms") is is_late
    assert found.client["processor_share"] == 0.98
