"""The form for a backend with memory of its own: an image stays on the device from its prompt to its pixels.

Conditions and latents are state of the graphs. Slot 0 is the negative prompt's; each image of a batch has one of the
others. On a host a state would only be copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from mlbench import SLOTS, Dataset, Dim, Executable, Graph, StatefulExecutable, TensorSpec, Weights
from mlbench.toolkit import GraphInState, KeptStates, ProfileParts, host_array
from mlbench_stable_diffusion_xl.graphs import (
    HIDDEN,
    IMAGE,
    IMAGES,
    LATENTS,
    POOLED,
    TEXT_ENCODER,
    TEXT_ENCODER_2,
    TOKENS,
    UNET,
    VAE_DECODER,
    Sizes,
    Specs,
)
from mlbench_stable_diffusion_xl.program import PIXELS_PER_DECODE, Constants, TextToImage

if TYPE_CHECKING:
    import torch

PLACES, STEP, DONE, IS_FINITE = "places", "step", "done", "is_finite"
"""Names of further tensors: the slots of a call's images, the step that each takes, and what a call returns."""

ROOM = Dim(name=SLOTS, smallest=2, usual=9, largest=IMAGES.largest + 1)


class DeviceForm(ProfileParts):
    """A profile's data and networks, with the arithmetic between the networks in the graphs."""

    def __init__(self, profile: ProfileParts, sizes: Sizes, constants: Callable[[], Constants]) -> None:
        """Store the profile, the sizes of its tensors, and what reads the settings of its program."""
        self._profile = profile
        self._sizes = sizes
        self._constants = constants

    @property
    def program(self) -> ImagesInState:
        """The program, which keeps images in the graphs' state."""
        return ImagesInState(self._constants())

    def dataset(self) -> Dataset:
        """Open the profile's captions."""
        return self._profile.dataset()

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return the graphs, which share a state: conditions ``hidden`` and ``pooled``, and ``latents``."""
        sizes, constants = self._sizes, self._constants()
        specs, state, digest = _specs(sizes), _state(sizes), _digest(constants)
        return {
            name: GraphInState(
                name,
                graph,
                inputs=specs[name][0],
                outputs=specs[name][1],
                state=state,
                build=partial(_with_state, name, graph, sizes, constants),
                fingerprint=f"{graph.fingerprint}-state-{digest}",
            )
            for name, graph in self._profile.graphs(weights).items()
        }


def _state(sizes: Sizes) -> Specs:
    shapes = {HIDDEN: (sizes.tokens, sum(sizes.widths)), POOLED: (sizes.pooled,), LATENTS: sizes.latents}
    layouts = {LATENTS: "NCHW"}
    return tuple(
        TensorSpec(name=name, shape=(ROOM, *shape), dtype="float32", layout=layouts.get(name, ""))
        for name, shape in shapes.items()
    )


def _specs(sizes: Sizes) -> Mapping[str, tuple[Specs, Specs]]:
    """Return inputs and outputs of each graph; what has nothing to return returns a number for each image."""
    tokens = TensorSpec(name=TOKENS, shape=(IMAGES, sizes.tokens), dtype="int64")
    places = TensorSpec(name=PLACES, shape=(IMAGES,), dtype="int64")
    step, done, is_finite = (TensorSpec(name=name, shape=(IMAGES,), dtype="int32") for name in (STEP, DONE, IS_FINITE))
    image = TensorSpec(name=IMAGE, shape=(IMAGES, *sizes.image_hw, 3), dtype="uint8")
    return {
        UNET: ((step,), (done,)),
        TEXT_ENCODER: ((tokens, places), (done,)),
        TEXT_ENCODER_2: ((tokens, places), (done,)),
        VAE_DECODER: ((places,), (image, is_finite)),
    }


def _with_state(name: str, graph: Graph, sizes: Sizes, constants: Constants) -> torch.nn.Module:
    """Return a graph's module with what a program on the host does before and after it."""
    from mlbench_stable_diffusion_xl import modules_in_state as modules

    network = graph.module()
    if name == UNET:
        return modules.DenoisingStep(network, constants)
    if name == VAE_DECODER:
        return modules.Painter(network, constants.scaling)
    return modules.Encoder(network, first_column=0 if name == TEXT_ENCODER else sizes.widths[0])


def _digest(constants: Constants) -> str:
    """Return a hash of the numbers that are in the graphs."""
    schedule = constants.schedule
    digest = hashlib.sha256(repr((constants.guidance, constants.scaling, constants.image_hw)).encode())
    for array in (constants.start, schedule.timesteps, schedule.sigmas, np.float64(schedule.start_scale)):
        digest.update(array.tobytes())
    return digest.hexdigest()


class ImagesInState(TextToImage):
    """Denoises a batch of images in the graphs' state; only tokens and pixels travel."""

    def __init__(self, constants: Constants) -> None:
        super().__init__(constants)
        self._states = KeptStates()

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the images, as `TextToImage.run`; raises as that."""
        count, steps = len(samples), len(self.constants.schedule.timesteps)
        in_state = cast("Mapping[str, StatefulExecutable]", graphs)
        state = self._states.state_with(count + 1, in_state[UNET], partial(self._encode_negative, in_state))
        places = np.arange(1, count + 1)
        _encode(np.stack(samples), places, in_state, state)
        for step in range(steps):
            in_state[UNET]({STEP: np.full(count, step, dtype=np.int32)}, state)
            self.report_progress(step + 1, steps)
        height, width = self.constants.image_hw
        at_once = max(1, PIXELS_PER_DECODE // (height * width))
        parts = [
            in_state[VAE_DECODER]({PLACES: places[first : first + at_once]}, state)
            for first in range(0, count, at_once)
        ]
        if not all(host_array(part[IS_FINITE]).all() for part in parts):
            raise ValueError("a decoded image contains a NaN or an infinity")
        return np.concatenate([host_array(part[IMAGE]) for part in parts])

    def _encode_negative(self, graphs: Mapping[str, StatefulExecutable], state: object) -> None:
        """Write the conditions of the negative prompt."""
        _encode(self.constants.negative_tokens[np.newaxis], np.zeros(1, dtype=np.int64), graphs, state)


def _encode(tokens: np.ndarray, places: np.ndarray, graphs: Mapping[str, StatefulExecutable], state: object) -> None:
    """Write the conditions of prompts, tokens (B, 2, T), to slots."""
    for place, name in enumerate((TEXT_ENCODER, TEXT_ENCODER_2)):
        graphs[name]({TOKENS: np.ascontiguousarray(tokens[:, place]), PLACES: places}, state)
