import numpy as np
import onnxruntime
import pytest
import torch
from mlbench_stable_diffusion_xl.architecture import OFFICIAL, build_part
from mlbench_stable_diffusion_xl.checkpoint import Checkpoint
from mlbench_stable_diffusion_xl.graphs import CONFIG_OF, VAE_DECODER, Sizes, build_graphs, random_graphs

from mlbench import Precision

PARAMETERS = {
    "text_encoder": 123_060_480,
    "text_encoder_2": 694_659_840,
    "unet": 2_567_463_684,
    "vae": 83_653_863,
}


@pytest.fixture(scope="module")
def graphs(tiny_folder):
    return build_graphs(Checkpoint.opened(tiny_folder))


@pytest.mark.parametrize("part", PARAMETERS)
def test_the_official_parts_have_the_official_number_of_parameters(part):
    with torch.device("meta"):
        module = build_part(part, OFFICIAL[part])
    assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[part]


def test_the_official_tensors_have_the_official_sizes():
    sizes = Sizes(OFFICIAL)
    assert (sizes.tokens, sizes.widths, sizes.pooled) == (77, (768, 1280), 1280)
    assert (sizes.latents, sizes.image_hw) == ((4, 128, 128), (1024, 1024))


def test_the_denoiser_is_compiled_before_the_others_take_memory(graphs):
    assert list(graphs) == ["unet", "text_encoder", "text_encoder_2", "vae_decoder"]


def test_the_decoder_alone_stays_in_fp32_where_the_run_is_in_fp16(graphs):
    asked = {name: graph.precision(Precision.FP16) for name, graph in graphs.items()}
    assert {name for name, precision in asked.items() if precision is Precision.FP32} == {VAE_DECODER}
    assert {graph.precision(Precision.BF16) for graph in graphs.values()} == {Precision.BF16}


def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone(graphs, tiny_folder):
    checkpoint = Checkpoint.opened(tiny_folder)
    configs = {part: checkpoint.config(part) for part in CONFIG_OF.values()}
    before = torch.get_rng_state()
    first, second = (random_graphs(configs)["unet"] for _ in range(2))
    for one, other in zip(first.module().parameters(), second.module().parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.fingerprint == second.fingerprint != graphs["unet"].fingerprint


def inputs_of(graph, rows):
    rng = np.random.default_rng(0)
    arrays = {}
    for spec in graph.inputs:
        shape = [rows, *spec.shape[1:]]
        is_tokens = spec.dtype == "int64"
        arrays[spec.name] = rng.integers(618, size=shape) if is_tokens else rng.random(shape, dtype=np.float32)
    return arrays


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("name", CONFIG_OF)
def test_each_graph_exports_for_any_number_of_rows_and_gives_the_same_in_onnx(graphs, compiled, name):
    graph = graphs[name]
    session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
    module = compiled({name: graph})[name]
    for rows in (2, 6):
        arrays = inputs_of(graph, rows)
        wanted = module(arrays)
        found = session.run([spec.name for spec in graph.outputs], arrays)
        for spec, output in zip(graph.outputs, found, strict=True):
            np.testing.assert_allclose(output, wanted[spec.name], rtol=1e-4, atol=1e-4)
