"""The workload Llama 3.1 8B and its edge variant: their options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from mlbench import Profile, Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit.language import LanguageProfile
    from mlbench_llama3_1_8b.dataset import TokenisedArticles


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama31Options:
    """The official files of the full profile."""

    data: Path | None = None
    """cnn_eval.json, 13,368 articles of CNN/DailyMail as tokens, with their highlights; the edge variant has 5,000."""
    weights: Path | None = None
    """The Hugging Face folder Llama-3.1-8B-Instruct, with safetensors and tokenizer.json."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""
    layers: Annotated[int, Ge(0), Le(32)] = 0
    """Random weights only: number of layers, out of 32 with 0.9 GB each in fp32; 0: all, 32 GB."""
    perplexity: bool = False
    """Both profiles: also measure the perplexity of right answers, on backends that compile graphs."""


class Llama31(ProfiledWorkload):
    """Llama 3.1 8B Instruct on CNN/DailyMail, and a small copy of it on generated articles."""

    name = "llama3.1-8b"
    title = "Llama 3.1 8B, summarisation, CNN/DailyMail"
    rules = "llama3_1-8b"
    options = Llama31Options()
    mini_options = ("perplexity",)
    full_weights = 8_030_261_248
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload = ("torch._dynamo", "transformers.modeling_utils")

    def build_metric(
        self, variant: Variant, profile: LanguageProfile, dataset: TokenisedArticles, targets: tuple[Target, ...]
    ) -> Metric:
        """Return ROUGE over the summaries; the mini profile splits its own texts by lines, without NLTK's data."""
        from mlbench_llama3_1_8b.accuracy import NewsRouge

        lines = str.splitlines if variant.profile is Profile.MINI else None
        return NewsRouge(
            dataset.references, profile.tokenizer(), targets=targets, profile=variant.profile, sentences=lines
        )


class Llama31Edge(Llama31):
    """The same model on 5,000 of the articles, for the edge."""

    name = "llama3.1-8b-edge"
    title = "Llama 3.1 8B, summarisation, 5,000 articles of CNN/DailyMail"
    rules = "llama3_1-8b-edge"
    sources = Path(__file__).parent / "sources_edge.toml"
    full_profile = "EdgeProfile"
