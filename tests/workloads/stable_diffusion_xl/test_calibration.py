"""What the denoiser's ranges for int8 are taken from, and what stays in floating point."""

from dataclasses import replace

import pytest
from mlbench_stable_diffusion_xl import mini_profile
from mlbench_stable_diffusion_xl.calibration import PROMPTS, denoiser_calls
from mlbench_stable_diffusion_xl.digits import all_captions
from mlbench_stable_diffusion_xl.full_profile import FullProfile
from mlbench_stable_diffusion_xl.graphs import TEXT_ENCODER, UNET, VAE_DECODER
from mlbench_stable_diffusion_xl.mini_profile import MiniProfile
from mlbench_stable_diffusion_xl.program import TextToImage
from mlbench_stable_diffusion_xl.workload import StableDiffusionXLOptions

from mlbench import DataError, Precision, Weights

PROFILE = MiniProfile.shipped()
GRAPHS = PROFILE.graphs(Weights.TRAINED)


@pytest.mark.slow
def test_the_inputs_are_those_of_the_first_steps_of_a_run(compiled):
    prompts = [*PROFILE.checkpoint.token_ids([caption for _, caption in all_captions()[:2]])]
    seen, executables = [], compiled(GRAPHS)

    def watched(inputs):
        seen.append(inputs)
        return executables[UNET](inputs)

    constants = PROFILE.program.constants
    TextToImage(constants).latents(prompts, {**executables, UNET: watched})
    found = [*denoiser_calls(constants, GRAPHS, prompts, steps=3)]
    assert len(found) == 3
    for ours, theirs in zip(found, seen, strict=False):
        assert {name: array.tolist() for name, array in ours.items()} == {n: a.tolist() for n, a in theirs.items()}


def test_the_mini_profile_is_calibrated_by_captions_that_are_not_scored(monkeypatch):
    monkeypatch.setattr(mini_profile, "denoiser_calls", lambda constants, graphs, prompts: iter(prompts))
    prompts = {row.tobytes() for row in GRAPHS[UNET].calibration()}
    assert len(prompts) == PROMPTS
    assert prompts.isdisjoint(row.tobytes() for row in PROFILE.checkpoint.token_ids(PROFILE.dataset().captions))


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.FP8])
def test_text_encoders_and_decoder_stay_in_fp32(precision):
    assert {name: graph.precision(precision) for name, graph in GRAPHS.items()} == {
        UNET: precision,
        TEXT_ENCODER: Precision.FP32,
        "text_encoder_2": Precision.FP32,
        VAE_DECODER: Precision.FP32,
    }


@pytest.mark.thorough("workloads")
def test_the_parts_that_the_denoiser_names_stay_in_floating_point():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from mlbench.toolkit.onnx_quantization import Scheme, quantize_onnx

    weights = onnx.load(quantize_onnx(GRAPHS[UNET], Scheme.UNSIGNED, per_channel=True)).graph.initializer
    whole = {each.name for each in weights if each.data_type == onnx.TensorProto.FLOAT}
    kept = ("time_embedding", "add_embedding", "time_emb_proj", "conv_in", "conv_out", "conv_shortcut")
    named = {name for name, weight in GRAPHS[UNET].module().named_parameters() if weight.ndim > 1}
    assert whole & named == {name for name in named if any(part in name for part in kept)}


def test_fewer_captions_than_the_official_list_has_are_refused(tmp_path):
    few = tmp_path / "few.tsv"
    few.write_text(PROFILE.files.file("captions.tsv").read_text())
    options = replace(StableDiffusionXLOptions(), calibration=few)
    with pytest.raises(DataError, match="has 128 captions, not 500"):
        [*FullProfile(options=options, weights=Weights.TRAINED)._calibration_inputs(GRAPHS)]
