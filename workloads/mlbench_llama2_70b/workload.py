"""The workload Llama 2 70B: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit.language import LanguageProfile
    from mlbench_llama2_70b.dataset import Conversations


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama2Options:
    """The official files of the full profile."""

    data: Path | None = None
    """The table of 24,576 conversations, as MLCommons' pickle or as JSON."""
    weights: Path | None = None
    """The Hugging Face folder Llama-2-70b-chat-hf, with safetensors and tokenizer.json."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""
    layers: Annotated[int, Ge(0), Le(80)] = 0
    """Random weights only: number of layers, out of 80 with 3.4 GB each in fp32; 0: all, 276 GB."""
    perplexity: bool = False
    """Both profiles: also measure the perplexity of right answers, on backends that compile graphs."""


class Llama2(ProfiledWorkload):
    """Llama 2 70B Chat on OpenOrca, and a small copy of it on generated conversations."""

    name = "llama2-70b"
    title = "Llama 2 70B, conversation, OpenOrca"
    rules = "llama2-70b"
    options = Llama2Options()
    mini_options = ("perplexity",)
    full_weights = 68_976_648_192
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload = ("torch._dynamo", "transformers.modeling_utils")

    def build_metric(
        self, variant: Variant, profile: LanguageProfile, dataset: Conversations, targets: tuple[Target, ...]
    ) -> Metric:
        """Return ROUGE over the answers."""
        from mlbench_llama2_70b.accuracy import AnswerRouge

        return AnswerRouge(dataset.references, profile.tokenizer(), targets=targets, profile=variant.profile)
