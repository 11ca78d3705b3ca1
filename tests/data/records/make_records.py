"""Makes the records in this folder by real runs, one after another: ``python tests/data/records/make_records.py``.

Each is the record.json of one `mlbench run`, as it was stored, but for the name of the machine. Give names of files to
make only these: ``make_records.py bert-onnxruntime-Server``. The run of the endpoint backend needs `transformers
serve`, which comes with transformers[serving]: a server that others wrote, with Llama 2's mini model.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

MACHINE = "bench-1"
MLBENCH = (sys.executable, "-m", "mlbench")
ON_NODES = ("-network", "-cluster")
"""How the names of runs end that two nodes answered."""
NODES = ("north", "south")
"""The names of the nodes of a run over a network."""

RUNS: Mapping[str, Sequence[str]] = {
    "resnet50-pytorch-Server": ("--set", "load.target_qps=20", "--set", "backend.threads=1"),
    "resnet50-pytorch-Server-late": ("--set", "load.target_qps=400"),
    "resnet50-pytorch-Offline": (),
    "resnet50-pytorch-MultiStream": (),
    "resnet50-pytorch-SingleStream": ("--set", "backend.threads=1"),
    "resnet50-onnxruntime-Offline": ("--set", "execution.instances=2"),
    "retinanet-onnxruntime-Offline": (),
    "3d-unet-onnxruntime-SingleStream": (),
    "bert-onnxruntime-Server": ("--set", "load.target_qps=10", "--set", "backend.threads=1"),
    "dlrm-v2-onnxruntime-Server": (),
    "stable-diffusion-xl-pytorch-Offline": (),
    "gptj-pytorch-Offline": (),
    "llama2-70b-onnxruntime-Server": (),
    "mixtral-8x7b-onnxruntime-Offline": (),
    "llama2-70b-endpoint-Server": ("--set", "load.target_qps=1", "--set", "load.min_query_count=1", "--no-accuracy"),
    "resnet50-onnxruntime-Server-network": ("--set", "load.target_qps=20"),
    "resnet50-onnxruntime-Offline-network": (),
    "bert-null-Server-network": (),
    "bert-null-Offline-network": (),
    "resnet50-onnxruntime-Server-cluster": ("--set", "load.target_qps=5"),
    "resnet50-onnxruntime-Offline-cluster": (),
}
"""Workload, backend and scenario, with what else was said to `mlbench run`."""


def main(names: Sequence[str]) -> None:
    """Make the records of these names, or all."""
    for name in names or RUNS:
        workload, backend, scenario = _parts(name)
        print(name, flush=True)
        with _place_of(name) as settings:
            record = _run(workload, backend, scenario, *RUNS[name], *settings)
        for environment in _environments(record):
            environment["machine"] = MACHINE
        folder = HERE / "nodes" if name.endswith(ON_NODES) else HERE
        (folder / f"{name}.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _parts(name: str) -> tuple[str, str, str]:
    """Return workload, backend and scenario; the name of a second run of the same goes on after these."""
    plain = re.sub("-(late|network|cluster)$", "", name)
    workload, backend, scenario = plain.rsplit("-", 2)
    return workload, backend, scenario


def _environments(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the environment of a run, and those of its nodes."""
    yield record["environment"]
    for reached in (record.get("network"), record.get("cluster")):
        for node in reached["nodes"] if reached else ():
            yield node["node"]["environment"]


def _run(workload: str, backend: str, scenario: str, *more: str) -> dict[str, Any]:
    """Return the record that a run stored, whether it is valid or not."""
    with tempfile.TemporaryDirectory() as results:
        wanted = ["run", workload, "--backend", backend, "--scenario", scenario, "--results", results, *more]
        subprocess.run([*MLBENCH, *wanted], check=False)
        (file,) = Path(results).glob("*/record.json")
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return record


@contextmanager
def _place_of(name: str) -> Iterator[Sequence[str]]:
    """Start what answers the samples, where that is not the run itself; yield what is said to `mlbench run` of it."""
    workload, backend, _ = _parts(name)
    with ExitStack() as started:
        if backend == "endpoint":
            yield started.enter_context(_transformers_serve())
        elif name.endswith("-network"):
            yield started.enter_context(_two_served_nodes(workload, backend))
        elif name.endswith("-cluster"):
            yield started.enter_context(_cluster_of_two())
        else:
            yield ()


@contextmanager
def _two_served_nodes(workload: str, backend: str) -> Iterator[Sequence[str]]:
    """Serve a workload on two nodes of this machine, over loopback; yield the options that name them."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as started:
        token = Path(folder, "token")
        given = ["--token-file", str(token)]
        words = [*given]
        for node in NODES:
            command = [*MLBENCH, "serve", workload, "--backend", backend, "--listen", "127.0.0.1:0", "--name", node]
            process = started.enter_context(subprocess.Popen([*command, *given], stdout=subprocess.PIPE, text=True))
            started.callback(process.terminate)
            assert process.stdout
            words += ["--network", process.stdout.readline().rsplit(" ", 1)[1].rstrip(".\n")]
        yield words


@contextmanager
def _cluster_of_two() -> Iterator[Sequence[str]]:
    """Start a Ray cluster of two nodes on this machine; yield the settings that ask for them."""
    command = [sys.executable, str(HERE.parents[1] / "cluster/ray_cluster.py"), "2"]
    own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # as ray_cluster.py says
    os.environ.update(own)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        address = process.stdout.readline().split()[0]
        yield "--set", "execution.nodes=2", "--set", f"execution.cluster={address}"
        process.stdin.close()


@contextmanager
def _transformers_serve() -> Iterator[Sequence[str]]:
    """Run a server of Llama 2's mini model; yield the settings that name it."""
    import mlbench_llama2_70b

    folder, model = Path(mlbench_llama2_70b.__file__).parent, "mini"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", model]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with tempfile.TemporaryDirectory() as home:
        Path(home, "hub").mkdir()  # a list of models is refused without
        offline = {"HF_HOME": home, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(command, cwd=folder, env={**os.environ, **offline})
        try:
            _wait_for(f"{url}/models", server)
            settings = {"url": url, "model": model, "prompt": "text"}
            yield [word for name, value in settings.items() for word in ("--set", f"backend.{name}={value}")]
        finally:
            server.terminate()
            server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=10).close()
            return
        except OSError:
            time.sleep(1)
    raise SystemExit("transformers serve ended before it answered")


if __name__ == "__main__":
    main(sys.argv[1:])
