"""The settings of the vLLM backend: vLLM's own, under its own names where these are clear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from mlbench import OPENS_ADDRESS, Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Options of the vLLM backend."""

    tensor_parallel: Annotated[int, Ge(1), Le(4096)] = 1
    """Number of devices that share each layer."""
    pipeline_parallel: Annotated[int, Ge(1), Le(4096)] = 1
    """Number of groups of devices that each hold a part of the layers."""
    quantization: str = ""
    """Format of the stored weights, by vLLM's name: ``awq``, ``gptq``, ``fp8``; empty: the checkpoint's."""
    kv_cache_dtype: str = "auto"
    """Format of the key-value cache, by vLLM's name: ``fp8``; ``auto``: the precision of the model."""
    max_num_seqs: Annotated[int, Ge(0), Lt(2**31), Tunable((32, 64, 128, 256, 512, 1024), programs="generation")] = 0
    """Most sequences in flight; 0: vLLM's choice for the device."""
    max_num_batched_tokens: Annotated[
        int, Ge(0), Lt(2**31), Tunable((1024, 2048, 4096, 8192, 16384), programs="generation")
    ] = 0
    """Most tokens of prompts and answers in one step; 0: vLLM's choice for the device."""
    gpu_memory_utilization: Annotated[float, Gt(0), Le(1)] = 0.9
    """Share of a device's memory for weights and cache; on a CPU see ``kv_cache_gib``."""
    kv_cache_gib: Annotated[float, Ge(0), Lt(2**20)] = 0.0
    """Memory for the key-value cache of each device; 0: the rest of ``gpu_memory_utilization``, and 4 on a CPU."""
    enforce_eager: bool = False
    """Turn off compiling and CUDA graphs: a faster start, slower steps."""
    distributed_executor: Annotated[Literal["auto", "mp", "ray"], OPENS_ADDRESS] = "auto"
    """Executor of the devices' processes: ``mp`` on one machine, ``ray`` on several, in an existing Ray cluster."""
