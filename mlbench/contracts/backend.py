"""A backend: runs workloads on one runtime."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge

from mlbench.contracts.guarded import OPENS_ADDRESS
from mlbench.contracts.precision import NumberFormat, Precision
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.tunable import Tunable
from mlbench.contracts.workload import Memory, NoOptions

if TYPE_CHECKING:
    from mlbench.contracts.engine import Engine
    from mlbench.contracts.graph import Executable, Graph
    from mlbench.contracts.model import Model

Batching = Literal["inline", "dynamic", "bucketed", "fixed", "in_flight", "static"]
"""See `EnginePlan.batching`."""

Size = Annotated[int, Ge(1)]
"""A count that is at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Reports whether a backend can run on this machine, and on which devices; made without importing the runtime."""

    is_available: bool
    reason: str = ""
    """Reason why it cannot run, in a few words: ``onnxruntime is not installed``."""
    install: str = ""
    """The command that fixes it: ``pip install 'mlbench-inference[onnxruntime]'``."""
    devices: Sequence[str] = ()
    precisions: Sequence[Precision] = (Precision.FP32,)
    """Offered precisions, best supported first; the first is the default. Any name will do: ``int4-awq``."""
    number_formats: Mapping[Precision, NumberFormat] = field(default_factory=dict)
    """Number formats of each precision whose name does not give them; kept in the record."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the libraries that affect speed or results, by distribution name."""
    rank: int = 0
    """The available backend with the highest rank is the default, where no earlier run shows a faster one; one below 0
    runs only when named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """How an engine will be fed. Fields other than ``precision`` guide batching; a native engine may ignore them."""

    precision: Precision = Precision.FP32
    batching: Annotated[Batching, Tunable(("dynamic", "bucketed", "fixed"), programs="batch")] = "fixed"
    """How samples become batches. ``inline``: answer on the caller's thread, a query at a time. ``dynamic``: take
    waiting samples, up to a batch, after at most ``max_wait_us``. ``bucketed``: as ``dynamic``, with the samples of a
    query sorted by length. ``fixed``: as ``dynamic``, with each batch filled up by repeating its last sample, for
    runtimes with static shapes. These four are for batch programs. ``in_flight``: samples join and leave a running
    batch; generation programs do so with any of the above, too. ``static``: a generation program starts a batch only
    when the last one has ended, for comparison."""
    batch: Size | Literal["auto"] = "auto"
    """Samples per batch, or samples in flight at a time. ``auto``: a short measured sweep during warm-up chooses it;
    for ``inline`` it is the query."""
    largest_batch: Size = 128
    """Largest batch that the sweep for ``batch`` tries."""
    longest_batch_ms: Annotated[float, Ge(0)] = 0.0
    """Longest duration of a batch that the sweep of a batch program may choose, in milliseconds. 0: in Server the
    latency limit, since all samples of a longer batch would be late; elsewhere no limit."""
    sweep: Literal["kept", "anew"] = "kept"
    """``kept``: reuse the ``batch`` that an earlier sweep chose under the same conditions, if its choice was clear or
    the candidates were nearly as fast. ``anew``: measure again, and keep the new choice."""
    max_wait_us: Annotated[int, Ge(0)] = 0
    """How long a dynamic batch waits for more samples, in microseconds."""
    workers: Annotated[Size, Tunable((1, 2, 4, 8, 16, 32), is_of_cores=True, programs="batch")] = 1
    """Threads that run batches, each with its own executables; generation uses one."""
    instances: Annotated[Size | Literal["auto"], Tunable((1, 2, 4, 8, 16, 32), is_of_cores=True)] = 1
    """Processes with an engine each, which share the cores or GPUs and take samples from one queue. ``auto``: in
    Offline a short measured sweep chooses the number. With ``nodes``, the number on each node."""
    devices: str = ""
    """NVIDIA GPUs for ``instances``, as CUDA_VISIBLE_DEVICES names them: ``0,1`` or ``MIG-...,MIG-...``. They are
    assigned round-robin, so several instances may share one. Each instance sees only its GPU and runs on cores of that
    GPU's NUMA node, in its own process even if it is the only one. Empty: each backend chooses."""
    nodes: Annotated[int, Ge(0), OPENS_ADDRESS] = 0
    """Machines of a Ray cluster with ``instances`` each, which take samples from one queue. 0: this machine, without
    Ray."""
    cluster: Annotated[str, OPENS_ADDRESS] = "auto"
    """The Ray cluster to use: ``HOST:PORT``; ``auto``: the cluster of this machine; ``local``: a cluster of this
    machine alone, started for the run."""
    prefill_tokens: Annotated[Size, Tunable((128, 256, 512, 1024, 2048), programs="generation")] = 512
    """Tokens of prompts that one call reads, padding included. A longer prompt is read in pieces, so that running
    answers are not delayed."""


