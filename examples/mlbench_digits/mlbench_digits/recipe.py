"""Makes the mini profile: trains the network, measures it and writes the two files of `mini/`.

Run it as ``python -m mlbench_digits.recipe mini``.
"""

from __future__ import annotations

import sys
from pathlib import Path

STEPS = 400


def make_mini_profile(out: Path) -> float:
    """Write the files to a folder, and return the score that becomes the reference."""
    import torch
    from safetensors.torch import save_file

    from mlbench.toolkit import file_sha256
    from mlbench_digits.dataset import HELD_OUT, TRAINING, digits
    from mlbench_digits.graphs import build_network

    torch.set_num_threads(1)
    network = build_network()
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    pixels, labels = map(torch.from_numpy, digits(TRAINING))
    for _ in range(STEPS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(pixels), labels).backward()
        optimiser.step()
    pixels, labels = map(torch.from_numpy, digits(HELD_OUT))
    top1: float = 100 * (network(pixels).argmax(axis=1) == labels).double().mean().item()
    out.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), out / "weights.safetensors")
    sha256 = file_sha256(out / "weights.safetensors")
    (out / "mini.toml").write_text(
        f'# Written by mlbench_digits.recipe.\nreference_top1 = {top1}\nweights_sha256 = "{sha256}"\n', encoding="utf-8"
    )
    return top1


if __name__ == "__main__":
    sys.stdout.write(f"top-1 {make_mini_profile(Path(sys.argv[1])):.3f} %\n")
