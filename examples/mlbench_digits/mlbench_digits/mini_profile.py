"""The mini profile: the shipped weights, and what the recipe measured of them."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench import Graph, Weights
from mlbench.toolkit import OneGraph, ShippedProfile
from mlbench_digits.dataset import HeldOutDigits
from mlbench_digits.graphs import random_classifier, trained_classifier
from mlbench_digits.program import Classification

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile, OneGraph):
    """What `mini.toml` says, beside the file it describes."""

    @property
    def program(self) -> Classification:
        """What feeds the graph and reads digits from its output."""
        return Classification()

    def dataset(self) -> HeldOutDigits:
        """Open the digits of the test set."""
        return HeldOutDigits()

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_classifier()
        return trained_classifier(self.files.path / WEIGHTS, sha256=self.files.sha256[WEIGHTS])
