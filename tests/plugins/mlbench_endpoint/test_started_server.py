"""A server that mlbench starts: its command, readiness, log and end, with real server processes on loopback."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.servers.server_guard import BoundedFile
from mlbench_endpoint.servers.started_server import LOG_NAME, StartedServer, server_command
from mock_process import COMMAND

from mlbench import UnavailableError, UsageError
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, resolve
from mlbench.rules.tiers import Tier
from mlbench.running.runner import run_benchmark

pytest.importorskip("aiohttp")

WORDY = f"{shlex.join(COMMAND)} --port {{port}}"
PATIENCE_S = 60


def program(code):
    """Return the command of a program that is this code."""
    return shlex.join([sys.executable, "-c", code])


def started(start, folder, *, timeout_s=PATIENCE_S, url=""):
    server = StartedServer(server_command(EndpointOptions(start=start, url=url), None), folder, timeout_s)
    server.start()
    return server


def test_places_of_the_command_are_filled_in():
    options = EndpointOptions(start=f"{sys.executable} serve {{model}} --port {{port}} --name 'two words'")
    command = server_command(options, Path("/models/llama"))
    _, serve, model, _, port, _, name = command.words
    assert (serve, model, name) == ("serve", "/models/llama", "two words")
    assert command.url == f"http://127.0.0.1:{port}/v1"
    assert command.model == "/models/llama"


def test_the_users_name_of_the_model_goes_before_the_folders():
    options = EndpointOptions(start=f"{sys.executable} {{model}} {{port}}", model="mine")
    assert server_command(options, Path("/models/llama")).model == "mine"


@pytest.mark.parametrize(
    ("start", "url", "line"),
    [
        ("vllm serve 'mine {port}", "", "No closing quotation"),
        ("no_such_program_here {port}", "", "begins with 'no_such_program_here', which is not an installed program"),
        ("   ", "", "begins with '', which is not an installed program"),
        (f"{sys.executable} {{model}} {{port}}", "", "this model has no folder"),
        (f"{sys.executable} {{port}}", "http://localhost:8000/v1", "and backend.url is given too"),
        (f"{sys.executable} --port 8000", "", "and backend.url is empty"),
    ],
)
def test_a_command_that_cannot_be_right_is_refused_before_anything_starts(start, url, line):
    with pytest.raises(UsageError, match=line) as caught:
        server_command(EndpointOptions(start=start, url=url), None)
    assert caught.value.hint


def test_no_server_is_started_for_each_of_several_engines():
    with pytest.raises(UsageError, match=r"execution\.instances is 2"):
        Endpoint().with_options(EndpointOptions(start="vllm serve {model}")).instance(0, 2)


def test_a_log_has_an_end(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        log = BoundedFile(file, 10)
        log.write(b"12345678")
        log.write(b"90ab")
        log.write(b"cd")
    assert (tmp_path / "log").read_text() == "1234567890\n(the rest of the log is left out)\n"


@pytest.mark.slow
def test_a_server_is_there_until_its_end(tmp_path):
    server = started(WORDY, tmp_path)
    (process,) = [each for each in psutil.process_iter() if server._guard and each.ppid() == server._guard.pid]
    assert "mock-server" in process.cmdline()
    assert "torch" in server.versions  # those of its Python, which is this one
    server.end()
    assert not process.is_running()
    assert (tmp_path / LOG_NAME).read_text().startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_a_server_that_wants_a_key_is_ready_when_it_says_so(tmp_path):
    started(f"{WORDY} --key secret", tmp_path).end()


@pytest.mark.slow
def test_a_server_that_speaks_no_http_is_not_ready(tmp_path):
    code = (
        "import socket; line = socket.create_server(('127.0.0.1', {port}))\n"
        "while True: other = line.accept()[0]; other.recv(999); other.sendall(b'220 mail ready\\r\\n'); other.close()"
    )
    with pytest.raises(UnavailableError, match="is not ready after 2 s"):
        started(program(code), tmp_path, timeout_s=2)


@pytest.mark.slow
def test_a_server_that_ends_at_once_is_said_with_its_last_lines(tmp_path):
    code = "print('loading'); print('no room for 140 GB'); raise SystemExit(3)"
    with pytest.raises(UnavailableError, match="ended with status 3 before it was ready") as caught:
        started(program(code), tmp_path, url="http://127.0.0.1:9/v1")
    assert caught.value.message.endswith("its log ends: loading | no room for 140 GB")


@pytest.mark.thorough("servers")
def test_another_server_at_the_same_place_is_not_measured_in_its_stead(tmp_path):
    other = started(WORDY, None)
    try:
        with pytest.raises(UnavailableError, match=r"a server answers at .* before that of backend\.start"):
            started(program("raise SystemExit('the port is taken')"), tmp_path, url=other.url)
    finally:
        other.end()


@pytest.mark.slow
def test_a_program_that_the_kernel_refuses_is_said(tmp_path):
    script = tmp_path / "serve"
    script.write_bytes(b"\x00\x01 no program")
    script.chmod(0o755)
    with pytest.raises(UnavailableError, match=r"ended with status 127 .*serve cannot be started: Exec format error"):
        started(str(script), tmp_path, url="http://127.0.0.1:9/v1")


@pytest.mark.thorough("servers")
def test_a_server_that_is_never_ready_is_ended_with_its_children(tmp_path):
    noted = tmp_path / "numbers"
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    code = (
        "import os, pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        f"pathlib.Path({str(noted)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('still loading', flush=True)\ntime.sleep(600)"
    )
    options = EndpointOptions(start=program(code), url="http://127.0.0.1:9/v1")
    server = StartedServer(server_command(options, None), tmp_path, 8.0)
    with pytest.raises(UnavailableError, match=r"not ready after 8 s \(backend.start_timeout_s\).*still loading"):
        server.start()
    family = [psutil.Process(int(each)) for each in noted.read_text().split() if psutil.pid_exists(int(each))]
    _, alive = psutil.wait_procs(family, PATIENCE_S)  # the process that adopted the child may not have reaped it yet
    assert not alive


@pytest.mark.slow
def test_a_server_ends_when_the_process_that_started_it_is_killed(tmp_path):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from mlbench_endpoint.options import EndpointOptions\n"
        "from mlbench_endpoint.servers.started_server import StartedServer, server_command\n"
        "command = server_command(EndpointOptions(start=sys.argv[1]), None)\n"
        "server = StartedServer(command, Path(sys.argv[2]), 60.0)\n"
        "server.start()\n"
        "print(server._guard.tree(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, WORDY, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        family = [psutil.Process(number) for number in json.loads(owner.stdout.readline())]
        assert len(family) == 2
        owner.kill()
    _, alive = psutil.wait_procs(family, PATIENCE_S)
    assert not alive


def measure_prompts(overrides, results):
    """Make a run of prompts at a rate, and return its record."""
    request = RunRequest(
        workload="prompts",
        backend="endpoint",
        scenario="Rate",
        tier=Tier.SMOKE,
        power="none",
        overrides=overrides,
        results=results,
    )
    plugins = Plugins.discover()
    return run_benchmark(resolve(request, plugins), plugins, lambda progress: None)


@pytest.mark.slow
def test_a_run_starts_its_server_and_keeps_log_and_versions(tmp_path):
    overrides = {"backend.start": WORDY, "backend.model": "mock", "load.min_duration_ms": "500"}
    overrides |= {"load.min_query_count": "20", "load.target_qps": "40", "workload.tokens_out": "4"}
    record = measure_prompts(overrides, tmp_path)
    assert record.status == "completed", record.failure
    assert record.engine.extra["served_model"] == "mock"
    assert record.engine.extra["server_versions"]["transformers"]
    (log,) = tmp_path.glob(f"*/{LOG_NAME}")
    assert log.read_text().startswith("http://127.0.0.1:")
    own = json.dumps({"port": urlsplit(log.read_text().split()[0]).port})  # others of its kind serve other tests
    served = [each for each in psutil.process_iter(["cmdline"]) if own in (each.info["cmdline"] or [])]
    assert not served


@pytest.mark.thorough("servers")
def test_a_run_whose_server_does_not_start_fails_with_the_servers_words(tmp_path):
    overrides = {"backend.start": program("raise SystemExit('no such model')"), "backend.url": "http://127.0.0.1:9/v1"}
    record = measure_prompts(overrides, tmp_path)
    assert record.status == "failed"
    assert "ended with status 1 before it was ready; its log ends: no such model" in record.failure.message
