"""The network as a graph, with trained or random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mlbench import DataError, Dim, Graph, GraphError, TensorSpec
from mlbench.toolkit import ModuleGraph, build_seeded, load_weights
from mlbench_dlrm_v2.architecture import DENSE_FEATURES, Architecture
from mlbench_dlrm_v2.program import LARGEST_CALL

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mlbench.toolkit import Calibrate

RANDOM_SEED = 0
RANDOM_DEVIATION = 0.1
"""Standard deviation of a random embedding table."""

LARGEST_JOINED_BYTES = 2**30
"""Largest embedding tables that are copied into one tensor."""

LARGEST_ONNX_BYTES = 16 * 2**30
"""Largest embedding tables to export: the ONNX file is a copy in the cache, and runtimes read all of it into memory."""

SPARSE = "sparse_arch."
TABLE = SPARSE + "embedding_bag_collection.embedding_bags.t_cat_{}.weight"

_ROWS = Dim(name="rows", smallest=1, usual=2048, largest=LARGEST_CALL)


class WeightSource(Protocol):
    """Tensors by their official names; what is missing or of another shape raises `DataError`."""

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor."""

    def strips(self, name: str, shape: tuple[int, ...]) -> Sequence[Sequence[Tensor]]:
        """Return a table as strips of columns from left to right, each in blocks of rows from the top down."""


class StateDict:
    """Tensors of a file."""

    def __init__(self, state: Mapping[str, Tensor], file: Path) -> None:
        """Store what the file holds, and its name for messages."""
        self._state = state
        self._file = file

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor; see `WeightSource`."""
        if name not in self._state:
            raise DataError(f"weights file lacks {name}: {self._file}.")
        if (found := tuple(self._state[name].shape)) != shape:
            raise DataError(f"{name} is {found}, not {shape}: {self._file}.")
        return self._state[name]

    def strips(self, name: str, shape: tuple[int, ...]) -> Sequence[Sequence[Tensor]]:
        """Return a table in one piece; see `WeightSource`."""
        return [[self.tensor(name, shape)]]


def build_ranker(
    architecture: Architecture,
    source: Callable[[], WeightSource],
    *,
    fingerprint: str,
    calibrate: Calibrate | None,
) -> Graph:
    """Return the network with trained weights.

    Args:
        architecture: what the weights are of.
        source: where they come from, called when a backend asks for the module.
        fingerprint: a hash of them.
        calibrate: yields inputs for quantisation.
    """

    def build() -> nn.Module:
        return build_network(architecture, source())

    return _ranker(architecture, build, fingerprint=fingerprint, calibrate=calibrate)


def random_ranker(architecture: Architecture, calibrate: Calibrate | None) -> Graph:
    """Return the network with seeded weights, the same each time; the global generator stays as it was."""

    def build() -> nn.Module:
        return build_seeded(lambda: new_network(architecture), seed=RANDOM_SEED)

    return _ranker(architecture, build, fingerprint=f"seed {RANDOM_SEED}, {architecture}", calibrate=calibrate)


def weights_file(path: Path, *, sha256: str) -> StateDict:
    """Read a safetensors file.

    Raises:
        DataError: it is missing or has another checksum.
    """
    return StateDict(load_weights(path, sha256=sha256), path)


def new_network(architecture: Architecture) -> nn.Module:
    """Return the network, freshly initialised, under the names of the official state dict."""
    import torch

    from mlbench_dlrm_v2.embedding_tables import EmbeddingTable, SeparateTables
    from mlbench_dlrm_v2.network import Ranker

    shapes = [(rows, architecture.dimension) for rows in architecture.table_rows]
    tables = [EmbeddingTable(torch.randn(shape).mul_(RANDOM_DEVIATION)) for shape in shapes]
    return Ranker(architecture, SeparateTables(tables, architecture.hot_sizes))


def build_network(architecture: Architecture, source: WeightSource) -> nn.Module:
    """Return the network with weights from a source; large tables stay where they are, small ones are joined.

    Raises:
        DataError: a tensor is missing or of another shape.
    """
    from mlbench_dlrm_v2.embedding_tables import EmbeddingTable, JoinedTables, SeparateTables, SplitTable
    from mlbench_dlrm_v2.network import Ranker

    shapes = [(rows, architecture.dimension) for rows in architecture.table_rows]
    if architecture.table_bytes <= LARGEST_JOINED_BYTES:
        tables = [source.tensor(TABLE.format(number), shape) for number, shape in enumerate(shapes)]
        embeddings: nn.Module = JoinedTables(tables, architecture.hot_sizes)
    else:
        parts = [source.strips(TABLE.format(number), shape) for number, shape in enumerate(shapes)]
        embeddings = SeparateTables(
            [EmbeddingTable(strips[0][0]) if _is_whole(strips) else SplitTable(strips) for strips in parts],
            architecture.hot_sizes,
        )
    network = Ranker(architecture, embeddings)
    for name, tensor in network.state_dict().items():
        if not name.startswith(SPARSE):
            tensor.copy_(source.tensor(name, tuple(tensor.shape)))
    return network


def _is_whole(strips: Sequence[Sequence[Tensor]]) -> bool:
    return len(strips) == 1 and len(strips[0]) == 1


def _ranker(
    architecture: Architecture,
    build: Callable[[], nn.Module],
    *,
    fingerprint: str,
    calibrate: Calibrate | None,
) -> Graph:
    has_onnx = architecture.table_bytes <= LARGEST_ONNX_BYTES
    columns = sum(architecture.hot_sizes)
    return (ModuleGraph if has_onnx else RankerWithoutOnnx)(
        "ranker",
        inputs=(
            TensorSpec(name="dense", shape=(_ROWS, DENSE_FEATURES), dtype="float32"),
            TensorSpec(name="indices", shape=(_ROWS, columns), dtype="int32"),
        ),
        outputs=(TensorSpec(name="logits", shape=(_ROWS,), dtype="float32"),),
        build=build,
        fingerprint=fingerprint,
        calibrate=calibrate,
    )


class RankerWithoutOnnx(ModuleGraph):
    """A network whose embedding tables are too large for a copy of them."""

    def onnx(self) -> Path:
        """Refuse.

        Raises:
            GraphError: always.
        """
        raise GraphError(
            f"graph {self.name}: tables of more than {LARGEST_ONNX_BYTES >> 30} GiB have no ONNX form, which would be "
            "a copy of them.",
            hint="Use a backend that runs torch modules, or random weights with fewer rows (workload.table_rows).",
        )
