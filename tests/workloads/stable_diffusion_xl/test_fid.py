import json

import numpy as np
import pytest
import torch
from mlbench_stable_diffusion_xl.fid import (
    Statistics,
    frechet_distance,
    mini_extractor,
    official_extractor,
    read_statistics,
    statistics_of,
)
from mlbench_stable_diffusion_xl.judge import Judge
from safetensors.torch import save_file
from torch.nn import functional
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from mlbench import DataError

DISTANCES = ["1d", "2d_diagonal", "32_rank_deficient", "64_full_rank", "identical_16", "zero_covariance"]


@pytest.mark.parametrize("name", DISTANCES)
def test_the_distance_of_two_distributions_is_the_official_one(golden, name):
    folder = golden / f"frechet_{name}"
    case, stats = json.loads((folder / "expected.json").read_text()), np.load(folder / "stats.npz")
    found = frechet_distance(Statistics(stats["mu1"], stats["sigma1"]), Statistics(stats["mu2"], stats["sigma2"]))
    tolerance = case["tolerance"]
    assert found == pytest.approx(case["fid"], abs=tolerance.get("abs", 0), rel=tolerance.get("rel", 0))


@pytest.mark.parametrize("name", ["a", "b"])
def test_features_become_statistics_and_a_distance_as_officially(golden, name):
    folder = golden / f"features_{name}"
    case, features = json.loads((folder / "expected.json").read_text()), np.load(folder / "features.npz")
    reference, generated = (statistics_of(features[each]) for each in ("reference", "generated"))
    np.testing.assert_allclose(reference.mu, case["mu_reference"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(generated.mu, case["mu_generated"], rtol=0, atol=1e-12)
    assert np.trace(reference.sigma) == pytest.approx(case["trace_sigma_reference"], rel=1e-12)
    assert np.trace(generated.sigma) == pytest.approx(case["trace_sigma_generated"], rel=1e-12)
    np.testing.assert_allclose(generated.sigma[0], case["sigma_generated_first_row"], rtol=0, atol=1e-12)
    assert frechet_distance(reference, generated) == pytest.approx(case["fid"], abs=1e-6)


def test_statistics_are_read_or_refused(tmp_path):
    path = tmp_path / "val2014.npz"
    np.savez(path, mu=np.zeros(3), sigma=np.eye(3))
    assert read_statistics(path).sigma.trace() == 3
    np.savez(path, mu=np.zeros(3), sigma=np.eye(4))
    with pytest.raises(DataError, match=r"are \(3,\) and \(4, 4\), expected"):
        read_statistics(path)
    np.savez(path, mean=np.zeros(3))
    with pytest.raises(DataError, match=r"statistics cannot be read.*mu.*Expected val2014\.npz"):
        read_statistics(path)
    path.unlink()
    with pytest.raises(DataError, match="statistics file not found"):
        read_statistics(path)


def pictures(count, size):
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def test_the_mini_extractor_gives_what_the_judge_sees_before_it_decides(tmp_path):
    torch.manual_seed(0)
    judge, images = Judge().eval(), pictures(3, 32)
    save_file(judge.state_dict(), tmp_path / "judge.safetensors")
    found = mini_extractor(tmp_path / "judge.safetensors")(images)
    assert (found.shape, found.dtype.name) == ((3, 64), "float64")
    with torch.inference_mode():
        logits = judge(torch.from_numpy(images).permute(0, 3, 1, 2))
        np.testing.assert_allclose(judge.head(torch.from_numpy(found).float()), logits, atol=1e-5)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        patch.setattr(torch, "load", lambda *_, **__: None)
        torch.manual_seed(0)
        network = FeatureExtractorInceptionV3("any", ["2048"], feature_extractor_weights_path="any")
    path = tmp_path_factory.mktemp("inception") / "pt_inception-2015-12-05-6726825d.pth"
    torch.save(network.state_dict(), path)
    return path


@pytest.mark.slow
class TestOfficialNetwork:
    """torch-fidelity's network with weights freshly drawn: the official file is not at hand."""

    def test_it_sees_images_as_the_official_script_resizes_them(self, weights):
        """Where nothing is resized and grey values meet, the network is torch-fidelity's own."""
        images = pictures(2, 299)
        found = official_extractor(weights)(images)
        assert found.shape == (2, 2048)
        network = FeatureExtractorInceptionV3("any", ["2048"], feature_extractor_weights_path=weights)
        scaled = torch.from_numpy(images).permute(0, 3, 1, 2).float() * (
            256 / 255
        )  # (x - 128) / 128 is then 2x/255 - 1
        with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "is_tensor", lambda _: True)
            patch.setattr("torch_fidelity.feature_extractor_inceptionv3.vassert", lambda *_: None)
            (wanted,) = network(scaled)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)

    @pytest.mark.thorough("workloads")
    def test_a_larger_image_is_shrunk_without_smoothing(self, weights):
        images = pictures(1, 598)
        shrunk = functional.interpolate(
            torch.from_numpy(images).permute(0, 3, 1, 2).float(), (299, 299), mode="bilinear", align_corners=False
        )
        whole = shrunk.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        extractor = official_extractor(weights)
        # rounding to whole grey values is all that is between the two
        np.testing.assert_allclose(extractor(images), extractor(whole), rtol=0.05, atol=0.02)

    def test_weights_that_are_missing_of_another_network_or_hold_code_are_refused(self, weights, tmp_path):
        with pytest.raises(DataError, match="weights file not found"):
            official_extractor(tmp_path / "nowhere.pth")
        torch.save({"fc.weight": torch.zeros(2)}, tmp_path / "other.pth")
        with pytest.raises(DataError, match="contains no weights of the FID network"):
            official_extractor(tmp_path / "other.pth")
        torch.save({"fc.weight": print}, tmp_path / "code.pth")
        with pytest.raises(DataError, match="weights file cannot be read"):
            official_extractor(tmp_path / "code.pth")
