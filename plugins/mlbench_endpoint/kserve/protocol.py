"""KServe's open inference protocol (v2) over HTTP: a call of a graph is a request to the server's model of it.

The core's engine batches samples and calls graphs as for any backend that compiles them; each of its workers has its
own connection. Source: https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from mlbench import Dim, Executable, Graph, GraphBackend, Precision, Probe, TensorSpec, UnavailableError, UsageError
from mlbench.toolkit import graph_engine
from mlbench_endpoint.client.access import Access
from mlbench_endpoint.client.advice import advise_on, to_hint
from mlbench_endpoint.client.connection import Connection
from mlbench_endpoint.client.failure import RequestFailed, one_line
from mlbench_endpoint.client.json_object import json_object
from mlbench_endpoint.client.retry import wait_before_retry_s
from mlbench_endpoint.kserve.tensors import DATATYPES, NOT_IN_JSON, Expected, encode_request, read_answer
from mlbench_endpoint.options import ONLY_OPENAI, EndpointOptions

if TYPE_CHECKING:
    import numpy as np

    from mlbench import Engine, EnginePlan, Model

GRAPH = "{graph}"
"""Placeholder in ``backend.model`` for the name of a graph."""

BINARY = "binary_tensor_data"
"""Name of the extension for tensors as bytes, in a server's metadata."""

VARIES = -1
"""A dimension of any size, in metadata."""

METADATA_S = 60.0
"""Longest time for a server's metadata."""

_LONGEST_METADATA = 1 << 20


@dataclass(slots=True)
class ServerFacts:
    """Metadata of servers, and counts of requests, for the record."""

    servers: dict[str, str] = field(default_factory=dict)
    """Name and version of each target's."""
    models: dict[str, str] = field(default_factory=dict)
    """The server's name of each graph's model."""
    tensors: str = ""
    """Encoding of tensors: ``binary`` or ``json``."""
    counts: dict[str, int] = field(default_factory=lambda: {"requests": 0, "retried": 0})
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str) -> None:
        """Count a request, or a retry; workers do at the same time."""
        with self._lock:
            self.counts[name] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphClient:
    """Requests to servers; the targets are used in turn."""

    targets: Sequence[str]
    """URLs under which ``v2`` lies."""
    options: EndpointOptions
    access: Access
    served: ServerFacts = field(default_factory=ServerFacts)
    turns: Iterator[int] = field(default_factory=itertools.count)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def connect(self, timeout_s: float) -> dict[str, Connection]:
        """Return a connection to each target, for one thread, not opened yet; they may be silent for this long."""
        return {target: Connection(target, access=self.access, timeout_s=timeout_s) for target in self.targets}

    def refuse(self, target: str, error: Exception, hint: str = "") -> NoReturn:
        """Raise `UnavailableError` for a server's fault, in one line and without the key."""
        raise UnavailableError(f"{target}: {one_line(self.access.redact(_reason(error)))}.", hint=hint) from error


class ServedGraphs(GraphBackend):
    """Compiles each graph to requests for it. `kserve_engine` has compared metadata before."""

    name = "endpoint"

    def __init__(self, client: GraphClient) -> None:
        self._client = client

    def probe(self) -> Probe:
        """Return that the server is available: it was asked before."""
        return Probe(is_available=True)

    def compile(self, graph: Graph, precision: Precision) -> Executable:
        """Return the executable that requests the graph's outputs; the server has its own precision."""
        return ServedGraph(graph, self._client)


