import json
import os
import shutil
from itertools import pairwise

import numpy as np
import psutil
import pytest
import torch
import yaml
from mlbench_dlrm_v2 import graphs
from mlbench_dlrm_v2.architecture import Architecture
from mlbench_dlrm_v2.graphs import TABLE, build_network, new_network
from mlbench_dlrm_v2.snapshot import MANIFEST, Piece, Snapshot, read_snapshot

from mlbench import DataError

SNAPSHOTS = ["snapshot_two_ranks", "snapshot_chunked"]
ROW_BLOCKS, COLUMN_STRIPS = TABLE.format(2), TABLE.format(0)
"""How two tables of the first snapshot are cut."""


@pytest.fixture
def folder(golden, tmp_path):
    """A snapshot to break."""
    return shutil.copytree(golden / "snapshot_two_ranks", tmp_path / "model_weights")


def manifest_of(folder):
    return json.loads((folder / MANIFEST).read_text())


def changed(folder, change):
    """Apply a change to each entry of the manifest: it gets the tensor's name, and alters the entry or drops it."""
    document = manifest_of(folder)
    entries = document["manifest"].items()
    kept = {
        path: entry
        for path, entry in entries
        if change(path.rpartition("/")[2].removeprefix("model."), entry) is not False
    }
    (folder / MANIFEST).write_text(json.dumps({**document, "manifest": kept}))


@pytest.mark.parametrize("name", SNAPSHOTS)
@pytest.mark.parametrize("joined_bytes", [0, 2**30], ids=["tables in blocks", "tables joined"])
def test_a_real_snapshot_gives_the_references_logits(golden, miniature, name, joined_bytes, monkeypatch):
    monkeypatch.setattr(graphs, "LARGEST_JOINED_BYTES", joined_bytes)
    case = json.loads((golden / "dcn_forward" / "expected.json").read_text())
    network = build_network(miniature.architecture, read_snapshot(golden / name))
    np.testing.assert_allclose(miniature.logits(network), case["logits"], atol=case["tolerance"]["logits_abs"])


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_every_tensor_is_read_exactly(golden, miniature, name):
    snapshot = read_snapshot(golden / name)
    for tensor, expected in miniature.state.items():
        assert torch.equal(snapshot.tensor(tensor, tuple(expected.shape)), expected)


def test_the_older_manifest_in_yaml_reads_the_same(folder, miniature):
    (folder / MANIFEST).write_text(yaml.safe_dump(manifest_of(folder)))
    expected = miniature.state[ROW_BLOCKS]
    assert torch.equal(read_snapshot(folder).tensor(ROW_BLOCKS, (50, 8)), expected)


def test_a_bias_stored_as_a_column_is_a_bias(folder, miniature):
    def as_column(name, entry):
        if name.startswith("inter_arch.crossnet.bias"):
            entry["shape"] = [40, 1]

    changed(folder, as_column)
    name = "inter_arch.crossnet.bias.2"
    assert torch.equal(read_snapshot(folder).tensor(name, (40,)), miniature.state[name])


def test_numbers_that_begin_at_an_odd_byte_are_read(folder, miniature):
    def shift(name, entry):
        for part in [entry, *(shard["tensor"] for shard in entry.get("shards", []))]:
            if part.get("byte_range"):
                part["byte_range"] = [place + 1 for place in part["byte_range"]]

    changed(folder, shift)
    for file in (folder / "batched").iterdir():
        file.write_bytes(b"\0" + file.read_bytes())
    strips = read_snapshot(folder).strips(COLUMN_STRIPS, (20, 8))
    assert torch.equal(torch.cat([block for (block,) in strips], dim=1), miniature.state[COLUMN_STRIPS])
    assert all(block.data_ptr() % 4 == 0 for (block,) in strips)


def test_blocks_of_rows_and_columns_in_any_order_make_up_a_tensor(tmp_path):
    whole = np.arange(24, dtype="<f4").reshape(4, 6)
    pieces = []
    for number, (row, column) in enumerate([(2, 4), (0, 0), (3, 0), (0, 4)]):
        block = whole[row : 3 if (row, column) == (0, 0) else row + 2, column : 4 if column == 0 else 6]
        (tmp_path / str(number)).write_bytes(block.tobytes())
        pieces.append(Piece(file=tmp_path / str(number), first_byte=0, offsets=(row, column), sizes=block.shape))
    snapshot = Snapshot(folder=tmp_path, pieces={"table": pieces}, fingerprint="")
    assert snapshot.tensor("table", (4, 6)).numpy().tolist() == whole.tolist()


def test_writing_to_a_tensor_leaves_the_file_alone(folder, miniature):
    (blocks,) = read_snapshot(folder).strips(ROW_BLOCKS, (50, 8))
    blocks[0].fill_(7)
    assert torch.equal(read_snapshot(folder).tensor(ROW_BLOCKS, (50, 8)), miniature.state[ROW_BLOCKS])


def test_the_fingerprint_is_the_manifests(golden, folder):
    before = read_snapshot(folder).fingerprint
    assert before != read_snapshot(golden / "snapshot_chunked").fingerprint
    changed(folder, lambda name, entry: None)
    (folder / MANIFEST).write_text((folder / MANIFEST).read_text() + " ")
    assert read_snapshot(folder).fingerprint != before


