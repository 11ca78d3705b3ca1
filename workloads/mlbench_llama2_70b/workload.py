"""The workload Llama 2 70B: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_llama2_70b.full_profile import FullProfile
    from mlbench_llama2_70b.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama2Options:
    """The official files of the full profile."""

    data: Path | None = None
    """The table of 24,576 conversations, as MLCommons' pickle or as JSON."""
    weights: Path | None = None
    """The Hugging Face folder Llama-2-70b-chat-hf, with safetensors and tokenizer.json."""
    layers: int = 0
    """Random weights only: so many layers of the 80, each of which takes 3.4 GB in fp32; 0: all, 276 GB."""


class Llama2(Workload):
    """Llama 2 70B Chat on OpenOrca, and a small copy of it on generated conversations."""

    name = "llama2-70b"
    title = "Llama 2 70B, conversation, OpenOrca"
    rules = "llama2-70b"
    options = Llama2Options()
    tuning = Path(__file__).parent / "tuning.toml"

    def dataset(self, variant: Variant) -> Dataset:
        """Open the conversations; a sample is a prompt of token ids."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graphs ``prefill`` and ``decode`` and the program that says how answers are generated."""
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
        """Return ROUGE over the answers of ``dataset``, which this workload opened."""
        from mlbench_llama2_70b.accuracy import AnswerRouge
        from mlbench_llama2_70b.dataset import Conversations
        from mlbench_llama2_70b.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, Conversations)
        profile = _profile(variant)
        metric = AnswerRouge(dataset.references, profile.tokenizer(), targets=profile.targets, profile=variant.profile)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_llama2_70b.full_profile import FullProfile

        full = FullProfile(variant.options)
        full.check(variant.weights)
        return full
    from mlbench_llama2_70b.mini_profile import load_mini_profile

    if variant.options != Llama2Options():
        raise UsageError(
            "the mini profile of llama2-70b ships its files and takes no options.", hint="Use the full profile."
        )
    return load_mini_profile()
