"""The settings of backends of torch modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from mlbench.contracts.tunable import Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchOptions:
    """Options of all backends of torch modules."""

    device: str = "auto"
    """Device: ``cpu``, ``cuda`` or ``cuda:1`` (AMD's too); ``auto``: the first GPU that torch can use, else
    the CPU."""
    threads: Annotated[int, Ge(0), Le(1024)] = 0
    """Threads per operator on the CPU; 0: one per physical core, divided among ``execution.workers``."""
    compile: Annotated[bool | Literal["auto"], Tunable((False, True))] = False
    """Compile modules; on a CPU it needs a C++ compiler. In fp32 on a CPU a graph is compiled once for all shapes and
    kept in the cache; elsewhere it goes through torch.compile, again for new shapes. ``auto``: only graphs that are
    compiled once, have up to 1 GiB of weights and were measured to be faster, which is kept too (graphs with state
    are not measured), if there is a compiler; others run eagerly."""
    compile_mode: str = "default"
    """torch.compile's ``mode``: ``default``, ``reduce-overhead``, ``max-autotune``, ..."""
    channels_last: Annotated[bool, Tunable((False, True))] = True
    """Keep images with their channels innermost, if an input's layout is that of images."""
    cuda_graphs: bool = True
    """On a GPU, record repeated calls and replay them: batches of graphs in which only the batch varies, and calls of
    graphs with state (a language model's decode steps)."""
