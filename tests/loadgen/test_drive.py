"""Real LoadGen, tiny engines."""

import gc

import numpy as np
import pytest
from driven_engines import Doubles, run

from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.logs import read_accuracy, read_detail
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda each: each.name)
def test_a_right_engine_gives_no_fault_and_loadgen_keeps_a_share_of_the_replies(tmp_path, scenario):
    traffic = run(Doubles(), tmp_path, scenario)
    assert traffic.faults == []
    assert traffic.issued == traffic.answered >= 70
    kept = read_accuracy(tmp_path / "mlperf_log_accuracy.json")
    assert kept
    assert all(np.frombuffer(reply.data, np.float32)[0] == 2 * reply.index for reply in kept)


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda each: each.name)
def test_an_accuracy_test_logs_every_sample(tmp_path, scenario):
    run(Doubles(), tmp_path, scenario, mode=Mode.ACCURACY)
    replies = read_accuracy(tmp_path / "mlperf_log_accuracy.json")
    assert {reply.index for reply in replies} == set(range(20))
    assert all(np.frombuffer(reply.data, np.float32)[0] == 2 * reply.index for reply in replies)


@pytest.mark.parametrize(("queries", "discarded"), [(662, 0), (MULTI_STREAM.settings["load.min_query_count"], 3)])
def test_the_default_number_of_queries_in_multi_stream_keeps_three_hiccups_out_of_the_result(
    tmp_path, queries, discarded
):
    """As LoadGen says; with the least that it takes, 662, the slowest query is the result."""
    load = LoadSettings(
        min_duration_ms=1, min_query_count=queries, performance_sample_count=16, expected_latency_ns=10**9
    )
    run(Doubles(), tmp_path, MULTI_STREAM, load=load)
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["result_query_count"] == queries
    assert f"Would discard {discarded} highest latency queries." in values["early_stopping_result"]
    is_slowest = values["early_stopping_latency_ms"] == values["result_max_query_latency_ns"]
    assert is_slowest or discarded


@pytest.mark.parametrize(
    ("asked", "rate_per_s", "is_coalescing"),
    [("auto", 19_999, False), ("auto", 20_000, True), (False, 20_000, False), (True, 19_999, True)],
)
def test_overdue_queries_go_in_one_call_at_high_rates_or_as_was_asked(tmp_path, asked, rate_per_s, is_coalescing):
    """As LoadGen logs what it was told; every sample is answered either way."""
    load = LoadSettings(
        min_duration_ms=1,
        min_query_count=300,
        performance_sample_count=16,
        target_qps=rate_per_s,
        coalesce_queries=asked,
    )
    traffic = run(Doubles(), tmp_path, SERVER, load=load)
    assert (traffic.issued, traffic.answered, traffic.faults) == (300, 300, [])
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["requested_server_coalesce_queries"] is is_coalescing


def test_the_seeds_of_the_round_are_in_force(tmp_path):
    run(Doubles(), tmp_path)
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["effective_qsl_rng_seed"] == 3066443479025735752
    assert values["effective_sample_index_rng_seed"] == 10688027786191513374
    assert values["effective_schedule_rng_seed"] == 14962580496156340209


@pytest.mark.thorough("engines", but=["frozen"])  # the other looks through all that the tests' process keeps
@pytest.mark.parametrize("is_frozen", [False, True], ids=["not frozen", "frozen"])
def test_a_test_leaves_the_garbage_collector_as_its_caller_had_it(tmp_path, is_frozen):
    """Tests and users freeze what they keep: thawed, every later collection walks through all of it."""
    kept = gc.get_freeze_count() > 0
    gc.freeze() if is_frozen else gc.unfreeze()
    gc.disable()
    try:
        run(Doubles(), tmp_path)
        assert (gc.get_freeze_count() > 0) is is_frozen
        assert not gc.isenabled()
    finally:
        gc.enable()
        if kept:
            gc.freeze()
