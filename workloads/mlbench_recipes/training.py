"""Training on one CPU thread: the same weights again on the same versions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

REPORTED_STEPS = 100


def use_one_thread(seed: int) -> None:
    """Seed torch, and ask it for one thread and deterministic algorithms."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def minimise(
    losses: Iterable[Tensor],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    *,
    largest_gradient: float | None = None,
) -> None:
    """Take a step down each loss, which is computed after the step before it."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for step, loss in enumerate(losses):
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if largest_gradient is not None:
            nn.utils.clip_grad_norm_(parameters, largest_gradient)
        optimiser.step()
        schedule.step()
        if step % REPORTED_STEPS == 0:
            logger.info("step %d, loss %.3f", step, loss.item())


def half_precision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict, its floating-point tensors as fp16."""
    return {
        name: tensor.half().contiguous() if tensor.is_floating_point() else tensor for name, tensor in state.items()
    }
