"""The mini profiles of the language workloads: what they ship, what they reach, and which faults show.

Hugging Face's `generate` answers every sample of a profile once; scores and engines are held against these answers.
"""

import dataclasses
import importlib
import json
import shutil
from functools import cached_property

import numpy as np
import pytest
import torch
from mlbench_recipes.language_reference import answers

from mlbench import DECODE, DataError, EnginePlan, LoggedReply, Profile, Samples, Variant, Weights
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.execution.export.compile_cache import build_once
from mlbench.rules.early_stopping import queries_needed
from mlbench.rules.own import rules_of, usual_round
from mlbench.settings.layers import RunConditions, resolve_settings


class Mini:
    """A shipped mini profile."""

    def __init__(self, package):
        graphs, module = (importlib.import_module(f"{package}.{name}") for name in ("graphs", "mini_profile"))
        self.package = package
        self.read, self.data_file = module.MiniProfile.read, module.DATA
        self.profile = module.MiniProfile.shipped()
        self.workload, *_ = importlib.import_module(package).mlbench_workloads()
        self.rules = rules_of(self.workload, usual_round(self.workload))
        self.variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=self.workload.options)
        self.data = self.workload.dataset(self.variant)
        self.data.load(range(self.data.count))
        self.prompts = [self.data.sample(index) for index in range(self.data.count)]
        self.load_network = lambda: graphs.NETWORK.trained(self.profile.folder)

    @cached_property
    def answers(self):
        """What `generate` answers to each sample; asked once for all processes of the tests, whose cache this is."""

        def ask(folder):
            found = answers(self.load_network(), self.prompts, self.profile.program.decoding)
            (folder / "answers.json").write_text(json.dumps(found))

        return json.loads((build_once("generate", self.package, ask) / "answers.json").read_text())

    def scores(self, answers):
        """Return the official scores of answers by sample."""
        program, metric = self.profile.program, self.workload.metric(self.variant, self.data)
        logged = {index: program.answer(tokens).tobytes() for index, tokens in answers.items()}
        return metric.score([LoggedReply(index=index, data=data) for index, data in logged.items()])

    def missed(self, answers):
        """Return the scores of some samples that miss a required target, were their right answers the reference."""
        found, right = self.scores(answers), self.scores({index: self.answers[index] for index in answers})
        required = [target for target in self.profile.targets(self.rules) if target.required]
        ratios = {target.score: found[target.score] / right[target.score] for target in required}
        return {target.score for target in required if not target.is_met_by(ratios[target.score] * target.reference)}


@pytest.fixture(scope="module", params=["gptj", "llama2_70b", "llama3_1_8b", "mixtral_8x7b"])
def mini(request):
    return Mini(f"mlbench_{request.param}")


@pytest.mark.thorough("workloads")
def test_the_shipped_network_reaches_the_reference_that_the_recipe_measured(mini):
    scores, reference = mini.scores(dict(enumerate(mini.answers))), dict(mini.profile.reference)
    assert {name: scores[name] for name in reference} == pytest.approx(reference, rel=1e-3)
    assert all(target.is_met_by(scores[target.score]) for target in mini.profile.targets(mini.rules) if target.required)


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_every_sample_is_answered_as_generate_does_however_it_arrives_and_whatever_runs_beside_it(mini, backend):
    backend = Plugins.discover().backend(backend)
    backend = backend.with_options(dataclasses.replace(backend.options, threads=1))
    random, model = np.random.default_rng(1), mini.workload.model(mini.variant)
    for batch, prefill_tokens, count in ((16, 512, mini.data.count), (5, 64, 32)):
        indices, reply = random.permutation(mini.data.count)[:count].tolist(), RecordingReply()
        samples, sent = Samples(indices, indices, mini.data), 0
        with engine_of(backend, model, EnginePlan(batch=batch, prefill_tokens=prefill_tokens)) as engine:
            while sent < len(samples):
                size = 1 + sent % 10
                engine.submit(samples[sent : sent + size], reply)
                sent += size
            engine.flush()
            assert reply.wait(samples, patience_s=60)
        assert not reply.failures
        found = {index: answer.tolist() for index, (answer,) in reply.answers.items()}
        expected = {index: mini.profile.program.answer(mini.answers[index]).tolist() for index in indices}
        assert not [index for index in indices if found[index] != expected[index]]


