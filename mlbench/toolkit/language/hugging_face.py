"""A Hugging Face folder that a user gives: the official model, and weights that are only numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from mlbench.errors import DataError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_HINT = (
    "Save it again as safetensors: "
    "transformers.AutoModelForCausalLM.from_pretrained(folder).save_pretrained(another_folder)."
)

_PIECES, _PIECE_BYTES = 64, 1 << 16


def check_config(folder: Path, wanted: Mapping[str, Collection[object]]) -> None:
    """Check that a folder's ``config.json`` describes the official architecture.

    Args:
        folder: the Hugging Face folder.
        wanted: for each key the values it may have.

    Raises:
        DataError: the file is missing or damaged, or a value differs.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"model description cannot be read: {path}: {error.strerror}.") from None
    except ValueError as error:  # JSON's and Unicode's errors are both
        raise DataError(f"{path} is not JSON: {error}.") from None
    if not isinstance(config, dict):
        raise DataError(f"{path} is no JSON object.")
    config = {**(config.get("rope_parameters") or {}), **config}  # where transformers 5 keeps rope_theta
    for key, values in wanted.items():
        if config.get(key) not in values:
            allowed = " or ".join(map(str, values))
            raise DataError(f"{path} has {key} = {config.get(key)}, want {allowed}.")


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder, by name: one, or those its index lists.

    Raises:
        DataError: there is none, one is missing, or the index is damaged.
    """
    if (single := folder / SINGLE).is_file():
        return [single]
    index = folder / INDEX
    if not index.is_file():
        raise DataError(f"{folder} holds no {SINGLE} and no {INDEX}.", hint=_HINT)
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{index} is no index of weights: {type(error).__name__}: {error}.") from None
    if missing := next((name for name in names if not (folder / name).is_file()), None):
        raise DataError(f"weights file not found: {folder / missing}, which {index.name} lists.")
    return [folder / name for name in names]


def weights_fingerprint(folder: Path) -> str:
    """Return a hash of a folder's model: its description, and of each weights file name, size, header and some numbers.

    Of files that are larger than 4 MiB, 64 pieces at equal distances are read: all of them may be hundreds of
    gigabytes. Training moves every number, so that it is seen; a change of a few numbers by hand may not be.

    Raises:
        DataError: as `weight_files`.
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in weight_files(folder):
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            digest.update(f"{path.name} {size}".encode() + file.read(min(length, 2**27)))
            for place in range(0, size, max(_PIECE_BYTES, -(-size // _PIECES))):
                file.seek(place)
                digest.update(file.read(_PIECE_BYTES))
    return digest.hexdigest()
