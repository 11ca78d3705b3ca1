"""FID and CLIP score, as the official script computes them; and on mini, whether the digit is the one asked for.

Source: MLPerf Inference v4.1, text_to_image/tools/accuracy_coco.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, Target
from mlbench.toolkit import limits_by_precision

if TYPE_CHECKING:
    from mlbench_stable_diffusion_xl.fid import Extractor, Statistics

FID_SCORE, CLIP_SCORE, DIGIT_RATE = "FID_SCORE", "CLIP_SCORE", "DIGIT_RATE"

OFFICIAL_CLIP = "ViT-B-32-quickgelu"
"""The official script asks for ViT-B-32, to which the releases of its time gave QuickGELU with these weights."""

OPENAI_SHA256 = "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af"
"""The checksum of OpenAI's own file of these weights; it is a part of its address."""

LEVELS = 255

LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=1 / LEVELS, mean=0.2 / LEVELS),
    half=DifferenceLimits(one=4 / LEVELS, mean=2 / LEVELS),
    eight_bits=DifferenceLimits(one=8 / LEVELS, mean=4 / LEVELS),
)
"""Limits of the pixels' mean difference from the accuracy run's; the README has the measurements."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judges:
    """Networks that judge the images, read from their files."""

    reference: Statistics
    """Statistics of real images."""
    features: Extractor
    """From images (B, H, W, 3) uint8 to the features whose statistics are compared."""
    clip: Callable[[np.ndarray, str], float]
    """Similarity of an image (H, W, 3) uint8 and its caption, in percent."""
    is_right: Callable[[np.ndarray, str], bool] | None = None
    """Whether an image shows the digit in its caption; on mini only."""


class ImageQuality(Metric):
    """Scores ``FID_SCORE`` and ``CLIP_SCORE``, and ``DIGIT_RATE`` in percent where there is a judge of digits."""

    reply_limits = LIMITS

    shown: Sequence[int] = ()
    """Indices of the samples whose images a submission shows; empty: v4.1's; a smaller set has others."""

    def __init__(
        self,
        judges: Callable[[], Judges],
        captions: Sequence[str],
        image_hw: tuple[int, int],
        targets: tuple[Target, ...],
    ) -> None:
        """Store what to look at.

        Args:
            judges: reads the networks; called when there are replies to score.
            captions: of each sample.
            image_hw: height and width of a reply.
            targets: limits of the scores.
        """
        self.targets = targets
        self._judges = judges
        self._captions = captions
        self._image_shape = (*image_hw, 3)

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores; the first reply to a sample counts. Replies are read one at a time.

        Raises:
            InvalidRunError: a reply is of another size than an image or to an unknown sample, or fewer than two samples
                were answered, of which no statistics can be made.
        """
        judges = self._judges()
        features, clip_scores, are_right = [], [], []
        for index, image in self.images(replies):
            caption = self._captions[index]
            features.append(judges.features(image[np.newaxis])[0])
            clip_scores.append(judges.clip(image, caption))
            if judges.is_right:
                are_right.append(judges.is_right(image, caption))
        if len(features) < 2:
            raise InvalidRunError(f"{len(features)} samples were answered; FID needs two at least.")
        return {**_means(features, clip_scores, judges.reference), **_rate(are_right)}

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return the levels of all pixels, as numbers."""
        return np.frombuffer(reply.data, np.uint8).astype(np.float32)

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``Accuracy Results: {'FID_SCORE': 23.454395533934246, 'CLIP_SCORE': 31.78304835319519}``."""
        return f"Accuracy Results: { {name: float(scores[name]) for name in (FID_SCORE, CLIP_SCORE)} }"

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the mean difference of pixels, as a share of the 255 levels.

        Another number of images in a batch means other kernels and another order of summation, which 20 steps carry on.
        In fp32 that moves hardly a pixel, by a level. Images of other captions are dozens of levels apart.
        """
        if len(reply) != len(reference) or not reply:
            return 1.0
        found, wanted = (np.frombuffer(data, np.uint8).astype(np.int16) for data in (reply, reference))
        return float(np.abs(found - wanted).mean()) / LEVELS

    def write_artifacts(self, replies: Sequence[LoggedReply], folder: Path) -> None:
        """Write the ten images of a submission with their captions, and a sheet of the first hundred."""
        from mlbench_stable_diffusion_xl.exhibits import write_contact_sheet, write_submission_images

        write_submission_images(self.images(replies), self._captions, folder / "images", self.shown)
        write_contact_sheet(self.images(replies), folder / "contact_sheet.png")

    def images(self, replies: Sequence[LoggedReply]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield index and image of each sample's first reply; raises as `score`."""
        seen: set[int] = set()
        wanted = int(np.prod(self._image_shape))
        for reply in replies:
            if reply.index in seen:
                continue
            seen.add(reply.index)
            reply.check_index(len(self._captions))
            if len(reply.data) != wanted:
                raise reply.size_error(wanted)
            yield reply.index, np.frombuffer(reply.data, np.uint8).reshape(self._image_shape).copy()


def _means(features: Sequence[np.ndarray], clip_scores: Sequence[float], reference: Statistics) -> Mapping[str, float]:
    from mlbench_stable_diffusion_xl.fid import frechet_distance, statistics_of

    distance = frechet_distance(reference, statistics_of(np.stack(features)))
    return {FID_SCORE: distance, CLIP_SCORE: float(np.mean(clip_scores))}


def _rate(are_right: Sequence[bool]) -> Mapping[str, float]:
    return {DIGIT_RATE: 100 * float(np.mean(are_right))} if are_right else {}
