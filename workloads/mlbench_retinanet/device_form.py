"""The form for a backend with memory of its own: the graph ends with the best logits of each level.

At full size an image has 32 million logits, 127 MB, of which 0.1 MB matter: what travels to the host decides the speed
of a device. A host needs the sort less than it costs, so there the graph ends with all logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mlbench import BatchProgram, Dataset, Executable, Graph, TensorSpec, Weights
from mlbench.toolkit import ModuleGraph, OneGraph, host_array, stack
from mlbench_retinanet.anchors import PER_PLACE
from mlbench_retinanet.detection import Candidates, Decoder, Selection
from mlbench_retinanet.graphs import BATCH, IMAGE, Architecture
from mlbench_retinanet.program import REPLY, PreparedImage, build_decoder, reply_rows

if TYPE_CHECKING:
    import torch


class DeviceForm(OneGraph):
    """A profile's data and network, with the choice of candidates in the graph."""

    def __init__(self, profile: OneGraph, architecture: Architecture, selection: Selection) -> None:
        """Store the profile, the dimensions of its network, and which answers count."""
        self._profile = profile
        self._architecture = architecture
        self._selection = selection

    @property
    def program(self) -> CandidateDetection:
        """What feeds the graph and reads detections from its outputs."""
        decoder = build_decoder(self._architecture, self._selection)
        return CandidateDetection(decoder, self._architecture)

    def dataset(self) -> Dataset:
        """Open the profile's images."""
        return self._profile.dataset()

    def graph(self, weights: Weights) -> Graph:
        """Return ``images`` -> ``logits`` (B, N), ``places`` (B, N), ``offsets`` (B, N, 4), as in `Candidates`."""
        whole, per_level = self._profile.graph(weights), self._selection.per_level
        sizes = [PER_PLACE * height * width for height, width in self._architecture.map_shapes]
        counts = [min(per_level, size * self._architecture.classes) for size in sizes]
        shapes = {"logits": (BATCH, sum(counts)), "places": (BATCH, sum(counts)), "offsets": (BATCH, sum(counts), 4)}
        dtypes = {"logits": "float32", "places": "int32", "offsets": "float32"}
        return ModuleGraph(
            whole.name,
            inputs=whole.inputs,
            outputs=tuple(TensorSpec(name=name, shape=shapes[name], dtype=dtypes[name]) for name in Candidates._fields),
            build=lambda: _with_candidates(whole.module(), sizes, counts),
            fingerprint=f"{whole.fingerprint}-best{per_level}",
            calibrate=whole.calibration,
        )


class CandidateDetection(BatchProgram):
    """Looks at a batch in one call of the graph ``detector``, and reads detections from its candidates."""

    reply = REPLY

    def __init__(self, decoder: Decoder, architecture: Architecture) -> None:
        """Store how detections are read from candidates, and the network's dimensions."""
        self._decoder = decoder
        self._classes = architecture.classes
        self._image_hw = architecture.image_hw

    def run(self, samples: Sequence[PreparedImage], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return (detections, 7) float32 for each image."""
        outputs = graphs["detector"]({IMAGE: stack([each.pixels for each in samples])})
        candidates = Candidates(*(host_array(outputs[name]) for name in Candidates._fields))
        found = self._decoder.detections_among(candidates, self._classes)
        return [reply_rows(sample.index, each, self._image_hw) for sample, each in zip(samples, found, strict=True)]


def _with_candidates(network: torch.nn.Module, sizes: Sequence[int], counts: Sequence[int]) -> torch.nn.Module:
    """Return a network that ends with its best logits.

    Args:
        network: returns logits (B, anchors, classes) and offsets (B, anchors, 4).
        sizes: anchors of each level.
        counts: logits of each level that go on.
    """
    import torch

    class BestCandidates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            logits, offsets = self.network(images)
            classes, start, best = logits.shape[2], 0, []
            for size, count in zip(sizes, counts, strict=True):
                values, places = logits[:, start : start + size].flatten(1).topk(count)
                best.append((values, places + start * classes))
                start += size
            values, places = (torch.cat(parts, dim=1) for parts in zip(*best, strict=True))
            anchors = (places // classes).unsqueeze(-1).expand(-1, -1, 4)
            return values.float(), places.int(), offsets.gather(1, anchors).float()

    return BestCandidates()
