"""The settings of the vLLM backend: vLLM's own, by its own names where these say what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from mlbench import OPENS_ADDRESS, Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """What can be set on the vLLM backend."""

    tensor_parallel: Annotated[int, Ge(1), Le(4096)] = 1
    """Into how many devices each layer is divided."""
    pipeline_parallel: Annotated[int, Ge(1), Le(4096)] = 1
    """Into how many groups of devices the layers are divided, one after the other."""
    quantization: str = ""
    """How weights are stored, by vLLM's name: ``awq``, ``gptq``, ``fp8``; empty: as the checkpoint says."""
    kv_cache_dtype: str = "auto"
    """What the key-value cache is stored in, by vLLM's name: ``fp8``; ``auto``: what the model computes in."""
    max_num_seqs: Annotated[int, Ge(0), Lt(2**31), Tunable((32, 64, 128, 256, 512, 1024), programs="generation")] = 0
    """Sequences in flight at most; 0: vLLM's choice for the device."""
    max_num_batched_tokens: Annotated[
        int, Ge(0), Lt(2**31), Tunable((1024, 2048, 4096, 8192, 16384), programs="generation")
    ] = 0
    """Tokens of prompts and answers in one step at most; 0: vLLM's choice for the device."""
    gpu_memory_utilization: Annotated[float, Gt(0), Le(1)] = 0.9
    """The share of a device's memory that weights and cache may take; on a CPU see ``kv_cache_gib``."""
    kv_cache_gib: Annotated[float, Ge(0), Lt(2**20)] = 0.0
    """Memory for the key-value cache, for each device; 0: what ``gpu_memory_utilization`` leaves, and 4 on a CPU."""
    enforce_eager: bool = False
    """Compile nothing and record no CUDA graphs: a faster start, slower steps."""
    distributed_executor: Annotated[Literal["auto", "mp", "ray"], OPENS_ADDRESS] = "auto"
    """What runs the devices' processes: ``mp``, on one machine; ``ray``, on several, in a Ray cluster that is there."""
