"""The settings of backends of torch modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from mlbench.contracts.tunable import Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchOptions:
    """What can be set on any backend of torch modules."""

    device: str = "auto"
    """Where to compute: ``cpu``, ``cuda`` or ``cuda:1`` (AMD's too); ``auto``: the first GPU that torch can use, else
    the CPU."""
    threads: Annotated[int, Ge(0), Le(1024)] = 0
    """Threads per operator on the CPU; 0: one per physical core, shared out among ``execution.workers``."""
    compile: Annotated[bool | Literal["auto"], Tunable((False, True))] = False
    """Compile modules; on a CPU it needs a C++ compiler. A graph with state (a language model) is compiled once for all
    shapes, in fp32 on a CPU, and kept in the cache; any other goes through torch.compile, again for new shapes.
    ``auto``: what is compiled once and has up to 1 GiB of weights, where there is a compiler; all else runs eagerly."""
    compile_mode: str = "default"
    """torch.compile's ``mode``: ``default``, ``reduce-overhead``, ``max-autotune``, ..."""
    channels_last: Annotated[bool, Tunable((False, True))] = True
    """Keep images with their channels innermost, where an input's layout says that it holds images."""
    cuda_graphs: bool = True
    """On a GPU, record calls that come again, and replay them: batches, of graphs of which nothing else varies from
    call to call, and calls of graphs with state (a language model's decode steps)."""
