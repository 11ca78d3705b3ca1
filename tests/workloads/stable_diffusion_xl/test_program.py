import json
from functools import partial

import numpy as np
import pytest
import torch
from mlbench_stable_diffusion_xl.checkpoint import Checkpoint
from mlbench_stable_diffusion_xl.dataset import draw_latents
from mlbench_stable_diffusion_xl.graphs import TEXT_ENCODER, UNET, VAE_DECODER, build_graphs
from mlbench_stable_diffusion_xl.program import (
    NEGATIVE_PROMPT,
    Constants,
    TextToImage,
    apply_guidance,
    constants_of,
    pixels,
)
from mlbench_stable_diffusion_xl.schedule import Schedule

CAPTIONS = ["a red three on a black ground", "the digit zero in blue, painted on white paper"]
GUIDANCE = 5.0
START = draw_latents((4, 8, 8))


@pytest.fixture(scope="module")
def checkpoint(tiny_folder):
    return Checkpoint.opened(tiny_folder)


@pytest.fixture(scope="module")
def graphs(checkpoint, compiled):
    return compiled(build_graphs(checkpoint))


@pytest.fixture
def program(checkpoint):
    return TextToImage(constants_of(checkpoint, START, GUIDANCE))


def by_diffusers(pipeline, captions, **changes):
    """What diffusers' own pipeline makes of captions, called as the reference calls it."""
    settings = {
        "prompt": captions,
        "negative_prompt": [NEGATIVE_PROMPT] * len(captions),
        "num_inference_steps": 20,
        "guidance_scale": GUIDANCE,
        "latents": torch.from_numpy(START).repeat(len(captions), 1, 1, 1),
        "output_type": "latent",
    }
    pipeline.set_progress_bar_config(disable=True)
    with torch.inference_mode():
        return pipeline(**{**settings, **changes}).images.numpy()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # diffusers asks torch for an array in an old way
class TestAgainstDiffusers:
    """The same prompts, latents and weights through diffusers' own pipeline."""

    @pytest.fixture
    def found(self, program, graphs, checkpoint, tokens):
        return program.latents(tokens(checkpoint, *CAPTIONS), graphs)

    def test_latents_are_diffusers_own(self, found, tiny_pipeline):
        wanted = by_diffusers(tiny_pipeline, CAPTIONS)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)

    @pytest.mark.thorough("workloads")
    def test_images_are_diffusers_own(self, program, graphs, checkpoint, tokens, tiny_pipeline):
        found = program.run(tokens(checkpoint, *CAPTIONS), graphs)
        decoded = by_diffusers(tiny_pipeline, CAPTIONS, output_type="pt")
        assert found.shape == (2, 32, 32, 3)
        assert np.abs(found.astype(int) - pixels(decoded).astype(int)).max() <= 1

    @pytest.mark.thorough("workloads")
    @pytest.mark.parametrize(
        "fault",
        [{"num_inference_steps": 10}, {"clip_skip": 1}, {"guidance_scale": 5.01}, {"original_size": (64, 64)}],
        ids=lambda fault: next(iter(fault)),
    )
    def test_a_fault_that_no_score_sees_shows_in_the_latents(self, found, tiny_pipeline, fault):
        changed = by_diffusers(tiny_pipeline, CAPTIONS, **fault)
        assert np.abs(found - changed).max() > 1e-3


@pytest.mark.thorough("workloads")
def test_a_batch_gives_what_its_samples_give_alone(program, graphs, checkpoint, tokens):
    samples = tokens(checkpoint, *CAPTIONS)
    together = program.latents(samples, graphs)
    alone = [program.latents([sample], graphs)[0] for sample in samples]
    np.testing.assert_allclose(together, np.stack(alone), rtol=1e-4, atol=1e-4)
    assert np.abs(together[0] - together[1]).max() > 0.01


@pytest.mark.thorough("workloads")
def test_the_negative_prompt_is_encoded_once_and_again_for_other_encoders(program, graphs, checkpoint, tokens):
    calls = []

    def counting(inputs):
        calls.append(len(inputs["tokens"]))
        return graphs[TEXT_ENCODER](inputs)

    samples = tokens(checkpoint, *CAPTIONS)
    for _ in range(2):
        program.latents(samples, {**graphs, TEXT_ENCODER: counting})
    assert calls == [2, 1, 2]
    program.latents(samples, {**graphs, TEXT_ENCODER: partial(counting)})
    assert calls == [2, 1, 2, 2, 1]


