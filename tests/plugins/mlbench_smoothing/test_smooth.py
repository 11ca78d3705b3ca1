"""Outliers move from activations to weights where linear layers alone read a norm, and answers stay as they were."""

import pytest

torch = pytest.importorskip("torch")

from mlbench_smoothing.readers import Readers  # noqa: E402
from mlbench_smoothing.smooth import Smooth, SmoothOptions  # noqa: E402

from mlbench import DECODE, PREFILL, Calibration, Precision, UsageError  # noqa: E402
from mlbench.conformance.preparation import mini_variant  # noqa: E402
from mlbench.conformance.transform_checks import changes_answers_as_it_says  # noqa: E402
from mlbench.conformance.transform_kit import TransformCheckRequest  # noqa: E402
from mlbench.discovery import Plugins  # noqa: E402
from mlbench.planning.requests import combinations  # noqa: E402
from mlbench.rules.entry_demand import Division  # noqa: E402
from mlbench.toolkit.language import plain_copy, write_texts  # noqa: E402

ATTENTION = {f"attn.{name}_proj" for name in "qkv"} | {"mlp.fc_in"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))


def smoothed(name, **options):
    workload = Plugins.discover().workload(name)
    model = workload.model(mini_variant(workload, {}))
    return model, Smooth().with_options(SmoothOptions(**options)).apply(model, Calibration(model))


class Odd(torch.nn.Module):
    """Norms whose outputs are read in all ways but one by more than linear layers of their own."""

    def __init__(self):
        super().__init__()
        for name in ("good", "residual", "viewed", "returned", "changed", "one", "other", "tied"):
            self.add_module(name, torch.nn.LayerNorm(4))
        for number in range(8):
            self.add_module(f"linear{number}", torch.nn.Linear(4, 4))
        self.embedding = torch.nn.Embedding(4, 4)
        self.linear7.weight = self.embedding.weight

    def forward(self, x):
        y = self.good(x).float()
        assert y.shape[-1] == 4  # asking for a shape reads no numbers
        total = self.linear0(y) * self.linear1(y)
        y = self.residual(x)
        total = total + y + self.linear2(y)
        y = self.viewed(x)
        total = total + self.linear3(y) + y[:, :1]
        y = self.changed(x)
        total = total + self.linear4(y)
        y.mul_(2)
        total = total + self.linear5(self.one(x)) + self.linear5(self.other(x)) + self.linear7(self.tied(x))
        y = self.returned(x)
        return total + self.linear6(y), y


def test_a_norm_with_a_reader_other_than_its_own_linear_layers_is_left_as_it_is():
    network = Odd()
    readers = Readers(network)
    x = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0))
    readers.watch(network, [(x,), (3 * x,)])
    ((norm, (linear, largest)),) = readers.pairs().items()
    assert (norm, linear) == ("good", ["linear0", "linear1"])
    outputs = torch.stack([network.good(x), network.good(3 * x)])
    torch.testing.assert_close(largest, outputs.abs().flatten(0, -2).amax(0))


def test_a_scale_is_the_papers_by_hand():
    weights = [torch.tensor([[1.0, -4.0, 2.0]]), torch.tensor([[-0.25, 1.0, 2.0]])]
    largest = torch.tensor([16.0, 9.0, 0.0])
    found = Smooth().with_options(SmoothOptions(strength=0.5))._scale(largest, weights)
    assert found.tolist() == [4.0, 1.5, 1.0]
    found = Smooth().with_options(SmoothOptions(strength=1.0))._scale(largest, weights)
    assert found.tolist() == [16.0, 9.0, 1.0]


