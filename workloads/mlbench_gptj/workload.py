"""The workload GPT-J: its options, and which parts make up each variant."""

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
    from mlbench_gptj.dataset import Articles


@dataclass(frozen=True, slots=True, kw_only=True)
class GptJOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """cnn_eval.json, 13,368 articles of CNN/DailyMail with their highlights."""
    weights: Path | None = None
    """The Hugging Face folder checkpoint-final, with safetensors."""
    tokenizer: Path | None = None
    """The Hugging Face folder with GPT-J's tokenizer.json, where that of the weights has none."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""
    layers: Annotated[int, Ge(0), Le(28)] = 0
    """Random weights only: number of layers, out of 28 with 0.8 GB each in fp32; 0: all, 24 GB."""
    perplexity: bool = False
    """Both profiles: also measure the perplexity of right answers, on backends that compile graphs."""


class GptJ(ProfiledWorkload):
    """GPT-J 6B on CNN/DailyMail, and a small copy of it on generated articles."""

    name = "gptj"
    title = "GPT-J 6B, summarisation, CNN/DailyMail"
    rules = "gptj"
    options = GptJOptions()
    mini_options = ("perplexity",)
    full_weights = 6_050_882_784
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload = ("torch._dynamo", "transformers.modeling_utils")

    def build_metric(
        self, variant: Variant, profile: LanguageProfile, dataset: Articles, targets: tuple[Target, ...]
    ) -> Metric:
        """Return ROUGE over the summaries."""
        from mlbench_gptj.accuracy import SummaryRouge

        return SummaryRouge(dataset.references, profile.tokenizer(), targets=targets, profile=variant.profile)
