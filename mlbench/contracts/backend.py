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
from mlbench.contracts.workload import NoOptions

if TYPE_CHECKING:
    from mlbench.contracts.engine import Engine
    from mlbench.contracts.graph import Executable, Graph
    from mlbench.contracts.model import Model

Batching = Literal["inline", "dynamic", "bucketed", "fixed", "in_flight", "static"]
"""See `EnginePlan.batching`."""

Size = Annotated[int, Ge(1)]
"""How many of something that there must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Whether a backend can run on this machine, and on which devices. Created without importing the runtime."""

    is_available: bool
    reason: str = ""
    """Why it cannot run, in a few words: ``onnxruntime is not installed``."""
    install: str = ""
    """The command that fixes it: ``pip install 'mlbench-inference[onnxruntime]'``."""
    devices: Sequence[str] = ()
    precisions: Sequence[Precision] = (Precision.FP32,)
    """Offered precisions, best supported first; the first is the default. Any name will do: ``int4-awq``."""
    number_formats: Mapping[Precision, NumberFormat] = field(default_factory=dict)
    """What each of them stores and computes in, as far as its name does not say; kept in the record."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the libraries that affect speed or results, by distribution name."""
    rank: int = 0
    """The available backend with the highest rank is the default; one below 0 runs only when named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """How an engine will be fed. Fields other than ``precision`` guide batching; a native engine may ignore them."""

    precision: Precision = Precision.FP32
    batching: Annotated[Batching, Tunable(("dynamic", "bucketed", "fixed"), programs="batch")] = "fixed"
    """How samples become batches. ``inline``: answer on the caller's thread, a query at a time. ``dynamic``: take what
    waits, up to a batch, after at most ``max_wait_us``. ``bucketed``: the same, the samples of a query sorted by
    length. ``fixed``: the same, each batch filled up by repeating its last sample, for runtimes with static shapes.
    These are for batch programs. ``in_flight``: samples join and leave a running batch, the way of generation programs
    whatever of the above is set. ``static``: a generation program starts a batch only when all of the last one have
    ended, for comparison."""
    batch: Size | Literal["auto"] = "auto"
    """Samples per batch, in flight: at a time; ``auto``: chosen by a short measured sweep during warm-up, or, inline,
    the query."""
    largest_batch: Size = 128
    """The largest batch that the sweep for ``batch`` tries."""
    longest_batch_ms: Annotated[float, Ge(0)] = 0.0
    """The sweep of a batch program chooses none that takes longer, in milliseconds. 0: in Server the limit on the
    latency, since all samples of such a batch would be late; elsewhere none."""
    sweep: Literal["kept", "anew"] = "kept"
    """``kept``: for ``batch`` take the choice of an earlier sweep under the same conditions, where one was sure, or
    wavered between sizes that are nearly as fast; ``anew``: measure again, and keep that."""
    max_wait_us: Annotated[int, Ge(0)] = 0
    """How long a dynamic batch waits for more samples, in microseconds."""
    workers: Annotated[Size, Tunable((1, 2, 4, 8, 16, 32), is_of_cores=True, programs="batch")] = 1
    """Threads that run batches, each with executables of its own; generation has one."""
    instances: Annotated[Size | Literal["auto"], Tunable((1, 2, 4, 8, 16, 32), is_of_cores=True)] = 1
    """Processes with an engine each, which divide the cores or GPUs among them and take samples from one queue;
    ``auto``: chosen in Offline by a short measured sweep. With ``nodes``, so many on each of them."""
    devices: str = ""
    """NVIDIA GPUs for ``instances``, as CUDA_VISIBLE_DEVICES names them: ``0,1`` or ``MIG-...,MIG-...``. They are given
    out in turn, so that several instances may share one. Each sees its own alone, and has cores of its NUMA node; one
    instance is then a process of its own, too. Empty: each backend chooses."""
    nodes: Annotated[int, Ge(0), OPENS_ADDRESS] = 0
    """Machines of a Ray cluster with ``instances`` each, which take samples from one queue; 0: this machine, without
    Ray."""
    cluster: Annotated[str, OPENS_ADDRESS] = "auto"
    """The Ray cluster whose nodes are used: ``HOST:PORT``; ``auto``: the one that this machine is in; ``local``: one of
    this machine alone, started for the run."""
    prefill_tokens: Annotated[Size, Tunable((128, 256, 512, 1024, 2048), programs="generation")] = 512
    """Tokens of prompts that are read in one call, padding included. A longer prompt is read in pieces, so that running
    answers are not held up."""


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
    """The run's folder, once there is one: an engine may leave a file in it, such as the log of a process of its own,
    under a name that says whose it is. None outside of a run."""
    computes_answers: bool = True
    """False: it answers in the right form and computes nothing, to measure what is around it. The conformance kit then
    asks for the form alone."""
    preload: Sequence[str] = ()
    """Modules of its runtime that take long to import. Each run of a command is a fork of a process that has imported
    them and done nothing else. So importing them must start no thread, open no device, and read nothing that a run
    sets; leave out what does."""

    @abstractmethod
    def probe(self) -> Probe:
        """Report what can run here, in milliseconds, without importing the runtime: `importlib.metadata` suffices."""

    @abstractmethod
    def engine(self, model: Model, plan: EnginePlan) -> Engine | None:
        """Return an engine for a model, not yet entered; None, from a `GraphBackend` alone: the core's.

        Raises `GraphError`, or `UsageError` for an option that this machine cannot honour: no run is made then. What an
        engine raises once it was returned is the failure of one run.
        """

    def with_options(self, options: Any) -> Self:
        """Return this backend with other options; they are of the same dataclass as `options`."""
        configured = copy.copy(self)
        configured.options = options
        return configured

    def in_folder(self, folder: Path) -> Self:
        """Return this backend for the run of a folder."""
        placed = copy.copy(self)
        placed.folder = folder
        return placed

    def instance(self, number: int, of: int) -> Self:
        """Return this backend as one of several processes runs it (`EnginePlan.instances`), each on its own device.

        Called in that process, which may use its part of the cores and no other. The backend itself, unless it knows
        devices to choose from. With `EnginePlan.devices` each process sees one device, and is number 0 of 1. Raises
        `UsageError` when there are fewer devices than instances.

        Args:
            number: of the process, from 0.
            of: how many there are.
        """
        return self

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
        """Return this backend as each of several workers runs it; they share the cores this process may use.

        By default the backend itself.
        """
        return self

    def engine(self, model: Model, plan: EnginePlan) -> Engine | None:
        """Return None: the core's engine batches samples through the program or, for generation, keeps them in flight.

        Override it to bring an engine of your own for some models, or to return `mlbench.toolkit.graph_engine`, the
        core's, for a model that you changed.
        """
        return None
