import os
import shutil
import subprocess
import sys

import pytest
import torch
from mlbench_mixtral_8x7b.graphs import _FEW, NETWORK

from mlbench import Dim, TensorSpec
from mlbench.toolkit import ModuleGraph
from mlbench.toolkit.torch_backend.ahead_of_time import compile_ahead
from mlbench.toolkit.torch_backend.cuda_graphs import CudaRecorder

SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "initializer_range": 0.3,
}


@pytest.fixture
def moe_layer():
    return NETWORK.random(SMALL).model.layers[0].mlp


def by_hand(layer, hidden):
    """Compute the experts' sum a token at a time."""
    result = torch.zeros_like(hidden)
    for place, token in enumerate(hidden):
        probabilities = (layer.gate.weight @ token).softmax(0)
        best = probabilities.argsort(descending=True)[:2]
        for expert in best:
            gate, value = (layer.experts.gate_up_proj[expert] @ token).chunk(2)
            inner = torch.nn.functional.silu(gate) * value
            share = probabilities[expert] / probabilities[best].sum()
            result[place] += share * (layer.experts.down_proj[expert] @ inner)
    return result


@pytest.mark.parametrize("is_onnx", [False, True])
def test_experts_give_the_weighted_sum_of_the_two_best(moe_layer, monkeypatch, is_onnx):
    hidden = torch.randn(13, 32, generator=torch.Generator().manual_seed(1))
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: is_onnx)
    with torch.inference_mode():
        found = moe_layer(hidden[None])[0]
        torch.testing.assert_close(found, by_hand(moe_layer, hidden), atol=1e-5, rtol=1e-5)


@pytest.mark.thorough("exports")
def test_traced_experts_give_the_same_sum_for_any_number_of_tokens(moe_layer):
    """Few and many are computed in two ways; of two tokens most experts get none."""
    traced, generator = torch.randn(1, 7, 32), torch.Generator().manual_seed(1)
    dimensions = ({1: torch.export.Dim.DYNAMIC},)
    with torch.no_grad():
        program = torch.export.export(moe_layer, (traced,), dynamic_shapes=dimensions, strict=False).module()
        for tokens in (2, 13, _FEW, _FEW + 1, 200):
            hidden = torch.randn(1, tokens, 32, generator=generator)
            torch.testing.assert_close(program(hidden)[0], by_hand(moe_layer, hidden[0]), atol=1e-5, rtol=1e-5)


@pytest.mark.thorough("exports")
def test_an_expert_that_no_token_chose_may_have_any_weights_in_a_traced_graph(moe_layer):
    hidden = torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
    asked = (hidden, torch.tensor([[0, 3]] * 64), torch.full((64, 2), 0.5))
    with torch.no_grad():
        expected = moe_layer.experts(*asked)
        moe_layer.experts.gate_up_proj[1] = torch.nan
        dimensions = ({0: torch.export.Dim.DYNAMIC},) * 3
        program = torch.export.export(moe_layer.experts, asked, dynamic_shapes=dimensions, strict=False).module()
        torch.testing.assert_close(program(*asked), expected, atol=1e-5, rtol=1e-5)


def compile_experts():
    layer = NETWORK.random(SMALL).model.layers[0].mlp.experts
    tokens = Dim(name="tokens", smallest=1, usual=_FEW, largest=512)
    hidden, chosen, weights = (
        TensorSpec(name=name, shape=(tokens, width), dtype=dtype)
        for name, width, dtype in (("hidden", 32, "float32"), ("chosen", 2, "int64"), ("weights", 2, "float32"))
    )
    asked = {"inputs": (hidden, chosen, weights), "outputs": (hidden,)}
    run = compile_ahead(layer, ModuleGraph("experts", **asked, build=lambda: layer, fingerprint="experts"))
    generator = torch.Generator().manual_seed(1)
    for count in (1, 2, _FEW, _FEW + 1, 200):
        shares, best = torch.randn(count, 8, generator=generator).softmax(dim=1).topk(2)
        given = torch.randn(count, 32, generator=generator), best, shares
        with torch.inference_mode():
            torch.testing.assert_close(run(*given)[0], layer(*given), atol=1e-5, rtol=1e-5)


@pytest.mark.thorough("compilers")
@pytest.mark.skipif(not shutil.which("g++"), reason="compiling needs a C++ compiler")
def test_compiled_experts_give_the_same_sum_for_any_number_of_tokens(tmp_path):
    """In a process of its own, as torch's compiler minds earlier imports."""
    script = f"import runpy; runpy.run_path({__file__!r})['compile_experts']()"
    environment = {**os.environ, "MLBENCH_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_an_expert_that_no_token_chose_is_not_computed(moe_layer):
    hidden = torch.randn(64, 32, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        moe_layer.experts.gate_up_proj[1] = torch.nan
        found = moe_layer.experts(hidden, torch.tensor([[0, 3]] * 64), torch.full((64, 2), 0.5))
    assert bool(found.isfinite().all())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or HIP device")
def test_a_call_of_experts_in_fp32_can_be_recorded_on_a_gpu(moe_layer):
    hidden = torch.randn(13, 32, generator=torch.Generator().manual_seed(1))
    gpu = torch.device("cuda", 0)
    with torch.inference_mode():
        expected = by_hand(moe_layer, hidden)
        moved, placed = moe_layer.to(gpu), hidden[None].to(gpu)
        moved(placed)
        recording = CudaRecorder(gpu)(lambda: [moved(placed)[0]], None)
        recording.replay()
        found = recording.outputs[0].cpu()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
