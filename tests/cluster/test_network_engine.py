"""An engine over nodes that are threads of this process, through real sockets."""

import re
import tempfile
import time
from pathlib import Path

import networked
import numpy as np
import pytest
from invoking import invoke
from networked import Kept, config, engine_for, nodes, numbered

from mlbench import UsageError
from mlbench.execution.processes.failures import ProcessEndedError
from mlbench.settings.layers import GuardedSetting


@pytest.fixture(autouse=True)
def engines():
    networked.DoublingBackend.engines = found = []
    return found


def test_two_nodes_answer_all_samples_with_their_own_ids(environment, token_file):
    with nodes(config(environment, "a"), config(environment, "b")) as addresses:
        with engine_for(addresses, token_file) as engine:
            engine.warm_up(numbered(1, 2))
            reply = Kept()
            engine.submit(numbered(*range(100)), reply)
            reply.wait(100)
            assert reply.answers == {1000 + number: 2 * number for number in range(100)}
            assert engine.statistics().samples == 100
            shares = [each.samples for each in engine.record().nodes]
            assert sum(shares) == 100
            assert min(shares) > 0


def test_samples_of_two_queries_do_not_travel_together(environment, token_file, engines):
    with nodes(config(environment)) as addresses, engine_for(addresses, token_file) as engine:
        reply = Kept()
        for number in range(40):
            engine.submit(numbered(number), reply)
        reply.wait(40)
        assert sorted(engines[0].together) == [[number] for number in range(40)]


def test_one_index_with_two_contents_is_two_samples(environment, token_file):
    class Shifted(networked.Numbers):
        def sample(self, index):
            return np.array([index + 500])

    with nodes(config(environment)) as addresses, engine_for(addresses, token_file) as engine:
        reply = Kept()
        engine.submit(numbered(7), reply)
        shifted = numbered(7)
        shifted.ids, shifted.dataset = (2000,), Shifted()
        engine.submit(shifted, reply)
        reply.wait(2)
        assert reply.answers == {1007: 14, 2000: 1014}


def test_each_node_says_its_name_over_the_network(environment, token_file):
    with nodes(config(environment, "north"), config(environment, "south")) as addresses:
        with engine_for(addresses, token_file) as engine:
            assert engine.names() == ["north", "south"]
            assert all(each.round_trip_ns > 0 for each in engine.record().nodes)


def test_a_flush_reaches_the_engine_behind_the_samples(environment, token_file, engines):
    with nodes(config(environment)) as addresses, engine_for(addresses, token_file) as engine:
        reply = Kept()
        engine.submit(numbered(1), reply)
        engine.flush()
        reply.wait(1)
        assert engines[0].flushed.wait(30)


def test_an_engine_that_raises_fails_its_samples_with_the_reason(environment, token_file):
    with nodes(config(environment)) as addresses, engine_for(addresses, token_file) as engine:
        reply = Kept()
        engine.submit(numbered(networked.WRONG), reply)
        reply.wait(1)
        assert reply.failures == {1000 + networked.WRONG: "ValueError: fifteen"}


def test_a_sample_that_is_answered_twice_invalidates_the_test(environment, token_file):
    with nodes(config(environment)) as addresses, engine_for(addresses, token_file) as engine:
        reply = Kept()
        engine.submit(numbered(networked.TWICE), reply)
        engine.submit(numbered(3), reply)
        reply.wait(2)
        engine.statistics()
        assert reply.answers == {1000 + networked.TWICE: 2 * networked.TWICE, 1003: 6}
        deadline_s = time.monotonic() + 10
        while not reply.invalidated and time.monotonic() < deadline_s:  # it may come on another connection
            time.sleep(0.01)
    assert reply.invalidated == [f"node node-1 ({addresses[0]}) answered a sample twice, or one that it did not have"]


def test_other_data_on_a_node_is_refused_before_anything_runs(environment, token_file):
    there = config(environment, builder="with_other_data")
    with nodes(there) as addresses, pytest.raises(UsageError, match="does not have the data of this client") as caught:
        with engine_for(addresses, token_file):
            pass
    assert "other numbers, and numbers here" in str(caught.value)


def test_what_a_node_lacks_is_said_with_its_name(environment, token_file):
    there = config(environment, "far", builder="lacking_data")
    with nodes(there) as addresses, pytest.raises(UsageError) as caught, engine_for(addresses, token_file):
        pass
    assert str(caught.value) == f"node far ({addresses[0]}): no numbers in /nowhere. Make some."


