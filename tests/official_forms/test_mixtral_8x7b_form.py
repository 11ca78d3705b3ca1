"""Mixtral 8x7B from thirty-nine fp32 shards with an index, and the mixed set's pickle, whose address holds a %2F."""

import json
from pathlib import Path

import mlbench_mixtral_8x7b
import pytest
from language_folders import safetensors_shards
from mlbench_mixtral_8x7b.mini_profile import MiniProfile
from mlbench_mixtral_8x7b.workload import Mixtral
from pickled_table import pickle_table
from safetensors.torch import load_file
from small_sets import SmallSet, md5

MINI = Path(mlbench_mixtral_8x7b.__file__).parent / "mini"
ROWS = json.loads((MINI / "dataset.json").read_text())[:72]
OF_THE_FIRST = {"gsm8k_accuracy": 76.19, "TOKENS_PER_SAMPLE": 29.9}
"""Where the answers to these rows, those of `generate`, are scored otherwise than those to all."""
SCORED = ("ROUGE1", "ROUGE2", "ROUGEL", "gsm8k_accuracy", "mbxp_accuracy", "TOKENS_PER_SAMPLE")


def official_folder():
    """Return the files of the published folder; those that are not read hold little."""
    copied = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    state = {name: tensor.float() for name, tensor in load_file(MINI / "model.safetensors").items()}
    return {
        **{name: (MINI / name).read_bytes() for name in copied},
        **safetensors_shards(state, 39),
        "special_tokens_map.json": b"{}",
        "tokenizer.model": b"\n",
    }


def make_small_set(folder):
    table = pickle_table({name: [row[name] for row in ROWS] for name in ROWS[0]})
    reference = MiniProfile.shipped().reference | OF_THE_FIRST
    scores = "\n".join(f"{name} = {reference[name]}" for name in SCORED)
    sizes = f'samples = {len(ROWS)}\nlongest_prompt = 320\nmax_new_tokens = 192\ndata_md5 = "{md5(table)}"\n'
    return SmallSet(
        workload=Mixtral(),
        contents={"model/checkpoint": official_folder(), "data/v4.1": table},
        smaller=f"{sizes}[reference]\n{scores}\n",
    )


@pytest.mark.thorough("official forms")
def test_three_kinds_of_tasks_are_done_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full):
    record, _ = run_full("mixtral-8x7b", "onnxruntime", batch=64)
    assert record.samples["dataset"] == len(ROWS)
    assert record.accuracy.scores["ROUGE1"] == pytest.approx(93.6, abs=4)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "hidden_size 128, not 4096" in said.measured
    assert not record.verdict.is_conformant
