"""The size of each file of a torchsnapshot folder, from its manifest.

Format, as torchsnapshot 0.1.0 writes it: `.snapshot_metadata` is JSON, or YAML in older versions; what describes a
tensor has a ``location``, and a ``byte_range`` in that file, or the file is the tensor alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from mlbench.system.documents import foreign, read_bytes
from mlbench.system.documents.manifests import parse_manifest

MANIFEST = ".snapshot_metadata"

_ITEM_BYTES = {
    **{"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2},
    **{"uint8": 1, "int8": 1, "bool": 1},
}


def snapshot_sizes(folder: Path) -> Mapping[str, int]:
    """Return the sizes of a snapshot's files in bytes, by path, as far as the manifest decides them.

    Raises:
        DataError: the manifest is missing or damaged.
    """
    path = folder / MANIFEST
    content = read_bytes(path, what="checkpoint's manifest")
    sizes: dict[str, int] = {}
    with foreign(path, "is not a snapshot's manifest") as meter:
        for location, end in _ends(parse_manifest(content, meter)["manifest"]):
            sizes[location] = max(sizes.get(location, 0), end)
    return sizes


def _ends(root: Any) -> Iterator[tuple[str, int]]:
    """Yield each tensor's file, and the byte at which it ends there."""
    rest = [root]
    while rest:
        node = rest.pop()
        if isinstance(node, list):
            rest += node
        elif isinstance(node, dict):
            rest += node.values()
            if (end := _end(node)) is not None:
                yield str(node["location"]), end


def _end(node: Mapping[str, Any]) -> int | None:
    if "location" not in node:
        return None
    if node.get("byte_range"):
        return int(node["byte_range"][1])
    dtype = str(node.get("dtype", "")).removeprefix("torch.")
    if node.get("serializer") != "buffer_protocol" or dtype not in _ITEM_BYTES:
        return None
    return prod(map(int, node["shape"])) * _ITEM_BYTES[dtype]
