"""The workload of a user's own language model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mlbench import Profile, Rules, Tokens, UsageError, Weights, Workload
from mlbench_own_model.options import LanguageModelOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from mlbench import Metric, Model, Variant
    from mlbench.toolkit.language import StoredPrompts
    from mlbench_own_model.language_folder import LanguageFolder
    from mlbench_own_model.language_prompts import LanguageInputs

logger = logging.getLogger(__name__)

_NO_LIMIT_MS = 86_400_000
"""A day: LoadGen requires limits on the times of tokens, and the user's own are ``load.ttft_limit_ms`` and so on."""


class OwnLanguageModel(Workload):
    """A causal language model in a Hugging Face folder, under a name of the user's.

    Decoding is greedy. Answers to random prompts all have the longest length, those to the user's prompts end at the
    model's end tokens.
    """

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
    preload = ("torch._dynamo", "transformers.modeling_utils")
    is_default = False
    default_scenarios = ("Offline",)
    only_profile = Profile.FULL

    def __init__(self, name: str) -> None:
        self.name = name

    def dataset(self, variant: Variant) -> StoredPrompts:
        """Open the user's prompts, or draw some.

        Raises:
            UsageError: an option does not fit the model.
            DataError: a file of the folder, or that of the prompts, is missing or damaged.
        """
        _, inputs = _open(variant)
        return inputs.prompts

    def model(self, variant: Variant) -> Model:
        """Return the folder, and graphs if mlbench has them of its architecture; raises as `dataset`."""
        from mlbench import Graph, Model
        from mlbench.toolkit.language import TokenProgram

        folder, inputs = _open(variant)
        network = folder.family(inputs.longest)
        is_trained = variant.weights is Weights.TRAINED
        fingerprint = folder.fingerprint() if is_trained else ""
        graphs: Mapping[str, Graph] = {}
        if not isinstance(network, str) and is_trained:
            graphs = network.build_graphs(folder.path, inputs.decoding, fingerprint=fingerprint)
        elif not isinstance(network, str):
            graphs = network.random_graphs(folder.config, inputs.decoding)
        return Model(
            name=self.name,
            graphs=graphs,
            program=TokenProgram(inputs.decoding),
            weights_fingerprint=fingerprint or next((each.fingerprint for each in graphs.values()), ""),
            files=folder.path if is_trained else None,
            why_no_graphs=network if isinstance(network, str) else "",
            stores=folder.scheme if is_trained else "",
        )

    def metric(self, variant: Variant, dataset: StoredPrompts) -> Metric | None:
        """Return the agreement of tokens with the reference's; None if it cannot be computed here.

        The reference is computed when there is something to score: in the judge's process, and not in the backend's.

        Raises:
            DataError: a weights file is missing or damaged.
        """
        from mlbench.toolkit.language import TokenProgram
        from mlbench_own_model.language_accuracy import TokenAgreement
        from mlbench_own_model.language_reference import reference_answers, why_no_reference

        if variant.weights is Weights.RANDOM:
            return None
        folder, inputs = _open(variant)
        if reason := why_no_reference(folder):
            logger.warning("answers are not compared with the reference's: %s", reason)
            return None
        count = min(dataset.count, variant.options.compared)

        def references() -> Sequence[np.ndarray]:
            prompts = [dataset.sample(index) for index in range(count)]
            program = TokenProgram(inputs.decoding)
            return [program.answer(tokens) for tokens in reference_answers(folder, prompts, inputs.decoding)]

        return TokenAgreement(
            references, compared=count, samples=dataset.count, precision=variant.precision, text=folder.text_of()
        )


def _open(variant: Variant) -> tuple[LanguageFolder, LanguageInputs]:
    """Return the model's folder and its prompts; raises as `OwnLanguageModel.dataset`."""
    from mlbench_own_model.language_folder import LanguageFolder
    from mlbench_own_model.language_prompts import LanguageInputs

    options: LanguageModelOptions = variant.options
    if options.reference:
        raise UsageError(
            f"a language model is compared with Hugging Face's generate, not with {options.reference}.",
            hint="Leave out --reference.",
        )
    folder = LanguageFolder.read(options.model)
    return folder, LanguageInputs.open(folder, options)
