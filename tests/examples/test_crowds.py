"""A stranger's load for servers, installed from outside: what a server gets of it, and what the record says."""

import json
from pathlib import Path

import pytest
from mock_thread import mocked

pytest.importorskip("aiohttp")
EXAMPLE = Path(__file__).parents[2] / "examples" / "mlbench_crowds"


@pytest.mark.thorough("examples")
def test_crowds_arrive_together_at_their_times(mlbench):
    """Three crowds of five, a second and a half apart: 15 answers of 4 tokens, the last crowd after three seconds."""
    sizes = {"crowds": 3, "users": 5, "every_s": 1.5, "tokens_in": 12, "tokens_out": 4}
    with mocked(ttft="50ms") as (server, url):
        chosen = [f"--set=workload.{name}={value}" for name, value in sizes.items()]
        done = mlbench(
            *("run", "crowds", "--backend", "endpoint", "--scenario", "Schedule", "--json"),
            *(f"--set=backend.url={url}", *chosen),
        )
        assert done.returncode in (0, 1), done.stderr  # 1: a busy machine sent them too late, and the record says so
        (record,) = json.loads(done.stdout)
    assert (record["workload"], record["scenario"]) == ("crowds", "Schedule")
    assert not record["failure"], record["failure"]
    engine = record["engine"]
    assert (engine["answered"], engine["lateness"]["requests"]) == (15, 15)
    assert engine["lateness"]["least"] >= 0
    rows = {(row["of"], row["unit"]): row for row in engine["from_sending"]}
    assert rows["answer", "tokens"]["mean"] == 4
    # 60 tokens in three seconds at least, of which each crowd's come at once
    assert record["result"]["value"] <= 60 / 3
    assert max(engine["course"]["in_flight"]) > 0
    assert server.counts.requests > 15  # those of the warm-up too
