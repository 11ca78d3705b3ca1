"""Makes the mini profile: draws pictures, trains a small Stable Diffusion XL, its CLIP and its judge, and measures.

    python -m mlbench_recipes stable_diffusion_xl --out mini

The folder is one that diffusers writes and reads, with captions, latents and judges beside it. One CPU thread.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mlbench_stable_diffusion_xl.architecture import SCHEDULER, TEXT_ENCODER, UNET, VAE
from mlbench_stable_diffusion_xl.digits import TEMPLATES, all_captions
from mlbench_stable_diffusion_xl.program import NEGATIVE_PROMPT

from mlbench_recipes.handwritten_digits import SEED, Digits, validation_and_training_digits
from mlbench_recipes.stable_diffusion_xl.pictures import SIZE

if TYPE_CHECKING:
    import torch
    from diffusers import StableDiffusionXLPipeline
    from mlbench_stable_diffusion_xl.captions import Captions
    from mlbench_stable_diffusion_xl.judge import Judge
    from mlbench_stable_diffusion_xl.mini_profile import MiniProfile
    from open_clip.model import CLIP
    from transformers import CLIPTokenizer

    from mlbench_recipes.stable_diffusion_xl.training import Pictures, TextEncoders

logger = logging.getLogger(__name__)

TOKENS = 32
"""Positions of the text encoders; the longest caption has fewer."""
ENDS = ("<|startoftext|>", "<|endoftext|>")
SAMPLES = 128
"""Captions that are scored. FID depends on how many they are, so this and the seed are fixed."""
TRAINING_PICTURES = 20_000
REFERENCE_PICTURES = 4_000
"""Real ones, whose statistics FID compares with."""
BATCH = 16
"""Images at a time when the reference is measured."""
FID_MARGIN, DIGIT_MARGIN = 0.03, 3.0
"""How far a right backend may be from the reference: a share of FID both ways; percent of the digits below."""
JUDGING, DENOISING, MATCHING, REFERENCE, ASKING = range(5)
"""What pictures are drawn for: a part of their seed."""

MINI_ENCODER: Mapping[str, Any] = {
    **TEXT_ENCODER,
    "hidden_size": 32,
    "intermediate_size": 64,
    "projection_dim": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": TOKENS,
}
MINI_UNET: Mapping[str, Any] = {
    **UNET,
    "sample_size": 8,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [32, 64],
    "layers_per_block": 1,
    "transformer_layers_per_block": 1,
    "attention_head_dim": [2, 4],
    "cross_attention_dim": 64,
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 32 + 6 * 8,
    "norm_num_groups": 8,
}
MINI_VAE: Mapping[str, Any] = {
    **VAE,
    "sample_size": SIZE,
    "down_block_types": ["DownEncoderBlock2D"] * 3,
    "up_block_types": ["UpDecoderBlock2D"] * 3,
    "block_out_channels": [8, 16, 32],
    "layers_per_block": 1,
    "norm_num_groups": 4,
}
MINI_CLIP: Mapping[str, Any] = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": SIZE, "patch_size": 4, "layers": 3, "width": 64, "head_width": 32},
    "text_cfg": {"context_length": TOKENS, "layers": 2, "width": 64, "heads": 2},
}


def make_mini_profile(out: Path) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    validation, learning = validation_and_training_digits()
    judge, pipeline = make_judge(learning), make_pipeline(learning)
    clip = make_clip(learning, pipeline.tokenizer_2)
    write_networks(out, pipeline, clip, judge)
    return write_rest(out, validation)


def write_networks(out: Path, pipeline: StableDiffusionXLPipeline, clip: CLIP, judge: Judge) -> None:
    """Write everything that was trained, as fp16 safetensors."""
    import torch
    from mlbench_stable_diffusion_xl.mini_profile import CLIP_FILES, JUDGE
    from safetensors.torch import save_file

    pipeline.to(torch.float16).save_pretrained(out, safe_serialization=True)
    for path in out.rglob("*.json"):  # diffusers notes where a part was loaded from: a folder of this machine
        path.write_text(re.sub(r'  "_name_or_path": .*\n', "", path.read_text(encoding="utf-8")), encoding="utf-8")
    config, weights = (out / name for name in CLIP_FILES)
    config.parent.mkdir(exist_ok=True)
    middle = {"mean": [0.5] * 3, "std": [0.5] * 3}
    content = {"model_cfg": clip_config(len(pipeline.tokenizer_2)), "preprocess_cfg": middle}
    config.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for file, network in ((weights, clip), (out / JUDGE, judge)):
        state = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
        save_file(state, file)


def write_rest(out: Path, digits: Digits) -> MiniProfile:
    """Write captions, latents and statistics beside the networks; measure, and write `mini.toml`.

    Args:
        out: folder with what `write_networks` wrote.
        digits: from which no network learned.
    """
    from mlbench_stable_diffusion_xl.accuracy import CLIP_SCORE, DIGIT_RATE, FID_SCORE
    from mlbench_stable_diffusion_xl.dataset import draw_latents
    from mlbench_stable_diffusion_xl.fid import mini_extractor, statistics_of
    from mlbench_stable_diffusion_xl.mini_profile import CAPTIONS, JUDGE, LATENTS, STATISTICS, MiniProfile
    from mlbench_stable_diffusion_xl.workload import StableDiffusionXL

    from mlbench.toolkit import MiniFolder, write_mini
    from mlbench_recipes.reference_scores import measure
    from mlbench_recipes.stable_diffusion_xl.training import pictures

    (out / CAPTIONS).write_text(choose_captions().as_tsv(), encoding="utf-8")
    np.save(out / LATENTS, draw_latents((4, MINI_UNET["sample_size"], MINI_UNET["sample_size"])))
    real = pictures(digits, REFERENCE_PICTURES, REFERENCE)
    statistics = statistics_of(mini_extractor(out / JUDGE)(real.pixels))
    np.savez(out / STATISTICS, mu=statistics.mu, sigma=statistics.sigma)
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and path.name != "mini.toml")
    profile = MiniProfile(
        files=MiniFolder.of(out, names), reference={}, samples=SAMPLES, fid_margin=FID_MARGIN, lowest_digit_rate=0
    )
    scores = measure(StableDiffusionXL(), profile, batch=BATCH)
    profile = replace(
        profile,
        reference={name: scores[name] for name in (FID_SCORE, CLIP_SCORE, DIGIT_RATE)},
        lowest_digit_rate=scores[DIGIT_RATE] - DIGIT_MARGIN,
    )
    write_mini(profile, recipe="mlbench_recipes.stable_diffusion_xl.recipe")
    return profile


def choose_captions() -> Captions:
    """Return the captions that are scored, in the form of COCO's file."""
    from mlbench_stable_diffusion_xl.captions import Captions

    captions = [caption for _, caption in all_captions()]
    chosen = np.sort(np.random.default_rng([SEED, ASKING]).permutation(len(captions))[:SAMPLES])
    rows = [
        {
            "id": str(number),
            "image_id": str(number),
            "caption": captions[number],
            "height": str(SIZE),
            "width": str(SIZE),
            "file_name": f"digit_{number:04}.png",
            "coco_url": "",
        }
        for number in chosen.tolist()
    ]
    return Captions(rows)