class ServedGraph:
    """A graph that a server computes. It has a connection to each target, closed when the graph is no longer used."""

    def __init__(self, graph: Graph, client: GraphClient) -> None:
        self._graph = graph
        self._client = client
        self._connections = client.connect(client.options.timeout_s)
        self._model = client.served.models[graph.name]
        self._path = f"v2/models/{quote(self._model, safe='')}/infer"
        weakref.finalize(self, _close, self._connections)

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in new memory; earlier calls are not kept.

        Raises:
            UnavailableError: a server failed; the message quotes it.
        """
        client, options = self._client, self._client.options
        end_s = time.monotonic() + options.total_timeout_s
        arrays = {spec.name: inputs[spec.name] for spec in self._graph.inputs}
        expected = expected_outputs(self._graph, arrays)
        for attempt in itertools.count():
            client.served.count("requests")
            target = client.targets[next(client.turns) % len(client.targets)]
            try:
                return self._ask(target, arrays, expected, end_s)
            except (RequestFailed, OSError, http.client.HTTPException, ValueError) as error:
                self._connections[target].close()  # servers hang up after an error
                wait_s = wait_before_retry_s(error, attempt + 1)
                if attempt >= options.retries or wait_s is None or time.monotonic() + wait_s >= end_s:
                    client.refuse(target, error)
                client.served.count("retried")
                time.sleep(wait_s)
        raise AssertionError("each attempt returns, raises, or is followed by another")

    def _ask(
        self, target: str, arrays: Mapping[str, np.ndarray], expected: Sequence[Expected], end_s: float
    ) -> Mapping[str, np.ndarray]:
        number = str(next(self._client.numbers))
        request = encode_request(
            arrays,
            [each.name for each in expected],
            number=number,
            is_binary=self._client.served.tensors == "binary",
        )
        connection = self._connections[target]
        body = connection.send("POST", self._path, end_s=end_s, body=request.body, headers=request.headers)
        return read_answer(body, expected, number=number, model=self._model)


def kserve_engine(model: Model, plan: EnginePlan, client: GraphClient) -> Engine:
    """Return the core's engine over graphs that servers compute, after comparing their models.

    Args:
        model: its program runs batches.
        plan: how samples become batches.
        client: takes what is found out.

    Raises:
        UsageError: an option has no meaning here, or a server's model has other tensors than the workload's.
        UnavailableError: a server does not answer, or has no such model.
    """
    options, served = client.options, client.served
    _refuse_options(options, plan)
    served.models = {graph.name: _model_name(options.model, graph.name, model) for graph in model.graphs.values()}
    connections = client.connect(METADATA_S)
    try:
        offers = [_examine(target, connections[target], client, model) for target in client.targets]
    finally:
        _close(connections)
    is_binary = options.tensors == "binary" or (options.tensors == "auto" and all(offers))
    served.tensors = "binary" if is_binary else "json"
    if not is_binary:
        _expect_json_types(model)
    workers = plan.workers if options.connections == "auto" else options.connections
    return graph_engine(ServedGraphs(client), model, replace(plan, workers=workers))


def expected_outputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[Expected]:
    """Return the shapes of outputs: varying dimensions come from the inputs, or are free if no input has them."""
    sizes = {
        each.name: size
        for spec in graph.inputs
        for each, size in zip(spec.shape, inputs[spec.name].shape, strict=True)
        if isinstance(each, Dim)
    }
    return [
        Expected(
            name=spec.name,
            dtype=spec.dtype,
            shape=tuple(sizes.get(each.name) if isinstance(each, Dim) else each for each in spec.shape),
        )
        for spec in graph.outputs
    ]


def difference(graph: Graph, metadata: Mapping[str, Any]) -> str:
    """Return the first difference between a server's model and a graph; empty if the model can replace it.

    All inputs must be the graph's, and all outputs of the graph must be there: names, types and shapes. Where a
    dimension of the graph varies, the server's must.
    """
    for what, specs in (("input", graph.inputs), ("output", graph.outputs)):
        found = metadata.get(f"{what}s")
        tensors = {
            str(each.get("name")): each for each in (found if isinstance(found, list) else []) if isinstance(each, dict)
        }
        names = {spec.name for spec in specs}
        if (what == "input" and tensors.keys() != names) or not names <= tensors.keys():
            return f"its {what}s are {', '.join(sorted(tensors)) or 'not named'}, not {', '.join(sorted(names))}"
        for spec in specs:
            theirs = tensors[spec.name]
            ours = [VARIES if isinstance(each, Dim) else each for each in spec.shape]
            if theirs.get("datatype") != DATATYPES.get(spec.dtype) or not _fits(theirs.get("shape"), spec):
                told = f"{theirs.get('datatype')} {theirs.get('shape')}"
                return f"its {what} {spec.name} is {told}, not {DATATYPES.get(spec.dtype)} {ours}"
    return ""


def _fits(shape: Any, spec: TensorSpec) -> bool:
    """Return whether a shape in metadata allows all shapes of a tensor; a fixed dimension may be free there."""
    if not isinstance(shape, list) or len(shape) != len(spec.shape):
        return False
    return all(
        theirs == VARIES or (not isinstance(ours, Dim) and theirs == ours)
        for ours, theirs in zip(spec.shape, shape, strict=True)
    )


def _refuse_options(options: EndpointOptions, plan: EnginePlan) -> None:
    usual = EndpointOptions()
    for name in ONLY_OPENAI:
        if getattr(options, name) != getattr(usual, name):
            raise UsageError(
                f"backend.{name} has no meaning with backend.protocol=kserve.", hint="Leave one of them out."
            )
    if options.connections != "auto" and plan.workers not in (1, options.connections):
        raise UsageError(
            f"backend.connections is {options.connections}, and execution.workers {plan.workers}: "
            "with backend.protocol=kserve both set the number of requests in flight.",
            hint="Set one of them.",
        )


def _expect_json_types(model: Model) -> None:
    for graph in model.graphs.values():
        for spec in (*graph.inputs, *graph.outputs):
            if DATATYPES[spec.dtype] in NOT_IN_JSON:
                raise UsageError(
                    f"{spec.name} of graph {graph.name} is {spec.dtype}, which JSON cannot represent.",
                    hint="Use a server with the binary data extension: --set backend.tensors=binary",
                )


def _model_name(given: str, graph: str, model: Model) -> str:
    """Return the server's name of a graph's model."""
    if given and GRAPH not in given and len(model.graphs) > 1:
        raise UsageError(
            f"backend.model is {given!r}, and {model.name} has {len(model.graphs)} graphs: {', '.join(model.graphs)}.",
            hint=f"Serve each as a model, and put {GRAPH} where their names differ: {given}-{GRAPH}.",
        )
    return (given or GRAPH).replace(GRAPH, graph)


def _examine(target: str, connection: Connection, client: GraphClient, model: Model) -> bool:
    """Get a server's metadata, and compare its models with the graphs; return whether tensors may be bytes."""

    def ask(path: str) -> Any:
        try:
            body = connection.send("GET", path, end_s=time.monotonic() + METADATA_S)
            return json_object(body.read_rest(_LONGEST_METADATA))
        except (RequestFailed, OSError, http.client.HTTPException, ValueError) as error:
            client.refuse(f"{target}/{path}", error, hint=to_hint(advise_on(error)))

    server = ask("v2")
    client.served.servers[target] = one_line(" ".join(str(server.get(name, "")) for name in ("name", "version")))
    for graph in model.graphs.values():
        name = client.served.models[graph.name]
        if found := difference(graph, ask(f"v2/models/{quote(name, safe='')}")):
            raise UsageError(
                f"{target} has another model as {name} than {model.name}'s graph {graph.name}: "
                f"{one_line(client.access.redact(found))}.",
                hint="Serve the workload's own graph, or name another model in backend.model.",
            )
    extensions = server.get("extensions")
    return isinstance(extensions, list) and BINARY in extensions


def _reason(error: Exception) -> str:
    """Return the text of a failed request; for an error in the protocol's form its message."""
    if isinstance(error, TimeoutError):
        return "no complete answer in time (backend.timeout_s, backend.total_timeout_s)"
    text = str(error) or type(error).__name__
    begin, brace, rest = text.partition("{")
    if brace and isinstance(error, RequestFailed):
        with suppress(ValueError, RecursionError, AttributeError):
            if isinstance(message := json.loads(brace + rest).get("error"), str):
                return begin + message
    return text.rstrip(".")


def _close(connections: Mapping[str, Connection]) -> None:
    for each in connections.values():
        each.close()