URL = "http://192.0.2.1/v1"
GUARDS = [
    GuardedSetting(key="backend.start", does="runs code", allowed=["", "serve"]),
    GuardedSetting(key="backend.url", does="opens an address", allowed=[""]),
]


@pytest.mark.parametrize("setting", [("backend.start", "id"), ("backend.url", URL)])
def test_a_clients_command_does_not_run_on_a_node(environment, token_file, setting):
    networked.asked.clear()
    there = config(environment, builder="noting", guards=GUARDS)
    with nodes(there) as addresses, pytest.raises(UsageError) as caught:
        with engine_for(addresses, token_file, settings=dict([setting])):
            pass
    assert f"{setting[0]} is {setting[1]!r}, which " in str(caught.value)
    assert "with the same --set, or with --trust: `mlbench serve`" in str(caught.value)
    assert networked.asked == []


def test_a_client_may_set_what_is_in_force_on_the_node_or_harmless(environment, token_file):
    networked.asked.clear()
    theirs = {"backend.start": "serve", "backend.url": URL, "execution.batch": 4, "workload.data": "/etc/passwd"}
    own = {"backend.url": "http://127.0.0.1/v1"}
    there = config(environment, builder="noting", guards=GUARDS, own=own)
    with nodes(there) as addresses, engine_for(addresses, token_file, settings=theirs):
        [job] = networked.asked
    assert job["settings"] == {"backend.start": "serve", "execution.batch": 4, **own}


def test_a_node_has_a_folder_of_its_own_which_goes_with_the_run(environment, token_file):
    networked.asked.clear()
    with nodes(config(environment, builder="noting")) as addresses:
        with engine_for(addresses, token_file):
            folder = Path(networked.asked[0]["folder"])  # the client says /
            assert folder.is_dir()
            assert folder.parent == Path(tempfile.gettempdir())
        deadline_s = time.monotonic() + 10
        while folder.exists() and time.monotonic() < deadline_s:  # its session ends after the client's
            time.sleep(0.01)
        assert not folder.exists()


def test_serve_guards_what_its_backend_and_the_core_mark_unless_it_trusts(monkeypatch, tmp_path):
    """With what would be in force on the node allowed."""
    served = []
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text(f'[[settings]]\nbackend.url = "{URL}"\n')
    monkeypatch.setattr("mlbench.cluster.node.serve_node", lambda config, listening, on_ready: served.append(config))
    command = ["serve", "llama2-70b", "--backend", "endpoint", "--token-file", str(tmp_path / "token")]
    for more in ([], ["--trust"]):
        assert invoke(*command, *more).exit_code == 0
    guarded, trusting = ({each.key: list(each.allowed) for each in config.guards} for config in served)
    assert guarded["backend.start"] == ["", ""]
    assert guarded["backend.url"] == ["", URL]
    assert {"backend.key_variable", "execution.cluster"} < guarded.keys()
    assert trusting == {}


def test_a_node_that_serves_a_run_refuses_another(environment, token_file):
    with nodes(config(environment)) as addresses, engine_for(addresses, token_file):
        with pytest.raises(UsageError, match=re.escape("it serves another run.")), engine_for(addresses, token_file):
            pass


def test_a_client_that_sends_more_than_a_node_holds_loses_it(environment, token_file):
    with nodes(config(environment, most_open=2)) as addresses, engine_for(addresses, token_file) as engine:
        reply = Kept()
        engine.submit(numbered(1, networked.SILENT, 3), reply)
        reply.wait(3)
        assert set(reply.failures) == {1001, 1000 + networked.SILENT, 1003}
        assert "closed the connection" in reply.failures[1001]


def test_a_lost_node_fails_what_all_nodes_have_and_what_comes_after(environment, token_file):
    with nodes(config(environment, "a"), config(environment, "b")) as addresses:
        with engine_for(addresses, token_file) as engine:
            engine.warm_up(numbered(1))
            reply, reasons = Kept(), []
            with engine.watch(reasons.append):
                engine.submit(numbered(networked.SILENT), reply)
                engine.submit(numbered(networked.SILENT), reply)
                engine.nodes[1]._samples[0].close()
                engine._lose(engine.nodes[1], "closed the connection")
                reply.wait(2)
                engine.submit(numbered(5), reply)
                reply.wait(1)
            lost = f"node b ({addresses[1]}) closed the connection"
            assert reasons == [lost]
            assert set(reply.failures.values()) == {lost}
            assert engine.record().nodes[1].ended == lost
            with pytest.raises(ProcessEndedError, match="node b"):
                engine.warm_up(numbered(1))
