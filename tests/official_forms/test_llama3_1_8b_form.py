"""Llama 3.1 8B from four bf16 safetensors shards with an index, which a person brings, and tokenised CNN/DailyMail."""

import json
from pathlib import Path

import mlbench_llama3_1_8b
import pytest
import torch
from language_folders import safetensors_shards
from mlbench_llama3_1_8b.mini_profile import MiniProfile
from mlbench_llama3_1_8b.workload import Llama31, Llama31Edge
from safetensors.torch import load_file
from sentence_data import install_sentences
from small_sets import SmallSet

MINI = Path(mlbench_llama3_1_8b.__file__).parent / "mini"
ALL = json.loads((MINI / "cnn_eval.json").read_text())
ROWS = ALL[:24]
SCORED = ("ROUGE1", "ROUGE2", "ROUGEL", "ROUGELSUM", "GEN_LEN")


def official_config():
    """Return the description as it was published, by transformers 4."""
    config = json.loads((MINI / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    del config["dtype"]
    return {**config, "rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling, "torch_dtype": "bfloat16"}


def official_folder():
    """Return the files of the hub's folder that are read; the others hold little."""
    copied = ("generation_config.json", "tokenizer.json", "tokenizer_config.json")
    state = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(MINI / "model.safetensors").items()}
    return {
        **{name: (MINI / name).read_bytes() for name in copied},
        **safetensors_shards(state, 4),
        "config.json": json.dumps(official_config()).encode(),
        "special_tokens_map.json": b"{}",
    }


def small_set(workload, file):
    reference = dict(MiniProfile.shipped().reference)
    reference["GEN_LEN"] *= len(ROWS) / len(ALL)  # characters of all summaries together
    scores = "\n".join(f"{name} = {reference[name]}" for name in SCORED)
    return SmallSet(
        workload=workload,
        contents={
            "model/safetensors": official_folder(),
            "data/cnn-eval": {file: json.dumps(ROWS, indent=4, ensure_ascii=False).encode()},
        },
        smaller=f"articles = {len(ROWS)}\nlongest_prompt = 384\n[reference]\n{scores}\n",
    )


def make_small_set(folder):
    return small_set(Llama31(), "cnn_eval.json")


@pytest.fixture(autouse=True)
def sentences(tmp_path, monkeypatch):
    install_sentences(tmp_path / "nltk", " ".join(row["input"] for row in ALL), monkeypatch)


@pytest.mark.thorough("official forms")
def test_articles_are_summarised_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full):
    record, _ = run_full("llama3.1-8b", "pytorch", "--round", "v5.1", batch=64)
    reference = MiniProfile.shipped().reference
    assert record.samples["dataset"] == len(ROWS)
    assert record.accuracy.scores["ROUGE1"] == pytest.approx(reference["ROUGE1"], abs=2)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "hidden_size 128, not 4096" in said.measured
    assert "rope" not in said.measured
    assert not record.verdict.is_conformant


@pytest.mark.thorough("official forms")
def test_the_edge_variant_has_a_table_of_its_own(fetch, run_full):
    fetch(small_set(Llama31Edge(), "sample_cnn_eval_5000.json"))
    record, _ = run_full("llama3.1-8b-edge", "onnxruntime", "--round", "v5.1", batch=24)
    assert record.samples["dataset"] == len(ROWS)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert f"articles {len(ROWS)}, not 5000" in said.measured
