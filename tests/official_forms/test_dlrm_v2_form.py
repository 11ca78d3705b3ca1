"""DLRM-DCN from a torchsnapshot of two ranks, and a day of clicks as three files of arrays."""

import json
from dataclasses import fields
from pathlib import Path

import mlbench_dlrm_v2
import pytest
from mlbench_dlrm_v2.day_files import DENSE, HOT, LABELS, write_day
from mlbench_dlrm_v2.graphs import TABLE
from mlbench_dlrm_v2.mini_profile import MiniProfile
from mlbench_dlrm_v2.snapshot import KEY, MANIFEST, WRAPPER
from mlbench_dlrm_v2.workload import DlrmV2
from safetensors.torch import load_file
from small_sets import SmallSet

MINI = Path(mlbench_dlrm_v2.__file__).parent / "mini"
ROWS = 24_000
BATCHED = "batched/1eb3adc8-ac96-410f-842f-809ac1f9a38f"


def part_of(tensor, location, first_byte=None):
    size = 4 * tensor.numel()
    return {
        "type": "Tensor",
        "location": location,
        "serializer": "buffer_protocol",
        "dtype": "torch.float32",
        "shape": list(tensor.shape),
        "replicated": False,
        "byte_range": None if first_byte is None else [first_byte, first_byte + size],
    }


def snapshot(state):
    """Return the files of a torchsnapshot: tables in blocks of rows, one for each rank, and all else in one file."""
    tables = {TABLE.format(number) for number in range(26)}
    manifest, files, batched = {}, {}, b""
    for name, tensor in state.items():
        if name not in tables:
            manifest[f"0/{KEY}/{WRAPPER}{name}"] = part_of(tensor, BATCHED, len(batched))
            batched += tensor.numpy().tobytes()
            continue
        first = 0
        for rank, block in enumerate(tensor.chunk(2)):
            location = f"sharded/{KEY}/{WRAPPER}{name}_{first}_0"
            shard = {"offsets": [first, 0], "sizes": list(block.shape), "tensor": part_of(block, location)}
            manifest[f"{rank}/{KEY}/{WRAPPER}{name}"] = {"type": "ShardedTensor", "shards": [shard]}
            files[location] = block.numpy().tobytes()
            first += len(block)
    document = {"version": "0.1.0", "world_size": 2, "manifest": manifest}
    return {MANIFEST: json.dumps(document).encode(), BATCHED: batched, **files}


def make_small_set(folder):
    mini = MiniProfile.shipped()
    write_day(folder, mini.truth().day(ROWS))
    day = {name: (folder / name).read_bytes() for name in (DENSE, LABELS, HOT)}
    state = {name: tensor.float() for name, tensor in load_file(MINI / "weights.safetensors").items()}
    sizes = {field.name: getattr(mini.architecture, field.name) for field in fields(mini.architecture)}
    architecture = "".join(f"{name} = {json.dumps(size)}\n" for name, size in sizes.items())
    return SmallSet(
        workload=DlrmV2(),
        contents={"model/weights": snapshot(state), "data/preprocessed": {"README.txt": b"A day of clicks.\n", **day}},
        smaller=f"rows = {ROWS}\n[architecture]\n{architecture}[reference]\nAUC = {mini.reference['AUC']}\n",
    )


@pytest.mark.thorough("official forms")
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_clicks_are_predicted_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full, backend):
    record, _ = run_full("dlrm-v2", backend)
    assert record.accuracy.scores["AUC"] == pytest.approx(82.09, abs=1)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert f"rows {ROWS}, not 178274637" in said.measured
    assert not record.verdict.is_conformant
