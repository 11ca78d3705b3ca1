"""Makes a quantised Hugging Face folder: ``python -m mlbench_llm_compressor.making SOURCE FOLDER '{"method": ...}'``.

Calibration texts are the model's own.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlbench.toolkit.language import write_texts

GROUPS = (128, 64, 32)
UNTOUCHED = ("lm_head", "re:.*gate$")
"""The layer of the logits, and the ones that choose experts."""
_TOKENIZER = ("tokenizer*", "special_tokens_map.json", "chat_template*")


def make(source: Path, folder: Path, options: Mapping[str, Any]) -> None:
    """Write the folder; raises what the libraries raise, and `ValueError` for a group that does not fit."""
    import torch
    from llmcompressor import oneshot
    from llmcompressor.pipelines.cache import IntermediatesCache
    from transformers import AutoModelForCausalLM

    if not torch.accelerator.is_available():  # 0.14 pins memory all the same, which torch refuses
        IntermediatesCache.pin_memory = lambda *_, **__: None
    model = AutoModelForCausalLM.from_pretrained(source, dtype="auto", local_files_only=True)
    given: dict[str, Any] = {}
    if count := options.get("texts"):
        from datasets import Dataset

        texts = write_texts(model, count)
        data = {"input_ids": texts, "attention_mask": [[1] * len(text) for text in texts]}
        given = {
            "dataset": Dataset.from_dict(data),
            "num_calibration_samples": count,
            "max_seq_length": max(map(len, texts)),
        }
    oneshot(model=model, recipe=steps(model, options), **given)
    model.save_pretrained(folder, save_compressed=True)
    for pattern in _TOKENIZER:
        for file in source.glob(pattern):
            shutil.copy(file, folder)


def steps(model: Any, options: Mapping[str, Any]) -> list[Any]:
    """Return llm-compressor's steps of a method."""
    from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier

    plain = {"targets": ["Linear"], "ignore": list(UNTOUCHED)}
    match options["method"]:
        case "gptq":
            groups = {"group_0": int4(model, options["group"])}
            return [GPTQModifier(config_groups=groups, ignore=list(UNTOUCHED))]
        case "awq":
            groups = {"group_0": int4(model, options["group"], symmetric=False)}
            return [AWQModifier(duo_scaling="both"), QuantizationModifier(config_groups=groups, ignore=list(UNTOUCHED))]
        case "smoothquant":
            smoothing = SmoothQuantModifier(smoothing_strength=options["strength"])
            return [smoothing, QuantizationModifier(scheme="W8A8", **plain)]
        case _:
            return [QuantizationModifier(scheme="FP8_DYNAMIC", **plain)]


def int4(model: Any, group: int, *, symmetric: bool = True) -> Any:
    """Return the scheme of weights in 4 bits, with a scale for each group, or for each row where none fits."""
    import torch
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    widths = {each.in_features for each in model.modules() if isinstance(each, torch.nn.Linear)}
    widths |= {each.shape[-1] for each in model.parameters() if each.ndim == 3}  # all experts of a layer in one
    if group and any(width % group for width in widths):
        raise ValueError(f"groups of {group} do not divide rows of {', '.join(map(str, sorted(widths)))} weights")
    size = group or next((each for each in GROUPS if not any(width % each for width in widths)), 0)
    shares = {"strategy": "group", "group_size": size} if size else {"strategy": "channel"}
    weights = QuantizationArgs(num_bits=4, type="int", symmetric=symmetric, **shares)
    return QuantizationScheme(targets=["Linear"], weights=weights)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
