"""Every graph of the workloads can be counted, with whatever operators the installed torch computes it."""

import pytest

from mlbench import DECODE, Dim, GraphCalls, Profile, Variant, Weights
from mlbench.discovery import Plugins

pytest.importorskip("torch")

from mlbench.roofline.operations import OperationCounter

WORKLOADS = (
    "resnet50 retinanet 3d-unet bert dlrm-v2 gptj llama2-70b llama3.1-8b mixtral-8x7b stable-diffusion-xl".split()
)


def mini_graphs(workload):
    plugin = Plugins.discover().workload(workload)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=plugin.options)
    return plugin.model(variant).graphs


def operations(graph, **sizes):
    """Count a call whose dimensions have their usual sizes, or those given by name."""

    def size(dim):
        return sizes.get(dim.name, dim.usual) if isinstance(dim, Dim) else dim

    call = GraphCalls(
        graph=graph.name,
        shapes={spec.name: tuple(map(size, spec.shape)) for spec in graph.inputs},
        state_sizes={dim.name: size(dim) for spec in graph.state for dim in spec.shape if isinstance(dim, Dim)},
        count=1,
    )
    return OperationCounter(graph).cost(call).operations


@pytest.mark.thorough("workloads", but=["resnet50", "bert", "dlrm-v2"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_operations_of_each_graph_are_counted(workload):
    for graph in mini_graphs(workload).values():
        assert operations(graph) > 0, graph.name


def test_a_token_of_mixtral_is_multiplied_with_the_two_experts_that_it_chooses():
    """One token that looks at 16: width 128, 4 heads of 32 over 2 of keys and values, experts 96 wide, 3 layers."""
    projections = 2 * (128 * 128 + 2 * 128 * 64 + 128 * 128)  # queries, keys and values, output
    attention = 2 * (4 * 16 * 32) * 2  # scores and weighted sums
    router, experts = 2 * 128 * 8, 2 * (3 * 2 * 128 * 96)
    vocabulary = 2 * 128 * 768
    angles = 2 * 16  # of the position; some versions of transformers take a product of matrices for it
    counted = operations(mini_graphs("mixtral-8x7b")[DECODE], rows=1, span=16)
    assert counted - 3 * (projections + attention + router + experts) - vocabulary in (0, angles)
