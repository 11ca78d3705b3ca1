import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from mlbench import DataError


@pytest.fixture(scope="module")
def clip():
    """Return the module of the score: each process that collects tests would import open_clip."""
    from mlbench_stable_diffusion_xl import clip_score

    return clip_score


@pytest.mark.thorough("workloads")
def test_scores_of_embeddings_are_the_official_ones(golden, clip):
    case = json.loads((golden / "clip_score" / "expected.json").read_text())
    pairs = np.load(golden / "clip_score" / "embeddings.npz")
    found = clip.cosines(torch.from_numpy(pairs["image"]), torch.from_numpy(pairs["text"]))
    np.testing.assert_allclose(found, case["per_sample"], rtol=0, atol=case["tolerance"]["abs"])
    assert found.double().mean() == pytest.approx(case["mean"], abs=case["tolerance"]["abs"])


def test_an_image_and_its_caption_are_prepared_embedded_and_compared(clip):
    class Towers:
        def encode_image(self, images):
            return images

        def encode_text(self, tokens):
            return tokens.float()

    scorer = clip.ClipScorer(
        Towers(), lambda image: torch.tensor(image.size).float(), lambda text: torch.tensor([[1, 1]])
    )
    assert scorer.score(np.zeros((5, 5, 3), np.uint8), "any") == pytest.approx(100)
    assert scorer.score(np.zeros((3, 4, 3), np.uint8), "any") == pytest.approx(100 * 7 / (5 * 2**0.5))


@pytest.mark.slow
class TestOfficialModel:
    """ViT-B/32 with weights freshly drawn: OpenAI's are not at hand."""

    @pytest.mark.thorough("workloads")
    def test_it_is_built_with_quickgelu_and_openais_preparation(self, tmp_path, clip):
        torch.manual_seed(0)
        model, _, _ = clip.open_clip.create_model_and_transforms("ViT-B-32-quickgelu")
        save_file(model.state_dict(), tmp_path / "open_clip_model.safetensors")
        scorer = clip.official_scorer(tmp_path / "open_clip_model.safetensors")
        assert type(scorer.model.visual.transformer.resblocks[0].mlp.gelu).__name__ == "QuickGELU"
        image = np.full((512, 1024, 3), 255, np.uint8)
        prepared = scorer.prepare(Image.fromarray(image))
        assert prepared.shape == (3, 224, 224)
        white = (1 - np.array([0.48145466, 0.4578275, 0.40821073])) / [0.26862954, 0.26130258, 0.27577711]
        np.testing.assert_allclose(prepared[:, 0, 0], white, rtol=1e-5)
        assert scorer.tokenize("a dog").tolist()[0][:4] == [49406, 320, 1929, 49407]
        assert -100 <= scorer.score(image, "a dog") <= 100

    def test_weights_that_are_missing_of_another_network_or_not_openais_are_refused(self, tmp_path, clip):
        with pytest.raises(DataError, match=r"weights file not found: nowhere\.safetensors"):
            clip.official_scorer(Path("nowhere.safetensors"))
        save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
        with pytest.raises(DataError, match="contains no weights of ViT-B-32-quickgelu"):
            clip.official_scorer(tmp_path / "other.safetensors")
        (tmp_path / "ViT-B-32.pt").write_bytes(b"an archive that may hold code")
        with pytest.raises(DataError, match="corrupt or another version"):
            clip.official_scorer(tmp_path / "ViT-B-32.pt")
