"""The workload ``prompts``: a user's own server answers prompts of given lengths, or the user's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlbench import Rules, Tokens, UsageError, Weights, Workload
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.scenarios import CONCURRENCY, RATE

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model, Variant
    from mlbench_endpoint.loads.prompts import TextPrompts
    from mlbench_endpoint.loads.text_program import TextProgram

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
        """Return the prompts."""
        return self.prompts(variant.options)

    def prompts(self, options: PromptOptions) -> TextPrompts:
        """Return generated prompts, a file's or a trace's. A workload of other prompts overrides this method."""
        from mlbench_endpoint.loads.prompts import open_prompts

        return open_prompts(options)

    def model(self, variant: Variant) -> Model:
        """Return a model without graphs: the server has it."""
        from mlbench import Model

        if variant.weights is not Weights.TRAINED:
            raise UsageError(f"{self.name} has no weights: the server has them.", hint="Leave --weights out.")
        longest = self.prompts(variant.options).longest_answer
        return Model(name=self.name, graphs={}, program=self._program(longest), weights_fingerprint="the server's")

    def _program(self, longest_answer: int) -> TextProgram:
        from mlbench_endpoint.loads.text_program import TextProgram

        return TextProgram(longest_answer)

    def metric(self, variant: Variant, dataset: Any) -> Metric | None:
        """Return None: the right answers are not known."""
        return None


class VectorsWorkload(PromptsWorkload):
    """Texts for a server's embeddings or rerank endpoint (``backend.api``): answers are numbers, not tokens."""

    name = "vectors"
    title = "texts for the embeddings or rerank endpoint of a server; see bench-endpoint"
    rules = Rules(
        scenarios=(RATE.loadgen, CONCURRENCY.loadgen),
        targets=(),
        offline_min_samples=1,
        server_latency_ms=_NO_LIMIT_MS,
    )

    def prompts(self, options: PromptOptions) -> TextPrompts:
        """Return texts whose answers have as many results as the request has documents."""
        return super().prompts(for_vectors(options))

    def _program(self, longest_answer: int) -> TextProgram:
        from mlbench_endpoint.loads.text_program import VectorProgram

        return VectorProgram(longest_answer)


def for_vectors(options: PromptOptions) -> PromptOptions:
    """Return options of prompts in which the length of an answer is its number of results."""
    return replace(options, tokens_out=str(options.documents))
