"""Real networks on the PyTorch backend: token for token what Hugging Face's `generate` answers, however batched."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from mlbench import PREFILL, Decoding, EnginePlan, Model, Prompt, Samples
from mlbench.execution.engine_choice import engine_of

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mlbench_pytorch.backend import PyTorch  # noqa: E402
from mlbench_recipes.language_reference import answers  # noqa: E402

from mlbench.toolkit import TorchOptions  # noqa: E402
from mlbench.toolkit.language import TokenProgram  # noqa: E402

DATA = Path(__file__).parents[2] / "data"
WORKLOADS = ["gptj", "llama2_70b", "mixtral_8x7b"]
pytestmark = pytest.mark.usefixtures("one_torch_thread")


class Prompts:
    def __init__(self, prompts):
        self.prompts = prompts

    def sample(self, index):
        return self.prompts[index]


def engine(graphs, program, **plan):
    model = Model(name="tiny", graphs=graphs, program=program, weights_fingerprint="none")
    backend = PyTorch().with_options(TorchOptions(device="cpu", threads=1))
    return engine_of(backend, model, EnginePlan(batching="in_flight", **plan))


def answered(running, dataset, indices, kept):
    """Return the answers to samples that come in this order, in queries of one to ten."""
    reply, position = kept(len(indices)), 0
    while position < len(indices):
        size = 1 + position % 10
        part = indices[position : position + size]
        running.submit(Samples(part, part, dataset), reply)
        position += size
    running.flush()
    reply.wait(300)
    assert not reply.failures
    return reply.answers


def golden(workload, name):
    return json.loads((DATA / workload / "tiny_generate" / f"{name}.json").read_text())


@pytest.mark.thorough("workloads", but=["gptj"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_tiny_models_answer_as_the_official_references_settings_make_them(workload, kept):
    expected, prompts = golden(workload, "expected"), golden(workload, "prompts")
    settings = expected["generation"]
    decoding = Decoding(
        end_tokens=(expected["eos_token_id"],),
        max_new_tokens=settings["max_new_tokens"],
        min_new_tokens=settings["min_new_tokens"],
        beams=settings.get("num_beams", 1),
        longest=256,
    )
    folder = DATA / workload / "tiny_generate"
    network = importlib.import_module(f"mlbench_{workload}.graphs").NETWORK
    graphs = network.build_graphs(folder, decoding, fingerprint="golden")
    dataset = Prompts([Prompt(tokens=np.array(tokens)) for tokens in prompts])
    with engine(graphs, TokenProgram(decoding), batch=3, prefill_tokens=24) as running:
        found = answered(running, dataset, [2, 0, 3, 1], kept)
    assert [found[index] for index in range(4)] == expected["new_token_ids"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        ("llama2_70b", {"beams": 2, "max_new_tokens": 12, "min_new_tokens": 0, "end_tokens": (7, 9)}),
        pytest.param(
            "gptj",
            {"beams": 4, "max_new_tokens": 24, "min_new_tokens": 3, "end_tokens": (5,)},
            marks=pytest.mark.thorough("engines"),
        ),
        pytest.param(
            "mixtral_8x7b",
            {"beams": 3, "max_new_tokens": 20, "min_new_tokens": 0, "end_tokens": (5, 6, 11)},
            marks=pytest.mark.thorough("engines"),
        ),
        pytest.param(
            "llama2_70b",
            {"beams": 1, "max_new_tokens": 30, "min_new_tokens": 4, "end_tokens": (7, 8, 9)},
            marks=pytest.mark.thorough("engines"),
        ),
        pytest.param(
            "mixtral_8x7b",
            {"beams": 1, "max_new_tokens": 30, "min_new_tokens": 1, "end_tokens": (5,), "stop": (40, 3)},
            marks=pytest.mark.thorough("engines"),
        ),
    ],
)
def test_random_networks_answer_random_prompts_as_generate_does(workload, settings, random_prompts, kept):
    stop = settings.pop("stop", ())
    decoding = Decoding(longest=128, **settings)
    config = {**golden(workload, "config"), "vocab_size": 48, "initializer_range": 0.6}
    graphs = importlib.import_module(f"mlbench_{workload}.graphs").NETWORK.random_graphs(config, decoding)
    prompts = random_prompts(30, seed=3, stop=stop)
    network = graphs[PREFILL].module().network
    with torch.inference_mode():
        network.get_output_embeddings().weight[list(decoding.end_tokens)] *= 1.5  # so that answers end
    program = TokenProgram(decoding)
    # one at a time, as the official reference calls it
    expected = [program.answer(*answers(network, [prompt], decoding)).tolist() for prompt in prompts]
    assert len({len(answer) for answer in expected}) > 4
    shared = {name: Shared(graph, network) for name, graph in graphs.items()}
    order = np.random.default_rng(5).permutation(30).tolist()
    for batch in (1, 7):
        with engine(shared, program, batch=batch, prefill_tokens=48) as running:
            found = answered(running, Prompts(prompts), order, kept)
        assert [found[index] for index in range(30)] == expected


class Shared:
    """A graph whose module has this network."""

    def __init__(self, graph, network):
        self._graph = graph
        self._network = network

    def __getattr__(self, name):
        return getattr(self._graph, name)

    def module(self):
        module = self._graph.module()
        module.network = self._network
        return module
