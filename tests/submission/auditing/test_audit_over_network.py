"""``mlbench audit`` of a run whose samples travelled: its nodes, and no others, answer the tests too."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlbench.cluster.demand import NetworkDemand
from mlbench.errors import UsageError
from mlbench.records.job_spec import NetworkSpec
from mlbench.records.run_record import RunRecord
from mlbench.submission.auditing.plan import AuditPlan, with_nodes

MLBENCH = [sys.executable, "-m", "mlbench"]
SERVED = ("brief", "--backend", "null", "--set", "backend.service_ms=2")
NAMES = ("north", "south")
STORED = Path(__file__).parents[2] / "data/records/nodes/resnet50-onnxruntime-Offline-network.json"


@contextmanager
def served(installed, token_file):
    """Start two nodes, and yield the options that name them."""
    started, words = [], ["--token-file", str(token_file)]
    try:
        for name in NAMES:
            command = [*MLBENCH, "serve", *SERVED, "--listen", "127.0.0.1:0", "--name", name, *words[:2]]
            node = subprocess.Popen(command, env=os.environ | installed, stdout=subprocess.PIPE, text=True)
            started.append(node)
            words += ["--network", node.stdout.readline().rsplit(" ", 1)[1].rstrip(".\n")]
        yield words
    finally:
        for node in started:
            node.terminate()
            node.communicate(timeout=30)


@pytest.mark.thorough("network")
def test_the_runs_nodes_answer_the_test_and_its_log_says_so(mlbench, installed, tmp_path):
    load = ("--scenario", "Offline", "--tier", "valid", "--set", "load.target_qps=2000")
    with served(installed, tmp_path / "token") as nodes:
        done = mlbench("run", *nodes, *load, "--results", tmp_path / "results", "--json")
        (record,) = json.loads(done.stdout)
        assert record["verdict"]["is_valid"], done.stderr
        audit = ("audit", tmp_path / "results" / record["run_id"], "--test", "TEST05")
        done = mlbench(*audit)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert "was answered by nodes north, south. Name them with --network." in done.stderr
        done = mlbench(*audit, *nodes, "--json")
    (made,) = json.loads(done.stdout)["made"]
    test = json.loads(Path(made["folder"], "record.json").read_text())
    assert [each["node"]["name"] for each in test["network"]["nodes"]] == [*NAMES]
    assert all(each["samples"] > 0 for each in test["network"]["nodes"])
    log = Path(made["folder"], "TEST05/performance/run_1/mlperf_log_detail.txt").read_text()
    assert '"Network SUT: north, south"' in log


@pytest.fixture
def record():
    """Return the record of a run that north and south answered."""
    return RunRecord.model_validate_json(STORED.read_text())


def with_those_of(record, alter=tuple, **spec):
    """Return the plan of an audit of a run on its nodes, altered."""
    plan = AuditPlan(record=record, folder=Path("run"), place=Path("audits"), tests=())
    nodes = tuple(alter(each.node for each in record.network.nodes))
    addresses = tuple(each.address for each in record.network.nodes)
    demand = NetworkDemand(spec=NetworkSpec(**{"nodes": addresses, "token_file": "", **spec}), nodes=nodes)
    return with_nodes(plan, demand)


def moved(nodes):
    north, south = nodes
    return north, south.model_copy(update={"environment": south.environment.model_copy(update={"machine": "another"})})


def test_the_runs_nodes_in_any_order_are_taken(record):
    assert with_those_of(record, lambda nodes: [*nodes][::-1]).network.nodes[0].name == "south"


@pytest.mark.parametrize(
    ("alter", "spec", "reason"),
    [
        (lambda nodes: [*nodes][:1], {}, "was answered by nodes north, south, and north are named."),
        (moved, {}, "node south is on another machine than in run"),
        (tuple, {"connections": 3}, "had 2 connections to a node, but 3 are requested."),
        (tuple, {"certificate": "node.pem"}, "had no TLS, but it is requested."),
    ],
    ids=["names", "machine", "connections", "encryption"],
)
def test_other_nodes_or_another_way_to_them_are_refused(record, alter, spec, reason):
    with pytest.raises(UsageError, match=reason):
        with_those_of(record, alter, **spec)


def test_nodes_for_a_run_without_a_network_are_refused(record, a_run):
    plan = AuditPlan(record=a_run(), folder=Path("run"), place=Path("audits"), tests=())
    assert with_nodes(plan, None) is plan
    demand = with_those_of(record).network
    with pytest.raises(UsageError, match="was made without a network, and nodes are named"):
        with_nodes(plan, demand)
