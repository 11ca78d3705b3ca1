import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mlbench_stable_diffusion_xl.captions import Captions
from mlbench_stable_diffusion_xl.dataset import Prompts, RandomPrompts, draw_latents, read_latents

from mlbench import DataError

OFFICIAL = (4, 128, 128)


def letters(texts):
    """A tokenizer for tests: the lengths of the words, for each of two encoders."""
    return np.array([[[len(text), text.count("a")], [0, 1]] for text in texts])


def captions(*texts):
    return Captions([{"caption": text, "id": str(place)} for place, text in enumerate(texts)])


def test_a_sample_is_the_tokens_of_its_caption_while_it_is_loaded():
    data = Prompts(captions("a cat", "bananas"), letters)
    assert (data.count, data.performance_count) == (2, 2)
    data.load([1])
    np.testing.assert_array_equal(data.sample(1), [[7, 3], [0, 1]])
    data.unload([1])
    with pytest.raises(KeyError):
        data.sample(1)


def test_another_caption_is_another_fingerprint():
    assert Prompts(captions("a"), letters).fingerprint != Prompts(captions("b"), letters).fingerprint


def test_random_prompts_are_the_same_each_time_and_end_with_the_end_token():
    data = RandomPrompts(tokens=77, vocabulary=49408)
    assert data.count == 5000
    sample = data.sample(3)
    assert sample.shape == (2, 77)
    assert sample[:, -1].tolist() == [49407, 49407]
    np.testing.assert_array_equal(sample, RandomPrompts(tokens=77, vocabulary=49408).sample(3))
    assert not np.array_equal(sample, data.sample(4))


def test_drawn_latents_are_the_official_ones(golden):
    wanted = json.loads((golden / "latents" / "expected.json").read_text())
    latents = draw_latents(OFFICIAL)
    assert (list(latents.shape), latents.dtype.name) == (wanted["shape"], wanted["dtype"])
    found = latents.ravel()[wanted["flat_index"]]
    np.testing.assert_allclose(found, wanted["values"], rtol=0, atol=wanted["tolerance"]["abs"])
    assert latents.mean(dtype=np.float64) == pytest.approx(wanted["mean"], abs=1e-6)
    assert (latents.min(), latents.max()) == pytest.approx((wanted["min"], wanted["max"]), abs=1e-6)


def test_drawing_latents_leaves_torchs_own_generator_alone():
    before = torch.get_rng_state()
    draw_latents((4, 8, 8))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["latents.npy", "latents.pt"])
def test_latents_are_read_from_either_file(tmp_path, name):
    latents = draw_latents((4, 8, 8))
    if name.endswith("npy"):
        np.save(tmp_path / name, latents)
    else:
        torch.save(torch.from_numpy(latents), tmp_path / name)
    np.testing.assert_array_equal(read_latents(tmp_path / name, (4, 8, 8)), latents)


def test_latents_of_another_shape_or_dtype_are_refused(tmp_path):
    path = tmp_path / "latents.npy"
    np.save(path, np.zeros((1, 4, 64, 64), np.float32))
    with pytest.raises(DataError, match=r"\(1, 4, 64, 64\) float32, expected \(1, 4, 128, 128\) float32"):
        read_latents(path, OFFICIAL)
    np.save(path, np.zeros((1, 4, 128, 128)))
    with pytest.raises(DataError, match=r"float64, expected"):
        read_latents(path, OFFICIAL)


def test_latents_that_are_missing_damaged_or_hold_code_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"latents file not found: nowhere\.npy"):
        read_latents(Path("nowhere.npy"), OFFICIAL)
    for name in ("latents.npy", "latents.pt"):
        (tmp_path / name).write_bytes(b"noise")
        with pytest.raises(DataError, match="latents cannot be read"):
            read_latents(tmp_path / name, OFFICIAL)
    torch.save(hashlib.sha256, tmp_path / "latents.pt")
    with pytest.raises(DataError, match="latents cannot be read"):
        read_latents(tmp_path / "latents.pt", OFFICIAL)
