"""Makes the mini profile: trains the small network on clicks with a planted truth, and writes the files of `mini/`.

    python -m mlbench_dlrm_v2.recipe --out mini

One CPU thread, about four minutes.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench_dlrm_v2.architecture import Architecture, cap_tables

if TYPE_CHECKING:
    import numpy as np
    import torch

    from mlbench_dlrm_v2.clicks import PlantedTruth
    from mlbench_dlrm_v2.mini_profile import MiniProfile

logger = logging.getLogger(__name__)

RECIPE = "mlbench_dlrm_v2.recipe"
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


def main() -> None:
    """Write the mini profile's files."""
    parser = argparse.ArgumentParser(prog=f"python -m {RECIPE}", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--steps", type=int, default=STEPS, help="training steps (default: %(default)s)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    profile = make_mini_profile(arguments.out, steps=arguments.steps)
    logger.info("AUC %.3f %%", profile.reference_auc)


def make_mini_profile(out: Path, *, steps: int = STEPS) -> MiniProfile:
    """Write all files of the mini profile to a folder and return what its `mini.toml` says."""
    from safetensors.torch import save

    from mlbench.toolkit import MiniFolder, write_mini
    from mlbench_dlrm_v2.clicks import PlantedTruth
    from mlbench_dlrm_v2.mini_profile import WEIGHTS, MiniProfile

    out.mkdir(parents=True, exist_ok=True)
    truth = PlantedTruth(SEED, ARCHITECTURE.table_rows, ARCHITECTURE.hot_sizes)
    (out / WEIGHTS).write_bytes(save(dict(train(truth, steps))))
    profile = MiniProfile(
        files=MiniFolder.of(out, [WEIGHTS]),
        reference_auc=math.nan,
        seed=SEED,
        rows=DAY_ROWS,
        architecture=ARCHITECTURE,
    )
    profile = replace(profile, reference_auc=reference_scores(profile)["AUC"])
    write_mini(profile, recipe=RECIPE)
    return profile


def train(truth: PlantedTruth, steps: int) -> Mapping[str, torch.Tensor]:
    """Train the network in one pass over fresh rows, on one thread, and return its state dict as fp16."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    from mlbench_dlrm_v2.graphs import new_network

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    network = new_network(ARCHITECTURE)
    optimiser = torch.optim.Adam(network.parameters(), lr=PEAK_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, total_steps=steps)
    for step, (dense, indices, labels) in enumerate(training_batches(truth, steps)):
        loss = binary_cross_entropy_with_logits(network(dense, indices), labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            logger.info("step %d of %d, loss %.3f", step, steps, loss.item())
    return {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}


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


def reference_scores(profile: MiniProfile) -> Mapping[str, float]:
    """Return the official scores of a profile's weights in torch, fp32, a sample at a time."""
    import torch

    from mlbench import LoggedReply, Weights
    from mlbench_dlrm_v2.accuracy import ClickAuc
    from mlbench_dlrm_v2.program import Ranking

    torch.set_num_threads(1)
    data, program, module = profile.dataset(), Ranking(), profile.graph(Weights.TRAINED).module()

    def execute(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        with torch.inference_mode():
            logits = module(torch.from_numpy(inputs["dense"]), torch.from_numpy(inputs["indices"]))
        return {"logits": logits.numpy()}

    replies = [
        LoggedReply(index=index, data=program.run([data.sample(index)], {"ranker": execute})[0].tobytes())
        for index in range(data.count)
    ]
    return ClickAuc(data.truth, reference=math.nan).score(replies)


if __name__ == "__main__":
    main()