def drop(name):
    return lambda folder: changed(folder, lambda found, _: found != name)


def drop_last_shard(folder):
    def drop_rows(name, entry):
        if name == ROW_BLOCKS:
            entry["shards"] = [shard for shard in entry["shards"] if shard["offsets"][0] == 0]

    changed(folder, drop_rows)


def overlap(folder):
    def shift(name, entry):
        for shard in entry.get("shards", []):
            if name == ROW_BLOCKS and shard["offsets"][0]:
                shard["offsets"][0] -= 1

    changed(folder, shift)


def change_dtype(folder):
    def halve(name, entry):
        if name == "over_arch.model.1.bias":
            entry["dtype"] = "torch.float16"

    changed(folder, halve)


def change_range(folder):
    def lengthen(name, entry):
        if name == "over_arch.model.1.bias":
            entry["byte_range"][1] += 4

    changed(folder, lengthen)


def change_range_to_fractions(folder):
    def shrink(name, entry):
        if name == "over_arch.model.1.bias":
            entry["byte_range"] = [1e-320, entry["byte_range"][1] - entry["byte_range"][0]]

    changed(folder, shrink)


BROKEN = {
    "a byte that is not a whole number": (change_range_to_fractions, "is not a snapshot's manifest"),
    "no manifest": (
        lambda f: (f / MANIFEST).unlink(),
        r"manifest cannot be read: .*model_weights/\.snapshot_metadata: No such file",
    ),
    "an empty manifest": (lambda f: (f / MANIFEST).write_text(""), "is not a snapshot's manifest"),
    "a list": (lambda f: (f / MANIFEST).write_text("[]"), "is not a snapshot's manifest"),
    "neither JSON nor YAML": (lambda f: (f / MANIFEST).write_text("{a: [b"), "is not a snapshot's manifest"),
    "a tensor missing": (drop(ROW_BLOCKS), "the checkpoint lacks .*t_cat_2.weight"),
    "a shard missing": (drop_last_shard, r"does not contain all of .*t_cat_2\.weight, \(50, 8\), once"),
    "shards that overlap": (overlap, r"does not contain all of .*t_cat_2\.weight, \(50, 8\), once"),
    "another dtype": (change_dtype, r"over_arch\.model\.1\.bias is stored as torch\.float16 by buffer_protocol"),
    "a range of another size": (change_range, r"over_arch\.model\.1\.bias has 8 bytes for \(1,\)"),
    "a file missing": (lambda f: shutil.rmtree(f / "sharded"), "is missing or cut short: .*No such file"),
    "a file cut short": (
        lambda f: [file.write_bytes(file.read_bytes()[:-1]) for file in (f / "batched").iterdir()],
        "is missing or cut short",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_snapshot_is_named_in_one_line(folder, miniature, case):
    breaks, complaint = BROKEN[case]
    breaks(folder)
    with pytest.raises(DataError, match=complaint) as caught:
        build_network(miniature.architecture, read_snapshot(folder))
    assert "\n" not in str(caught.value)


def write_official_snapshot(folder, *, ranks=8, block_rows=2**20):
    """A snapshot of the official sizes, all zeros: sparse files, tables cut by rank and then into blocks of 512 MiB."""
    with torch.device("meta"):
        state = new_network(Architecture()).state_dict()
    manifest = {}
    for name, tensor in state.items():
        rows = len(tensor)
        cuts = [0, rows]
        if name.startswith("sparse_arch."):
            starts = [rank * -(-rows // ranks) for rank in range(ranks)]
            cuts = sorted(
                {min(rows, start + cut) for start in starts for cut in range(0, -(-rows // ranks), block_rows)} | {rows}
            )
        shards = []
        for start, end in pairwise(cuts):
            shape = [end - start, *tensor.shape[1:]]
            location = f"sharded/{name}_{start}"
            entry = {"location": location, "serializer": "buffer_protocol", "dtype": "torch.float32", "shape": shape}
            shards.append({"offsets": [start] + [0] * (tensor.dim() - 1), "sizes": shape, "tensor": entry})
            (folder / location).touch()
            os.truncate(folder / location, 4 * np.prod(shape, dtype=np.int64))
        manifest[f"0/model/model.{name}"] = {"type": "ShardedTensor", "shards": shards}
    (folder / MANIFEST).write_text(json.dumps({"version": "0.1.0", "world_size": ranks, "manifest": manifest}))


@pytest.mark.slow
def test_the_official_checkpoint_is_ready_without_being_copied(tmp_path):
    (tmp_path / "sharded").mkdir()
    write_official_snapshot(tmp_path)
    process = psutil.Process()
    before = process.memory_info().rss
    network = build_network(Architecture(), read_snapshot(tmp_path))
    indices = torch.tensor(
        [
            [
                rows - 1
                for rows, size in zip(Architecture().table_rows, Architecture().hot_sizes, strict=True)
                for _ in range(size)
            ]
        ]
    )
    with torch.inference_mode():
        assert network(torch.ones(1, 13), indices.to(torch.int32)).tolist() == [0]
    assert process.memory_info().rss - before < 2**30  # of 97 GiB
