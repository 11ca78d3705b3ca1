"""The endpoint backend: its options, its two protocols, and the request format of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlbench import Backend, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import find_versions
from mlbench_endpoint.api import Api
from mlbench_endpoint.client.access import Access, find_targets
from mlbench_endpoint.options import ONLY_KSERVE, EndpointOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, GenerationProgram, Model
    from mlbench_endpoint.kserve.protocol import ServerFacts
    from mlbench_endpoint.request_format import RequestFormat
    from mlbench_endpoint.servers.server_watch import ServerWatch
    from mlbench_endpoint.sweep.same_answers import LoneAnswer
    from mlbench_endpoint.text_format import TextRequestFormat


UNKNOWN = Precision("unknown")
"""Precision of a server unless the user says it: servers do not report theirs."""


class Endpoint(Backend):
    """Sends requests to a server over HTTP: for streams of tokens, or for the outputs of a graph."""

    name = "endpoint"
    title = "a server that speaks OpenAI's protocols, or KServe's (backend.protocol)"
    options = EndpointOptions()

    def __init__(self) -> None:
        self._served: list[ServerFacts] = []  # shared with the copies that other options make
        self._instance = ""

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
            precisions=(UNKNOWN, Precision.BF16, Precision.FP16, Precision.FP8, Precision.FP32, Precision.INT8),
            versions=versions,
            rank=-50,
        )

    def instance(self, number: int, of: int) -> Self:
        """Return the backend of one process; refuse to start a server for each of several."""
        if of > 1 and self.options.start:
            raise UsageError(
                f"execution.instances is {of}, but backend.start would start as many servers.",
                hint="Start them yourself, and name them in backend.url.",
            )
        numbered = copy(self)
        numbered._instance = f"-{number}" if of > 1 else ""
        return numbered

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
        from mlbench_endpoint.client.request_times import REQUESTS_NAME
        from mlbench_endpoint.client.settings import ClientSettings
        from mlbench_endpoint.engine import EndpointEngine, ServerSide
        from mlbench_endpoint.servers.started_server import StartedServer, server_command
        from mlbench_endpoint.sweep.service_limits import ServiceLimits

        options = self.options
        for name in ONLY_KSERVE:
            if getattr(options, name) != getattr(EndpointOptions(), name):
                raise UsageError(f"backend.{name} is for backend.protocol=kserve.", hint="Leave it out.")
        server = None
        if options.start:
            command = server_command(options, model.files)
            options = replace(options, url=command.url, model=command.model)
            server = StartedServer(command, self.folder, options.start_timeout_s)
        targets = find_targets(options.url)
        Access.of_options(options)  # reports what is missing
        ServiceLimits.of_text(options.slo)
        file = self.folder / REQUESTS_NAME.format(self._instance) if self.folder else None
        form = _format(model, options)
        settings = ClientSettings(targets=targets, fields=form.common, format=form.answer, options=options)
        return EndpointEngine(
            settings,
            program,
            form,
            ServerSide(started=server, watch=self._watch(targets), alone=self._alone(program)),
            file,
        )

    def _alone(self, program: GenerationProgram) -> Mapping[str, LoneAnswer] | None:
        """Return the answers alone, with which those of the run are compared; None: they are not compared."""
        from mlbench_endpoint.loads.text_program import TextProgram
        from mlbench_endpoint.sweep.same_answers import read_alone

        if not self.options.alone:
            return None
        if not isinstance(program, TextProgram):
            raise UsageError("backend.alone is for the workload prompts.", hint="Leave it out.")
        return read_alone(Path(self.options.alone))

    def _watch(self, targets: Sequence[str]) -> ServerWatch | None:
        """Return the watch of the servers' metrics, which one process has."""
        from mlbench_endpoint.servers.server_metrics import METRICS_NAME
        from mlbench_endpoint.servers.server_watch import ServerWatch, settings_of

        options, is_alone = self.options, not self._instance
        found = settings_of(options, targets)
        if found is None or self._instance not in ("", "-0"):
            return None
        file = self.folder / METRICS_NAME.format(self._instance) if self.folder else None
        return ServerWatch(found, is_required=options.metrics != "auto", file=file, is_alone=is_alone)

    def _graph_engine(self, model: Model, plan: EnginePlan) -> Engine:
        from mlbench_endpoint.kserve.protocol import GraphClient, kserve_engine

        options = self.options
        client = GraphClient(
            targets=find_targets(options.url, has_query=False), options=options, access=Access.of_options(options)
        )
        engine = kserve_engine(model, plan, client)
        self._served[:] = [client.served]
        return engine

    def observe(self) -> RuntimeFacts:
        """Return facts that cannot be observed, and the metadata of servers of graphs.

        The record already has the settings, without any key.
        """
        extra: dict[str, Any] = {"precision": "by the user if known; servers do not report it"}
        for each in self._served:
            told = {"servers": each.servers, "models": each.models, "tensors": each.tensors}
            extra["served"] = {**told, **each.counts}
        return RuntimeFacts(devices="unknown", extra=extra)


def _format(model: Model, options: EndpointOptions) -> RequestFormat | TextRequestFormat:
    """Return the request format of a model's prompts; raises as `Endpoint.engine`."""
    from mlbench_endpoint.loads.text_program import TextProgram
    from mlbench_endpoint.request_format import request_format
    from mlbench_endpoint.text_format import text_format

    extra = _fields(options.extra)
    if isinstance(model.program, TextProgram):
        if options.api.makes_text is not (model.program.api_kind == "text"):
            raise UsageError(
                f"backend.api is {options.api}, which is not for the workload {model.name}.",
                hint=f"Run the workload {options.api.workload}.",
            )
        return text_format(api=options.api, extra=extra, count=options.count)
    if options.api is not Api.COMPLETIONS:
        raise UsageError(
            f"backend.api is {options.api}, which adds its own words to the prompts of {model.name}.",
            hint="Leave it out; it is for the workload prompts.",
        )
    return request_format(model, kind=options.prompt, extra=extra)


def _fields(text: str) -> dict[str, Any]:
    """Return the extra fields of a request."""
    try:
        fields = json.loads(text or "{}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise UsageError(f"backend.extra is {text!r}.", hint="Give a JSON object: '{\"ignore_eos\": true}'.")
    return fields
