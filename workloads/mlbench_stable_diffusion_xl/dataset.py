"""Prompts as tokens, and the latents that all images begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mlbench import DataError, Dataset
from mlbench.toolkit import LoadedSamples, first_line, open_regular
from mlbench_stable_diffusion_xl.captions import OFFICIAL_CAPTIONS, Captions

LATENTS_SEED = 0
"""Seed of the official latents. Source: MLPerf Inference v4.1, text_to_image/tools/generate_fp32_latents.py."""

RANDOM_SEED = 0


class Prompts(LoadedSamples[np.ndarray]):
    """Captions as tokens of both text encoders; a sample is (2, T) int64."""

    def __init__(self, captions: Captions, token_ids: Callable[[Sequence[str]], np.ndarray]) -> None:
        """Store the captions; they are tokenised as LoadGen asks for them.

        Args:
            captions: in the order of their samples.
            token_ids: from texts to (len(texts), 2, T) int64.
        """
        super().__init__(count=len(captions.texts), fingerprint=captions.fingerprint)
        self.captions = captions.texts
        self._token_ids = token_ids

    def make(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Tokenise these captions."""
        return list(self._token_ids([self.captions[index] for index in indices]))


class RandomPrompts(Dataset):
    """Seeded tokens of the official shape; nothing is read from disk."""

    count = performance_count = OFFICIAL_CAPTIONS

    def __init__(self, *, tokens: int, vocabulary: int) -> None:
        """Store the shape: positions of a prompt, and how many tokens there are."""
        self._tokens = tokens
        self._vocabulary = vocabulary

    @property
    def fingerprint(self) -> str:
        """Names the seed and the shape."""
        return f"uniform-seed{RANDOM_SEED}-{self.count}x{self._tokens}-of-{self._vocabulary}"

    def load(self, indices: Sequence[int]) -> None:
        """Do nothing: samples are drawn as they are asked for."""

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing."""

    def sample(self, index: int) -> np.ndarray:
        """Return random tokens, the last one the end token."""
        rng = np.random.default_rng((RANDOM_SEED, index))
        tokens = rng.integers(self._vocabulary - 2, size=(2, self._tokens))
        tokens[:, -1] = self._vocabulary - 1
        return tokens


def draw_latents(shape: tuple[int, int, int]) -> np.ndarray:
    """Return standard normal latents, (1, *shape) float32, as torch's CPU generator draws them from the official seed.

    For the official shape these are the official latents, up to 2.4e-7: torch's versions round differently.
    """
    import torch

    latents: np.ndarray = torch.randn((1, *shape), generator=torch.Generator().manual_seed(LATENTS_SEED)).numpy()
    return latents


def read_latents(path: Path, shape: tuple[int, int, int]) -> np.ndarray:
    """Read latents.npy or latents.pt: (1, *shape) float32.

    Raises:
        DataError: the file is missing or damaged, or the latents have another shape or dtype.
    """
    try:
        if path.suffix == ".npy":
            with open_regular(path) as file:
                latents = np.lib.format.read_array(file, allow_pickle=False)
        else:
            import torch

            with open_regular(path) as file:
                latents = torch.load(file, map_location="cpu", weights_only=True).numpy()
    except FileNotFoundError:
        raise DataError(f"latents file not found: {path}.", hint="It belongs to the official reference.") from None
    except Exception as error:  # the readers raise anything for a damaged file
        raise DataError(f"latents cannot be read: {path}: {first_line(error)}.") from None
    if latents.shape != (1, *shape) or latents.dtype != np.float32:
        raise DataError(f"latents in {path} are {latents.shape} {latents.dtype}, expected {(1, *shape)} float32.")
    return np.asarray(latents)
