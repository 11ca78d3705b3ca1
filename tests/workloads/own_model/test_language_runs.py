"""Runs of a user's language model, in real engines and from the command line."""

import dataclasses
import json
import shutil

import pytest
import torch
from invoking import invoke
from mlbench_own_model.language_workload import OwnLanguageModel
from safetensors.torch import load_file, save_file

from mlbench import EnginePlan, LoggedReply, Precision, Samples, UsageError
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.rules.scoring import score

pytestmark = pytest.mark.slow
WORKLOAD = OwnLanguageModel("mine")


def answers_of(backend, variant):
    """Return what a backend answers to all prompts, as the accuracy log would have it."""
    named = Plugins.discover().backend(backend)
    named = named.with_options(dataclasses.replace(named.options, threads=1))
    data, model = WORKLOAD.dataset(variant), WORKLOAD.model(variant)
    indices, reply = list(range(data.count)), RecordingReply()
    samples = Samples(indices, indices, data)
    with engine_of(named, model, EnginePlan(batch=4, precision=variant.precision)) as engine:
        engine.submit(samples, reply)
        engine.flush()
        assert reply.wait(samples, patience_s=60)
    assert not reply.failures
    return [LoggedReply(index=index, data=reply.answers[index][0].tobytes()) for index in indices]


def accuracy_of(backend, variant, *, right=None):
    """Return the accuracy of a backend's answers, those of another folder where one is ``right``."""
    judged = variant if right is None else dataclasses.replace(variant, options=right)
    metric = WORKLOAD.metric(judged, WORKLOAD.dataset(judged))
    return score(metric, answers_of(backend, variant), variant.precision)


@pytest.mark.thorough("exports", but=["llama-pytorch", "gpt_neox-pytorch"])
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
@pytest.mark.parametrize("name", ["llama", "gpt_neox"])
def test_a_folder_is_answered_as_generate_answers_it(language_folder, language_variant, backend, name):
    accuracy = accuracy_of(backend, language_variant(language_folder(name), samples=6, dims="answer=12"))
    assert (accuracy.scores["tokens_agree"], accuracy.is_met, accuracy.first_wrong) == (100, True, "")


@pytest.mark.thorough("workloads")
def test_answers_to_the_users_prompts_are_compared_to_their_ends(language_folder, language_variant, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"w{number} w7"}) + "\n" for number in range(40)))
    variant = language_variant(language_folder("llama"), inputs=file, compared=40)
    accuracy = accuracy_of("pytorch", variant)
    assert accuracy.scores["answers_agree"] == 100


@pytest.mark.thorough("workloads")
def test_weights_in_bf16_are_near_enough_for_bf16(language_folder, language_variant):
    """An old checkpoint, too, whose weights have names that transformers has changed since."""
    variant = language_variant(language_folder("gpt_neox"), precision=Precision.BF16, samples=16)
    assert accuracy_of("pytorch", variant).is_met


def test_damaged_weights_are_not_accurate_and_the_first_prompt_that_shows_it_is_named(
    language_folder, language_variant, tmp_path
):
    whole = language_folder("llama")
    broken = shutil.copytree(whole, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    noise = torch.Generator().manual_seed(0)
    name = "model.layers.1.self_attn.q_proj.weight"
    weights[name] = torch.randn(weights[name].shape, generator=noise)
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    right = language_variant(whole, samples=8).options
    accuracy = accuracy_of("pytorch", language_variant(broken, samples=8), right=right)
    assert not accuracy.is_met
    assert accuracy.first_wrong.startswith("The answer to prompt 0 differs first at its token ")


def test_a_backend_that_compiles_graphs_refuses_an_architecture_without_any_by_its_name(
    language_folder, language_variant
):
    told = r"^pytorch compiles graphs, and mine has none. mlbench has no graphs of MambaForCausalLM"
    with pytest.raises(UsageError, match=told):
        answers_of("pytorch", language_variant(language_folder("mamba")))


@pytest.fixture
def command(tmp_path):
    """Return a function that runs `mlbench run --model`."""

    def command(folder, *more, backend="pytorch"):
        words = ["run", "--model", str(folder), "--backend", backend, "--tier", "smoke", "--power", "none"]
        return invoke(*words, "--results", tmp_path / "results", *more)

    return command


@pytest.mark.thorough("workloads")
def test_a_run_measures_tokens_and_their_times_and_keeps_the_agreement(language_folder, command, tmp_path):
    sizes = ["--dim", "prompt=8", "--dim", "answer=4", "--name", "mine"]
    done = command(language_folder("llama"), *sizes, "--scenario", "Server", "--set", "load.target_qps=80")
    assert done.exit_code == 0, done.output
    (record,) = (json.loads(each.read_text()) for each in (tmp_path / "results").glob("*/record.json"))
    assert record["workload"] == "mine"
    assert record["accuracy"]["scores"]["tokens_agree"] == 100
    times = record["result"]["latency_ns"]
    assert times["first_token_99.00_percentile_latency"] > times["time_per_output_token_50.00_percentile"] > 0


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("llama", ["--dim", "prompt=16..400"], "exceed the 128 positions of the model"),
        ("llama", ["--dim", "batch=4"], "'batch=4' is no size of a language model"),
        ("llama", ["--inputs", "nowhere.jsonl"], "prompts cannot be read"),
        ("llama", ["--reference", "onnxruntime"], "compared with Hugging Face's generate, not with onnxruntime"),
        ("mamba", [], "mlbench has no graphs of MambaForCausalLM, and vllm and endpoint load the folder themselves"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(language_folder, command, name, more, told):
    done = command(language_folder(name), *more)
    assert done.exit_code == 2, done.output
    (line,) = (each for each in done.stderr.splitlines() if told in each)
    assert line.startswith("Error: ")
