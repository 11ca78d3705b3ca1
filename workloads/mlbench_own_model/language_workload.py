"""The workload of a user's own language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlbench import Profile, Rules, Tokens, UsageError, Workload
from mlbench_own_model.options import LanguageModelOptions

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model, Variant

_NO_LIMIT_MS = 86_400_000
"""A day: LoadGen requires limits on the times of tokens, and the user's own are ``load.ttft_limit_ms`` and so on."""


class OwnLanguageModel(Workload):
    """A causal language model in a Hugging Face folder, under a name of the user's."""

    title = "your own language model"
    rules = Rules(
        scenarios=("Offline", "SingleStream", "Server"),
        targets=(),
        min_duration_ms=60_000,
        tokens=Tokens.MEASURED,
        ttft_ms=_NO_LIMIT_MS,
        tpot_ms=_NO_LIMIT_MS,
    )
    options = LanguageModelOptions()
    is_default = False
    default_scenarios = ("Offline",)
    only_profile = Profile.FULL

    def __init__(self, name: str) -> None:
        self.name = name

    def dataset(self, variant: Variant) -> Dataset:
        """Open the user's prompts, or draw some."""
        raise UsageError("language models cannot be measured yet.")

    def model(self, variant: Variant) -> Model:
        """Return the folder's model."""
        raise UsageError("language models cannot be measured yet.")

    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return the agreement of tokens with the reference's."""
        raise UsageError("language models cannot be measured yet.")
