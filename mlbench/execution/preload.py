"""The modules that take long to import, imported before they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from mlbench.system.collection import paused_collection

if TYPE_CHECKING:
    from mlbench.contracts.backend import Backend
    from mlbench.contracts.workload import Workload


def modules_to_preload(workload: Workload, backend: Backend) -> Sequence[str]:
    """Return what a workload and a backend say that runs import, each module once: first what others share."""
    of_networks = workload.preload if backend.preload else ()
    return tuple(dict.fromkeys((*backend.preload, *of_networks, *workload.preload_always)))


def preload(modules: Iterable[str]) -> None:
    """Import modules; what cannot be imported, for whatever reason, is left to the code that needs it and says why."""
    with paused_collection():
        for name in dict.fromkeys(modules):
            with suppress(Exception):
                import_module(name)
