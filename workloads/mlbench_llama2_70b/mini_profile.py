"""The mini profile's shipped files and numbers, as its recipe wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench import Precision, Target
from mlbench.toolkit import WorkloadRules, share_targets
from mlbench.toolkit.language import ShippedLanguageProfile, TokenProgram
from mlbench_llama2_70b.dataset import Conversations
from mlbench_llama2_70b.graphs import NETWORK
from mlbench_llama2_70b.program import conversing

DATA = "dataset.json"
POSITIONS = 512
MAX_NEW_TOKENS = 256
"""The longest right answer has 171."""

OUTPUT_BOUNDS = {Precision.FP32: 2e-3, Precision.FP16: 2e-3, Precision.BF16: 1.3e-2, Precision.INT8: 1.5e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedLanguageProfile):
    """Content of `mini.toml`, which describes the files beside it."""

    network = NETWORK
    output_bounds = OUTPUT_BOUNDS

    @property
    def program(self) -> TokenProgram:
        """Rules for generating answers."""
        return conversing(positions=POSITIONS, max_new_tokens=MAX_NEW_TOKENS)

    def targets(self, rules: WorkloadRules) -> tuple[Target, ...]:
        """Return the official targets around this profile's reference, and one for exact answers besides."""
        exact = share_targets("exact_match", self.reference_score("exact_match"), {"97": 0.97})
        return (*self.rescaled_targets(rules), *exact)

    def dataset(self) -> Conversations:
        """Open the validation conversations."""
        return Conversations(self.files.file(DATA), longest=POSITIONS - MAX_NEW_TOKENS)
