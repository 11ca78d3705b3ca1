import numpy as np
import pytest
import torch
from mlbench_recipes.handwritten_digits import validation_and_training_digits
from mlbench_recipes.stable_diffusion_xl import recipe, training
from mlbench_recipes.stable_diffusion_xl.pictures import draw
from mlbench_stable_diffusion_xl.dataset import draw_latents
from mlbench_stable_diffusion_xl.digits import COLOURS, Motif, all_captions, motif_of
from mlbench_stable_diffusion_xl.mini_profile import CAPTIONS, LATENTS, STATISTICS, MiniProfile
from mlbench_stable_diffusion_xl.program import NEGATIVE_PROMPT


def test_no_digit_serves_training_and_validation():
    validation, learning = validation_and_training_digits()
    assert (len(validation.labels), len(learning.labels)) == (497, 1300)
    seen = {pixels.tobytes() for pixels in learning.pixels}
    shared = sum(pixels.tobytes() in seen for pixels in validation.pixels)
    assert shared == 0


def test_a_picture_shows_its_digit_in_its_colours():
    _, digits = validation_and_training_digits()
    names = list(COLOURS)
    motif = Motif(digit=0, figure=names.index("red"), ground=names.index("white"))
    (picture,) = draw([motif], digits, np.random.default_rng(0))
    corner, reddest = picture[0, 0], picture.reshape(-1, 3)[picture.reshape(-1, 3)[:, 1].argmin()]
    assert corner.min() >= 0.85 * 245 - 1
    assert reddest[0] > 150
    assert reddest[1] < 100


def test_every_caption_says_what_it_asks_for():
    captions = all_captions()
    assert len({caption for _, caption in captions}) == len(captions) == 10 * 7 * 6 * 3
    assert all(motif_of(caption) == motif for motif, caption in captions)
    with pytest.raises(ValueError, match="no caption of a digit"):
        motif_of("a dog")


def test_every_word_is_a_token_and_every_caption_and_the_negative_prompt_fit():
    first, second = recipe.make_tokenizers()
    texts = [*(caption for _, caption in all_captions()), NEGATIVE_PROMPT]
    assert max(len(ids) for ids in first(texts)["input_ids"]) < recipe.TOKENS
    assert len(first("a red three on a black ground")["input_ids"]) == 7 + 2
    assert (first.pad_token, second.pad_token) == ("<|endoftext|>", "!")


def test_the_shipped_captions_latents_and_statistics_are_those_that_the_recipe_makes():
    files = MiniProfile.shipped().files
    assert files.file(CAPTIONS).read_text() == recipe.choose_captions().as_tsv()
    np.testing.assert_allclose(np.load(files.file(LATENTS)), draw_latents((4, 8, 8)), atol=1e-6)
    with np.load(files.file(STATISTICS)) as shipped:
        assert (shipped["mu"].shape, shipped["sigma"].shape) == ((64,), (64, 64))


@pytest.mark.thorough("recipes")
def test_training_makes_the_autoencoder_better_and_moves_every_part_that_it_should(monkeypatch):
    for name in ("AUTOENCODER_STEPS", "DECODER_STEPS", "READING_STEPS", "DENOISER_STEPS"):
        monkeypatch.setattr(training, name, 3)
    monkeypatch.setattr(recipe, "TRAINING_PICTURES", 64)
    _, digits = validation_and_training_digits()
    pipeline = recipe.make_pipeline(digits)
    torch.manual_seed(recipe.SEED)
    fresh = type(pipeline.vae)(**recipe.MINI_VAE)
    pictures = training.pictures(digits, 32, recipe.DENOISING).tensors()

    def error(vae):
        with torch.inference_mode():
            return float((vae.decode(vae.encode(pictures).latent_dist.mode()).sample - pictures).square().mean())

    assert error(pipeline.vae) < error(fresh)
    latents = pipeline.vae.config.scaling_factor * training.latents_of(pipeline.vae, pictures)
    assert latents.std() == pytest.approx(1, abs=0.2)


@pytest.mark.thorough("recipes")
def test_the_judge_and_the_clip_learn_from_pictures(monkeypatch):
    for name, value in {"JUDGE_STEPS": 60, "CLIP_STEPS": 40, "CLIP_BATCH": 32}.items():
        monkeypatch.setattr(training, name, value)
    monkeypatch.setattr(recipe, "TRAINING_PICTURES", 512)
    _, digits = validation_and_training_digits()
    judge = recipe.make_judge(digits)
    data = training.pictures(digits, 64, recipe.JUDGING)
    with torch.inference_mode():
        logits = judge(torch.from_numpy(data.pixels).permute(0, 3, 1, 2))
    assert (logits[:, 17:].argmax(1) == data.labels[:, 2]).float().mean() > 0.5, "the ground's colour is easy"
    tokenizer = recipe.make_tokenizers()[1]
    clip = recipe.make_clip(digits, tokenizer)
    ids = recipe.caption_ids([tokenizer], data)[:, 0, 0]
    with torch.inference_mode():
        image, text, _ = clip(data.tensors(), ids)
    assert (image * text).sum(1).mean() > (image * text.roll(1, 0)).sum(1).mean() + 0.1
