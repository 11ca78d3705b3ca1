"""The endpoint backend: its options, its two protocols, and the request format of a model."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from mlbench import Backend, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import find_versions
from mlbench_endpoint.api import Api
from mlbench_endpoint.options import ONLY_KSERVE, EndpointOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, GenerationProgram, Model
    from mlbench_endpoint.kserve import ServerFacts
    from mlbench_endpoint.request_format import RequestFormat
    from mlbench_endpoint.text_format import TextRequestFormat

EXAMPLE = "--set backend.url=http://localhost:8000/v1 (with backend.protocol=kserve without /v1)"


class Endpoint(Backend):
    """Sends requests to a server over HTTP: for streams of tokens, or for the outputs of a graph."""

    name = "endpoint"
    title = "a server that speaks OpenAI's protocols, or KServe's (backend.protocol)"
    options = EndpointOptions()

    def __init__(self) -> None:
        self._served: list[ServerFacts] = []  # shared with the copies that other options make

    def probe(self) -> Probe:
        """Look for the HTTP library.

        The server is contacted only when an engine is made; only the user knows its precision.
        """
        versions = find_versions("aiohttp")
        if not versions:
            return Probe(
                is_available=False,
                reason="aiohttp is not installed",
                install="pip install 'mlbench-inference[endpoint]'",
            )
        return Probe(
            is_available=True,
            devices=("server",),
            precisions=(Precision.BF16, Precision.FP16, Precision.FP8, Precision.FP32, Precision.INT8),
            versions=versions,
            rank=-50,
        )

    def instance(self, number: int, of: int) -> Self:
        """Refuse to start a server for each of several instances."""
        if of > 1 and self.options.start:
            raise UsageError(
                f"execution.instances is {of}, but backend.start would start as many servers.",
                hint="Start them yourself, and name them in backend.url.",
            )
        return self

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return an engine that sends the requests of the workload's program.

        The server batches prompts; for graphs the plan sets the batching.
        """
        from mlbench import GenerationProgram

        if self.options.protocol == "kserve":
            if isinstance(model.program, GenerationProgram):
                raise UsageError(
                    f"endpoint cannot run {model.name} with backend.protocol=kserve, which is for graphs.",
                    hint="Leave it out, for a server that speaks OpenAI's protocol.",
                )
            return self._graph_engine(model, plan)
        if not isinstance(model.program, GenerationProgram):
            raise UsageError(
                f"endpoint cannot run {model.name}: OpenAI's protocol is for language models.",
                hint="Choose gptj, llama2-70b, mixtral-8x7b or prompts, or give --set backend.protocol=kserve.",
            )
        return self._text_engine(model, model.program)

    def _text_engine(self, model: Model, program: GenerationProgram) -> Engine:
        from mlbench_endpoint.engine import EndpointEngine
        from mlbench_endpoint.started_server import StartedServer, server_command

        options = self.options
        for name in ONLY_KSERVE:
            if getattr(options, name) != getattr(EndpointOptions(), name):
                raise UsageError(f"backend.{name} is for backend.protocol=kserve.", hint="Leave it out.")
        server = None
        if options.start:
            command = server_command(options, model.files)
            options = replace(options, url=command.url, model=command.model)
            server = StartedServer(command, self.folder, options.start_timeout_s)
        targets = _targets(options.url)
        _find_key(options.key_variable)
        return EndpointEngine(options, targets, program, _format(model, options), server)

    def _graph_engine(self, model: Model, plan: EnginePlan) -> Engine:
        from mlbench_endpoint.kserve import GraphClient, kserve_engine

        options = self.options
        client = GraphClient(targets=_targets(options.url), options=options, key=_find_key(options.key_variable))
        engine = kserve_engine(model, plan, client)
        self._served[:] = [client.served]
        return engine

    def observe(self) -> RuntimeFacts:
        """Return facts that cannot be observed, and the metadata of servers of graphs.

        The record already has the settings, without any key.
        """
        extra: dict[str, Any] = {"precision": "according to the user; the server does not report it"}
        for each in self._served:
            told = {"servers": each.servers, "models": each.models, "tensors": each.tensors}
            extra["served"] = {**told, **each.counts}
        return RuntimeFacts(devices="unknown", extra=extra)


def _format(model: Model, options: EndpointOptions) -> RequestFormat | TextRequestFormat:
    """Return the request format of a model's prompts; raises as `Endpoint.engine`."""
    from mlbench_endpoint.request_format import request_format
    from mlbench_endpoint.text_format import text_format
    from mlbench_endpoint.text_program import TextProgram

    extra = _fields(options.extra)
    if isinstance(model.program, TextProgram):
        return text_format(api=options.api, extra=extra)
    if options.api is not Api.COMPLETIONS:
        raise UsageError(
            f"backend.api is {options.api}, which adds its own words to the prompts of {model.name}.",
            hint="Leave it out; it is for the workload prompts.",
        )
    return request_format(model, kind=options.prompt, extra=extra)


def _targets(urls: str) -> tuple[str, ...]:
    """Return the URLs of the servers, from a text divided by commas."""
    targets = tuple(url.strip().rstrip("/") for url in urls.split(",") if url.strip())
    if any(mark in url for url in targets for mark in "@?#"):  # may be a secret: do not repeat it
        raise UsageError(
            "backend.url contains a user, a query or a fragment, and records store it.",
            hint=f"Put the key into the environment variable {EndpointOptions().key_variable}.",
        )
    if not targets or not all(url.startswith(("http://", "https://")) for url in targets):
        raise UsageError(f"backend.url is {urls!r}.", hint=f"Set the server's address: {EXAMPLE}")
    return targets


def _find_key(variable: str) -> str:
    """Return the API key, which is never shown; empty for none.

    Raises:
        UsageError: the key is missing, or has a character that no HTTP header can carry.
    """
    key = os.environ.get(variable, "").strip()
    if not key and variable != EndpointOptions().key_variable:
        raise UsageError(
            f"backend.key_variable is {variable!r}, but the environment has no such variable.",
            hint="Export the API key in it.",
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the API key in {variable} has a character that no HTTP header can carry.", hint="Export it again."
        )
    return key


def _fields(text: str) -> dict[str, Any]:
    """Return the extra fields of a request."""
    try:
        fields = json.loads(text or "{}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"backend.extra is {text!r}.", hint="Give a JSON object: '{\"ignore_eos\": true}'.")
    return fields
