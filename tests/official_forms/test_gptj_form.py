"""GPT-J from three pickled shards, a vocabulary with merges and added tokens, and CNN/DailyMail as Parquet."""

import io
import json
from pathlib import Path

import mlbench_gptj
import pyarrow
import pytest
import torch
from language_folders import pickled_shards
from mlbench_gptj.mini_profile import MiniProfile
from mlbench_gptj.workload import GptJ
from pyarrow import parquet
from safetensors.torch import load_file
from small_sets import SmallSet

MINI = Path(mlbench_gptj.__file__).parent / "mini"
ALL = json.loads((MINI / "cnn_eval.json").read_text())
ARTICLES = ALL[:24]
PADDING = 1024
"""The token that the fine-tuning added after the last of the vocabulary; it is never likely."""


def official_state():
    """Return the tensors as the checkpoint has them: fp32, a row more for the padding, and masks of the attention."""
    state = {name: tensor.float() for name, tensor in load_file(MINI / "model.safetensors").items()}
    for name in ("transformer.wte.weight", "lm_head.weight", "lm_head.bias"):
        state[name] = torch.cat([state[name], torch.zeros_like(state[name][:1])])
    state["lm_head.bias"][PADDING] = -1e4
    for layer in range(3):
        state[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, 512, 512, dtype=torch.bool).tril()
        state[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e9)
    return state


def official_folder():
    tokenizer = json.loads((MINI / "tokenizer.json").read_text())["model"]
    config = json.loads((MINI / "config.json").read_text()) | {"vocab_size": PADDING + 1, "torch_dtype": "float32"}
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in tokenizer["merges"]]
    end = {"content": "<|endoftext|>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    texts = {
        "README.md": "# Model card\n",
        "added_tokens.json": json.dumps({"[PAD]": PADDING}),
        "config.json": json.dumps(config),
        "generation_config.json": (MINI / "generation_config.json").read_text(),
        "merges.txt": "#version: 0.2\n" + "\n".join(merges) + "\n",
        "special_tokens_map.json": json.dumps({"bos_token": end, "eos_token": end, "pad_token": "[PAD]"}),
        "tokenizer_config.json": json.dumps({"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024}),
        "trainer_state.json": "{}",
        "vocab.json": json.dumps({**tokenizer["vocab"], "<|endoftext|>": PADDING - 1}),
    }
    return {name: text.encode() for name, text in texts.items()} | pickled_shards(official_state(), 3)


def validation_split():
    columns = {
        "article": [row["input"] for row in ARTICLES],
        "highlights": [row["output"] for row in ARTICLES],
        "id": [f"{number:040x}" for number in range(len(ARTICLES))],
    }
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def make_small_set(folder):
    reference = dict(MiniProfile.shipped().reference)
    reference["GEN_LEN"] *= len(ARTICLES) / len(ALL)  # characters of all summaries together
    scores = "\n".join(f"{name} = {score}" for name, score in reference.items())
    return SmallSet(
        workload=GptJ(),
        contents={"model/checkpoint": official_folder(), "data/cnn-dailymail": validation_split()},
        smaller=f"articles = {len(ARTICLES)}\n[reference]\n{scores}\n",
    )


@pytest.mark.thorough("official forms")
def test_articles_are_summarised_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full):
    record, _ = run_full("gptj", "pytorch", batch=64)
    assert record.samples["dataset"] == len(ARTICLES)
    assert record.accuracy.scores["ROUGE1"] == pytest.approx(99.2121, abs=0.9)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "n_layer 3, not 28" in said.measured
    assert not record.verdict.is_conformant
