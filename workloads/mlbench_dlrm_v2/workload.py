"""The workload DLRMv2: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit import ProfileParts
    from mlbench_dlrm_v2.dataset import AggregatedPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class DlrmV2Options:
    """Paths of the official files of the full profile, or the size of random tables."""

    data: Path | None = None
    """Folder with day_23_dense.npy, day_23_labels.npy and day_23_sparse_multi_hot.npz, uncompressed."""
    weights: Path | None = None
    """The torchsnapshot folder model_weights."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""
    table_rows: Annotated[int, Ge(1)] = 1_000_000
    """Random weights: most rows of an embedding table. A million needs 4 GB of memory, all 40 million 105 GB."""


class DlrmV2(ProfiledWorkload):
    """DLRM-DCN on Criteo's multi-hot click logs, and a small copy of it on clicks with a planted truth."""

    name = "dlrm-v2"
    title = "DLRM-DCN, click prediction, Criteo 1TB multi-hot"
    rules = "dlrm-v2"
    options = DlrmV2Options()
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    mini_server_latency_ms = 100
    """Long enough to tell a slow backend from a pause of a shared processor, which lasts tens of milliseconds."""

    def build_metric(
        self, variant: Variant, profile: ProfileParts, dataset: AggregatedPairs, targets: tuple[Target, ...]
    ) -> Metric:
        """Return AUC over the labels of the rows."""
        from mlbench_dlrm_v2.accuracy import ClickAuc

        return ClickAuc(dataset.truth, targets)
