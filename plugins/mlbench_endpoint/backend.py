"""The endpoint backend: its options, and what of a model a server must be told."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from mlbench import Backend, Engine, EnginePlan, GenerationProgram, Model, Precision, Probe, UsageError

EXAMPLE = "--set backend.url=http://localhost:8000/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """What can be set on the endpoint backend."""

    url: str = ""
    """Where the server's ``/completions`` lies; several, divided by commas, take turns."""
    model: str = ""
    """What the server calls the model; empty: the only one that it has."""
    prompt: Literal["tokens", "text"] = "tokens"
    """How prompts are sent, and answers wanted: token ids (vLLM and others), or text, which mlbench then cuts into
    tokens itself."""
    connections: Annotated[int, Ge(1)] = 256
    """How many requests are under way at a time, over all targets."""
    timeout_s: Annotated[float, Gt(0), Lt(float("inf"))] = 600.0
    """How long a server may send nothing before its answer counts as cut off."""
    retries: Annotated[int, Ge(0)] = 0
    """How often a request is repeated that failed before its first token."""
    key_variable: str = "MLBENCH_ENDPOINT_KEY"
    """The environment variable that holds the API key, which no record keeps; this one need not be set."""
    extra: str = ""
    """More fields for each request, a JSON object: ``{"ignore_eos": true}``."""


class Endpoint(Backend):
    """Sends prompts to a server over HTTP and takes its tokens as they stream back."""

    name = "endpoint"
    title = "a server that speaks OpenAI's completions protocol"
    options = EndpointOptions()

    def probe(self) -> Probe:
        """Look for the HTTP library. A server is asked when an engine is made; what it computes in, its user knows."""
        try:
            version = importlib.metadata.version("aiohttp")
        except importlib.metadata.PackageNotFoundError:
            return Probe(
                is_available=False, reason="aiohttp is not installed", install="pip install 'mlbench[endpoint]'"
            )
        return Probe(
            is_available=True,
            devices=("server",),
            precisions=(Precision.BF16, Precision.FP16, Precision.FP8, Precision.FP32, Precision.INT8),
            versions={"aiohttp": version},
            rank=-50,
        )

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return an engine whose requests ask for what the workload's program says; batching is the server's."""
        from mlbench_endpoint.engine import EndpointEngine
        from mlbench_endpoint.wording import wording

        options = self.options
        if not isinstance(model.program, GenerationProgram):
            raise UsageError(
                f"endpoint cannot run {model.name}: the protocol is for language models.",
                hint="Choose gptj, llama2-70b or mixtral-8x7b.",
            )
        targets = tuple(url.strip().rstrip("/") for url in options.url.split(",") if url.strip())
        if not targets or not all(url.startswith(("http://", "https://")) for url in targets):
            raise UsageError(f"backend.url is {options.url!r}.", hint=f"Say where the server is: {EXAMPLE}")
        if options.key_variable != EndpointOptions().key_variable and not os.environ.get(options.key_variable):
            raise UsageError(
                f"backend.key_variable is {options.key_variable!r}, and the environment has no such variable.",
                hint="Export the API key in it.",
            )
        words = wording(model, kind=options.prompt, extra=_fields(options.extra))
        return EndpointEngine(options, targets, model.program, words)

    def observe(self) -> Mapping[str, Any]:
        """Return what cannot be seen from here; the settings, without any key, are in the record already."""
        return {"precision": "as the user says; the server does not tell", "devices": None}


def _fields(text: str) -> dict[str, Any]:
    """Return the extra fields of a request."""
    try:
        fields = json.loads(text or "{}")
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"backend.extra is {text!r}.", hint="Give a JSON object: '{\"ignore_eos\": true}'.")
    return fields
