"""What the files of a Hugging Face folder say of a language model, and why graphs cannot be made of some."""

import json
import shutil

import pytest
from mlbench_own_model.language_folder import LanguageFolder
from mlbench_own_model.language_reference import why_no_reference
from mlbench_own_model.language_workload import OwnLanguageModel

import mlbench
from mlbench import DECODE, DataError, UsageError, Weights
from mlbench.reports.page import page

ELSEWHERE = "vllm and endpoint load the folder themselves: choose one of them."


@pytest.fixture
def changed(language_folder, tmp_path):
    """Return a function that copies a folder and changes keys of its config.json; None removes one."""

    def changed(name="llama", **keys):
        folder = shutil.copytree(language_folder(name), tmp_path / "changed")
        config = json.loads((folder / "config.json").read_text()) | keys
        kept = {key: value for key, value in config.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(kept))
        return folder

    return changed


@pytest.fixture
def reason(language_variant):
    """Return a function that returns why a folder's model has no graphs, the native engines' files still there."""

    def reason(folder, **options):
        model = OwnLanguageModel("mine").model(language_variant(folder, **options))
        assert (not model.graphs) == bool(model.why_no_graphs)
        assert model.files == folder
        return model.why_no_graphs

    return reason


def test_generation_settings_say_which_tokens_end_an_answer(changed):
    folder = changed(eos_token_id=5)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    assert LanguageFolder.read(folder).end_tokens == (2, 7)
    (folder / "generation_config.json").unlink()
    assert LanguageFolder.read(folder).end_tokens == (5,)


def test_a_model_that_names_no_end_token_answers_at_full_length(changed):
    folder = changed(eos_token_id=None)
    (folder / "generation_config.json").unlink()
    assert LanguageFolder.read(folder).end_tokens == ()


def test_an_architecture_without_graphs_is_left_to_backends_that_need_none(language_folder, reason):
    assert reason(language_folder("mamba")) == f"mlbench has no graphs of MambaForCausalLM, and {ELSEWHERE}"


def test_an_architecture_that_nobody_knows_is_left_to_them_too(changed, reason):
    folder = changed(model_type="odd", architectures=["OddForCausalLM"])
    assert reason(folder) == f"mlbench has no graphs of OddForCausalLM, and {ELSEWHERE}"


def test_a_class_of_the_folders_own_is_not_taken_for_the_one_of_its_type(changed, reason):
    folder = changed(architectures=["OtherForCausalLM"], auto_map={"AutoModelForCausalLM": "code.OtherForCausalLM"})
    assert reason(folder) == f"mlbench has no graphs of OtherForCausalLM, and {ELSEWHERE}"
    assert LanguageFolder.read(folder).kind == ""


def test_the_spelling_of_the_first_llama_folders_is_known(changed, reason):
    assert reason(changed(architectures=["LLaMAForCausalLM"])) == ""


def test_quantised_weights_are_left_to_them(changed, reason):
    folder = changed(quantization_config={"quant_method": "gptq", "bits": 4})
    assert reason(folder).startswith("The weights of this LlamaForCausalLM are quantised (int4-gptq), and vllm")


def test_answers_of_weights_that_model_optimizer_quantised_have_no_reference(changed, reason):
    folder = changed()
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    assert reason(folder).startswith("The weights of this LlamaForCausalLM are quantised (fp8-modelopt), and vllm")
    assert why_no_reference(LanguageFolder.read(folder)) == "the weights are quantised (fp8-modelopt)"


def test_the_record_has_the_format_of_weights_that_an_engine_reads(changed, tmp_path):
    folder = changed(quantization_config={"quant_method": "awq", "bits": 4})
    options = {"model": folder, "results": tmp_path / "results", "scenario": "Offline", "power": "none"}
    (record,) = mlbench.run(backend="null", settings={"load.min_duration_ms": 100}, **options)
    assert record.number_format.model_dump() == {"stores": "int4-awq", "computes": "fp32"}
    assert "weights   stored in int4-awq, computed in fp32" in page(record)


def test_a_window_is_seen_whole_until_a_sequence_is_longer(changed, reason):
    folder = changed(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=40)
    assert reason(folder, dims="prompt=8,answer=32") == ""
    assert "looks back 40 tokens, and prompt and answer have up to 41" in reason(folder, dims="prompt=9,answer=32")


def test_positions_that_grow_are_known_until_a_sequence_is_longer_than_the_trainings(changed, reason):
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 40}
    folder = changed(rope_parameters=rope)
    assert reason(folder, dims="prompt=8,answer=32") == ""
    assert "has dynamic positions, which are others beyond 40 tokens" in reason(folder, dims="prompt=9,answer=32")


def test_old_folders_without_keys_for_the_cache_have_their_classs_defaults(changed, language_variant):
    folder = changed(num_key_value_heads=None, head_dim=None)
    model = OwnLanguageModel("mine").model(language_variant(folder))
    assert model.graphs[DECODE].state[0].shape[1::2] == (4, 8)


def test_random_weights_need_no_files_of_weights_and_claim_no_accuracy(changed, language_variant):
    folder = changed()
    (folder / "model.safetensors").unlink()
    workload, variant = OwnLanguageModel("mine"), language_variant(folder, weights=Weights.RANDOM)
    model = workload.model(variant)
    assert (len(model.graphs[DECODE].state), model.files) == (4, None)
    assert workload.metric(variant, workload.dataset(variant)) is None


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"architectures": ["LlamaForSequenceClassification"]}, "is a LlamaForSequenceClassification, not a causal"),
        ({"is_encoder_decoder": True, "architectures": None}, "is a model with an encoder, not a causal"),
        ({"attn_implementation": "someone/kernel"}, "chooses code by attn_implementation"),
        ({"vocab_size": None}, "has no vocab_size"),
        ({"vocab_size": "many"}, "has vocab_size = many, expected a number above 0"),
        ({"vocab_size": 10**12}, "has vocab_size = 1000000000000, more than 16777216"),
        ({"num_hidden_layers": 10**9}, "describes no LlamaForCausalLM: 1000000000 layers with 2 heads of 8 numbers"),
        ({"head_dim": -8}, "describes no LlamaForCausalLM"),
        ({"max_position_embeddings": 0}, "has max_position_embeddings = 0, expected a number above 0"),
        ({"bos_token_id": "<s>"}, "has bos_token_id = '<s>', expected token ids"),
        ({"num_attention_heads": "4"}, "config.json describes no LlamaForCausalLM"),
        ({"num_attention_heads": 0}, "config.json describes no LlamaForCausalLM"),
    ],
)
def test_a_description_that_cannot_be_is_refused(changed, language_variant, keys, told):
    with pytest.raises(UsageError, match=told):
        OwnLanguageModel("mine").model(language_variant(changed(**keys)))


def test_a_folder_without_safetensors_is_refused_by_every_backend(changed, language_variant):
    folder = changed()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"contains no model.safetensors .* Save it again as safetensors"):
        OwnLanguageModel("mine").model(language_variant(folder))


def test_a_folder_without_a_description_is_refused(tmp_path, language_variant):
    with pytest.raises(DataError, match=r"model description cannot be read: .*config.json"):
        OwnLanguageModel("mine").dataset(language_variant(tmp_path))


def test_a_backend_as_the_reference_is_refused(language_folder, language_variant):
    with pytest.raises(UsageError, match=r"compared with Hugging Face's generate, not with onnxruntime. Leave out"):
        OwnLanguageModel("mine").dataset(language_variant(language_folder("llama"), reference="onnxruntime"))
