"""vLLM's asynchronous engine, as an engine of mlbench: token ids in, token ids out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from mlbench import Decoding, EngineStatistics, Model, Precision, Prompt, UsageError
from mlbench.toolkit import AsyncGenerationEngine, first_line
from mlbench_vllm.options import VllmOptions

DTYPES = {Precision.BF16: "bfloat16", Precision.FP16: "float16", Precision.FP32: "float32"}

OF_ITSELF = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
"""Environment that turns off vLLM's usage reports and requests to the hub."""

GIB = 2**30


class VllmEngine(AsyncGenerationEngine):
    """Passes prompts to vLLM, which computes the model in processes of its own."""

    name = "vllm"

    def __init__(self, model: Model, precision: Precision, options: VllmOptions) -> None:
        """Have vLLM check its configuration; nothing is loaded.

        Raises:
            UsageError: vLLM does not support the model, or refuses an option.
        """
        super().__init__(model)
        self._config = vllm_config(self.folder, precision, self.program.decoding.longest, options)
        self._numbers = count()

    async def open(self) -> None:
        """Start vLLM's processes, which load the model."""
        from vllm.v1.engine.async_llm import AsyncLLM

        self._sampling = sampling(self.program.decoding)
        self._llm = AsyncLLM.from_vllm_config(self._config, disable_log_stats=True)

    async def close(self) -> None:
        """End vLLM's processes."""
        self._llm.shutdown()

    async def generate(self, prompt: Prompt) -> AsyncIterator[Sequence[int]]:
        """Yield tokens as vLLM does; if the generator is closed early, vLLM aborts the request."""
        asked = {"type": "token", "prompt_token_ids": prompt.tokens.tolist()}
        async with aclosing(self._llm.generate(asked, self._sampling, str(next(self._numbers)))) as parts:
            async for part in parts:
                yield part.outputs[0].token_ids

    def statistics(self) -> EngineStatistics:
        """Return counts, and vLLM's choices where the options left them open."""
        found, config = super().statistics(), self._config
        chosen = {
            "max_num_seqs": config.scheduler_config.max_num_seqs,
            "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
            "kv_cache_dtype": str(config.cache_config.cache_dtype),
            "quantization": str(config.model_config.quantization or ""),
        }
        return replace(found, extra={**found.extra, **chosen})


def vllm_config(folder: Path, precision: Precision, longest: int, options: VllmOptions) -> Any:
    """Return vLLM's whole configuration.

    Args:
        folder: a Hugging Face directory.
        precision: of the computation.
        longest: tokens of prompt and answer together.
        options: the user's.

    Raises:
        UsageError: vLLM refuses a value.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in OF_ITSELF.items()})
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform

    kv_cache_gib = options.kv_cache_gib or (4 if current_platform.is_cpu() else 0)
    executor = options.distributed_executor
    try:
        return AsyncEngineArgs(
            model=str(folder),
            dtype=DTYPES[precision],
            max_model_len=longest,
            skip_tokenizer_init=True,
            generation_config="vllm",  # the workload's rules decide, not the folder's
            enable_prefix_caching=False,  # no query may profit from another
            tensor_parallel_size=options.tensor_parallel,
            pipeline_parallel_size=options.pipeline_parallel,
            quantization=options.quantization or None,
            kv_cache_dtype=options.kv_cache_dtype,
            max_num_seqs=options.max_num_seqs or None,
            max_num_batched_tokens=options.max_num_batched_tokens or None,
            gpu_memory_utilization=options.gpu_memory_utilization,
            kv_cache_memory_bytes=int(kv_cache_gib * GIB) or None,
            enforce_eager=options.enforce_eager,
            distributed_executor_backend=None if executor == "auto" else executor,
            disable_log_stats=True,
        ).create_engine_config()
    except (ValueError, TypeError, KeyError, ImportError) as error:  # as it validates what it is given
        raise UsageError(
            f"vLLM refuses its settings: {_reason(error)}", hint="See plugins/mlbench_vllm/README.md."
        ) from None


def _reason(error: Exception) -> str:
    """Return vLLM's message, without pydantic's frame."""
    details: list[Any] = getattr(error, "errors", list)()
    return str(details[0]["msg"]).removeprefix("Value error, ") if details else first_line(error)


def sampling(decoding: Decoding) -> Any:
    """Return the rules of decoding in vLLM's form: greedy, with these end tokens and no others."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0,
        max_tokens=decoding.max_new_tokens,
        min_tokens=decoding.min_new_tokens,
        stop_token_ids=list(decoding.end_tokens),
        ignore_eos=True,  # that of the folder
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
