"""Lets plugins know that runs and suites begin and end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlbench.contracts import hookspecs
from mlbench.discovery import Plugins
from mlbench.planning.run_plan import RunPlan
from mlbench.records.store.run_names import has_record

asking_plugins = threading.Lock()
"""Held while code of plugins runs in this process: it expects one caller, and redirects what they print."""


@contextmanager
def run_notices(folder: Path, tag: str, plugins: Plugins) -> Iterator[None]:
    """Let plugins know that a run begins, and in the end that it ended."""
    with asking_plugins:
        plugins.notify(hookspecs.mlbench_run_begins, f"the begin of {folder.name}", folder=folder, tag=tag)
    try:
        yield
    finally:
        facts: dict[str, Any] = {"folder": folder, "is_stored": has_record(folder)}
        with asking_plugins:
            plugins.notify(hookspecs.mlbench_run_ended, f"the end of {folder.name}", **facts)


@contextmanager
def suite_notices(plan: RunPlan, plugins: Plugins) -> Iterator[None]:
    """Let plugins know that a suite begins, and in the end that it ended; nothing where no run of one is to be made."""
    if not plan.suite or not plan.requests:
        yield
        return
    facts: dict[str, Any] = {"name": plan.suite, "results": plan.requests[0].results}
    what = f"suite {plan.suite}"
    plugins.notify(hookspecs.mlbench_suite_begins, f"the begin of {what}", **facts, count=len(plan.requests))
    try:
        yield
    finally:
        plugins.notify(hookspecs.mlbench_suite_ended, f"the end of {what}", **facts)
