"""Makes the mini profile: trains the network, measures it and writes the two files of `mini/`.

Run it as ``python recipe.py mini``. It is not part of the distribution: nobody needs it who runs the workload.
"""

from __future__ import annotations

import sys
from pathlib import Path

STEPS = 400


def make_mini_profile(out: Path) -> float:
    """Write the files to a folder, and return the score that becomes the reference."""
    import torch
    from mlbench_digits.dataset import HELD_OUT, TRAINING, digits
    from mlbench_digits.graphs import build_network
    from mlbench_digits.mini_profile import WEIGHTS, MiniProfile
    from safetensors.torch import save_file

    from mlbench.toolkit import MiniFolder, write_mini

    torch.set_num_threads(1)
    network = build_network()
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    pixels, labels = map(torch.from_numpy, digits(TRAINING))
    for _ in range(STEPS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(pixels), labels).backward()
        optimiser.step()
    pixels, labels = map(torch.from_numpy, digits(HELD_OUT))
    right: float = (network(pixels).argmax(axis=1) == labels).double().mean().item()
    out.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), out / WEIGHTS)
    profile = MiniProfile(files=MiniFolder.of(out, [WEIGHTS]), reference={"acc": 100 * right})
    write_mini(profile, recipe="recipe.py")
    return 100 * right


if __name__ == "__main__":
    sys.stdout.write(f"accuracy {make_mini_profile(Path(sys.argv[1])):.3f} %\n")
