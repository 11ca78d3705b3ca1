"""The mini profile's shipped files and numbers, as `recipe.py` wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Graph, OutputReference, Precision, Target, Weights
from mlbench.toolkit import MiniFolder, read_mini, read_output_reference
from mlbench.toolkit.language import TokenProgram
from mlbench.toolkit.language_mini import mini_graphs, mini_tokenizer
from mlbench_gptj.accuracy import Reference
from mlbench_gptj.dataset import Articles
from mlbench_gptj.graphs import NETWORK
from mlbench_gptj.program import summarising

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DATA = "cnn_eval.json"
POSITIONS = 512
END_TOKEN = 1023
"""The last of the tokenizer, as GPT-J's is."""

OUTPUT_BOUNDS = {Precision.FP32: 3e-3, Precision.FP16: 3e-3, Precision.BF16: 1e-2, Precision.INT8: 1e-2}
"""How far outputs may be from the fp32 model's; README.md has what honest and damaged runs give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile:
    """What `mini.toml` says, beside the files it describes."""

    files: MiniFolder
    reference: Reference
    """Measured by the recipe: fp32, torch, the shipped weights."""

    @property
    def folder(self) -> Path:
        """The Hugging Face folder."""
        return self.files.path

    @property
    def targets(self) -> tuple[Target, ...]:
        """As the official ones, from the mini model's own reference; too long summaries are wrong besides."""
        return self.reference.targets(most=1.1)

    @property
    def program(self) -> TokenProgram:
        """How summaries are generated."""
        return summarising(end_token=END_TOKEN, positions=POSITIONS)

    def output_reference(self) -> OutputReference | None:
        """Return the fp32 model's outputs, and how far honest runs are from them."""
        return read_output_reference(self.files, bounds=OUTPUT_BOUNDS, unit="of the tokens")

    def dataset(self) -> Articles:
        """Open the validation articles."""
        return Articles(self.files.file(DATA), self.tokenizer())

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that the recipe made."""
        return mini_tokenizer(self.files)

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return ``prefill`` and ``decode``, with the shipped weights or random ones."""
        return mini_graphs(NETWORK, self.files, self.program.decoding, weights)


def read_mini_profile(folder: Path) -> MiniProfile:
    """Read `mini.toml` in a folder that the recipe wrote."""
    return read_mini(MiniProfile, folder)


@cache
def load_mini_profile() -> MiniProfile:
    """Return the mini profile of this package."""
    return read_mini_profile(Path(__file__).parent / "mini")
