"""Stable Diffusion XL from a diffusers folder in fp16, a TorchScript file of CLIP and a pickled Inception network.

The judges are of the official form with weights freshly drawn: what they say of an image means nothing, but every
number counts in it. What the set's model reaches is what diffusers' own pipeline reaches on the same files.
"""

import csv
import hashlib
import io
import json
import warnings
from pathlib import Path

import mlbench_stable_diffusion_xl
import numpy as np
import pytest
import torch
from mlbench_stable_diffusion_xl.accuracy import ImageQuality, Judges
from mlbench_stable_diffusion_xl.architecture import SCHEDULER
from mlbench_stable_diffusion_xl.fid import official_extractor, read_statistics
from mlbench_stable_diffusion_xl.workload import StableDiffusionXL
from safetensors.torch import load_file, save
from small_sets import SmallSet
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from mlbench import LoggedReply

MINI = Path(mlbench_stable_diffusion_xl.__file__).parent / "mini"
IMAGES, SIZE = 16, 32
CLIP = "ViT-S-32-alt"
WEIGHTS = {
    "text_encoder": "model",
    "text_encoder_2": "model",
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
}


def pipeline_folder():
    """Return the mini model as the official archive holds its pipeline: in fp16, tokenizers as lists of words."""
    files = {"model_index.json": (MINI / "model_index.json").read_bytes()}
    files["scheduler/scheduler_config.json"] = (MINI / "scheduler/scheduler_config.json").read_bytes()
    for part, name in WEIGHTS.items():
        files[f"{part}/config.json"] = (MINI / part / "config.json").read_bytes()
        state = load_file(MINI / part / f"{name}.safetensors")
        files[f"{part}/{name}.safetensors"] = save({key: each.half() for key, each in state.items()})
    for part in ("tokenizer", "tokenizer_2"):
        described = json.loads((MINI / part / "tokenizer.json").read_text())
        merges = ["#version: 0.2", *(" ".join(pair) for pair in described["model"]["merges"])]
        files[f"{part}/vocab.json"] = json.dumps(described["model"]["vocab"]).encode()
        files[f"{part}/merges.txt"] = "\n".join(merges).encode()
        config = json.loads((MINI / part / "tokenizer_config.json").read_text())
        files[f"{part}/tokenizer_config.json"] = json.dumps(config).encode()
        special = {name: config[name] for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
        files[f"{part}/special_tokens_map.json"] = json.dumps(special).encode()
    return {f"checkpoint_pipe/{path}": content for path, content in files.items()} | {
        "checkpoint_scheduler/scheduler_config.json": files["scheduler/scheduler_config.json"]
    }


def captions():
    rows = (MINI / "captions.tsv").read_text().splitlines(keepends=True)
    return "".join(rows[: IMAGES + 1])


def inception():
    """Return the FID network with weights freshly drawn, pickled as the official file is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        patch.setattr(torch, "load", lambda *_, **__: None)
        network = FeatureExtractorInceptionV3("any", ["2048"], feature_extractor_weights_path="any")
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    return file.getvalue()


def clip():
    """Return a small CLIP with weights freshly drawn, as OpenAI publishes its own: TorchScript in fp16, with sizes."""
    import open_clip  # only here: each process that collects tests would import it

    model, _, _ = open_clip.create_model_and_transforms(CLIP, load_weights=False)
    root = torch.nn.Module()
    sizes = {name: torch.tensor(0) for name in ("input_resolution", "context_length", "vocab_size")}
    for name, tensor in (model.state_dict() | sizes).items():
        *above, last = name.split(".")
        part = root
        for each in above:
            if not hasattr(part, each):
                part.add_module(each, torch.nn.Module())
            part = getattr(part, each)
        part.register_buffer(last, tensor.half() if tensor.is_floating_point() else tensor)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        torch.jit.save(torch.jit.script(root), file)
    return file.getvalue()


def statistics():
    """Return statistics of 2048 features as the official file has them."""
    drawn = np.random.default_rng(0).normal(0.4, 0.1, (64, 2048))
    file = io.BytesIO()
    np.savez(file, mu=drawn.mean(axis=0), sigma=np.cov(drawn, rowvar=False))
    return file.getvalue()


def reached(contents, folder):
    """Return the scores of the images that diffusers' own pipeline paints of the set's files."""
    from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    pipe = folder / "checkpoint_pipe"
    pipeline = StableDiffusionXLPipeline(
        vae=AutoencoderKL.from_pretrained(pipe / "vae", torch_dtype=torch.float32),
        unet=UNet2DConditionModel.from_pretrained(pipe / "unet", torch_dtype=torch.float32),
        scheduler=EulerDiscreteScheduler(**SCHEDULER),
        tokenizer=CLIPTokenizer.from_pretrained(pipe / "tokenizer"),
        tokenizer_2=CLIPTokenizer.from_pretrained(pipe / "tokenizer_2"),
        text_encoder=CLIPTextModel.from_pretrained(pipe / "text_encoder", dtype=torch.float32),
        text_encoder_2=CLIPTextModelWithProjection.from_pretrained(pipe / "text_encoder_2", dtype=torch.float32),
        add_watermarker=False,
    )
    pipeline.set_progress_bar_config(disable=True)
    texts = [row["caption"] for row in csv.DictReader(io.StringIO(captions()), delimiter="\t")]
    latents = torch.from_numpy(np.load(MINI / "latents.npy")).repeat(IMAGES, 1, 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # diffusers turns tensors into arrays in a way that NumPy will not allow
        painted = pipeline(
            texts,
            negative_prompt=["normal quality, low quality, worst quality, low res, blurry, nsfw, nude"] * IMAGES,
            latents=latents,
            num_inference_steps=20,
            guidance_scale=8.0,
            height=SIZE,
            width=SIZE,
            output_type="np",
        ).images
    replies = [
        LoggedReply(index=index, data=image.tobytes())
        for index, image in enumerate((painted * 255).round().astype(np.uint8))
    ]
    from mlbench_stable_diffusion_xl.clip_score import official_scorer  # imports open_clip

    clip_file = folder / "ViT-B-32.pt"
    judges = Judges(
        reference=read_statistics(folder / "val2014.npz"),
        features=official_extractor(folder / "inception.pth"),
        clip=official_scorer(clip_file, CLIP, hashlib.sha256(clip_file.read_bytes()).hexdigest()).score,
    )
    return ImageQuality(lambda: judges, texts, (SIZE, SIZE), ()).score(replies)


def make_small_set(folder):
    torch.manual_seed(0)
    pipeline, judges = pipeline_folder(), {"val2014.npz": statistics(), "inception.pth": inception()}
    judges["ViT-B-32.pt"] = clip()
    scores = reached(pipeline | judges, folder)
    return SmallSet(
        workload=StableDiffusionXL(),
        contents={
            "model/fp16": pipeline,
            "data/captions": captions().encode(),
            "data/latents-npy": (MINI / "latents.npy").read_bytes(),
            "accuracy/fid-stats": judges["val2014.npz"],
            "accuracy/fid-weights": judges["inception.pth"],
            "accuracy/clip-weights": judges["ViT-B-32.pt"],
        },
        smaller=f"""
captions = {IMAGES}
clip_model = "{CLIP}"
clip_sha256 = "{hashlib.sha256(judges["ViT-B-32.pt"]).hexdigest()}"
[reference]
FID_SCORE = {scores["FID_SCORE"]}
CLIP_SCORE = {scores["CLIP_SCORE"]}
""",
    )


@pytest.mark.thorough("official forms")
def test_images_are_those_of_the_official_pipeline_and_the_run_is_not_official(fetched, run_full):
    record, _ = run_full("stable-diffusion-xl", "pytorch")
    assert record.samples["dataset"] == IMAGES
    assert record.accuracy.is_met, record.accuracy.line
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "captions 16, not 5000" in said.measured
    assert "clip_model ViT-S-32-alt, not ViT-B-32-quickgelu" in said.measured
    assert not record.verdict.is_conformant
