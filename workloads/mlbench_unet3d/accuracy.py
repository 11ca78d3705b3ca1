"""DICE of kidneys and tumours, as the official script computes it.

Source: MLPerf Inference v4.1, vision/medical_imaging/3d-unet-kits19, accuracy_kits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, Target
from mlbench.toolkit import limits_by_precision
from mlbench_unet3d.preprocessing import KIDNEY, TUMOUR

SMOOTHING = 1e-6

LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.01, mean=0.002),
    half=DifferenceLimits(one=0.02, mean=0.004),
    eight_bits=DifferenceLimits(one=0.05, mean=0.02),
)
"""How many voxels may have another label than in the accuracy run, as a share of those that it found to be kidney or
tumour; the README says what was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDice:
    """How well the labels of one case fit, from 0 to 1."""

    kidney: float
    tumour: float

    @property
    def composite(self) -> float:
        """The mean of the two."""
        return (self.kidney + self.tumour) / 2


class Dice(Metric):
    """Scores ``DICE``, ``kidney`` and ``tumor``: means over all cases, with as many digits as the script prints."""

    reply_limits = LIMITS

    def __init__(
        self, label: Callable[[int], np.ndarray], count: int, targets: tuple[Target, ...], dtype: str = "uint8"
    ) -> None:
        """Store the references and limits.

        Args:
            label: returns what is right for a sample, (D, H, W) uint8.
            count: of the samples; each must have been answered once.
            targets: limits of the scores.
            dtype: how a reply's labels are stored.
        """
        self.targets = targets
        self._label = label
        self._count = count
        self._dtype = np.dtype(dtype).newbyteorder("<")

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the three scores; replies are read one at a time.

        Raises:
            InvalidRunError: a reply is of another size than its case, holds another label than 0, 1 and 2, or is to an
                unknown sample, or a sample was answered twice or never.
        """
        cases = list(self.cases(replies).values())
        kidney, tumour = (float(np.mean([getattr(case, name) for case in cases])) for name in ("kidney", "tumour"))
        composite = float(np.mean([case.composite for case in cases]))
        return {"DICE": round(composite, 5), "kidney": round(kidney, 4), "tumor": round(tumour, 4)}

    def cases(self, replies: Sequence[LoggedReply]) -> Mapping[int, CaseDice]:
        """Return the scores of each case, by the index of its sample; raises as `score`."""
        found: dict[int, CaseDice] = {}
        for reply in replies:
            if reply.index in found:
                raise InvalidRunError(f"sample {reply.index} was answered twice.")
            found[reply.index] = self._case(reply)
        if len(found) != self._count:
            raise InvalidRunError(f"{len(found)} of {self._count} samples were answered; the score needs all.")
        return found

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return the label of each voxel."""
        return np.frombuffer(reply.data, self._dtype)

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``Accuracy: mean = 0.86112, kidney = 0.9346, tumor = 0.7877``."""
        return f"Accuracy: mean = {scores['DICE']:.5f}, kidney = {scores['kidney']:.4f}, tumor = {scores['tumor']:.4f}"

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the number of voxels that differ, as a share of those that the reference found to be kidney or tumour.

        Another number of windows in a call means other kernels and another order of summation, and here and there two
        classes change places that were nearly equal. A reply that calls all background differs by all of those voxels,
        though it has most of all right.
        """
        if len(reply) != len(reference):
            return 1.0
        found, wanted = (np.frombuffer(data, self._dtype) for data in (reply, reference))
        return int(np.count_nonzero(found != wanted)) / max(1, int(np.count_nonzero(wanted)))

    def _case(self, reply: LoggedReply) -> CaseDice:
        reply.check_index(self._count)
        label = self._label(reply.index).reshape(-1)
        wanted = label.size * self._dtype.itemsize
        if len(reply.data) != wanted:
            raise reply.size_error(wanted)
        found = np.frombuffer(reply.data, self._dtype)
        if found.min() < 0 or found.max() > TUMOUR:
            raise InvalidRunError(f"the reply to sample {reply.index} contains labels other than 0, 1 and 2.")
        return case_dice(found, label)


def case_dice(found: np.ndarray, label: np.ndarray) -> CaseDice:
    """Return the scores of one case: twice what both label so, over the sum of what each does.

    Where neither labels anything, the score is 1.
    """
    kidney, tumour = (_dice(found == value, label == value) for value in (KIDNEY, TUMOUR))
    return CaseDice(kidney=kidney, tumour=tumour)


def _dice(found: np.ndarray, wanted: np.ndarray) -> float:
    shared = np.count_nonzero(found & wanted)
    return (2 * shared + SMOOTHING) / (np.count_nonzero(found) + np.count_nonzero(wanted) + SMOOTHING)
