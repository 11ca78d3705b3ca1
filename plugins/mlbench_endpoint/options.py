"""The settings of the endpoint backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from mlbench import NAMES_FILE, NAMES_SECRET, OPENS_ADDRESS, RUNS_CODE
from mlbench_endpoint.api import Api

Protocol = Literal["openai", "kserve"]

_MOST_REQUESTS = 256

ONLY_OPENAI = (
    "start",
    "start_timeout_s",
    "api",
    "prompt",
    "wait_timeout_s",
    "client_processes",
    "count",
    "strict",
    "slo",
    "extra",
    "metrics",
    "alone",
)
"""Options without a meaning in KServe's protocol."""

ONLY_KSERVE = ("tensors",)
"""Options without a meaning in OpenAI's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """Options of the endpoint backend."""

    protocol: Protocol = "openai"
    """``openai``: completions or chat, for language models. ``kserve``: KServe's open inference protocol (v2) over
    HTTP, which Triton and others speak, for the workloads that are not text."""
    url: Annotated[str, OPENS_ADDRESS] = ""
    """URL of the server's ``/completions``, or with ``kserve`` of its ``/v2``; several, divided by commas, are used in
    turn."""
    start: Annotated[str, RUNS_CODE] = ""
    """A command that starts the server, without a shell; it ends with the run. ``{model}`` is the model's folder,
    ``{port}`` a free port of this machine: ``vllm serve {model} --port {port}``. Without ``{port}``, ``url`` is the
    server's address. Empty: the server runs already."""
    start_timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 900.0
    """Longest time until the server of ``start`` lists its models."""
    model: str = ""
    """Name of the model on the server; empty: its only model, or the folder in ``start``. With ``kserve``, ``{graph}``
    stands for the name of the workload's graph; empty: that name."""
    tensors: Literal["auto", "binary", "json"] = "auto"
    """Encoding of tensors with ``kserve``: bytes (its binary data extension), or numbers in JSON. ``auto``: bytes if
    the server announces it; KServe's own supports it without announcing it."""
    api: Api = Api.COMPLETIONS
    """The protocol. ``chat`` is for the workload ``prompts`` only, since a chat adds words to a prompt."""
    prompt: Literal["tokens", "text"] = "tokens"
    """How prompts are sent and answers returned: token ids (vLLM and others), or text, which mlbench tokenises
    itself."""
    connections: Annotated[int, Ge(1)] | Literal["auto"] = "auto"
    """Number of requests in flight, over all targets. ``auto``: 256, or with ``kserve`` the number of
    ``execution.workers``, since each needs a thread."""
    client_processes: Annotated[int, Ge(1), Le(64)] | Literal["auto"] = "auto"
    """Number of processes that talk to the servers and share the requests in flight. ``auto``: one for each 128 of
    these and 4 threads of the machine, at most 8."""
    timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 600.0
    """Longest time to the first token, between tokens, and from the last token to the end of the answer; other data
    from the server does not count. With ``kserve``, the longest time without sending or taking a byte."""
    total_timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 3600.0
    """Longest time of a whole answer from the sending of its request, with all attempts."""
    wait_timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 86_400.0
    """Longest time that a request waits for a connection before it is sent."""
    retries: Annotated[int, Ge(0)] = 0
    """Number of retries of a request that failed before its first token, each after the delay that the server
    requests."""
    count: Annotated[str, NAMES_FILE] = ""
    """Who counts the tokens of ``prompts``: ``server``, ``chunks`` (each chunk with text is a token), or
    ``tokenizer:PATH`` with the path of a ``tokenizer.json``. Empty: the server, or chunks where ``extra`` removes
    ``stream_options``."""
    strict: bool = False
    """Whether each deviation from the protocol fails its answer, even if it changes neither text nor counts."""
    key_variable: Annotated[str, NAMES_SECRET] = "MLBENCH_ENDPOINT_KEY"
    """Environment variable with the API key, which records do not keep; the default one need not be set."""
    slo: str = ""
    """Limits that an answer must keep to count as good: ``ttft=500ms,tpot=30ms,e2e=5s,itl=50ms``. They have no
    influence on whether a run is valid."""
    header_variables: Annotated[str, NAMES_SECRET] = ""
    """Headers of each request, whose values are in the environment: ``api-key=MY_VARIABLE,X-Route=ROUTE``. Records keep
    no values."""
    ca: Annotated[str, NAMES_FILE] = ""
    """File with the certificates of authorities, in PEM form; empty: the system's, or those of ``SSL_CERT_FILE``."""
    insecure: Annotated[bool, RUNS_CODE] = False
    """Whether any certificate of a server is accepted."""
    extra: Annotated[str, OPENS_ADDRESS] = ""
    """More fields for each request, a JSON object: ``{"ignore_eos": true}``. They may contain addresses for the
    server."""

    metrics: Annotated[str, OPENS_ADDRESS] = "auto"
    """Servers' own metrics, sampled once a second: ``auto``, ``/metrics`` at the servers' addresses if it is there;
    ``none``; or a URL of Prometheus text (TensorRT-LLM: ``http://host:8000/prometheus/metrics``)."""

    alone: Annotated[str, NAMES_FILE] = ""
    """A file of prompts and their answers alone, with which the answers of a run of ``prompts`` are compared;
    ``mlbench bench-endpoint --same-answers`` writes it."""

    @property
    def most_requests(self) -> int:
        """Number of requests in flight if they need no threads."""
        return _MOST_REQUESTS if self.connections == "auto" else self.connections
