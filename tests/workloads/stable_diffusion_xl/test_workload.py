import sys
from pathlib import Path

import numpy as np
import pytest
from mlbench_stable_diffusion_xl.workload import StableDiffusionXL
from workload_variants import variants_of

from mlbench import DataError, Precision, UsageError, Weights

full, mini = variants_of("stable-diffusion-xl")

FILES = {
    "data": Path("captions_source.tsv"),
    "weights": Path("checkpoint_pipe"),
    "statistics": Path("val2014.npz"),
    "inception": Path("pt_inception-2015-12-05-6726825d.pth"),
    "clip": Path("open_clip_model.safetensors"),
}


def test_the_mini_profile_has_fp16_weights_under_five_megabytes_and_three_targets():
    workload = StableDiffusionXL()
    dataset = workload.dataset(mini())
    metric = workload.metric(mini(), dataset)
    limits = {target.score: target for target in metric.targets}
    assert set(limits) == {"FID_SCORE", "CLIP_SCORE", "DIGIT_RATE"}
    assert all(target.required for target in limits.values())
    clip, fid, digits = (limits[name] for name in ("CLIP_SCORE", "FID_SCORE", "DIGIT_RATE"))
    assert (clip.lower, clip.upper) == pytest.approx((0.99 * clip.reference, 1.01 * clip.reference))
    assert fid.lower < fid.reference < fid.upper
    assert digits.reference >= 90
    folder = Path(sys.modules["mlbench_stable_diffusion_xl.mini_profile"].__file__).parent / "mini"
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 5e6


def test_without_files_random_weights_run_on_random_prompts_of_the_official_size():
    workload, variant = StableDiffusionXL(), full(Weights.RANDOM)
    dataset = workload.dataset(variant)
    assert dataset.count == 5000
    assert workload.metric(variant, dataset) is None
    model = workload.model(variant)
    assert model.program.reply.shape == (1024, 1024, 3)
    assert len(model.program.constants.schedule.timesteps) == 20
    assert model.program.constants.guidance == 8
    assert model.graphs["unet"].inputs[0].shape[1:] == (4, 128, 128)
    assert model.graphs["vae_decoder"].precision(Precision.FP16) is Precision.FP32
    assert dataset.sample(0).shape == model.program.constants.negative_tokens.shape == (2, 77)


class TestFilesInTheOfficialForm:
    """The full profile on a folder of the small architecture and three captions."""

    @pytest.fixture
    def options(self, tiny_folder, golden, tmp_path):
        (tmp_path / "smaller.toml").write_text("captions = 15\n")
        np.save(tmp_path / "latents.npy", np.zeros((1, 4, 8, 8), np.float32))
        own = {"data": golden / "coco_subset" / "expected_captions.tsv", "weights": tiny_folder}
        return {**FILES, **own, "smaller": tmp_path / "smaller.toml", "latents": tmp_path / "latents.npy"}

    def test_what_is_not_official_is_named(self, options):
        found = StableDiffusionXL().model(full(**options)).deviations
        assert found[0] == "captions 15, not 5000"
        assert "sample_size 8, not 128" in found
        official = {name: path for name, path in options.items() if name != "smaller"}
        with pytest.raises(DataError, match="has 15 captions, not 5000"):
            StableDiffusionXL().dataset(full(**official))

    def test_captions_become_samples_in_the_order_of_their_rows(self, options):
        dataset = StableDiffusionXL().dataset(full(**options))
        assert dataset.count == 15
        assert dataset.captions[0] == "A dog runs number 19"
        dataset.load([14])
        assert dataset.sample(14).shape == (2, 32)

    def test_images_are_scored_against_the_official_limits(self, options):
        workload, variant = StableDiffusionXL(), full(**options)
        metric = workload.metric(variant, workload.dataset(variant))
        limits = {target.score: (target.lower, target.upper) for target in metric.targets}
        assert limits == {"CLIP_SCORE": (31.68631873, 31.81331801), "FID_SCORE": (23.01085758, 23.95007626)}

    def test_the_model_is_the_users(self, options, tiny_folder):
        model = StableDiffusionXL().model(full(**options))
        assert model.program.constants.guidance == 8
        assert model.program.reply.shape == (32, 32, 3)
        assert sum(each.numel() for each in model.graphs["text_encoder"].module().parameters()) < 100_000

    @pytest.mark.parametrize("name", ["statistics", "inception", "clip"])
    def test_accuracy_without_one_of_its_files_is_refused_by_name(self, options, name):
        workload, variant = StableDiffusionXL(), full(**{**options, name: None})
        with pytest.raises(UsageError, match=rf"--set workload\.{name}=PATH, or measure without: --no-accuracy"):
            workload.metric(variant, workload.dataset(variant))


def test_a_folder_that_is_no_model_and_a_missing_captions_file_are_named(tiny_folder):
    with pytest.raises(DataError, match=r"captions file not found: captions_source\.tsv"):
        StableDiffusionXL().dataset(full(**FILES))
    with pytest.raises(DataError, match=r"diffusers model cannot be read: checkpoint_pipe/model_index\.json"):
        StableDiffusionXL().model(full(**FILES))
    with pytest.raises(DataError, match="text_encoder has vocab_size = 618, expected 49408"):
        StableDiffusionXL().model(full(**{**FILES, "weights": tiny_folder}))
