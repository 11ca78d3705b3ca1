"""`mlbench run --set execution.nodes=N` against a Ray cluster on this machine, each of whose nodes is a raylet.

Ray gives a node 30 s to start, whatever else the machine does, so that these have a session of their own
(``nox -s cluster``).
"""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from networked import started_test
from ray_cluster import ENVIRONMENT, ray_cluster

from mlbench.execution.cores import physical_cores

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif("MLBENCH_TEST_CLUSTER" not in os.environ, reason="nox -s cluster"),
]

HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""Where these tests are a shell's job in the background, SIGINT is ignored, and so it is in their children."""
MLBENCH = [sys.executable, "-c", f"{HEEDING}from mlbench.cli import main; main()"]
FEW = ["--tier", "smoke", "--power", "none", "--json"]
TWO_INSTANCES = ["--set", "execution.instances=2"]
ENDS_WITHIN_S = 60
"""Of a run of two minutes: a bound for a busy machine, where ten seconds are the aim."""
LONG = ["--set", "load.target_qps=100", "--set", "load.min_duration_ms=120000", "--scenario", "Server"]


@pytest.fixture(scope="module")
def environment_of_commands(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    return {**os.environ, **ENVIRONMENT, "HOME": str(home), "MLBENCH_RESULTS": str(home / "results")}


@pytest.fixture(scope="module")
def cluster(environment_of_commands):
    with ray_cluster(environment_of_commands) as started:
        yield started


@pytest.fixture
def scene(environment_of_commands, tmp_path, cache):
    return {**environment_of_commands, "MLBENCH_RESULTS": str(tmp_path / "results"), "MLBENCH_CACHE": str(cache)}


def command_of(cluster, nodes, *more):
    asked = ["--set", f"execution.nodes={nodes}", "--set", f"execution.cluster={cluster.address}"]
    return [*MLBENCH, "run", "resnet50", *asked, *more, *FEW]


def run(scene, words):
    return subprocess.run(words, env=scene, capture_output=True, check=False, text=True, timeout=300)


def test_two_nodes_give_the_answers_and_the_accuracy_of_one(scene, cluster, tmp_path):
    answers = []
    for nodes in (1, 2):
        done = run(scene, command_of(cluster, nodes, "--backend", "onnxruntime", "--scenario", "Offline"))
        assert done.returncode == 0, done.stderr
        [record] = json.loads(done.stdout)
        file = tmp_path / "results" / record["run_id"] / "accuracy" / "mlperf_log_accuracy.json"
        replies = {reply["qsl_idx"]: reply["data"] for reply in json.loads(file.read_text())}
        answers.append((record["accuracy"]["scores"], replies))
    assert answers[0] == answers[1]
    reached = record["cluster"]["nodes"]
    assert record["network"] is None
    assert record["entry"] is None
    assert all(each["samples"] > 0 and each["device"] == "cpu" for each in reached)
    assert len({each["node"]["name"] for each in reached}) == 2
    assert sum(each["samples"] for each in reached) == record["samples"]["issued"]


@pytest.mark.skipif(len(physical_cores()) < 2, reason="two instances want two cores")
def test_two_instances_on_each_of_two_nodes_answer_a_run(scene, cluster):
    words = command_of(cluster, 2, "--backend", "onnxruntime", "--scenario", "Offline", *TWO_INSTANCES)
    done = run(scene, words)
    assert done.returncode == 0, done.stderr
    [record] = json.loads(done.stdout)
    assert [each["instances"] for each in record["engine"]["by_instance"]] == [2, 2]
    assert record["accuracy"]["is_met"]
    assert sum(each["samples"] for each in record["cluster"]["nodes"]) == record["samples"]["issued"]


def raylet_of_other_node(cluster):
    os.kill(cluster.raylets[1], signal.SIGKILL)


def head(cluster):
    os.kill(cluster.head, signal.SIGKILL)


def engine_in(cluster):
    """Return the process of one of the nodes' engines."""
    [engine, *_] = [
        each
        for raylet in cluster.raylets
        for each in psutil.Process(raylet).children(recursive=True)
        if "mlbench.cluster" in each.cmdline()
    ]
    return engine


def engine_of_other_node(cluster):
    engine_in(cluster).kill()


def stopped_engine(cluster):
    engine_in(cluster).suspend()


@pytest.mark.parametrize(
    ("kill", "said"),
    [
        (engine_of_other_node, "node node-"),
        (stopped_engine, "node node-"),
        (raylet_of_other_node, "node node-"),
        (head, "the Ray cluster ("),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_is_killed_or_stopped_ends_the_run_long_before_its_time_and_is_named(scene, tmp_path, kill, said):
    with ray_cluster(scene) as cluster:
        words = command_of(cluster, 2, "--backend", "null", "--set", "backend.service_ms=2", "--no-accuracy", *LONG)
        process = subprocess.Popen(words, env=scene, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        folder = started_test(tmp_path / "results")
        killed_s = time.monotonic()
        kill(cluster)
        said_there, errors = process.communicate(timeout=100)
    assert process.returncode == 1, errors
    [record] = json.loads(said_there)
    if record["status"] == "failed":  # LoadGen had not stopped after two seconds
        assert said in record["failure"]["message"]
    else:
        assert not record["verdict"]["is_valid"]
        [fault] = [rule["fix"] for rule in record["verdict"]["rules"] if rule["rule"] == "replies_sound"]
        assert said in fault
        assert any(said in node["ended"] for node in record["cluster"]["nodes"])
    assert time.monotonic() - killed_s < ENDS_WITHIN_S
    results = tmp_path / "results" / record["run_id"]
    assert (results / folder.name / "mlperf_log_detail.txt").stat().st_size


def test_an_interrupted_run_leaves_no_process_and_the_cluster_stays(scene, cluster, tmp_path):
    words = command_of(cluster, 2, "--backend", "null", "--set", "backend.service_ms=2", "--no-accuracy", *LONG)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, env=scene, **pipes)
    started_test(tmp_path / "results")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    done = run(scene, command_of(cluster, 2, "--backend", "null", "--no-accuracy", "--scenario", "Offline"))
    assert done.returncode == 0, done.stderr  # the nodes were given back


def test_more_nodes_than_the_cluster_has_are_refused_in_a_line(scene, cluster):
    done = run(scene, command_of(cluster, 3, "--backend", "null", "--scenario", "Offline"))
    assert done.returncode == 2
    assert "execution.nodes is 3, and the cluster has 2" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_local_cluster_has_one_node_listens_on_loopback_and_ends_with_the_run(scene, tmp_path):
    words = [*MLBENCH, "run", "resnet50", "--backend", "null", "--no-accuracy", "--scenario", "Offline", *FEW]
    words += ["--set", "execution.nodes=1", "--set", "execution.cluster=local"]
    own = {name: value for name, value in scene.items() if name not in ENVIRONMENT} | {"HOME": str(tmp_path)}
    done = run(own, words)
    assert done.returncode == 0, done.stderr
    [record] = json.loads(done.stdout)
    [node] = record["cluster"]["nodes"]
    assert node["address"].startswith("127.0.0.1:")
    assert not [
        each for each in psutil.process_iter(["environ"]) if f"'HOME': '{tmp_path}'" in str(each.info["environ"])
    ]
