"""The mini profile's shipped files and numbers, as its recipe wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench import Precision, Target
from mlbench.toolkit import WorkloadRules
from mlbench.toolkit.language import ShippedLanguageProfile, TokenProgram
from mlbench_gptj.dataset import Articles
from mlbench_gptj.graphs import NETWORK
from mlbench_gptj.program import summarising

DATA = "cnn_eval.json"
POSITIONS = 512
END_TOKEN = 1023
"""The last of the tokenizer, as GPT-J's is."""

OUTPUT_BOUNDS = {Precision.FP32: 3e-3, Precision.FP16: 3e-3, Precision.BF16: 1e-2, Precision.INT8: 1e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedLanguageProfile):
    """Content of `mini.toml`, which describes the files beside it."""

    network = NETWORK
    output_bounds = OUTPUT_BOUNDS

    @property
    def program(self) -> TokenProgram:
        """Rules for generating summaries."""
        return summarising(end_token=END_TOKEN, positions=POSITIONS)

    def targets(self, rules: WorkloadRules) -> tuple[Target, ...]:
        """Return the official targets around this profile's reference; too long summaries are wrong besides."""
        return self.rescaled_targets(rules, upper_factors={"GEN_LEN": 1.1})

    def dataset(self) -> Articles:
        """Open the validation articles."""
        return Articles(self.files.file(DATA), self.tokenizer())
