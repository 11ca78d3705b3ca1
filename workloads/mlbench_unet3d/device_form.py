"""The form for a backend with memory of its own: a volume and its sums stay on the device; only labels come back.

Windows overlap eightfold, so a host sends each voxel eight times, and gets as many logits of each class. On a device
voxels and sums are state of the graphs, in blocks of half a window: a slot for each block of a batch's volumes. On a
host a state would only be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from mlbench import SLOTS, BatchProgram, Dataset, Dim, Executable, Graph, StatefulExecutable, TensorSpec, Weights
from mlbench.toolkit import GraphInState, KeptStates, OneGraph, ProfileParts, host_array
from mlbench_unet3d.graphs import BATCH, CLASSES
from mlbench_unet3d.program import REPLY
from mlbench_unet3d.sliding_window import OCTANTS, gaussian_weights, window_starts

if TYPE_CHECKING:
    import torch

LOADER, SEGMENTER, LABELLER = "loader", "segmenter", "labeller"
"""Names of the graphs."""

PLACES, BLOCKS, DONE, LABELS, IS_NUMBER = "places", "blocks", "done", "labels", "is_number"
"""Names of inputs and outputs; what has nothing to return returns a number for each block or window."""

VOLUMES, SUMS = "volumes", "sums"
"""Names of the state's tensors."""

AT_ONCE = Dim(name=BLOCKS, smallest=1, usual=32, largest=64)
"""Blocks that travel in a call; one of the official size is a megabyte."""

ROOM = Dim(name=SLOTS, smallest=8, usual=256, largest=1024)
"""The largest official volume has 252 blocks."""


