"""The CPU backend: graphs compiled ahead of time for oneDNN's kernels, on AMX where the CPU has it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

from mlbench import Executable, Graph, GraphBackend, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import cores_each, find_versions, machine_flags, usable_threads
from mlbench.toolkit.torch_backend.cxx_compiler import cxx, has_cxx
from mlbench_cpu_amx.allocator import find_allocator
from mlbench_cpu_amx.instruction_sets import BF16, choose_instruction_set, limit, list_available
from mlbench_cpu_amx.kernels import INTRODUCTION, KernelReport
from mlbench_cpu_amx.options import CpuAmxOptions

INSTALL = "pip install 'mlbench-inference[cpu-amx]'"

logger = logging.getLogger(__name__)


class CpuAmx(GraphBackend):
    """Runs graphs on an x86 CPU, through torch's inductor and oneDNN."""

    name = "cpu_amx"
    title = "x86 CPUs: graphs compiled ahead of time, oneDNN's kernels (AMX, AVX-512)"
    options = CpuAmxOptions()

    def __init__(self) -> None:
        self._report = KernelReport()  # shared with the copies that other options make

    def probe(self) -> Probe:
        """Look for distributions, a C++ compiler and the CPU's flags; torch stays unloaded."""
        flags, versions = machine_flags(), find_versions("torch", "torchao")
        found = list_available(flags)
        if not found:
            return Probe(is_available=False, reason="no x86 CPU with AVX2 here", install="run on another backend")
        if "torch" not in versions:
            return Probe(is_available=False, reason="torch is not installed", install=INSTALL)
        if not has_cxx():
            return Probe(is_available=False, reason=f"no C++ compiler ({cxx()})", install="apt-get install g++")
        return Probe(
            is_available=True,
            devices=tuple(found),
            precisions=tuple(_precisions(has_bf16=BF16 in flags, has_int8="torchao" in versions)),
            versions=versions,
            rank=30,
        )

    def for_workers(self, workers: int) -> Self:
        """Give each worker its part of the cores."""
        return self.with_options(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return a graph's package as a callable; for a graph with state its module, which oneDNN computes too.

        Raises:
            UsageError: the CPU, or the chosen instruction set, lacks the precision.
            GraphError: the graph cannot be compiled or quantised.
        """
        import torch

        isa = self._choose_isa(precision)
        limit(isa)
        torch.set_num_threads(self.options.threads or min(torch.get_num_threads(), usable_threads()))
        if graph.state:
            from mlbench_cpu_amx.stateful import StatefulModule

            return StatefulModule(graph, precision, self._report)
        from mlbench_cpu_amx.packages import Package, package_of

        return Package(package_of(graph, precision, isa), graph, self._report)

    def observe(self) -> RuntimeFacts:
        """Return torch's setup, and the kernels that oneDNN reports."""
        import torch

        return RuntimeFacts(
            device="cpu",
            extra={
                "threads": self.options.threads or torch.get_num_threads(),
                "isa": choose_instruction_set(self.options.isa, machine_flags()),
                "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                "onednn": INTRODUCTION.version,
                "onednn_isa": INTRODUCTION.isa,
                "kernels": self._report.kernels,
                "allocator": find_allocator(),
                **find_versions("torch", "torchao"),
            },
        )

    def _choose_isa(self, precision: Precision) -> str:
        """Return the instruction set to compile for."""
        flags = machine_flags()
        isa = choose_instruction_set(self.options.isa, flags)
        has_bf16 = BF16 in flags and isa != "avx2"
        precisions = list(_precisions(has_bf16=has_bf16, has_int8="torchao" in find_versions("torchao")))
        if precision not in precisions:
            raise UsageError(
                f"{self.name} does not offer {precision} on this CPU with backend.isa={self.options.isa}.",
                hint=f"Choose from {', '.join(precisions)}.",
            )
        logger.info("backend.isa is %s: %s", self.options.isa, isa)
        return isa


def _precisions(*, has_bf16: bool, has_int8: bool) -> Iterator[Precision]:
    """Yield the precisions of a CPU, best supported first."""
    if has_bf16:
        yield Precision.BF16
    yield Precision.FP32
    if has_int8:
        yield Precision.INT8
