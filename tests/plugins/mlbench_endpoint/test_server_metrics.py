"""A server's own metrics: the names of four servers, samples, summaries, and servers that send something else."""

import shutil
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest
from mlbench_endpoint.client.request_times import RequestTimes
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.servers.metrics_process import MetricsSettings
from mlbench_endpoint.servers.server_metrics import (
    MetricsSample,
    compare_counts,
    metrics_text,
    read_metrics,
    summarise_metrics,
    write_metrics,
)
from mlbench_endpoint.servers.server_watch import ServerWatch, settings_of

from mlbench import UnavailableError, UsageError

pytest.importorskip("prometheus_client")

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
# HELP vllm:prefix_cache_queries_created Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 400.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1.5e+03
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 80.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 60.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.001",model_name="m"} 0.0
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 5.0
vllm:time_to_first_token_seconds_count{model_name="m"} 5.0
vllm:time_to_first_token_seconds_sum{model_name="m"} 1.0
"""
SGLANG = """# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",tp_rank="0"} 5.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m"} 1.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="m"} 0.5
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m"} 128.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 64.0
# TYPE sglang:cached_tokens_total counter
sglang:cached_tokens_total{cache_source="device",model_name="m"} 30.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 2.0
"""
TRITON = """# HELP nv_trt_llm_request_metrics TRT LLM request metrics
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 6
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
# HELP nv_trt_llm_kv_cache_block_metrics TRT LLM KV cache block metrics
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.125
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6239
"""
TENSORRT_LLM = """# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{model_name="m"} 0.2
# TYPE trtllm_prompt_tokens_total counter
trtllm_prompt_tokens_total{model_name="m"} 50.0
# TYPE trtllm_prompt_cached_tokens_total counter
trtllm_prompt_cached_tokens_total{model_name="m"} 10.0
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            VLLM,
            {
                "running": 7,
                "waiting": 2,
                "cache_usage": 0.75,
                "prompt_tokens": 1000,
                "answer_tokens": 1500,
                "looked_up_tokens": 1000,
                "cached_tokens": 400,
                "drafted_tokens": 80,
                "accepted_tokens": 60,
            },
        ),
        (
            SGLANG,
            {
                "running": 5,
                "waiting": 1,
                "cache_usage": 0.5,
                "prompt_tokens": 128,
                "answer_tokens": 64,
                "looked_up_tokens": 128,
                "cached_tokens": 32,
            },
        ),
        (TRITON, {"running": 1, "waiting": 6, "cache_usage": 0.125}),
        (TENSORRT_LLM, {"cache_usage": 0.2, "prompt_tokens": 50, "looked_up_tokens": 50, "cached_tokens": 10}),
        ("process_cpu_seconds_total 3.5\n", {}),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:prompt_tokens_total 1e300\n", {}),
    ],
    ids=["vllm", "sglang", "triton", "tensorrt-llm", "another", "no numbers"],
)
def test_the_names_of_each_server_are_known(text, wanted):
    assert read_metrics(text) == wanted


def test_damaged_text_is_refused_or_read():
    rng, damage = Random(7), ["{", '"', "\\", " ", "\n", "\0", "1e999", "# TYPE a b"]
    for _ in range(500):
        text = list(VLLM)
        for _ in range(rng.randint(1, 6)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 20)] = rng.choice(damage)
        try:
            found = read_metrics("".join(text))
        except ValueError:
            continue
        assert all(0 <= value <= 1e18 for value in found.values())


def sample(second, **values):
    return MetricsSample(at_ns=int(second * 1e9), values={name: float(value) for name, value in values.items()})


def test_two_servers_are_added_and_what_one_lacks_is_left_out():
    found = MetricsSample.of_servers(
        5, [{"running": 2, "cache_usage": 0.1}, {"running": 3, "cache_usage": 0.4, "waiting": 1}]
    )
    assert found == MetricsSample(at_ns=5, values={"running": 5, "cache_usage": 0.4})


