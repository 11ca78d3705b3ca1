"""The workload DLRMv2: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_dlrm_v2.full_profile import FullProfile
    from mlbench_dlrm_v2.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class DlrmV2Options:
    """The official files of the full profile, or the size of random tables."""

    data: Path | None = None
    """Folder with day_23_dense.npy, day_23_labels.npy and day_23_sparse_multi_hot.npz, uncompressed."""
    weights: Path | None = None
    """The torchsnapshot folder model_weights."""
    table_rows: int = 1_000_000
    """Random weights: the rows of an embedding table at most. A million needs 4 GB of memory, all 40 million 105 GB."""


class DlrmV2(Workload):
    """DLRM-DCN on Criteo's multi-hot click logs, and a small copy of it on clicks with a planted truth."""

    name = "dlrm-v2"
    title = "DLRM-DCN, click prediction, Criteo 1TB multi-hot"
    rules = "dlrm-v2"
    options = DlrmV2Options()
    tuning = Path(__file__).parent / "tuning.toml"
    mini_server_latency_ms = 100
    """A shared processor pauses for tens of milliseconds; this tells a slow backend from a hiccup."""

    def dataset(self, variant: Variant) -> Dataset:
        """Open the rows; a sample is a run of 100 to 700 of them."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graph ``ranker`` and the program that feeds it."""
        from mlbench import Model
        from mlbench_dlrm_v2.program import Ranking

        graph = _profile(variant).graph(variant.weights)
        return Model(
            name=self.name, graphs={graph.name: graph}, program=Ranking(), weights_fingerprint=graph.fingerprint
        )

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return AUC over the labels of ``dataset``, which this workload opened."""
        from mlbench_dlrm_v2.accuracy import ClickAuc
        from mlbench_dlrm_v2.dataset import AggregatedPairs
        from mlbench_dlrm_v2.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, AggregatedPairs)
        metric = ClickAuc(dataset.truth, reference=_profile(variant).reference_auc)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_dlrm_v2.full_profile import FullProfile

        full = FullProfile(variant.options, variant.weights)
        full.check()
        return full
    from mlbench_dlrm_v2.mini_profile import load_mini_profile

    if variant.options != DlrmV2Options():
        raise UsageError(
            "the mini profile of dlrm-v2 makes its files and takes no options.", hint="Use the full profile."
        )
    return load_mini_profile()
