"""What tracing a network needs: example inputs, which axes vary, and whose versions decide what comes of it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contracts.graph import Dim, Graph, TensorSpec
from mlbench.system.installed import versions_of
from mlbench.version import __version__

if TYPE_CHECKING:
    import torch

_TALKERS = ("onnx_ir", "onnxscript")
"""Loggers of the exporter's optimiser, which log every constant: hundreds of lines per run."""

_NETWORK_LIBRARIES = ("torch", "torchvision", "transformers", "diffusers")
"""The distributions that most workloads take networks from; `Graph.fingerprint` holds the versions of others."""

_TRACING = ("mlbench.execution", "mlbench.toolkit")
"""The packages that trace."""

logger = logging.getLogger(__name__)


def tracing_versions(graph: Graph, *modules: str) -> dict[str, str]:
    """Return the versions of all code that decides what a traced graph computes, as part of a cache's key.

    Those of distributions, and hashes of the packages that make the graph's module and trace it: a checkout changes
    from commit to commit within one version.

    Args:
        graph: what is traced.
        modules: of other code that decides; of each the whole package counts.
    """
    packages = {_package_of(each) for each in (*_TRACING, *graph.code, *modules)}
    sources = {f"source of {each}": _hash_of(each) for each in sorted(packages.difference(_NETWORK_LIBRARIES))}
    return {"mlbench": __version__, **versions_of(_NETWORK_LIBRARIES), **sources}


def _package_of(module: str) -> str:
    """Return the package at the top; of mlbench's modules the one below, since reports decide about no graph."""
    first, _, rest = module.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "mlbench" else first


@functools.cache
def _hash_of(package: str) -> str:
    """Return a hash of a package's Python files, or of a single module's."""
    try:
        module = import_module(package)
    except ImportError:  # read from a file under a name that no import finds
        return "unknown"
    alone = getattr(module, "__file__", None)  # typed in at a prompt, it has none
    files = [file for place in getattr(module, "__path__", ()) for file in Path(place).rglob("*.py") if file.is_file()]
    found = hashlib.sha256()
    for file in sorted(files or ([Path(alone)] if alone else [])):
        found.update(f"{file.name}\0".encode() + file.read_bytes())
    return found.hexdigest()


def example_sizes(inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """Return a size to trace with for each dimension.

    At least 2 where it varies, since torch.export takes a 1 for a constant; unlike each other where their ranges
    allow, since equal sizes may be taken for one dimension; and either a `Dim`'s own numbers or from 2 upwards, since
    between two legal sizes there may be illegal ones (multiples of 32).
    """
    sizes: dict[str, int] = {}
    for dim in (dim for spec in inputs for dim in spec.shape if isinstance(dim, Dim)):
        if dim.name not in sizes:
            choices = range(2, dim.largest + 1) if dim.smallest == 1 else (dim.smallest, dim.usual, dim.largest)
            unused = (size for size in choices if size not in sizes.values())
            sizes[dim.name] = next(unused, choices[0] if choices else 1)
    return sizes


def usual_sizes(inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """Return the usual size of each dimension, one more where another has it: for compilers that optimise for it."""
    sizes: dict[str, int] = {}
    for dim in (dim for spec in inputs for dim in spec.shape if isinstance(dim, Dim)):
        if dim.name not in sizes:
            choices = range(max(2, dim.usual), dim.largest + 1)
            sizes[dim.name] = next((size for size in choices if size not in sizes.values()), dim.usual)
    return sizes


def example_inputs(inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
    """Return zeros to trace a module with, of these sizes."""
    import torch

    shapes = (spec.concrete_shape(sizes) for spec in inputs)
    return tuple(
        torch.zeros(shape, dtype=getattr(torch, spec.dtype)) for spec, shape in zip(inputs, shapes, strict=True)
    )


def dynamic_axes(spec: TensorSpec) -> dict[int, str]:
    """Return the names of the axes that vary, by position."""
    return {axis: dim.name for axis, dim in enumerate(spec.shape) if isinstance(dim, Dim) and varies(dim)}


def take_one_by_one(module: torch.nn.Module, count: int) -> None:
    """Give ``forward`` a parameter for each tensor: torch 2.9 cannot export what takes a ``*state``."""
    forward = module.forward

    def flat(*tensors: torch.Tensor) -> Any:
        return forward(*tensors)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    flat.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(f"tensor_{number}", kind) for number in range(count)]
    )
    module.forward = flat


def varies(dim: Dim) -> bool:
    """Return whether a dimension takes more than one size."""
    return dim.smallest < dim.largest


def root_reason(error: BaseException) -> str:
    """Return the first line of the error at the root of a chain, which names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what the exporter prints, warns and logs to our log instead."""
    for name in _TALKERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    printed = io.StringIO()
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("default")
            yield
    finally:
        for line in (*(str(warning.message) for warning in warned), *printed.getvalue().splitlines()):
            logger.debug("exporter: %s", line)
