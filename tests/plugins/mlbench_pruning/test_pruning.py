"""Layers and weights that are left out are the ones that were asked for, and runs say so."""

from dataclasses import replace

import pytest
from invoking import invoke

torch = pytest.importorskip("torch")

from mlbench_pruning.layers import PruneLayers, PruneLayersOptions  # noqa: E402
from mlbench_pruning.sparsity import Sparse, SparseOptions, _zero_smallest  # noqa: E402

import mlbench  # noqa: E402
from mlbench import DECODE, PREFILL, Calibration, UsageError  # noqa: E402
from mlbench.conformance.preparation import mini_variant  # noqa: E402
from mlbench.discovery import Plugins  # noqa: E402

QUICK = {"load.min_duration_ms": 50, "backend.compile": False, "execution.batch": 8}


def mini(name):
    workload = Plugins.discover().workload(name)
    return workload.model(mini_variant(workload, {}))


def pruned(name, share):
    model = mini(name)
    return PruneLayers().with_options(PruneLayersOptions(share=share)).apply(model, Calibration(model))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gptj", "llama2-70b"])
def test_layers_before_the_last_one_are_left_out_of_network_and_cache(name):
    model, fewer = mini(name), pruned(name, 0.34)
    assert fewer.changes == ("1 of 3 layers left out, without distillation: 1 (counted from 0)",)
    names = [spec.name for spec in fewer.graphs[DECODE].state]
    assert names == ["keys.0", "values.0", "keys.1", "values.1"]
    whole, part = model.graphs[DECODE].module(), fewer.graphs[DECODE].module()
    stack = "h" if name == "gptj" else "layers"
    theirs, ours = (getattr(each.network.base_model, stack) for each in (whole, part))
    assert (len(theirs), len(ours)) == (3, 2)
    for mine, other in ((ours[0], theirs[0]), (ours[1], theirs[2])):
        assert all(torch.equal(a, b) for a, b in zip(mine.parameters(), other.parameters(), strict=True))
    found = {part.layer_idx for part in ours[1].modules() if hasattr(part, "layer_idx")}
    assert found == {1}


@pytest.mark.slow
def test_a_network_that_two_graphs_share_is_pruned_once():
    graphs = pruned("gptj", 0.34).graphs
    first, second = graphs[PREFILL].module(), graphs[DECODE].module()
    assert first.network is second.network
    assert len(first.network.base_model.h) == 2
    assert len(graphs[DECODE].module().network.base_model.h) == 2  # another network, made anew


@pytest.mark.parametrize(("share", "words"), [(0.1, "leaves out 0 of 3 layers"), (0.9, "leaves out 3 of 3 layers")])
def test_a_share_that_leaves_out_none_or_all_is_refused(share, words):
    with pytest.raises(UsageError, match=words):
        pruned("gptj", share)


def test_models_without_layers_of_keys_and_values_are_refused():
    with pytest.raises(UsageError, match="prune-layers takes language models, and bert is none"):
        pruned("bert", 0.5)


def test_the_largest_of_each_few_weights_stay():
    weight = torch.tensor([[1.0, -4.0, 3.0, 2.0, 5.0, 5.0, -5.0, 0.0]])
    _zero_smallest(weight, 2, 4)
    assert weight.tolist() == [[0.0, -4.0, 3.0, 0.0, 5.0, 5.0, 0.0, 0.0]]


@pytest.mark.thorough("workloads", but=["2-4-0.5"])
@pytest.mark.parametrize(("kept", "of", "zeros"), [(2, 4, 0.5), (1, 4, 0.75)])
def test_linear_layers_have_that_share_of_zeros_and_the_output_layer_none(kept, of, zeros):
    model = mini("gptj")
    sparse = Sparse().with_options(SparseOptions(kept=kept, of=of)).apply(model, Calibration(model))
    network = sparse.graphs[DECODE].module().network
    head = network.get_output_embeddings()
    assert int((head.weight == 0).sum()) == 0
    linear = [each for each in network.modules() if isinstance(each, torch.nn.Linear) and each is not head]
    assert linear
    for each in linear:
        assert float((each.weight == 0).float().mean()) == pytest.approx(zeros, abs=1e-3)


def test_as_many_kept_as_there_are_is_refused():
    with pytest.raises(UsageError, match="sparse:4:4 leaves all weights as they are"):
        Sparse().with_options(SparseOptions(kept=4, of=4)).apply(replace(mini("bert"), graphs={}), None)


@pytest.mark.thorough("workloads", but=["untested"])
@pytest.mark.parametrize("accuracy", [False, True], ids=["untested", "tested"])
def test_a_run_says_which_weights_are_zero_and_can_be_verified(tmp_path, accuracy):
    asked = {"backend": "pytorch", "scenario": "Offline", "settings": QUICK, "results": tmp_path}
    (run,) = mlbench.run("bert", transform="sparse", accuracy=accuracy, **asked)
    assert run.transform == "sparse:2:4"
    assert [change.split(",")[0] for change in run.changes] == [
        "of each 4 weights in a row of a linear layer 2 are zero"
    ]
    assert run.is_open
    assert run.verdict.is_accurate is not False
    assert run.fingerprints["graph reader"] != run.fingerprints["transformed reader"]
    shown = invoke("show", run.run_id, "--results", tmp_path).stdout
    assert "2 are zero, by magnitude" in shown
    verified = invoke("verify", run.run_id, "--results", tmp_path)
    assert verified.exit_code == 0, verified.output


@pytest.mark.thorough("workloads")
def test_a_pruned_run_passes_the_checks_of_its_speed(tmp_path):
    asked = {"backend": "pytorch", "scenario": "Offline", "settings": QUICK, "results": tmp_path}
    (run,) = mlbench.run("gptj", transform="prune-layers:0.34", accuracy=False, **asked)
    assert run.changes == ("1 of 3 layers left out, without distillation: 1 (counted from 0)",)
    assert [rule.rule for rule in run.verdict.rules if not rule.passed] == ["min_duration"]
