"""Samples as numbers to nodes that have the data; nodes are threads of this process, so that Ray is not needed."""

import logging
import os
from contextlib import contextmanager
from pathlib import Path

import networked
import pytest
from networked import Kept, numbered

from mlbench import Samples
from mlbench.cluster.addresses import Address
from mlbench.cluster.cluster_engine import ClusterEngine, NumberedNode
from mlbench.cluster.dialing import Dialer, ask_node
from mlbench.cluster.nodes_engine import FoundNodes
from mlbench.cluster.placed_nodes import Placement
from mlbench.contracts.scenario import LoadSettings
from mlbench.errors import UsageError
from mlbench.execution.cores import Core
from mlbench.execution.variations import Variation
from mlbench.loadgen.drive import drive
from mlbench.loadgen.network import Network
from mlbench.loadgen.scenarios import SERVER
from mlbench.loadgen.settings import Mode, Seeds, Test
from mlbench.loadgen.watchdog import ProgressCallbacks
from mlbench.records.job_spec import JobSpec


class Standing(ClusterEngine):
    """Nodes that stand at addresses, placed by the test."""

    addresses = ()

    def _find_nodes(self):
        dialer = Dialer(token=networked.TOKEN, tls=None)
        places = [Address.parse(text) for text in self.addresses]
        nodes = [NumberedNode(each, ask_node(each, dialer)) for each in places]
        return FoundNodes(nodes=nodes, dialer=dialer, connections=1)

    def record(self):
        raise AssertionError("it has no cluster")


def standing(addresses):
    fields = {"workload": "numbers", "backend": "doubling", "scenario": "Server", "profile": "mini", "tier": "smoke"}
    job = JobSpec(**fields, weights="trained", precision="fp32", settings={}, folder="/")
    placement = Placement(count=len(addresses), cluster="auto", job={}, builder="", describer="")
    engine = Standing(job, networked.model(), networked.Numbers(), placement)
    engine.addresses = addresses
    return engine


@contextmanager
def two_nodes(environment, builder):
    """Return an engine over two nodes that have the data."""
    named = [networked.config(environment, name, builder=builder) for name in ("north", "south")]
    with networked.nodes(*(each.model_copy(update={"has_data": True}) for each in named)) as addresses:
        engine = standing(addresses)
        with engine:
            yield engine


@pytest.fixture
def two(environment):
    with two_nodes(environment, "loading") as engine:
        yield engine


@pytest.fixture
def two_of_two(environment, monkeypatch):
    """Return an engine over two nodes that have two instances each, whatever cores this machine has."""
    allowed = sorted(os.sched_getaffinity(0))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr("mlbench.execution.instances.engine.cores_for", lambda count: [Core(0, (allowed[0],))] * count)
    with two_nodes(environment, "in_instances") as engine:
        yield engine


def test_nodes_load_samples_themselves_and_answer_their_numbers(two):
    two.library.load(range(40))
    two.warm_up(numbered(1))
    reply = Kept()
    two.submit(Samples(range(1000, 1040), range(40), two.library), reply)
    reply.wait(40)
    assert reply.answers == {1000 + number: 2 * number for number in range(40)}
    two.statistics()
    assert sum(each.samples for each in two.reached_nodes()) == 40


@pytest.mark.thorough("network")
def test_a_node_may_have_several_instances_which_load_samples_and_answer(two_of_two):
    two_of_two.library.load(range(40))
    two_of_two.warm_up(numbered(4))
    two_of_two.statistics()
    reply = Kept()
    two_of_two.submit(Samples(range(1000, 1040), range(40), two_of_two.library), reply)
    reply.wait(40)
    assert reply.answers == {1000 + number: 2 * number for number in range(40)}
    counts = [each.counted for each in two_of_two.statistics().by_instance]
    assert [each.instances for each in counts] == [2, 2]
    assert sum(part.counted.samples for each in counts for part in each.by_instance) == 40
    assert two_of_two.runtime().device == "cpu"


@pytest.mark.thorough("network")
def test_samples_made_of_others_are_made_in_all_instances_of_all_nodes(two_of_two):
    """Sample 3 is read as sample 2: its answer is 4, whichever instance gives it."""
    two_of_two.library.load(range(4))
    two_of_two.warm_up(numbered(4))
    changed = two_of_two.vary({3: Variation(base=2)})
    reply = Kept()
    two_of_two.submit(Samples(range(2000, 2040), [3] * 40, changed), reply)
    reply.wait(40)
    assert set(reply.answers.values()) == {4}


def test_a_sample_that_no_node_has_loaded_fails_and_is_not_answered(two, caplog):
    caplog.set_level(logging.CRITICAL)
    two.library.load([1])
    two.warm_up(numbered(1))
    reply = Kept()
    two.submit(Samples([1002], [2], two.library), reply)
    reply.wait(1)
    assert reply.answers == {}
    assert "sample 2 is not loaded" in reply.failures[1002]


def test_a_node_with_other_data_is_named_before_anything_runs(environment):
    config = networked.config(environment, builder="with_other_data").model_copy(update={"has_data": True})
    with networked.nodes(config) as addresses:
        engine = standing(addresses)
        with (
            pytest.raises(UsageError, match=r"node node-1 .* does not have the data of this machine: other numbers"),
            engine,
        ):
            pass


def test_a_cluster_that_is_lost_while_no_sample_is_open_makes_the_run_invalid_and_is_named(two, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    two.library.load(range(64))
    two.warm_up(numbered(1))
    load = LoadSettings(performance_sample_count=64, min_duration_ms=100, min_query_count=10, target_qps=100.0)
    test = Test(
        scenario=SERVER,
        mode=Mode.PERFORMANCE,
        load=load,
        reply=networked.Doubles.reply,
        seeds=Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4),
        server_latency_ms=1000.0,
        is_remote=True,
    )
    two._lose_placed(None, "the Ray cluster (auto) is gone")  # noted before the test, which has no sample yet
    network = Network(watch=two.watch)
    traffic = drive(test, two, networked.Numbers(), tmp_path / "logs", ProgressCallbacks(), network=network)
    assert traffic.faults[0] == "the Ray cluster (auto) is gone"
