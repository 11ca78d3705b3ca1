"""Folders that llm-compressor makes, loaded by vLLM: `nox -s vllm` has both."""

import importlib.util
import json
import shutil

import pytest
from mlbench_llm_compressor.making import int4
from mlbench_llm_compressor.transforms import Awq, Fp8, Gptq, SmoothQuant

import mlbench
from mlbench import Calibration
from mlbench.conformance.preparation import mini_variant
from mlbench.discovery import Plugins
from mlbench.toolkit.language import write_texts

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (importlib.util.find_spec("vllm") and importlib.util.find_spec("llmcompressor")),
        reason="vLLM and llm-compressor have an environment of their own: nox -s vllm",
    ),
]

SMALL = {"backend.enforce_eager": True, "backend.kv_cache_gib": 0.25}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """The mini Llama in a folder without its data set: what is made is made without it."""
    workload = Plugins.discover().workload("llama2-70b")
    model = workload.model(mini_variant(workload, {}))
    folder = tmp_path_factory.mktemp("llama")
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(model.files / name, folder)
    return mlbench.Model(
        name=model.name,
        graphs=model.graphs,
        program=model.program,
        weights_fingerprint=model.weights_fingerprint,
        files=folder,
    )


@pytest.mark.parametrize(
    ("transform", "stores", "group", "activations"),
    [
        (Gptq(), "int4-compressed-tensors", 128, None),
        (Awq(), "int4-compressed-tensors", 128, None),
        (SmoothQuant(), "int8-compressed-tensors", None, 8),
        (Fp8(), "fp8-compressed-tensors", None, 8),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_folder_is_in_its_scheme_and_needs_no_data_set(llama, transform, stores, group, activations):
    found = transform.apply(llama, Calibration(llama))
    assert found.stores == stores
    described = json.loads((found.files / "config.json").read_text())["quantization_config"]
    (only,) = described["config_groups"].values()
    assert only["weights"]["group_size"] == group
    assert (only["input_activations"] or {}).get("num_bits") == activations
    assert "lm_head" in described["ignore"]
    assert (found.files / "tokenizer.json").is_file()


@pytest.mark.parametrize("name", ["gptq", "fp8"])
def test_vllm_runs_it_with_nearly_the_scores_of_the_untouched_model(name, tmp_path):
    (run,) = mlbench.run(
        "llama2-70b",
        backend="vllm",
        scenario="Offline",
        precision="bf16",
        transform=name,
        settings=SMALL,
        results=tmp_path,
    )
    assert run.status == "completed"
    assert run.number_format.stores == {"gptq": "int4-compressed-tensors", "fp8": "fp8-compressed-tensors"}[name]
    assert run.is_open is (name == "gptq")
    assert run.fingerprints["transformed files"]
    assert run.accuracy.scores["ROUGE1"] > 85  # 90.95 of the untouched model; of a damaged one 52


def test_texts_are_the_same_each_time_and_end_at_their_end_token(llama):
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(llama.files, dtype="float32")
    texts = write_texts(network, 4)
    assert texts == write_texts(network, 4)
    assert all(text[0] == 1 and 2 not in text[:-1] for text in texts)


def test_a_group_that_does_not_fit_is_refused_and_none_is_a_scale_for_each_row():
    import torch

    wide = torch.nn.Sequential(torch.nn.Linear(96, 8), torch.nn.Linear(64, 8))
    assert int4(wide, 0).weights.group_size == 32
    with pytest.raises(ValueError, match="groups of 64 do not divide rows of 64, 96 weights"):
        int4(wide, 64)
    odd = torch.nn.Sequential(torch.nn.Linear(50, 8))
    assert int4(odd, 0).weights.strategy == "channel"
