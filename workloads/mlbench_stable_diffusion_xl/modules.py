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


class DeepDenoiser(_Part):
    """`Denoiser`, which returns the input of its last block, too: (R, D, h, w)."""

    def forward(
        self, latents: Tensor, timestep: Tensor, hidden: Tensor, pooled: Tensor, time_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the predicted noise and the deep features."""
        unet, embedded = self.model, _embed(self.model, latents, timestep, pooled, time_ids)
        sample = unet.conv_in(latents)
        skipped = [sample]
        for block in unet.down_blocks:
            sample, found = block(hidden_states=sample, temb=embedded, **_attends_to(block, hidden))
            skipped += found
        sample = unet.mid_block(sample, embedded, **_attends_to(unet.mid_block, hidden))
        for block in unet.up_blocks[:-1]:
            skipped, taken = skipped[: -len(block.resnets)], tuple(skipped[-len(block.resnets) :])
            known = {"temb": embedded, "res_hidden_states_tuple": taken}
            sample = block(hidden_states=sample, **known, **_attends_to(block, hidden))
        return _end(unet, sample, embedded, skipped), sample


class ShallowDenoiser(_Part):
    """What is left of `DeepDenoiser` where the deep features are known, (R, D, h, w)."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        del model.down_blocks[1:], model.up_blocks[:-1], model.mid_block, model.down_blocks[0].downsamplers

    def forward(self, latents: Tensor, timestep: Tensor, pooled: Tensor, time_ids: Tensor, deep: Tensor) -> Tensor:
        """Return the predicted noise."""
        unet, embedded = self.model, _embed(self.model, latents, timestep, pooled, time_ids)
        sample = unet.conv_in(latents)
        skipped = [sample]
        for layer in unet.down_blocks[0].resnets:
            sample = layer(sample, embedded)
            skipped.append(sample)
        return _end(unet, deep, embedded, skipped)


def _embed(unet: Any, latents: Tensor, timestep: Tensor, pooled: Tensor, time_ids: Tensor) -> Tensor:
    """Return the embedding of time, sizes and the whole prompt: (R, E)."""
    time: Tensor = unet.time_embedding(unet.get_time_embed(sample=latents, timestep=timestep), None)
    conditions = {"text_embeds": pooled, "time_ids": time_ids}
    added: Tensor = unet.get_aug_embed(emb=time, encoder_hidden_states=None, added_cond_kwargs=conditions)
    return time + added


def _attends_to(block: Any, hidden: Tensor) -> dict[str, Tensor]:
    """Return the argument of a block with attention to the prompt."""
    return {"encoder_hidden_states": hidden} if getattr(block, "has_cross_attention", False) else {}


def _end(unet: Any, deep: Tensor, embedded: Tensor, skipped: list[Tensor]) -> Tensor:
    """Return the noise that the last block and what follows it make of deep features."""
    sample = unet.up_blocks[-1](hidden_states=deep, temb=embedded, res_hidden_states_tuple=tuple(skipped))
    noise: Tensor = unet.conv_out(unet.conv_act(unet.conv_norm_out(sample)))
    return noise
