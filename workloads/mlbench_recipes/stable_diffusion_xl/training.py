"""How the parts of the mini profile are trained: autoencoder, denoiser with text encoders, judge and CLIP.

One function each, from seeded data to weights; `recipe.py` says in which order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from mlbench_stable_diffusion_xl.digits import COLOURS, WORDS, Motif
from torch import Tensor, nn
from torch.nn import functional

from mlbench_recipes.handwritten_digits import SEED, Digits
from mlbench_recipes.stable_diffusion_xl.pictures import draw, random_motifs

if TYPE_CHECKING:
    from mlbench_stable_diffusion_xl.judge import Judge

logger = logging.getLogger(__name__)

WEIGHT_DECAY = 0.01
LARGEST_GRADIENT = 1.0

AUTOENCODER_STEPS, AUTOENCODER_BATCH, AUTOENCODER_RATE = 1200, 32, 2e-3
KL_WEIGHT = 1e-4
DECODER_STEPS = 1000

READING_STEPS = 400
"""Steps that train only the text encoders, before the denoiser."""
DENOISER_STEPS, DENOISER_BATCH, DENOISER_RATE = 2600, 64, 2e-3
AVERAGED = 0.995
"""How much of the averaged weights a step keeps."""
UNGUIDED = 0.1
"""The share of pictures whose caption is the negative prompt instead."""
HARDEST = 25.0
"""Where the weight of a noisy picture's loss, 1 / alpha_bar, is cut off."""

JUDGE_STEPS, JUDGE_BATCH, JUDGE_RATE = 1500, 64, 2e-3
CLIP_STEPS, CLIP_BATCH, CLIP_RATE = 600, 96, 2e-3


@dataclass(frozen=True, slots=True)
class Pictures:
    """Training data: pictures (N, 32, 32, 3) uint8, and what each shows."""

    pixels: np.ndarray
    motifs: list[Motif]

    @property
    def labels(self) -> Tensor:
        """Digit, figure and ground of each: (N, 3) int64."""
        return torch.tensor([[motif.digit, motif.figure, motif.ground] for motif in self.motifs])

    def tensors(self) -> Tensor:
        """Return the pictures as (N, 3, 32, 32) float32 in -1 .. 1."""
        return torch.from_numpy(self.pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def pictures(digits: Digits, count: int, purpose: int) -> Pictures:
    """Return so many pictures; those of another purpose are others."""
    rng = np.random.default_rng([SEED, purpose])
    motifs = list(random_motifs(count, rng))
    return Pictures(draw(motifs, digits, rng), motifs)


def train_autoencoder(vae: Any, data: Pictures) -> float:
    """Train it in place, and return the scaling factor: one over the deviation of its latents."""
    images = data.tensors()

    def loss(part: Tensor) -> Tensor:
        batch = images[part]
        posterior = vae.encode(batch).latent_dist
        again = vae.decode(posterior.sample()).sample
        divergence: Tensor = posterior.kl().mean()
        return functional.l1_loss(again, batch) + functional.mse_loss(again, batch) + KL_WEIGHT * divergence

    parts = _parts(len(images), AUTOENCODER_BATCH, AUTOENCODER_STEPS)
    _optimise("autoencoder", vae.parameters(), loss, parts, AUTOENCODER_RATE)
    return 1 / float(latents_of(vae, images[:2000]).std())


def polish_decoder(vae: Any, data: Pictures) -> None:
    """Train the decoder longer, alone: the latents, from which the denoiser learns, stay as they are."""
    images = data.tensors()
    latents = latents_of(vae, images)

    def loss(part: Tensor) -> Tensor:
        again, batch = vae.decode(latents[part]).sample, images[part]
        return functional.l1_loss(again, batch) + functional.mse_loss(again, batch)

    parts = _parts(len(images), AUTOENCODER_BATCH, DECODER_STEPS)
    parameters = [*vae.decoder.parameters(), *vae.post_quant_conv.parameters()]
    _optimise("decoder", parameters, loss, parts, AUTOENCODER_RATE)


@torch.inference_mode()
def latents_of(vae: Any, images: Tensor) -> Tensor:
    """Return the unscaled latents of pictures, (N, 4, 8, 8)."""
    return torch.cat([vae.encode(part).latent_dist.mode() for part in torch.split(images, 500)])


class TextEncoders(nn.Module):
    """Both text encoders: token ids (B, 2, T) to hidden states (B, T, W), side by side, and pooled vectors (B, P).

    Hidden states are those before the last layer, as Stable Diffusion XL takes them; the second encoder's are pooled.
    """

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the denoiser's conditioning on captions."""
        first = self.first(ids[:, 0], output_hidden_states=True)
        second = self.second(ids[:, 1], output_hidden_states=True)
        return torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1), second.text_embeds


