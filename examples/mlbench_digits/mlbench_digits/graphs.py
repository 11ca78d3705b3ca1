"""The network as a graph: ``pixels`` (B, 64) float32 -> ``logits`` (B, 10) float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dim, Graph, TensorSpec
from mlbench.toolkit import ModuleGraph, load_weights
from mlbench_digits.dataset import calibration_inputs

if TYPE_CHECKING:
    import torch

BATCH = Dim(name="batch", smallest=1, usual=32, largest=256)
RANDOM_SEED = 0


def build_network() -> torch.nn.Module:
    """Return the network, freshly initialised from a seed; the global generator stays as it was."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_SEED)
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def trained_classifier(weights: Path, *, sha256: str) -> Graph:
    """Return the network with weights from a file; its module raises `DataError` when that is damaged."""

    def build() -> torch.nn.Module:
        network = build_network()
        network.load_state_dict(load_weights(weights, sha256=sha256))
        return network

    return _classifier(build, fingerprint=sha256)


def random_classifier() -> Graph:
    """Return the network with seeded weights."""
    return _classifier(build_network, fingerprint=f"random-seed{RANDOM_SEED}")


def _classifier(build: Callable[[], torch.nn.Module], fingerprint: str) -> Graph:
    return ModuleGraph(
        "classifier",
        inputs=(TensorSpec(name="pixels", shape=(BATCH, 64), dtype="float32"),),
        outputs=(TensorSpec(name="logits", shape=(BATCH, 10), dtype="float32"),),
        build=build,
        fingerprint=fingerprint,
        calibrate=calibration_inputs,
    )
