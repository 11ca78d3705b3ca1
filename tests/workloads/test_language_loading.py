"""The network of a language workload, read in the precision it runs in: the same as one read whole and lowered then."""

import importlib

import pytest
import torch

from mlbench import Precision
from mlbench.toolkit import ModuleGraph
from mlbench.toolkit.language import LanguageNetwork
from mlbench.toolkit.torch_backend.executable import place_module
from mlbench.toolkit.torch_backend.options import TorchOptions

pytestmark = pytest.mark.slow

DTYPES = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


def tensors(module):
    return dict(module.named_parameters()) | dict(module.named_buffers())


@pytest.fixture(params=["gptj", "llama2_70b", "llama3_1_8b", "mixtral_8x7b"])
def graphs(request):
    """Return the two graphs of a workload's mini profile."""
    package = importlib.import_module(f"mlbench_{request.param}.mini_profile")
    return package.MiniProfile.shipped().graphs("trained")


@pytest.mark.parametrize("precision", DTYPES)
def test_every_tensor_is_the_one_that_lowering_the_whole_network_gives(graphs, precision):
    lowered = graphs["decode"].module()
    place_module(lowered, graphs["decode"], torch.device("cpu"), DTYPES[precision], TorchOptions())
    wanted, found = tensors(lowered), tensors(graphs["decode"].module_at(precision))
    assert found.keys() == wanted.keys()
    assert {each.dtype for each in found.values()} == {torch.float32, DTYPES[precision]}
    for name, tensor in wanted.items():
        assert torch.equal(found[name].float(), tensor.float()), name
    other = {name for name, tensor in wanted.items() if found[name].dtype != tensor.dtype}
    assert other <= {"network.model.embed_tokens.weight", "network.transformer.wte.weight"}


@pytest.mark.parametrize("precision", DTYPES)
def test_embeddings_that_are_stored_in_the_precision_stay_in_it_and_return_fp32(graphs, precision):
    """The shipped weights are stored in fp16."""
    whole, found = graphs["decode"].module(), graphs["decode"].module_at(precision)
    pairs = [
        (each, other)
        for each, other in zip(whole.modules(), found.modules(), strict=True)
        if isinstance(each, torch.nn.Embedding)
    ]
    assert pairs
    for each, other in pairs:
        assert other.weight.dtype == (torch.float16 if precision is Precision.FP16 else torch.float32)
        tokens = torch.arange(each.num_embeddings)
        assert torch.equal(other(tokens), each(tokens))


def test_the_graphs_share_one_network_in_each_precision_and_none_between_them(graphs):
    made = {(name, at): graphs[name].module_at(at) for name in graphs for at in (Precision.FP32, Precision.BF16)}
    places = {key: {each.data_ptr() for each in module.parameters()} for key, module in made.items()}
    assert places["prefill", Precision.FP32] == places["decode", Precision.FP32]
    assert places["prefill", Precision.BF16] == places["decode", Precision.BF16]
    assert not places["prefill", Precision.FP32] & places["prefill", Precision.BF16]


def test_what_stands_in_the_place_of_the_module_is_used_in_every_precision(graphs):
    graph, other = graphs["decode"], torch.nn.Identity()
    graph.module = lambda: other
    assert graph.module_at(Precision.FP32) is graph.module_at(Precision.BF16) is other


class Doubled(ModuleGraph):
    """Another computation than the one that it was made of."""

    def module(self):
        return torch.nn.Linear(1, 1)


def test_a_graph_that_computes_something_else_does_so_in_every_precision():
    graph = Doubled("g", inputs=(), outputs=(), build=torch.nn.Identity, build_at=lambda _: 1, fingerprint="f")
    assert isinstance(graph.module_at(Precision.BF16), torch.nn.Linear)


def test_an_eight_bit_precision_is_read_as_fp32(graphs):
    module = graphs["decode"].module_at(Precision.INT8)
    assert {each.dtype for each in module.parameters()} == {torch.float32}


def test_weights_under_names_that_transformers_has_changed_since_are_read_in_every_precision(tmp_path):
    """transformers writes the head of GPT-NeoX under its old name."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    GPTNeoXForCausalLM(config).save_pretrained(tmp_path)
    network = LanguageNetwork(kind="GPTNeoXForCausalLM", model_type="gpt_neox")
    whole, lowered = (network.trained(tmp_path, precision) for precision in (Precision.FP32, Precision.BF16))
    for one, other in zip(whole.parameters(), lowered.parameters(), strict=True):
        assert torch.equal(one.to(other.dtype), other)
