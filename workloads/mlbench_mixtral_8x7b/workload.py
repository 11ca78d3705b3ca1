"""The workload Mixtral 8x7B: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from mlbench import RUNS_CODE, Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit.language import LanguageProfile
    from mlbench_mixtral_8x7b.dataset import MixedPrompts


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtralOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """2024.06.06_mixtral_15k_v4.pkl, or the same table as JSON."""
    weights: Path | None = None
    """The Hugging Face folder Mixtral-8x7B-Instruct-v0.1, with safetensors and tokenizer.json."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""
    layers: Annotated[int, Ge(0), Le(32)] = 0
    """Random weights only: number of layers, out of 32 with 5.8 GB each in fp32; 0: all, 187 GB."""
    perplexity: bool = False
    """Both profiles: also measure the perplexity of right answers, on backends that compile graphs."""
    run_unprotected: Annotated[bool, RUNS_CODE] = False
    """Both profiles: run the programs that the model writes even on a machine without isolation."""


class Mixtral(ProfiledWorkload):
    """Mixtral 8x7B Instruct on OpenOrca, GSM8K and MBXP, and a small copy of it on generated samples."""

    name = "mixtral-8x7b"
    title = "Mixtral 8x7B, answers, sums and programs: OpenOrca, GSM8K, MBXP"
    rules = "mixtral-8x7b"
    options = MixtralOptions()
    mini_options = ("perplexity", "run_unprotected")
    full_weights = 46_702_792_704
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload = ("torch._dynamo", "transformers.modeling_utils")

    def build_metric(
        self, variant: Variant, profile: LanguageProfile, dataset: MixedPrompts, targets: tuple[Target, ...]
    ) -> Metric:
        """Return ROUGE, GSM8K and MBXP.

        Raises:
            UnavailableError: this machine has no isolation for the programs that the model writes.
        """
        from mlbench.toolkit import Sandbox
        from mlbench_mixtral_8x7b.accuracy import MixedScores

        insist = variant.options.run_unprotected
        return MixedScores(
            dataset.tasks,
            profile.tokenizer(),
            targets=targets,
            profile=variant.profile,
            sandbox=Sandbox.available(insist=insist, setting="--set workload.run_unprotected=true"),
        )
