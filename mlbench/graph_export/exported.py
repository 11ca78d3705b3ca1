"""An export: its graphs, their files and tensors, as objects and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from mlbench.contracts.graph import Dim, TensorSpec
from mlbench.contracts.workload import Profile, Weights
from mlbench.version import __version__


class Layout(StrEnum):
    """Layout of the files in the folder."""

    FILES = "files"
    """``<graph>.onnx`` for each graph, and `DOCUMENT` beside them."""
    TRITON = "triton"
    """A model repository of Triton: a folder for each graph, with its configuration and one version."""


DOCUMENT = "graphs.json"
"""The file of `Layout.FILES` that describes the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedGraph:
    """A graph whose files were written."""

    name: str
    file: str
    """The ONNX file, as a path inside the folder."""
    more_files: tuple[str, ...]
    """Further ones that it reads its weights from, and a server's configuration."""
    size_bytes: int
    """Size of the ONNX file and its weights."""
    sha256: str
    """Checksum of the ONNX file; above 1.5 GiB weights lie beside it, which it does not cover."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[str, ...]
    """The inputs whose next values are outputs; empty but for language models."""

    @property
    def dims(self) -> Mapping[str, Dim]:
        """The dimensions that vary, by name."""
        specs = (*self.inputs, *self.outputs)
        return {size.name: size for spec in specs for size in spec.shape if isinstance(size, Dim)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The result of an export."""

    workload: str
    profile: Profile
    weights: Weights
    weights_fingerprint: str
    is_batch_program: bool
    """Whether calls of the graphs are independent, as a server of single requests needs it."""
    graphs: Sequence[ExportedGraph]

    def document(self) -> ExportDocument:
        """Return it as a document."""
        return ExportDocument(
            mlbench=__version__,
            workload=self.workload,
            profile=str(self.profile),
            weights=str(self.weights),
            weights_fingerprint=self.weights_fingerprint,
            graphs=[_graph_document(graph) for graph in self.graphs],
        )


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorDocument(_Document):
    """An input or an output."""

    name: str
    dtype: str
    shape: list[int | str]
    """Sizes, and the names of the dimensions that vary."""
    layout: str


class DimDocument(_Document):
    """The sizes that a dimension may have."""

    smallest: int
    usual: int
    largest: int


class GraphDocument(_Document):
    """A graph and its files."""

    name: str
    file: str
    more_files: list[str]
    size_bytes: int
    sha256: str
    inputs: list[TensorDocument]
    outputs: list[TensorDocument]
    state: list[str]
    dimensions: dict[str, DimDocument]


class ExportDocument(_Document):
    """An export, as `DOCUMENT` describes it and ``--json`` prints it."""

    format: Literal[1] = 1
    mlbench: str
    """Version of the mlbench that wrote it."""
    workload: str
    profile: str
    weights: str
    weights_fingerprint: str
    graphs: list[GraphDocument]


def shape_of(spec: TensorSpec) -> list[int | str]:
    """Return a tensor's shape, with the names of the dimensions that vary."""
    return [size.name if isinstance(size, Dim) else size for size in spec.shape]


def _graph_document(graph: ExportedGraph) -> GraphDocument:
    return GraphDocument(
        name=graph.name,
        file=graph.file,
        more_files=[*graph.more_files],
        size_bytes=graph.size_bytes,
        sha256=graph.sha256,
        inputs=[*map(_tensor_document, graph.inputs)],
        outputs=[*map(_tensor_document, graph.outputs)],
        state=[*graph.state],
        dimensions={
            name: DimDocument(smallest=dim.smallest, usual=dim.usual, largest=dim.largest)
            for name, dim in graph.dims.items()
        },
    )


def _tensor_document(spec: TensorSpec) -> TensorDocument:
    return TensorDocument(name=spec.name, dtype=spec.dtype, shape=shape_of(spec), layout=spec.layout)
