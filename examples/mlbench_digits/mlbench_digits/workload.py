"""The workload: what it is called, its rules, and its metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlbench import Rules, Target, Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric
    from mlbench_digits.dataset import HeldOutDigits
    from mlbench_digits.mini_profile import MiniProfile


class Digits(ProfiledWorkload):
    """A perceptron on handwritten digits."""

    name = "digits"
    title = "a perceptron, handwritten digits, 8x8 pixels"
    rules = Rules(
        scenarios=("SingleStream", "MultiStream", "Server", "Offline"),
        targets=(Target.at_least("acc", 99.0, reference=100.0, name="99"),),
        server_latency_ms=100,
    )

    def build_metric(
        self, variant: Variant, profile: MiniProfile, dataset: HeldOutDigits, targets: tuple[Target, ...]
    ) -> Metric:
        """Return the share of right answers."""
        from mlbench_digits.accuracy import Accuracy

        return Accuracy(dataset.labels, targets)
