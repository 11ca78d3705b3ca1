"""The workload ``prompts``: a user's own server answers prompts of given lengths, or the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlbench import Rules, Tokens, UsageError, Weights, Workload
from mlbench_endpoint.prompt_options import PromptOptions
from mlbench_endpoint.scenarios import CONCURRENCY, RATE

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model, Variant

_NO_LIMIT_MS = 86_400_000
"""A day: LoadGen requires limits on the times of tokens, and no request may take longer than this."""


class PromptsWorkload(Workload):
    """Text for a server's own model. It is not an MLPerf benchmark: it has no limits, and answers are not scored."""

    name = "prompts"
    title = "prompts of given lengths, or your own, for a server and a model of your own; see bench-endpoint"
    rules = Rules(
        scenarios=(RATE.loadgen, CONCURRENCY.loadgen),
        targets=(),
        offline_min_samples=1,
        tokens=Tokens.MEASURED,
        ttft_ms=_NO_LIMIT_MS,
        tpot_ms=_NO_LIMIT_MS,
    )
    is_default = False
    options = PromptOptions()

    def dataset(self, variant: Variant) -> Dataset:
        """Return generated prompts, or a file's."""
        from mlbench_endpoint.prompts import open_prompts

        return open_prompts(variant.options)

    def model(self, variant: Variant) -> Model:
        """Return a model without graphs: the server has it."""
        from mlbench import Model
        from mlbench_endpoint.prompts import open_prompts
        from mlbench_endpoint.text_program import TextProgram

        if variant.weights is not Weights.TRAINED:
            raise UsageError("prompts has no weights: the server has them.", hint="Leave --weights out.")
        longest = open_prompts(variant.options).longest_answer
        return Model(name=self.name, graphs={}, program=TextProgram(longest), weights_fingerprint="the server's")

    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return None: the right answers are not known."""
        return None
