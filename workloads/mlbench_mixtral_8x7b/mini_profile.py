"""The mini profile's shipped files and numbers, as its recipe wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench import Precision, Target
from mlbench.toolkit import WorkloadRules
from mlbench.toolkit.language import ShippedLanguageProfile, TokenProgram
from mlbench_mixtral_8x7b.dataset import MixedPrompts
from mlbench_mixtral_8x7b.graphs import NETWORK
from mlbench_mixtral_8x7b.program import answering

DATA = "dataset.json"
POSITIONS = 512
MAX_NEW_TOKENS = 192
"""The longest right answer, with what follows its code, has 90."""

OUTPUT_BOUNDS = {Precision.FP32: 2e-3, Precision.FP16: 2e-3, Precision.BF16: 1e-2, Precision.INT8: 2e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedLanguageProfile):
    """Content of `mini.toml`, which describes the files beside it."""

    network = NETWORK
    output_bounds = OUTPUT_BOUNDS

    @property
    def program(self) -> TokenProgram:
        """Rules for generating answers."""
        return answering(positions=POSITIONS, max_new_tokens=MAX_NEW_TOKENS)

    def targets(self, rules: WorkloadRules) -> tuple[Target, ...]:
        """Return the official targets around this profile's reference; a problem of 96 is more than 1 %."""
        return self.rescaled_targets(rules, factors={"gsm8k_accuracy": 0.96, "mbxp_accuracy": 0.95})

    def dataset(self) -> MixedPrompts:
        """Open the validation samples."""
        return MixedPrompts(self.files.file(DATA), longest=POSITIONS - MAX_NEW_TOKENS)
