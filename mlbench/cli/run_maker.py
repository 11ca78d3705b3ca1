"""Makes the runs of a search, one after another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlbench.discovery import Plugins
    from mlbench.records.run_record import RunRecord
    from mlbench.requests import ResolvedRequest


@dataclass(frozen=True, slots=True)
class ProgressingMaker:
    """Makes runs one after another, each with a line of progress that goes away."""

    plugins: Plugins

    def __call__(self, request: ResolvedRequest, what: str, seconds: float) -> RunRecord:
        """Make a run; raises as `run_benchmark`."""
        from mlbench.cli.progress import Progress
        from mlbench.records.expected_cost import Basis, ExpectedTime
        from mlbench.reports.progress import RunPlace, RunProgress
        from mlbench.runner import run_benchmark

        now_s = time.monotonic()
        this = ExpectedTime(seconds=seconds, basis=Basis.NOTHING)
        place = RunPlace(number=1, of=1, this=this, others=ExpectedTime(seconds=0.0, basis=Basis.SAME))
        name = f"{request.workload} {request.backend}, {what}"
        with Progress(RunProgress(name, place, began_s=now_s, first_began_s=now_s)) as progress:
            return run_benchmark(request, self.plugins, progress.on_progress)
