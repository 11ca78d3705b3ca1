"""The workload: which parts make up each variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model


class Digits(Workload):
    """A perceptron on handwritten digits."""

    name = "digits"
    title = "a perceptron, handwritten digits, 8x8 pixels"
    rules = "resnet50"
    mini_server_latency_ms = 100

    def dataset(self, variant: Variant) -> Dataset:
        """Open the digits that nobody trained on."""
        from mlbench_digits.dataset import HeldOutDigits

        if variant.profile is Profile.FULL:
            raise UsageError("digits has no full profile.", hint="Use --profile mini.")
        return HeldOutDigits()

    def model(self, variant: Variant) -> Model:
        """Return the graph ``classifier`` and the program that reads digits from it."""
        from mlbench import Model
        from mlbench_digits.graphs import random_classifier, trained_classifier
        from mlbench_digits.program import Classification

        graph = random_classifier() if variant.weights is Weights.RANDOM else trained_classifier()
        graphs = {graph.name: graph}
        return Model(name=self.name, graphs=graphs, program=Classification(), weights_fingerprint=graph.fingerprint)

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return the share of right answers; None with random weights, which claim nothing."""
        from mlbench_digits.accuracy import Top1
        from mlbench_digits.dataset import HeldOutDigits
        from mlbench_digits.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, HeldOutDigits)
        return Top1(dataset.labels, reference=load_mini_profile().reference_top1)
