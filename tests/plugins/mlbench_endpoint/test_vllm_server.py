"""The endpoint backend and vLLM's own server, which mlbench starts: `nox -s vllm` has it."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.servers.started_server import LOG_NAME
from mlbench_llama2_70b.graphs import NETWORK as LLAMA
from mlbench_mixtral_8x7b.graphs import NETWORK as MIXTRAL
from mlbench_recipes.language_reference import answers

from mlbench import EnginePlan, Profile, Samples, Variant, Weights
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="vLLM has an environment of its own: nox -s vllm"),
]

START = (
    f"{sys.executable} -m vllm.entrypoints.openai.api_server --model {{model}} --port {{port}} --host 127.0.0.1 "
    "--dtype float32 --enforce-eager --no-enable-prefix-caching --generation-config vllm "
    "--kv-cache-memory-bytes 268435456"
)
PATIENCE_S = 600
MANY = 160


def opened(name, count):
    """Return the workload's model, and samples spread over its loaded dataset."""
    workload = Plugins.discover().workload(name)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    data, model = workload.dataset(variant), workload.model(variant)
    indices = [number * data.count // count for number in range(count)]
    data.load(indices)
    return model, Samples(list(range(count)), indices, data)


@pytest.mark.parametrize(("workload", "network"), [("llama2-70b", LLAMA), ("mixtral-8x7b", MIXTRAL)])
def test_a_vllm_server_answers_token_ids_as_generate_does(workload, network, tmp_path):
    model, samples = opened(workload, MANY)
    prompts = [model.program.prompt(each) for each in samples.data()]
    assert any(prompt.stop for prompt in prompts) is (workload == "mixtral-8x7b")
    reference = answers(network.trained(Path(model.files)), prompts, model.program.decoding)
    backend = Endpoint().in_folder(tmp_path).with_options(EndpointOptions(start=START, connections=MANY))
    reply = RecordingReply()
    with backend.engine(model, EnginePlan()) as engine:
        engine.submit(samples, reply)
        assert reply.wait(samples, PATIENCE_S)
        counts = engine.statistics()
    assert not reply.failures
    assert [reply.answers[id_][0].tolist() for id_ in samples.ids] == [
        model.program.answer(each).tolist() for each in reference
    ]
    assert set(reply.first_tokens) == set(samples.ids)  # each was reported before the answer
    names = ("answered", "prompts_cut_otherwise", "answers_cut_otherwise")
    assert [counts.extra[name] for name in names] == [MANY, 0, 0]
    assert counts.truncated_prompts == 0
    assert counts.extra["server_versions"]["server"]
    assert "EngineCore" in (tmp_path / LOG_NAME).read_text()


class Continued:
    """Samples of a dataset whose prompts go on with these tokens, by index."""

    def __init__(self, dataset, more):
        self._dataset, self._more = dataset, more

    def sample(self, index):
        found = self._dataset.sample(index)
        return replace(found, tokens=np.concatenate([found.tokens, self._more[index]]).astype(found.tokens.dtype))


def test_where_the_end_comes_at_once_a_vllm_server_answers_the_token_that_generate_does(tmp_path):
    """It is asked for one token at least (``min_tokens``), and prompts go on to where the model would end."""
    model, samples = opened("llama2-70b", MANY)
    program, network = model.program, LLAMA.trained(Path(model.files))
    ends = program.decoding.end_tokens
    whole = answers(network, [program.prompt(each) for each in samples.data()], program.decoding)
    more = {index: each[:-1] for index, each in zip(samples.indices, whole, strict=True) if each[-1] in ends}
    some = Samples(list(range(len(more))), [*more], Continued(samples.dataset, more))
    prompts = [program.prompt(each) for each in some.data()]
    at_once = answers(network, prompts, replace(program.decoding, min_new_tokens=0))
    assert len(at_once) > 10 and all(each[0] in ends for each in at_once)
    reference = answers(network, prompts, program.decoding)
    backend = Endpoint().in_folder(tmp_path).with_options(EndpointOptions(start=START, connections=MANY))
    reply = RecordingReply()
    with backend.engine(model, EnginePlan()) as engine:
        engine.submit(some, reply)
        assert reply.wait(some, PATIENCE_S)
    assert not reply.failures
    assert [reply.answers[id_][0].tolist() for id_ in some.ids] == [program.answer(each).tolist() for each in reference]
