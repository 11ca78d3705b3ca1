"""Right answers of a language model: those of Hugging Face's own ``generate``, in fp32 on the CPU, prompt by prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import DataError, Decoding
from mlbench.toolkit import build_once, find_versions, first_line, read_json
from mlbench.toolkit.language import LanguageNetwork, check_memory, weight_files
from mlbench_own_model.language_folder import LanguageFolder

if TYPE_CHECKING:
    from mlbench import Prompt

_FILE = "answers.json"
_ANY = r".*"
"""Checkpoints have weights for further uses, such as heads that predict several tokens."""
_PACKAGES = ("torch", "transformers")


def why_no_reference(folder: LanguageFolder) -> str:
    """Return why the reference cannot be computed here; empty if it can.

    Raises:
        DataError: a weights file is missing, or its header is damaged.
    """
    import psutil

    if not folder.kind:
        return f"transformers has no class of its own for {folder.architecture}"
    if folder.scheme:
        return f"the weights are quantised ({folder.scheme})"
    weight_files(folder.path)
    try:
        check_memory(folder.path, psutil.virtual_memory().available)
    except DataError as error:
        return error.message.rstrip(".")
    return ""


def reference_answers(folder: LanguageFolder, prompts: Sequence[Prompt], decoding: Decoding) -> list[list[int]]:
    """Return the answer to each prompt, an end token included, computed once and kept in the cache.

    Nothing of mlbench's graphs, engines or batches takes part, and no prompt is padded.

    Raises:
        DataError: the folder's files are damaged, or the class does not answer.
    """
    given = [each.tokens.tolist() for each in prompts]
    made_from = {
        "model": folder.fingerprint(),
        "prompts": given,
        "end": list(decoding.end_tokens),
        "lengths": [decoding.min_new_tokens, decoding.max_new_tokens],
        "versions": dict(find_versions(*_PACKAGES)),
    }

    def fill(place: Path) -> None:
        network = _network(folder)
        answers = [_answer(network, tokens, decoding, folder) for tokens in given]
        (place / _FILE).write_text(json.dumps(answers), encoding="utf-8")

    found: list[list[int]] = read_json(build_once("own_model_answers", made_from, fill) / _FILE, what="kept answers")
    return found


def _network(folder: LanguageFolder) -> Any:
    """Return transformers' own class with the weights, in fp32 and eval mode."""
    from transformers import GenerationConfig

    model_type = str(folder.config.get("model_type"))
    network = LanguageNetwork(kind=folder.kind, model_type=model_type, extras=_ANY).trained(folder.path)
    network.generation_config = GenerationConfig()  # the folder's may sample, or punish repetition
    return network


def _answer(network: Any, tokens: list[int], decoding: Decoding, folder: LanguageFolder) -> list[int]:
    import torch

    ids = torch.tensor([tokens])
    try:
        with torch.inference_mode():
            output = network.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                num_beams=1,
                min_new_tokens=decoding.min_new_tokens,
                max_new_tokens=decoding.max_new_tokens,
                eos_token_id=list(decoding.end_tokens) or None,
                pad_token_id=decoding.end_tokens[0] if decoding.end_tokens else 0,
            )
    except Exception as error:  # a class of transformers' with a stranger's numbers
        raise DataError(f"{folder.kind} of transformers does not answer: {first_line(error)}.") from None
    found: list[int] = output[0, len(tokens) :].tolist()
    return found
