"""Exports side by side: while a run exports a model's first graph, a second process begins with its last one.

An export is one busy thread for ten seconds and more. The files meet in the cache, where one waits for the other.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from mlbench.contracts.model import Model
from mlbench.contracts.workload import Profile
from mlbench.discovery import Plugins
from mlbench.execution.cores import physical_cores
from mlbench.execution.onnx_export import watch_exports
from mlbench.execution.side_process import SideProcess
from mlbench.execution.started_process import take_socket
from mlbench.measurement.job import Job
from mlbench.records.job_spec import JobSpec

logger = logging.getLogger(__name__)

_END_WITHIN_S = 10.0


@contextmanager
def exports_beside(job: Job, model: Model) -> Iterator[None]:
    """Have the first export in this block start a process that exports the model's other graphs, the last one first.

    It ends with the block. None is started where it would gain nothing, or need a large model in memory twice: for a
    single graph, on one core, and for full models. Where it cannot be started, the run exports all graphs.
    """
    if len(model.graphs) == 1 or job.variant.profile is not Profile.MINI or len(physical_cores()) == 1:
        yield
        return
    started: list[SideProcess] = []

    def start() -> None:
        if not started:
            try:
                started.append(SideProcess(__name__))
                started[0].line.sendall(json.dumps(asdict(job.spec)).encode() + b"\n")
            except OSError as error:  # no memory or processes are left, or it has ended already
                logger.warning("graphs are exported one after another: %s", error)

    with watch_exports(start):
        try:
            yield
        finally:
            for process in started:
                process.kill()
                process.wait(_END_WITHIN_S)
                process.line.close()


def export_last_first(spec: Mapping[str, Any]) -> None:
    """Export the graphs of a job's model; what fails is left to the run, which says why."""
    job = Job.of_spec(JobSpec(**spec), Plugins.discover())
    for graph in reversed(list(job.workload.model(job.variant).graphs.values())):
        try:
            graph.onnx()
        except Exception:  # whatever an exporter or a workload raises
            logger.exception("%s is left to the run", graph.name)
            return


def main() -> int:
    """Export for the run that started this process."""
    with take_socket("export") as line, suppress(KeyboardInterrupt):
        export_last_first(json.loads(line.makefile("rb").readline()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