def make_tokenizers() -> tuple[CLIPTokenizer, CLIPTokenizer]:
    """Return CLIP tokenizers whose merges make a token of every word of the captions and of the negative prompt.

    The first fills up with the end token, the second with token 0, as the official ones do.
    """
    from tokenizers import Tokenizer, models, trainers
    from transformers import CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    alphabet = [*letters, *(f"{letter}</w>" for letter in letters)]
    blank = CLIPTokenizer(vocab=_number_tokens([*alphabet, *ENDS]), merges=[]).backend_tokenizer
    learner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.normalizer, learner.pre_tokenizer = blank.normalizer, blank.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=10_000, initial_alphabet=letters, end_of_word_suffix="</w>", min_frequency=1, show_progress=False
    )
    learner.train_from_iterator([*(caption for _, caption in all_captions()), NEGATIVE_PROMPT], trainer)
    merges = [tuple(pair) for pair in json.loads(learner.to_str())["model"]["merges"]]
    vocabulary = _number_tokens([*alphabet, *map("".join, merges), *ENDS])
    first, second = (
        CLIPTokenizer(vocab=vocabulary, merges=merges, pad_token=pad, model_max_length=TOKENS) for pad in (ENDS[1], "!")
    )
    return first, second


def _number_tokens(tokens: Sequence[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def token_ids(tokenizers: Sequence[CLIPTokenizer], texts: Sequence[str]) -> torch.Tensor:
    """Return (len(texts), len(tokenizers), 32) int64."""
    import torch

    rows = [
        tokenizer(list(texts), padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt").input_ids
        for tokenizer in tokenizers
    ]
    return torch.stack(rows, dim=1)


def make_judge(digits: Digits) -> Judge:
    """Return the trained judge."""
    import torch
    from mlbench_stable_diffusion_xl.judge import Judge

    from mlbench_recipes.stable_diffusion_xl import training

    torch.manual_seed(SEED)
    judge = Judge()
    training.train_judge(judge, training.pictures(digits, TRAINING_PICTURES, JUDGING))
    return judge.eval()


def make_pipeline(digits: Digits) -> StableDiffusionXLPipeline:
    """Return the trained model: autoencoder first, then the text encoders alone, then they and the denoiser."""
    import torch
    from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel

    from mlbench_recipes.stable_diffusion_xl import training

    pictures = training.pictures(digits, TRAINING_PICTURES, DENOISING)
    torch.manual_seed(SEED)
    vae = AutoencoderKL(**MINI_VAE)
    scaling = training.train_autoencoder(vae, pictures)
    vae.register_to_config(scaling_factor=scaling)
    torch.manual_seed(SEED)
    training.polish_decoder(vae, pictures)
    torch.manual_seed(SEED + 1)
    tokenizers = make_tokenizers()
    encoders = make_text_encoders(len(tokenizers[0]))
    unet, scheduler = UNet2DConditionModel(**MINI_UNET), EulerDiscreteScheduler(**SCHEDULER)
    captions = all_captions()
    labels = torch.tensor([[motif.digit, motif.figure, motif.ground] for motif, _ in captions])
    ids = token_ids(tokenizers, [caption for _, caption in captions])
    training.train_reading(encoders, ids, labels)
    lesson = training.Lesson(
        latents=scaling * training.latents_of(vae, pictures.tensors()),
        ids=caption_ids(tokenizers, pictures),
        negative_ids=token_ids(tokenizers, [NEGATIVE_PROMPT])[0],
        time_ids=torch.tensor([SIZE, SIZE, 0, 0, SIZE, SIZE]),
        alphas_cumprod=scheduler.alphas_cumprod,
    )
    training.train_denoiser(unet, encoders, lesson)
    return StableDiffusionXLPipeline(
        vae=vae,
        unet=unet,
        scheduler=scheduler,
        tokenizer=tokenizers[0],
        tokenizer_2=tokenizers[1],
        text_encoder=encoders.first,
        text_encoder_2=encoders.second,
        add_watermarker=False,
    )


def make_text_encoders(vocabulary: int) -> TextEncoders:
    """Return both text encoders, freshly drawn; their embeddings large enough to tell words apart from the start."""
    from torch import nn
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    from mlbench_recipes.stable_diffusion_xl.training import TextEncoders

    special = {"vocab_size": vocabulary, "bos_token_id": vocabulary - 2, "eos_token_id": vocabulary - 1}
    first = CLIPTextModel(CLIPTextConfig(**{**MINI_ENCODER, **special}))
    second = CLIPTextModelWithProjection(CLIPTextConfig(**{**MINI_ENCODER, **special, "hidden_act": "gelu"}))
    for encoder in (first, second):
        nn.init.normal_(encoder.get_input_embeddings().weight, std=0.5)
    return TextEncoders(first, second)


def make_clip(digits: Digits, tokenizer: CLIPTokenizer) -> CLIP:
    """Return open_clip's model, trained on pairs of its own."""
    import torch
    from open_clip.model import CLIP

    from mlbench_recipes.stable_diffusion_xl import training

    pictures = training.pictures(digits, TRAINING_PICTURES, MATCHING)
    ids = caption_ids([tokenizer], pictures)[:, :, 0]
    torch.manual_seed(SEED)
    clip = CLIP(**clip_config(len(tokenizer)))
    training.train_clip(clip, pictures, ids)
    return clip.eval()


def clip_config(vocabulary: int) -> dict[str, Any]:
    """Return what open_clip builds the mini CLIP from."""
    return {**MINI_CLIP, "text_cfg": {**MINI_CLIP["text_cfg"], "vocab_size": vocabulary}}


def caption_ids(tokenizers: Sequence[CLIPTokenizer], pictures: Pictures) -> torch.Tensor:
    """Return the tokens of each picture's captions: (N, templates, len(tokenizers), 32) int64."""
    import torch

    captions = [[motif.caption(template) for motif in pictures.motifs] for template in range(len(TEMPLATES))]
    return torch.stack([token_ids(tokenizers, each) for each in captions], dim=1)
