"""The workload BERT: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_bert.full_profile import FullProfile
    from mlbench_bert.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class BertOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """SQuAD v1.1: dev-v1.1.json."""
    vocab: Path | None = None
    """vocab.txt, 30,522 tokens."""
    weights: Path | None = None
    """model.pytorch, or model.onnx (fp32, opset 11)."""
    calibration: Path | None = None
    """One of the two official lists, of feature indices or of question ids; without it nothing can be quantised."""


class Bert(Workload):
    """BERT-large on SQuAD v1.1, and a small copy of it on generated text."""

    name = "bert"
    title = "BERT-large, question answering, SQuAD v1.1"
    rules = "bert"
    options = BertOptions()
    tuning = Path(__file__).parent / "tuning.toml"
    mini_server_latency_ms = 300
    """A shared processor pauses for tens of milliseconds; this tells a slow backend from a hiccup."""

    def dataset(self, variant: Variant) -> Dataset:
        """Open and tokenise the questions; a sample is a question with one window of its passage."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graph ``reader`` and the program that feeds it."""
        from mlbench import Model

        profile = _profile(variant)
        graph = profile.graph(variant.weights)
        return Model(
            name=self.name,
            graphs={graph.name: graph},
            program=profile.program,
            weights_fingerprint=graph.fingerprint,
        )

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return F1 and exact match over the questions of ``dataset``, which this workload opened."""
        from mlbench_bert.accuracy import SquadF1
        from mlbench_bert.dataset import SquadWindows
        from mlbench_bert.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, SquadWindows)
        metric = SquadF1(
            dataset.questions,
            dataset.features,
            dataset.vocabulary,
            tokens=dataset.windows.tokens,
            reference=_profile(variant).reference_f1,
        )
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_bert.full_profile import FullProfile

        full = FullProfile(variant.options)
        full.check(variant.weights)
        return full
    from mlbench_bert.mini_profile import load_mini_profile

    if variant.options != BertOptions():
        raise UsageError("the mini profile of bert ships its files and takes no paths.", hint="Use the full profile.")
    return load_mini_profile()
