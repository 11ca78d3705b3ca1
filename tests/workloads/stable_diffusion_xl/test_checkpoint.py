import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from mlbench_stable_diffusion_xl.architecture import OFFICIAL
from mlbench_stable_diffusion_xl.checkpoint import MODELS, Checkpoint
from safetensors.torch import load_file, save_file

from mlbench import DataError

UNET = "unet/diffusion_pytorch_model.safetensors"


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return Path(shutil.copytree(tiny_folder, tmp_path / "pipe"))


def edited(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("part", MODELS)
def test_each_model_is_read_with_the_weights_that_diffusers_wrote(tiny_folder, tiny_pipeline, part):
    found = Checkpoint.opened(tiny_folder).module(part).state_dict()
    wanted = getattr(tiny_pipeline, part).state_dict()
    assert set(found) == set(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert not any(tensor.is_meta for tensor in found.values())


def test_prompts_are_filled_up_with_the_end_token_for_one_encoder_and_token_0_for_the_other(tiny_folder):
    tokens = Checkpoint.opened(tiny_folder).token_ids(["a red three", "word " * 50])
    assert (tokens.shape, tokens.dtype.name) == ((2, 2, 32), "int64")
    begin, end = 616, 617
    assert tokens[0, :, 0].tolist() == [begin, begin]
    assert tokens[0, 0, 4:].tolist() == [end] * 28
    assert tokens[0, 1, 4:].tolist() == [end] + [0] * 27
    assert tokens[1, :, -1].tolist() == [end, end], "a long prompt is cut off, and ends"


def test_a_tokenizer_in_two_files_as_the_official_one_reads_alike(folder, tiny_folder):
    for name in ("tokenizer", "tokenizer_2"):
        whole = json.loads((folder / name / "tokenizer.json").read_text())["model"]
        (folder / name / "vocab.json").write_text(json.dumps(whole["vocab"]))
        merges = "".join(" ".join(pair) + "\n" for pair in whole["merges"])
        (folder / name / "merges.txt").write_text("#version: 0.2\n" + merges)
        (folder / name / "tokenizer.json").unlink()
    captions = ["a red three on a black ground", "Two CUPS of tea, 1999!"]
    found, wanted = (Checkpoint.opened(each).token_ids(captions) for each in (folder, tiny_folder))
    np.testing.assert_array_equal(found, wanted)


def test_the_archive_of_mlcommons_and_its_fp16_files_are_found(folder, tmp_path, tiny_pipeline):
    half = {name: tensor.half() for name, tensor in load_file(folder / UNET).items()}
    save_file(half, (folder / UNET).with_suffix(".fp16.safetensors"))
    (folder / UNET).unlink()
    folder.rename(tmp_path / "checkpoint_pipe")
    checkpoint = Checkpoint.opened(tmp_path)
    state = checkpoint.module("unet").state_dict()
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}
    weight = tiny_pipeline.unet.conv_in.weight
    torch.testing.assert_close(state["conv_in.weight"], weight.detach(), rtol=1e-3, atol=1e-4)


def test_weights_in_several_files_are_put_together(folder):
    state = load_file(folder / UNET)
    names = sorted(state)
    files = {"a.safetensors": names[:50], "b.safetensors": names[50:]}
    for file, part in files.items():
        save_file({name: state[name] for name in part}, folder / "unet" / file)
    (folder / UNET).unlink()
    index = {"weight_map": {name: file for file, part in files.items() for name in part}}
    (folder / f"{UNET}.index.json").write_text(json.dumps(index))
    checkpoint = Checkpoint.opened(folder)
    assert torch.equal(checkpoint.module("unet").state_dict()[names[-1]], state[names[-1]])
    (folder / "unet" / "b.safetensors").unlink()
    with pytest.raises(DataError, match=r"weights file not found: .*b\.safetensors, which the index lists"):
        checkpoint.module("unet")


def test_other_weights_or_another_configuration_are_another_fingerprint(folder):
    checkpoint = Checkpoint.opened(folder)
    before = {part: checkpoint.fingerprint(part) for part in MODELS}
    assert len(set(before.values())) == 4
    edited(folder / "vae" / "config.json", scaling_factor=1.0)
    state = load_file(folder / UNET)
    state["conv_in.bias"][0] += 1
    save_file(state, folder / UNET)
    changed = {part for part in MODELS if checkpoint.fingerprint(part) != before[part]}
    assert changed == {"vae", "unet"}


def test_a_model_that_is_not_the_official_one_is_named(tiny_folder):
    with pytest.raises(DataError, match="text_encoder has vocab_size = 618, expected 49408"):
        Checkpoint.opened(tiny_folder).check(OFFICIAL)


def test_a_folder_that_is_no_diffusers_model_is_refused(folder, tmp_path):
    with pytest.raises(DataError, match=r"diffusers model cannot be read: nowhere/model_index\.json: No such file"):
        Checkpoint.opened(Path("nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"diffusers model cannot be read.*Expected the folder of the pipeline"):
        Checkpoint.opened(tmp_path / "empty")
    edited(folder / "model_index.json", _class_name="StableDiffusionXLImg2ImgPipeline")
    with pytest.raises(DataError, match="contains a StableDiffusionXLImg2ImgPipeline, not a StableDiffusionXLPipeline"):
        Checkpoint.opened(folder)
    (folder / "model_index.json").write_text("{")
    with pytest.raises(DataError, match=r"model_index\.json is not JSON"):
        Checkpoint.opened(folder)


def test_a_folder_that_lacks_a_part_is_refused(folder):
    shutil.rmtree(folder / "tokenizer_2")
    with pytest.raises(DataError, match="has no folder tokenizer_2"):
        Checkpoint.opened(folder)


def test_weights_that_are_missing_damaged_or_of_another_model_are_refused(folder):
    checkpoint = Checkpoint.opened(folder)
    state = load_file(folder / UNET)
    save_file({name: tensor for name, tensor in state.items() if name != "conv_in.bias"}, folder / UNET)
    with pytest.raises(DataError, match=r"weights file lacks conv_in\.bias: .*unet"):
        checkpoint.module("unet")
    save_file({**state, "conv_in.bias": torch.zeros(3)}, folder / UNET)
    with pytest.raises(DataError, match=r"conv_in\.bias is \(3,\), not \(32,\): .*unet"):
        checkpoint.module("unet")
    (folder / UNET).write_bytes(b"noise")
    with pytest.raises(DataError, match="weights file cannot be read"):
        checkpoint.module("unet")
    (folder / UNET).rename(folder / "unet" / "diffusion_pytorch_model.bin")
    with pytest.raises(DataError, match="contains no safetensors weights"):
        checkpoint.module("unet")


def test_another_scheduler_is_refused(folder):
    edited(folder / "scheduler" / "scheduler_config.json", _class_name="DDIMScheduler")
    with pytest.raises(DataError, match="has the scheduler DDIMScheduler, expected EulerDiscreteScheduler"):
        Checkpoint.opened(folder).schedule(20)


def test_a_damaged_tokenizer_is_named(folder):
    (folder / "tokenizer_2" / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match="tokenizer_2 is not a tokenizer"):
        Checkpoint.opened(folder).token_ids(["a"])
    (folder / "tokenizer_2" / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer_2 (is not a tokenizer|has .* tokens)"):
        Checkpoint.opened(folder).token_ids(["a"])
