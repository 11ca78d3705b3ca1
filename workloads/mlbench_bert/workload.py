"""The workload BERT: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit import ProfileParts
    from mlbench_bert.dataset import SquadWindows


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
    """One of the two official lists, of feature indices or of question ids; needed for quantisation."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""


class Bert(ProfiledWorkload):
    """BERT-large on SQuAD v1.1, and a small copy of it on generated text."""

    name = "bert"
    title = "BERT-large, question answering, SQuAD v1.1"
    rules = "bert"
    options = BertOptions()
    full_weights = 334_094_338
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload = ("torch._dynamo", "transformers.modeling_utils")
    mini_server_latency_ms = 300
    """Long enough to tell a slow backend from a pause of a shared processor, which lasts tens of milliseconds."""

    def build_metric(
        self, variant: Variant, profile: ProfileParts, dataset: SquadWindows, targets: tuple[Target, ...]
    ) -> Metric:
        """Return F1 and exact match over the questions."""
        from mlbench_bert.accuracy import SquadF1

        tokens = dataset.windows.tokens
        return SquadF1(dataset.questions, dataset.features, dataset.vocabulary, tokens=tokens, targets=targets)
