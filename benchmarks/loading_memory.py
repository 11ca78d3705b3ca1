"""How much memory reading a language model in bf16 takes at most, in shares of the size of its weights.

``python benchmarks/loading_memory.py --gigabytes 4`` writes a Llama with random weights in bf16, in shards of a
gigabyte, reads it in a fresh process as the backend `pytorch` does, looks at every weight, and prints the peak of the
memory that this process holds itself (RssAnon) and of all that is mapped into it, files included (VmHWM), less what it
held before.
Exit status 1 where the second is more than 1.15 times the size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL = 1.15
WIDTH, HEADS, VOCABULARY = 4096, 32, 32000
LAYER_VALUES = 4 * WIDTH * WIDTH + 3 * WIDTH * 11008 + 2 * WIDTH

READ = """
import sys, time
from pathlib import Path
import torch
import transformers.models.llama.modeling_llama
from mlbench import Precision
from mlbench_llama2_70b.graphs import NETWORK

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

print(status("RssAnon"), flush=True)
began = time.monotonic()
network = NETWORK.trained(Path(sys.argv[1]), Precision(sys.argv[2]))
for parameter in network.parameters():
    parameter.sum()  # what is mapped from a file is read when it is used
print(time.monotonic() - began, status("RssAnon"), status("VmHWM"), flush=True)
sys.stdin.read()
"""


def write_model(folder: Path, gigabytes: float) -> int:
    """Write the model, and return the size of its weights in bytes."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    layers = max(1, round((gigabytes * 1e9 / 2 - 2 * VOCABULARY * WIDTH) / LAYER_VALUES))
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=HEADS, dtype="bfloat16"
    )
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {name: each.shape for name, each in LlamaForCausalLM(config).state_dict().items()}
    placed: dict[str, str] = {}
    shard: dict[str, torch.Tensor] = {}
    count = size = 0

    def store() -> None:
        nonlocal count
        count += 1
        name = f"model-{count:05d}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        placed.update(dict.fromkeys(shard, name))
        shard.clear()

    for name, shape in shapes.items():
        shard[name] = torch.randn(shape, dtype=torch.bfloat16) * 0.02
        size += shard[name].numel() * 2
        if sum(each.numel() for each in shard.values()) * 2 > 1e9:
            store()
    store()
    index = {"metadata": {"total_size": size}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return size


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], default="bf16")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        size = write_model(Path(name), asked.gigabytes)
        reading = subprocess.Popen(
            [sys.executable, "-c", READ, name, asked.precision],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert reading.stdin and reading.stdout
        before = int(reading.stdout.readline())
        peak = before
        while not (done := _line(reading)):
            peak = max(peak, _anonymous(reading.pid))
            time.sleep(0.005)
        seconds, ended, mapped = done.split()
        reading.communicate()
    peak = max(peak, int(ended))
    own, held, every = ((each - before) / size for each in (peak, int(ended), int(mapped)))
    print(f"{size / 1e9:.2f} GB of bf16 weights read as {asked.precision} in {float(seconds):.1f} s")
    print(f"own memory at most {own:.3f} of their size, {held:.3f} in the end")
    print(f"with the files that are mapped at most {every:.3f} (goal {GOAL})")
    return 0 if every <= GOAL else 1


def _line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process wrote, if there is one yet."""
    import select

    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], 0)
    return process.stdout.readline() if ready else ""


def _anonymous(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


if __name__ == "__main__":
    sys.exit(main())
