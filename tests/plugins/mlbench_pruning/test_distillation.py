"""A pruned model that was distilled answers more as the untouched one does, the same each time, and runs say so."""

import logging
import re

import pytest

torch = pytest.importorskip("torch")

from mlbench_pruning import distillation  # noqa: E402
from mlbench_pruning.layers import PruneLayers, PruneLayersOptions  # noqa: E402

from mlbench import DECODE, PREFILL, Calibration, Precision, UsageError  # noqa: E402
from mlbench.conformance.preparation import mini_variant  # noqa: E402
from mlbench.discovery import Plugins  # noqa: E402
from mlbench.settings.transforms import choose_transforms  # noqa: E402
from mlbench.toolkit.language import plain_copy, write_texts  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def few_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(distillation, "_TEXTS", 32)


def mini(name):
    workload = Plugins.discover().workload(name)
    return workload.model(mini_variant(workload, {}))


def pruned(model, steps):
    return PruneLayers().with_options(PruneLayersOptions(share=0.34, steps=steps)).apply(model, Calibration(model))


def weights(graph):
    return graph.module().network.state_dict()


@pytest.mark.thorough("workloads", but=["llama2-70b"])
@pytest.mark.parametrize("name", ["llama2-70b", "gptj"])
def test_a_distilled_model_is_nearer_to_the_untouched_one_and_the_log_says_how_much(name, caplog):
    model = mini(name)
    with caplog.at_level(logging.INFO):
        networks = [plain_copy(pruned(model, steps).graphs[PREFILL].module().network) for steps in (0, 15)]
    teacher = plain_copy(model.graphs[PREFILL].module().network)
    texts = write_texts(teacher, 48)[32:]  # none of those that it learned from
    with torch.no_grad():
        before, after = (float(distillation._divergence(teacher, each, texts)) for each in networks)
    assert after < 0.7 * before
    first, last = re.search(r"distilled for 15 steps: the loss fell from (\S+) to (\S+)", caplog.text).groups()
    assert float(last) < float(first)


def test_weights_are_the_same_each_time_and_in_both_graphs(tmp_path, monkeypatch):
    distilled = pruned(mini("llama2-70b"), 2)
    assert distilled.changes == ("1 of 3 layers left out, distilled for 2 steps: 1 (counted from 0)",)
    prefill = distilled.graphs[PREFILL].module()
    decode = distilled.graphs[DECODE].module()
    assert decode.network is prefill.network
    kept = weights(pruned(mini("llama2-70b"), 2).graphs[DECODE])
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "another"))
    made_anew = weights(pruned(mini("llama2-70b"), 2).graphs[DECODE])
    whole = weights(pruned(mini("llama2-70b"), 0).graphs[DECODE])
    for name, tensor in prefill.network.state_dict().items():
        assert torch.equal(tensor, kept[name])
        assert torch.equal(tensor, made_anew[name])
    assert any(not torch.equal(kept[name], whole[name]) for name in whole)


def test_a_lower_precision_gets_the_distilled_weights():
    graph = pruned(mini("llama2-70b"), 2).graphs[DECODE]
    low = graph.module_at(Precision.BF16).network.get_output_embeddings().weight
    assert low.dtype == torch.bfloat16
    assert torch.equal(low, graph.module().network.get_output_embeddings().weight.bfloat16())


@pytest.mark.parametrize("typed", ["prune-layers:0.34:-1", "prune-layers:0.34:1.5", "prune-layers:0.34:many"])
def test_steps_that_are_no_count_are_refused(plugins, typed):
    with pytest.raises(UsageError, match=r"It is prune-layers:SHARE:STEPS, by default prune-layers:0\.25:0") as caught:
        choose_transforms(typed, plugins)
    assert "\n" not in str(caught.value)
