"""Quantised folders: named by their own description, and refused where torch would read them without scales.

The descriptions are those that the tools write: AutoGPTQ, AutoAWQ, LLM Compressor, NVIDIA Model Optimizer.
"""

import json

import pytest
import torch
from mlbench_llama2_70b.full_profile import FullProfile
from mlbench_llama2_70b.graphs import NETWORK, OFFICIAL_CONFIG
from mlbench_llama2_70b.workload import Llama2Options
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from mlbench import DataError, Decoding, Precision, UsageError, Weights
from mlbench.toolkit import load_weights
from mlbench.toolkit.language import read_scheme

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64}
SMALL = {**SIZES, "num_attention_heads": 2, "num_key_value_heads": 2}


def groups(*weights):
    return {f"group_{place}": {"targets": ["Linear"], "weights": each} for place, each in enumerate(weights)}


INT4, INT8, FP8 = ({"num_bits": bits, "type": kind} for bits, kind in ((4, "int"), (8, "int"), (8, "float")))
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}


@pytest.fixture
def describe(tmp_path):
    """Return a function that writes a folder's description, and returns the folder."""

    def describe(config, modelopt=None):
        (tmp_path / "config.json").write_text(json.dumps(config))
        if modelopt is not None:
            (tmp_path / "hf_quant_config.json").write_text(json.dumps(modelopt))
        return tmp_path

    return describe


@pytest.mark.parametrize(
    ("described", "scheme"),
    [
        (GPTQ, "int4-gptq"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}, "int4-awq"),
        ({"quant_method": "awq", "w_bit": 4}, "int4-awq"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": groups(INT4)}, "int4-compressed-tensors"),
        ({"quant_method": "compressed-tensors", "config_groups": groups(FP8)}, "fp8-compressed-tensors"),
        ({"config_groups": groups(INT8, INT4, INT8)}, "int4-int8-compressed-tensors"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4-modelopt"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
    ],
)
def test_a_scheme_is_read_from_the_description(describe, described, scheme):
    assert read_scheme(describe({"quantization_config": described})) == scheme
    assert read_scheme(describe({"text_config": {"quantization_config": described}})) == scheme


def test_the_model_of_a_full_profile_has_it_for_the_record(describe):
    folder = describe({"quantization_config": GPTQ})
    assert FullProfile(Llama2Options(weights=folder), Weights.TRAINED).stores == "int4-gptq"
    assert FullProfile(Llama2Options(), Weights.RANDOM).stores == ""


def test_the_first_key_of_compressed_tensors_is_known(describe):
    assert read_scheme(describe({"compression_config": {"config_groups": groups(FP8)}})) == "fp8-compressed-tensors"


def test_model_optimizer_describes_it_in_a_file_of_its_own(describe):
    algorithm = {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN", "kv_cache_quant_algo": None}
    folder = describe({}, {"producer": {"name": "modelopt"}, "quantization": algorithm})
    assert read_scheme(folder) == "fp8_per_channel_per_token-modelopt"


def test_a_plain_folder_has_none(describe):
    assert read_scheme(describe({"quantization_config": None, "torch_dtype": "bfloat16"})) == ""


@pytest.mark.parametrize(
    ("described", "complaint"),
    [
        ({"bits": 4}, "it has no quant_method"),
        ("int4", "'int4' describes no quantisation"),
        ({"quant_method": "../../x"}, r"'\.\./\.\./x' is no name of one"),
        ({"quant_method": "\x1b[2J"}, "is no name of one"),
        ({"quant_method": "a" * 10_000}, f"'{'a' * 40}' is no name of one"),
        ({"quant_method": "gptq", "bits": [4] * 1000}, r"'int' with \[4, 4, .* bits are no number format"),
        ({"quant_method": "gptq", "bits": True}, "with True bits"),
        ({"quant_method": "awq", "bits": 0}, "with 0 bits"),
        ({"config_groups": groups({"num_bits": {"x": 1}, "type": "int"})}, "are no number format"),
        ({"config_groups": groups({"num_bits": 4, "type": "code"})}, "weights of type 'code' with 4 bits"),
    ],
)
def test_an_odd_description_is_refused_in_a_line(describe, described, complaint):
    with pytest.raises(DataError, match=complaint) as caught:
        read_scheme(describe({"quantization_config": described}))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_of_model_optimizer_without_a_description_is_refused(describe):
    with pytest.raises(DataError, match=r"hf_quant_config\.json is not known"):
        read_scheme(describe({}, {"producer": {}}))


@pytest.fixture
def fp8_folder(tmp_path):
    """A small Llama with FP8 weights of its matrix products, as FP8 checkpoints store them, with a scale of each."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = LlamaForCausalLM(LlamaConfig(**OFFICIAL_CONFIG | SMALL))
    state = network.state_dict()
    for name in [name for name in state if name.endswith("_proj.weight")]:
        scale = state[name].abs().max() / 448
        state[name], state[f"{name}_scale"] = (state[name] / scale).to(torch.float8_e4m3fn), scale
    network.config.save_pretrained(tmp_path)
    save_file(state, tmp_path / "model.safetensors")
    return tmp_path


def prefill(folder):
    graphs = NETWORK.build_graphs(folder, Decoding(end_tokens=(2,), max_new_tokens=4, longest=16), fingerprint="x")
    return graphs["prefill"].module_at(Precision.FP32)


def test_graphs_of_quantised_weights_are_refused_with_the_backend_that_reads_them(fp8_folder):
    config = json.loads((fp8_folder / "config.json").read_text())
    (fp8_folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "fp8"}}))
    with pytest.raises(UsageError, match=r"has weights in fp8, whose scales .* do not read\. Choose --backend vllm"):
        prefill(fp8_folder)


def test_weights_that_no_file_describes_are_not_read_without_their_scales(fp8_folder):
    complaint = r"stores model\.layers\.0\.\S+_proj\.weight as F8_E4M3, and describes no scales\. Choose --backend vllm"
    with pytest.raises(DataError, match=complaint):
        prefill(fp8_folder)


def test_a_file_of_weights_in_eight_bits_is_not_read_as_if_it_had_no_scale(tmp_path):
    file = tmp_path / "weights.safetensors"
    save_file({"a": torch.ones(2), "b": torch.ones(2).to(torch.float8_e5m2)}, file)
    with pytest.raises(DataError, match=r"stores b as torch\.float8_e5m2, without a scale\. It may be quantised"):
        load_weights(file)
