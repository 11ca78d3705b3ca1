"""The settings of the endpoint backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt

from mlbench import NAMES_SECRET, OPENS_ADDRESS, RUNS_CODE
from mlbench_endpoint.api import Api

Protocol = Literal["openai", "kserve"]

_MOST_REQUESTS = 256

ONLY_OPENAI = ("start", "start_timeout_s", "api", "prompt", "wait_timeout_s", "extra")
"""Options without a meaning in KServe's protocol."""

ONLY_KSERVE = ("tensors",)
"""Options without a meaning in OpenAI's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """What can be set on the endpoint backend."""

    protocol: Protocol = "openai"
    """``openai``: completions or chat, for language models. ``kserve``: KServe's open inference protocol (v2) over
    HTTP, which Triton and others speak, for the workloads that are not text."""
    url: Annotated[str, OPENS_ADDRESS] = ""
    """Where the server's ``/completions`` lies, or with ``kserve`` its ``/v2``; several, divided by commas, take
    turns."""
    start: Annotated[str, RUNS_CODE] = ""
    """A command that starts the server, without a shell; it ends with the run. ``{model}`` is the model's folder,
    ``{port}`` a free port of this machine: ``vllm serve {model} --port {port}``. Without ``{port}``, ``url`` says where
    the server will be. Empty: the server is there."""
    start_timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 900.0
    """How long the server of ``start`` may take until it lists its models."""
    model: str = ""
    """What the server calls the model; empty: the only one that it has, or the folder that ``start`` names. With
    ``kserve``, ``{graph}`` is the name of the workload's graph; empty: that name."""
    tensors: Literal["auto", "binary", "json"] = "auto"
    """How tensors travel with ``kserve``: as bytes (its binary data extension), or as numbers in JSON. ``auto``: as
    bytes where the server says that it can; KServe's own can, and does not say it."""
    api: Api = Api.COMPLETIONS
    """The protocol. ``chat`` is for the workload ``prompts``: a chat puts words of its own around a prompt."""
    prompt: Literal["tokens", "text"] = "tokens"
    """How prompts are sent and answers returned: token ids (vLLM and others), or text, which mlbench then cuts into
    tokens itself."""
    connections: Annotated[int, Ge(1)] | Literal["auto"] = "auto"
    """How many requests are in flight at a time, over all targets. ``auto``: 256, and with ``kserve`` as many as
    ``execution.workers``: each has a thread there."""
    timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 600.0
    """How long a server may take to the first token, from one to the next, and from the last to the end of the answer.
    What else it sends meanwhile does not count. With ``kserve``, how long it may neither send nor take a byte."""
    total_timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 3600.0
    """How long a whole answer may take from the sending of its request, with all attempts."""
    wait_timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 86_400.0
    """How long a request may wait for one of the connections before it is sent."""
    retries: Annotated[int, Ge(0)] = 0
    """How often a request is repeated that failed before its first token, after as long as the server asks for."""
    key_variable: Annotated[str, NAMES_SECRET] = "MLBENCH_ENDPOINT_KEY"
    """The environment variable that holds the API key, which no record keeps; this one need not be set."""
    extra: Annotated[str, OPENS_ADDRESS] = ""
    """More fields for each request, a JSON object: ``{"ignore_eos": true}``. A server may take addresses in them."""

    @property
    def most_requests(self) -> int:
        """How many requests are in flight at a time, where each needs no thread."""
        return _MOST_REQUESTS if self.connections == "auto" else self.connections
