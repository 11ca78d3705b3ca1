"""Makes the mini profile: trains the small network on clicks with a planted truth, and writes the files of `mini/`.

    python -m mlbench_recipes dlrm_v2 --out mini

One CPU thread, about four minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench_dlrm_v2.architecture import Architecture, cap_tables
from mlbench_dlrm_v2.workload import DlrmV2

from mlbench.toolkit import MiniFolder
from mlbench_recipes.reference_scores import write_profile

if TYPE_CHECKING:
    import torch
    from mlbench_dlrm_v2.clicks import PlantedTruth
    from mlbench_dlrm_v2.mini_profile import MiniProfile

SEED = 20240724
DAY_ROWS = 120_000
STEPS = 2_000
BATCH = 1_024
PEAK_RATE = 3e-3

ARCHITECTURE = Architecture(
    table_rows=cap_tables(400),
    dimension=16,
    dense_layers=(64, 32, 16),
    cross_rank=64,
    top_layers=(128, 64, 1),
)


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    from mlbench_dlrm_v2.clicks import PlantedTruth
    from mlbench_dlrm_v2.mini_profile import WEIGHTS, MiniProfile
    from safetensors.torch import save

    truth = PlantedTruth(SEED, ARCHITECTURE.table_rows, ARCHITECTURE.hot_sizes)
    (out / WEIGHTS).write_bytes(save(train(truth, steps)))
    profile = MiniProfile(
        files=MiniFolder.of(out, [WEIGHTS]),
        reference={},
        seed=SEED,
        rows=DAY_ROWS,
        architecture=ARCHITECTURE,
    )
    return write_profile(DlrmV2(), profile, ("AUC",))


def train(truth: PlantedTruth, steps: int) -> dict[str, torch.Tensor]:
    """Train the network in one pass over fresh rows, on one thread, and return its state dict as fp16."""
    import torch
    from mlbench_dlrm_v2.graphs import new_network
    from torch.nn.functional import binary_cross_entropy_with_logits

    from mlbench_recipes.training import half_precision, minimise, use_one_thread

    use_one_thread(SEED)
    network = new_network(ARCHITECTURE)
    optimiser = torch.optim.Adam(network.parameters(), lr=PEAK_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, total_steps=steps)
    losses = (
        binary_cross_entropy_with_logits(network(dense, indices), labels)
        for dense, indices, labels in training_batches(truth, steps)
    )
    minimise(losses, optimiser, schedule)
    return half_precision(network.state_dict())


def training_batches(truth: PlantedTruth, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Yield dense features (1024, 13), indices (1024, 214) and labels (1024,) float32 for each step."""
    import torch
    from mlbench_dlrm_v2.clicks import TRAINING
    from mlbench_dlrm_v2.program import join_indices

    for day in truth.chunks(TRAINING, steps * BATCH):
        for start in range(0, len(day), BATCH):
            rows = day[start : start + BATCH]
            labels = torch.from_numpy(rows.labels[:, 0]).float()
            yield torch.from_numpy(rows.dense), torch.from_numpy(join_indices([rows.hot])), labels
