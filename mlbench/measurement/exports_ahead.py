"""Exports on all cores: where a run misses a graph, a process of its own exports those of later runs as well.

An export is one busy thread for ten seconds and more, and a good part of that is imports. That process imports once
and exports in forks of itself, one for each core. The files meet in the cache, where one process waits for the other.
"""

from __future__ import annotations

import gc
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

from mlbench.contracts.graph import Graph
from mlbench.contracts.workload import Profile
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError
from mlbench.execution.cores import physical_cores
from mlbench.execution.export.onnx_export import watch_exports
from mlbench.execution.preload import preload
from mlbench.execution.processes.isolation import Channel, ChildFunction, Failure, ProcessLimits, call_isolated
from mlbench.execution.transforming import apply_transforms
from mlbench.measurement.job import Job, workload_variant
from mlbench.records.job_spec import ModelSpec
from mlbench.records.run_record import EXPORT
from mlbench.settings.transforms import choose_transforms
from mlbench.system.guards import log_errors
from mlbench.wire.progress import Steps

logger = logging.getLogger(__name__)

_LATER_WITHIN_S = 120.0
"""Graphs of later runs are begun for so long, so that one result does not wait for all of them."""
_SILENCE_S = 300.0
"""No graph of a mini model takes so long: a later run's model that hangs costs this one no more."""
_IMPORTED = ("torch", "torch._dynamo", "onnxscript", "onnx")
"""Modules that every export loads; see `_import_for`."""

_graphs: list[Graph] = []
"""Those that forks of this process export, by their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingGraphs:
    """Models whose graphs are exported where the cache does not have them."""

    models: Sequence[ModelSpec]
    """The first is needed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportAnswer:
    """Progress of the export."""

    exported: int
    """Graphs that are in the cache now."""


@contextmanager
def exports_ahead(job: Job, channel: Channel) -> Iterator[None]:
    """Have the first graph that is missing in this block bring all of its model, and those of `JobSpec.later_models`.

    Full models are exported by the run alone, one graph after another: they may not fit into memory twice. So is what
    cannot be exported here; the run then says why.
    """
    if job.variant.profile is not Profile.MINI:
        yield
        return
    is_first = True

    def export() -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            channel.progress(EXPORT)
            _export(job, channel)
            channel.progress("compile")

    with watch_exports(export):
        yield


def _export(job: Job, channel: Channel) -> None:
    spec = job.spec
    names = ("workload", "profile", "weights", "settings", "transform")
    own = ModelSpec(**{name: getattr(spec, name) for name in names})
    try:
        found = call_isolated(
            ChildFunction(f"{__name__}:{export_graphs.__name__}", ExportAnswer),
            MissingGraphs(models=[own, *spec.later_models]),
            job.folder / "exports.txt",
            ProcessLimits.for_helper(min(_SILENCE_S, job.load.stage_timeout_s / 2)),
            lambda progress: channel.progress(progress.stage, progress.read(Steps)),
        )
    except MlbenchError as error:
        logger.warning("no process exports graphs ahead: %s", error)
        return
    if isinstance(found, Failure):
        logger.warning("the process that exports graphs ahead failed: %s", found.message)
    else:
        logger.info("%d graphs were exported ahead", found.exported)


def export_graphs(request: MissingGraphs, channel: Channel) -> ExportAnswer:
    """Export the graphs of models, side by side; what fails is left to the run that needs it, which says why."""
    plugins = Plugins.discover()
    _import_for([plugins.workload_of(spec.workload, spec.settings).preload for spec in request.models])
    needed = _take_in(request.models[0], plugins)
    for spec in request.models[1:]:
        _take_in(spec, plugins)
    gc.disable()  # exports make garbage; the searches for it take a tenth of their time and more, and save 120 MB
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python 3.12 on, of threads in a process that forks: they wait for work
        with ProcessPoolExecutor(len(physical_cores()), mp_context=get_context("fork")) as pool:
            return ExportAnswer(exported=_export_all(pool, needed, channel))


def _import_for(preloaded: Sequence[Sequence[str]]) -> None:
    """Import once what exports load, so that forks have it."""
    preload((*_IMPORTED, *(name for names in preloaded for name in names)))
    import torch

    torch.set_num_threads(1)  # a fork has a core; and a pool of threads would not survive a fork


def _take_in(spec: ModelSpec, plugins: Plugins) -> int:
    """Note the graphs of a model; return how many are noted by now."""
    with log_errors(logger, "the graphs of %s are left to its runs", spec.workload):
        workload = plugins.workload_of(spec.workload, spec.settings)
        model = workload.model(workload_variant(workload, spec))
        _graphs.extend(apply_transforms(model, choose_transforms(spec.transform, plugins)).graphs.values())
    return len(_graphs)


def _export_all(pool: ProcessPoolExecutor, needed: int, channel: Channel) -> int:
    """Export the noted graphs, the first few in any case and others while there is time; return how many."""
    started_s = time.monotonic()
    left, going, exported = iter(range(len(_graphs))), set[Future[bool]](), 0
    while True:
        is_late = time.monotonic() - started_s > _LATER_WITHIN_S
        free = len(physical_cores()) - len(going)
        begun = [number for number in islice(left, free) if number < needed or not is_late]
        going |= {pool.submit(_export_graph, number) for number in begun}
        if not going:
            return exported
        done, going = wait(going, return_when=FIRST_COMPLETED)
        exported += sum(each.result() for each in done)
        channel.progress(EXPORT, Steps(done=exported, of=len(_graphs)))  # only now: one that hangs is not alive


def _export_graph(number: int) -> bool:
    """Export a graph in a fork; return whether the cache has it now."""
    graph = _graphs[number]
    with log_errors(logger, "%s is left to the run", graph.name):
        graph.onnx()
        return True
    return False
