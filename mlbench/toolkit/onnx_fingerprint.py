"""The identity of a graph's ONNX file, the cache key of files made from it, and the files that it keeps weights in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from mlbench.contracts.graph import Graph
from mlbench.errors import GraphError
from mlbench.toolkit.files import file_sha256


def onnx_identity(graph: Graph, file: Path) -> Mapping[str, str]:
    """Return the graph's fingerprint and the file's hash, for the key of a cache.

    The file alone does not identify its weights: above 1.5 GiB they lie beside it, and two checkpoints of one
    architecture then give files of equal bytes. A fingerprint alone does not say in which precision the file is.
    """
    return {"fingerprint": graph.fingerprint, "file": file_sha256(file)}


def onnx_weight_files(file: Path) -> Iterator[PurePath]:
    """Yield the files, relative to an ONNX file, that it keeps weights in.

    Raises:
        GraphError: one is not below the file's folder.
    """
    import onnx
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    tensors = onnx.load(file, load_external_data=False).graph.initializer
    for location in dict.fromkeys(ExternalDataInfo(each).location for each in tensors if uses_external_data(each)):
        path = PurePath(location)
        if path.is_absolute() or ".." in path.parts:
            raise GraphError(f"{file.name} keeps weights in {location!r}, outside its folder.")
        yield path
