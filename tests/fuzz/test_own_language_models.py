"""Descriptions, tokenizers and prompts of a user's own language model."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from mlbench_own_model import LanguageModelOptions, OwnLanguageModel  # noqa: E402 - torch takes seconds
from safetensors.torch import save  # noqa: E402

from mlbench import Profile, Variant, Weights  # noqa: E402

DATA = Path(__file__).parents[1] / "data"
CONFIG = {
    **{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 750, "hidden_size": 8},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256},
    **{"eos_token_id": 2, "bos_token_id": 1, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}},
}
TOKENIZER = json.loads((DATA / "llama2_70b" / "tokenizer.json").read_text())


@pytest.fixture
def folder(fuzz):
    """A folder with all files, and weights that are only numbers."""
    for name, content in {"config.json": CONFIG, "generation_config.json": {}, "tokenizer.json": TOKENIZER}.items():
        (fuzz.folder / name).write_text(json.dumps(content))
    (fuzz.folder / "model.safetensors").write_bytes(save({"a": torch.zeros(2, 3)}))
    return fuzz.folder


def described(folder, **options):
    """Describe the model of a folder, and its prompts."""
    own = LanguageModelOptions(model=folder, samples=2, **options)
    workload = OwnLanguageModel("mine")
    workload.model(Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=own))


def test_descriptions(fuzz, folder):
    fuzz.json(lambda file: described(folder), CONFIG, "config.json", share=2)


def test_descriptions_of_quantisation(fuzz, folder):
    weights = {"num_bits": 4, "type": "int"}
    method = {"quant_method": "compressed-tensors", "bits": 4, "config_groups": {"group_0": {"weights": weights}}}
    fuzz.json(lambda file: described(folder), {**CONFIG, "quantization_config": method}, "config.json")


def test_generation_settings(fuzz, folder):
    fuzz.json(lambda file: described(folder), {"eos_token_id": [2, 5], "bos_token_id": 1}, "generation_config.json")


def test_tokenizers(fuzz, folder):
    fuzz.json(lambda file: described(folder), TOKENIZER, "tokenizer.json")


def test_prompts(fuzz, folder):
    def read(file):
        described(folder, inputs=file)

    lines = [json.dumps({"prompt": "The river rose."}), json.dumps({"tokens": [1, 5, 9]})]
    fuzz.bytes(read, "\n".join(lines).encode(), "prompts.jsonl", share=2)
    fuzz.json(read, {"tokens": [1, 5, 9]}, "prompts.jsonl")
    fuzz.paths(read)


def test_sizes(fuzz, folder, values):
    fuzz.draw(values, lambda text: fuzz.judge(lambda _: described(folder, dims=text), text))