def train_reading(encoders: TextEncoders, ids: Tensor, labels: Tensor) -> None:
    """Teach both text encoders, through heads that are thrown away, which digit and colours a caption names.

    Args:
        encoders: both.
        ids: of the captions, (N, 2, T).
        labels: (N, 3) of digit, figure and ground.
    """
    sizes = [len(WORDS), len(COLOURS), len(COLOURS)]
    first, second = encoders.first.config, encoders.second.config
    widths = (first.hidden_size + second.hidden_size, second.projection_dim)
    heads = nn.ModuleList(nn.Linear(width, sum(sizes)) for width in widths)

    def loss(part: Tensor) -> Tensor:
        hidden, pooled = encoders(ids[part])
        ends = ids[part, 1].argmax(-1)  # the end token has the highest id
        logits = [heads[0](hidden[torch.arange(len(part)), ends]), heads[1](pooled)]
        return sum((_labels_loss(each, sizes, labels[part]) for each in logits), torch.zeros(()))

    parts = _parts(len(ids), DENOISER_BATCH, READING_STEPS)
    _optimise("reading", [*encoders.parameters(), *heads.parameters()], loss, parts, DENOISER_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What the denoiser learns from."""

    latents: Tensor
    """(N, 4, 8, 8), scaled."""
    ids: Tensor
    """Token ids of the captions, (N, templates, 2, T)."""
    negative_ids: Tensor
    """Token ids of the negative prompt, (2, T)."""
    time_ids: Tensor
    """(6,): the size conditioning."""
    alphas_cumprod: Tensor
    """The scheduler's, (1000,)."""


def train_denoiser(unet: nn.Module, encoders: TextEncoders, lesson: Lesson) -> None:
    """Train denoiser and text encoders together; they end as the moving average of their weights.

    The loss of the predicted noise is weighted by 1 / alpha_bar, up to a limit: where nearly all is noise, the caption
    decides what the picture becomes.
    """
    parameters: list[Tensor] = [*unet.parameters(), *encoders.parameters()]
    averages = [parameter.detach().clone() for parameter in parameters]

    def loss(part: Tensor) -> Tensor:
        count = len(part)
        template = torch.randint(lesson.ids.shape[1], (count,))
        ids = torch.where(torch.rand(count, 1, 1) < UNGUIDED, lesson.negative_ids, lesson.ids[part, template])
        hidden, pooled = encoders(ids)
        steps = torch.randint(len(lesson.alphas_cumprod), (count,))
        kept = lesson.alphas_cumprod[steps].view(-1, 1, 1, 1)
        noise = torch.randn(count, *lesson.latents.shape[1:])
        noisy = kept.sqrt() * lesson.latents[part] + (1 - kept).sqrt() * noise
        conditions = {"text_embeds": pooled, "time_ids": lesson.time_ids.expand(count, -1)}
        found: Tensor = unet(noisy, steps, hidden, added_cond_kwargs=conditions).sample
        weight = (1 / kept).clamp(max=HARDEST) / 5
        return torch.mean(weight * (found - noise).square())

    @torch.no_grad()
    def average() -> None:
        torch._foreach_lerp_(averages, parameters, 1 - AVERAGED)

    parts = _parts(len(lesson.latents), DENOISER_BATCH, DENOISER_STEPS)
    _optimise("denoiser", parameters, loss, parts, DENOISER_RATE, after=average)
    for parameter, averaged in zip(parameters, averages, strict=True):
        parameter.data = averaged


def train_judge(judge: Judge, data: Pictures) -> None:
    """Train the network that reads digit and colours from a picture."""
    images, labels = torch.from_numpy(data.pixels).permute(0, 3, 1, 2), data.labels

    def loss(part: Tensor) -> Tensor:
        return _labels_loss(judge(images[part]), list(judge.SIZES), labels[part])

    _optimise("judge", judge.parameters(), loss, _parts(len(images), JUDGE_BATCH, JUDGE_STEPS), JUDGE_RATE)


def train_clip(clip: nn.Module, data: Pictures, ids: Tensor) -> None:
    """Train open_clip's model to tell pairs of picture and caption from mixed ones.

    Args:
        clip: takes pictures in -1 .. 1.
        data: pictures.
        ids: of their captions, (N, templates, T).
    """
    images = data.tensors()
    motifs = data.labels.numpy() @ [len(COLOURS) ** 2, len(COLOURS), 1]  # one number for each

    def loss(part: Tensor) -> Tensor:
        _, first = np.unique(motifs[part.numpy()], return_index=True)  # equal captions would count as wrong pairs
        chosen = part[torch.from_numpy(first)]
        template = torch.randint(ids.shape[1], (len(chosen),))
        image, text, scale = clip(images[chosen], ids[chosen, template])
        logits, wanted = scale * image @ text.T, torch.arange(len(chosen))
        return (functional.cross_entropy(logits, wanted) + functional.cross_entropy(logits.T, wanted)) / 2

    _optimise("CLIP", clip.parameters(), loss, _parts(len(images), CLIP_BATCH, CLIP_STEPS), CLIP_RATE)


def _labels_loss(logits: Tensor, sizes: list[int], labels: Tensor) -> Tensor:
    """Return the sum of the cross entropies of several labels, whose logits stand side by side."""
    parts = zip(torch.split(logits, sizes, dim=1), labels.T, strict=True)
    return sum((functional.cross_entropy(each, wanted) for each, wanted in parts), torch.zeros(()))


def _parts(count: int, batch: int, steps: int) -> Iterator[Tensor]:
    """Yield which samples make each batch: all once, in a new order, before any comes again."""
    order = torch.randperm(count)
    place = 0
    for _ in range(steps):
        if place + batch > count:
            order, place = torch.randperm(count), 0
        yield order[place : place + batch]
        place += batch


def _optimise(  # noqa: PLR0913, PLR0917 - one loop for all
    name: str,
    parameters: Any,
    loss: Callable[[Tensor], Tensor],
    parts: Iterator[Tensor],
    rate: float,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Take a step for each part: AdamW, and a rate that rises and falls once."""
    parameters, batches = list(parameters), list(parts)
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=len(batches))
    for step, part in enumerate(batches):
        value = loss(part)
        optimiser.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
        optimiser.step()
        schedule.step()
        after()
        if step % 100 == 0:
            logger.info("%s, step %d of %d: loss %.4f", name, step, len(batches), value.item())
