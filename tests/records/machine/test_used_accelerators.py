"""How many accelerators a run on several nodes used: of a stored run on a Ray cluster, as if its nodes had some."""

from pathlib import Path

import pytest

from mlbench.contracts.statistics import EngineStatistics, InstanceStatistics
from mlbench.records.machine.accelerators import Accelerator
from mlbench.records.machine.used_accelerators import count_used_accelerators
from mlbench.records.run_record import RunRecord

UNKNOWN = {"driver": "", **dict.fromkeys(("power_limit_w", "max_clock_mhz", "ecc", "mig"))}
STORED = Path(__file__).parents[2] / "data" / "records" / "nodes" / "resnet50-onnxruntime-Offline-cluster.json"


@pytest.fixture
def on_two_nodes():
    """Return a run on two nodes with so many GPUs each, which had so many instances each."""
    record = RunRecord.model_validate_json(STORED.read_text())

    def on_two_nodes(gpus, instances):
        devices = [Accelerator(name="GPU", memory_bytes=1, **UNKNOWN)] * gpus
        here = record.environment.model_copy(update={"accelerators": devices})
        nodes = [
            each.model_copy(update={"node": each.node.model_copy(update={"environment": here})})
            for each in record.cluster.nodes
        ]
        counted = EngineStatistics(instances=instances)
        changes = {
            "environment": here,
            "cluster": record.cluster.model_copy(update={"nodes": nodes}),
            "engine": EngineStatistics(instances=2, by_instance=[InstanceStatistics(counted=counted)] * 2),
            "runtime": record.runtime.__class__(device="cuda"),
        }
        return record.model_copy(update=changes)

    return on_two_nodes


@pytest.mark.parametrize(
    ("gpus", "instances", "used"),
    [(8, None, 2), (8, 8, 16), (4, 8, 8)],
    ids=["one engine a node", "one instance a GPU", "two instances share a GPU"],
)
def test_each_node_uses_those_of_its_instances(on_two_nodes, gpus, instances, used):
    assert count_used_accelerators(on_two_nodes(gpus, instances)) == used
