"""DeepCache computes the same denoiser in two parts, and leaves out the deep one in the steps that it says."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from mlbench_pytorch.backend import PyTorch  # noqa: E402
from mlbench_stable_diffusion_xl.cached_denoiser import DEEP, DEEP_UNET, SHALLOW_UNET  # noqa: E402
from mlbench_stable_diffusion_xl.deep_cache import DeepCache  # noqa: E402
from mlbench_stable_diffusion_xl.graphs import UNET  # noqa: E402

from mlbench import Calibration, Memory, Precision, UsageError  # noqa: E402 - torch may be missing
from mlbench.conformance.preparation import mini_variant  # noqa: E402
from mlbench.discovery import Plugins  # noqa: E402
from mlbench.execution.transforming import apply_transforms  # noqa: E402
from mlbench.settings.transforms import choose_transforms  # noqa: E402

pytestmark = pytest.mark.slow


def mini(name, transforms=""):
    plugins = Plugins.discover()
    workload = plugins.workload(name)
    variant = mini_variant(workload, {})
    return apply_transforms(workload.model(variant), choose_transforms(transforms, plugins)), workload.dataset(variant)


def inputs_of(graph):
    generator = torch.Generator().manual_seed(3)
    shapes = [[each if isinstance(each, int) else 4 for each in spec.shape] for spec in graph.inputs]
    return {
        spec.name: torch.randn(shape, generator=generator) for spec, shape in zip(graph.inputs, shapes, strict=True)
    } | {"timestep": torch.tensor([801.0, 801.0, 1.0, 1.0])}


@pytest.mark.thorough("workloads")
def test_both_parts_return_the_noise_of_the_whole_denoiser():
    model, _ = mini("stable-diffusion-xl")
    graphs = mini("stable-diffusion-xl", "deepcache")[0].graphs
    inputs = inputs_of(model.graphs[UNET])
    with torch.inference_mode():
        noise = model.graphs[UNET].module()(*inputs.values())
        again, deep = graphs[DEEP_UNET].module()(*inputs.values())
        known = {**inputs, DEEP: deep}
        shallow = graphs[SHALLOW_UNET].module()(*(known[spec.name] for spec in graphs[SHALLOW_UNET].inputs))
    assert torch.allclose(again, noise, atol=1e-5)
    assert torch.allclose(shallow, noise, atol=1e-5)
    assert tuple(deep.shape[1:]) == graphs[SHALLOW_UNET].inputs[-1].shape[1:]


def test_the_shallow_part_has_no_weights_of_the_deep_one():
    graphs = mini("stable-diffusion-xl", "deepcache")[0].graphs
    whole, shallow = (
        sum(each.numel() for each in graphs[name].module().parameters()) for name in (DEEP_UNET, SHALLOW_UNET)
    )
    assert shallow < whole / 2


@pytest.mark.thorough("workloads", but=["20-1-19"])
@pytest.mark.parametrize(("every", "deep", "shallow"), [(2, 10, 10), (3, 7, 13), (20, 1, 19)])
def test_of_twenty_steps_each_nth_is_deep(every, deep, shallow):
    model, dataset = mini("stable-diffusion-xl", f"deepcache:{every}")
    assert model.changes == (f"deep features of the denoiser computed in {deep} of 20 steps, kept in between",)
    backend, calls = PyTorch().with_options(PyTorch().options), []

    def counted(name, executable):
        def call(inputs):
            calls.append(name)
            return executable(inputs)

        return call

    graphs = {name: counted(name, backend.compile(each, Precision.FP32)) for name, each in model.graphs.items()}
    dataset.load([0])
    image = model.program.run([dataset.sample(0)], graphs)
    assert (calls.count(DEEP_UNET), calls.count(SHALLOW_UNET), calls.count(UNET)) == (deep, shallow, 0)
    assert image.dtype == np.uint8


def test_another_model_is_refused():
    model, _ = mini("bert")
    with pytest.raises(UsageError, match="takes Stable Diffusion XL, and bert is another model"):
        DeepCache().apply(model, Calibration(model))


def test_the_form_for_devices_is_refused():
    workload = Plugins.discover().workload("stable-diffusion-xl")
    model = workload.model(replace(mini_variant(workload, {}), memory=Memory.DEVICE))
    with pytest.raises(
        UsageError, match="takes the form for hosts, and this is stable-diffusion-xl in the form for dev"
    ):
        DeepCache().apply(model, Calibration(model))


def test_weights_that_another_transform_changed_stay_changed():
    graphs = mini("stable-diffusion-xl", "sparse deepcache")[0].graphs
    module = graphs[SHALLOW_UNET].module()
    linear = [each for each in module.modules() if isinstance(each, torch.nn.Linear) and each.in_features % 4 == 0]
    assert linear
    assert all(float((each.weight == 0).float().mean()) >= 0.5 for each in linear)
