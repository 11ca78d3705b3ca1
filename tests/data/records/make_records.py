"""Makes the records in this folder by real runs, one after another: ``python tests/data/records/make_records.py``.

Each is the record.json of one `mlbench run`, as it was stored, but for the name of the machine. Give names of files to
make only these: ``make_records.py bert-onnxruntime-Server``. The run of the endpoint backend needs `transformers
serve`, which comes with transformers[serving]: a server that others wrote, with Llama 2's mini model.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent

MACHINE = "bench-1"

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
}
"""Workload, backend and scenario, with what else was said to `mlbench run`."""


def main(names: Sequence[str]) -> None:
    """Make the records of these names, or all."""
    for name in names or RUNS:
        workload, backend, scenario = _parts(name)
        print(name, flush=True)
        if backend == "endpoint":
            with _transformers_serve() as settings:
                record = _run(workload, backend, scenario, *RUNS[name], *settings)
        else:
            record = _run(workload, backend, scenario, *RUNS[name])
        record["environment"]["machine"] = MACHINE
        (HERE / f"{name}.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _parts(name: str) -> tuple[str, str, str]:
    """Return workload, backend and scenario; the name of a second run of the same goes on after these."""
    workload, backend, scenario = name.removesuffix("-late").rsplit("-", 2)
    return workload, backend, scenario


def _run(workload: str, backend: str, scenario: str, *more: str) -> dict[str, dict[str, str]]:
    """Return the record that a run stored, whether it is valid or not."""
    with tempfile.TemporaryDirectory() as results:
        wanted = ["run", workload, "--backend", backend, "--scenario", scenario, "--results", results, *more]
        subprocess.run([sys.executable, "-c", "from mlbench.cli import main; main()", *wanted], check=False)
        (file,) = Path(results).glob("*/record.json")
        record: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
        return record


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
