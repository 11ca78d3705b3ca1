"""`mlbench run --network` against nodes in processes of their own, as a user starts them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import networked
import psutil
import pytest
from invoking import invoke

pytestmark = pytest.mark.slow

MLBENCH = [sys.executable, "-m", "mlbench"]
FEW = ["--tier", "smoke", "--power", "none", "--json"]
ENDS_WITHIN_S = 40
"""Of a run of two minutes: a bound for a busy machine, where ten seconds are the aim."""
DELAYED = ["--set", "backend.service_ms=2"]


@pytest.fixture
def scene(tmp_path, token_file, cache):
    """Return the environment of commands, with a secret and results of their own."""
    return {**os.environ, "MLBENCH_RESULTS": str(tmp_path / "results"), "MLBENCH_CACHE": str(cache)}


class Served:
    """A process of ``mlbench serve``."""

    def __init__(self, scene, token_file, workload, *more):
        command = [*MLBENCH, "serve", workload, "--listen", "127.0.0.1:0", "--token-file", str(token_file), *more]
        self.process = subprocess.Popen(command, env=scene, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.address = line.rsplit(" ", 1)[1].rstrip(".\n")

    @property
    def worker(self):
        """Return the process of the run that it serves."""
        [child] = psutil.Process(self.process.pid).children()
        return child


@contextmanager
def served(scene, token_file, *nodes):
    started = [Served(scene, token_file, *words) for words in nodes]
    try:
        yield started
    finally:
        for node in started:
            node.process.terminate()
        for node in started:
            node.process.stdout.close()
            node.process.wait(30)


def command_of(token_file, addresses, *more):
    named = [word for address in addresses for word in ("--network", address)]
    return [*MLBENCH, "run", *named, "--token-file", str(token_file), *more]


def run(scene, token_file, addresses, *more):
    words = command_of(token_file, addresses, *more)
    return subprocess.run(words, env=scene, capture_output=True, check=False, text=True, timeout=550)


@pytest.mark.thorough("network")
def test_two_nodes_give_the_answers_and_the_accuracy_of_one(scene, token_file, tmp_path):
    nodes = [("resnet50", "--backend", "onnxruntime", "--name", name) for name in ("north", "south")]
    logs = []
    with served(scene, token_file, *nodes) as started:
        for addresses in ([started[0].address], [node.address for node in started]):
            done = run(scene, token_file, addresses, "--scenario", "Offline", *FEW)
            assert done.returncode == 0, done.stderr
            [record] = json.loads(done.stdout)
            replies = json.loads(
                (tmp_path / "results" / record["run_id"] / "accuracy" / "mlperf_log_accuracy.json").read_text()
            )
            logs.append((record["accuracy"]["scores"], {reply["qsl_idx"]: reply["data"] for reply in replies}))
    assert logs[0] == logs[1]
    assert record["entry"] == {"model": "resnet50", "variant": "99", "category": "datacenter", "division": "network"}
    names = [each["node"]["name"] for each in record["network"]["nodes"]]
    assert names == ["north", "south"]
    assert all(each["samples"] > 0 for each in record["network"]["nodes"])
    assert sum(each["samples"] for each in record["network"]["nodes"]) == record["samples"]["issued"]
    log = (tmp_path / "results" / record["run_id"] / "performance" / "mlperf_log_detail.txt").read_text()
    assert '"Network SUT: north, south"' in log


def kill(node):
    node.worker.kill()


def stop(node):
    node.worker.suspend()


CLOSED_OR_RESET = "closed the connection|is not reached any more: Connection reset"
"""A process that is killed with data unread resets its connections, and else closes them."""


@pytest.mark.parametrize(
    ("how", "said"),
    [(kill, CLOSED_OR_RESET), pytest.param(stop, "did not answer for", marks=pytest.mark.thorough("network"))],
)
def test_a_node_that_is_killed_or_stopped_ends_the_run_and_is_named(scene, token_file, tmp_path, how, said):
    nodes = [("resnet50", "--backend", "null", "--name", name) for name in ("north", "south")]
    load = ["--set", "load.target_qps=100", "--set", "load.min_duration_ms=120000", "--scenario", "Server"]
    with served(scene, token_file, *nodes) as started:
        words = command_of(token_file, [node.address for node in started], *load, *DELAYED, "--no-accuracy", *FEW)
        process = subprocess.Popen(words, env=scene, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        folder = networked.started_test(tmp_path / "results")
        worker = started[1].worker
        how(started[1])
        lost_s = time.monotonic()
        said_there, errors = process.communicate(timeout=100)
        took_s = time.monotonic() - lost_s
        if worker.is_running():
            worker.send_signal(signal.SIGKILL)
    assert process.returncode == 1
    assert took_s < ENDS_WITHIN_S, took_s
    [record] = json.loads(said_there)
    text = json.dumps(record)
    assert f"node south ({started[1].address})" in text, errors
    assert re.search(said, text), text
    assert record["status"] == "failed" or not record["verdict"]["is_valid"]
    results = tmp_path / "results" / record["run_id"]
    assert (results / folder.name / "mlperf_log_detail.txt").stat().st_size


@pytest.mark.thorough("network")
def test_a_node_that_stands_still_for_a_moment_is_not_lost(scene, token_file, tmp_path):
    load = ["--set", "load.target_qps=100", "--set", "load.min_duration_ms=6000", "--scenario", "Server"]
    with served(scene, token_file, ("resnet50", "--backend", "null", "--name", "north")) as [node]:
        words = command_of(token_file, [node.address], *load, *DELAYED, "--no-accuracy", *FEW)
        with subprocess.Popen(words, env=scene, stdout=subprocess.PIPE, text=True) as process:
            networked.started_test(tmp_path / "results")
            node.worker.suspend()
            time.sleep(2)
            node.worker.resume()
            said_there, _ = process.communicate(timeout=100)
    [record] = json.loads(said_there)
    assert record["status"] == "completed"
    [reached] = record["network"]["nodes"]
    assert reached["ended"] == ""
    assert reached["samples"] == record["samples"]["issued"]
    [sound] = [rule for rule in record["verdict"]["rules"] if rule["rule"] == "replies_sound"]
    assert sound["passed"]


@pytest.mark.thorough("network")
def test_a_node_serves_one_run_after_another_and_a_killed_one_does_not_hinder_the_next(scene, token_file):
    with served(scene, token_file, ("resnet50", "--backend", "null")) as [node]:
        first = node.worker.pid
        node.worker.kill()
        done = run(scene, token_file, [node.address], "--scenario", "Offline", "--no-accuracy", *FEW)
        assert json.loads(done.stdout)[0]["status"] == "completed", done.stderr
        assert node.worker.pid != first


@pytest.mark.thorough("network")
def test_tls_is_used_where_a_certificate_is_given(scene, token_file, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out {certificate}"
    )
    request += " -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(request.split(), check=True, capture_output=True)
    words = ("resnet50", "--backend", "null", "--certificate", str(certificate), "--key", str(key))
    with served(scene, token_file, words) as [node]:
        plain = run(scene, token_file, [node.address], "--no-accuracy", *FEW)
        assert plain.returncode == 2
        assert "does not speak mlbench's protocol" in plain.stderr
        done = run(
            *(scene, token_file, [node.address], "--scenario", "Offline", "--no-accuracy", *FEW),
            *("--certificate", str(certificate)),
        )
        [record] = json.loads(done.stdout)
        assert record["network"]["is_encrypted"]
        assert record["verdict"]["is_valid"]


def assert_refused(scene, what, command):
    """Check that a command is refused in a line; in this process, since it is over before a run begins."""
    done = invoke(*command[len(MLBENCH) :], env=scene)
    assert done.exit_code == 2
    assert what in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


def test_a_wrong_secret_the_same_node_twice_and_another_workload_are_refused_in_a_line(scene, token_file, tmp_path):
    other = tmp_path / "other"
    other.write_text("some other secret of 29 letters")
    other.chmod(0o600)
    with served(scene, token_file, ("resnet50", "--backend", "null", "--name", "n")) as [node]:
        one = [node.address]
        assert_refused(scene, f"node {node.address}: wrong token.", command_of(other, one))
        assert_refused(scene, "are both named n.", command_of(token_file, one * 2))
        wanted = "serve workload resnet50, but bert is requested"
        assert_refused(scene, wanted, command_of(token_file, one, "bert"))
        wanted = "execution.instances is 2, and nodes have one engine each"
        assert_refused(scene, wanted, command_of(token_file, one, "--set", "execution.instances=2"))
        wanted = "execution.devices is 0, and nodes choose their own"
        assert_refused(scene, wanted, command_of(token_file, one, "--set", "execution.devices=0"))


def test_a_node_that_is_to_name_devices_is_refused_in_a_line(scene, token_file, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-a, 00000000:01:00.0'\n")
    tool.chmod(0o755)
    command = [*MLBENCH, "serve", "resnet50", "--backend", "null", "--listen", "127.0.0.1:0"]
    command += ["--token-file", str(token_file), "--set", "execution.devices=0"]
    there = {**scene, "PATH": f"{tmp_path}:{scene['PATH']}", "CUDA_VISIBLE_DEVICES": None}
    assert_refused(there, "execution.devices is 0, which is for instances, but a node has one engine", command)


def test_other_data_on_the_node_is_refused_in_a_line(scene, token_file, environment):
    there = networked.config(environment, builder="with_other_data", workload="resnet50", backend="null", versions={})
    with networked.nodes(there) as [address]:
        command = command_of(token_file, [address], "--scenario", "Offline")
        assert_refused(scene, "does not have the data of this client", command)


@pytest.mark.thorough("network")
def test_what_loadgen_logged_of_the_nodes_is_compared_with_the_record(scene, token_file, tmp_path):
    nodes = [("resnet50", "--backend", "null", "--name", name) for name in ("north", "south")]
    with served(scene, token_file, *nodes) as started:
        done = run(scene, token_file, [node.address for node in started], "--scenario", "Offline", *FEW)
    [record] = json.loads(done.stdout)
    folder = tmp_path / "results" / record["run_id"]

    def verified():
        done = subprocess.run([*MLBENCH, "verify", str(folder)], env=scene, capture_output=True, text=True, check=False)
        return done.returncode, " ".join(done.stdout.split())

    assert verified()[0] == 0
    of_nodes = record["network"]["nodes"]
    of_nodes[0]["node"]["name"] = "east"
    (folder / "record.json").write_text(json.dumps(record))
    status, said = verified()
    assert status == 1
    assert "the record says nodes east, south, the log of the performance test Network SUT: north, south" in said
    (folder / "record.json").write_text(json.dumps(record | {"network": None}))
    status, said = verified()
    assert status == 1
    assert "the record says no nodes, the log of the accuracy test Network SUT: north, south" in said
