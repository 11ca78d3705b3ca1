"""Quantised weights of a Hugging Face folder, as the folder itself describes them.

Sources of the keys: ``quantization_config`` of ``config.json`` as transformers reads it
(src/transformers/utils/quantization_config.py: ``quant_method``; ``bits`` of GPTQ and AWQ), with ``config_groups`` of
compressed-tensors (src/compressed_tensors/quantization/quant_config.py: ``weights`` has ``num_bits`` and ``type``);
``hf_quant_config.json`` of NVIDIA Model Optimizer, as vLLM reads it (docs/features/quantization/modelopt.md:
``quantization`` has ``quant_algo``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlbench.errors import DataError, UsageError
from mlbench.system.documents import read_json_object, refusal
from mlbench.toolkit.language.hugging_face import read_config, stored_weights

MODELOPT_FILE = "hf_quant_config.json"
_KEYS = ("quantization_config", "compression_config")
"""The second is that of the first versions of compressed-tensors."""
_TYPES = {"int": "int", "float": "fp"}
_MOST_BITS = 16
_UNQUANTISED = ("F64", "F32", "F16", "BF16")
_SHOWN = 40
_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+){0,15}")
_HINT = "Choose --backend vllm, which takes the folder as it is, or name the unquantised model."


def read_scheme(folder: Path) -> str:
    """Return the quantisation of a folder's weights, as its description names it: ``int4-gptq``; empty: none.

    Only the descriptions are read. A method whose number of bits is not described has its name alone: ``mxfp4``.

    Raises:
        DataError: a description is missing or damaged, or names no method.
    """
    path, config = folder / "config.json", read_config(folder)
    parts = (config.values, config["text_config"])
    found = (part[key] for part in parts if isinstance(part, dict) for key in _KEYS if part.get(key))
    described = next(found, None)
    if described is None and os.path.lexists(folder / MODELOPT_FILE):
        path = folder / MODELOPT_FILE
        described = read_json_object(path, what="description of quantisation").get("quantization")
        described = {"quant_method": "modelopt", **described} if isinstance(described, dict) else "no quantization"
    if described is None:
        return ""
    try:
        if not isinstance(described, dict):
            raise ValueError(f"{str(described)[:_SHOWN]!r} describes no quantisation")
        return _name_scheme(described)
    except ValueError as error:
        raise refusal(path, f"quantisation of {path} is not known: {error}.", hint="Get the folder again.") from None


def refuse_quantised(folder: Path) -> None:
    """Raise `UsageError` for a folder whose weights torch's networks would read without their scales.

    By its description, or by how the weights are stored: as integers, or in fewer than 16 bits.

    Raises:
        DataError: as `read_scheme`, or a header of the weights is damaged.
    """
    if scheme := read_scheme(folder):
        raise UsageError(f"{folder} has weights in {scheme}, whose scales mlbench's networks do not read.", hint=_HINT)
    for name, each in stored_weights(folder).items():
        if name.endswith(".weight") and each.dtype not in _UNQUANTISED:
            raise DataError(f"{folder} stores {name} as {each.dtype[:_SHOWN]}, and describes no scales.", hint=_HINT)


def _name_scheme(described: Mapping[str, Any]) -> str:
    """Return the scheme by its name; raises `ValueError` where that is none."""
    method = str(described.get("quant_method") or ("compressed-tensors" if "config_groups" in described else ""))
    if not method:
        raise ValueError("it has no quant_method")
    name = "-".join([*sorted({str(each) for each in _formats(described)} - {method}), method]).lower()
    if len(name) > 2 * _SHOWN or not _NAME.fullmatch(name):
        raise ValueError(f"{name[:_SHOWN]!r} is no name of one")
    return name


def _formats(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the number formats of the weights, as far as they are described."""
    if (bits := described.get("bits", described.get("w_bit"))) is not None:
        yield _spell("int", bits)
    if algorithm := described.get("quant_algo"):
        yield algorithm
    groups = described.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            yield _spell(str(weights.get("type")), weights.get("num_bits"))


def _spell(kind: str, bits: object) -> str:
    """Return the name of a number format; raises `ValueError` where it is none."""
    if kind not in _TYPES or type(bits) is not int or not 1 <= bits <= _MOST_BITS:
        raise ValueError(f"weights of type {kind[:_SHOWN]!r} with {str(bits)[:_SHOWN]} bits are no number format")
    return f"{_TYPES[kind]}{bits}"
