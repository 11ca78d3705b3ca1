"""Hugging Face folders in the forms in which the official checkpoints are published, of the mini models' tensors."""

import io
import json

import torch
from safetensors.torch import save


def dealt(state, count):
    """Return the tensors of each shard, in order of their names, as `save_pretrained` deals them."""
    names = sorted(state)
    size = -(-len(names) // count)
    return [{name: state[name] for name in names[start : start + size]} for start in range(0, count * size, size)]


def safetensors_shards(state, count):
    """Return shards and their index, by name of the file: ``model-00001-of-00015.safetensors``."""
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    shards = dict(zip(names, dealt(state, count), strict=True))
    return {
        **{name: save(shard, metadata={"format": "pt"}) for name, shard in shards.items()},
        "model.safetensors.index.json": index_of(shards),
    }


def pickled_shards(state, count):
    """Return shards and their index, by name of the file: ``pytorch_model-00001-of-00003.bin``."""
    names = [f"pytorch_model-{number:05d}-of-{count:05d}.bin" for number in range(1, count + 1)]
    shards = dict(zip(names, dealt(state, count), strict=True))
    return {
        **{name: pickled(shard) for name, shard in shards.items()},
        "pytorch_model.bin.index.json": index_of(shards),
    }


def pickled(state):
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def index_of(shards):
    size = sum(tensor.numel() * tensor.element_size() for shard in shards.values() for tensor in shard.values())
    placed = {name: file for file, shard in shards.items() for name in shard}
    return json.dumps({"metadata": {"total_size": size}, "weight_map": placed}, indent=2).encode()