def test_a_summary_has_medians_of_the_load_and_growth_of_counters():
    samples = [
        sample(10, running=0, prompt_tokens=100, looked_up_tokens=100, cached_tokens=90, answer_tokens=70),
        sample(11, running=4, prompt_tokens=300, looked_up_tokens=300, cached_tokens=100, answer_tokens=80),
        sample(12, running=6, prompt_tokens=400, looked_up_tokens=400, cached_tokens=130, answer_tokens=90),
        sample(13, running=5, prompt_tokens=450, looked_up_tokens=450, cached_tokens=140, answer_tokens=95),
        sample(14.5, running=0, prompt_tokens=500, looked_up_tokens=500, cached_tokens=190, answer_tokens=10),
    ]
    found = summarise_metrics(samples)
    assert (found.samples, found.seconds) == (5, 4.5)
    assert (found.gauges["running"].median, found.gauges["running"].most) == (5, 6)
    assert found.counters == {"prompt_tokens": 400, "looked_up_tokens": 400, "cached_tokens": 100}  # one was reset
    assert found.prefix_hit_rate == 0.25
    assert found.accepted_share is None
    assert "prefix hits 25.0%" in metrics_text({"gauges": {}, "prefix_hit_rate": 0.25, "accepted_share": None})
    assert summarise_metrics(samples[:1]) is None


def test_other_counts_than_ours_are_remarked():
    found = summarise_metrics(
        [sample(0, prompt_tokens=0, answer_tokens=0), sample(9, prompt_tokens=1000, answer_tokens=500)]
    )
    assert list(compare_counts(found, prompt_tokens=1000, answer_tokens=500)) == []
    assert list(compare_counts(found, prompt_tokens=991, answer_tokens=500)) == []  # within 1 %
    assert list(compare_counts(found, prompt_tokens=1000, answer_tokens=470, end_tokens=30)) == []
    assert list(compare_counts(found, prompt_tokens=0, answer_tokens=500)) == []  # it does not say in its answers
    assert len(list(compare_counts(found, prompt_tokens=1000, answer_tokens=469, end_tokens=30))) == 1
    (remark,) = compare_counts(found, prompt_tokens=1000, answer_tokens=250)
    assert "grew by 500 tokens of answers" in remark
    assert "count 250" in remark


def test_samples_are_written_as_lines(tmp_path):
    write_metrics([sample(1, running=2), sample(2, running=3, waiting=1)], tmp_path / "file.csv")
    lines = (tmp_path / "file.csv").read_text().splitlines()
    assert lines == ["at_ns,running,waiting", "1000000000,2.0,", "2000000000,3.0,1.0"]


def settings_for(metrics, targets, **options):
    return settings_of(EndpointOptions(metrics=metrics, key_variable="KEY", **options), targets)


def test_auto_is_each_servers_own_address_and_secrets_go_nowhere_else():
    targets = ("http://a:8000/v1", "http://a:8000/v2", "https://b/x/v1")
    assert settings_for("none", targets) is None
    assert settings_for("auto", targets).urls == ["http://a:8000/metrics", "https://b/metrics"]
    ways = {"auto": True, "http://a:8000/prometheus/metrics": True, "http://a:8002/metrics": False}
    for metrics, is_own in ways.items():
        found = settings_for(metrics, targets, header_variables="X=Y", ca="own.pem", insecure=True).options
        assert (found.key_variable, found.header_variables) == (("KEY", "X=Y") if is_own else ("", ""))
        assert (found.ca, found.insecure) == ("own.pem", True)


@pytest.mark.parametrize(
    "text",
    [
        "maybe",
        "ftp://a/metrics",
        "http:///metrics",
        "http://a/metrics?x=1",
        "http://a:x/metrics",
        "http://a:99999/",
        "",
    ],
)
def test_metrics_that_are_none_are_one_line(text):
    with pytest.raises(UsageError, match=r"backend\.metrics"):
        settings_for(text, ("http://a/v1",))


def test_a_password_in_the_address_is_not_repeated():
    with pytest.raises(UsageError) as caught:
        settings_for("http://me:secret@a/metrics", ("http://a/v1",))
    assert "secret" not in str(caught.value)