class DeviceForm(ProfileParts):
    """A profile's data and network, with volumes in state."""

    def __init__(self, profile: OneGraph) -> None:
        """Store the profile, whose network is a torch module."""
        self._profile = profile

    @property
    def deviations(self) -> tuple[str, ...]:
        """The profile's."""
        return self._profile.deviations

    def dataset(self) -> Dataset:
        """Open the profile's scans."""
        return self._profile.dataset()

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return ``segmenter``, ``loader`` and ``labeller``, which share the state ``volumes`` and ``sums``."""
        whole = self._profile.graph(weights)
        window = whole.inputs[0].shape[-1]
        assert isinstance(window, int)
        block = (window // 2,) * 3
        places = _spec(PLACES, (AT_ONCE,), "int64")
        in_state = partial(GraphInState, state=_state(block), fingerprint=f"{whole.fingerprint}-blocks")
        return {
            SEGMENTER: in_state(
                SEGMENTER,
                whole,
                inputs=(_spec(PLACES, (BATCH, OCTANTS), "int64"),),
                outputs=(_spec(DONE, (BATCH,), "int32"),),
                build=partial(_build_network, whole, window),
                calibrate=partial(_calibration, whole),
            ),
            LOADER: in_state(
                LOADER,
                None,
                inputs=(_spec(BLOCKS, (AT_ONCE, *block)), places),
                outputs=(_spec(DONE, (AT_ONCE,), "int32"),),
                build=_build_loader,
            ),
            LABELLER: in_state(
                LABELLER,
                None,
                inputs=(places,),
                outputs=(_spec(LABELS, (AT_ONCE, *block), "uint8"), _spec(IS_NUMBER, (AT_ONCE,), "int32")),
                build=_build_labeller,
            ),
        }


def _spec(name: str, shape: tuple[int | Dim, ...], dtype: str = "float32", layout: str = "") -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype, layout=layout)


def _state(block: tuple[int, ...]) -> tuple[TensorSpec, ...]:
    """Return the specs of voxels and of sums, in blocks of this shape."""
    return tuple(
        _spec(name, (ROOM, channels, *block), layout="NCDHW") for name, channels in ((VOLUMES, 1), (SUMS, CLASSES))
    )


def _build_network(whole: Graph, window: int) -> torch.nn.Module:
    from mlbench_unet3d.modules_in_state import WindowedNetwork

    return WindowedNetwork(whole.module(), gaussian_weights(window))


def _build_loader() -> torch.nn.Module:
    from mlbench_unet3d.modules_in_state import Loader

    return Loader()


def _build_labeller() -> torch.nn.Module:
    from mlbench_unet3d.modules_in_state import Labeller

    return Labeller()


def _calibration(whole: Graph) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the windows that the network is calibrated by, each as the only one of a state."""
    for inputs in whole.calibration():
        (image,) = inputs.values()
        for (volume,) in image:
            block = tuple(side // 2 for side in volume.shape)
            yield {
                PLACES: np.arange(OCTANTS)[np.newaxis],
                VOLUMES: view_blocks(volume, block[0]).reshape(OCTANTS, 1, *block),
                SUMS: np.zeros((OCTANTS, CLASSES, *block), dtype=np.float32),
            }


class VolumesInState(BatchProgram):
    """Answers as `Segmentation`, with voxels and sums in the graphs' state; only voxels and labels travel."""

    reply = REPLY

    def __init__(self, *, window: int, windows_per_call: int) -> None:
        """Store the voxels along each side of a window, and the most windows of a call."""
        self._window = window
        self._windows_per_call = windows_per_call
        self._states = KeptStates()

    def length(self, sample: np.ndarray) -> int:
        """Return the number of windows."""
        return len(window_starts(sample.shape, self._window))

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return the labels of each prepared volume, (D, H, W) float32 each; raises as `Segmentation.run`."""
        in_state = cast("Mapping[str, StatefulExecutable]", graphs)
        return [reply for part in self._parts(samples) for reply in self._label(samples[part], in_state)]

    def _parts(self, samples: Sequence[np.ndarray]) -> Iterator[slice]:
        """Yield volumes as far as a state has room for them; one finds room in any case."""
        first, voxels, most = 0, 0, ROOM.largest * (self._window // 2) ** 3
        for place, volume in enumerate(samples):
            if voxels + volume.size > most and first < place:
                yield slice(first, place)
                first, voxels = place, 0
            voxels += volume.size
        yield slice(first, len(samples))

    def _label(self, volumes: Sequence[np.ndarray], graphs: Mapping[str, StatefulExecutable]) -> list[np.ndarray]:
        """Return the labels of volumes that have room in one state; windows of several may share a call."""
        half, slots = self._window // 2, _place_blocks(volumes, self._window // 2)
        blocks = np.empty((slots[-1].max() + 1, half, half, half), dtype=np.float32)
        for volume, places in zip(volumes, slots, strict=True):
            blocks[places] = view_blocks(volume, half)
        state = self._states.state_with(len(blocks), graphs[SEGMENTER])
        travels = [np.arange(len(blocks))[part] for part in _slices(len(blocks), AT_ONCE.largest)]
        for places in travels:
            graphs[LOADER]({BLOCKS: blocks[places[0] : places[-1] + 1], PLACES: places}, state)
        windows = np.concatenate([_find_windows(places) for places in slots])
        for part in _slices(len(windows), self._windows_per_call):
            graphs[SEGMENTER]({PLACES: windows[part]}, state)
        found = [graphs[LABELLER]({PLACES: places}, state) for places in travels]
        if not all(host_array(each[IS_NUMBER]).all() for each in found):
            raise ValueError("NaN among the logits")
        labels = np.concatenate([host_array(each[LABELS]) for each in found])
        replies = [np.empty(volume.shape, dtype=np.uint8) for volume in volumes]
        for reply, places in zip(replies, slots, strict=True):
            view_blocks(reply, half)[...] = labels[places]
        return replies


def segmentation_in_state(graph: Graph, *, windows_per_call: int) -> VolumesInState:
    """Return the program that calls the graphs of a `DeviceForm`, given its ``segmenter``, with so many windows."""
    half = graph.state[0].shape[-1]
    assert isinstance(half, int)
    return VolumesInState(window=2 * half, windows_per_call=min(windows_per_call, BATCH.largest))


def view_blocks(volume: np.ndarray, half: int) -> np.ndarray:
    """Return a view of a volume in blocks: (D / h, H / h, W / h, h, h, h)."""
    down, back, left = (side // half for side in volume.shape)
    return volume.reshape(down, half, back, half, left, half).transpose(0, 2, 4, 1, 3, 5)


def _place_blocks(volumes: Sequence[np.ndarray], half: int) -> list[np.ndarray]:
    """Return the slot of each block, (D / h, H / h, W / h) for each volume; none is another's."""
    first, slots = 0, []
    for volume in volumes:
        grid = view_blocks(volume, half).shape[:3]
        slots.append(first + np.arange(np.prod(grid)).reshape(grid))
        first += slots[-1].size
    return slots


def _find_windows(places: np.ndarray) -> np.ndarray:
    """Return the slots of each window's blocks (N, 8), in the order of `window_starts`."""
    return np.lib.stride_tricks.sliding_window_view(places, (2, 2, 2)).reshape(-1, OCTANTS)


def _slices(count: int, most: int) -> list[slice]:
    return [slice(first, first + most) for first in range(0, count, most)]
