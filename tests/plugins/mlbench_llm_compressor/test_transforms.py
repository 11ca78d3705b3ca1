"""What the transforms of llm-compressor say and refuse without it, and when a folder is made."""

import dataclasses
import json

import pytest
from mlbench_llm_compressor import transforms as module
from mlbench_llm_compressor.transforms import Awq, Fp8, Gptq, GroupOptions, SmoothQuant

from mlbench import Calibration, UnavailableError, UsageError, Weights
from mlbench.conformance.preparation import mini_variant
from mlbench.discovery import Plugins
from mlbench.execution.transforming import apply_transforms
from mlbench.settings.transforms import spell_chain

GROUP = {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}
DESCRIPTION = {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": GROUP}}}


def mini(name, **changed):
    workload = Plugins.discover().workload(name)
    return workload.model(dataclasses.replace(mini_variant(workload, {}), **changed))


def apply(transform, model):
    return transform.apply(model, Calibration(model))


@pytest.fixture
def makes(monkeypatch, tmp_path):
    """Each folder that would be made; it gets a description, and no library is needed."""
    made = []

    def describe(self, source, folder):
        made.append(self.text)
        (folder / "config.json").write_text(json.dumps(DESCRIPTION))

    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "find_versions", lambda *names: dict.fromkeys(names, "1"))
    monkeypatch.setattr(module.QuantizedFolder, "_make", describe)
    return made


def test_a_model_is_its_folder_with_the_scheme_and_without_graphs(makes):
    model = mini("llama2-70b")
    found = apply_transforms(model, [Gptq()])
    assert found.files != model.files
    assert (found.stores, found.graphs, found.program) == ("int4-compressed-tensors", {}, model.program)
    assert "choose --backend vllm" in found.why_no_graphs
    (change,) = found.changes
    assert change.startswith("weights of linear layers in int4, a scale for 32 weights, calibrated on 128 texts that")


def test_a_folder_is_made_once_for_each_method_and_value(makes):
    model, fewer = mini("llama2-70b"), Gptq().with_options(GroupOptions(texts=64))
    folders = [apply(transform, model).files for transform in (Gptq(), Gptq(), fewer, Awq(), Fp8(), Fp8())]
    assert makes == ["gptq:0:128", "gptq:0:64", "awq:0:128", "fp8"]
    assert len(set(folders)) == len(makes)


def test_other_weights_or_versions_make_another_folder(makes, monkeypatch):
    model = mini("llama2-70b")
    apply(Gptq(), model)
    apply(Gptq(), dataclasses.replace(model, weights_fingerprint="another"))
    monkeypatch.setattr(module, "find_versions", lambda *names: dict.fromkeys(names, "2"))
    apply(Gptq(), model)
    assert len(makes) == 3


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (("bert", {}), "gptq takes language models, and bert is none"),
        (("llama2-70b", {"weights": Weights.RANDOM}), "gptq reads a model's files, and llama2-70b has none"),
    ],
)
def test_a_model_without_weights_of_a_language_model_is_refused(makes, model, words):
    name, changed = model
    with pytest.raises(UsageError, match=words):
        apply(Gptq(), mini(name, **changed))
    assert not makes


def test_quantised_weights_are_not_quantised_again(makes):
    with pytest.raises(UsageError, match="awq takes plain weights, and those of llama2-70b are in int4-compressed"):
        apply_transforms(mini("llama2-70b"), [Gptq(), Awq()])


def test_without_the_library_the_line_that_installs_it_is_given(monkeypatch):
    monkeypatch.setattr(module, "find_versions", lambda *names: {})
    with pytest.raises(UnavailableError, match="gptq needs llmcompressor, which is not installed") as caught:
        apply(Gptq(), mini("llama2-70b"))
    assert "pip install 'llmcompressor>=0.14'" in caught.value.hint


def test_a_process_that_fails_is_one_line_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "find_versions", lambda *names: dict.fromkeys(names, "1"))
    model = dataclasses.replace(mini("llama2-70b"), files=tmp_path / "nothing")
    with pytest.raises(UnavailableError, match=r"transform gptq:0:128 failed: \w+: ") as caught:
        apply(Gptq(), model)
    assert "\n" not in str(caught.value)
    assert not [each for each in (tmp_path / "cache" / "quantised").iterdir() if each.is_dir()]


@pytest.mark.parametrize("typed", ["gptq:-1", "gptq:0:0", "awq:5000", "smoothquant:0", "smoothquant:1.5", "fp8:1"])
def test_a_value_out_of_its_range_is_refused(typed, plugins):
    with pytest.raises(UsageError, match=f"transform '{typed}'"):
        spell_chain(typed, plugins)


def test_what_saw_texts_beyond_the_official_list_is_open_and_what_saw_none_is_closed():
    assert [each.is_closed for each in (Gptq(), Awq(), SmoothQuant(), Fp8())] == [False, False, False, True]
