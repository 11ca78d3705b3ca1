"""The full profiles of the language workloads: official sizes with random weights, small files in the official form."""

import json
import shutil
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import torch
from mlbench_llama2_70b.program import conversing
from safetensors.torch import save_file
from workload_variants import WORKLOADS, variants_of

from mlbench import DECODE, PREFILL, DataError, Decoding, Weights

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True, slots=True)
class Language:
    """A language workload, with the official numbers of its data, its network and its decoding."""

    package: str
    samples: int
    longest_prompt: int
    parameters: int
    layers: int
    heads: tuple[int, int]
    """Heads of keys and values, and the size of one."""
    chosen_tokens: int
    """Number of tokens that a call of the network names: enough to go on when an end is ruled out."""
    decoding: Decoding
    details: dict[str, object]
    """Entries of the network's configuration."""


GREEDY = partial(Decoding, end_tokens=(2,), max_new_tokens=1024, min_new_tokens=1)
LLAMA_3 = (
    *(2500, 8_030_261_248, 32, (8, 128), 1 + 3),
    Decoding(end_tokens=(128009, 128008, 128001), max_new_tokens=128, min_new_tokens=1, longest=8128),
    {"rms_norm_eps": 1e-5, "rope_type": "llama3"},
)
LANGUAGE = {
    "gptj": Language(
        *("gptj", 13368, 1919, 6_050_882_784, 28, (16, 256), 2 * 4 + 1),
        Decoding(end_tokens=(50256,), max_new_tokens=128, min_new_tokens=30, beams=4, longest=2048),
        {"layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"},
    ),
    "llama2-70b": Language(
        *("llama2_70b", 24576, 1024, 68_976_648_192, 80, (8, 128), 2),
        GREEDY(longest=2048),
        {"rms_norm_eps": 1e-5, "rope_theta": 10_000},
    ),
    "llama3.1-8b": Language("llama3_1_8b", 13368, *LLAMA_3),
    "llama3.1-8b-edge": Language("llama3_1_8b", 5000, *LLAMA_3),
    "mixtral-8x7b": Language(
        *("mixtral_8x7b", 15000, 1024, 46_702_792_704, 32, (8, 128), 2),
        GREEDY(longest=3072),
        {"rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None},
    ),
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_random_weights_run_without_files_on_the_official_sizes(name):
    wanted, (full, _) = LANGUAGE[name], variants_of(name)
    dataset, model = WORKLOADS[name].dataset(full(Weights.RANDOM)), WORKLOADS[name].model(full(Weights.RANDOM))
    assert dataset.count == dataset.performance_count == wanted.samples
    assert max(len(dataset.sample(index).tokens) for index in range(dataset.count)) == wanted.longest_prompt
    assert (model.files, model.program.decoding) == (None, wanted.decoding)
    for graph in (model.graphs[PREFILL], model.graphs[DECODE]):
        assert [(spec.name, spec.shape[1]) for spec in graph.outputs] == [
            ("tokens", wanted.chosen_tokens),
            ("log_probabilities", wanted.chosen_tokens),
        ]
        assert len(graph.state) == 2 * wanted.layers
        assert {(spec.shape[1], spec.shape[3]) for spec in graph.state} == {wanted.heads}


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_official_configuration_is_that_of_the_model(name):
    wanted = LANGUAGE[name]
    graphs = import_module(f"mlbench_{wanted.package}.graphs")
    with torch.device("meta"):
        network = graphs.NETWORK.random(graphs.OFFICIAL_CONFIG)
    assert sum(parameter.numel() for parameter in network.parameters()) == wanted.parameters
    found = {**network.config.to_dict(), **(network.config.to_dict().get("rope_parameters") or {})}
    assert {key: found[key] for key in wanted.details} == wanted.details


@pytest.mark.parametrize("name", LANGUAGE)
def test_fewer_layers_are_another_model(name):
    full, _ = variants_of(name)
    model = WORKLOADS[name].model(full(Weights.RANDOM, layers=2))
    assert len(model.graphs[DECODE].state) == 2 * 2
    assert model.weights_fingerprint != WORKLOADS[name].model(full(Weights.RANDOM)).weights_fingerprint


ROUGE = ("ROUGE1", "ROUGE2", "ROUGEL")
SMALL = {
    "gptj": (
        {"model_type": "gptj", "vocab_size": 629, "n_embd": 32, "eos_token_id": 628, "bos_token_id": 628},
        {"articles": 12},
        {**dict(zip(ROUGE, (42.9865, 20.1235, 29.9881), strict=True)), "GEN_LEN": 4016878},
    ),
    "llama2-70b": (
        {"model_type": "llama", "vocab_size": 750, "hidden_size": 64},
        {"conversations": 4},
        {**dict(zip(ROUGE, (44.4312, 22.0352, 28.6162), strict=True)), "TOKENS_PER_SAMPLE": 294.45},
    ),
    "mixtral-8x7b": (
        {"model_type": "mixtral", "vocab_size": 897, "hidden_size": 64},
        {"samples": 1},
        {
            **dict(zip(ROUGE, (45.4911, 23.2829, 30.3615), strict=True)),
            **{"gsm8k_accuracy": 73.78, "mbxp_accuracy": 60.12, "TOKENS_PER_SAMPLE": 145.9},
        },
    ),
}
"""By workload: sizes of a small model, the size of its data, which stands in for the official one, and the official
scores."""


@pytest.fixture
def options(name, tmp_path, monkeypatch):
    sizes, official, _ = SMALL[name]
    package = LANGUAGE[name].package
    golden, profile = DATA / package, import_module(f"mlbench_{package}.full_profile")
    config = {**import_module(f"mlbench_{package}.graphs").OFFICIAL_CONFIG, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    del config["model_type"]
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    shutil.copy(golden / "tokenizer.json", tmp_path)
    monkeypatch.setattr(profile.FullProfile, "official_config", config)
    monkeypatch.setattr(profile.FullProfile, "official", replace(profile.FullProfile.official, **official))
    if name == "gptj":
        monkeypatch.setattr(profile, "VOCABULARIES", (629,))
        monkeypatch.setattr(profile, "TOKENIZER_SIZES", (629,))
        return {"data": golden / "cnn_eval.json", "weights": tmp_path}
    if name == "llama2-70b":
        return {"data": golden / "pandas_2.2_numpy_2.pkl", "weights": tmp_path}
    row = {"dataset": "GSM8K", "id": "train.1", "gt_output": "7", "tok_input": [1, 1], "tok_stop_sequence": [2]}
    (tmp_path / "data.json").write_text(json.dumps([row]))
    return {"data": tmp_path / "data.json", "weights": tmp_path, "run_unprotected": True}


@pytest.fixture
def variant(name, options):
    full, _ = variants_of(name)
    return full(**options)


@pytest.mark.parametrize("name", SMALL)
def test_answers_are_scored_against_the_official_reference(name, variant):
    dataset = WORKLOADS[name].dataset(variant)
    _, official, references = SMALL[name]
    assert [dataset.count] == list(official.values())
    targets = WORKLOADS[name].metric(variant, dataset).targets
    assert {target.score: target.reference for target in targets} == references


@pytest.mark.parametrize("name", SMALL)
def test_a_native_engine_gets_the_folder(name, options, variant):
    model = WORKLOADS[name].model(variant)
    assert model.files == options["weights"]
    assert len(model.weights_fingerprint) == 64


@pytest.mark.parametrize("name", SMALL)
def test_another_architecture_is_refused(name, options, variant):
    path, layers = options["weights"] / "config.json", LANGUAGE[name].layers
    config = json.loads(path.read_text())
    (entry,) = {"n_layer", "num_hidden_layers"} & config.keys()
    path.write_text(json.dumps({**config, entry: layers - 1}))
    with pytest.raises(DataError, match=f"has {entry} = {layers - 1}, expected {layers}"):
        WORKLOADS[name].model(variant)


@pytest.mark.parametrize("name", SMALL)
def test_a_tokenizer_of_another_model_is_refused(name, options, variant):
    dataset = WORKLOADS[name].dataset(variant)
    other = DATA / "llama2_70b" / ("openorca_filter" if name == "llama2-70b" else "")
    shutil.copy(other / "tokenizer.json", options["weights"])
    with pytest.raises(DataError, match=rf"has \d+ tokens, the model's tokenizer {SMALL[name][0]['vocab_size']}"):
        WORKLOADS[name].metric(variant, dataset)


@pytest.mark.parametrize("name", ["gptj"])
def test_the_tokenizer_may_lie_elsewhere(options, name):
    full, _ = variants_of(name)
    (options["weights"] / "tokenizer.json").unlink()
    with pytest.raises(DataError, match="tokenizer not found"):
        WORKLOADS[name].dataset(full(**options))
    elsewhere = {"data": options["data"], "tokenizer": DATA / "gptj"}
    assert WORKLOADS[name].dataset(full(**{**options, **elsewhere})).count == 12
    assert WORKLOADS[name].dataset(full(Weights.RANDOM, **elsewhere)).count == 12


def test_a_tokenizer_that_is_not_gpt_j_s_is_refused():
    full, _ = variants_of("gptj")
    variant = full(Weights.RANDOM, data=DATA / "gptj" / "cnn_eval.json", tokenizer=DATA / "gptj")
    with pytest.raises(DataError, match="has 629 tokens, the model's tokenizer 50257 or 50400 or 50401"):
        WORKLOADS["gptj"].dataset(variant)


@pytest.mark.parametrize("name", ["mixtral-8x7b"])
def test_another_pickle_than_the_official_one_is_refused(options, name):
    full, _ = variants_of(name)
    with pytest.raises(DataError, match=r"data set is corrupt or another version: .*dataset\.pkl"):
        WORKLOADS[name].dataset(full(**{**options, "data": DATA / "mixtral_8x7b" / "dataset.pkl"}))


def test_a_model_with_fewer_positions_has_its_own_limit_of_new_tokens():
    assert conversing(positions=512, max_new_tokens=256).decoding.max_new_tokens == 256
