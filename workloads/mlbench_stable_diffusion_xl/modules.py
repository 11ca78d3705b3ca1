"""The parts of the model as functions of tensors: what the pipeline takes from each, and nothing else."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

BEFORE_LAST = -2
"""Which hidden state the denoiser reads: what goes into the last layer."""


class _Part(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model


class FirstEncoder(_Part):
    """Tokens (B, T) to hidden states (B, T, W)."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the states before the last layer."""
        hidden: Tensor = self.model(tokens, output_hidden_states=True).hidden_states[BEFORE_LAST]
        return hidden


class SecondEncoder(_Part):
    """Tokens (B, T) to hidden states (B, T, W) and the projected vector of the whole prompt (B, P)."""

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states before the last layer, and what the projection makes of the last at the end token."""
        found = self.model(tokens, output_hidden_states=True)
        return found.hidden_states[BEFORE_LAST], found.text_embeds


class Denoiser(_Part):
    """Noisy latents (R, C, h, w), with what they are to become, to the noise in them."""

    def forward(self, latents: Tensor, timestep: Tensor, hidden: Tensor, pooled: Tensor, time_ids: Tensor) -> Tensor:
        """Return the predicted noise."""
        conditions = {"text_embeds": pooled, "time_ids": time_ids}
        noise: Tensor = self.model(latents, timestep, hidden, added_cond_kwargs=conditions, return_dict=False)[0]
        return noise


class Decoder(_Part):
    """Latents (B, C, h, w), not scaled any more, to images (B, 3, H, W) around -1 .. 1."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        del model.encoder, model.quant_conv  # never called; a third of the weights

    def forward(self, latents: Tensor) -> Tensor:
        """Return the images."""
        image: Tensor = self.model.decoder(self.model.post_quant_conv(latents))
        return image