def freeze_positions(network):
    """Let every new token stand where the prompt's last token stood."""
    last = {}

    def hook(_, args, inputs):
        positions = inputs["position_ids"]
        if inputs["input_ids"].shape[1] > 1:
            last["positions"] = positions[:, -1:]
            return args, inputs
        return args, inputs | {"position_ids": last["positions"]}

    network.register_forward_pre_hook(hook, with_kwargs=True)


def shift_positions(network):
    """Let every new token stand one further than it does; no score need show it, but answers do."""

    def hook(_, args, inputs):
        offset = int(inputs["input_ids"].shape[1] == 1)
        return args, inputs | {"position_ids": inputs["position_ids"] + offset}

    network.register_forward_pre_hook(hook, with_kwargs=True)


def add_noise(network):
    """Add to each weight a random number, a third as large as its tensor's weights usually are."""
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        for weight in network.parameters():
            weight.add_(weight.std(correction=0) / 3 * torch.randn(weight.shape, generator=generator))


@pytest.fixture
def part(mini):
    """Some samples."""
    return range(0, mini.data.count, 6)


def answers_of_part(mini, part, *, break_network=lambda network: None, **decoding):
    network = mini.load_network()
    break_network(network)
    decoding = dataclasses.replace(mini.profile.program.decoding, **decoding)
    return dict(zip(part, answers(network, [mini.prompts[index] for index in part], decoding), strict=True))


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize(
    "fault", [{"break_network": freeze_positions}, {"break_network": add_noise}, {"end_tokens": (0,)}]
)
def test_a_broken_network_or_loop_misses_a_target(mini, part, fault):
    assert mini.missed(answers_of_part(mini, part, **fault))


@pytest.mark.thorough("workloads")
def test_positions_off_by_one_change_answers(mini):
    part = range(1, mini.data.count, 3)
    found = answers_of_part(mini, part, break_network=shift_positions)
    assert [index for index in part if found[index] != mini.answers[index]]


@pytest.mark.thorough("workloads")
def test_answers_that_are_cut_or_hold_their_prompts_miss_a_target(mini, part):
    assert mini.missed({index: mini.answers[index][:-4] for index in part})
    assert mini.missed({index: [*mini.prompts[index].tokens, *mini.answers[index]] for index in part})


def test_random_weights_have_the_sizes_of_the_shipped_ones(mini):
    trained, random = (mini.profile.graphs(weights) for weights in (Weights.TRAINED, Weights.RANDOM))
    assert {name: graph.state for name, graph in trained.items()} == {
        name: graph.state for name, graph in random.items()
    }
    assert trained[DECODE].fingerprint != random[DECODE].fingerprint


def test_the_longest_prompt_and_answer_fit_the_positions(mini):
    decoding = mini.profile.program.decoding
    assert max(len(prompt.tokens) for prompt in mini.prompts) + decoding.max_new_tokens <= decoding.longest


def test_a_server_run_asks_no_more_queries_than_early_stopping_needs(mini):
    plugins = Plugins.discover()
    run_conditions = RunConditions(
        workload=mini.workload,
        backend=plugins.backend("null"),
        scenario=plugins.scenario("Server"),
        profile=Profile.MINI,
        tier="smoke",
        precision="fp32",
    )
    assert resolve_settings(run_conditions).by_key["load.min_query_count"].value == queries_needed(0, 0.99) == 459


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "data"])
def test_a_changed_byte_in_a_shipped_file_is_noticed(mini, tmp_path, name):
    name = mini.data_file if name == "data" else name
    folder = shutil.copytree(mini.profile.folder, tmp_path / "mini")
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    profile = mini.read(folder)
    with pytest.raises(DataError, match=f"corrupt or another version: .*{name}"):
        profile.dataset()
        profile.tokenizer()
        profile.graphs(Weights.TRAINED)[DECODE].module()


def test_a_missing_shipped_file_is_named(mini, tmp_path):
    folder = shutil.copytree(mini.profile.folder, tmp_path / "mini")
    (folder / mini.data_file).unlink()
    with pytest.raises(DataError, match=rf"not found: .*{mini.data_file}.* Install mlbench again"):
        mini.read(folder).dataset()