@contextmanager
def answering(body, status=200, headers=(), certificate=None):
    """Yield the address of a server that always answers this, by TLS with a certificate, and the headers it got."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            got.append((self.path, dict(self.headers)))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                pass  # the client has read enough

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}/metrics", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def started(settings, **options):
    """Return a watch that has its first sample, or none."""
    watch = ServerWatch(settings, **options)
    watch.start()
    watch.expect_metrics()
    return watch


@pytest.mark.thorough("servers", but=["garbage", "404"])
@pytest.mark.parametrize(
    ("body", "status", "headers"),
    [
        (b"not prometheus {{{\n", 200, ()),
        (b"\xff\xfe", 200, ()),
        (b"process_cpu_seconds_total 3.5\n", 200, ()),
        (VLLM.encode(), 404, ()),
        (VLLM.encode(), 302, (("Location", "/elsewhere"),)),
        (VLLM.encode(), 200, (("Content-Encoding", "gzip"),)),
        (b"# comment\n" * 600_000, 200, ()),
    ],
    ids=["garbage", "bytes", "unknown names", "404", "a redirection", "compressed", "too long"],
)
def test_a_server_without_usable_metrics_is_left_alone_unless_they_are_required(body, status, headers):
    with answering(body, status, headers) as (url, got):
        settings = MetricsSettings(urls=[url], options=EndpointOptions(key_variable=""))
        watch = started(settings, is_required=False)
        assert watch.report(RequestTimes()) is None
        watch.end()
        with pytest.raises(UnavailableError, match="shows no metrics"):
            started(settings, is_required=True)
        assert {path for path, _ in got} == {"/metrics"}


def between_calls(watch):
    """Return the samples of a second that are neither the last call's nor that of the next one."""
    time.sleep(1.1)
    return watch.take()[1:-1]


def test_samples_come_once_a_second_and_with_each_call(tmp_path, monkeypatch):
    monkeypatch.setenv("WATCH_KEY", "sesame")
    monkeypatch.setenv("WATCH_ROUTE", "blue")
    with answering(VLLM.encode()) as (url, got):
        options = EndpointOptions(key_variable="WATCH_KEY", header_variables="X-Route=WATCH_ROUTE")
        settings = MetricsSettings(urls=[url], options=options)
        watch = started(settings, is_required=True, file=tmp_path / "samples.csv")
        assert len(watch.take()) == 2
        assert any(between_calls(watch) for _ in range(20)), "a busy machine may skip a second, and not all"
        found = watch.report(RequestTimes())
        watch.end()
    assert found.samples >= 2
    assert found.counters["prompt_tokens"] == 0
    assert found.remarks == ()
    assert len((tmp_path / "samples.csv").read_text().splitlines()) == found.samples + 1
    assert {(headers["Authorization"], headers["X-Route"]) for _, headers in got} == {("Bearer sesame", "blue")}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate for 127.0.0.1, signed by itself, and its key."""
    file = tmp_path_factory.mktemp("certificate") / "own.pem"
    command = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {file} -out {file}.crt"
    )
    names = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(f"{command} -days 2 {names}".split(), check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return str(file)


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
@pytest.mark.parametrize(("way", "is_read"), [({}, False), ({"insecure": True}, True), ({"ca": "own"}, True)])
def test_metrics_are_read_with_the_certificates_of_the_run(certificate, way, is_read):
    options = {name: certificate if name == "ca" else value for name, value in way.items()}
    with answering(VLLM.encode(), certificate=certificate) as (url, _):
        settings = MetricsSettings(urls=[url], options=EndpointOptions(key_variable="", **options))
        watch = started(settings, is_required=False)
        assert bool(watch.take()) is is_read
        watch.end()


def test_a_process_that_is_gone_leaves_no_samples():
    with answering(VLLM.encode()) as (url, _):
        watch = started(MetricsSettings(urls=[url], options=EndpointOptions(key_variable="")), is_required=True)
        watch._process.kill()
        assert watch.take() == []
        assert watch.report(RequestTimes()) is None
        watch.end()
