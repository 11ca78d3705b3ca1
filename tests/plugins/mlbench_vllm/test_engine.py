"""The vLLM backend with vLLM itself, on the mini models of the workloads: `nox -s vllm` has it."""

import importlib.util
import os
import signal
from pathlib import Path

import psutil
import pytest
from mlbench_llama2_70b.graphs import NETWORK as LLAMA
from mlbench_mixtral_8x7b.graphs import NETWORK as MIXTRAL
from mlbench_recipes.language_reference import answers
from mlbench_vllm.backend import Vllm
from mlbench_vllm.options import VllmOptions

from mlbench import EnginePlan, Profile, Samples, UnavailableError, UsageError, Variant, Weights
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="vLLM has an environment of its own: nox -s vllm"),
]

FEW = 48
PATIENCE_S = 300
SMALL = VllmOptions(enforce_eager=True, kv_cache_gib=0.25)


def variant_of(workload):
    return Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)


def opened(name, count):
    """Return the workload's model, and samples spread over its loaded dataset."""
    workload = Plugins.discover().workload(name)
    data, model = workload.dataset(variant_of(workload)), workload.model(variant_of(workload))
    indices = [number * data.count // count for number in range(count)]
    data.load(indices)
    return model, Samples(list(range(count)), indices, data)


@pytest.fixture(scope="module")
def llama():
    model, samples = opened("llama2-70b", FEW)
    with Vllm().with_options(SMALL).engine(model, EnginePlan()) as engine:
        yield engine, model, samples


def asked(engine, samples):
    reply = RecordingReply()
    engine.submit(samples, reply)
    assert reply.wait(samples, PATIENCE_S)
    return reply


def expected(network, model, samples):
    prompts = [model.program.prompt(each) for each in samples.data()]
    return prompts, answers(network.trained(Path(model.files)), prompts, model.program.decoding)


def test_every_token_is_that_of_generate(llama):
    engine, model, samples = llama
    reply = asked(engine, samples)
    _, reference = expected(LLAMA, model, samples)
    assert not reply.failures
    assert [reply.answers[id_][0].tolist() for id_ in samples.ids] == [
        model.program.answer(each).tolist() for each in reference
    ]
    assert [reply.token_counts[id_] for id_ in samples.ids] == [len(reply.answers[id_][0]) for id_ in samples.ids]


def test_the_first_token_is_reported_before_the_answer_and_begins_it(llama):
    engine, _, samples = llama
    reply = asked(engine, samples)
    assert reply.first_tokens == {id_: reply.answers[id_][0][0] for id_ in samples.ids}  # none that came after


def test_a_prompt_for_which_there_is_no_room_fails_alone(llama):
    engine, model, samples = llama
    longest = model.program.decoding.longest
    dataset = samples.dataset

    class WithOneTooLong:
        def sample(self, index):
            found = dataset.sample(index)
            if index != samples.indices[1]:
                return found
            return type(found)(tokens=found.tokens.repeat(longest)[:longest], stop=found.stop)

    some = Samples(samples.ids[:4], samples.indices[:4], WithOneTooLong())
    reply = asked(engine, some)
    assert sorted(reply.answers) == [0, 2, 3]
    assert f"exceed the {longest} positions of the model" in reply.failures[1][0]


def test_the_record_has_what_vllm_chose(llama):
    engine, _, samples = llama
    engine.statistics()
    reply = asked(engine, samples)
    counts = engine.statistics()
    assert counts.samples == counts.extra["answered"] == FEW
    assert counts.extra["answer_tokens"] <= sum(reply.token_counts.values())
    assert counts.extra["max_num_seqs"] > 0
    assert engine.statistics().samples == 0
    assert Vllm().observe().device


def test_a_stop_sequence_is_followed_as_generate_follows_it():
    model, samples = opened("mixtral-8x7b", FEW)
    prompts, reference = expected(MIXTRAL, model, samples)
    assert sum(bool(prompt.stop) for prompt in prompts) > FEW // 4
    with Vllm().with_options(SMALL).engine(model, EnginePlan()) as engine:
        reply = asked(engine, samples)
    assert not reply.failures
    found = [reply.answers[id_][0].tolist() for id_ in samples.ids]
    assert found == [model.program.answer(each).tolist() for each in reference]


def test_open_samples_fail_when_vllms_processes_are_killed(llama):
    _, model, samples = llama
    before = set(psutil.Process().children(recursive=True))
    with Vllm().with_options(SMALL).engine(model, EnginePlan()) as engine:
        asked(engine, samples)  # it runs
        many = Samples(list(range(20 * FEW)), [*samples.indices] * 20, samples.dataset)
        reply = RecordingReply()
        engine.submit(many, reply)
        for process in set(psutil.Process().children(recursive=True)) - before:
            os.kill(process.pid, signal.SIGKILL)
        assert reply.wait(many, PATIENCE_S)
        assert reply.failures
        assert len(reply.answers) + len(reply.failures) == len(many)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quantization": "sevenbit"}, "sevenbit"),
        ({"kv_cache_dtype": "float3"}, "Input should be"),
        ({"max_num_seqs": 64, "max_num_batched_tokens": 8}, "max_num_batched_tokens"),
    ],
)
def test_what_vllm_refuses_is_said_in_its_words_in_a_line(options, said):
    model, _ = opened("llama2-70b", 1)
    with pytest.raises(UsageError, match=said) as caught:
        Vllm().with_options(VllmOptions(**options)).engine(model, EnginePlan())
    assert "\n" not in str(caught.value)


def test_a_cache_for_which_there_is_no_memory_is_the_failure_of_the_run():
    model, _ = opened("llama2-70b", 1)
    too_much = VllmOptions(enforce_eager=True, kv_cache_gib=psutil.virtual_memory().total / 2**30 * 2)
    with (
        pytest.raises(UnavailableError, match="vllm does not start"),
        Vllm().with_options(too_much).engine(model, EnginePlan()),
    ):
        pass
