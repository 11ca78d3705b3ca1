"""The workload GPT-J: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_gptj.full_profile import FullProfile
    from mlbench_gptj.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class GptJOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """cnn_eval.json, 13,368 articles of CNN/DailyMail with their highlights."""
    weights: Path | None = None
    """The Hugging Face folder checkpoint-final, with safetensors."""
    tokenizer: Path | None = None
    """The Hugging Face folder with GPT-J's tokenizer.json, where that of the weights has none."""
    layers: int = 0
    """Random weights only: so many layers of the 28, each of which takes 0.8 GB in fp32; 0: all, 24 GB."""


class GptJ(Workload):
    """GPT-J 6B on CNN/DailyMail, and a small copy of it on generated articles."""

    name = "gptj"
    title = "GPT-J 6B, summarisation, CNN/DailyMail"
    rules = "gptj"
    options = GptJOptions()
    tuning = Path(__file__).parent / "tuning.toml"

    def dataset(self, variant: Variant) -> Dataset:
        """Open the articles; a sample is a prompt of token ids."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graphs ``prefill`` and ``decode`` and the program that says how summaries are generated."""
        from mlbench import Model

        profile = _profile(variant)
        graphs = profile.graphs(variant.weights)
        return Model(
            name=self.name,
            graphs=graphs,
            program=profile.program,
            weights_fingerprint=graphs["decode"].fingerprint,
            files=profile.folder if variant.weights is Weights.TRAINED else None,
        )

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return ROUGE over the summaries of ``dataset``, which this workload opened."""
        from mlbench_gptj.accuracy import SummaryRouge
        from mlbench_gptj.dataset import Articles
        from mlbench_gptj.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, Articles)
        profile = _profile(variant)
        metric = SummaryRouge(dataset.references, profile.tokenizer(), targets=profile.targets, profile=variant.profile)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_gptj.full_profile import FullProfile

        full = FullProfile(variant.options)
        full.check(variant.weights)
        return full
    from mlbench_gptj.mini_profile import load_mini_profile

    if variant.options != GptJOptions():
        raise UsageError("the mini profile of gptj ships its files and takes no options.", hint="Use the full profile.")
    return load_mini_profile()
