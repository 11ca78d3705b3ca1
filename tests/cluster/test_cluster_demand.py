"""What a run may ask of a cluster, before Ray is spoken to."""

import pytest

from mlbench import EnginePlan, UnavailableError, UsageError
from mlbench.cluster import cluster_check
from mlbench.cluster.cluster_check import check_cluster
from mlbench.cluster.ray_process import _check_answers, _share_of_node
from mlbench.loadgen.scenarios import SERVER


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"nodes": 2, "instances": "auto"}, "execution.instances is auto, which is for one machine"),
        ({"nodes": 2, "devices": "0,1"}, "each node has the devices that Ray gives it"),
        ({"nodes": 2, "batching": "inline"}, "where one thread asks and answers"),
        ({"nodes": 0, "cluster": "10.0.0.1:6379"}, "and execution.nodes is 0"),
        ({"nodes": 2, "cluster": "10.0.0.1:x"}, "is not the address of a node"),
    ],
)
def test_what_does_not_go_together_with_nodes_is_refused(plan, said):
    with pytest.raises(UsageError, match=said):
        check_cluster(EnginePlan(**plan), SERVER, has_network=False)


def test_nodes_of_a_cluster_and_of_the_network_division_are_refused_together():
    with pytest.raises(UsageError, match="--network names other nodes"):
        check_cluster(EnginePlan(nodes=2), SERVER, has_network=True)


def test_nodes_without_ray_are_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(cluster_check, "version_of", lambda name: None)
    with pytest.raises(UnavailableError, match="ray is not installed") as refused:
        check_cluster(EnginePlan(nodes=2), SERVER, has_network=False)
    assert refused.value.hint == "pip install 'mlbench-inference[cluster]'"


def test_an_address_where_nothing_listens_is_refused_before_ray_tries():
    with pytest.raises(UsageError, match=r"no Ray cluster answers at 127\.0\.0\.1:9: Connection refused"):
        _check_answers("127.0.0.1:9")


def nodes(*resources):
    return [{"Alive": True, "Resources": each} for each in resources]


def test_a_node_is_asked_for_whole_and_those_with_most_accelerators_first():
    there = nodes({"CPU": 64.0}, {"CPU": 32.0, "GPU": 8.0}, {"CPU": 48.0, "GPU": 4.0}, {"memory": 1.0})
    assert _share_of_node(there, 2) == {"CPU": 32, "GPU": 4}
    assert _share_of_node(there, 3) == {"CPU": 32}


def test_dead_nodes_and_those_without_processors_do_not_count():
    there = [*nodes({"CPU": 2.0}, {"CPU": 0.0}), {"Alive": False, "Resources": {"CPU": 2.0}}]
    with pytest.raises(UsageError, match=r"execution\.nodes is 2, and the cluster has 1 with processors"):
        _share_of_node(there, 2)
