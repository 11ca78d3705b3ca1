"""Kernels that oneDNN ran, from its own report: it prints a line for each to the process's standard output."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

PREFIX = "onednn_verbose,"

PRODUCTS = ("convolution", "deconvolution", "inner_product", "matmul")
"""The primitives that multiply matrices, which depend on the instruction set."""

_VERSION = re.compile(r",info,oneDNN (v[\d.]+)")
_ISA = re.compile(r",info,cpu,isa:(.+)")
_EXECUTED = re.compile(rf",exec,cpu,({'|'.join(PRODUCTS)}),([^,]+),")

_redirecting = threading.Lock()


@dataclass(slots=True)
class Introduction:
    """oneDNN's banner, printed once per process, before the first kernel."""

    version: str = ""
    isa: str = ""
    """The best instruction set that it may use, in oneDNN's words."""


INTRODUCTION = Introduction()
"""This process's."""


@dataclass(slots=True)
class KernelReport:
    """oneDNN's reports on the graphs of one backend."""

    kernels: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """By graph: counts of each kernel in the first call, such as ``convolution brgconv_1x1:avx10_1_512_amx``."""

    def add(self, graph: str, lines: Iterable[str]) -> None:
        """Read the output during a call of a graph."""
        counts: Counter[str] = Counter()
        for line in lines:
            if found := _EXECUTED.search(line):
                counts[f"{found[1]} {found[2]}"] += 1
            elif found := _VERSION.search(line):
                INTRODUCTION.version = found[1]
            elif found := _ISA.search(line):
                INTRODUCTION.isa = found[1].strip()
        self.kernels[graph] = dict(counts.most_common())

    def first_call(self, graph: str) -> contextlib.AbstractContextManager[None]:
        """Return a context for each call of a graph: the kernels of the first call are recorded."""
        return contextlib.nullcontext() if graph in self.kernels else self._listening(graph)

    @contextlib.contextmanager
    def _listening(self, graph: str) -> Iterator[None]:
        """Record the kernels oneDNN runs in this block; other output is passed on afterwards."""
        import tempfile

        import torch

        with _redirecting, tempfile.TemporaryFile() as heard:
            stdout = os.dup(1)
            _flush()
            os.dup2(heard.fileno(), 1)
            try:
                with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
                    yield
            finally:
                _flush()
                os.dup2(stdout, 1)
                heard.seek(0)
                lines = heard.read().decode(errors="replace").splitlines(keepends=True)
                os.write(stdout, "".join(line for line in lines if not line.startswith(PREFIX)).encode())
                os.close(stdout)
        self.add(graph, (line for line in lines if line.startswith(PREFIX)))


def _flush() -> None:
    """Empty the buffers of Python's and of C's standard output."""
    sys.stdout.flush()
    import ctypes  # takes longer than the rest of this module

    ctypes.CDLL(None).fflush(None)
