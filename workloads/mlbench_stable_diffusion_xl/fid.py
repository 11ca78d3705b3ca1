"""Fréchet Inception distance, as the official script computes it, with torch-fidelity's networks and arithmetic.

Source: MLPerf Inference v4.1, text_to_image/tools/fid.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch_fidelity.feature_extractor_base import FeatureExtractorBase
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.registry import FEATURE_EXTRACTORS_REGISTRY, register_feature_extractor
from torch_fidelity.utils import create_feature_extractor

from mlbench import DataError
from mlbench.toolkit import first_line, load_weights, open_regular
from mlbench_stable_diffusion_xl.judge import FEATURES, Judge

OFFICIAL_INCEPTION, MINI_JUDGE = "mlperf-inception-v3", "mlbench-digit-judge"
"""The names that torch-fidelity knows the extractors by."""

Extractor = Callable[[np.ndarray], np.ndarray]
"""From images (B, H, W, 3) uint8 to features (B, D) float64."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean (D,) and covariance (D, D) of features, float64."""

    mu: np.ndarray
    sigma: np.ndarray


def statistics_of(features: np.ndarray) -> Statistics:
    """Return the statistics of features (N, D): widened to float64 first; the covariance divides by N - 1."""
    found = fid_features_to_statistics(torch.from_numpy(features.astype(np.float64)))
    return Statistics(found["mu"], np.atleast_2d(found["sigma"]))


def frechet_distance(reference: Statistics, generated: Statistics) -> float:
    """Return the distance between two normal distributions with these statistics."""
    first, second = ({"mu": each.mu, "sigma": each.sigma} for each in (reference, generated))
    return float(fid_statistics_to_metric(first, second, verbose=False)[KEY_METRIC_FID])


def read_statistics(path: Path) -> Statistics:
    """Read ``mu`` and ``sigma`` of a .npz file, such as the official val2014.npz.

    Raises:
        DataError: the file is missing, damaged, or holds something else.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as content:
            found = Statistics(content["mu"].astype(np.float64), content["sigma"].astype(np.float64))
    except FileNotFoundError:
        raise DataError(f"statistics file not found: {path}.", hint="Expected the official val2014.npz.") from None
    except Exception as error:  # NumPy raises anything for a damaged file
        raise DataError(
            f"statistics cannot be read: {path}: {first_line(error)}.", hint="Expected val2014.npz."
        ) from None
    if found.mu.ndim != 1 or found.sigma.shape != (len(found.mu), len(found.mu)):
        raise DataError(f"statistics in {path} are {found.mu.shape} and {found.sigma.shape}, expected (D,) and (D, D).")
    return found


class OfficialInception(FeatureExtractorInceptionV3):  # type: ignore[misc] # an untyped library
    """The FID network, fed as the official script feeds it: torch's resize, where torch-fidelity has TensorFlow's."""

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Return the 2048 values before the last layer, of images (B, 3, H, W) uint8."""
        size = (self.INPUT_IMAGE_SIZE, self.INPUT_IMAGE_SIZE)
        x = 2 * functional.interpolate(images.float() / 255, size, mode="bilinear", align_corners=False) - 1
        for name, layer in self.named_children():  # in the order of the network
            if name != "fc":
                x = layer(x)
        return (x.flatten(1),)


class JudgeFeatures(FeatureExtractorBase):  # type: ignore[misc] # an untyped library
    """The mini profile's features: what its judge sees before it decides."""

    def __init__(self, name: str, features_list: list[str], feature_extractor_weights_path: Path, **_: object) -> None:
        super().__init__(name, features_list)
        self.judge = read_judge(feature_extractor_weights_path)

    @staticmethod
    def get_provided_features_list() -> tuple[str, ...]:
        """Return the only layer."""
        return (str(FEATURES),)

    @staticmethod
    def get_default_feature_layer_for_metric(metric: str) -> str:
        """Return it for every metric."""
        return str(FEATURES)

    @staticmethod
    def can_be_compiled() -> bool:
        """Return that it is allowed."""
        return True

    @staticmethod
    def get_dummy_input_for_compile() -> Tensor:
        """Return two black pictures."""
        return torch.zeros(2, 3, 32, 32, dtype=torch.uint8)

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Return the features of images (B, 3, 32, 32) uint8."""
        return (self.judge.features(images),)


def read_judge(path: Path) -> Judge:
    """Return the judge with the weights of a file; raises `DataError` as `load_weights`."""
    judge = Judge()
    judge.load_state_dict(dict(load_weights(path)))
    return judge.eval()


def official_extractor(weights: Path) -> Extractor:
    """Return the FID network with the official weights.

    Args:
        weights: pt_inception-2015-12-05-6726825d.pth; torch-fidelity's own download has the same tensors.

    Raises:
        DataError: the file is missing or damaged, or holds the weights of another network.
    """
    # torch-fidelity would unpickle the user's file; it gets a copy of the tensors that torch read as data
    copied = io.BytesIO()
    torch.save(dict(load_weights(weights, hint="Expected pt_inception-2015-12-05-6726825d.pth.")), copied)
    copied.seek(0)
    try:
        return _extractor(OFFICIAL_INCEPTION, "2048", copied)
    except RuntimeError as error:
        raise DataError(f"{weights} contains no weights of the FID network: {first_line(error)}.") from None


def mini_extractor(weights: Path) -> Extractor:
    """Return the judge's features; raises `DataError` as `load_weights`."""
    return _extractor(MINI_JUDGE, str(FEATURES), weights)


def _extractor(name: str, layer: str, weights: Path | io.BytesIO) -> Extractor:
    network = create_feature_extractor(name, [layer], cuda=False, feature_extractor_weights_path=weights, verbose=False)

    def features(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            (found,) = network(torch.from_numpy(images).permute(0, 3, 1, 2))
        return found.double().numpy()  # type: ignore[no-any-return]

    return features


for _name, _kind in ((OFFICIAL_INCEPTION, OfficialInception), (MINI_JUDGE, JudgeFeatures)):
    if _name not in FEATURE_EXTRACTORS_REGISTRY:
        register_feature_extractor(_name, _kind)
