from pathlib import Path

import numpy as np
import pytest
import torch
from mlbench_dlrm_v2.architecture import Architecture
from mlbench_dlrm_v2.graphs import StateDict
from mlbench_dlrm_v2.program import join_indices

MINIATURE = Architecture(
    table_rows=(20, 3, 50, 7),
    hot_sizes=(3, 1, 5, 2),
    dimension=8,
    dense_layers=(12, 8),
    cross_rank=4,
    top_layers=(16, 12, 8, 1),
)
"""The sizes of the golden miniature model."""


class Miniature:
    """The golden miniature model: its weights under the official names, and inputs."""

    architecture = MINIATURE

    def __init__(self, folder):
        arrays = np.load(folder / "inputs.npz")
        self.state = {
            name.removeprefix("w:"): torch.from_numpy(arrays[name]) for name in arrays if name.startswith("w:")
        }
        self.source = StateDict(self.state, Path("inputs.npz"))
        self.inputs = {
            "dense": arrays["dense"],
            "indices": join_indices([[arrays[f"sparse_{number}"] for number in range(4)]]),
        }

    def logits(self, network):
        """What a network answers."""
        with torch.inference_mode():
            return network(*map(torch.from_numpy, self.inputs.values())).numpy()


@pytest.fixture
def miniature(golden):
    return Miniature(golden / "dcn_forward")