class Backend(ABC):
    """Makes engines. Settings named ``backend.<field>`` fill `options` before `engine` is called."""

    name: str
    title: str = ""
    """One line for `mlbench list`."""
    options: Any = NoOptions()
    """A frozen dataclass with default values."""
    tuning: Path | None = None
    """A TOML file of suggested settings (see `mlbench.settings.layers`)."""
    folder: Path | None = None
    """The run's folder; None outside of a run. An engine may write files into it, such as the log of a server that it
    starts, under a name that identifies the backend."""
    computes_answers: bool = True
    """False: it answers in the right form without computing, to measure the overhead. The conformance kit then checks
    only the form of replies."""
    loads_files: bool = False
    """Whether its engines load `Model.files`, and so run what a transform with `Transform.writes_files` wrote."""
    preload: Sequence[str] = ()
    """Modules of its runtime that take long to import. Each run of a command is a fork of a process that has imported
    them and done nothing else. So leave out modules whose import starts a thread, opens a device, or reads a value that
    a run sets."""

    @abstractmethod
    def probe(self) -> Probe:
        """Report what can run here, in milliseconds and without importing the runtime (use `importlib.metadata`)."""

    @abstractmethod
    def engine(self, model: Model, plan: EnginePlan) -> Engine | None:
        """Return an engine for a model, not yet entered. A `GraphBackend` may return None: the core's engine is used.

        Raises `GraphError`, or `UsageError` for an option that this machine cannot honour: no run is made then. An
        error that the engine raises later fails one run.
        """

    def with_options(self, options: Any) -> Self:
        """Return this backend with other options; they are of the same dataclass as `options`."""
        configured = copy.copy(self)
        configured.options = options
        return configured

    def in_folder(self, folder: Path) -> Self:
        """Return this backend for the run that writes to a folder."""
        placed = copy.copy(self)
        placed.folder = folder
        return placed

    def instance(self, number: int, of: int) -> Self:
        """Return this backend for one of several processes (`EnginePlan.instances`), each on its own device.

        Called in that process, which may use its part of the cores and no other. By default the backend itself;
        override it to choose a device. With `EnginePlan.devices` each process sees one device, and is number 0 of 1.
        Raises `UsageError` when there are fewer devices than instances.

        Args:
            number: number of the process, from 0.
            of: number of processes.
        """
        return self

    def memory(self) -> Memory:
        """Return the memory that it computes in, by its options; a workload may choose the form of its data by it.

        Raises `UsageError` when the options name a device that is not here.
        """
        return Memory.HOST

    def observe(self) -> RuntimeFacts:
        """Return facts about the runtime for the record (threads, instruction set), after a run."""
        return RuntimeFacts()


class GraphBackend(Backend):
    """A backend that compiles graphs; the core brings the engine that calls them."""

    @abstractmethod
    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return a callable equal to ``graph.module()``, within ``graph.tolerance(precision)``, for all input shapes.

        Of a graph with `Graph.state` return a `StatefulExecutable`, or an `Executable` of its ONNX form (see there).
        Raises `GraphError` when the runtime cannot express the graph, naming the operator that stopped it. Called once
        per engine worker.
        """

    def for_workers(self, workers: int) -> Self:
        """Return this backend for each of several workers, which share the cores of this process.

        By default the backend itself.
        """
        return self

    def engine(self, model: Model, plan: EnginePlan) -> Engine | None:
        """Return None: the core's engine batches samples through the program or, for generation, keeps them in flight.

        Override it to return your own engine for some models, or `mlbench.toolkit.graph_engine`, the core's, for a
        model that you changed.
        """
        return None
