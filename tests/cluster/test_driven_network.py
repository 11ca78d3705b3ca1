"""LoadGen's QDL over real sockets; nodes are threads of this process."""

import logging
import threading
import time

import mlperf_loadgen
import networked
import numpy as np
import pytest
from networked import config, engine_for, nodes, numbered

from mlbench import ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen import completer
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import read_accuracy, read_detail
from mlbench.loadgen.network import Network
from mlbench.loadgen.scenarios import OFFLINE, SERVER
from mlbench.loadgen.settings import Mode, Seeds, Test
from mlbench.loadgen.watchdog import ProgressCallbacks

SEEDS = Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4)


def drive_over(engine, folder, scenario, *, mode=Mode.PERFORMANCE, stuck=None, **load):
    settings = {"min_duration_ms": 100, "min_query_count": 200, "target_qps": 500.0, "reply_checks": 50} | load
    test = Test(
        scenario=scenario,
        mode=mode,
        load=LoadSettings(performance_sample_count=64, **settings),
        reply=ReplySpec(dtype="int64", shape=(1,)),
        seeds=SEEDS,
        server_latency_ms=1000.0,
        is_remote=True,
    )
    network = Network(names=engine.names, watch=engine.watch, threads=engine.threads)
    callbacks = ProgressCallbacks(**({"stuck": stuck} if stuck else {}))
    return drive(test, engine, networked.Numbers(), folder, callbacks, network=network)


@pytest.mark.parametrize("scenario", [SERVER, OFFLINE], ids=lambda each: each.name)
def test_loadgen_drives_two_nodes_as_one_system(environment, token_file, tmp_path, scenario):
    with nodes(config(environment, "north"), config(environment, "south")) as addresses:
        with engine_for(addresses, token_file) as engine:
            engine.warm_up(numbered(1))
            traffic = drive_over(engine, tmp_path / "logs", scenario)
            shares = [each.samples for each in engine.record().nodes]
    assert traffic.faults == []
    assert traffic.issued == traffic.answered >= 200
    assert shares == [0, 0], "nothing was looked at"
    values = read_detail(tmp_path / "logs" / "mlperf_log_detail.txt").values
    assert values["sut_name"] == "Network SUT: north, south"
    kept = read_accuracy(tmp_path / "logs" / "mlperf_log_accuracy.json")
    assert kept
    assert all(np.frombuffer(reply.data, np.int64)[0] == 2 * reply.index for reply in kept)


def test_an_answer_goes_to_loadgen_on_the_thread_that_received_it(environment, token_file, tmp_path, monkeypatch):
    told = []

    def complete(responses, *more):
        told.append(threading.get_ident())
        mlperf_loadgen.QuerySamplesComplete(responses, *more)

    monkeypatch.setattr(completer, "QuerySamplesComplete", complete)
    with nodes(config(environment, "north"), config(environment, "south")) as addresses:
        with engine_for(addresses, token_file, connections=2) as engine:
            for number in range(2):  # the threads have then reported to an earlier test
                assert drive_over(engine, tmp_path / f"logs-{number}", SERVER).faults == []
            assert set(told) == set(engine.threads())
            assert len(set(told)) == 4


def test_an_accuracy_test_over_the_network_logs_every_sample(environment, token_file, tmp_path):
    with nodes(config(environment)) as addresses, engine_for(addresses, token_file) as engine:
        assert drive_over(engine, tmp_path / "logs", OFFLINE, mode=Mode.ACCURACY).faults == []
    replies = read_accuracy(tmp_path / "logs" / "mlperf_log_accuracy.json")
    assert {reply.index for reply in replies} == set(range(900))


def lose_after(engine, answers):
    """Cut a connection for samples when a node has answered so many."""

    def cut():
        while engine.nodes[1]._occupancy.take().samples < answers:
            time.sleep(0.01)
        engine.nodes[1]._samples[0]._line.shutdown(2)

    threading.Thread(target=cut, daemon=True).start()


@pytest.mark.thorough("network", but=["Server"])
@pytest.mark.parametrize("scenario", [SERVER, OFFLINE], ids=lambda each: each.name)
def test_a_connection_that_is_cut_ends_a_long_test_and_names_the_node(
    environment, token_file, tmp_path, scenario, caplog
):
    """The test would take a minute; LoadGen stops when enough queries are held."""
    caplog.set_level(logging.CRITICAL)
    long = {"min_duration_ms": 60_000, "min_query_count": 30_000, "target_qps": 3000.0}
    stuck = []
    with nodes(config(environment, "a"), config(environment, "b", most_open=100_000)) as addresses:
        with engine_for(addresses, token_file) as engine:
            lose_after(engine, 5)
            began_s = time.monotonic()
            traffic = drive_over(engine, tmp_path / "logs", scenario, stuck=stuck.append, **long)
            took_s = time.monotonic() - began_s
            left = {each.ident for each in threading.enumerate()}
            assert left.issuperset(engine.threads()), "one that has reported to LoadGen must not end in a test"
    assert took_s < 40
    assert any(f"node b ({addresses[1]}) " in fault for fault in traffic.faults)
    values = read_detail(tmp_path / "logs" / "mlperf_log_detail.txt").values
    assert values["sut_name"] == "Network SUT: a, b"
