"""Llama 2 70B from fifteen safetensors shards with an index, which a person brings, and OpenOrca's gzipped pickle."""

import gzip
import json
from pathlib import Path

import mlbench_llama2_70b
import pytest
from language_folders import safetensors_shards
from mlbench_llama2_70b.mini_profile import MiniProfile
from mlbench_llama2_70b.workload import Llama2
from pickled_table import pickle_table
from safetensors.torch import load_file
from small_sets import SmallSet

MINI = Path(mlbench_llama2_70b.__file__).parent / "mini"
ROWS = json.loads((MINI / "dataset.json").read_text())[:64]
SCORED = ("ROUGE1", "ROUGE2", "ROUGEL", "TOKENS_PER_SAMPLE")


def official_folder():
    """Return the files of the hub's folder; those that are not read hold little."""
    copied = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    return {
        **{name: (MINI / name).read_bytes() for name in copied},
        **safetensors_shards(load_file(MINI / "model.safetensors"), 15),
        "pytorch_model.bin.index.json": b"{}",
        "special_tokens_map.json": b"{}",
        "tokenizer.model": b"\n",
    }


def make_small_set(folder):
    table = pickle_table({name: [row[name] for row in ROWS] for name in ROWS[0]})
    reference = MiniProfile.shipped().reference
    scores = "\n".join(f"{name} = {reference[name]}" for name in SCORED)
    return SmallSet(
        workload=Llama2(),
        contents={
            "model/safetensors": official_folder(),
            "data/open-orca": {"open_orca_gpt4_tokenized_llama.sampled_24576.pkl.gz": gzip.compress(table)},
        },
        smaller=f"conversations = {len(ROWS)}\nlongest_prompt = 256\nmax_new_tokens = 256\n[reference]\n{scores}\n",
    )


@pytest.mark.thorough("official forms")
def test_conversations_are_answered_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full):
    record, _ = run_full("llama2-70b", "pytorch", batch=64)
    assert record.samples["dataset"] == len(ROWS)
    assert record.accuracy.scores["ROUGE1"] == pytest.approx(90.95, abs=4)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "hidden_size 128, not 8192" in said.measured
    assert not record.verdict.is_conformant
