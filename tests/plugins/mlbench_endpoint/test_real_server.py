"""The endpoint backend against `transformers serve`, a server that others wrote, with Llama 2's mini model."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import mlbench_llama2_70b
import pytest
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions
from mlbench_llama2_70b.graphs import NETWORK
from mlbench_recipes.language_reference import answers

from mlbench import EnginePlan, Profile, Samples, Variant, Weights
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, resolve
from mlbench.rules.tiers import Tier
from mlbench.running.runner import run_benchmark
from mlbench.wire.load_progress import LoadProgress

PACKAGES = ("aiohttp", "fastapi", "openai", "uvicorn")
"""The last three are `transformers serve`'s."""
LACKS = not all(map(find_spec, PACKAGES))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LACKS, reason="transformers serve needs transformers[serving]"),
]

MINI = Path(mlbench_llama2_70b.__file__).parent / "mini"
CUT_ANOTHER_WAY = 112
"""Its answer is text that the tokenizer cuts into other tokens than the model made."""
INDICES = [CUT_ANOTHER_WAY, *range(0, 220, 20)]


class Server:
    """A server process on loopback; what it prints is read by a thread, so that it never waits for us."""

    def __init__(self, home, model=MINI):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model)]
        command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
        settings = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.printed, self._began = [], threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.printed.append(line)
                if "Uvicorn running on" in line:
                    self._began.set()
        self._began.set()

    def began(self):
        assert self._began.wait(120)
        assert self.process.poll() is None, "".join(self.printed)
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()


@contextmanager
def serving(folder, count):
    with ExitStack() as stack:
        servers = [Server(folder) for _ in range(count)]
        for server in servers:
            stack.callback(server.kill)
        yield [server.began() for server in servers]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("hugging_face"), 2) as servers:
        yield servers


def settings(servers, **more):
    return {"url": ",".join(server.url for server in servers), "model": str(MINI), "prompt": "text", **more}


@pytest.mark.thorough("servers")
def test_two_servers_in_turns_answer_as_generate_does(servers):
    (workload,) = mlbench_llama2_70b.mlbench_workloads()
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    data, model = workload.dataset(variant), workload.model(variant)
    data.load(INDICES)
    reference = answers(NETWORK.trained(MINI), [data.sample(index) for index in INDICES], model.program.decoding)
    reply, samples = RecordingReply(), Samples(INDICES, INDICES, data)
    backend = Endpoint().with_options(EndpointOptions(**settings(servers)))
    with backend.engine(model, EnginePlan()) as engine:
        engine.submit(samples, reply)
        assert reply.wait(samples, 120)
        counts = engine.statistics()
    assert not reply.failures
    found = [reply.answers[index][0].tolist() for index in INDICES]
    tokenizer = engine._format.tokenizer
    assert [tokenizer.decode(tokens) for tokens in found] == [tokenizer.decode(tokens) for tokens in reference]
    different = {index for index, ours, theirs in zip(INDICES, found, reference, strict=True) if ours != list(theirs)}
    assert different == {CUT_ANOTHER_WAY}
    names = ("answered", "prompts_cut_otherwise", "answers_cut_otherwise")
    assert [counts.extra[name] for name in names] == [len(INDICES), 0, 1]
    assert counts.truncated_prompts == 0


@pytest.mark.thorough("servers")
def test_a_run_whose_server_is_killed_is_invalid_and_names_a_sample(servers, tmp_path):
    doomed, killed = servers[1], []

    def listen(progress):
        test = progress.read(LoadProgress) if progress.stage == "performance" else None
        if test and test.counts.answered and not killed:
            killed.append(progress)
            doomed.kill()

    short = settings(servers, extra='{"max_tokens": 4}')
    overrides = {f"backend.{name}": value for name, value in short.items()}
    request = RunRequest(
        workload="llama2-70b",
        backend="endpoint",
        scenario="Offline",
        tier=Tier.SMOKE,
        wants_accuracy=False,
        power="none",
        overrides={**overrides, "load.min_query_count": "96"},
        results=tmp_path,
    )
    plugins = Plugins.discover()
    record = run_benchmark(resolve(request, plugins), plugins, listen)
    assert killed
    assert record.status == "completed"
    assert not record.verdict.is_valid
    (sound,) = [rule for rule in record.verdict.rules if rule.rule == "replies_sound"]
    assert re.search(r"sample \d+: failed: ", sound.fix)
    assert record.engine.extra["failed"] > 0
    assert record.engine.extra["answered"] + record.engine.extra["failed"] >= 96
