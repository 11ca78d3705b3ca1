"""The mini profile's shipped files and numbers, as its recipe wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench import Precision
from mlbench.toolkit.language import ShippedLanguageProfile, TokenProgram
from mlbench_llama3_1_8b.dataset import TokenisedArticles
from mlbench_llama3_1_8b.graphs import NETWORK
from mlbench_llama3_1_8b.program import MAX_NEW_TOKENS, summarising

DATA = "cnn_eval.json"
POSITIONS = 512
"""Those that prompts and summaries of the generated articles need."""
START_TOKEN, END_TOKENS = 1020, (1021, 1022, 1023)
"""The last four of the tokenizer, as Llama 3.1's are above its words: begin of text; end of text, message and turn."""

OUTPUT_BOUNDS = {Precision.FP32: 3e-3, Precision.FP16: 3e-3, Precision.BF16: 1.3e-2, Precision.INT8: 1.3e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedLanguageProfile):
    """Content of `mini.toml`, which describes the files beside it."""

    network = NETWORK
    output_bounds = OUTPUT_BOUNDS

    @property
    def program(self) -> TokenProgram:
        """Rules for generating summaries."""
        return summarising(end_tokens=END_TOKENS, positions=POSITIONS)

    def dataset(self) -> TokenisedArticles:
        """Open the validation articles."""
        return TokenisedArticles(self.files.file(DATA), longest=POSITIONS - MAX_NEW_TOKENS)
