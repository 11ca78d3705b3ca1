"""The endpoint backend: its options, and the request format of a model."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from mlbench import Backend, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import find_versions
from mlbench_endpoint.api import Api
from mlbench_endpoint.options import EndpointOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, Model
    from mlbench_endpoint.request_format import RequestFormat
    from mlbench_endpoint.text_format import TextRequestFormat

EXAMPLE = "--set backend.url=http://localhost:8000/v1"


class Endpoint(Backend):
    """Sends prompts to a server over HTTP and takes its tokens as they stream back."""

    name = "endpoint"
    title = "a server that speaks OpenAI's completions protocol"
    options = EndpointOptions()

    def probe(self) -> Probe:
        """Look for the HTTP library.

        The server is contacted when an engine is made; only the user knows its precision.
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
        """Refuse to start a server for each of several."""
        if of > 1 and self.options.start:
            raise UsageError(
                f"execution.instances is {of}, and backend.start would start as many servers.",
                hint="Start them yourself, and name them in backend.url.",
            )
        return self

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return an engine whose requests ask for what the workload's program says; batching is the server's."""
        from mlbench import GenerationProgram
        from mlbench_endpoint.engine import EndpointEngine
        from mlbench_endpoint.started_server import StartedServer, server_command

        options = self.options
        if not isinstance(model.program, GenerationProgram):
            raise UsageError(
                f"endpoint cannot run {model.name}: the protocol is for language models.",
                hint="Choose gptj, llama2-70b, mixtral-8x7b or prompts.",
            )
        server = None
        if options.start:
            command = server_command(options, model.files)
            options = replace(options, url=command.url, model=command.model)
            server = StartedServer(command, self.folder, options.start_timeout_s)
        targets = _targets(options.url)
        _check_key(options.key_variable)
        return EndpointEngine(options, targets, model.program, _format(model, options), server)

    def observe(self) -> RuntimeFacts:
        """Return facts that cannot be observed; the settings, without any key, are in the record already."""
        return RuntimeFacts(
            devices="unknown", extra={"precision": "according to the user; the server does not report it"}
        )


def _format(model: Model, options: EndpointOptions) -> RequestFormat | TextRequestFormat:
    """Return how a model's prompts are put to the server; raises as `Endpoint.engine`."""
    from mlbench_endpoint.request_format import request_format
    from mlbench_endpoint.text_format import text_format
    from mlbench_endpoint.text_program import TextProgram

    extra = _fields(options.extra)
    if isinstance(model.program, TextProgram):
        return text_format(api=options.api, extra=extra)
    if options.api is not Api.COMPLETIONS:
        raise UsageError(
            f"backend.api is {options.api}, which puts words of its own around the prompts of {model.name}.",
            hint="Leave it out; it is for the workload prompts.",
        )
    return request_format(model, kind=options.prompt, extra=extra)


def _targets(urls: str) -> tuple[str, ...]:
    """Return where the servers are, of URLs divided by commas."""
    targets = tuple(url.strip().rstrip("/") for url in urls.split(",") if url.strip())
    if any(mark in url for url in targets for mark in "@?#"):  # may be a secret: do not repeat it
        raise UsageError(
            "backend.url has a user, a query or a fragment in it, and records keep it.",
            hint=f"Give the key in the environment, as {EndpointOptions().key_variable}.",
        )
    if not targets or not all(url.startswith(("http://", "https://")) for url in targets):
        raise UsageError(f"backend.url is {urls!r}.", hint=f"Say where the server is: {EXAMPLE}")
    return targets


def _check_key(variable: str) -> None:
    """Raise `UsageError` for a key that is missing, or that no header can carry; it is never shown."""
    key = os.environ.get(variable, "").strip()
    if not key and variable != EndpointOptions().key_variable:
        raise UsageError(
            f"backend.key_variable is {variable!r}, and the environment has no such variable.",
            hint="Export the API key in it.",
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the API key in {variable} has a character that no HTTP header can carry.", hint="Export it anew."
        )


def _fields(text: str) -> dict[str, Any]:
    """Return the extra fields of a request."""
    try:
        fields = json.loads(text or "{}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"backend.extra is {text!r}.", hint="Give a JSON object: '{\"ignore_eos\": true}'.")
    return fields
