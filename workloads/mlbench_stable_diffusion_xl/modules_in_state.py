"""The networks of `mlbench_stable_diffusion_xl.modules` as functions of state; all between them is fp32.

State is hidden states (slots, T, W), pooled vectors (slots, P) and latents (slots, C, h, w), float32.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mlbench_stable_diffusion_xl.program import Constants

State = tuple[Tensor, Tensor, Tensor]


class Encoder(nn.Module):
    """Tokens (B, T) to columns of hidden states, and from the second network to pooled vectors."""

    def __init__(self, network: nn.Module, *, first_column: int) -> None:
        super().__init__()
        self.network = network
        self.first_column = first_column

    def forward(
        self, tokens: Tensor, places: Tensor, hidden: Tensor, pooled: Tensor, latents: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Write to these slots."""
        found = self.network(tokens)
        states = found if isinstance(found, Tensor) else found[0]
        hidden[places, :, self.first_column : self.first_column + states.shape[2]] = states.float()
        if not isinstance(found, Tensor):
            pooled[places] = found[1].float()
        return places.int(), hidden, pooled, latents


class DenoisingStep(nn.Module):
    """The step that each image (B,) takes: of slots 1 to B, with slot 0 as the negative prompt."""

    start: Tensor
    timesteps: Tensor
    scales: Tensor
    changes: Tensor
    time_ids: Tensor

    def __init__(self, network: nn.Module, constants: Constants) -> None:
        super().__init__()
        self.network = network
        self.guidance = constants.guidance
        schedule, sigmas = constants.schedule, constants.schedule.sigmas
        arrays = {
            "start": constants.start * np.float32(schedule.start_scale),
            "timesteps": schedule.timesteps,
            "scales": np.array([(sigma**2 + 1) ** 0.5 for sigma in sigmas[:-1]], dtype=np.float32),
            "changes": sigmas[1:] - sigmas[:-1],
            "time_ids": constants.time_ids,
        }
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(array))

    def forward(
        self, step: Tensor, hidden: Tensor, pooled: Tensor, latents: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take the step."""
        count, places = step.shape[0], step.long()  # ONNX takes no others
        scale, change = (each[places].reshape(count, 1, 1, 1) for each in (self.scales, self.changes))
        now = torch.where((step == 0).reshape(count, 1, 1, 1), self.start, latents[1 : count + 1])
        rows, timesteps = (now / scale).repeat(2, 1, 1, 1), self.timesteps[places].repeat(2)
        conditions = (
            torch.cat([each[:1].expand(count, *each.shape[1:]), each[1 : count + 1]]) for each in (hidden, pooled)
        )
        noise = self.network(rows, timesteps, *conditions, self.time_ids.expand(2 * count, -1)).float()
        without, with_prompt = noise[:count], noise[count:]  # ONNX has no chunks of a size that varies
        latents[1 : count + 1] = now + change * (without + self.guidance * (with_prompt - without))
        return step, hidden, pooled, latents


class Painter(nn.Module):
    """Latents of slots to images (B, H, W, 3) uint8, and whether each was decoded to numbers."""

    def __init__(self, network: nn.Module, scaling: float) -> None:
        super().__init__()
        self.network = network
        self.scaling = scaling

    def forward(
        self, places: Tensor, hidden: Tensor, pooled: Tensor, latents: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Decode these slots."""
        decoded = self.network(latents[places] / self.scaling).float()
        is_finite = torch.isfinite(decoded).flatten(1).all(dim=1).int()
        levels = ((decoded / 2 + 0.5).clamp(0, 1) * 255).round()
        return levels.permute(0, 2, 3, 1).to(torch.uint8), is_finite, hidden, pooled, latents