def test_another_encoder_at_the_address_of_one_that_is_gone_encodes_anew(program, graphs):
    first, second = partial(graphs[TEXT_ENCODER]), partial(graphs[TEXT_ENCODER])
    before = program._negative({**graphs, TEXT_ENCODER: first})
    program._negatives[id(second)] = program._negatives.pop(id(first))
    after = program._negative({**graphs, TEXT_ENCODER: second})
    assert after is not before
    assert program._negative({**graphs, TEXT_ENCODER: second}) is after


def test_encoders_that_cannot_be_watched_work_too(program, graphs):
    class Slotted:
        __slots__ = ()

        def __call__(self, inputs):
            return graphs[TEXT_ENCODER](inputs)

    found = program._negative({**graphs, TEXT_ENCODER: Slotted()})
    np.testing.assert_array_equal(found.hidden, program._negative(graphs).hidden)


def test_each_step_is_reported(program, graphs, checkpoint, tokens):
    told = []
    program.listener = lambda done, of: told.append((done, of))
    program.latents(tokens(checkpoint, CAPTIONS[0]), graphs)
    assert told == [(step, 20) for step in range(1, 21)]


def test_an_image_with_a_nan_fails_its_batch(program, graphs, checkpoint, tokens):
    def broken(inputs):
        return {"image": np.full((len(inputs["latents"]), 3, 32, 32), np.nan, np.float32)}

    with pytest.raises(ValueError, match="contains a NaN or an infinity"):
        program.run(tokens(checkpoint, *CAPTIONS), {**graphs, VAE_DECODER: broken})


def test_large_images_are_decoded_one_by_one():
    schedule = Schedule(timesteps=np.zeros(0, np.float32), sigmas=np.ones(1, np.float32), start_scale=1.0)
    start, none = np.zeros((1, 4, 128, 128), np.float32), np.zeros((2, 77), np.int64)
    constants = Constants(
        start=start, negative_tokens=none, schedule=schedule, guidance=8.0, scaling=0.5, image_hw=(1024, 1024)
    )
    sizes = []

    def decoder(inputs):
        sizes.append(inputs["latents"].shape)
        return {"image": np.broadcast_to(inputs["latents"].mean(), (1, 3, 1024, 1024))}

    latents = np.stack([np.full((4, 128, 128), level, np.float32) for level in (0.0, 0.25, 1.0)])
    images = TextToImage(constants).images(latents, {VAE_DECODER: decoder})
    assert sizes == [(1, 4, 128, 128)] * 3
    # 0, 0.25 and 1 over the scaling 0.5 are 0, 0.5 and 2: half way, three quarters, and beyond white
    assert [image[0, 0].tolist() for image in images] == [[128] * 3, [191] * 3, [255] * 3]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_images_become_bytes_as_the_official_script_rounds_them(golden, dtype):
    folder = golden / "image_to_uint8"
    files = json.loads((folder / "expected.json").read_text())["files"]
    found = pixels(np.load(folder / f"images_{dtype}.npy"))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, np.load(folder / files[f"images_{dtype}.npy"]))


def test_guidance_goes_beyond_the_prompt():
    noise = np.array([[1.0], [2.0], [3.0], [2.0]], np.float32)  # two negative prompts, then two prompts
    np.testing.assert_array_equal(apply_guidance(noise, 8), [[1 + 8 * 2], [2.0]])
    np.testing.assert_array_equal(apply_guidance(noise, 1), noise[2:])


def test_the_denoiser_gets_the_negative_prompt_first_and_the_size_with_every_row(program, graphs, checkpoint, tokens):
    seen = []

    def watched(inputs):
        seen.append(inputs)
        return graphs[UNET](inputs)

    program.latents(tokens(checkpoint, *CAPTIONS), {**graphs, UNET: watched})
    first = seen[0]
    assert first["latents"].shape == (4, 4, 8, 8)
    np.testing.assert_array_equal(first["hidden"][0], first["hidden"][1])
    assert not np.array_equal(first["hidden"][2], first["hidden"][3])
    np.testing.assert_array_equal(first["time_ids"], [[32, 32, 0, 0, 32, 32]] * 4)
    assert [inputs["timestep"].tolist() for inputs in seen[:2]] == [[951.0] * 4, [901.0] * 4]
