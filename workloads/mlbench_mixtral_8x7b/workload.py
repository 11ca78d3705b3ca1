"""The workload Mixtral 8x7B: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_mixtral_8x7b.full_profile import FullProfile
    from mlbench_mixtral_8x7b.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtralOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """2024.06.06_mixtral_15k_v4.pkl, or the same table as JSON."""
    weights: Path | None = None
    """The Hugging Face folder Mixtral-8x7B-Instruct-v0.1, with safetensors and tokenizer.json."""
    layers: int = 0
    """Random weights only: so many layers of the 32, each of which takes 5.8 GB in fp32; 0: all, 187 GB."""
    run_unprotected: bool = False
    """Both profiles: run the programs that the model writes even on a machine where nothing can hold them."""


class Mixtral(Workload):
    """Mixtral 8x7B Instruct on OpenOrca, GSM8K and MBXP, and a small copy of it on generated samples."""

    name = "mixtral-8x7b"
    title = "Mixtral 8x7B, answers, sums and programs: OpenOrca, GSM8K, MBXP"
    rules = "mixtral-8x7b"
    options = MixtralOptions()
    tuning = Path(__file__).parent / "tuning.toml"

    def dataset(self, variant: Variant) -> Dataset:
        """Open the samples; each is a prompt of token ids, a program's with its stop sequence."""
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
        """Return ROUGE, GSM8K and MBXP over ``dataset``, which this workload opened.

        Raises:
            UnavailableError: nothing on this machine can hold the programs that the model writes.
        """
        from mlbench.toolkit import Sandbox
        from mlbench_mixtral_8x7b.accuracy import MixedScores
        from mlbench_mixtral_8x7b.dataset import MixedPrompts
        from mlbench_mixtral_8x7b.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, MixedPrompts)
        profile = _profile(variant)
        insist = variant.options.run_unprotected
        sandbox = Sandbox.available(insist=insist, setting="--set workload.run_unprotected=true")
        metric = MixedScores(
            dataset.tasks,
            profile.tokenizer(),
            targets=profile.targets,
            profile=variant.profile,
            sandbox=sandbox,
        )
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_mixtral_8x7b.full_profile import FullProfile

        full = FullProfile(variant.options)
        full.check(variant.weights)
        return full
    from mlbench_mixtral_8x7b.mini_profile import load_mini_profile

    if replace(variant.options, run_unprotected=False) != MixtralOptions():
        raise UsageError(
            "the mini profile of mixtral-8x7b ships its files and takes no paths.", hint="Use the full profile."
        )
    return load_mini_profile()
