"""A user's own language model behind `transformers serve`, whose prompts are text."""

import json

import pytest
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions
from mlbench_own_model import LanguageModelOptions, OwnLanguageModel

from mlbench import EnginePlan, LoggedReply, Profile, Samples, Variant, Weights
from mlbench.conformance.recording import RecordingReply

real_server = pytest.importorskip("test_real_server", reason="transformers serve needs transformers[serving]")


@pytest.mark.thorough("servers")
def test_the_users_prompts_reach_a_server_of_text_as_they_are_and_are_answered_as_generate_does(tmp_path):
    workload, folder, file = OwnLanguageModel("mine"), real_server.MINI, tmp_path / "prompts.jsonl"
    asked = [{"prompt": f"[INST] What is {number} plus 6? [/INST]"} for number in range(8)]
    file.write_text("\n".join(map(json.dumps, asked)))
    options = LanguageModelOptions(model=folder, inputs=file, dims="answer=24")
    variant = Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=options)
    data, model = workload.dataset(variant), workload.model(variant)
    indices, reply = list(range(data.count)), RecordingReply()
    samples = Samples(indices, indices, data)
    with real_server.serving(tmp_path, 1) as servers:
        backend = Endpoint().with_options(EndpointOptions(**real_server.settings(servers)))
        with backend.engine(model, EnginePlan()) as engine:
            engine.submit(samples, reply)
            assert reply.wait(samples, 120)
            counts = engine.statistics()
    assert not reply.failures
    assert counts.extra["prompts_cut_otherwise"] == 0
    logged = [LoggedReply(index=index, data=reply.answers[index][0].tobytes()) for index in indices]
    assert workload.metric(variant, data).score(logged)["tokens_agree"] == 100