@pytest.mark.slow
def test_two_graphs_that_share_a_network_have_it_smoothed_once():
    before = smoothed("gptj", texts=4)[0].graphs[DECODE].module().network
    _, smooth = smoothed("gptj", texts=4)
    first, second = smooth.graphs[PREFILL].module(), smooth.graphs[DECODE].module()
    assert first.network is second.network
    changed = {
        name
        for (name, old), new in zip(before.named_parameters(), first.network.parameters(), strict=True)
        if not torch.equal(old, new)
    }
    layers = range(3)
    norms = {f"transformer.h.{layer}.ln_1.{part}" for layer in layers for part in ("weight", "bias")}
    assert changed == norms | {f"transformer.h.{layer}.{name}.weight" for layer in layers for name in ATTENTION}
    again = smooth.graphs[DECODE].module().network  # another one, by the scales in the cache
    assert all(map(torch.equal, first.network.parameters(), again.parameters()))
    tokens = torch.arange(40)[None]
    with torch.no_grad():
        torch.testing.assert_close(first.network(tokens).logits, before(tokens).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_the_whole_strength_leaves_no_channel_larger_than_others():
    model, smooth = smoothed("llama2-70b", texts=4, strength=1.0)
    texts = write_texts(plain_copy(model.graphs[DECODE].module().network), 4)
    network = plain_copy(smooth.graphs[DECODE].module().network)
    readers = Readers(network)
    readers.watch(network.base_model, [(torch.tensor([text]),) for text in texts])
    assert len(readers.pairs()) == 6  # two a layer; the last norm has no reader before the logits
    for _, largest in readers.pairs().values():
        torch.testing.assert_close(largest, torch.ones_like(largest), atol=1e-3, rtol=0)


@pytest.mark.slow
def test_weights_in_a_lower_precision_are_smoothed_by_the_scales_of_the_network_in_fp32():
    _, smooth = smoothed("llama2-70b", texts=4)
    low = smooth.graphs[DECODE].module_at(Precision.BF16).network.base_model.layers[0].self_attn.q_proj.weight
    full = smooth.graphs[DECODE].module().network.base_model.layers[0].self_attn.q_proj.weight
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), full, rtol=1e-2, atol=0)


@pytest.mark.slow
def test_of_bert_the_last_norm_alone_is_smoothed():
    model, smooth = smoothed("bert")
    before, after = (each.graphs["reader"].module() for each in (model, smooth))
    changed = [
        name.removeprefix("network.")
        for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True)
        if not torch.equal(old, new)
    ]
    last = "bert.encoder.layer.2.output.LayerNorm"
    assert changed == [f"{last}.weight", f"{last}.bias", "qa_outputs.weight"]


@pytest.mark.slow
@pytest.mark.thorough("workloads", but=["smooth"])
@pytest.mark.parametrize("text", ["smooth", "smooth:0.5:8"])
def test_answers_stay_those_of_the_untouched_model(text):
    changes_answers_as_it_says(TransformCheckRequest(transform=text).subject())


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gptj", {}, "gptj has no calibration list. Let it write some: smooth:0.5:128"),
        ("bert", {"texts": 8}, "bert writes no texts"),
    ],
)
def test_a_model_without_the_data_that_is_asked_for_is_refused(name, options, words):
    with pytest.raises(UsageError, match=words):
        smoothed(name, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "has_list", "words"),
    [("resnet50", True, "linear layers alone read the output of no norm in graph"), ("bert", False, "has none")],
)
def test_a_model_without_such_a_norm_or_list_is_refused_when_it_loads(name, has_list, words, monkeypatch):
    model, smooth = smoothed(name)
    (graph,) = model.graphs.values()
    if not has_list:
        monkeypatch.setattr(graph, "_calibrate", lambda: iter(()))
    with pytest.raises(UsageError, match=words):
        smooth.graphs[graph.name].module()


@pytest.mark.slow
def test_graphs_that_stay_in_floating_point_are_left_as_they_are():
    model, smooth = smoothed("stable-diffusion-xl")
    assert {name for name, graph in smooth.graphs.items() if graph is not model.graphs[name]} == {"unet"}
    changed = smooth.graphs["unet"].module().state_dict()  # its list is computed by torch, and not watched
    before = model.graphs["unet"].module().state_dict()
    assert any("norm1" in name for name in before if not torch.equal(changed[name], before[name]))


def test_ranges_of_the_official_list_stay_in_the_closed_division(plugins):
    def division(workload, transform):
        (request,) = combinations(plugins, [workload], ["onnxruntime"], ["Offline"], transform=transform)
        return request.entry.division

    assert division("bert", "smooth") is not Division.OPEN
    assert division("gptj", "smooth:0.5:128") is Division.OPEN


@pytest.mark.slow
def test_another_list_of_the_same_model_gives_scales_of_its_own(monkeypatch):
    model, smooth = smoothed("bert")
    (graph,) = model.graphs.values()
    inputs, of_all = [*graph.calibration()], smooth.graphs[graph.name].module().state_dict()
    monkeypatch.setattr(graph, "_calibrate", lambda: iter(inputs[-1:]))
    other = smooth.graphs[graph.name].module().state_dict()
    assert not all(map(torch.equal, of_all.values(), other.values()))
