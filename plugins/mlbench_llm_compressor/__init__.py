"""Transforms that quantise the weights of a language model by llm-compressor, for engines that load a folder."""

from __future__ import annotations

from mlbench import Transform, hookimpl


@hookimpl
def mlbench_transforms() -> list[Transform]:
    """Return a transform for each method."""
    from mlbench_llm_compressor.transforms import Awq, Fp8, Gptq, SmoothQuant

    return [Gptq(), Awq(), SmoothQuant(), Fp8()]
