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
    key_variable: Annotated[str, NAMES_SECRET] = "MLBENCH_ENDPOINT_KEY"
    """Environment variable with the API key, which records do not keep; the default one need not be set."""
    extra: Annotated[str, OPENS_ADDRESS] = ""
    """More fields for each request, a JSON object: ``{"ignore_eos": true}``. They may contain addresses for the
    server."""

    @property
    def most_requests(self) -> int:
        """Number of requests in flight if they need no threads."""
        return _MOST_REQUESTS if self.connections == "auto" else self.connections
