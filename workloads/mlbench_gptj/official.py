"""GPT-J's official files in the form that runs read: safetensors, a tokenizer.json, and cnn_eval.json.

Nothing in the checkpoint is executed: torch reads it with ``weights_only``.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import DataError
from mlbench.toolkit import first_line, read_json_object, read_text
from mlbench_gptj.prompts import INSTRUCTION

if TYPE_CHECKING:
    import torch

CHECKPOINT, ARTICLES = "checkpoint-final", "validation.parquet"
INDEX, NEW_INDEX = "pytorch_model.bin.index.json", "model.safetensors.index.json"
COPIED = ("config.json", "generation_config.json", "special_tokens_map.json", "tokenizer_config.json")
CONSTANTS = re.compile(r".*\.attn\.(masked_)?bias")
"""The causal mask and its filling, which old releases of transformers stored as if they were weights."""


def convert_checkpoint(folder: Path, destination: Path) -> None:
    """Write the checkpoint as safetensors with a tokenizer.json; every number stays what it is.

    A shard is in memory at a time, mapped from its file.

    Args:
        folder: the workload's part of the data folder, with `checkpoint-final`.
        destination: the folder to write; it does not exist.

    Raises:
        DataError: a file is missing or damaged, or a shard holds other tensors than the index says.
    """
    source = folder / CHECKPOINT
    listed = read_json_object(source / INDEX, what="index of weights").get("weight_map")
    if not isinstance(listed, dict):
        raise DataError(f"{source / INDEX} maps no weights to files.")
    destination.mkdir()
    placed: dict[str, str] = {}
    for name in sorted(set(listed.values())):
        fresh = Path(name).with_suffix(".safetensors").name.replace("pytorch_model", "model")
        placed |= dict.fromkeys(_convert_shard(source / name, destination / fresh), fresh)
    missing = sorted(each for each in listed if each not in placed and not CONSTANTS.fullmatch(each))
    if missing:
        raise DataError(f"{source} lacks {missing[0]}, which its index lists.")
    index = {"metadata": {}, "weight_map": dict(sorted(placed.items()))}
    (destination / NEW_INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")
    for name in COPIED:
        shutil.copyfile(source / name, destination / name)
    write_tokenizer(source, destination / "tokenizer.json")


def convert_articles(folder: Path, destination: Path) -> None:
    """Write the validation split as the official script does: a JSON list, in its order.

    Args:
        folder: the workload's part of the data folder, with `validation.parquet`.
        destination: the file to write.

    Raises:
        DataError: the table is damaged, or pyarrow is not installed.

    Source: MLPerf Inference v4.1, language/gpt-j/download_cnndm.py.
    """
    path = folder / ARTICLES
    try:
        from pyarrow import parquet

        table = parquet.read_table(path, columns=["article", "highlights"]).to_pydict()
    except ImportError:
        raise DataError(
            "reading CNN/DailyMail needs pyarrow, which is not installed.",
            hint="Install it: pip install 'mlbench-inference[fetch]'.",
        ) from None
    except Exception as error:  # pyarrow raises errors of its own for a damaged file
        raise DataError(f"{path} cannot be read: {first_line(error)}.") from None
    rows = [
        {"instruction": INSTRUCTION, "input": article, "output": highlights}
        for article, highlights in zip(table["article"], table["highlights"], strict=True)
    ]
    with destination.open("w", encoding="utf-8") as file:
        json.dump(rows, file, ensure_ascii=False, indent=4)


def write_tokenizer(folder: Path, destination: Path) -> None:
    """Write a tokenizer.json of GPT-2's kind from vocab.json, merges.txt and added_tokens.json.

    Raises:
        DataError: a file is missing or damaged, or an added token cannot have its number.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    vocabulary = read_json_object(folder / "vocab.json", what="vocabulary")
    lines = read_text(folder / "merges.txt", what="list of merges").split("\n")
    pairs = (line.split(" ", 1) for line in lines if " " in line and not line.startswith("#version"))
    merges = [(left, right) for left, right in pairs]
    try:
        tokenizer = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=merges))
    except Exception as error:  # the library raises bare Exceptions
        raise DataError(f"{folder / 'vocab.json'} and merges.txt are damaged: {first_line(error)}.") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    added = read_json_object(folder / "added_tokens.json", what="list of added tokens")
    special = _special_tokens(folder)
    tokenizer.add_special_tokens([AddedToken(each, normalized=False) for each in sorted(special & vocabulary.keys())])
    for token, number in sorted(added.items(), key=lambda item: item[1]):
        tokenizer.add_tokens([AddedToken(token, special=token in special, normalized=token not in special)])
        if tokenizer.token_to_id(token) != number:
            raise DataError(f"{folder / 'added_tokens.json'}: {token!r} cannot be token {number}.")
    tokenizer.save(str(destination))


def _special_tokens(folder: Path) -> set[str]:
    values = read_json_object(folder / "special_tokens_map.json", what="list of special tokens").values()
    return {str(each["content"] if isinstance(each, dict) else each) for each in values}


def _convert_shard(source: Path, destination: Path) -> list[str]:
    """Write a pickled shard as safetensors; return the names of its tensors."""
    import torch
    from safetensors.torch import save_file

    try:
        state = torch.load(source, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # the reader raises anything for a damaged file
        raise DataError(f"weights file cannot be read: {source}: {first_line(error)}.") from None
    kept: dict[str, torch.Tensor] = {
        name: tensor.contiguous() for name, tensor in state.items() if not CONSTANTS.fullmatch(name)
    }
    save_file(kept, destination, metadata={"format": "pt"})
    return [*kept]
