"""A Hugging Face folder from the user: the official model, with weights as safetensors."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench.errors import DataError
from mlbench.system.documents import JsonObject, foreign, open_regular, read_bytes, read_json_object, refusal
from mlbench.system.documents.headers import LONGEST_HEADER, StoredTensor, stored_tensors

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_HINT = (
    "Save it again as safetensors: "
    "transformers.AutoModelForCausalLM.from_pretrained(folder).save_pretrained(another_folder)."
)

_FOLDER = "Name a Hugging Face folder."
_PIECES, _PIECE_BYTES = 64, 1 << 16


def check_config(folder: Path, wanted: Mapping[str, Collection[object]]) -> None:
    """Check that a folder's ``config.json`` describes the official architecture.

    Args:
        folder: the Hugging Face folder.
        wanted: for each key the values it may have.

    Raises:
        DataError: the file is missing or damaged, or a value differs.
    """
    path, config = folder / "config.json", read_config(folder)
    for key, values in wanted.items():
        if config[key] not in tuple(values):  # config values may be unhashable lists
            allowed = " or ".join(map(str, values))
            raise refusal(path, f"{path} has {key} = {config[key]}, expected {allowed}.")


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The content of a ``config.json``."""

    values: JsonObject

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)


def read_config(folder: Path) -> ModelDescription:
    """Return a folder's ``config.json``; raises `DataError` where it is missing or damaged."""
    path = folder / "config.json"
    if os.path.isdir(folder) and not os.path.lexists(path):
        raise refusal(folder, f"model description cannot be read: {path}: {os.strerror(errno.ENOENT)}.", hint=_FOLDER)
    config = read_json_object(path, what="model description")
    return _describe(config)


def _describe(config: JsonObject) -> ModelDescription:
    """Return a description with the angles of positions as transformers 5 writes them: ``rope_parameters``.

    Before, they were the entries ``rope_scaling`` and ``rope_theta``.
    """
    entries = (config.get(name) for name in ("rope_scaling", "rope_parameters"))
    rope = {name: value for entry in entries if isinstance(entry, dict) for name, value in entry.items()}
    base = {"rope_theta": config["rope_theta"]} if "rope_theta" in config else {}
    return ModelDescription({**rope, **config, "rope_parameters": {**base, **rope}})


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, by name: one, or those its index lists.

    Raises:
        DataError: there is none, one is missing, or the index is damaged.
    """
    if os.path.isfile(single := folder / SINGLE):
        return [single]
    index = folder / INDEX
    if not os.path.isfile(index):
        raise refusal(folder, f"{folder} contains no {SINGLE} and no {INDEX}.", hint=_HINT)
    names = listed_weights(index)
    if missing := next((name for name in names if not os.path.isfile(folder / name)), None):
        raise DataError(f"weights file not found: {folder / missing}, which {index.name} lists.")
    return [folder / name for name in names]


def listed_weights(index: Path) -> list[str]:
    """Return the names of the files in a safetensors index, sorted; raises `DataError` where it is none."""
    try:
        listed = read_json_object(index, what="index").get("weight_map")
    except DataError as error:
        raise DataError(f"{index} is not an index of weights: {error.message}") from None
    if not isinstance(listed, dict) or not listed or not all(isinstance(name, str) for name in listed.values()):
        raise DataError(f"{index} is not an index of weights: weight_map maps no names to files.")
    return sorted(set(listed.values()))


def check_memory(folder: Path, free_bytes: int, dtype: str = "float32") -> None:
    """Check that a folder's weights have room, before any of them is read.

    Args:
        folder: the Hugging Face folder.
        free_bytes: of memory.
        dtype: what they are read in, by NumPy's or torch's name: ``float32``, ``bfloat16``.

    Raises:
        DataError: they have not, a header is damaged, or as `weight_files`.
    """
    count = sum(each.count for each in stored_weights(folder).values())
    needed = count * (4 if dtype == "float32" else 2)
    if needed > free_bytes:
        raise DataError(
            f"{folder} contains {count / 1e9:,.1f} billion weights, which are {needed / 2**30:,.0f} GiB as {dtype}, "
            f"and {free_bytes / 2**30:,.0f} GiB of memory are free.",
            hint="Use a machine with more, or serve the model and measure that with the backend endpoint.",
        )


def stored_weights(folder: Path) -> Mapping[str, StoredTensor]:
    """Return the tensors of a folder's weights by name, from the headers of the files.

    Raises:
        DataError: a header is damaged, or as `weight_files`.
    """
    found: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        place = f"model cannot be read: {path}:"
        with foreign(place, "its header is damaged", hint="Get it again.", path=path), open_regular(path) as file:
            found |= stored_tensors(file, path.stat().st_size)
    return found


def weights_fingerprint(folder: Path) -> str:
    """Return a hash of a folder's model: its description, and of each weights file name, size, header and some numbers.

    Of files that are larger than 4 MiB, 64 pieces at equal distances are read: all of them may be hundreds of
    gigabytes. Training moves every number, so that it is seen; a change of a few numbers by hand may not be.

    Raises:
        DataError: as `weight_files`.
    """
    digest = hashlib.sha256(read_bytes(folder / "config.json", what="model description"))
    for path in weight_files(folder):
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            digest.update(f"{path.name} {size}".encode() + file.read(min(length, LONGEST_HEADER)))
            for place in range(0, size, max(_PIECE_BYTES, -(-size // _PIECES))):
                file.seek(place)
                digest.update(file.read(_PIECE_BYTES))
    return digest.hexdigest()
